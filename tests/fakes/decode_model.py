# SPDX-License-Identifier: Apache-2.0
"""In place of bench/torch_decode.py: it does nothing, and answers at once with what it would have taken, alone or not."""
import json
import sys

US, PAUSE_US, STEP_US = 1300, 200, 50000


def main():
    print("ready", flush=True)
    for line in sys.stdin:
        begin, end, pause_us = map(int, line.split()[1:])
        us = US + (pause_us or PAUSE_US)
        n = (end - begin) // 1000 // us
        tokens = {"tokens": n, "s": n * us / 1e6, "us": [us] * n, "took_us": [US] * n}
        print(json.dumps(tokens if sys.argv[1] == "decode" else {"steps": (end - begin) / 1e3 / STEP_US, "s": (end - begin) / 1e9}), flush=True)


main()
