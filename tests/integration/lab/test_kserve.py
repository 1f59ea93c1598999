#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab bench --driver kserve:URL`: against contrib/torch-server over a stub of PyTorch, against servers that lie, and where
nobody listens."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATA_LAB, PATIENCE, check, eventually, main
from torch_served import SOURCE, serve

EXAMPLES = os.path.join(SOURCE, "examples", "bench")
QUICK = ("--warm-up", "1", "--alone", "2")
META = {"name": "m", "versions": ["1"], "platform": "x", "outputs": [],
        "inputs": [{"name": "a", "datatype": "FP32", "shape": [-1, 4]}, {"name": "b", "datatype": "INT64", "shape": [2]}]}


def bench(url, *argv, status=0):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    r = subprocess.run([FERMATA_LAB, "bench", "--driver", f"kserve:{url}", *QUICK, *argv], env=env, text=True, capture_output=True,
                       timeout=2 * PATIENCE)
    check(r.returncode == status, f"{url} {argv}: {r.returncode} {r.stdout} {r.stderr}")
    return r


def workload(stack, *clients, seconds=0.2, load="continuous"):
    f = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".json", prefix="fermata-test-"))
    tasks = [{"id": f"t{k}", "load": {"type": load}, "client": c} for k, c in enumerate(clients)]
    json.dump({"time": seconds, "tasks": tasks}, f)
    f.flush()
    return f.name


def answer(body, status="200 OK", more=""):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


class Liar:
    """A server that answers each request by its path: with bytes, whatever they are; None: it closes the connection."""

    def __init__(self, stack, answers, host="127.0.0.1"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = stack.enter_context(socket.create_server((host, 0), family=family))
        self.at = f"[{host}]" if ":" in host else host
        self.at += f":{self.listener.getsockname()[1]}"
        self.url = f"http://{self.at}"
        self.answers, self.asked = {"/v2": answer({"name": "liar", "version": "1"}), **answers}, []
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, c):
        with c, c.makefile("rb") as f, contextlib.suppress(OSError, ValueError):
            while line := f.readline():
                path, n, head = line.split()[1].decode(), 0, {}
                while (field := f.readline()).strip():
                    name, _, value = field.decode().partition(":")
                    head[name.lower()] = value.strip()
                n = int(head.get("content-length", 0))
                self.asked.append((path, head, f.read(n)))
                said = self.answers.get(path)
                if said is None:
                    return
                c.sendall(said)
                if b"Connection: close" in said:
                    return


def what_it_sends_is_understood(stack):
    s = Liar(stack, {"/v2/models/m%20%2F": answer(META), "/v2/models/m%20%2F/infer": answer(b'{"outputs":[]}and bytes')})
    r = json.loads(bench(s.url, "--json", workload(stack, {"model_name": "m /", "batch_size": 3, "parameters": {"priority": 7}})).stdout)
    check(r["device"]["name"] == "liar" and r["runs"][0]["mode"] == "native" and r["runs"][0]["tasks"][0]["finished"] > 0, f"{r}")
    _, head, body = next(a for a in s.asked if a[0].endswith("infer"))
    n = int(head["inference-header-content-length"])
    said = json.loads(body[:n])
    check(said["parameters"] == {"priority": 7, "binary_data_output": True}, f"{said}")
    check([(i["name"], i["shape"], i["parameters"]["binary_data_size"]) for i in said["inputs"]] == [("a", [3, 4], 48), ("b", [2], 16)]
          and len(body) == n + 64, f"{said}, {len(body) - n} bytes")
    check(head["host"] == s.at, f"{head}")
    with contextlib.suppress(OSError):  # where there is no IPv6
        s = Liar(stack, {"/v2": answer({"name": "a\x1b[31mb"}), "/v2/models/m": answer(META), "/v2/models/m/infer": answer({})}, "::1")
        r = json.loads(bench(s.url, "--json", workload(stack, {"model_name": "m"})).stdout)
        check(s.asked[-1][1]["host"] == s.at, f"{s.asked[-1][1]}")
        check(r["device"]["name"] == "a?[31mb", f"{r['device']}")
    # One whose server closes each connection.
    s = Liar(stack, {"/v2/models/m": answer(META, more="Connection: close\r\n"), "/v2/models/m/infer": answer({}, more="Connection: close\r\n")})
    r = json.loads(bench(s.url, "--json", workload(stack, {"model_name": "m"})).stdout)
    check(r["runs"][0]["tasks"][0]["finished"] > 0, f"{r}")


def lies_are_told(stack):
    good = answer(META)
    for answers, word in (({}, "closed"), ({"/v2/models/m": b"x\r\n\r\n"}, "makes no sense"), ({"/v2/models/m": answer(b"[]")}, "not a JSON object"),
                          ({"/v2/models/m": answer(b"\0" * 5000)}, "not a JSON object"), ({"/v2/models/m": answer({"inputs": []})}, "no inputs"),
                          ({"/v2/models/m": answer({"inputs": [{"name": "a", "datatype": "BYTES", "shape": [1]}]})}, "datatype"),
                          ({"/v2/models/m": answer({"inputs": [{"name": "a", "datatype": "FP32", "shape": [10**9, 10**9]}]})}, "input 0"),
                          ({"/v2/models/m": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"}, "Content-Length"),
                          ({"/v2/models/m": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n{"}, "cut"),
                          ({"/v2/models/m": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, "in pieces"),
                          ({"/v2/models/m": b"HTTP/1.1 200 OK\r\nA: " + b"b" * 20000}, "16 KiB"),
                          ({"/v2/models/m": answer({}, "404 x"), "/v2/repository/models/m/load": answer({"error": "no \x1b[31m such"}, "404 x")},
                           "loading the model: status 404: no ?[31m such"),
                          ({"/v2/models/m": good, "/v2/models/m/infer": answer({"error": "hot"}, "500 x")}, "status 500: hot"),
                          ({"/v2/models/m": good, "/v2/models/m/infer": answer(b"x")}, "not a JSON object"),
                          ({"/v2/models/m": good, "/v2/models/m/infer": None}, "closed"),
                          ({"/v2/models/m": good, "/v2/models/m/infer": good + b"{}"}, "longer than it says")):
        r = bench(Liar(stack, answers).url, "--threads", workload(stack, {"model_name": "m"}), status=1)
        check(word in r.stdout + r.stderr, f"{answers}: {r.stdout} {r.stderr}")


def nobody_listens(stack):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    r = bench(f"http://127.0.0.1:{port}", workload(stack, {"model_name": "m"}), status=1)
    check("Connection refused" in r.stdout + r.stderr, f"{r.stdout} {r.stderr}")
    file = workload(stack, {"model_name": "m"})
    for url, more, word in (("https://a", (), "https"), ("", (), "HOST:PORT"), ("a:b", (), "port"), ("a/v1", (), "nothing may follow"),
                            ("a", ("--compare",), "fermata run"), ("a", ("--policy", "fair"), "fermata run"),
                            ("a", ("--threads", "--local", "fair"), "fermata run")):
        r = bench(url, *more, file, status=2)
        check(word in r.stderr and "hint: " in r.stderr, f"{url} {more}: {r.stderr}")


def the_workloads_of_the_paper(stack):
    """Are its Table 2; and the server has the networks."""
    rt, be = {}, {}
    for which in ("a", "b", "c", "d", "e", "real"):
        with open(os.path.join(EXAMPLES, f"disb-{which}.json"), encoding="ascii") as f:
            tasks = json.load(f)["tasks"]
        check(all(t["id"] == t["client"]["model_name"] for t in tasks), which)
        rt[which] = [(t["load"]["type"], t["load"].get("rate_fraction")) for t in tasks if t["id"].endswith("_rt")]
        be[which] = [t["load"]["type"] for t in tasks if t["id"].endswith("_be")]
    check(rt == {"a": [("periodic", 0.5)], "b": [("periodic", 1.0)], "c": [("periodic", 0.5)], "d": [("periodic", 0.1)] * 5,
                 "e": [("poisson", 0.1)] * 5, "real": [("trace", None)] * 5}, f"{rt}")
    check(be == {k: ["continuous"] * n for k, n in (("a", 1), ("b", 1), ("c", 5), ("d", 5), ("e", 5), ("real", 5))}, f"{be}")
    s = serve(stack)
    everything = ("a", "b", "c", "d", "e", "real") if os.environ.get("FERMATA_TEST_LONG") else ("a", "real")
    for which in everything:
        file = os.path.join(EXAMPLES, f"disb-{which}.json")
        r = json.loads(bench(f"127.0.0.1:{s.port}", "--time", "300ms", "--json", file).stdout)
        run = r["runs"][0]
        check(r["device"]["name"] == "fermata-torch-server" and run["complete"], f"{r['device']}")
        check(all(not t["failed"] and t["alone_us"] > 0 for t in run["tasks"]), f"{which}: {run['tasks']}")
    asked = sum(m["execution_count"] for m in s.get("/v2/models/stats")["model_stats"])
    check(asked >= 3 * 12, f"the server was asked {asked} times")
    wrong = bench(f"127.0.0.1:{s.port}", workload(stack, {"model_name": "none"}), status=1)
    check("there is no model 'none'" in wrong.stdout + wrong.stderr, f"{wrong.stdout} {wrong.stderr}")
    wrong = bench(f"127.0.0.1:{s.port}", workload(stack, {"model_name": "bert-base", "parameters": {"priority": 999}}), status=1)
    check("status 400: 'priority' is from 0 to 255" in wrong.stdout + wrong.stderr, f"{wrong.stdout} {wrong.stderr}")
    s.ends()


def a_server_that_ends_meanwhile(stack):
    s = serve(stack, TORCH_STUB_LAYER_US=300)
    file = workload(stack, {"model_name": "bert-base"}, {"model_name": "gpt2"}, seconds=60)
    p = subprocess.Popen([FERMATA_LAB, "bench", "--driver", f"kserve:127.0.0.1:{s.port}", *QUICK, file], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    stack.callback(p.wait)
    stack.callback(p.kill)
    eventually("the run has begun", lambda: [m for m in s.get("/v2/models/stats")["model_stats"]
                                              if m["name"] == "gpt2" and m["execution_count"] > 5])
    s.program.kill()
    out = p.communicate(timeout=2 * PATIENCE)[0]
    check(p.returncode == 1 and ("has gone" in out or "closed" in out or "refused" in out), f"{p.returncode}: {out}")


if __name__ == "__main__":
    main(what_it_sends_is_understood, lies_are_told, nobody_listens, the_workloads_of_the_paper, a_server_that_ends_meanwhile)
