#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server (cuda_server_pad.c) whose stopped stream goes on beside the urgent one: in its own process, by a daemon; what
the daemon shows of it; and where it cannot. The driver is the fake one."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import BUILD, PATIENCE, Fermata, Program, check, cuda_env, eventually, main, need_cuda_shim, preload, program

IMAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "data", "guard", "all.fatbin")
CASES = ("pads", "tells-room", "moves", "never", "stands-at-waits", "suspended", "urgent-suspended", "destroyed", "context-ends", "gives-way-to-calls", "forks", "sizes")

AHEAD = ("ahead", "ahead-fails", "ahead-busy", "ahead-ends")
ENDS = ("ends-in-it", "ends-anywhere")


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    env = cuda_env({**env, "FERMATA_SOCKET": "/nonexistent", "CUDA_DEVICE_MAX_CONNECTIONS": "32", **more})
    return {**env, "LD_LIBRARY_PATH": ":".join(filter(None, [env.get("LD_LIBRARY_PATH"), os.path.join(BUILD, "lib")]))}


def server(*case):
    return [program("cuda_server_pad_linked"), *case]


def run(case, env):
    r = subprocess.run(server(case, "fixed-priority", IMAGE), env=env, capture_output=True, text=True, timeout=PATIENCE)
    check(r.returncode == 0, f"{case} ended with status {r.returncode}: {r.stdout}{r.stderr}")


def own_process(stack):
    need_cuda_shim()
    for case in CASES:
        run(case, environment())


def elsewhere(stack):
    """Where there is no pad, all is as without."""
    need_cuda_shim()
    run("moves", environment(CUDA_DEVICE_MAX_CONNECTIONS="8"))


def world(stack, **more):
    need_cuda_shim()
    fermata = Fermata(stack, **more)
    fermata.env = environment(**{k: v for k, v in fermata.env.items() if k.startswith(("FERMATA_", "XDG_"))},
                              FERMATA_GUARDIAN="1")
    return fermata


def stays(stack, fermata, case="stays"):
    p = Program(server(case), env=fermata.env)
    stack.callback(p.close)
    p.line("ready")
    return p


def batch(fermata):
    return next(g for g in fermata.ps()["groups"] if g["name"] == "batch")


def shown(stack):
    """By a daemon: ps and why say that it pads, what is settled from outside holds at once, and nobody is late for it."""
    fermata = world(stack)
    p = stays(stack, fermata, "stays-beside")
    eventually("it pads", lambda: batch(fermata)["queues"][0].get("padding") == 16)
    q = batch(fermata)["queues"][0]
    check(q["pad"] == 16 and q["multiprocessors"] > 16 and q["padded_ms"] > 0, f"{q}")
    check(batch(fermata)["hints"]["pad"] == 16, f"{batch(fermata)['hints']}")
    text = fermata.cli("ps", "--queues").stdout
    check(re.search(r"PAD\n", text), text)
    eventually("ps shows it", lambda: re.search(r" 16\*\n", fermata.cli("ps", "--queues").stdout))
    eventually("why tells it", lambda: re.search(r"runs on 16 of \d+ multiprocessors while urgent work", fermata.cli("why", "batch").stdout))
    fermata.cli("suspend", "batch")
    eventually("it stands", lambda: batch(fermata)["queues"][0]["padding"] == 0)
    fermata.cli("resume", "batch")
    eventually("it pads again", lambda: batch(fermata)["queues"][0]["padding"] == 16)
    fermata.cli("hint", "batch", "pad=0")
    eventually("it stands again", lambda: batch(fermata)["queues"][0].get("padding", 0) == 0)
    fermata.cli("hint", "batch", "pad=auto")
    check(batch(fermata)["hints"]["pad"] == "auto", f"{batch(fermata)['hints']}")
    r = fermata.cli("hint", "batch", "pad=12", check_status=False)
    check(r.returncode and "multiple of 8" in r.stderr and "give auto" in r.stderr, r.stderr)
    fermata.cli("hint", "batch", "pad=24")  # for else what it launches next would wait
    eventually("it pads on more", lambda: batch(fermata)["queues"][0].get("padding", 0) > 0)
    ends(p)


def not_any_more(stack):
    """The thread that launches into it feeds the urgent stream, too, which waits for it: that gives way."""
    fermata = world(stack)
    p = stays(stack, fermata)
    fermata.cli("hint", "batch", "pad=0")
    eventually("it stands", lambda: batch(fermata)["queues"][0].get("padding", 0) == 0)
    ends(p)


def turns(stack, fermata):
    p = Program(server("takes-turns"), env=fermata.env)
    stack.callback(p.close)
    p.line("done")
    return p


def ends(p):
    p.tell("end")
    check(p.wait() == 0, f"it ended with status {p.p.returncode}")


def counted(stack):
    """Why there is none, once; the program has what it has without."""
    fermata = world(stack)
    plain = dict(fermata.env)
    for why, env in (("fewer than 16 channels", {"CUDA_DEVICE_MAX_CONNECTIONS": "8"}),
                     ("number of multiprocessors", {"FAKE_CUDA_MIG": "1"}),  # it has 16
                     ("no green contexts", {"FAKE_CUDA_FAIL": "cuDeviceGetDevResource@1/1=801"}),
                     ("the driver fails", {"FAKE_CUDA_GREEN": "1T"})):
        fermata.env = {**plain, **env}
        p = Program(server("waits"), env=fermata.env)
        stack.callback(p.close)
        p.line("bound")
        eventually(f"{why} is counted", lambda: [
            c["undivided"] for c in batch(fermata).get("calls", []) if c["call"] == f"pad ({why})"] == [1])
        p.tell("go on")
        p.line("launched")
        check(all(q.get("padded_ms", 0) == 0 for q in batch(fermata)["queues"]), f"it pads: {batch(fermata)}")
        ends(p)


def apart(stack):
    """The urgent work is another program's: ps and why say so."""
    fermata = world(stack)
    p = Program(server("waits"), env=fermata.env)
    stack.callback(p.close)
    p.line("bound")
    other = Program(server("elsewhere"), env=fermata.env)
    stack.callback(other.close)
    other.line("stands")
    p.tell("go on")
    p.line("launched")
    eventually("it says why not", lambda: any(q.get("pad_apart") for q in batch(fermata)["queues"]))
    check(all(q["padding"] == 0 for q in batch(fermata)["queues"] if "padding" in q), f"{batch(fermata)}")
    text = fermata.cli("ps", "--queues").stdout
    check(re.search(r" 16!\n", text), text)
    text = fermata.cli("why", "batch").stdout
    check("does not pad beside urgent work of another context" in text, text)
    ends(other)
    ends(p)


def killed(stack):
    """The urgent program, of the same MPS server, is killed while the batch pads: that goes on, and has run each block once."""
    fermata = world(stack)
    fermata.env["FAKE_CUDA_MPS"] = "1"
    p = Program(server("waits-long"), env=fermata.env)
    stack.callback(p.close)
    p.line("bound")
    other = Program(server("elsewhere"), env=fermata.env)
    stack.callback(other.close)
    other.line("stands")
    p.tell("go on")
    eventually("it pads", lambda: any(q.get("padded_ms", 0) > 0 for q in batch(fermata)["queues"]))
    other.kill()
    p.line("launched")
    ends(p)


def refused(stack):
    """What is no such number is an error of the command, with a remedy; no program begins."""
    fermata = world(stack)
    for value, give in (("12", "auto"), ("72", "auto"), ("-8", "auto"), ("many", "auto"), ("auto:", "1% to 50%"), ("auto:0%", "1% to 50%"),
                        ("auto:51%", "1% to 50%"), ("auto:many", "1% to 50%"), ("auto5%", "auto")):
        r = fermata.cli("run", f"--pad={value}", "--", "true", check_status=False)
        check(r.returncode and f"give {give}" in r.stderr, f"{value}: {r.returncode} {r.stderr}")


def no_daemon_any_more(stack):
    """It is killed while the queue pads; the next one comes to it."""
    fermata = world(stack)
    p = stays(stack, fermata)
    fermata.kill()
    fermata.start()
    ends(p)


def strict(stack):
    fermata = world(stack, config="[security]\nstrict = yes\n")
    p = turns(stack, fermata)
    check(all(q.get("padded_ms", 0) == 0 for q in batch(fermata)["queues"]), "it pads in strict mode")
    ends(p)


def by_itself(stack):
    """auto, and with a target."""
    fermata = world(stack, config="[device]\npad = auto:7%\n")
    p = turns(stack, fermata)
    check(batch(fermata)["hints"]["pad"] == "auto", f"{batch(fermata)['hints']}")
    for value in "auto:5%", "auto:50%", "device":
        fermata.cli("hint", "batch", f"pad={value}")
        check(batch(fermata)["hints"]["pad"] == value, f"{batch(fermata)['hints']}")
    ends(p)


def ahead(stack):
    """auto: what each number needs is made once, when nothing is under way or nothing urgent is; in a process of its own, and
    by a daemon."""
    in_both_worlds(stack, AHEAD)


def ends_in_it(stack):
    """All work of the batch has ended in the pad: its context's calls come in, and the context ends, all the same."""
    in_both_worlds(stack, ENDS)


def in_both_worlds(stack, cases):
    need_cuda_shim()
    for case in cases:
        run(case, environment())
    fermata = world(stack)
    for case in cases:
        r = subprocess.run(server(case), env=fermata.env, capture_output=True, text=True, timeout=PATIENCE)
        check(r.returncode == 0, f"{case} by a daemon: status {r.returncode}: {r.stdout}{r.stderr}")


def probe(stack):
    """That of tests/gpu/test_pad.py, in small."""
    need_cuda_shim()
    shim = os.path.join(BUILD, "lib", "libfermata-cuda.so")
    for row in "alone", "16", "16:high":
        r = subprocess.run([program("cuda_pad_probe"), row, "0.1", IMAGE, "4", "1000", "0", "48"], env={**environment(), "LD_PRELOAD": preload(shim)},
                           capture_output=True, text=True, timeout=PATIENCE)
        check(r.returncode == 0 and len(r.stdout.split()) == 7, f"{row}: {r.returncode} {r.stdout}{r.stderr}")


TESTS = (own_process, elsewhere, shown, not_any_more, counted, apart, killed, refused, no_daemon_any_more, strict, by_itself, ahead, ends_in_it, probe)

if __name__ == "__main__":
    main(*TESTS)
