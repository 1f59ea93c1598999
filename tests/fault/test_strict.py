#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strict mode: no program opens its own gate, whatever it writes to; so a daemon that is killed leaves programs
stopped, and the next one, which gets their gates from systemd (here: this test) and from them, lets them go on."""
import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import FERMATAD, PATIENCE, Fermata, Skip, check, cuda_env, eventually, halt, main, need_cuda_shim, program
from strict_daemon import SLOTS, SLOTS_AT, SLOT_SIZE, STRICT, Managed, kept

LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_GETFD = 438


def cuda(fermata, **env):
    need_cuda_shim()
    fermata.env = cuda_env({**fermata.env, **env})
    return fermata


def borrowed(pid, fd):
    """A descriptor of another process, for this one as well."""
    pidfd = os.pidfd_open(pid)
    got = LIBC.syscall(PIDFD_GETFD, pidfd, fd, 0)
    os.close(pidfd)
    check(got >= 0, f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
    return got


def overwrite_gates(pid):
    """What a program can write: every gate word of its own board is open."""
    boards = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{fd}"
        with contextlib.suppress(OSError):
            if "fermata-board" in os.readlink(path):
                with open(path, "r+b", buffering=0) as f:
                    for slot in range(SLOTS):
                        os.pwrite(f.fileno(), b"\0\0\0\0", SLOTS_AT + slot * SLOT_SIZE)
                boards += 1
    check(boards, "it has no board")
    for fd in os.listdir(f"/proc/{pid}/fd"):  # and its agent, which may sleep, looks
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            if int(fd) >= 900 and os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
                its = socket.socket(fileno=borrowed(pid, int(fd)))
                stack.callback(its.close)
                if its.type == socket.SOCK_STREAM:  # not the one to the daemon
                    its.send(b"!")


def own_stores(stack, start):
    for config in ("[security]\nstrict = no\n", STRICT):
        fermata = Fermata(stack, config=config)
        w = start(fermata)
        w.advances()
        fermata.cli("suspend", str(w.pid))
        w.stands()
        overwrite_gates(w.pid)
        if config == STRICT:
            w.stands()
            overwrite_gates(w.pid)
            w.stands()
            fermata.cli("resume", str(w.pid))
        w.advances()
        w.finish()
        fermata.stop()


def own_stores_opencl(stack):
    """A program that opens the gates in its board stays where it is; without strict mode it goes on."""
    own_stores(stack, lambda f: f.worker())


def own_stores_cuda(stack):
    own_stores(stack, lambda f: cuda(f).cuda_worker())


def killed(stack, start):
    fermata = Managed(stack)
    w = start(fermata)
    for _ in range(2):
        w.advances()
        kept(fermata, 1)
        fermata.cli("suspend", str(w.pid))
        w.stands()
        fermata.kill()
        overwrite_gates(w.pid)
        w.stands()
        fermata.start()
        eventually("it is known to the next daemon", lambda: fermata.group(w.pid))
        w.advances()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.cli("resume", str(w.pid))
    w.advances()
    w.finish()
    kept(fermata, 0)


def killed_opencl(stack):
    """SIGKILL of the daemon opens no gate; the next one's clients go on, and are right in the end."""
    killed(stack, lambda f: f.worker())


def killed_cuda(stack):
    killed(stack, lambda f: cuda(f).cuda_worker())


def killed_without_systemd(stack):
    """The client shows the next daemon its gates."""
    fermata = cuda(Fermata(stack, config=STRICT))
    w, other = fermata.cuda_worker(), fermata.cuda_worker()
    for _ in range(2):
        fermata.cli("suspend", str(w.pid))
        w.stands()
        fermata.kill()
        w.stands()
        fermata.start()
        for p in (w, other):
            eventually("it is known to the next daemon", lambda p=p: fermata.group(p.pid))
            p.advances()
    w.finish()
    other.finish()


def orderly_end(stack):
    """SIGTERM opens every gate, and the next daemon has the same pages."""
    fermata = cuda(Managed(stack))
    w = fermata.cuda_worker()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.stop()
    w.advances()
    kept(fermata, 1)
    fermata.start()
    eventually("it is known to the next daemon", lambda: fermata.group(w.pid))
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.cli("resume", str(w.pid))
    w.finish()
    kept(fermata, 0)


def daemon_hangs(stack):
    """Its clients give it up and come again, which opens no gate; with the daemon they go on."""
    fermata = cuda(Managed(stack))
    w = fermata.cuda_worker()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    halt(fermata.daemon)
    time.sleep(6)  # in which they give it up, on a machine that lets them
    w.stands()
    fermata.daemon.send_signal(signal.SIGCONT)
    eventually("it is known", lambda: not fermata.cli("resume", str(w.pid), check_status=False).returncode)
    w.advances()
    kept(fermata, 1)
    w.finish()
    kept(fermata, 0)


def next_daemon_is_lax(stack):
    """It opens the gates that it gets, gives nobody any, and keeps none."""
    fermata = cuda(Managed(stack))
    w = fermata.cuda_worker()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    kept(fermata, 1)
    fermata.kill()
    fermata.lax()
    fermata.start()
    eventually("it is known to the next daemon", lambda: fermata.group(w.pid))
    kept(fermata, 0)
    w.advances()
    fermata.cli("suspend", str(w.pid))
    w.stands()
    overwrite_gates(w.pid)
    w.advances()
    w.finish()


def device_cannot_read(stack):
    """Where the driver does not take such memory launches are held back, and that is shown."""
    fermata = cuda(Fermata(stack, config=STRICT), FAKE_CUDA_NO_READ_ONLY="1")
    w = fermata.cuda_worker()
    w.advances()
    eventually("it is at level 1", lambda: {q["level"] for q in fermata.group(w.pid)["queues"]} == {1})
    fermata.cli("suspend", str(w.pid))
    w.stands()
    overwrite_gates(w.pid)
    w.stands()
    fermata.cli("resume", str(w.pid))
    w.advances()
    w.finish()


def driver_alone(stack):
    """A stream waits for a page that only others can write, as long as it is closed."""
    need_cuda_shim()
    run = subprocess.run([program("cuda_readonly"), "20"], env=cuda_env(os.environ), timeout=PATIENCE, check=False)
    if run.returncode == 77:
        raise Skip("the driver does not register memory that can only be read")
    check(run.returncode == 0, f"status {run.returncode}")


def children(stack):
    """A child has gates of its own, and its parent's are its parent's."""
    fermata = Fermata(stack, config=STRICT)
    w = fermata.worker()
    for line in ("fork-exit", "fork-hold"):
        w.tell(line)
        answer = w.line("forked" if line == "fork-exit" else "child ")
        w.advances()
        fermata.cli("suspend", str(w.pid))
        w.stands()
        fermata.cli("resume", str(w.pid))
    child = int(answer.split()[1])
    w.advances()
    w.finish()
    os.kill(child, signal.SIGKILL)


def exits_while_stopped(stack):
    """It ends, and its page goes."""
    fermata = cuda(Managed(stack))
    w, other = fermata.cuda_worker(), fermata.cuda_worker()
    kept(fermata, 2)
    fermata.cli("suspend", str(w.pid))
    w.stands()
    w.kill(signal.SIGTERM)
    w.wait()
    kept(fermata, 1)
    other.advances()
    other.finish()
    kept(fermata, 0)


# Clients made by hand.


def warns(stack):
    """Where nobody keeps its pages the daemon says what that means."""
    fermata = Fermata(stack, config=STRICT, start=False)
    for env, says in ((fermata.env, True), ({**fermata.env, "NOTIFY_SOCKET": fermata.dir + "/none"}, False)):
        p = subprocess.Popen([FERMATAD, "--dir", fermata.dir, *fermata.args], env=env, stderr=subprocess.PIPE, text=True)
        fermata.daemon = p
        eventually("the daemon answers", fermata.answers)
        fermata.stop()
        text = p.stderr.read()
        p.stderr.close()
        check(bool(re.search("stopped programs stay", text)) == says, text)


if __name__ == "__main__":
    main(own_stores_opencl, own_stores_cuda, killed_opencl, killed_cuda, killed_without_systemd, orderly_end,
         daemon_hangs, next_daemon_is_lax, device_cannot_read, driver_alone, children, exits_while_stopped, warns)
