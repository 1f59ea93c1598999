#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Templates of kernels, on the fake driver: of a large buffer, the parts are in use that kernels touch; and with a file
that lies, or is somebody else's, the program computes what it is to compute."""
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import managed
from harness import FERMATA, PATIENCE, Fermata, ask, check, cuda_env, eventually, long, main, need_cuda_shim, program

MIB = 1 << 20
CHUNK = 128  # MiB: what moves as a whole
TAIL = 4
BUFFER = CHUNK + TAIL  # of two chunks
TURNS = 3  # after so many turns without being named memory is not in use
TRIAL = 16


class Parts(managed.Managed):
    def ends(self):
        self.do("check 0")
        super().ends()


def templates(stack, first=0, size=4096, step=1):
    d = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-kernels-"))
    subprocess.run([program("cuda_foretold"), "--templates", d, str(first), str(size), str(step)], check=True,
                   env=cuda_env({**os.environ}))
    return d


def another(fermata, mib=CHUNK):
    p = fermata.program([program("cuda_foretold")], "--memory", cls=Parts)
    p.line("ready")
    fermata.knows(p.pid)
    p.do(f"alloc {mib}")
    return p


def world(stack, kernels, mib=BUFFER, **env):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env({**fermata.env, "FERMATA_KERNELS": kernels, "FERMATA_MEMORY_KEEP": "0", **env})
    return fermata, another(fermata, mib)


def group(fermata, p):
    return next(g for g in ask(fermata.dir, "ps")["groups"] if str(p.pid) in g["name"])


def known(fermata, p):
    """What is told of its kernels; it is told at each turn, and now and then."""
    return group(fermata, p).get("templates") or {}


def turn(fermata, p, *commands):
    """It does that, and its memory goes out and comes in."""
    def away():
        return ask(fermata.dir, "away", target=str(p.pid))["memory"][0]

    p.do(*commands)
    ask(fermata.dir, "suspend", target=str(p.pid), out=True)
    eventually("it is out", lambda: not away()["resident"])
    ask(fermata.dir, "resume", target=str(p.pid))
    eventually("it is in", lambda: away()["wish"] == "stay" and not away()["host"])


def use(fermata, p, *commands):
    """MiB in use if nothing but that is done for long enough."""
    for _ in range(TURNS):
        turn(fermata, p, *commands)
    return group(fermata, p)["memory"][0]["hot_bytes"] // MIB


def read_by_agent(fermata, p):
    """The agent has read the file, and the function has its templates."""
    def is_known():
        turn(fermata, p, "part 0")  # at which it is told
        t = known(fermata, p)
        return t and t["trial"] + t["trusted"] + t["distrusted"]

    eventually("the templates are known", is_known)


def parts_of_a_buffer(stack):
    fermata, p = world(stack, templates(stack), FERMATA_MEMORY_TEMPLATES="off")
    check(use(fermata, p, f"part {CHUNK + 1}") >= BUFFER, "without templates all of the buffer is in use")
    p.ends()

    fermata, p = world(stack, templates(stack))
    read_by_agent(fermata, p)
    one = use(fermata, p, f"part {CHUNK + 1}")
    check(TAIL - 2 <= one <= TAIL + 4, f"{one} MiB are in use, not the small chunk")
    p.do("graph 100")
    graph = use(fermata, p, "play 0")
    check(PIECE - 2 <= graph <= PIECE + 2, f"{graph} MiB are in use, not a graph's part of a chunk")
    check(known(fermata, p)["pointers"]["linear"] == 1, f"{known(fermata, p)}")
    turn(fermata, p, *["part 5"] * TRIAL)
    eventually("it is trusted", lambda: known(fermata, p)["trusted"] == 1 and not known(fermata, p)["trial"])
    p.ends()


ROUNDS = 2
DEVICE = 2 * CHUNK * 100 // 150  # MiB: less than two buffers, by half
PIECE = 32  # MiB: what a chunk is cut into


def moved(stack, programs, how):
    """MiB that programs with a buffer each, of which they use some, move over the link in some rounds; together they have more
    than the device does."""
    device = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "device")
    fermata, p = world(stack, templates(stack), CHUNK, FERMATA_MEMORY_TEMPLATES=how, FERMATA_MEMORY_LATE="never",
                       FAKE_CUDA_CAPACITY=f"{DEVICE + 2 + programs}M", FAKE_CUDA_CONTEXT="1M", FAKE_CUDA_DEVICE=device)
    each = [p] + [another(fermata) for _ in range(programs - 1)]

    def one_round():
        for p in each:
            p.do("part 1", "part 20")

    def bytes_moved():
        rows = [group(fermata, p)["memory"][0] for p in each]
        return sum(row["moved_in_bytes"] + row["moved_out_bytes"] for row in rows)

    def settled():
        before = bytes_moved()
        one_round()
        return bytes_moved() == before

    one_round()
    if how == "on":
        eventually("what is used is on the device, and stays there", settled, 4 * PATIENCE)
        rows = [group(fermata, p)["memory"][0] for p in each]
        check(any(row["hot_bytes"] <= PIECE * MIB <= row["mapped_bytes"] for row in rows), f"{rows}")
    before = bytes_moved()
    for _ in range(ROUNDS):
        one_round()
    after = bytes_moved()
    for p in each:
        p.ends()
    return (after - before) // MIB


@long
def bytes_by_allocation_and_by_template(stack):
    """Buffers of which a quarter is used, of all of them 150 and 300 % of the device."""
    for programs, least in ((2, 4.7), (4, 10)) if os.environ.get("FERMATA_TEST_LONG") == "1" else ((2, 4.7),):
        whole, parts = moved(stack, programs, "off"), moved(stack, programs, "on")
        print(f"{programs} programs: {whole} MiB by allocation, {parts} MiB by template")
        check(whole >= ROUNDS * CHUNK, f"the programs do not take turns: {whole} MiB")
        check(whole >= least * parts, f"{whole} MiB by allocation, {parts} by template")


DISTRUSTED = 64  # turns


def misses_by_time(stack):
    """Work that takes longer than it does, while memory runs from the host that nothing names: it is told, the templates are
    distrusted and all of the buffer comes in; after 64 turns they are believed again."""
    device = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "device")
    fermata, p = world(stack, templates(stack), 40, FERMATA_MEMORY_LATE="400ms", FERMATA_MEMORY_KEEP="1", FAKE_CUDA_CAPACITY="63M",
                       FAKE_CUDA_CONTEXT="1M", FAKE_CUDA_DEVICE=device)
    p.do("spin 1")
    other = another(fermata, 56)
    record = os.path.join(fermata.dir, "record")

    def memory():
        return group(fermata, p)["memory"][0]

    def is_mapped():
        p.do("spin 1", "spin 1", "part 38")
        other.do("part 1", "part 40")
        return memory()["mapped_bytes"] >= PIECE * MIB and memory()["hot_bytes"] <= (40 - PIECE + TAIL) * MIB

    def is_missed():
        before = memory()["missed"]
        # On a machine at work its short kernels may be late by as much, and then what runs from the host has been missed already.
        eventually(lambda: f"a part runs from the host: {ask(fermata.dir, 'ps')['groups']}", lambda: is_mapped() or memory()["missed"] > before)
        p.do("spin 1500")
        other.do("part 1", "part 40")
        return memory()["missed"] > before and memory()["missed_by"] == "time"

    recorder = subprocess.Popen([FERMATA, "trace", "record", "-q", "-o", record], env=fermata.env)
    stack.callback(recorder.kill)
    eventually("it is noticed", is_missed)
    recorder.send_signal(signal.SIGINT)
    check(recorder.wait(PATIENCE) == 0, "the trace is recorded")
    events = [json.loads(line) for line in fermata.cli("trace", "dump", "--json", record).stdout.splitlines()]
    missed = [e for e in events if e["event"] == "memory_missed"]
    check(missed and missed[-1]["late"] >= 400_000_000 and missed[-1]["mapped"] >= PIECE * MIB, f"{missed}")
    why = fermata.cli("why", str(p.pid)).stdout
    check("missed memory" in why and "its work took longer than it does" in why, why)
    head, line = (r.split() for r in fermata.cli("ps", "--memory").stdout.splitlines()[:2])
    check(int(line[head.index("MISSED")]) >= 1, f"{line}")
    eventually("its templates are distrusted", lambda: known(fermata, p).get("distrusted") == 1)
    other.ends()

    def is_in():
        turn(fermata, p, "part 38")
        return memory()["mapped_bytes"] < PIECE * MIB <= memory()["hot_bytes"]

    eventually("all of the buffer is in use, and comes in", is_in)

    if os.environ.get("FERMATA_TEST_LONG") == "1":  # it takes half a minute
        turns = 0
        while known(fermata, p).get("distrusted"):
            turn(fermata, p, "part 38")
            turns += 1
        check(turns <= DISTRUSTED, f"it is distrusted for {turns} turns and more")
        small = use(fermata, p, "part 38")
        check(small <= 40 - PIECE + TAIL, f"{small} MiB are in use after that")
    p.ends()


def lies(stack):
    """Too small, too large, from the wrong place: results are what they are to be."""
    for first, size, step, outside in ((0, 1, 0, False), (-(1 << 40), 1 << 50, 1, True), (64 * MIB, 4096, 77, True)):
        fermata, p = world(stack, templates(stack, first, size, step))
        read_by_agent(fermata, p)
        turn(fermata, p, "part 0", f"part {BUFFER - 1}", "graph 129", "play 0")
        p.do("part 100", "play 0")
        eventually("what leads outside is distrusted", lambda: known(fermata, p)["distrusted"] == outside)
        p.ends()


def products_that_overflow(stack):
    """They foretell nothing: the whole buffer is in use, and nothing is distrusted."""
    d = templates(stack)
    path = os.path.join(d, os.listdir(d)[0])
    text = open(path).read()
    check('"num":1048576,' in text, text)
    open(path, "w").write(text.replace('"num":1048576,', '"num":9223372036854775807,'))
    fermata, p = world(stack, d)
    read_by_agent(fermata, p)
    hot = use(fermata, p, "part 1", f"part {BUFFER - 1}")
    check(hot >= BUFFER and not known(fermata, p)["distrusted"], f"{hot} MiB are in use, {known(fermata, p)}")
    p.ends()


def strided(first, size, step, count):
    return f'{{"at":0,"form":"strided","from":{first},"bytes":{size},"step":{step},"count":{count}}}'


def product(num, *of, den=1, plus=0):
    return f'{{"num":{num},"den":{den},"of":[{",".join(chr(34) + o + chr(34) for o in of)}],"plus":{plus}}}'


def linear(first, size):
    return f'{{"at":0,"form":"linear","from":{first},"bytes":{size}}}'


def memos(n):
    return ",".join(f'{{"key":"{k + 1:016x}","spans":[[{-k - 1},{1 << 59}]]}}' for k in range(n))


MOST = (1 << 63) - 1
ENEMY = {
    "a wrong stride": strided(0, 4096, 3 * MIB, 5),
    "a stride that grows": strided(0, 4096, product(4096, "u32@8", plus=4096), 7),
    "a stride that leads outside": strided(0, 4096, 1 << 40, 5),
    "more pieces than there are numbers": strided(0, MIB, 2 * MIB, 1 << 60),
    "so many that they are one": strided(1 - MIB, 1, 77, 1 << 30),
    "pieces on top of each other": strided(0, MIB, 0, 5),
    "a stride back": strided(0, 1, -MIB, 5),
    "less than no pieces": strided(0, 1, MIB, -1),
    "less than no bytes": linear(0, -1),
    "far in front": linear(-(1 << 60), 1),
    "from there to far behind": linear(-(1 << 60), product(MOST, "grid.x")),
    "as many bytes as an address says": linear(product(-1, "u64@0"), product(1, "u64@0")),
    "a product of addresses": linear(product(1, "u64@0", "u64@0", "u64@0"), 1),
    "a part of next to nothing": linear(product(-MOST, "u32@8", "block.x", den=MOST, plus=-MOST), 1),
    "launches that never were": f'{{"at":0,"form":"memo","seen":[{memos(64)}]}}',
}
REFUSED = {
    "a box that has no room": '{"at":0,"form":"box"}',
    "a pointer outside": linear(0, 1).replace('"at":0', '"at":16'),
    "pointers on top of each other": linear(0, 1) + "," + linear(0, 1).replace('"at":0', '"at":4'),
    "a factor outside": linear(product(1, "u32@16"), 1),
    "four factors": linear(product(1, "u32@8", "u32@8", "u32@8", "u32@8"), 1),
    "a division by 0": linear(product(1, "u32@8", den=0), 1),
    "numbers that are too large": linear(1 << 61, 1),
    "65 memos": f'{{"at":0,"form":"memo","seen":[{memos(65)}]}}',
    "spans that fall": '{"at":0,"form":"memo","seen":[{"key":"0000000000000001","spans":[[5,9],[0,3]]}]}',
}


def templates_of_an_enemy(stack):
    """Whatever a file says that can be read, results are what they are to be; what cannot be is refused as a whole."""
    d = templates(stack)
    path = os.path.join(d, os.listdir(d)[0])
    text = open(path).read()
    begin, end = text.index('"pointers":[') + 12, text.rindex("]}")
    for what, pointers in {**ENEMY, **REFUSED}.items():
        open(path, "w").write(text[:begin] + pointers + text[end:])
        fermata, p = world(stack, d, 8)
        try:
            p.do("graph 7", "part 0")
            if what in ENEMY:
                read_by_agent(fermata, p)
            else:
                eventually("it is refused", lambda: known(fermata, p).get("refused"))
            turn(fermata, p, "part 0", "part 7", "play 0", "graph 4", "play 0")
            p.do("part 1", "play 0")
            check(bool(known(fermata, p)["refused"]) == (what in REFUSED), f"{known(fermata, p)}")
            p.ends()
        except AssertionError as e:
            raise AssertionError(f"{what}: {e}") from e


def large_files(stack):
    """One that has as many kernels as there is room for is read; one that is larger is not."""
    d = templates(stack)
    path = os.path.join(d, os.listdir(d)[0])
    head, kernel = open(path).read().splitlines()
    n = (4 * MIB - 1000) // (len(kernel) + 1)
    lines = [kernel.replace("in_part", f"b{k:06}") for k in range(n)] + [kernel]
    for more in (0, 1):
        open(path, "w").write("\n".join([head.replace('"kernels":1', f'"kernels":{n + 1}'), *lines, ""]) + more * 2000 * " ")
        fermata, p = world(stack, d, 4)
        if more:
            p.do("part 0")
            eventually("it is not read", lambda: known(fermata, p).get("refused"))
        else:
            read_by_agent(fermata, p)
        p.do("part 1", "part 2")
        p.ends()


def files_that_are_not_read(stack):
    d = templates(stack)
    path = os.path.join(d, os.listdir(d)[0])
    text = open(path).read()

    def refused(why):
        fermata, p = world(stack, d, 4)
        p.do("part 0", "part 1")
        eventually(f"it is not read: {why}", lambda: known(fermata, p).get("refused"))
        p.do("part 2")
        t = known(fermata, p)
        check(not t["trial"] and not t["trusted"], f"{why}: {t}")
        p.ends()

    open(path, "w").write(text[:-10])
    refused("cut off")
    open(path, "w").write(text.replace('"kernels":1', '"kernels":1000000000'))
    refused("10^9 kernels")
    image = os.path.basename(path).split(".")[0]
    open(path, "w").write(text.replace(image, image[::-1]))
    refused("of another image")
    open(path, "w").write(text)
    os.chmod(path, 0o666)
    refused("others may write it")
    if not os.geteuid():
        os.chmod(path, 0o644)
        os.chown(path, 4242, 4242)
        refused("of another owner")


if __name__ == "__main__":
    main(parts_of_a_buffer, bytes_by_allocation_and_by_template, misses_by_time, lies, products_that_overflow, templates_of_an_enemy,
         large_files, files_that_are_not_read)
