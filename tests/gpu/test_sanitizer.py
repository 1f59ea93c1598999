#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer finds in a program under `fermata run` what it finds natively: the same leaks, and nothing else. The program
is built here, where nvcc is."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import Fermata, Skip, check, main

HERE = os.path.dirname(os.path.abspath(__file__))
ENDS = ((), ("reset",))
WAYS = ((), ("--guardian",), ("--level", "1"))


def tool(name):
    """On the path, or where the toolkit is usually."""
    found = shutil.which(name) or next((p for d in ("bin", "compute-sanitizer") if os.access(
        p := os.path.join("/usr/local/cuda", d, name), os.X_OK)), None)
    if not found:
        raise Skip(f"there is no {name}")
    return found


def built(stack):
    nvcc, folder = tool("nvcc"), stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-sanitizer-"))
    path = os.path.join(folder, "sanitizer")
    subprocess.run([nvcc, "-O2", "-arch=native", "-cudart=static", "-o", path, os.path.join(HERE, "sanitizer.cu")], check=True)
    return path


def said(argv, env=None):
    """What the tool has found, and the program's own line."""
    r = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    out = r.stdout + r.stderr
    check(re.search(r"^last ", out, re.M), f"{argv}: the program did not come to its end: {out[-2000:]}")
    found = sorted(re.findall(r"Leaked [\d,]+ bytes", out))
    rest = re.findall(r"^=+ ((?:LEAK|ERROR) SUMMARY.*|Invalid .*|Program hit .*)$", out, re.M)
    return found, rest, re.findall(r"^last .*", out, re.M), out


def leaks(stack):
    sanitizer, path = tool("compute-sanitizer"), built(stack)
    for end in ENDS:
        argv = [sanitizer, "--leak-check", "full", path, *end]
        *native, text = said(argv)
        if re.search(r"not supported|Unable to", text) or not native[0]:
            raise Skip(f"compute-sanitizer finds no leak here natively: {text[-300:]}")
        for options in WAYS:
            fermata = Fermata(stack)
            *ours, text = said(fermata.run_argv(argv, *options), fermata.env)
            check(ours == native, f"{end} {options}: {ours[:2]}, natively {native[:2]}:\n{text[-6000:]}")
            check(fermata.stats()["governed"] > 50, f"{end} {options}: the program was not governed: {fermata.stats()}")
            fermata.stop()
        print(f"         {' '.join(end) or 'as it is'}: {', '.join(native[0])}")


if __name__ == "__main__":
    main(leaks)
