#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program is told by dlsym, dlvsym, dlerror and cuGetProcAddress is the same under Fermata as natively: whether it has
opened the driver, and how; which driver that is; and whoever asks. The driver is the fake one;
FERMATA_TEST_CUDA=real takes the machine's."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, SANITIZE, Fermata, check, cuda_env, foreign, long, main, need_cuda_shim, program

DRIVERS = {"this one": None, "an old one": os.path.join(BUILD, "tests", "fakes", "old")}
if SANITIZE or os.environ.get("FERMATA_TEST_CUDA") == "real":  # each look-up takes the sanitizer long
    del DRIVERS["an old one"]


def env_of(fermata, driver=None, **more):
    env = {**cuda_env(fermata.env), **more}
    if driver:
        env["LD_LIBRARY_PATH"] = driver + ":" + env["LD_LIBRARY_PATH"]
    return env


def ask(argv, env):
    r = subprocess.run(argv, env=env, capture_output=True, text=True, errors="backslashreplace", timeout=300, check=False)
    check(r.returncode == 0 and not r.stderr, f"{argv}: status {r.returncode}: {r.stdout[-300:]}{r.stderr}")
    return r.stdout.splitlines()


def same(stack, name, *how, lines):
    """Line for line: it has no other answer under Fermata, with a guardian or without."""
    need_cuda_shim()
    fermata = Fermata(stack)
    for driver, path in DRIVERS.items():
        env = env_of(fermata, path)
        native = ask([program(name), *how], env)
        check(len(native) > lines, f"{len(native)} lines natively")
        for options in ((), ("--guardian",))[:1 if SANITIZE else 2]:
            ours = ask(fermata.run_argv([program(name), *how], *options), env)
            different = [f"{o}\n    natively {n}" for n, o in zip(native, ours) if n != o]
            check(native == ours, f"{name} {how} {options} on {driver}: {len(different)} of {len(native)} lines, {len(ours)} in "
                  "all:\n" + "\n".join(different[:8]))


def driver_never_opened(stack):
    """Nor is it opened by us, though the loader could find it."""
    same(stack, "cuda_lookups", "none", lines=2000)


def driver_opened(stack):
    same(stack, "cuda_lookups", "local", lines=10000)
    same(stack, "cuda_lookups", "global", lines=10000)


@long
def driver_of_a_library(stack):
    same(stack, "cuda_lookups", "library", lines=10000)
    same(stack, "cuda_lookups", "library-global", lines=10000)


def driver_linked(stack):
    same(stack, "cuda_lookups_linked", "none", lines=10000)
    same(stack, "cuda_lookups_linked", "library", lines=10000)


def no_error_at_start(stack):
    """Behind the stand-in, too, where the shim comes after the C library and finds no dlsym that is next."""
    need_cuda_shim()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    os.symlink(os.path.join(BUILD, "tests", "fakes", "libcuda.so.1"), os.path.join(folder, "libcuda-driver.so.1"))
    env = {**os.environ, "LD_LIBRARY_PATH": f"{os.path.join(BUILD, 'lib', 'fermata')}:{folder}"}
    lines = ask([program("cuda_lookups_linked"), "none"], env)
    check(lines[0] == "at the start: -", lines[0])


def python(stack):
    """ctypes reads dlerror() of whatever it does not find."""
    need_cuda_shim()
    fermata = Fermata(stack)
    code = 'import ctypes; print(hasattr(ctypes.CDLL(None), "cuLaunchKernel"))'
    opened = 'import ctypes; ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL); ' + code
    text = "import ctypes\ntry: ctypes.CDLL(None).cuLaunchKernel\nexcept AttributeError as e: print(e)"
    for what, answer in ((code, "False"), (opened, "True"), (text, None)):
        argv = foreign([sys.executable, "-c", what])
        native = ask(argv, env_of(fermata))
        check(answer in (None, native[0]), f"natively {native}")
        ours = ask([FERMATA, "run", "--", *argv], env_of(fermata))
        check(ours == native, f"{ours}, natively {native}")


if __name__ == "__main__":
    main(driver_never_opened, driver_opened, driver_of_a_library, driver_linked, no_error_at_start, python)
