#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon dies, comes back, is not there, cannot start: clients go on, and nothing that was set is lost."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import BUILD, FERMATA, FERMATAD, PATIENCE, Fermata, Skip, check, eventually, halt, main, program


def first_step(worker, after_ns):
    """When it reported its first kernels after that moment; waits for it."""

    def find():
        with worker.changed:
            steps = [int(line.split()[2]) for line in worker.lines if line and line.startswith("at ")]
        return next((t for t in steps if t > after_ns), None)

    return eventually(f"{worker.pid} goes on", find)


def rests(fermata, worker):
    def still():
        before = worker.position()
        group = fermata.group(worker.pid)
        return group["suspended"] and all(q["gate"] == "closed" for q in group["queues"]) and (
            time.sleep(0.1) or worker.position() == before)

    eventually(f"{worker.pid} rests", still)


def killed_with_suspended_clients(stack):
    fermata = Fermata(stack)
    workers = [fermata.worker() for _ in range(3)]
    for w in workers:
        fermata.cli("suspend", str(w.pid))
    for w in workers:
        rests(fermata, w)
    killed = time.monotonic_ns()
    fermata.kill()
    late = max((first_step(w, killed) - killed) / 1e6 for w in workers)
    print(f"         all three went on within {late:.1f} ms")  # how soon is for a quiet machine: bench/
    for w in workers:
        w.advances()
        w.finish()


def killed_with_a_preempted_client(stack):
    fermata = Fermata(stack)
    low, high = fermata.worker("--priority", "low"), fermata.worker("--priority", "high")
    eventually("a preemption", fermata.preemptions)
    fermata.kill()
    low.advances()
    high.advances()
    low.finish()
    high.finish()


def hints_survive(stack):
    """What the program and what an operator said, the clients tell the next daemon."""
    fermata = Fermata(stack)
    told = fermata.worker("--priority", "high", "--weight", "7")
    set_ = fermata.worker()
    fermata.cli("hint", str(set_.pid), "priority=-9", "deadline=30ms")
    eventually("the hint is seen", lambda: fermata.group(set_.pid)["hints"]["priority"] == -9)
    for restart in range(3):
        fermata.kill()
        told.advances()
        fermata.start()
        for w in (told, set_):
            eventually("the clients rejoin", lambda w=w: fermata.group(w.pid))
        eventually("priority and weight of the program", lambda: (
            fermata.group(told.pid)["hints"]["priority"], fermata.group(told.pid)["hints"]["weight"]) == (64, 7))
        eventually("priority and deadline of the operator", lambda: (
            fermata.group(set_.pid)["hints"]["priority"], fermata.group(set_.pid)["hints"]["deadline_ms"]) == (-9, 30))
        # They are in force, not just shown: the urgent one shuts the other out.
        told.advances()
        check(restart < 3, "unreachable")
    told.finish()
    set_.advances()
    set_.finish()


def orderly_end_and_return(stack):
    """SIGTERM and a new daemon: as with kill -9."""
    fermata = Fermata(stack)
    worker = fermata.worker()
    fermata.cli("suspend", str(worker.pid))
    rests(fermata, worker)
    fermata.stop()
    worker.advances()
    fermata.start()
    eventually("the client rejoins", lambda: fermata.group(worker.pid))
    worker.finish()


def stopped_daemon(stack):
    """A daemon under SIGSTOP decides nothing; a client that is not held back works on."""
    fermata = Fermata(stack)
    worker = fermata.worker()
    halt(fermata.daemon)
    try:
        worker.advances()
    finally:
        fermata.daemon.send_signal(signal.SIGCONT)
    worker.advances()
    worker.finish()


def no_daemon(stack):
    """`fermata run` says so and runs the program; the program joins when a daemon comes."""
    fermata = Fermata(stack, start=False)
    worker = fermata.worker("--priority", "high")
    worker.advances()
    fermata.start()
    group = eventually("the client joins", lambda: fermata.group(worker.pid))
    check(group["hints"]["priority"] == 64, "its hints are lost")
    worker.advances()
    worker.finish()


def layer_without_anything(stack):
    """OPENCL_LAYERS alone, no daemon, no `fermata run`; and switched off."""
    layer = os.path.join(os.path.dirname(FERMATA), "..", "lib", "libfermata-opencl.so")
    for off in ({}, {"FERMATA_DISABLE": "1"}):
        fermata = Fermata(stack, start=False)
        env = dict(fermata.env, OPENCL_LAYERS=layer, **off)
        r = subprocess.run([program("worker"), "16", "20"], env=env, capture_output=True, text=True, timeout=60)
        check(r.returncode == 0, f"{off}: status {r.returncode}: {r.stderr}")


def refuses(stack, *args, env=None):
    """The daemon ends with an error that says what to do, and soon."""
    r = subprocess.run([FERMATAD, *args], env=env, capture_output=True, text=True, timeout=60)
    check(r.returncode == 1, f"fermatad {args}: status {r.returncode}: {r.stderr}")
    check(r.stderr.strip(), f"fermatad {args} says nothing")
    return r.stderr


def bad_places(stack):
    fermata = Fermata(stack, start=False)
    a_file = os.path.join(fermata.dir, "file")
    with open(a_file, "w", encoding="ascii"):
        pass
    refuses(stack, "--dir", a_file)
    refuses(stack, "--dir", os.path.join(a_file, "below"))
    refuses(stack, "--dir", "/proc/fermata")
    refuses(stack, "--dir", os.path.join(fermata.dir, "x" * 120))
    fermata.start()
    check(str(fermata.daemon.pid) in refuses(stack, "--dir", fermata.dir), "it does not say who is there")
    check(fermata.answers(), "the second daemon has disturbed the first")


def full_disk(stack):
    """No room in the runtime directory: the daemon says so; one that runs already needs none."""
    if os.geteuid():
        raise Skip("only root can mount a small file system")
    outer = Fermata(stack, start=False)
    small = os.path.join(outer.dir, "small")
    os.mkdir(small)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=64,mode=700", "none", small],
                      capture_output=True, check=False).returncode:
        raise Skip("mount is not allowed here")
    stack.callback(subprocess.run, ["umount", "-l", small], check=True)
    fermata = Fermata(stack, start=False)
    fermata.dir = fermata.env["FERMATA_SOCKET"] = small
    full = os.path.join(small, "full")

    def fill():
        with open(full, "wb", buffering=0) as f:
            f.write(b"x" * 4096)

    fill()
    error = refuses(stack, "--dir", small)
    check("No space left" in error, f"it does not say why: {error}")
    os.unlink(full)
    fermata.start()
    with contextlib.suppress(OSError):
        fill()
    worker = fermata.worker()
    fermata.cli("suspend", str(worker.pid))
    fermata.cli("resume", str(worker.pid))
    worker.advances()
    worker.finish()
    fermata.stop()


def unwritable_place(stack):
    """As a user who may not write there (root may write everywhere: it asks for another uid)."""
    fermata = Fermata(stack, start=False)
    os.chmod(fermata.dir, 0o555)
    stack.callback(os.chmod, fermata.dir, 0o700)
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        r = subprocess.run([FERMATAD, "--dir", os.path.join(fermata.dir, "new")], capture_output=True, text=True,
                           timeout=60, check=False, cwd="/", **user)
    except PermissionError:
        raise Skip(f"other users cannot get to {FERMATAD}") from None
    check(r.returncode not in (0, -6, -11), f"status {r.returncode}: {r.stderr}")
    check(r.stderr.strip(), "fermatad says nothing")


def a_place_of_any_name(stack):
    """A directory's name need not be text."""
    fermata = Fermata(stack, start=False)
    fermata.dir = os.path.join(fermata.dir, "caf\udce9")
    fermata.env["FERMATA_SOCKET"] = fermata.dir
    os.mkdir(fermata.dir, 0o700)
    fermata.start(answers=False)
    fermata.says("fermatad: version .* in /")  # who asks before is answered by a name that is not text
    r = fermata.cli("version", "--json")
    check(json.loads(r.stdout)["daemon"]["dir"] == fermata.dir.replace("\udce9", "?"), r.stdout)
    r = fermata.cli("run", "--", "true")
    check(not r.stderr, r.stderr)


def closed_standard_descriptors(stack):
    """What it says goes nowhere then, and not into the next file that it opens."""
    fermata = Fermata(stack, start=False)
    fermata.start(preexec_fn=lambda: os.close(2))
    fermata.cli("policy", "fair")  # a line in the log
    with open(os.path.join(fermata.dir, "fermatad.pid"), encoding="ascii") as f:
        check(f.read() == f"{fermata.daemon.pid}\n", "the file with its pid has something else in it")
    exporter = subprocess.Popen([os.path.join(BUILD, "bin", "fermata-exporter"), "--socket", fermata.dir],
                                env=fermata.env, preexec_fn=lambda: os.closerange(0, 3))
    stack.callback(exporter.wait)
    stack.callback(exporter.kill)
    eventually("it listens", lambda: os.path.exists(os.path.join(fermata.dir, "metrics.sock")))
    for fd in range(3):
        check(os.readlink(f"/proc/{exporter.pid}/fd/{fd}") == "/dev/null", "a descriptor of its own is a standard one")


def busy_polling(stack):
    """A daemon that does not sleep between events keeps its timers, and ends when it is told to."""
    fermata = Fermata(stack, config="[daemon]\nbusy_poll_us = 1000000\n")
    workers = [fermata.worker(), fermata.worker()]
    before = fermata.preemptions()
    for w in workers:
        w.advances()
    eventually("they take turns", lambda: fermata.preemptions() > before + 4)
    for w in workers:
        w.finish()
    fermata.daemon.terminate()
    check(fermata.daemon.wait(PATIENCE) == 0, "it ended with an error")


MALFORMED = (
    "policy = fair\n",  # no section
    "[daemon\npolicy = fair\n",
    "[daemon]\npolicy = no-such-policy\n",
    "[daemon]\nno_such_key = 1\n",
    "[no such section]\nkey = value\n",
    "[daemon]\npolicy\n",
    "[daemon]\nlinger_us = a while\n",
    "[daemon]\nlinger_us = -5\n",
    "[daemon]\nbusy_poll_us = 1000001\n",
    "[limits]\ngroups = 99999999999999999999\n",
    "[limits]\npriority_min = 10\npriority_max = -10\n",
    "[policy fair]\nslice = soon\n",
    "[security]\nstrict = perhaps\n",
    "[security]\nsevere = yes\n",
    "\x00\x01\x02\xff",
    "[daemon]\npolicy = " + "x" * 100000 + "\n",
)


def refusals(fermata):
    return sum("the old settings stay" in line for line in fermata.log())


def malformed_config(stack):
    """Refused at start, with the line; at SIGHUP the old settings stay and the daemon lives."""
    fermata = Fermata(stack, config="[daemon]\npolicy = round-robin\n")
    worker = fermata.worker()
    conf = fermata.args[1]
    for text in MALFORMED:
        with open(conf, "w", encoding="latin-1") as f:
            f.write(text)
        error = refuses(stack, "--dir", fermata.dir + "-other", "--config", conf)
        check(conf in error, f"the file is not named for {text[:40]!r}: {error}")
        said = refusals(fermata)
        fermata.daemon.send_signal(signal.SIGHUP)
        eventually("it says that the old settings stay", lambda: refusals(fermata) > said)
        check(fermata.ps()["policy"]["name"] == "round-robin", f"{text[:40]!r} has changed the policy")
        worker.advances(4)
    with open(conf, "w", encoding="ascii") as f:
        f.write("[daemon]\npolicy = fair\n")
    fermata.daemon.send_signal(signal.SIGHUP)
    eventually("the sound settings are in force", lambda: fermata.ps()["policy"]["name"] == "fair")
    worker.finish()


if __name__ == "__main__":
    main(killed_with_suspended_clients, killed_with_a_preempted_client, hints_survive, orderly_end_and_return,
         stopped_daemon, no_daemon, layer_without_anything, bad_places, full_disk, unwritable_place,
         a_place_of_any_name, closed_standard_descriptors, busy_polling, malformed_config)
