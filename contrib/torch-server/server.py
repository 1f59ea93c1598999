#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An inference server over PyTorch with the KServe v2 protocol over HTTP. See README.md beside it."""
import argparse
import contextlib
import io
import json
import os
import re
import select
import signal
import socket
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
try:
    import fermata
except ImportError:  # of the tree that this file is in
    sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
    import fermata
from kserve import Refused, parse_infer, parse_json, write_infer

BODY_MAX = 64 << 20
JSON_MAX = 32 << 20  # without binary data
IDLE = 30  # s, that a client may be silent for
HEAD_PATIENCE = 30  # s, for the head of one request
BODY_PATIENCE = 120  # s, for one body, or one answer
END_PATIENCE = 10  # s, for answers that are under way at the end
JSON_COST = 24  # bytes of memory for one of JSON, while it is read
LOOK = 0.25  # s, between two looks at whether it is still there
EXTENSIONS = ["binary_tensor_data", "model_repository", "statistics", "parameters"]
MODEL = r"/v2/models/([^/]+)(?:/versions/1)?"


class Limits:
    """Connections, and bytes of bodies, at a time; and how many requests are being answered."""

    def __init__(self, connections, size):
        self.lock, self.connections, self.size, self.busy = threading.Condition(), connections, size, 0

    def enter(self):
        with self.lock:
            self.connections -= 1
            return self.connections >= 0

    def leave(self):
        with self.lock:
            self.connections += 1

    def take(self, n):
        with self.lock:
            if n > self.size:
                return False
            self.size -= n
            return True

    def give(self, n):
        self.take(-n)

    @contextlib.contextmanager
    def answering(self):
        with self.lock:
            self.busy += 1
        try:
            yield
        finally:
            with self.lock:
                self.busy -= 1
                self.lock.notify_all()

    def wait(self, patience):
        with self.lock:
            self.lock.wait_for(lambda: not self.busy, patience)


class Reading(io.RawIOBase):
    """What a client sends. Between two requests it may be silent for IDLE; what it has begun must be there by `until`, however
    slowly it comes."""

    def __init__(self, connection):
        super().__init__()
        self.connection, self.until = connection, None

    def readable(self):
        return True

    def readinto(self, to):
        left = IDLE if self.until is None else min(IDLE, self.until - time.monotonic())
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        n = self.connection.recv_into(to)
        self.connection.settimeout(IDLE)
        if self.until is None:
            self.until = time.monotonic() + HEAD_PATIENCE
        return n


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "fermata-torch-server", ""
    timeout = IDLE
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.rfile.close()
        self.reading = Reading(self.connection)
        self.rfile = io.BufferedReader(self.reading)

    def handle_one_request(self):
        self.reading.until = None
        super().handle_one_request()

    # --- bodies ---

    def handle_expect_100(self):
        return True  # said when the body is wanted

    def length(self):
        """Of the body; it is checked before a byte of it is read."""
        if self.headers.defects:  # what follows such a line is not seen, but perhaps by a proxy
            raise Refused(400, "a header is malformed")
        if self.headers.get("Transfer-Encoding") is not None:
            raise Refused(411, "a body has a Content-Length here, and no other encoding")
        given = self.headers.get_all("Content-Length") or []
        if len(set(given)) > 1 or any(not re.fullmatch(r"\d{1,18}", n) for n in given):
            raise Refused(400, "Content-Length is not a number")
        if not given:
            if self.command == "POST":
                raise Refused(411, "a POST has a Content-Length")
            return 0
        if int(given[0]) > BODY_MAX:
            raise Refused(413, f"a body has at most {BODY_MAX} bytes")
        return int(given[0])

    def cost(self, n):
        """Of a body of that length, in bytes of memory."""
        header = self.headers.get("Inference-Header-Content-Length", "")
        text = min(n, int(header)) if re.fullmatch(r"\d{1,9}", header) else n
        if text > JSON_MAX:
            raise Refused(413, f"JSON has at most {JSON_MAX} bytes; send tensors as binary data")
        return n + JSON_COST * text

    def read_body(self, n):
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
            self.wfile.flush()
        body = bytearray(n)
        view, at = memoryview(body), 0
        self.reading.until = time.monotonic() + BODY_PATIENCE
        while at < n:
            got = self.rfile.readinto1(view[at:at + (1 << 20)])
            if not got:
                raise ConnectionError
            at += got
        return body

    def answer(self, status, body=b"", kind="application/json", header_length=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if header_length is not None:
            self.send_header("Inference-Header-Content-Length", str(header_length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.flush()
        self.connection.settimeout(BODY_PATIENCE)
        self.connection.sendall(body)
        self.connection.settimeout(IDLE)

    def answer_json(self, value, status=200):
        self.answer(status, json.dumps(value).encode() + b"\n")

    # --- requests ---

    def handle_one(self):
        limits, cost, unread = self.server.limits, 0, True
        try:
            n = self.length()
            cost = self.cost(n)
            if not limits.take(cost):
                cost = 0
                raise Refused(503, "too much is being sent at the moment; come again later")
            body = self.read_body(n)
            unread = False
            with limits.answering():
                self.route(body)
        except Refused as e:
            self.close_connection = self.close_connection or unread
            self.answer_json({"error": str(e)}, e.status)
            if unread:
                self.let_it_read()
        except OSError:
            raise
        except Exception as e:  # a fault of ours; the client is told, and the server lives
            self.answer_json({"error": f"{type(e).__name__}: {str(e)[:200]}"}, 500)
        finally:
            limits.give(cost)

    def let_it_read(self):
        """A client that is sending still would see its connection reset, and not the answer."""
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(1)
        for _ in range(16):
            if not self.connection.recv(65536):
                break

    def serve(self):
        try:
            self.handle_one()
        except (ConnectionError, TimeoutError, OSError):
            self.close_connection = True  # the client has gone

    do_GET = do_POST = do_PUT = do_DELETE = serve

    ROUTES = (
        ("GET", r"/v2/health/(live|ready)", "health"),
        ("GET", r"/v2/?", "metadata"),
        ("GET", r"/v2/models/stats", "all_statistics"),
        ("GET", MODEL + "/stats", "statistics"),
        ("GET", MODEL + "/ready", "model_ready"),
        ("GET", MODEL, "model_metadata"),
        ("POST", MODEL + "/infer", "infer"),
        ("POST", r"/v2/repository/index", "index"),
        ("POST", r"/v2/repository/models/([^/]+)/(load|unload)", "change"),
    )

    def route(self, body):
        path, found = self.path.partition("?")[0], False
        for method, pattern, name in self.ROUTES:
            m = re.fullmatch(pattern, path)
            if m and method == self.command:
                return getattr(self, name)(body, *(urllib.parse.unquote(g) for g in m.groups()))
            found = found or bool(m)
        if found:
            raise Refused(405, f"not by {self.command}")
        raise Refused(404, "there is no such resource")

    def health(self, _, which):
        self.answer_json({which: True}, 503 if which == "ready" and self.server.engine.ending else 200)

    def metadata(self, _):
        self.answer_json({"name": "fermata-torch-server", "version": fermata.__version__, "extensions": EXTENSIONS,
                          "mode": self.server.engine.mode, "scheduled": fermata.scheduled()})

    def all_statistics(self, _):
        engine = self.server.engine
        self.answer_json({"model_stats": [m.statistics() for m in engine.models.values() if m.state == "READY"]})

    def statistics(self, _, name):
        self.answer_json({"model_stats": [self.server.engine.ready(name).statistics()]})

    def model_ready(self, _, name):
        self.server.engine.ready(name)
        self.answer_json({"name": name, "ready": True})

    def model_metadata(self, _, name):
        self.answer_json(self.server.engine.ready(name).metadata())

    def index(self, body):
        wanted = parse_json(bytes(body)) if body else {}
        self.answer_json(self.server.engine.index(wanted.get("ready") is True))

    def change(self, body, name, what):
        if body:
            parse_json(bytes(body))
        getattr(self.server.engine, what)(name)
        self.answer_json({})

    def infer(self, body, name):
        from engine import Asked

        engine = self.server.engine
        model = engine.ready(name)
        header = self.headers.get("Inference-Header-Content-Length")
        if header is not None and not re.fullmatch(r"\d{1,9}", header):
            raise Refused(400, "Inference-Header-Content-Length is not a number")
        if (len(body) if header is None else int(header)) > JSON_MAX:
            raise Refused(413, f"JSON has at most {JSON_MAX} bytes; send tensors as binary data")
        asked = Asked(model, parse_infer(body, None if header is None else int(header), model.inputs, model.outputs))
        engine.ask(asked)
        while not asked.done.wait(LOOK):
            if self.client_has_gone():
                asked.gone = True
                raise ConnectionError
        if asked.error:
            raise Refused(asked.error.status, str(asked.error))
        header_length, answer = write_infer(name, asked.infer, asked.results)
        self.answer(200, answer, "application/json" if header_length is None else "application/octet-stream", header_length)

    def client_has_gone(self):
        look = select.poll()
        look.register(self.connection, select.POLLIN)
        if not look.poll(0):
            return False
        return not self.connection.recv(1, socket.MSG_PEEK)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address, engine, limits):
        super().__init__(address, Handler)
        self.engine, self.limits = engine, limits

    def process_request(self, request, client_address):
        if self.limits.enter():
            try:
                super().process_request(request, client_address)
            except RuntimeError:  # no more threads
                self.limits.leave()
                raise
            return
        self.limits.leave()
        try:
            request.settimeout(1)
            request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        except OSError:
            pass
        self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.limits.leave()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # a client that goes is none of ours
            super().handle_error(request, client_address)


def arguments(argv):
    p = argparse.ArgumentParser(description="An inference server over PyTorch: KServe v2 over HTTP. Models: resnet152, vgg19, "
                                "yolov3, bert-base, gpt2; with _rt behind the name real-time, otherwise best-effort.")
    p.add_argument("--host", default="127.0.0.1", help="address to listen at; it asks nobody for a password (default: %(default)s)")
    p.add_argument("--port", type=int, default=8000, help="0: any that is free (default: %(default)s)")
    p.add_argument("--mode", default="level2", choices=("sequential", "streams", "priority-streams", "orion", "level2", "guardian",
                                                        "pad"), help="which model runs when (default: %(default)s)")
    p.add_argument("--load", default="", metavar="MODEL,...", help="models to load at the start")
    p.add_argument("--policy", default=None, help="level2, guardian, pad: schedule in this process by this policy; default: by the "
                   "daemon of `fermata run'")
    p.add_argument("--pad", type=lambda text: fermata.PAD_AUTO if text == "auto" else int(text), default=fermata.PAD_AUTO, metavar="auto|N",
                   help="pad: multiprocessors for best-effort models meanwhile (default: auto)")
    p.add_argument("--device", default="cuda", help="of PyTorch (default: %(default)s)")
    p.add_argument("--half", action="store_true", help="compute in half precision")
    p.add_argument("--graphs", action="store_true", help="launch each network as a CUDA graph, for requests of one image or text; not "
                   "with orion, which launches layers one by one")
    p.add_argument("--queue", type=int, default=64, help="requests that may wait for each model")
    p.add_argument("--connections", type=int, default=256, help="clients at a time")
    args = p.parse_args(argv)
    if args.graphs and args.mode == "orion":
        p.error("--graphs: orion launches layers one by one; leave one of both out")
    return args


def prepare(args):
    """Before PyTorch is imported. None, or what is missing."""
    if args.mode not in ("level2", "guardian", "pad"):
        return None
    if not fermata.available():
        return f"mode {args.mode} needs Fermata: start it by `fermata run -- {sys.argv[0]} ...'"
    if args.policy or args.mode != "level2":
        try:
            fermata.init(args.policy, guardian=args.mode != "level2")
        except OSError as e:
            return e.strerror
    return None


def main(argv):
    args = arguments(argv)
    missing = prepare(args)
    if missing:
        sys.exit(f"torch-server: {missing}")
    from engine import Engine

    engine = Engine(args.mode, args.device, args.half, args.queue, args.pad, args.graphs)
    try:
        for name in filter(None, args.load.split(",")):
            engine.load(name)
    except Refused as e:
        sys.exit(f"torch-server: {e}")
    server = Server((args.host, args.port), engine, Limits(args.connections, 1 << 30))
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start())
    print(f"listening at http://{args.host}:{server.server_address[1]}", flush=True)
    server.serve_forever(poll_interval=0.25)
    engine.end()
    server.limits.wait(END_PATIENCE)


if __name__ == "__main__":
    main(sys.argv[1:])
