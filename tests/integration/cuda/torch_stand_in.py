#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For script/lib/memory_rows.py on machines without PyTorch: speaks as bench/torch_memory.py and torch_decode.py do, and uses
no device."""
import json
import sys
import time


def main():
    what = sys.argv[1]
    print("ready" if what == "decode" else "ready 0 4", flush=True)
    for line in sys.stdin:
        command, *numbers = line.split()
        n = list(map(int, numbers))
        if command == "go":
            time.sleep(max(0, (n[1] - time.monotonic_ns()) / 1e9))
            said = {"took_us": [1000.0 + k for k in range(50)]}
        elif command == "steps":
            time.sleep(0.002 * n[0])
            said = {"s": 0.002 * n[0], "losses": [1.0 / (k + 1) for k in range(n[0])]}
        else:
            said = {"first_ms": 3.0, "ms": 5.0, "tokens": [n[0]] * n[1]}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
