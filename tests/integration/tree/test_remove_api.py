#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A device API is a folder and a name in a list: a copy of the tree without src/api/cuda and that name builds, and all other
tests pass. It builds everything anew and runs nearly all tests, so it is for script/test --long."""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import Skip, check, main

SOURCE = os.environ["SOURCE"]
# These are of the whole tree: what is installed, what documents name, and the shim of CUDA for another processor.
EXCEPT = "soak|test_remove_api|test_install|test_docs|test_arm64"


def run(log, *argv, cwd):
    with open(log, "w", encoding="utf-8") as f:
        status = subprocess.run(argv, cwd=cwd, stdout=f, stderr=subprocess.STDOUT, check=False).returncode
    if status:
        with open(log, encoding="utf-8", errors="replace") as f:
            check(False, f"{' '.join(argv[:3])}: status {status}:\n{''.join(f.readlines()[-60:])}")


def copy_without(tree, api):
    for name in os.listdir(SOURCE):
        if name != ".git" and not name.startswith("build"):
            place = os.path.join(SOURCE, name)
            (shutil.copytree if os.path.isdir(place) else shutil.copy)(place, os.path.join(tree, name))
    shutil.rmtree(os.path.join(tree, "src", "api", api))
    path = os.path.join(tree, "CMakeLists.txt")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(f"FERMATA_APIS {api} ", "FERMATA_APIS ", 1))
    with open(path, encoding="utf-8") as f:
        check(f.read() != text, "the list of APIs does not begin with it")


def the_tree_without_cuda_builds_and_passes(stack):
    if os.environ.get("FERMATA_TEST_LONG") != "1":
        raise Skip("builds all anew: script/test --long")
    with tempfile.TemporaryDirectory() as tree:
        copy_without(tree, "cuda")
        log = os.path.join(tree, "log")
        run(log, "cmake", "--preset", "release", cwd=tree)
        run(log, "cmake", "--build", "--preset", "release", cwd=tree)
        check("libfermata-cuda.so" not in os.listdir(os.path.join(tree, "build", "lib")), "CUDA's shim was built")
        env = "unset BUILD SOURCE SANITIZE FERMATA_TEST_LONG; exec"
        run(log, "sh", "-c", f"{env} ctest --test-dir build -j2 --output-on-failure --timeout 1200 -E '{EXCEPT}'", cwd=tree)


main(the_tree_without_cuda_builds_and_passes)
