#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A policy is one file and one line: the example of docs/writing-a-policy.md is added to a copy of the tree, and is in every
command and both completions then. Only the module of policies is compiled anew: nothing else may have to know."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))
import harness  # noqa: E402
from harness import BUILD, Fermata, Skip, check, eventually, lib_client, main, need  # noqa: E402

SOURCE = os.environ["SOURCE"]
SAID = ("CMAKE_BUILD_TYPE", "CMAKE_C_COMPILER", "CMAKE_C_FLAGS.*", "FERMATA_SANITIZE", "FERMATA_COVERAGE", "FERMATA_FUZZ")
SUMMARY = "the group that became ready last runs"
COMPLETE = """source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
"_${1//-/_}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
# What zsh's own functions would be given, without a terminal: the arguments are described, and not shown.
DESCRIBE = """_describe() { print -l -- ${(P)4} }
source =(sed -e '/^_fermata "\\$@"$/d' "$1")
$2
"""


def run(*argv, **more):
    r = subprocess.run(argv, text=True, capture_output=True, timeout=600, **more)
    check(r.returncode == 0, f"{argv}: status {r.returncode}:\n{r.stdout}{r.stderr}")
    return r.stdout


def example():
    """The whole policy that the document shows."""
    with open(os.path.join(SOURCE, "docs", "writing-a-policy.md"), encoding="utf-8") as f:
        return re.search(r"^```c\n(.*?)^```$", f.read(), re.M | re.S).group(1)


def copy_with_it(tree):
    for name in os.listdir(SOURCE):
        if name not in (".git", "tests", "bench") and not name.startswith("build"):
            place = os.path.join(SOURCE, name)
            (shutil.copytree if os.path.isdir(place) else shutil.copy)(place, os.path.join(tree, name))
    folder = os.path.join(tree, "src", "policy")
    with open(os.path.join(folder, "lifo.c"), "w", encoding="utf-8") as f:
        f.write(example())
    with open(os.path.join(folder, "policies.c"), "r+", encoding="utf-8") as f:
        text = f.read()
        added = text.replace("\tX(fifo) ", "\tX(fifo) \\\n\tX(lifo) ", 1)
        check(added != text, "the list of policies is another one")
        f.seek(0)
        f.write(added)


def module(tree, build):
    """The module of policies, configured as this build is."""
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as f:
        cache = re.findall(r"^([A-Z_]+):[A-Z]+=(.*)$", f.read(), re.M)
    said = [f"-D{k}={v}" for k, v in cache if re.fullmatch("|".join(SAID), k)]
    run("cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DFERMATA_TESTS=OFF", "-DFERMATA_BENCH=OFF", *said)
    run("cmake", "--build", build, "--target", "fm_policy")
    return os.path.join(build, "lib", "libfm_policy.a")


def link(archive, to):
    """The programs of this build, with another module of policies."""
    os.mkdir(to)
    for program in glob.glob(os.path.join(BUILD, "bin", "*")):
        name = os.path.basename(program)
        command = run("ninja", "-C", BUILD, "--quiet", "-t", "commands", f"bin/{name}").splitlines()[-1]
        if "lib/libfm_policy.a" in command:
            command = command.replace("lib/libfm_policy.a", archive).replace(f"-o bin/{name}", f"-o {to}/{name}")
            run("sh", "-c", command, cwd=BUILD)
    return to


def completed(bin_, program, *words):
    path = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "FERMATA_SOCKET": "/nonexistent"}
    script = os.path.join(SOURCE, "contrib", "completion", "fermata")
    return run("bash", "-c", COMPLETE, "-", script, program, *words, env=path).split()


def both_completions_offer_it(bin_):
    for words in (("fermata", "policy", "li"), ("fermata", "run", "--local", "=", "li"), ("fermata-lab", "sim", "--policy", "li"),
                  ("fermata-lab", "policy-test", "li"), ("fermata-lab", "bench", "--policy", "li")):
        check(completed(bin_, *words) == ["lifo"], f"bash, {words}: {completed(bin_, *words)}")
    script = os.path.join(SOURCE, "contrib", "completion", "_fermata")
    with open(script, encoding="utf-8") as f:
        text = f.read()
    check("mlfq" not in text and text.count("fermata policy --names") >= 2, "zsh has a list of its own")
    if shutil.which("zsh"):
        path = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "FERMATA_SOCKET": "/nonexistent"}
        for function in ("_fermata_policies", "_fermata_built_in"):
            offered = run("zsh", "-c", DESCRIBE, "-", script, function, env=path)
            check("lifo" in offered.split(), f"zsh, {function}: {offered}")


def commands_show_it(stack):
    f = Fermata(stack, start=False)
    f.start(harness.FERMATAD)
    check(re.search(rf"^  lifo +{SUMMARY}$", f.cli("policy").stdout, re.M), "fermata policy")
    f.cli("policy", "lifo")
    check(re.search(r"^\* lifo ", f.cli("policy").stdout, re.M), "it is not in force")
    clients = [lib_client(f, stack, name) for name in ("first", "second")]
    check("lifo, does not read the hint weight" in f.cli("hint", "first", "weight=5").stderr, "its hints")
    for c in clients:
        c.do(f"segment {-(2**31)}")
        c.do("feed")
    eventually("why says what it is about", lambda: f"lifo reads no hints: {SUMMARY}" in f.cli("why", "first").stdout)


def one_file_and_one_line(stack):
    need("cmake", "ninja", "bash")
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        raise Skip("a build by ninja")
    tmp = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    tree = os.path.join(tmp, "tree")
    os.mkdir(tree)
    copy_with_it(tree)
    bin_ = link(module(tree, os.path.join(tmp, "build")), os.path.join(tmp, "bin"))
    harness.FERMATA, harness.FERMATAD = (os.path.join(bin_, p) for p in ("fermata", "fermatad"))
    check("lifo" in run(harness.FERMATA, "policy", "--names").split(), "fermata policy --names")
    check(re.search(r"^lifo: \d+ properties in \d+ scenarios, 0 broken$", run(os.path.join(bin_, "fermata-lab"), "policy-test", "lifo"),
                    re.M), "fermata-lab policy-test lifo")
    both_completions_offer_it(bin_)
    commands_show_it(stack)


main(one_file_and_one_line)
