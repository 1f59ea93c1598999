#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What script/test does to a stranger's machine, and what it says at the end: packages are installed and none is removed; what
was skipped is listed with its reason."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import check, main  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
# A system where `cross` conflicts with what is there. What is installed for good is noted.
APT = """#!/bin/bash
case " $* " in
*" -s "*) [[ " $* " != *" cross "* ]] || echo "Remv multilib [1.0]"; exit 0 ;;
*" update "*) exit 0 ;;
*" download broken "*) touch broken_1.deb; exit 100 ;;
*" download "*) touch "${*: -1}_1.deb"; exit 0 ;;
*" --no-remove "*) [[ " $* " != *" cross "* ]] || exit 100 ;;
esac
for word; do [[ $word == -* || $word == install ]] || echo "$word" >>"$NOTES"; done
[[ " $* " == *" --no-remove "* ]] || echo "MAY REMOVE: $*" >>"$NOTES"
"""
SUDO = """#!/bin/bash
[[ $1 == -n ]] && exit 0
exec "$@"
"""


DPKG = """#!/bin/bash
[[ $1 == -x && -f $2 && $2 != *torn* ]] || exit 2
mkdir -p "$3/usr/lib" && touch "$3/usr/lib/it"
"""


def setup(stack, command):
    """A command of script/lib/setup.sh there: its run, and what was installed."""
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    for name, text in (("apt-get", APT), ("sudo", SUDO), ("dpkg", DPKG), ("dpkg-query", "#!/bin/sh\ntest $4 = there && echo installed\n")):
        with open(os.path.join(dir_, name), "w", encoding="ascii") as f:
            f.write(text)
        os.chmod(os.path.join(dir_, name), 0o755)
    notes = os.path.join(dir_, "notes")
    env = {**os.environ, "PATH": dir_ + ":" + os.environ["PATH"], "NOTES": notes}
    script = f'set -euo pipefail; source "{SOURCE}/script/lib/setup.sh"; {command}'
    r = subprocess.run(["bash", "-c", script], env=env, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    installed = []
    if os.path.exists(notes):
        with open(notes, encoding="ascii") as f:
            installed = f.read().split("\n")[:-1]
    return r, installed


def no_package_is_removed(stack):
    r, installed = setup(stack, "install_packages there a b")
    check(r.returncode == 0 and installed == ["a", "b"], f"{r} {installed}")
    r, installed = setup(stack, "install_packages there")
    check(r.returncode == 0 and not installed and not r.stderr, f"{r} {installed}")
    r, installed = setup(stack, "install_packages a cross b")
    check(r.returncode == 1 and not installed, f"{r} {installed}")
    check("these would be removed if a cross b came: multilib" in r.stderr, r.stderr)
    r, installed = setup(stack, "install_what_goes a cross b")
    check(r.returncode == 0 and installed == ["a", "b"], f"{r} {installed}")
    check(r.stdout.startswith("cross is not installed, since multilib would be removed: sudo apt-get install cross"), r.stdout)
    r, installed = setup(stack, "install_what_goes cross")
    check(r.returncode == 0 and not installed, f"{r} {installed}")


def what_is_unpacked_is_not_installed(stack):
    """A driver for one test is in a folder of the build, whole or not at all."""
    folder = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-")), "tests", "driver")
    r, installed = setup(stack, 'unpack_package driver "/proc/none/driver" || echo "not there"; ls *.deb')
    check(r.stdout == "driver is not unpacked: there can be no /proc/none/driver\nnot there\n", f"{r}")
    for name in ("broken", "torn"):
        r, installed = setup(stack, f'unpack_package {name} "{folder}" || echo "not there"')
        check(r.returncode == 0 and not installed, f"{r} {installed}")
        check(re.fullmatch(f"{name} is not unpacked: .*\nnot there\n", r.stdout), r.stdout)
        check(not os.listdir(os.path.dirname(folder)), os.listdir(os.path.dirname(folder)))
    for name in ("driver", "broken"):  # the second time it is there
        r, installed = setup(stack, f'unpack_package {name} "{folder}"')
        check(r.returncode == 0 and not installed and not r.stdout, f"{r} {installed}")
        check(os.path.exists(os.path.join(folder, "usr", "lib", "it")) and os.listdir(os.path.dirname(folder)) == ["driver"], f"{r}")


def skips_have_reasons(stack):
    cases = (("a", "run", "", "ok       one (0.1 s)\nskipped  two: it needs a GPU\n"), ("b", "notrun", "SKIP_RETURN_CODE=77", "no docker\n"),
             ("c", "notrun", "SKIP_RETURN_CODE=77", "skipped  all: valgrind is not installed\n"), ("d", "run", "", "skipped: zsh completion\n"),
             ("e", "fail", None, "it went wrong\n"), ("f", "notrun", "SKIP_RETURN_CODE=77", ""), ("g", "run", "", "all well\n"))
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    xml = "".join(f'<testcase name="{n}" status="{s}">' + (f'<skipped message="{why}"/>' if why else "") + f"<system-out>{text}</system-out></testcase>"
                  for n, s, why, text in cases)
    paths = [os.path.join(dir_, build + ".xml") for build in ("release", "asan")]
    for path in paths:
        with open(path, "w", encoding="ascii") as f:
            f.write(f"<testsuite>{xml}</testsuite>")
    argv = [sys.executable, os.path.join(SOURCE, "script", "lib", "junit.py")]
    r = subprocess.run([*argv, *paths], text=True, capture_output=True, timeout=60)
    check(r.returncode == 1 and not r.stderr, f"{r}")
    lines = r.stdout.splitlines()
    check(lines[:2] == ["---- e (release)", "it went wrong"], lines)
    check(lines[4:] == ["skipped: a, in part: two: it needs a GPU (release, asan)", "skipped: b: no docker (release, asan)",
                        "skipped: c: all: valgrind is not installed (release, asan)", "skipped: d, in part: zsh completion (release, asan)",
                        "skipped: f: it does not say why (release, asan)", "6 passed, 2 failed, 6 skipped"], lines)


if __name__ == "__main__":
    main(no_package_is_removed, what_is_unpacked_is_not_installed, skips_have_reasons)
