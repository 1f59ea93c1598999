#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""each call of the AscendCL shim's table, by a program over a library that looks at what it is given: the library gets the
program's arguments, once, the program what the library returns, and each command is counted."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Fermata, check, eventually, main, need_cuda_shim, program, shim_env


def rows(stack):
    need_cuda_shim()
    fermata = Fermata(stack)
    recorder = os.path.join(os.environ["BUILD"], "tests", "fakes", "acl_recorder")
    fermata.env = shim_env({**fermata.env, "FERMATA_ACL": "1", "LD_LIBRARY_PATH": recorder})
    p = fermata.program([program("acl_table")])
    commands = int(p.line("commands").split()[1])
    eventually("each command is counted once", lambda: fermata.stats()["governed"] == commands)
    check(fermata.stats()["ungoverned"] == 0, "some went past the shim")
    p.tell("")
    status = p.wait()
    p.reader.join()
    lines = [line for line in p.lines if line]
    check(status == 0, "\n".join(lines))
    check(int(lines[-1].split()[1]) > 8000, lines[-1])


main(rows)
