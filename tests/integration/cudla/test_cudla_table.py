#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each call of the cuDLA shim's table, by a program over a library that looks at what it is given: the library gets the program's
arguments, once, the program what the library returns, and each command is counted."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, SANITIZE, Fermata, Skip, check, eventually, main, program, runtime, shim_env


def rows(stack):
    if not os.path.exists(os.path.join(BUILD, "lib", "libfermata-cudla.so")):
        raise Skip("the shim for cuDLA is not built")
    if SANITIZE and not runtime():
        raise Skip("only the address sanitizer's library can come before what is preloaded")
    fermata = Fermata(stack)
    recorder = os.path.join(BUILD, "tests", "fakes", "cudla_recorder")
    fermata.env = shim_env({**fermata.env, "FERMATA_CUDLA": "1", "FERMATA_CUDA": "0", "LD_LIBRARY_PATH": recorder})
    p = fermata.program([program("cudla_table")])
    _, commands, _, strangers = p.line("commands").split()
    eventually("each command is counted once", lambda: fermata.stats()["governed"] == int(commands))
    eventually("so is each with a handle that nobody knows", lambda: fermata.stats()["ungoverned"] == int(strangers))
    p.tell("")
    status = p.wait()
    p.reader.join()
    lines = [line for line in p.lines if line]
    check(status == 0, "\n".join(lines))
    check(int(lines[-1].split()[1]) > 10, lines[-1])


main(rows)
