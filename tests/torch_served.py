# SPDX-License-Identifier: Apache-2.0
"""contrib/torch-server over a stub of PyTorch (tests/fakes/torch_stub), and its clients. On the device "cuda" each layer is a kernel
of the fake driver's."""
import array
import contextlib
import http.client
import json
import os
import socket
import sys
import threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..")
FOLDER, STUB = os.path.join(SOURCE, "contrib", "torch-server"), os.path.join(HERE, "fakes", "torch_stub")
sys.path[:0] = [FOLDER, STUB, os.path.join(SOURCE, "python")]
from harness import PATIENCE, Fermata, Program, check, cuda_env, need_cuda_shim

SERVER = [sys.executable, os.path.join(FOLDER, "server.py"), "--port", "0"]
PTX = os.path.join(HERE, "integration", "cuda", "cuda_kernels.ptx")
IDS = {"name": "input_ids", "shape": [1, 128], "datatype": "INT64", "data": list(range(128))}
BERT = {"inputs": [IDS]}


def environment(env=None, **more):
    env = {k: v for k, v in (env or os.environ).items() if env or not k.startswith("FERMATA_")}
    return {**env, "PYTHONPATH": STUB, "PYTHONDONTWRITEBYTECODE": "1", "TORCH_STUB_PTX": PTX, "ASAN_OPTIONS": "detect_leaks=0",
            **{k: str(v) for k, v in more.items()}}


class Served:
    """A server, and its clients."""

    def __init__(self, program, stack):
        self.program = program
        self.port = int(program.line("listening at ").rpartition(":")[2])
        self.connection = stack.enter_context(contextlib.closing(self.client()))

    def client(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """Status, headers and body."""
        c = connection or self.connection
        c.request(method, path, body if body is None or isinstance(body, bytes) else json.dumps(body).encode(), headers or {})
        r = c.getresponse()
        return r.status, r.headers, r.read()

    def get(self, path, status=200):
        got, _, body = self.ask("GET", path)
        check(got == status, f"GET {path}: {got} {body}")
        return json.loads(body)

    def post(self, path, body, status=200, **more):
        got, _, answer = self.ask("POST", path, body, **more)
        check(got == status, f"POST {path}: {got} instead of {status}: {answer[:300]}")
        return json.loads(answer) if answer else None

    def load(self, name):
        self.post(f"/v2/repository/models/{name}/load", {})

    def infer(self, name, body=None, status=200, **more):
        return self.post(f"/v2/models/{name}/infer", body or BERT, status, **more)

    def alone(self, name, **more):
        """As infer(), by a connection of its own, for threads."""
        with contextlib.closing(self.client()) as c:
            return self.ask("POST", f"/v2/models/{name}/infer", {**BERT, **more}, connection=c)[0]

    def raw(self, data):
        """The status line that bytes are answered with."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as s:
            s.sendall(data)
            with s.makefile("rb") as f:
                return f.readline().decode()

    def stats(self, name):
        (stats,) = self.get(f"/v2/models/{name}/stats")["model_stats"]
        return stats

    def lives(self):
        check(self.get("/v2/health/live") == {"live": True}, "it does not live")

    def ends(self):
        self.program.p.terminate()
        check(self.program.wait() == 0, f"the server ended with status {self.program.p.returncode}")


def serve(stack, *options, **env):
    p = Program([*SERVER, "--mode", "streams", "--device", "cpu", *options], env=environment(**env))
    stack.callback(p.close)
    return Served(p, stack)


class Threads:
    """Calls that wait meanwhile; what they returned."""

    def __init__(self):
        self.got, self.threads = [], []

    def start(self, fn, *arguments, **more):
        t = threading.Thread(target=lambda: self.got.append(fn(*arguments, **more)), daemon=True)
        self.threads.append(t)
        t.start()

    def join(self):
        for t in self.threads:
            t.join(PATIENCE)
            check(not t.is_alive(), "a request is not answered")
        return self.got


def binary(name, batch=1, values=None):
    """An image as binary data: headers and body, whose output is binary, too."""
    data = array.array("f", values or [0.5] * (batch * 3 * 224 * 224)).tobytes()
    text = json.dumps({"id": "7", "parameters": {"binary_data_output": True}, "inputs": [
        {"name": "input", "shape": [batch, 3, 224, 224], "datatype": "FP32", "parameters": {"binary_data_size": len(data)}}]}).encode()
    return text + data, {"Inference-Header-Content-Length": str(len(text))}


def on_a_device(stack, mode, *options, run=()):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = environment(cuda_env(fermata.env))
    p = fermata.program([*SERVER, "--mode", mode, "--load", "vgg19_rt,resnet152_be", *options], *run, cls=Program)
    return fermata, Served(p, stack)
