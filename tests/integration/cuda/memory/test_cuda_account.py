#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that CUDA programs allocate: each kind counts as what it is and ends when it ends, a limit refuses what is
beyond it, and cuMemGetInfo and NVML tell of the limit. The program looks into its own ledger."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import SANITIZE, Fermata, check, cuda_env, main, need_cuda_shim, program

KINDS = ("plain", "small", "arrays", "pools", "graphs", "handles", "globals", "libraries")
ODD = ("odd", "contexts", "forks")
LIMITS = ("full", "pool_makes_room", "nvml")
MIB, CONTEXT = 256, 20  # as the program has them


def world(stack, start=True, **more):
    need_cuda_shim()
    fermata = Fermata(stack, start=start)
    fermata.env = {**cuda_env(fermata.env), "FAKE_CUDA_CONTEXT": f"{CONTEXT}M", **more}
    return fermata


def run(fermata, cases, *options, how=(), limit=True):
    options = (f"--memory-limit={MIB}M", *options) if limit else options
    argv = fermata.run_argv([program("cuda_account"), *how, *cases], *options)
    r = subprocess.run(argv, env=fermata.env, capture_output=True, text=True, timeout=500, check=False)
    check(r.returncode == 0, f"{argv}: status {r.returncode}: {r.stdout}{r.stderr}")
    check(r.stdout.split() == list(cases), f"not all cases ran: {r.stdout}")


def kinds(stack):
    """However the program finds the driver's functions, and also where its kernels are rewritten."""
    fermata = world(stack)
    for via in "link", "dlsym", "proc":
        run(fermata, KINDS, how=("--via", via))
    run(fermata, KINDS, how=("--ptds",))
    run(fermata, KINDS, "--guardian")


def odd_calls(stack):
    run(world(stack), ODD)


def limits(stack):
    fermata = world(stack)
    run(fermata, LIMITS + KINDS)
    for case in LIMITS:
        run(fermata, (case,))


def without_a_daemon(stack):
    """The program's own limit holds."""
    run(world(stack, start=False), KINDS + ODD + LIMITS)


def all_at_once(stack):
    """All cases in one process, which has forked, reset its device, and been refused memory by then."""
    run(world(stack), KINDS + ODD + LIMITS + KINDS + ODD + LIMITS)


def many(stack):
    """A million blocks, by one thread, and many by four: nothing is left over."""
    operations = "50000" if SANITIZE else "1000000"
    run(world(stack, OPERATIONS=operations), ("many", "threads"))


def small_device(stack):
    """The driver itself refuses: what was claimed for that is given back."""
    run(world(stack, FAKE_CUDA_CAPACITY="200M", OPERATIONS="20000"), ("many", "plain"))


class Server:
    def __init__(self, fermata, *options):
        self.p = fermata.program([program("cuda_account"), "serve"], *options)
        self.p.line("ready")

    def ask(self, line):
        at = self.p.mark()
        self.p.tell(line)
        return self.p.line("", after=at)

    def info(self):
        return [int(n) for n in self.ask("info").split()]


OUT_OF_MEMORY = "2"


def two_processes(stack):
    """They share the limit of their group, and what one gives back the other may have."""
    fermata = world(stack)
    a, b = (Server(fermata, "--group", "both", f"--memory-limit={MIB}M") for _ in range(2))
    check(a.ask("alloc 130") == "0", "the first has room")
    check(b.ask("alloc 130") == OUT_OF_MEMORY, "both have more than the limit")
    check(b.ask("alloc 60") == "0", "there is room left")
    left = MIB - 130 - 60 - 2 * CONTEXT
    check(b.info() == [left, MIB], f"the second is told {b.info()}")
    check(a.info() == b.info(), f"one is told {a.info()}, the other {b.info()}")
    check(a.ask("alloc 50") == OUT_OF_MEMORY, "it takes more than is left")
    check(b.ask("free") == "0" and a.ask("alloc 50") == "0", "what was given back is gone")
    a.p.close()
    check(b.ask("alloc 190") == "0", "the dead keep their memory")


def variables_of_code(stack):
    """They are shown by their kind, counted with what stays where it is, and held to the limit of the group."""
    fermata = world(stack)
    server = Server(fermata, "--group", "both", f"--memory-limit={MIB}M")
    foreign = lambda: [float(line.split()[-1]) for line in fermata.cli("metrics").stdout.splitlines()
                       if line.startswith("fermata_memory_foreign_bytes{") and 'group="both"' in line]
    kinds_of = lambda: next(g for g in fermata.ps()["groups"] if g["name"] == "both")["memory"][0]["kinds"]
    before, seen = foreign(), kinds_of()
    check(not seen.get("global"), f"{seen}")
    check(server.ask("load") == "0" and kinds_of()["global"] == 6 << 20, f"{kinds_of()}")
    check(foreign() == [before[0] + (6 << 20)], f"{before} {foreign()}")
    left = server.info()[0]
    check(server.ask("unload") == "0" and server.info()[0] == left + 6, f"{server.info()}")
    check(not kinds_of().get("global") and foreign() == before, f"{kinds_of()}")
    check(server.ask(f"alloc {left + 2}") == "0" and server.ask("load") == OUT_OF_MEMORY, "beyond the limit")
    check(server.ask("free") == "0" and server.ask("load") == "0", "within it")


def no_limit(stack):
    """Nobody asked for anything: the driver's own figures."""
    fermata = world(stack)
    for case, said in ("serve", "alloc 100\ninfo\n"), ("smi", ""):
        argv = [program("cuda_account"), case]
        native, ours = (subprocess.run(a, env=fermata.env, input=said, capture_output=True, text=True, check=True).stdout
                        for a in (argv, fermata.run_argv(argv)))
        check(native == ours, f"it is told {ours}, natively {native}")


def before_there_is_a_client(stack):
    """What was allocated before the first command counts when there is a client: with a daemon, and without one."""
    for start in True, False:
        run(world(stack, start=start), ("late",), limit=False)


def nvml_alone(stack):
    """A program that asks NVML, and never CUDA, is told of the limit, too, and of what its group has."""
    fermata = world(stack)
    options = "--group", "both", f"--memory-limit={MIB}M"
    server = Server(fermata, *options)
    check(server.ask("alloc 100") == "0", "there is room")
    left = server.info()[0]
    argv = fermata.run_argv([program("cuda_account"), "smi"], *options)
    told = subprocess.run(argv, env=fermata.env, capture_output=True, text=True, check=True).stdout
    check(told.split() == [str(left), str(MIB - left), str(MIB)], f"NVML tells {told}, CUDA {left}")


if __name__ == "__main__":
    main(kinds, odd_calls, limits, without_a_daemon, all_at_once, many, small_device, two_processes, variables_of_code, no_limit,
         before_there_is_a_client, nvml_alone)
