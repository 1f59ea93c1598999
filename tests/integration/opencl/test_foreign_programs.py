#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs below `fermata run` that cannot load the shim for CUDA: of another C library, of 32 bits. They run as natively,
and nothing is said. And who is given the shim at all."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, PATIENCE, SANITIZE, Skip, check, main, need

SHIM = "libfermata-cuda.so"
HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); return 7; }\n'
# Without the headers and the start files of 32 bits, which conflict with those for other processors on Debian.
HELLO_32 = ("int puts(const char *); _Noreturn void exit(int);\n"
            'void _start(void) { puts("hello"); exit(7); }\n')
MAKERS = ("/proc/driver/nvidia/version", "/usr/bin/nvidia-modprobe")
LIBC_32 = ("/lib32/libc.so.6", "/lib/i386-linux-gnu/libc.so.6", "/usr/lib32/libc.so.6")


def need_cuda_shim():
    if SANITIZE:
        raise Skip("a sanitized build gives the shim to programs of the tests alone")
    if not os.path.exists(os.path.join(BUILD, "lib", SHIM)):
        raise Skip("the CUDA shim is not built")


def environment(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("FERMATA_") and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH", "OPENCL_LAYERS")}
    return {**env, "FERMATA_LOCAL": "fifo", **more}


def run(argv, *options, before=(), fermata=FERMATA, **env):
    return subprocess.run([*before, fermata, "run", *options, "--", *argv], env=environment(**env), capture_output=True,
                          text=True, timeout=PATIENCE, check=False)


def built(stack, text, *command):
    """A program of its own in C, by that compiler."""
    where = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    source, hello = os.path.join(where, "hello.c"), os.path.join(where, "hello")
    with open(source, "w", encoding="ascii") as f:
        f.write(text)
    r = subprocess.run([command[0], source, "-o", hello, *command[1:]], capture_output=True, text=True, check=False)
    if r.returncode:
        raise Skip(f"{command[0]} {' '.join(command[1:])} does not work here: {r.stderr}")
    return hello


def as_natively(hello):
    """By itself, from a shell, and from a program inside another `fermata run`."""
    need_cuda_shim()
    for argv in [hello], ["sh", "-c", f"{hello}; exit $?"], [FERMATA, "run", "--", hello]:
        for env in {}, {"FERMATA_CUDA": "1"}, {"LD_LIBRARY_PATH": os.path.join(BUILD, "tests", "fakes")}:
            r = run(argv, **env)
            check((r.returncode, r.stdout, r.stderr) == (7, "hello\n", ""), f"{argv}, {env}: {r}")


def musl(stack):
    need("musl-gcc")
    as_natively(built(stack, HELLO, "musl-gcc"))


def musl_static(stack):
    need("musl-gcc")
    as_natively(built(stack, HELLO, "musl-gcc", "-static"))


def bits_32(stack):
    libc = next(filter(os.path.exists, LIBC_32), None)
    if not libc or not os.path.exists("/lib/ld-linux.so.2"):
        raise Skip("no C library of 32 bits (Debian: libc6-i386)")
    if not os.path.exists(os.path.join(BUILD, "lib", "fermata", "preload", "i386", SHIM)):
        raise Skip("the compiler made no object of 32 bits")
    as_natively(built(stack, HELLO_32, "gcc", "-m32", "-nostdlib", "-fno-pic", "-no-pie", "-fno-stack-protector", libc,
                      "-Wl,--dynamic-linker=/lib/ld-linux.so.2"))


def with_sanitizer(stack):
    """AddressSanitizer's runtime as a library: it does not end the program since the shim comes first, and finds what it
    does natively."""
    need_cuda_shim()
    hello = built(stack, HELLO.replace("void) {", "int argc, char **argv) { char *volatile p = malloc(8); p[8 * argc - 8] = 0; "
                                       "free(p);").replace("#include", "#include <stdlib.h>\n#include", 1),
                  "gcc", "-fsanitize=address")
    for asan in {}, {"ASAN_OPTIONS": "exitcode=3"}:
        env = environment(FERMATA_CUDA="1", **asan)
        if subprocess.run([hello], env=env, capture_output=True, check=False).returncode != 7:
            raise Skip("AddressSanitizer does not work here")
        r = run([hello], **env)
        check((r.returncode, r.stdout, r.stderr) == (7, "hello\n", ""), f"{asan}: {r}")
        r = run([hello, "2"], **env)
        check(r.returncode == (3 if asan else 1) and "heap-buffer-overflow" in r.stderr, f"{asan}: {r}")


def with_sanitizer_inside(stack):
    """MemorySanitizer's runtime is a part of the program. It asks our dlsym for the C library's functions before all else,
    and puts its own in front of more of them than others do."""
    need("clang")
    need_cuda_shim()
    hello = built(stack, HELLO, "clang", "-fsanitize=memory")
    for more in {}, {"FERMATA_HIP": "1"}, {"FERMATA_HIP": "1", "FERMATA_LEVEL_ZERO": "1", "FERMATA_ACL": "1"}:
        env = environment(FERMATA_CUDA="1", **more)
        if subprocess.run([hello], env=env, capture_output=True, check=False).returncode != 7:
            raise Skip("MemorySanitizer does not work here")
        r = run([hello], **env)
        check((r.returncode, r.stdout, r.stderr) == (7, "hello\n", ""), f"{more}: {r}")


def shim_of(*options, **more):
    """What LD_PRELOAD names, and whether it is in a program."""
    r = run(["sh", "-c", 'echo "$LD_PRELOAD"; cat /proc/self/maps'], *options, **more)
    check(r.returncode == 0 and not r.stderr, f"{r}")
    named, _, maps = r.stdout.partition("\n")
    check((SHIM in named) == (SHIM in maps), f"LD_PRELOAD={named}, and in memory: {maps}")
    return named


def other_dev(node, more=""):
    """In a name space with another /dev, which has that file in it."""
    before = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
              f'mount -t tmpfs none /dev; : >/dev/null; : >/dev/{node}; {more} exec "$0" "$@"']
    if not shutil.which("unshare") or subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        raise Skip("no name spaces here")
    return before


def where_cuda_may_be(stack):
    """With a device node, a driver in LD_LIBRARY_PATH, an option for CUDA alone; or where the user says so."""
    need_cuda_shim()
    none = other_dev("other")
    if any(map(os.path.exists, MAKERS)):
        raise Skip("what makes device nodes is here")
    check(not shim_of(before=none), "no CUDA, and the shim")
    check(shim_of(before=none, FERMATA_CUDA="1"), "asked for, and no shim")
    check(shim_of("--guardian", before=none), "--guardian, and no shim")
    check(shim_of(before=none, LD_LIBRARY_PATH=f"/nowhere:{BUILD}/tests/fakes"), "a driver, and no shim")
    for node in ("nvidiactl", "nvidia-uvm", "dxg"):
        check(shim_of(before=other_dev(node)), f"{node}, and no shim")
    check(not shim_of("--guardian", before=other_dev("nvidiactl"), FERMATA_CUDA="0"), "refused, and there all the same")


def no_node_yet(stack):
    """The driver has its nodes made when a program first uses CUDA."""
    need_cuda_shim()
    before = other_dev("other", "mount -t tmpfs none /proc/driver; mkdir /proc/driver/nvidia; : >/proc/driver/nvidia/version;")
    check(shim_of(before=before), "a driver without nodes, and no shim")


def named_by_itself(stack):
    """Where only the shim was copied, not what lies beside it."""
    need_cuda_shim()
    where = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    for name in (SHIM, "libfermata-opencl.so"):
        shutil.copy(os.path.join(BUILD, "lib", name), where)
    check(shim_of(FERMATA_CUDA="1", FERMATA_LIBDIR=where) == os.path.join(where, SHIM), "another path")
    check("/$PLATFORM/" in shim_of(FERMATA_CUDA="1"), "a path for any program")


def through_shells(stack):
    """A shell that reads LD_PRELOAD's value as one of its own words finds no variable PLATFORM."""
    need_cuda_shim()
    r = run(["sh", "-c", 'eval "LD_PRELOAD=$LD_PRELOAD cat /proc/self/maps"'], FERMATA_CUDA="1")
    check(r.returncode == 0 and not r.stderr and SHIM in r.stdout, f"{r}")


def never_twice(stack):
    need_cuda_shim()
    r = run([FERMATA, "run", "--", "env"], FERMATA_CUDA="1")
    names = [line for line in r.stdout.splitlines() if line.startswith("LD_PRELOAD=")]
    check(len(names) == 1 and names[0].count(SHIM) == 1, f"{names}")


if __name__ == "__main__":
    main(musl, musl_static, bits_32, with_sanitizer, with_sanitizer_inside, where_cuda_may_be, no_node_yet, named_by_itself,
         through_shells, never_twice)
