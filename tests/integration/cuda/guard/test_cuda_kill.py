#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata run --guardian-kill', from the record of a program to the program that is stopped: launches that the list names end in
the middle of their blocks and run again, others do not, and what is wrong with a list is said. The driver is the fake one."""
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import PATIENCE, Fermata, check, command, cuda_env, eventually, main, need_cuda_shim, program

PTX = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "data", "again", "again.ptx")
ALLOCS = "alloc 1024\n" * 3
RUN = ALLOCS + "up 1\n" + "run again_rounds {} 1 128\n" * 12 + "sync\n"
SEEN = RUN.format(*[0] * 12)


def run(argv, text=None, status=0, **env):
    r = subprocess.run(argv, env=cuda_env({**os.environ, **env}), capture_output=True, text=True, input=text,
                       timeout=4 * PATIENCE, check=False)
    check(r.returncode == status, f"{argv[-3:]}: status {r.returncode}: {r.stdout[-800:]} {r.stderr[-1500:]}")
    return r


class Listed:
    """A folder with the list of what a program does, and a daemon."""
    def __init__(self, stack, text=SEEN):
        need_cuda_shim()
        self.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
        trace, self.list = os.path.join(self.folder, "trace"), os.path.join(self.folder, "x.idem")
        run([*command("idempotence", "record", "--collector", "cuda", "-o", trace), "--", program("cuda_again"), PTX], text,
            TMPDIR=self.folder)
        run(command("idempotence", "check", "-o", self.list, trace))
        with open(self.list, encoding="ascii") as f:
            self.text = f.read()
        self.fermata = Fermata(stack)
        self.fermata.env = cuda_env(self.fermata.env)
        self.other = self.fermata.cuda_worker()  # who is alone is not stopped in the middle of a kernel
        self.ended = os.path.join(self.folder, "ended")
        self.fermata.env["FAKE_CUDA_LEFT"] = self.ended

    def killed(self):
        return os.path.getsize(self.ended) if os.path.exists(self.ended) else 0

    def program(self, text, *options, ptx=PTX):
        path = os.path.join(self.folder, "input")
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        argv = ["sh", "-c", 'exec "$0" "$1" <"$2"', program("cuda_again"), ptx, path]
        self.native = run([program("cuda_again"), ptx], text).stdout.splitlines()
        return self.fermata.program(argv, *(options or ("--guardian-kill", self.list)))

    def counted(self, text, seed, *options):
        """The same, until something is: the program may end before anybody looks."""
        counts = {}
        eventually("something is counted", lambda: counts.update(self.stopped(text, seed, *options)) or counts)
        return counts

    def stopped(self, text, seed, *options, ptx=PTX):
        """A program that is stopped again and again, and what is counted of it at the end."""
        p, counts = self.program(text, *options, ptx=ptx), {}
        rng = random.Random(seed)

        def look():
            counts.update({c["call"]: c["undivided"] for c in (self.fermata.group(p.pid) or {}).get("calls", ())
                           if "kill" in c["call"]})
            self.fermata.cli("suspend", str(p.pid), check_status=False)
            self.fermata.cli("resume", str(p.pid), check_status=False)
            rng.random()
            return p.p.poll() is not None

        eventually("it ends", look)
        check(p.wait() == 0, f"status {p.p.returncode}")
        p.reader.join()
        check([line for line in p.lines if line is not None] == self.native, "it computes something else")
        return counts


def listed_launches(stack):
    """They are killed, run again, and leave what they leave natively."""
    l = Listed(stack)
    check(l.text.count('"kill":[') == 1 and "again_rounds" in l.text, l.text)

    def one_more():
        counts = l.stopped(SEEN, 1)
        check(not counts, f"{counts}")
        return l.killed() > 4

    eventually("they are killed", one_more)
    # Memory that lies elsewhere, and other memory of the same size.
    before = l.killed()
    moved = "alloc 4096\n" * 3 + RUN.format(*[2] * 12)

    def elsewhere():
        check(not l.stopped(moved.replace("up 1", "up 1\nup 4"), 2), "something is counted")
        return l.killed() > before

    eventually("they are killed elsewhere, too", elsewhere)


def not_asked_for(stack):
    l = Listed(stack)
    for _ in range(3):
        l.stopped(SEEN, 3, "--guardian")
    check(not l.killed(), "killed, though nobody asked for it")


def other_launches(stack):
    """Another grid, other values; and pointers that lie otherwise: what it reads is what it writes."""
    l = Listed(stack)
    for text, why in ((SEEN.replace("128", "127"), "launch not in list"), (SEEN.replace("128", "64"), "launch not in list"),
                      (RUN.format(*[1] * 12), "pointers elsewhere")):
        counts = l.counted(text, 4)
        check(counts == {f"kill ({why})": 1}, f"{text!r}: {counts}")
        check(not l.killed(), f"killed: {why}")


def memory_of_others(stack):
    """Given to another process, or taken from one."""
    l = Listed(stack)
    for call in "export 0", "import 0":
        counts = l.counted(ALLOCS + f"up 1\n{call}\n" + "run again_rounds 0 1 128\n" * 8 + "sync\n", 5)
        check(counts == {"kill (memory of others)": 1} and not l.killed(), f"{call}: {counts}")


def other_code(stack):
    """A kernel of the same name in another text is not known; nor one that is changed while the list stays."""
    l = Listed(stack)
    changed = os.path.join(l.folder, "changed.ptx")
    with open(PTX, encoding="ascii") as f, open(changed, "w", encoding="ascii") as to:
        to.write(f.read() + "// another build\n")
    counts = l.stopped(SEEN, 6, ptx=changed)
    check(not counts and not l.killed(), f"{counts}, {l.killed()}")


def kernels_that_cannot(stack):
    l = Listed(stack, ALLOCS + "up 1\nrun again_plain 0 1 128\n")
    check("again_plain" in l.text and '"kill":[' in l.text, l.text)
    counts = l.counted(ALLOCS + "up 1\n" + "run again_plain 0 1 128\n" + "run again_rounds 0 1 128\n" * 8 + "sync\n", 7)
    check(counts == {"kill (no loop)": 1} and not l.killed(), f"{counts}")


def a_pointer_taken_for_a_value(stack):
    """What the kernel touches there is not known, wherever the others point."""
    l = Listed(stack)
    words = re.compile(r'("kill":\["\w+ \w+ \S+ \S+ \d+ \d+ )p(.*?); 0:0,1:0,; [^,]*,(.*?)"')
    text, n = words.subn(r'\g<1>1234,\2; 0:0,; \3"', l.text)
    check(n == 1, l.text)
    with open(l.list, "w", encoding="ascii") as f:
        f.write(text)
    counts = l.counted(SEEN, 9)
    check(counts == {"kill (unknown addresses)": 1} and not l.killed(), f"{counts}")


def lists_not_believed(stack):
    """`fermata run' says why; a program that is given such a list all the same kills nothing."""
    l = Listed(stack)
    lines = l.text.splitlines(True)
    cases = {"cut": l.text[:-10], "fewer": "".join(lines[:-1]), "version": l.text.replace('"v":1', '"v":2', 1),
             "none": "", "words": "hello\n", "launch": l.text.replace('"kill":["', '"kill":["zz'),
             "large": l.text + "\n" * (17 << 20)}
    for name, text in cases.items():
        path = os.path.join(l.folder, name)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        r = l.fermata.cli("run", "--guardian-kill", path, "true", check_status=False)
        check(r.returncode == 2 and r.stderr.startswith("fermata: "), f"{name}: {r.returncode} {r.stderr}")
    writable = os.path.join(l.folder, "writable")
    with open(writable, "w", encoding="ascii") as f:
        f.write(l.text)
    os.chmod(writable, 0o666)
    r = l.fermata.cli("run", "--guardian-kill", writable, "true", check_status=False)
    check(r.returncode == 2 and "can be written by others" in r.stderr, r.stderr)
    check(l.fermata.cli("run", "--guardian-kill", l.folder, "true", check_status=False).returncode == 2, "a folder")
    for path, why in ((writable, "list of others"), (os.path.join(l.folder, "cut"), "list not understood"),
                      (os.path.join(l.folder, "large"), "list too large"), (os.path.join(l.folder, "gone"), "list not readable")):
        l.fermata.env["FERMATA_GUARDIAN_KILL"] = path
        counts = l.counted(SEEN, 8, "--guardian")
        check(counts == {f"kill ({why})": 1} and not l.killed(), f"{path}: {counts}")


if __name__ == "__main__":
    main(listed_launches, not_asked_for, other_launches, memory_of_others, other_code, kernels_that_cannot, a_pointer_taken_for_a_value,
         lists_not_believed)
