# SPDX-License-Identifier: Apache-2.0
"""Models that are loaded, their queues, and which of them run when: the modes."""
import collections
import contextlib
import ctypes
import heapq
import itertools
import threading
import time

import fermata
import nets
import torch
from kserve import Refused

MODES = ("sequential", "streams", "priority-streams", "orion", "level2", "guardian", "pad")
BY_FERMATA = ("level2", "guardian", "pad")
TORCH = {"FP32": torch.float32, "INT64": torch.int64}
PHASES = ("queue", "compute_input", "compute_infer", "compute_output")
ORION_LAYERS = 4  # of a best-effort model in the device's queue at a time
ORION_PATIENCE = 1.0  # s
WARM_UP = 3  # passes before a graph is captured: libraries choose and load their kernels in them


class Asked:
    """A request from its arrival to its answer."""

    def __init__(self, model, infer):
        self.model, self.infer = model, infer
        self.at = [time.monotonic_ns()]  # the begin of each phase, and the end
        self.until = self.at[0] + 1000 * infer.timeout_us if infer.timeout_us else None
        self.gone = False  # nobody wants the answer
        self.done, self.results, self.error = threading.Event(), None, None

    def order(self):
        """Real-time first; then by the request's own priority, of which 1 is the first, and 0 is that of most."""
        return not self.model.urgent, self.infer.priority or 128

    def end(self, results, error=None):
        self.results, self.error = results, error
        self.done.set()


class Queue:
    """Requests that wait for a worker: of one model, or of all."""

    def __init__(self, length):
        self.length, self.numbers = length, itertools.count()
        self.heap, self.changed, self.ends = [], threading.Condition(), False

    def put(self, asked):
        with self.changed:
            if sum(a.model is asked.model for *_, a in self.heap) >= self.length:
                raise Refused(503, f"{self.length} requests wait for {asked.model.name}; come again later")
            heapq.heappush(self.heap, (*asked.order(), next(self.numbers), asked))
            self.changed.notify()

    def take(self):
        """None: there will be no more."""
        with self.changed:
            while not self.heap and not self.ends:
                self.changed.wait()
            if not self.heap:
                return None
            asked = heapq.heappop(self.heap)[-1]
            asked.model.running += 1
            return asked

    def drop(self, model):
        with self.changed:
            dropped = [a for *_, a in self.heap if a.model is model]
            self.heap = [e for e in self.heap if e[-1].model is not model]
            heapq.heapify(self.heap)
        return dropped

    def end(self):
        with self.changed:
            self.ends = True
            self.changed.notify_all()


class Orion:
    """Best-effort layers go to the device while no real-time request is under way, and few at a time. (Orion, EuroSys 2024, also
    lets those pass that need another part of the device than the real-time kernel; that takes a profile.)"""

    def __init__(self):
        self.changed, self.urgent = threading.Condition(), 0

    @contextlib.contextmanager
    def request(self):
        with self.changed:
            self.urgent += 1
        try:
            yield
        finally:
            with self.changed:
                self.urgent -= 1
                self.changed.notify_all()

    def attach(self, net, device):
        leaves = [m for m in net.modules() if not list(m.children())]
        behind = collections.deque()

        def before(*_):
            with self.changed:
                self.changed.wait_for(lambda: not self.urgent, ORION_PATIENCE)

        def after(*_):
            if device.type != "cuda":
                return
            behind.append(torch.cuda.Event())
            behind[-1].record()
            if len(behind) > ORION_LAYERS:
                behind.popleft().synchronize()

        for leaf in leaves:
            leaf.register_forward_pre_hook(before)
            leaf.register_forward_hook(after)


class Graph:
    """A network's kernels for one shape, captured once: a request is one launch, and takes no lock of Python's for each kernel."""

    def __init__(self, net, inputs, stream):
        self.inputs = inputs
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                net(*inputs)
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
            self.outputs = net(*inputs)

    def fits(self, inputs):
        return all(own.shape == given.shape for own, given in zip(self.inputs, inputs))

    def __call__(self, *inputs):
        for own, given in zip(self.inputs, inputs):
            own.copy_(given)
        self.graph.replay()
        return self.outputs


class Model:
    """State: UNAVAILABLE, LOADING, READY, UNLOADING. It changes under the engine's lock."""

    def __init__(self, name, kind, urgent):
        self.name, self.kind, self.urgent = name, kind, urgent
        self.inputs = {s.name: s for s in nets.KINDS[kind].inputs}
        self.outputs = {s.name: s for s in nets.KINDS[kind].outputs}
        self.state, self.reason = "UNAVAILABLE", "it is not loaded"
        self.net = self.graph = self.queue = self.stream = self.own_stream = None
        self.running = 0
        self.clear()

    def clear(self):
        self.counts = {"success": [0, 0], "fail": [0, 0], **{p: [0, 0] for p in PHASES}}
        self.inferences = self.last = 0

    def count(self, asked, ok):
        for which, n in ([("success" if ok else "fail", asked.at[-1] - asked.at[0])]
                         + ([(p, b - a) for p, a, b in zip(PHASES, asked.at, asked.at[1:])] if ok else [])):
            self.counts[which][0] += 1
            self.counts[which][1] += n
        if ok:
            self.inferences += asked.infer.batch
            self.last = int(time.time() * 1000)

    def statistics(self):
        stats = {"name": self.name, "version": "1", "last_inference": self.last, "inference_count": self.inferences,
                 "execution_count": self.counts["success"][0],
                 "inference_stats": {k: {"count": n, "ns": ns} for k, (n, ns) in self.counts.items()}}
        own = self.own_stream
        if own:
            with contextlib.suppress(OSError):
                info = fermata.query(own)
                stats["fermata"] = {"level": info.level, "preemptions": info.preemptions, "interrupts": info.interrupts,
                                    "guarded": info.guarded, "device_ns": info.device_ns}
        return stats

    def metadata(self):
        return {"name": self.name, "versions": ["1"], "platform": "pytorch",
                "inputs": [s.metadata() for s in self.inputs.values()], "outputs": [s.metadata() for s in self.outputs.values()]}


class Engine:
    def __init__(self, mode, device, half=False, queue=64, pad=0, graphs=False):
        self.mode, self.device, self.half, self.length, self.pad = mode, torch.device(device), half, queue, pad
        self.graphs = graphs and self.device.type == "cuda"
        self.orion = Orion() if mode == "orion" else None
        self.lock, self.making = threading.Condition(), threading.Lock()
        self.ending = False
        self.models = {}
        for kind in nets.KINDS:
            for suffix, urgent in (("", False), ("_be", False), ("_rt", True)):
                self.models[kind + suffix] = Model(kind + suffix, kind, urgent)
        self.shared = Queue(queue) if mode == "sequential" else None
        if self.shared:
            threading.Thread(target=self.work, args=(self.shared,), daemon=True).start()

    # --- repository ---

    def find(self, name):
        if name not in self.models:
            raise Refused(404, f"there is no model '{name[:64]}'; there are {', '.join(nets.KINDS)}, each also with _rt and _be")
        return self.models[name]

    def ready(self, name):
        model = self.find(name)
        if model.state != "READY":
            raise Refused(409, f"model '{name}' is not ready: {model.reason or model.state.lower()}")
        return model

    def load(self, name):
        """Loading what is loaded is no error, and changes nothing."""
        model = self.find(name)
        with self.lock:
            if model.state == "READY":
                return
            if self.ending or model.state != "UNAVAILABLE":
                raise Refused(409, f"model '{name}' is {model.state.lower()}")
            model.state, model.reason = "LOADING", "it is being loaded"
        try:
            self.make(model)
        except Exception as e:
            self.release(model)
            self.set(model, "UNAVAILABLE", f"loading failed: {e}")
            raise Refused(500, f"loading '{name}' failed: {e}") from e
        model.clear()
        self.set(model, "READY", "")

    def make(self, model):
        with self.making:
            model.net = nets.make(model.kind, self.device, self.half)
            if self.orion and not model.urgent:
                self.orion.attach(model.net, self.device)
            self.make_stream(model)
            if self.device.type == "cuda":
                torch.cuda.synchronize()  # weights are made in another stream than the one that reads them
            if self.graphs:
                with torch.inference_mode():
                    model.graph = Graph(model.net, self.blank(model), model.stream or torch.cuda.Stream())
        if self.shared:
            model.queue = self.shared
            return
        model.queue = Queue(self.length)
        threading.Thread(target=self.work, args=(model.queue,), daemon=True).start()

    def make_stream(self, model):
        if self.device.type != "cuda" or self.mode == "sequential":
            return
        if self.mode in BY_FERMATA:
            level = 2 if model.urgent or self.mode == "level2" else 0
            model.own_stream = fermata.stream(fermata.Place.WHOLE, "real-time" if model.urgent else model.name,
                                              "high" if model.urgent else "low", level=level)
            model.stream = torch.cuda.ExternalStream(model.own_stream.cuda_stream)
            if self.mode == "pad" and not model.urgent:
                fermata.hint(model.own_stream, "pad", self.pad)
        else:
            urgent = model.urgent and self.mode in ("priority-streams", "orion")
            model.stream = torch.cuda.Stream(priority=-1 if urgent else 0)

    def release(self, model):
        if model.queue and not self.shared:
            model.queue.end()
        if model.own_stream:
            model.own_stream.close()
        model.net = model.graph = model.queue = model.stream = model.own_stream = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def set(self, model, state, reason):
        with self.lock:
            model.state, model.reason = state, reason
            self.lock.notify_all()

    def unload(self, name):
        """What runs is finished, what waits is refused."""
        model = self.find(name)
        with self.lock:
            if model.state == "UNAVAILABLE":
                return
            if model.state != "READY":
                raise Refused(409, f"model '{name}' is {model.state.lower()}")
            model.state, model.reason = "UNLOADING", "it is being unloaded"
        for asked in model.queue.drop(model):
            asked.end(None, Refused(409, f"model '{name}' is being unloaded"))
        with self.lock:
            while model.running:
                self.lock.wait()
        self.release(model)
        self.set(model, "UNAVAILABLE", "it was unloaded")

    def index(self, ready):
        return [{"name": m.name, "version": "1", "state": m.state if m.state == "READY" else "UNAVAILABLE", "reason": m.reason}
                for m in self.models.values() if m.state == "READY" or not ready]

    # --- requests ---

    def ask(self, asked):
        """Puts it into its queue. The lock: no request comes behind the last look of unload()."""
        with self.lock:
            self.ready(asked.model.name)
            if self.ending:
                raise Refused(503, "the server is ending")
            asked.model.queue.put(asked)

    def work(self, queue):
        """A thread: of a model, or of all."""
        while asked := queue.take():
            results = error = None
            try:
                results = self.serve(asked)
            except Refused as e:
                error = e
            except Exception as e:  # of PyTorch, or of the device; the server lives
                error = Refused(500, f"{type(e).__name__}: {str(e)[:200]}")
            asked.at.append(time.monotonic_ns())
            with self.lock:
                asked.model.count(asked, not error)
                asked.model.running -= 1
                self.lock.notify_all()
            asked.end(results, error)

    def serve(self, asked):
        asked.at.append(time.monotonic_ns())
        if asked.gone:
            raise Refused(400, "the client has gone")
        if asked.until and asked.at[-1] > asked.until:
            raise Refused(504, "the request's timeout has passed before it began")
        model = asked.model
        urgent = self.orion.request() if self.orion and model.urgent else contextlib.nullcontext()
        stream = torch.cuda.stream(model.stream) if model.stream else contextlib.nullcontext()
        with urgent, stream, torch.inference_mode():
            inputs = [self.give(one) for one in asked.infer.inputs]
            asked.at.append(time.monotonic_ns())
            outputs = (model.graph if model.graph and model.graph.fits(inputs) else model.net)(*inputs)
            if self.device.type == "cuda":
                torch.cuda.current_stream().synchronize()
            asked.at.append(time.monotonic_ns())
            return [self.fetch(spec, out) for spec, out in zip(model.outputs.values(), outputs) if spec.name in asked.infer.outputs]

    def give(self, one):
        """A tensor on the device."""
        dtype = TORCH[one.spec.datatype]
        if isinstance(one.data, list):
            tensor = torch.tensor(one.data, dtype=dtype).reshape(one.shape)
        else:
            tensor = torch.frombuffer(bytearray(one.data), dtype=dtype).reshape(one.shape)
        if one.spec.below and not (0 <= int(tensor.min()) and int(tensor.max()) < one.spec.below):
            raise Refused(400, f"an element of '{one.spec.name}' is not from 0 to {one.spec.below - 1}")
        tensor = tensor.to(self.device)
        return tensor.half() if self.half and dtype == torch.float32 else tensor

    def blank(self, model):
        """Inputs of one image or text, on the device."""
        dtypes = [torch.half if self.half and s.datatype == "FP32" else TORCH[s.datatype] for s in model.inputs.values()]
        return [torch.zeros((1, *s.shape), dtype=dtype, device=self.device) for s, dtype in zip(model.inputs.values(), dtypes)]

    @staticmethod
    def fetch(spec, out):
        out = out.to("cpu").float().contiguous()
        return (spec, tuple(out.shape), lambda: ctypes.string_at(out.data_ptr(), out.numel() * out.element_size()),
                lambda: out.flatten().tolist())

    def end(self):
        """Requests that are there are served."""
        with self.lock:
            self.ending = True
            queues = {m.queue for m in self.models.values() if m.queue}
            # In the order in which requests go: from a queue to a worker.
            while any(q.heap for q in queues) or any(m.running for m in self.models.values()):
                self.lock.wait(1)
