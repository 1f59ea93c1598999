#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""contrib/torch-server over a stub of PyTorch (tests/fakes/torch_stub): the protocol, what clients send that is wrong, and models
that come and go while they are asked."""
import array
import contextlib
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import types

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, *[".."] * 3))
from harness import PATIENCE, check, eventually, main
from torch_served import BERT, IDS, SERVER, Threads, binary, environment, serve



def speaks_the_protocol(stack):
    s = serve(stack, "--load", "bert-base")
    s.lives()
    check(s.get("/v2/health/ready") == {"ready": True} and s.get("/v2")["extensions"], "metadata")
    names = {m["name"]: m["state"] for m in s.post("/v2/repository/index", {})}
    check(len(names) == 15 and [n for n, state in names.items() if state == "READY"] == ["bert-base"], f"{names}")
    check([m["name"] for m in s.post("/v2/repository/index", {"ready": True})] == ["bert-base"], "what is ready")
    about = s.get("/v2/models/bert-base")
    check(about["inputs"] == [{"name": "input_ids", "datatype": "INT64", "shape": [-1, 128]}], f"{about}")
    first = s.infer("bert-base", {**BERT, "id": "a", "parameters": {"priority": 3, "timeout": 60_000_000}})
    check(first["id"] == "a" and first["outputs"][0]["shape"] == [1, 768] and len(first["outputs"][0]["data"]) == 768, "the answer")
    check(s.infer("bert-base")["outputs"] == first["outputs"], "the same request has another answer")
    other = {"inputs": [{**IDS, "data": [IDS["data"]][0][::-1]}]}
    check(s.infer("bert-base", other)["outputs"] != first["outputs"], "another request has the same answer")
    for name, outputs in (("vgg19_rt", ["output"]), ("resnet152_be", ["output"]), ("yolov3", ["output13", "output26", "output52"]),
                          ("gpt2", ["output"])):
        s.load(name)
        check([o["name"] for o in s.get(f"/v2/models/{name}")["outputs"]] == outputs, f"the outputs of {name}")
        check(s.get(f"/v2/models/{name}/versions/1/ready")["ready"], f"{name} is not ready")
    check(len(s.infer("gpt2")["outputs"][0]["data"]) == 50257, "words")
    body, headers = binary("vgg19_rt")
    status, got, answer = s.ask("POST", "/v2/models/vgg19_rt/infer", body, headers)
    length = int(got["Inference-Header-Content-Length"])
    about = json.loads(answer[:length])
    check(status == 200 and about["id"] == "7" and about["outputs"][0]["parameters"] == {"binary_data_size": 4000}, f"{about}")
    numbers = array.array("f", answer[length:])
    as_text = s.infer("vgg19_rt", {"inputs": [{"name": "input", "shape": [1, 3, 224, 224], "datatype": "FP32",
                                               "data": [[0.5] * (3 * 224 * 224)]}]})
    check(as_text["outputs"][0]["data"] == list(numbers), "as text and as binary data the answers differ")
    stats = s.stats("vgg19_rt")
    check(stats["inference_count"] == 2 and stats["execution_count"] == 2, f"{stats}")
    check(all(stats["inference_stats"][p]["count"] == 2 for p in ("success", "queue", "compute_infer")), f"{stats}")
    s.post("/v2/repository/models/vgg19_rt/unload", {})
    s.infer("vgg19_rt", BERT, 409)
    s.post("/v2/repository/models/vgg19_rt/unload", {})
    s.load("bert-base")
    check(s.stats("bert-base")["execution_count"] == 3, "loading what is loaded forgets")
    s.ends()


def bad_bodies():
    one = lambda **more: {"inputs": [{**IDS, **more}]}
    yield from ((b"", 400), (b"{", 400), (b"[]", 400), (b"\xff", 400), (b"[" * 100_000, 400), ({}, 400), ({"inputs": 3}, 400))
    yield from (({"inputs": [3]}, 400), ({"inputs": []}, 400), ({"inputs": [IDS, IDS]}, 400), ({"inputs": [IDS] * 100}, 400))
    for shape in ([1, 127], [128], [0, 128], [65, 128], [-1, 128], [2, 128], [1.0, 128], [True, 128], None, "x", [10**30, 128], [[]]):
        yield one(shape=shape), 400
    for datatype in ("FP32", "int64", "", None, 3, "BYTES"):
        yield one(datatype=datatype), 400
    for data in ([], [1] * 127, [1] * 129, ["1"] * 128, [1.0] * 128, [True] * 128, [None] * 128, [[[]]], [1] * 127 + [30522],
                 [-1] * 128, [2**63] * 128, [10**400] * 128, "x", None, {"a": 1}, [[[[1] * 32] * 2] * 3]):
        yield one(data=data), 400
    deep = [1] * 128
    for _ in range(20):
        deep = [deep]
    yield from ((one(data=deep), 400), (one(name="other"), 400), (one(name=7), 400), (one(parameters=7), 400))
    for size in (0, 1023, 1025, -1, "1024", True, 10**12):
        yield {"inputs": [{k: v for k, v in IDS.items() if k != "data"} | {"parameters": {"binary_data_size": size}}]}, 400
    for parameters in ({"priority": -1}, {"priority": 256}, {"priority": "high"}, {"timeout": 10**18}, {"timeout": 1.5}, 7, {"timeout": True}):
        yield {**BERT, "parameters": parameters}, 400
    for outputs in ([{"name": "other"}], [7], 7, [{"name": "output", "parameters": 7}]):
        yield {**BERT, "outputs": outputs}, 400
    yield {**BERT, "id": 7}, 400


def what_is_wrong_is_refused(stack):
    s = serve(stack, "--load", "bert-base,resnet152")
    path, n = "/v2/models/bert-base/infer", 0
    for body, status in bad_bodies():
        got, _, answer = s.ask("POST", path, body)
        check(got == status and json.loads(answer)["error"], f"{json.dumps(body)[:200] if isinstance(body, dict) else body[:50]}: {got} {answer}")
        n += 1
    check(n > 60, f"{n} bodies")
    body, headers = binary("resnet152")
    for wrong, status in (({"Inference-Header-Content-Length": "x"}, 400), ({"Inference-Header-Content-Length": "-1"}, 400),
                          ({"Inference-Header-Content-Length": str(10**8)}, 413), ({"Inference-Header-Content-Length": "0"}, 400), ({}, 400),
                          ({"Inference-Header-Content-Length": str(len(body) + 1)}, 400)):
        s.post("/v2/models/resnet152/infer", body, status, headers=wrong)
    for cut in (body[:-1], body + b"x"):
        s.post("/v2/models/resnet152/infer", cut, 400, headers=headers)
    for method, where, status in (("GET", "/", 404), ("GET", "/v2/models/none", 404), ("GET", "/v2/models/vgg19", 409), ("GET", path, 405),
                                  ("DELETE", "/v2/health/live", 405), ("GET", "/v2/models/%2e%2e/ready", 404), ("GET", "/v2/../x", 404)):
        got, _, answer = s.ask(method, where)
        check(got == status, f"{method} {where}: {got} {answer}")
    s.post("/v2/models/none/infer", BERT, 404)
    s.post("/v2/models/vgg19/infer", BERT, 409)
    s.post("/v2/repository/models/none/load", {}, 404)
    s.post("/v2/repository/models/none/unload", {}, 404)
    s.post("/v2/repository/models/vgg19/load", b"{", 400)
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\n"
    for more, status in (("", 411), ("Transfer-Encoding: chunked\r\n", 411), (f"Content-Length: {1 << 30}\r\n", 413),
                         (f"Content-Length: {1 << 30}\r\nExpect: 100-continue\r\n", 413), ("Content-Length: -1\r\n", 400),
                         ("Content-Length: 1e3\r\n", 400), ("Content-Length: 9999999999999999999999\r\n", 400),
                         ("Content-Length: 1\r\nContent-Length: 2\r\n", 400),
                         ("Content-Length: 2\r\nA : b\r\nTransfer-Encoding: chunked\r\n", 400), ("Transfer-Encoding:\r\n", 411),
                         ("A: b\r\n" * 200, 431), ("A: " + "b" * 70_000 + "\r\n", 431)):
        said = s.raw((head + more + "\r\n").encode())
        check(f" {status} " in said, f"{more[:60]!r} is answered with {said!r}")
    for line in (b"x\r\n\r\n", b"\0" * 1000 + b"\r\n\r\n", b"GET " + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        said = s.raw(line)
        check(any(f" {status} " in said for status in (400, 414, 505)) or said.startswith("<!"), f"{line[:20]} is answered with {said!r}")
    with socket.create_connection(("127.0.0.1", s.port)) as half:  # and goes
        half.sendall((head + "Content-Length: 1000\r\n\r\n{").encode())
    check("100" in s.raw((head + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}").encode()), "a client that asks first is not told to go on")
    s.lives()
    check(len(s.infer("bert-base")["outputs"][0]["data"]) == 768, "it does not serve any more")
    s.ends()


def loads_and_unloads_under_load(stack):
    s = serve(stack, "--queue", "4", "--load", "bert-base", TORCH_STUB_LAYER_US=5000, TORCH_STUB_MAKE_US=3000)
    loading = Threads()
    for _ in range(2):
        loading.start(lambda: s.ask("POST", "/v2/repository/models/vgg19/load", {}, connection=s.client())[0])
    check(sorted(loading.join()) in ([200, 409], [200, 200]), f"loading while loading: {loading.got}")
    asked = Threads()
    for _ in range(12):
        asked.start(s.alone, "bert-base")
    eventually("one is served", lambda: s.stats("bert-base")["execution_count"] >= 1)
    check(s.ask("POST", "/v2/repository/models/bert-base/unload", {}, connection=s.client())[0] == 200, "it is not unloaded")
    got = asked.join()
    check(set(got) <= {200, 409, 503} and 200 in got, f"requests to one that is unloaded: {got}")
    s.infer("bert-base", status=409)
    s.load("bert-base")
    s.infer("bert-base")
    s.lives()
    s.ends()


def queues_are_bounded_and_requests_time_out(stack):
    s = serve(stack, "--queue", "2", "--load", "bert-base", TORCH_STUB_LAYER_US=4000)
    asked = Threads()
    for k in range(8):
        asked.start(s.alone, "bert-base", parameters={"timeout": 1 if k % 2 else 0})
    got = asked.join()
    check(set(got) <= {200, 503, 504} and {200, 503} <= set(got), f"eight at once, where two may wait: {got}")
    check(s.alone("bert-base", parameters={"timeout": 1}) in (200, 504), "a timeout of a microsecond")
    s.ends()


def clients_that_go_are_forgotten(stack):
    s = serve(stack, "--load", "bert-base", TORCH_STUB_LAYER_US=10_000)
    body = json.dumps(BERT).encode()
    for _ in range(3):  # the first is served, to nobody; the others are not
        with socket.create_connection(("127.0.0.1", s.port)) as c:
            c.sendall(b"POST /v2/models/bert-base/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    eventually("all three are over", lambda: sum(s.stats("bert-base")["inference_stats"][k]["count"] for k in ("success", "fail")) == 3)
    check(s.stats("bert-base")["inference_stats"]["fail"]["count"] >= 1, "a client that has gone is served")
    s.infer("bert-base")
    s.ends()


def too_many_clients_are_told(stack):
    s = serve(stack, "--connections", "3")
    s.lives()
    idle = [socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE) for _ in range(12)]
    check("503" in idle[-1].makefile().readline(), "the twelfth of three is let in")
    for c in idle:
        c.close()

    def again():
        with contextlib.suppress(OSError, http.client.HTTPException):
            with contextlib.closing(s.client()) as c:
                return s.ask("GET", "/v2/health/live", connection=c)[0] == 200

    eventually("it lets clients in again", again)
    s.ends()


def a_network_that_cannot_be_made_is_none(stack):
    s = serve(stack, TORCH_STUB_FAIL=30)
    s.post("/v2/repository/models/bert-base/load", {}, 500)
    check("out of memory" in next(m for m in s.post("/v2/repository/index", {}) if m["name"] == "bert-base")["reason"], "why")
    s.load("bert-base")
    s.infer("bert-base")
    s.ends()
    r = subprocess.run([*SERVER, "--mode", "streams", "--device", "cpu", "--load", "none"], env=environment(), capture_output=True, text=True,
                       timeout=PATIENCE)
    check(r.returncode == 1 and "there is no model 'none'" in r.stderr, f"{r.returncode}: {r.stderr}")


def urgent_requests_come_first(_):
    """In the queue of all models."""
    import engine
    import kserve

    e = engine.Engine("streams", "cpu")
    queue, order = engine.Queue(99), []
    for name, priority in (("vgg19", 0), ("vgg19_be", 200), ("vgg19_be", 1), ("vgg19_rt", 0), ("resnet152", 0), ("gpt2_rt", 5)):
        queue.put(engine.Asked(e.models[name], kserve.Infer("", [], {}, priority)))
    while queue.heap:
        order.append((queue.take().model.name, len(order)))
    check([n for n, _ in order] == ["gpt2_rt", "vgg19_rt", "vgg19_be", "vgg19", "resnet152", "vgg19_be"], f"{order}")


def who_loads_is_not_disturbed(_):
    import engine
    import kserve

    e = engine.Engine("streams", "cpu")
    for state in ("LOADING", "UNLOADING"):
        e.models["gpt2"].state = state
        for fn in (e.load, e.unload, e.ready):
            try:
                fn("gpt2")
            except kserve.Refused as refused:
                check(refused.status == 409, f"{state}: {refused.status}")
                continue
            check(False, f"{fn.__name__}() while it is {state}")


def whatever_comes_is_parsed_or_refused(_):
    import kserve
    import nets

    inputs, outputs = ({s.name: s for s in specs} for specs in (nets.KINDS["bert-base"].inputs, nets.KINDS["bert-base"].outputs))
    rng, raw = random.Random(1), bytes(1024)
    text = json.dumps({"inputs": [{k: v for k, v in IDS.items() if k != "data"} | {"parameters": {"binary_data_size": 1024}}],
                       "outputs": [{"name": "output", "parameters": {"binary_data": True}}], "parameters": {"priority": 1}}).encode()
    good = 0
    for _ in range(4000):
        body, length = bytearray(text + raw), len(text)
        for _ in range(rng.randrange(4)):
            at = rng.randrange(length)
            what = rng.randrange(3)
            if what == 0:
                body[at] = rng.choice(b'{}[]",:0123456789-eE.tfn\\\0\xff')
            elif what == 1:
                end = min(length, at + rng.randrange(20))
                del body[at:end]
                length -= end - at
            else:
                body[at:at] = b'"' * rng.randrange(3)
        try:
            parsed = kserve.parse_infer(body, rng.choice((length, length, length, len(body), None, rng.randrange(2000))), inputs, outputs)
            good += 1
            check(len(parsed.inputs[0].data) == 1024 and parsed.inputs[0].shape == (1, 128), "what was parsed is not sound")
        except kserve.Refused as e:
            check(400 <= e.status < 500, f"{e.status}")
    check(100 < good < 3900, f"{good} of 4000 were good")


def slow_clients_do_not_stay(_):
    """Each byte comes in time, but the whole does not; by the server's clock, which is the test's."""
    import server

    ours, theirs = socket.socketpair()
    now, real = [0.0], server.time.monotonic
    server.time.monotonic = lambda: now[0]
    try:
        with ours, theirs:
            ours.settimeout(PATIENCE)
            reading, more, begun = server.Reading(theirs), bytearray(1), None
            for _ in range(1000):
                ours.sendall(b"x")
                try:
                    reading.readinto(more)
                except TimeoutError:
                    break
                begun = now[0] if begun is None else begun
                now[0] += server.IDLE / 10
            check(begun == 0 and now[0] - begun <= server.HEAD_PATIENCE + server.IDLE, f"it stayed until {now[0]}")
            reading.until = None  # the next request
            check(reading.readinto(more) == 1 and reading.until > now[0], "the next request has no time of its own")
    finally:
        server.time.monotonic = real


def bodies_are_charged(_):
    import kserve
    import server

    def cost(n, header=None):
        return server.Handler.cost(types.SimpleNamespace(headers={} if header is None else {"Inference-Header-Content-Length": header}), n)

    check(cost(1000) == 1000 + 1000 * server.JSON_COST and cost(1000, "10") == 1000 + 10 * server.JSON_COST, "what JSON costs")
    for n, header in ((server.JSON_MAX + 1, None), (server.BODY_MAX, "x"), (server.BODY_MAX, "999999999")):
        try:
            check(False, f"{n}, {header}: {cost(n, header)}")
        except kserve.Refused as e:
            check(e.status == 413, f"{e.status}")
    one = {"name": "x", "datatype": "FP32", "shape": [1, 2]}
    for data, good in (([1, 1e39], False), ([1, 10**400], False), ([1, float("inf")], True)):
        try:
            kserve.parse_infer(json.dumps({"inputs": [{**one, "data": data}]}).encode(), None, {"x": kserve.Spec("x", "FP32", (2,))}, {})
            check(good, f"{str(data)[:40]} is taken")
        except kserve.Refused:
            check(not good, f"{str(data)[:40]} is refused")


if __name__ == "__main__":
    main(slow_clients_do_not_stay, bodies_are_charged, speaks_the_protocol, what_is_wrong_is_refused, loads_and_unloads_under_load, queues_are_bounded_and_requests_time_out,
         clients_that_go_are_forgotten, too_many_clients_are_told, a_network_that_cannot_be_made_is_none, urgent_requests_come_first, who_loads_is_not_disturbed,
         whatever_comes_is_parsed_or_refused)
