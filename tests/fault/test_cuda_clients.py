#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUDA programs die, are stopped, and lose their daemon, while the device itself waits at their gates."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import PATIENCE, Fermata, Worker, check, cuda_env, eventually, halt, main, need_cuda_shim, program


def world(stack):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env(fermata.env)
    return fermata


def without_fermata(stack):
    """The job itself is right."""
    w = Worker([program("cuda_worker")], env=cuda_env(os.environ))
    stack.callback(w.close)
    w.advances()
    w.finish()


def suspend_and_resume(stack):
    fermata = world(stack)
    w = fermata.cuda_worker()
    for _ in range(5):
        w.advances()
        fermata.cli("suspend", str(w.pid))
        w.stands()
        fermata.cli("resume", str(w.pid))
    w.advances()
    w.finish()


def killed_while_suspended(stack):
    """Its gates are closed for ever; the others do not mind, and its group goes."""
    fermata = world(stack)
    victim, other = fermata.cuda_worker(), fermata.cuda_worker()
    victim.advances()
    fermata.cli("suspend", str(victim.pid))
    victim.stands()
    victim.kill()
    check(victim.wait() == -signal.SIGKILL, "it survived")
    eventually("its group is gone", lambda: not fermata.group(victim.pid))
    other.advances()
    other.finish()


def ends_while_suspended(stack):
    """Its input ends, so it exits at once, with commands that wait at a gate."""
    fermata = world(stack)
    victim, other = fermata.cuda_worker(), fermata.cuda_worker()
    victim.advances()
    fermata.cli("suspend", str(victim.pid))
    victim.stands()
    victim.kill(signal.SIGTERM)
    check(victim.wait() == -signal.SIGTERM, "it survived")
    other.advances()
    other.finish()


def daemon_killed(stack):
    """A suspended program opens its own gates when its daemon is gone, and is right in the end."""
    fermata = world(stack)
    w = fermata.cuda_worker()
    w.advances()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.kill()
    w.advances()
    fermata.start()
    eventually("it is known to the next daemon", lambda: fermata.group(w.pid))
    w.advances()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.cli("resume", str(w.pid))
    w.advances()
    w.finish()


def daemon_ends(stack):
    fermata = world(stack)
    w = fermata.cuda_worker()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.stop()
    w.advances()
    w.finish()


def stopped_client(stack):
    """SIGSTOP stops no device: what it has queued behind open gates ends, and others get their turns."""
    fermata = world(stack)
    victim, other = fermata.cuda_worker(), fermata.cuda_worker()
    victim.advances()
    halt(victim.p)
    other.advances(40)
    victim.kill(signal.SIGCONT)
    victim.advances()
    other.finish()
    victim.finish()


def finishes_while_suspended_by_priority(stack):
    """Who waits below a busy program goes on when that one dies."""
    fermata = world(stack)
    high = fermata.cuda_worker("--priority", "high")
    low = subprocess.Popen(
        fermata.run_argv([program("cuda_worker")], "--priority", "low"), env=fermata.env,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stack.callback(low.stdin.close)
    stack.callback(low.kill)
    high.advances()
    high.kill()
    out, _ = low.communicate("stop\n", timeout=PATIENCE)
    check(" wrong 0" in out and low.returncode == 0, f"status {low.returncode}: {out}")


if __name__ == "__main__":
    main(without_fermata, suspend_and_resume, killed_while_suspended, ends_while_suspended, daemon_killed,
         daemon_ends, stopped_client, finishes_while_suspended_by_priority)
