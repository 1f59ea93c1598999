#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs contrib/torch-server in its modes, and asks it by `fermata-lab bench`; see script/reef-bench."""
import argparse
import array
import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request

from demo import daemon

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SERVER = os.path.join(SOURCE, "contrib", "torch-server", "server.py")
MODES = ("sequential", "streams", "priority-streams", "orion", "level2", "guardian")
UNDER_FERMATA = ("level2", "guardian", "pad")
WORKLOADS = ("a", "b", "c", "d", "e", "real", "pairs", "stops")
NETWORKS = ("bert-base", "gpt2", "resnet152", "vgg19", "yolov3")
STOPS_HZ = 50  # requests of the one that stops others
STARVED = 0.01  # of what a network can do alone
START_S, END_S, ALONE_S = 300, 60, 1.5
LOOK = "import torch; assert torch.cuda.is_available(); print(torch.cuda.get_device_name())"


class Failed(Exception):
    pass


def kind(name):
    """The network of a model."""
    return name.rpartition("_")[0]


class Server:
    """One in a mode, with these models."""

    def __init__(self, args, stack, mode, models, socket=None):
        """socket: the directory of a daemon's that schedules it."""
        command = [sys.executable, SERVER, "--port", "0", "--mode", mode, "--queue", "1024", "--load", ",".join(sorted(models))]
        command += ["--half"] if args.half else []
        command += ["--graphs"] if args.graphs and mode != "orion" else []
        if mode in UNDER_FERMATA:
            local = [] if socket else ["--local", "fixed-priority"]
            command = [os.path.join(args.build, "bin", "fermata"), "run", *local, "--", *command]
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}, "CUDA_DEVICE_MAX_CONNECTIONS": "32",
               **({"FERMATA_SOCKET": socket} if socket else {})}
        log = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
        self.args, self.p = args, subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        stack.callback(self.end)
        said = self.p.stdout.readline() if select.select([self.p.stdout], [], [], START_S)[0] else ""
        if not said.startswith("listening at "):
            self.p.kill()
            self.p.wait()
            log.seek(0)
            raise Failed(f"the server in mode {mode} does not start: {log.read().strip()[-300:]}")
        self.url = said.split()[-1]

    def end(self):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
        try:
            self.p.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.communicate()

    def infer(self, model):
        """The bytes of an answer, to what is always asked."""
        with urllib.request.urlopen(f"{self.url}/v2/models/{model}", timeout=END_S) as r:
            (spec,) = json.load(r)["inputs"]
        shape = [1, *spec["shape"][1:]]
        values = array.array("f" if spec["datatype"] == "FP32" else "q", (k % 97 for k in range(math.prod(shape)))).tobytes()
        head = json.dumps({"parameters": {"binary_data_output": True}, "inputs": [
            {"name": spec["name"], "shape": shape, "datatype": spec["datatype"], "parameters": {"binary_data_size": len(values)}}]}).encode()
        asked = urllib.request.Request(f"{self.url}/v2/models/{model}/infer", head + values,
                                       {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"})
        with urllib.request.urlopen(asked, timeout=END_S) as r:
            return r.read()[int(r.headers["Inference-Header-Content-Length"]):]

    def bench(self, workload, seconds):
        """The tasks of a run."""
        with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="fermata-reef-") as f:
            json.dump({**workload, "time": seconds}, f)
            f.flush()
            r = subprocess.run([os.path.join(self.args.build, "bin", "fermata-lab"), "bench", "--driver", f"kserve:{self.url}", "--json",
                                "--warm-up", "5", "--alone", "5", f.name], capture_output=True, text=True,
                               timeout=seconds + START_S, check=False)
        if not r.stdout:
            raise Failed(r.stderr.strip()[-300:])
        tasks = json.loads(r.stdout)["runs"][0]["tasks"]
        for t in tasks:
            if t["failed"]:
                raise Failed(f"{t['id']}: {t['failed']}")
        return tasks


def measure_alone(server, kinds):
    """Mean and P99 of each network's requests one after the other, us."""
    alone = {}
    for name in kinds:
        client = {"id": name, "load": {"type": "continuous"}, "client": {"name": name, "model_name": f"{name}_rt"}}
        (task,) = server.bench({"tasks": [client]}, min(ALONE_S, server.args.seconds))
        latency = task["latency_us"]
        if not latency["count"]:
            raise Failed(f"{name} answers nothing in time")
        alone[name] = {"mean_us": latency["mean"], "p99_us": latency["p99"]}
    return alone


def concrete(workload, alone):
    """With rates in requests a second, which are then the same in all modes."""
    tasks = []
    for t in workload["tasks"]:
        load = dict(t["load"])
        if "rate_fraction" in load:
            load["frequency"] = load.pop("rate_fraction") * 1e6 / alone[kind(t["id"])]["mean_us"]
        tasks.append({**t, "load": load})
    return {**workload, "tasks": tasks}


def row(tasks, alone):
    """Of real-time clients, to alone; and what all did, in units of what each can do alone."""
    urgent = [t for t in tasks if t["id"].endswith("_rt") and t["latency_us"]["count"]]
    if not urgent:
        raise Failed("no real-time request was served")
    means = [t["latency_us"]["mean"] / alone[kind(t["id"])]["mean_us"] for t in urgent]
    p99s = [t["latency_us"]["p99"] / alone[kind(t["id"])]["p99_us"] for t in urgent]
    did = {t["id"]: t["throughput_hz"] * alone[kind(t["id"])]["mean_us"] / 1e6 for t in tasks}
    return {"mean": sum(means) / len(means), "p99": max(p99s), "worst": max(means),
            "waiting": sum(t["waiting"] for t in urgent), "throughput": sum(did.values()),
            "best_effort": sum(v for k, v in did.items() if k.endswith("_be")), "tasks": {t["id"]: {
                "mean_us": t["latency_us"]["mean"], "p99_us": t["latency_us"]["p99"], "throughput_hz": t["throughput_hz"]} for t in tasks}}


def show(which, rows, out=sys.stdout):
    base = rows.get("sequential", {}).get("throughput")
    print(f"\nDISB {which.upper():<14} RT MEAN    WORST   RT P99   WAITING  THROUGHPUT  TO SEQUENTIAL  BEST EFFORT", file=out)
    for mode, r in rows.items():
        if "failed" in r:
            print(f"{mode:<17} {r['failed']}", file=out)
            continue
        to = f"{r['throughput'] / base:.2f}x" if base else "-"
        print(f"{mode:<17} {r['mean']:>7.3f}x {r['worst']:>7.3f}x {r['p99']:>7.2f}x {r['waiting']:>9} {r['throughput']:>11.2f} {to:>14} "
              f"{r['best_effort']:>12.2f}", file=out, flush=True)


def pairs():
    """Each network as the real-time one beside each as best effort, both in a closed loop."""
    def client(model):
        return {"id": model, "load": {"type": "continuous"}, "client": {"name": model, "model_name": model}}

    return {f"{rt} beside {be}": {"tasks": [client(f"{rt}_rt"), client(f"{be}_be")]} for rt in NETWORKS for be in NETWORKS}


def stop_one(args, mode, network):
    """A network in a closed loop, while another comes STOPS_HZ times a second: how long it takes until it stands, and whether its
    answers are what they are alone."""
    best, urgent = f"{network}_be", "vgg19_rt"
    load = {"id": urgent, "load": {"type": "periodic", "priority": 0, "frequency": STOPS_HZ}, "client": {"name": urgent, "model_name": urgent}}
    with contextlib.ExitStack() as stack:
        dir_ = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-reef-"))
        env = daemon(stack, args.build, dir_, "policy = fixed-priority\n")
        server = Server(args, stack, mode, {best, urgent}, dir_)
        first, other, ended = server.infer(best), [], threading.Event()

        def asks():
            try:
                while not ended.is_set():
                    other.append(server.infer(best) != first)
            except OSError as e:
                other.append(str(e))

        thread = threading.Thread(target=asks, daemon=True)
        thread.start()
        try:
            server.bench({"tasks": [load]}, args.seconds)
        finally:
            ended.set()
            thread.join(END_S)
        said = subprocess.run([os.path.join(args.build, "bin", "fermata"), "ps", "--devices", "--json"], env=env, capture_output=True, text=True,
                              timeout=END_S, check=True).stdout
    took = max((d["preempt_us"] for d in json.loads(said)["devices"]), key=lambda h: h["count"], default=None)
    if not took or not took["count"]:
        raise Failed("it was never stopped")
    failed = [o for o in other if isinstance(o, str)]
    if failed:
        raise Failed(failed[0])
    return {**took, "answers": len(other), "other": sum(other)}


def stops(args):
    results = {}
    print("\nSTOPS, us               COUNT      P50      P99      MAX  ANSWERS  OTHER THAN ALONE", flush=True)
    for mode in args.modes:
        for network in NETWORKS if mode in UNDER_FERMATA else ():
            try:
                r = stop_one(args, mode, network)
                print(f"{mode:<10} {network:<10} {r['count']:>7} {r['p50']:>8.1f} {r['p99']:>8.1f} {r['max']:>8.1f} {r['answers']:>8} {r['other']:>8}",
                      flush=True)
            except (Failed, subprocess.SubprocessError, OSError) as e:
                r = {"failed": str(e)}
                print(f"{mode:<10} {network:<10} {e}", flush=True)
            results[f"{mode} {network}"] = r
    return results


def show_pairs(runs, modes, out=sys.stdout):
    """runs: of each pair, rows by mode. A line a mode; ratios of throughput are to `sequential' of the same pair."""
    print(f"\nPAIRS {len(runs):<11} RT MEAN    WORST  RT P99 WORST  THROUGHPUT   LEAST  TO SEQUENTIAL  STARVED", file=out)
    for mode in modes:
        rows = {name: of[mode] for name, of in runs.items() if mode in of}
        failed = [f"{name}: {r['failed']}" for name, r in rows.items() if "failed" in r]
        if failed or not rows:
            print(f"{mode:<17} {'; '.join(failed)[:300] or 'not run'}", file=out)
            continue
        n, did = len(rows), [r["throughput"] for r in rows.values()]
        base = [runs[name].get("sequential", {}).get("throughput") for name in rows]
        to = f"{sum(d / b for d, b in zip(did, base)) / n:.2f}x" if all(base) else "-"
        print(f"{mode:<17} {sum(r['mean'] for r in rows.values()) / n:>7.3f}x {max(r['mean'] for r in rows.values()):>7.3f}x "
              f"{max(r['p99'] for r in rows.values()):>12.2f}x {sum(did) / n:>11.2f} {min(did):>7.2f} {to:>14} "
              f"{sum(r['best_effort'] < STARVED for r in rows.values()):>8}", file=out, flush=True)


def in_mode(args, mode, workloads, results, models):
    """All workloads; where something fails, the others go on."""
    try:
        with contextlib.ExitStack() as stack:
            server = Server(args, stack, mode, models)
            if not results["alone"]:
                results["alone"] = measure_alone(server, sorted({kind(m) for m in models}))
            for which, workload in workloads.items():
                try:
                    run = row(server.bench(concrete(workload, results["alone"]), args.seconds), results["alone"])
                except (Failed, subprocess.TimeoutExpired) as e:
                    run = {"failed": str(e)}
                results["runs"][which][mode] = run
                print(f"{which} {mode}: {run.get('failed', 'measured')}", file=sys.stderr, flush=True)
    except Failed as e:
        for which in workloads:
            results["runs"][which].setdefault(mode, {"failed": str(e)})


def listed(known):
    def read(text):
        names = text.split(",")
        if set(names) - set(known):
            raise argparse.ArgumentTypeError(f"each is one of {', '.join(known)}")
        return names

    return read


def arguments(argv):
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--modes", type=listed((*MODES, "pad")), default=list(MODES))
    p.add_argument("--workloads", type=listed(WORKLOADS), default=list(WORKLOADS[:5]))
    p.add_argument("--half", action="store_true")
    p.add_argument("--graphs", action="store_true")
    p.add_argument("--json")
    return p.parse_args(argv)


def main(argv):
    args = arguments(argv)
    looked = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=False)
    if looked.returncode:
        print("reef-bench: there is no PyTorch with a GPU here", file=sys.stderr)
        return 77
    workloads = {}
    for which in args.workloads:
        if which == "pairs":
            workloads.update(pairs())
            continue
        if which == "stops":
            continue
        with open(os.path.join(SOURCE, "examples", "bench", f"disb-{which}.json"), encoding="ascii") as f:
            workloads[which] = json.load(f)
    models = {t["id"] for w in workloads.values() for t in w["tasks"]}
    models |= {f"{kind(m)}_rt" for m in models}  # each is measured alone
    # Alone is measured in the first mode in which nothing is between a model and the device.
    modes = sorted(args.modes, key=lambda m: m != "streams") if workloads else []
    results = {"device": looked.stdout.strip(), "seconds": args.seconds, "half": args.half, "graphs": args.graphs, "alone": {},
               "runs": {which: {} for which in workloads}}
    for mode in modes:
        in_mode(args, mode, workloads, results, models)
    print(f"{results['device']}, {args.seconds:g} s a run; alone, mean and P99: " * bool(workloads) + "; ".join(
        f"{name} {a['mean_us'] / 1e3:.2f} and {a['p99_us'] / 1e3:.2f} ms" for name, a in results["alone"].items()))
    for which in workloads:
        results["runs"][which] = {m: results["runs"][which][m] for m in args.modes if m in results["runs"][which]}
        if which in args.workloads:
            show(which, results["runs"][which])
    if "pairs" in args.workloads:
        show_pairs({which: results["runs"][which] for which in pairs()}, args.modes)
    if "stops" in args.workloads:
        results["stops"] = stops(args)
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(results, f, indent=1)
    rows = [*results["runs"].values(), results.get("stops", {})]
    return int(any("failed" in r for of in rows for r in of.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
