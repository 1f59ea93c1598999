#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each call of the Level Zero shim's table, by a program over a loader that looks at what it is given: the loader gets the program's
arguments, once, the program what the loader returns, and each command is counted."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, SANITIZE, Fermata, Skip, check, eventually, main, program, runtime, shim_env


def rows(stack):
    if not os.path.exists(os.path.join(BUILD, "lib", "libfermata-ze.so")):
        raise Skip("the shim for Level Zero is not built")
    if SANITIZE and not runtime():
        raise Skip("only the address sanitizer's library can come before what is preloaded")
    fermata = Fermata(stack)
    recorder = os.path.join(BUILD, "tests", "fakes", "ze_recorder")
    fermata.env = shim_env({**fermata.env, "FERMATA_LEVEL_ZERO": "1", "LD_LIBRARY_PATH": recorder})
    p = fermata.program([program("ze_table")])
    commands = int(p.line("commands").split()[1])
    eventually("each command is counted once", lambda: fermata.stats()["governed"] == commands)
    check(fermata.stats()["ungoverned"] == 0, "some went past the shim")
    p.tell("")
    status = p.wait()
    p.reader.join()
    lines = [line for line in p.lines if line]
    check(status == 0, "\n".join(lines))
    check(int(lines[-1].split()[1]) > 300, lines[-1])


main(rows)
