#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example server (examples/server), on a device that is none: what it answers, in every mode the same, bit by bit; what
it refuses, and in which words; clients that die, servers that end."""

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
from harness import BUILD, FERMATA_LAB, PATIENCE, SANITIZE, Program, Skip, check, cuda_env, eventually, main, need_cuda_shim, preload, seldom_sanitized  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
SERVER = os.path.join(BUILD, "bin", "inference_server")
DRIVER = os.path.join(BUILD, "lib", "inference_bench.so")
SHIM = os.path.join(BUILD, "lib", "libfermata-cuda.so")

SMALL = "resnet18,size=16,width=4"
MODELS = ("-r", f"rt={SMALL}", "-b", "deep=resnet50,size=16,width=4,batch=2", "-b", "mlp=mlp,size=8,width=8",
          "-b", "vgg=vgg16,size=16,width=4,depth=32")
# What the processor makes of picture 0 and 1; a device makes the same.
ANSWERS = {
    "rt": ["7afa7ccf9ab449f1", "1e13b50d3d31f5a5"],
    "deep": ["889bf7cd2415293b", "9d325368a4a3cf8d"],
    "mlp": ["9c902ac37a7cb8f5", "526002da28f32779"],
    "vgg": ["322e37fea800ae9a", "48f20229c47e991f"],
}


class Server(Program):
    def __init__(self, stack, *options, models=MODELS, env=None, shim=False, listens=True):
        self.dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
        self.path = os.path.join(self.dir, "socket")
        env = cuda_env(env or os.environ)
        if shim:
            env["LD_PRELOAD"] = preload(SHIM)
        super().__init__([SERVER, *models, *options, *(("--socket", self.path) if listens else ())], env=env)
        stack.callback(self.close)
        self.line("ready: ")

    def end(self):
        self.kill(signal.SIGTERM)
        check(self.wait() == 0, f"the server ended with status {self.p.returncode}")


class Client:
    def __init__(self, stack, server):
        self.s = socket.socket(socket.AF_UNIX)
        stack.callback(self.close)
        self.s.settimeout(PATIENCE)
        self.s.connect(server.path if isinstance(server, Server) else server)
        self.f = self.s.makefile("rb")

    def close(self):
        self.s.close()
        if hasattr(self, "f"):
            self.f.close()

    def say(self, *lines):
        self.s.sendall("".join(line + "\n" for line in lines).encode())

    def hear(self):
        return self.f.readline().decode().rstrip("\n")

    def ask(self, line):
        self.say(line)
        return self.hear()

    def infer(self, model, picture):
        """What it was taken for, and the digest of all that was said."""
        answer = self.ask(f"infer {model} {picture}")
        m = re.fullmatch(rf"ok {model} {picture} class=(\d+) digest=([0-9a-f]{{16}}) wait_us=[\d.]+ run_us=[\d.]+", answer)
        check(m, f"{model} {picture}: {answer}")
        return m[2]

    def stats(self, model=None):
        answer = self.ask("stats")
        check(answer.startswith("ok "), answer)
        all_ = json.loads(answer[3:])
        return next(m for m in all_["models"] if m["name"] == model) if model else all_


def names(models):
    return [m.split("=")[0] for m in models[1::2]]


def answers(stack, *options, **more):
    """Of each model, to two pictures, one after the other; the server ends."""
    server = Server(stack, *options, **more)
    c = Client(stack, server)
    found = {m: [c.infer(m, p) for p in (0, 1)] for m in names(MODELS)}
    server.end()
    return found


def together(stack, server, rounds=3):
    """The same questions, by a client for each model at once."""
    found, threads = {}, []

    def ask(model):
        with contextlib.ExitStack() as mine:
            c = Client(mine, server)
            found[model] = [[c.infer(model, p) for p in (0, 1)] for _ in range(rounds)]

    for m in names(MODELS):
        threads.append(threading.Thread(target=ask, args=(m,)))
        threads[-1].start()
    for t in threads:
        t.join()
    return {m: found.get(m) for m in names(MODELS)}


def answers_are_known(stack):
    check(answers(stack, "--mode", "sequential") == ANSWERS, "the answers are others")


def answers_are_equal_in_modes(stack):
    for mode in ("sequential", "streams", "priority-streams"):
        server = Server(stack, "--mode", mode)
        for m, found in together(stack, server).items():
            check(found == [ANSWERS[m]] * 3, f"{mode}: {m}: {found}")
        c = Client(stack, server)
        check(c.stats()["mode"] == mode, c.stats())
        for m in names(MODELS):
            s = c.stats(m)
            check((s["served"], s["failed"], s["refused"], s["waiting"]) == (6, 0, 0, 0), s)
            check(s["class"] == ("real-time" if m == "rt" else "best-effort"), s)
        server.end()


def wrong_requests(stack):
    server = Server(stack)
    c = Client(stack, server)
    wrong = "infer MODEL PICTURE"
    for line, answer in {
            "": wrong, "infer": wrong, "infer rt": wrong, "INFER rt 1": wrong, "stats ": wrong, "hello": wrong,
            "infer  rt 1": "a number", "infer rt ": "a number", "infer rt -1": "a number", "infer rt 1 ": "a number",
            "infer rt 4294967296": "a number", "infer rt 1e3": "a number", "infer rt 0x1": "a number",
            "infer rt 00000000001": "a number", "infer nobody 1": "no such model", "infer rtx 1": "no such model",
            "infer r 1": "no such model"}.items():
        said = c.ask(line)
        check(said.startswith(("error malformed ", "error unknown ")) and answer in said, f"{line!r}: {said}")
    check(c.infer("rt", 0) == ANSWERS["rt"][0], "after wrong requests it answers otherwise")
    for nonsense in (b"x" * 300, b"infer rt 1\0\n", b"\0" * 255 + b"\n", bytes(range(1, 256)) * 3):
        c = Client(stack, server)
        c.s.sendall(nonsense)
        said = c.f.readline()
        check(said.startswith(b"error malformed "), f"{nonsense!r}: {said}")
    check(Client(stack, server).infer("rt", 1) == ANSWERS["rt"][1], "after nonsense it answers otherwise")
    server.end()


def many_requests_in_a_write(stack):
    server = Server(stack)
    c = Client(stack, server)
    c.say(*("infer rt 0", "nonsense") * 20)
    for _ in range(20):
        check(f"digest={ANSWERS['rt'][0]} " in c.hear(), "a request was lost")
        check(c.hear().startswith("error malformed "), "a request was lost")
    # Half of a line, then the rest; and one who says nothing more still hears.
    c.s.sendall(b"inf")
    c.s.sendall(b"er rt 1\n")
    c.s.shutdown(socket.SHUT_WR)
    check(f"digest={ANSWERS['rt'][1]} " in c.hear() and c.hear() == "", "half a line was lost")
    server.end()


def overload(stack):
    """Four ask for one thing, of which one can wait."""
    server = Server(stack, "--queue", "1")
    done, told = threading.Event(), []

    def hammer():
        with contextlib.ExitStack() as mine:
            c, n = Client(mine, server), 0
            while not done.is_set():
                answer = c.ask("infer deep 0")
                refused = answer == "error overloaded 1 requests wait for deep already"
                check(refused or f"digest={ANSWERS['deep'][0]} " in answer, answer)
                n += refused
            told.append(n)

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for t in threads:
        t.start()
    c = Client(stack, server)
    try:
        eventually("somebody is refused, somebody served",
                   lambda: c.stats("deep")["refused"] >= 5 and c.stats("deep")["served"] >= 2)
    finally:
        done.set()
        for t in threads:
            t.join()
    check(len(told) == 4 and sum(told) == c.stats("deep")["refused"], (told, c.stats("deep")))
    server.end()


def too_many_connections(stack):
    server = Server(stack, "--connections", "2")
    here = [Client(stack, server) for _ in range(2)]
    check(all(c.infer("rt", 0) for c in here), "nobody")
    check(Client(stack, server).hear() == "error overloaded there are too many connections", "a third was let in")
    here[0].close()

    def let_in():
        with contextlib.ExitStack() as mine, contextlib.suppress(ConnectionError):
            return Client(mine, server).ask("infer rt 0").startswith("ok ")

    eventually("the place of who has gone is free", let_in)
    server.end()


def no_descriptors_left(stack):
    server = Server(stack)
    here = [Client(stack, server) for _ in range(2)]
    check(all(c.infer("rt", 0) for c in here), "nobody")
    used = {int(fd) for fd in os.listdir(f"/proc/{server.pid}/fd")}
    most = max(used) + 1
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most, most))
    with contextlib.ExitStack() as mine:
        for _ in range(most):
            Client(mine, server)
        check(here[0].infer("rt", 1) == ANSWERS["rt"][1], "who is there is not served")
        here[1].close()

    def let_in():
        with contextlib.ExitStack() as mine, contextlib.suppress(ConnectionError):
            return Client(mine, server).ask("infer rt 0").startswith("ok ")

    eventually("somebody is let in again", let_in)
    server.end()


def clients_that_die(stack):
    """While they wait, and while they are served; nobody else is worse off."""
    server = Server(stack, "--mode", "sequential")
    c = Client(stack, server)

    def one_more():
        with contextlib.ExitStack() as mine:
            clients = [Client(mine, server) for _ in range(4)]
            for x in clients:
                x.say("infer deep 1")
        return c.stats("deep")["left"] > 0

    eventually("somebody left before his turn came", one_more)
    check(c.infer("deep", 1) == ANSWERS["deep"][1], "after that it answers otherwise")
    eventually("nobody waits", lambda: c.stats("deep")["waiting"] == 0)
    server.end()


def ends(stack, server):
    """Who is there is answered: served, if he was before."""
    clients = [Client(stack, server) for _ in range(3)]
    for c in clients:
        c.say(*["infer deep 0"] * 5)
    first = clients[0].hear()
    server.kill(signal.SIGTERM)
    said = [c.hear() for c in clients for _ in range(4 if c is clients[0] else 5)]
    for line in [first, *said]:
        check(f"digest={ANSWERS['deep'][0]} " in line or line == "error ending the server is ending", line)
    check(all(c.hear() == "" for c in clients), "there was more")
    check(server.wait() == 0, f"status {server.p.returncode}")
    check(not os.path.exists(server.path), "its socket is still there")


def ends_in_order(stack):
    ends(stack, Server(stack))


def second_server(stack):
    first = Server(stack)
    argv = [SERVER, "-r", f"rt={SMALL}", "--socket", first.path]

    def start():
        return subprocess.run(argv, env=cuda_env(os.environ), text=True, capture_output=True, timeout=PATIENCE)

    r = start()
    check(r.returncode == 1 and "Address already in use" in r.stderr and first.path in r.stderr, r)
    check(Client(stack, first).infer("rt", 0) == ANSWERS["rt"][0], "the first is gone")
    first.kill()
    first.wait()
    p = Program(argv, env=cuda_env(os.environ))
    stack.callback(p.close)
    p.line("ready: priority-streams, 1 model, on ")
    check(Client(stack, first.path).infer("rt", 0) == ANSWERS["rt"][0], "in the place of one that was killed")


def a_file_in_the_way(stack):
    where = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "weights")
    with open(where, "w", encoding="ascii") as f:
        f.write("mine")
    check("Address already in use" in refused("-r", f"rt={SMALL}", "--socket", where), "it is not refused")
    with open(where, encoding="ascii") as f:
        check(f.read() == "mine", "the file is gone")


def refused(*argv, env=None):
    r = subprocess.run([SERVER, *argv], env=cuda_env(env or os.environ), text=True, capture_output=True, timeout=PATIENCE)
    check(r.returncode != 0 and not r.stdout, f"{argv}: {r}")
    return r.stderr


def options(stack):
    r = subprocess.run([SERVER, "--help"], text=True, capture_output=True, timeout=PATIENCE)
    check(r.returncode == 0 and not r.stderr, r)
    for word in ("sequential", "streams", "priority-streams", "level2", "guardian", "partition", "--real-time", "--socket", "--fill-sms",
                 "resnet50", "vgg16"):
        check(word in r.stdout, f"--help has no word of {word}")
    at = ("--socket", "/dev/null/nowhere")
    for argv, why in {
            (): "no model", ("-r", f"a={SMALL}"): "nowhere to listen", ("-r", "a=lenet", *at): "no network `lenet'",
            ("-r", SMALL, *at): "not NAME=KIND", ("-r", f"={SMALL}", *at): "not NAME=KIND",
            ("-r", f"a b={SMALL}", *at): "not NAME=KIND", ("-r", f"{'a' * 32}={SMALL}", *at): "not NAME=KIND",
            ("-r", f"a={SMALL}", "-b", f"a={SMALL}", *at): "two models `a'",
            ("-r", "a=resnet18,size=0", *at): "`size=0'", ("-r", "a=resnet18,size", *at): "`size'",
            ("-r", "a=resnet18,", *at): "`'", ("-r", "a=resnet18,depth=17", *at): "multiple of 16",
            ("-r", "a=resnet18,size=9999", *at): "at most 4096",
            ("-r", "a=vgg16,batch=1024,size=4096", *at): "too large",
            ("-r", f"a={SMALL}", "--mode", "fast", *at): "no mode `fast'",
            ("-r", f"a={SMALL}", "--queue", "0", *at): "`0'", ("-r", f"a={SMALL}", "--http", "70000"): "`70000'",
            ("-r", f"a={SMALL}", *at): "/dev/null/nowhere: Not a directory",
            ("-r", f"a={SMALL}", "--socket", "x" * 200): "too long",
            ("-r", f"a={SMALL}", "--image", "/dev/null", *at): "/dev/null",
            ("-r", f"a={SMALL}", "--device", "63", *at): "cuDeviceGet"}.items():
        said = refused(*argv)
        check(why in said, f"{argv}: {said}")
    many = [o for i in range(17) for o in ("-b", f"m{i}={SMALL}")]
    check("16 models" in refused(*many, *at), "a seventeenth model")


def without_fermata(stack):
    for mode in ("level2", "guardian", "partition"):
        said = refused("-r", f"a={SMALL}", "--mode", mode, "--socket", "unused")
        check("needs Fermata in the process" in said, f"{mode}: {said}")


def under_fermata(stack):
    """Stopped at random, in the midst of their work, or on multiprocessors of their own: answers are the same."""
    need_cuda_shim()
    for mode, *options in (("level2",), ("guardian",), ("guardian", "--beside"), ("partition",), ("partition", "--elastic", "100")):
        server = Server(stack, "--mode", mode, "--reserve-sms", "3", *options, shim=True)
        c = Client(stack, server)

        def round_(server=server, mode=mode, c=c):
            for m, found in together(stack, server).items():
                check(found == [ANSWERS[m]] * 3, f"{mode}: {m}: {found}")
            stops = {m: c.stats(m).get("preemptions", 0) for m in names(MODELS)}
            check(stops["rt"] == 0, f"{mode}: somebody has stopped the most urgent")
            return sum(stops.values())

        if mode == "partition":
            round_()
            check(c.stats()["reserved_sms"] >= 3, c.stats())
        else:
            eventually("somebody was stopped", round_)
            check(c.stats("deep")["level"] >= 2, c.stats("deep"))
        server.end()


def filled(stack):
    """Of two requests to a best-effort model one is on a few multiprocessors that it has for itself: answers are the same, also
    of those that wait when the server ends."""
    need_cuda_shim()
    for mode in "level2", "guardian":
        server = Server(stack, "--mode", mode, "--beside", "--fill-sms", "4", shim=True)
        c = Client(stack, server)
        check(0 < c.stats()["fill_sms"] <= 4 and c.stats()["reserved_sms"] == 0, c.stats())

        def both(server=server, mode=mode):
            threads = [threading.Thread(target=lambda: found.append(together(stack, server))) for _ in range(3)]
            found = []
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            check(found == [{m: [ANSWERS[m]] * 3 for m in names(MODELS)}] * 3, f"{mode}: {found}")

        def everybody_filled(both=both, c=c):
            both()
            return all(c.stats(m)["filled"] > 0 for m in names(MODELS) if m != "rt")

        eventually("somebody filled", everybody_filled)
        check("filled" not in c.stats("rt"), c.stats("rt"))
        check(c.stats("deep")["filled"] < c.stats("deep")["served"], c.stats("deep"))
        ends(stack, server)
    said = refused("-r", f"a={SMALL}", "--mode", "guardian", "--fill-sms", "1000", "--socket", "unused",
                   env=dict(cuda_env(os.environ), LD_PRELOAD=preload(SHIM)))
    check("not more than --fill-sms" in said, said)
    said = refused("-r", f"a={SMALL}", "--mode", "guardian", "--fill-sms", "1", "--socket", "unused",
                   env=dict(cuda_env(os.environ), LD_PRELOAD=preload(SHIM)))
    check("apart at a time" in said, said)
    said = refused("-r", f"a={SMALL}", "--mode", "streams", "--fill-sms", "4", "--socket", "unused")
    check("level2 and guardian" in said, said)


def under_the_guardian(stack):
    """Its kernels are rewritten, launched so that they can stop between two blocks, and do."""
    need_cuda_shim()
    if os.environ.get("FERMATA_TEST_CUDA") == "real":
        raise Skip("these models' kernels are too short on a GPU; script/server-bench counts there")
    server = Server(stack, "--mode", "guardian", shim=True, env=dict(os.environ, FAKE_CUDA_BLOCK_US="50"))
    c = Client(stack, server)

    def stopped_inside():
        for m, found in together(stack, server).items():
            check(found == [ANSWERS[m]] * 3, f"{m}: {found}")
        return sum(m["interrupts"] for m in c.stats()["models"]) > 0

    eventually("somebody was stopped inside a kernel", stopped_inside)
    stats = c.stats()
    check(stats["rewritten"] == {"kernels": 8, "kernels_left": 0, "images_left": 0}, stats)
    for m in stats["models"]:
        check((m["guarded"] > 0) == (m["class"] == "best-effort"), m)
        check(m["level"] == (3 if m["class"] == "best-effort" else 2), m)
    server.end()


def device_lost(stack):
    if os.environ.get("FERMATA_TEST_CUDA") == "real":
        raise Skip("for a driver that can be made to fail")
    said = refused("-r", f"a={SMALL}", "--image", SERVER, "--socket", "unused")
    check("cuModuleLoadData: " in said, said)
    server = Server(stack, env=dict(os.environ, FAKE_CUDA_LOST="719@60"))
    c = Client(stack, server)
    answer = eventually("an error of the device",
                        lambda: next((a for a in [c.ask("infer rt 0")] if not a.startswith("ok ")), None))
    check(re.match(r"error device cu\w+: .*\(719\)$", answer), answer)
    check(c.stats("rt")["failed"] == 1, c.stats("rt"))
    check(c.ask("infer mlp 0").startswith("error device "), "of another model")
    server.end()


def http(stack):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = Server(stack, "--http", str(port), "--connections", "4")

    def ask(method, what):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{what}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as r:
                return r.status, json.load(r)
        except urllib.error.HTTPError as e:
            with e:
                return e.code, json.load(e)

    status, body = ask("POST", "/infer?model=rt&picture=1")
    check(status == 200 and body["digest"] == ANSWERS["rt"][1] and body["model"] == "rt", body)
    check(ask("GET", "/stats")[1]["models"][0]["served"] == 1, "it does not count")
    for method, what, wrong in (("POST", "/infer?model=rt", 400), ("POST", "/infer?model=rt&picture=x", 400),
                                ("POST", "/infer", 400), ("POST", "/infer?model=no&picture=1", 404), ("GET", "/infer", 405),
                                ("POST", "/stats", 405), ("GET", "/", 404)):
        status, body = ask(method, what)
        check(status == wrong and body["error"] and body["text"], f"{method} {what}: {status} {body}")
    check(Client(stack, server).infer("rt", 0) == ANSWERS["rt"][0], "not over the socket")
    server.end()


def workload(stack, *tasks, seconds=0.3):
    f = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".json", prefix="fermata-test-"))
    json.dump({"time": seconds, "tasks": [
        {"id": model, "load": load, "client": {"name": model, "model_name": model}} for model, load in tasks]}, f)
    f.flush()
    return f.name


def bench(path, file, status=0):
    r = subprocess.run([FERMATA_LAB, "bench", "--native", "--threads", "--driver", DRIVER, "--warm-up", "1", "--alone", "1",
                        "--json", file], env=dict(os.environ, INFERENCE_SOCKET=path, INFERENCE_SPIN_US="100"), text=True,
                       capture_output=True, timeout=4 * PATIENCE)
    check(r.returncode == status, f"{r.returncode} {r.stdout} {r.stderr}")
    return r


def benchmark(stack):
    server = Server(stack)
    file = workload(stack, ("rt", {"type": "periodic", "priority": 0, "frequency": 50}), ("mlp", {"type": "continuous"}))
    run = json.loads(bench(server.path, file).stdout)["runs"][0]
    c = Client(stack, server)
    for t in run["tasks"]:
        check(not t["failed"] and t["finished"] > 0, t)
        # What it asks when it begins, once to get warm, once alone.
        check(c.stats(t["id"])["served"] == t["finished"] + 8 + 2, (t, c.stats(t["id"])))
    said = bench(server.path, workload(stack, ("nobody", {"type": "continuous"})), status=1).stderr
    check("no such model" in said, said)
    server.end()
    check("nobody" not in bench(server.path, file, status=1).stderr, "without a server")


def benchmark_compares(stack):
    """A server of another kind: from the tenth on its answers are others."""
    path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-")), "socket")
    s = stack.enter_context(socket.socket(socket.AF_UNIX))
    s.bind(path)
    s.listen()

    def lie():
        c, _ = s.accept()
        with c, c.makefile("rwb") as f:
            for n, line in enumerate(f):
                picture = line.split()[2].decode()
                f.write(f"ok rt {picture} class=0 digest={int(n >= 9):016x} wait_us=0 run_us=1\n".encode())
                f.flush()

    t = threading.Thread(target=lie)
    t.start()
    r = bench(path, workload(stack, ("rt", {"type": "continuous"})), status=1)
    t.join()
    check("the answer to picture 1 is 0000000000000001, and was 0000000000000000 alone" in r.stderr + r.stdout, r)


def bench_script(stack):
    need_cuda_shim()
    if SANITIZE:
        raise Skip("the script preloads the shim itself, in front of the sanitizer")
    dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    to = {name: os.path.join(dir_, name) for name in ("json", "svg")}
    argv = [os.path.join(SOURCE, "script", "server-bench"), "--build", BUILD, "--seconds", "0.3", "--modes",
            "sequential,streams,guardian,filled,versions", "--fill", "4", "--pad", "16", "--shapes", "a", "--rt", SMALL, "--be", "mlp,size=8,width=8", "--json", to["json"],
            "--svg", to["svg"]]
    r = subprocess.run(argv, env=cuda_env(os.environ), text=True, capture_output=True, timeout=4 * PATIENCE)
    check(r.returncode == 0, r)
    with open(to["json"], encoding="ascii") as f:
        found = json.load(f)
    check(list(found["modes"]) == ["sequential", "streams", "guardian", "filled", "versions"] and list(found["alone_us"]) == ["rt", "be1"], found)
    for row in (m["a"] for m in found["modes"].values()):
        check(row["p50_us"] <= row["p99_us"] <= row["max_us"] and row["per_s"]["be1"] > 0, row)
        check(abs(row["p99_ratio"] * found["alone"]["p99_us"] - row["p99_us"]) < 1e-3 * row["p99_us"], row)
    check(found["modes"]["sequential"]["a"]["throughput_ratio"] == 1, found)
    check(re.search(r"^sequential .* 1\.000x", r.stdout, re.M) and re.search("^streams ", r.stdout, re.M), r.stdout)
    tree = xml.etree.ElementTree.parse(to["svg"])
    words = {e.text for e in tree.iter("{http://www.w3.org/2000/svg}text")}
    check({"sequential", "streams"} <= words, words)
    under = found["under_fermata"]
    check(list(under) == ["guardian", "filled", "versions"] and under["guardian"]["kernels"] == 8 and under["guardian"]["kernels_left"] == 0, under)
    check(under["guardian"]["p50_us"] > 0 and found["modes"]["guardian"]["a"]["guarded"] > 0, found["modes"]["guardian"])
    check(re.search(r"^guardian .* 8 +0 +\d+ %$", r.stdout, re.M), r.stdout)
    check(0 < found["modes"]["filled"]["a"]["fill_sms"] <= 4, found["modes"])
    check(found["modes"]["filled"]["a"]["filled"] > 0 and not found["modes"]["guardian"]["a"]["filled"], found["modes"])


VERSIONS = ("net_conv", "net_conv_64x64", "net_conv_32x32", "net_conv_16x32")


def versions(stack):
    """Every version of the kernel says the same, bit by bit."""
    for name in VERSIONS:
        server = Server(stack, "--mode", "streams", f"--versions={name}")
        c = Client(stack, server)
        for m in names(MODELS):
            check([c.infer(m, p) for p in (0, 1)] == ANSWERS[m], f"{name}: {m} says something else")
            s = c.stats(m)["versions"]
            check(set(s) == set(VERSIONS) and all((s[v]["launched"] > 0) == (s[v]["layers"] > 0) == (v == name) for v in s), f"{name}: {s}")
        server.end()
    at = ("-r", f"rt={SMALL}", "--socket", "/dev/null/nowhere")
    for argv, word in ((("--versions=net_con",), "no version `net_con'"), (("--versions",), "goes with the modes"),
                       (("--pad", "8"), "goes with the mode guardian"), (("--mode", "guardian", "--pad", "12"), "multiple of 8"),
                       (("--mode", "guardian", "--pad", "72"), "from 8 to 64")):
        check(word in refused(*at, *argv), f"{argv}: {refused(*at, *argv)}")
    check("needs Fermata" in refused(*at, "--mode", "guardian", "--versions"), "it runs without Fermata")


def versions_are_chosen(stack):
    """Measured at the start; what is dominated is never launched; and answers are the same, whatever is chosen meanwhile."""
    need_cuda_shim()
    for more in (("--mode", "level2"), ("--mode", "guardian", "--pad", "16"), ("--mode", "guardian", "--pad", "auto")):
        server = Server(stack, *more, "--versions", shim=True)
        for m, found in together(stack, server).items():
            check(found == [ANSWERS[m]] * 3, f"{more}: {m}: {found}")
        c = Client(stack, server)
        check(c.stats()["block_us"] > 0, c.stats())
        for m in names(MODELS):
            s = c.stats(m)["versions"]
            check(sum(v["layers"] for v in s.values()) >= 5 and sum(v["launched"] for v in s.values()) > 0, f"{more}: {m}: {s}")
            check(all(v["layers"] for v in s.values() if v["launched"]), f"{more}: {m}: {s}")
        server.end()


main(answers_are_known, answers_are_equal_in_modes, wrong_requests, many_requests_in_a_write, overload,
     too_many_connections, no_descriptors_left, clients_that_die, ends_in_order, second_server, a_file_in_the_way, *seldom_sanitized(options), without_fermata, under_fermata, *seldom_sanitized(filled),
     under_the_guardian, versions, *seldom_sanitized(versions_are_chosen), device_lost,
     http, benchmark, benchmark_compares, bench_script)
