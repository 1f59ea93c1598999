#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab bench`: what it counts, whatever the machine does meanwhile; what becomes of clients that fail; drivers; and
mistakes in workloads, each with its place. How long anything took is looked at only where it follows from what was
asked for."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import (BUILD, FERMATA, FERMATA_LAB, PATIENCE, Fermata, Skip, check, cuda_env, eventually, main, need,  # noqa: E402
                     need_cuda_shim, on_terminal)

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
EXAMPLES = os.path.join(SOURCE, "examples", "bench")
DRIVER = os.path.join(BUILD, "tests", "libbench_driver.so")
QUICK = ("--warm-up", "1", "--alone", "2")
SIM = ("--driver", "sim", "--native", "--threads", *QUICK)
MODELS = {"short": {"kernels": [{"us": 100, "count": 2}]}, "five": {"kernels": [{"us": 1000, "count": 5}]}}


def task(name, load, model="short", **more):
    return {"id": name, "load": {"type": load} if isinstance(load, str) else load,
            "client": {"name": name.upper(), "model_name": model}, **more}


def rate(kind, frequency):
    return {"type": kind, "frequency": frequency}


def workload(stack, *tasks, seconds=0.3, models=None):
    f = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".json", prefix="fermata-test-"))
    json.dump({"time": seconds, "models": models or MODELS, "tasks": tasks}, f)
    f.flush()
    return f.name


def bench(*argv, env=None, status=0):
    env = {k: v for k, v in (env or os.environ).items() if not k.startswith("FERMATA_") or k == "FERMATA_SOCKET"}
    r = subprocess.run([FERMATA_LAB, "bench", *argv], env=env, text=True, capture_output=True, timeout=4 * PATIENCE)
    check(r.returncode == status, f"{argv}: {r.returncode} {r.stdout} {r.stderr}")
    return r


def sound(run):
    """What holds of every run; its tasks by name."""
    tasks = {t["id"]: t for t in run["tasks"]}
    check([t["id"] for t in run["tasks"]] == sorted(tasks), "not in the order of their names")
    for t in tasks.values():
        latency, service = t["latency_us"], t["service_us"]
        unserved = t["dropped"] + t["waiting"]
        check(t["failed"] or t["arrivals"] == t["finished"] + unserved, f"requests came and went otherwise: {t}")
        check(service["count"] == t["finished"] and latency["count"] == t["finished"] + t["waiting"], t)
        check(t["waiting"] or latency["mean"] >= service["mean"], f"from its begin it takes longer than from its due: {t}")
        counted = sorted((int(upto), n) for upto, n in t["latency_histogram"].items())
        check(sum(n for _, n in counted) == latency["count"], t)
        check(not counted or abs(counted[-1][0] / 1e3 - latency["max"]) < 0.01, t)
        check(latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"], t)
    return tasks


def one(*argv, **more):
    r = json.loads(bench("--json", *argv, **more).stdout)
    check(r["fermata_bench"] == 1 and len(r["runs"]) == 1, r)
    return r, r["runs"][0], sound(r["runs"][0])


def arrivals_are_of_the_seed(stack):
    tasks = [task("a", rate("periodic", 100)), task("b", rate("poisson", 300)),
             task("c", {"type": "trace", "trace": [250, 20, 400, 0, 20]})]
    alone = workload(stack, *tasks)
    more = workload(stack, *tasks, task("aa", rate("poisson", 20)))

    def due(file, seed):
        return {k: t["arrivals"] for k, t in one(*SIM, "--seed", str(seed), file)[2].items() if k != "aa"}

    first = due(alone, 5)
    check(first["a"] == 30 and first["c"] == 4 and first["b"] > 0, first)
    check(due(more, 5) == first, "the same seed came otherwise, with one task more")
    check(due(alone, 6)["b"] != first["b"], "the seed changes nothing")


def overload_shows_in_latency(stack):
    """Three hundred requests of 5 ms each in 300 ms: no more than sixty can be served, and who is not, waits."""
    file = workload(stack, task("a", rate("periodic", 1000), "five"))
    t = one(*SIM, file)[2]["a"]
    check(t["arrivals"] == 300 and t["finished"] <= 60 and t["waiting"] >= 240 and t["dropped"] == 0, t)
    check(t["latency_us"]["max"] >= 200000 and t["latency_us"]["mean"] > 50000, t)
    check(t["service_us"]["min"] >= 5000, t)
    d = one(*SIM, "--late", "drop", file)[2]["a"]
    check(d["arrivals"] == 300 and d["waiting"] <= 1 and d["dropped"] >= 200, d)


def the_mean_is_of_what_the_percentiles_are_of(stack):
    """Under overload a request takes long from when it was due, and as ever from its begin."""
    line = bench(*SIM, workload(stack, task("a", rate("periodic", 1000), "five"))).stdout
    found = re.search(r"^a +periodic +\d+ +\d+ +\d+ +[0-9.]+ +[0-9.]+ [mu]s +([0-9.]+) ms +([0-9.]+) ms ", line, re.M)
    check(found, f"the line of its task: {line}")
    mean, p50 = map(float, found.groups())
    check(p50 / 3 < mean < 3 * p50 and mean > 20, f"MEAN {mean} ms, P50 {p50} ms")


def progress_is_one_line_on_a_terminal(stack):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    file = workload(stack, task("a" * 40, rate("periodic", 100)), seconds=1.5)
    for more in [], ["--json"]:
        status, out, shown = on_terminal([FERMATA_LAB, "bench", *SIM, *more, file], env=env)
        check(status == 0 and out, f"{status}: {out} {shown}")
        check("\n" not in shown and shown.endswith("\r\033[K"), f"it is not one line that goes: {shown!r}")
        steps = shown.split("\r\033[K")
        check(any(s.startswith("bench: measuring alone: aaa") for s in steps), f"{steps}")
        check(any(re.fullmatch(r"bench: [01] s of 2: \d+ requests", s) for s in steps), f"{steps}")
        check(all(len(s) < 60 for s in steps), f"longer than the terminal is wide: {steps}")
    check(bench(*SIM, file).stderr == "", "progress where nobody sees it")


def deadlines_and_relative_rates(stack):
    file = workload(stack, task("a", rate("periodic", 400), "five", hints={"deadline": "4ms"}),
                    task("b", {"type": "poisson", "rate_fraction": 0.2}))
    r, _, t = one(*SIM, file)
    check(t["a"]["missed"] >= t["a"]["finished"] and t["a"]["hints"] == {"deadline": 4000000}, t["a"])
    check(abs(t["b"]["rate_hz"] * t["b"]["alone_us"] / 1e6 - 0.2) < 1e-3, t["b"])
    check([m["kernels"][0]["us"] for m in r["models"]] == [100, 1000], r["models"])
    r, _, t = one(*SIM, "--scale", "0.5", "--hint", "?:weight=7", "--hint", "a:deadline=1s", file)
    check([m["kernels"][0]["us"] for m in r["models"]] == [50, 500], r["models"])
    check(t["a"]["hints"] == {"deadline": 10 ** 9, "weight": 7}, t)
    check(t["b"]["hints"] == {"priority": 64, "weight": 7}, t)


def who_depends_on_others(stack):
    file = workload(stack, task("a", {"type": "trace", "trace": [0, 1, 2]}), task("b", {"type": "trace", "trace": [30, 5]}),
                    task("c", {"type": "dependent", "prev_task_ids": ["a", "b"]}),
                    task("d", {"type": "dependent", "prev_task_ids": ["c"]}))
    r = Running(stack, *SIM, file)
    r.serves(9)
    t = r.interrupt()[1]
    check({k: v["finished"] for k, v in t.items()} == {"a": 3, "b": 2, "c": 2, "d": 2}, t)


DISB_KEYS = {"type", "avgThroughput(req/s)", "standAloneTotalLatency(us)", "avgPrepareInputLatency(us)",
             "avgPreprocessLatency(us)", "avgCopyInputLatency(us)", "avgInferLatency(us)", "avgCopyOutputLatency(us)",
             "avgPostprocessLatency(us)", "avgTotalLatency(us)", "avgTotalLatencyIncrease(us)"}


def as_disb_has_it(stack):
    """Its own example, all kinds of load, without a word of ours; and its report."""
    f = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".json", prefix="fermata-test-"))
    json.dump({"time": 1, "tasks": [
        {"id": "task_d", "load": {"type": "periodic", "priority": 0, "frequency": 100}, "client": {"name": "D"}},
        {"id": "task_i", "load": {"type": "periodic", "priority": 0, "frequency": 100}, "client": {"name": "I"}},
        {"id": "task_s", "load": {"type": "trace", "trace": [25, 49, 84, 4521]}, "client": {"name": "S"}},
        {"id": "task_e", "load": {"type": "dependent", "prev_task_ids": ["task_d"]}, "client": {"name": "E"}},
        {"id": "task_f", "load": {"type": "continuous"}, "client": {
            "name": "F", "model_name": "mobilenetv1-imagenet", "batch_size": 1, "triton_grpc_addr": "x:1"}}]}, f)
    f.flush()
    r, run, t = one(*SIM, "--disb", f.name)
    check(r["late"] == "drop" and (r["warm_up"], r["alone"]) == (1, 2), "what is given beats --disb")
    d = run["disb"]
    check(set(d) == {"beginTime", "endTime", "benchmarkTime(s)", "results"} and d["benchmarkTime(s)"] == 1, d)
    check([c["clientName"] for c in d["results"]] == ["D", "E", "F", "I", "S"], d)
    for c in d["results"]:
        check(len(c["analyzers"]) == 1 and set(c["analyzers"][0]) == DISB_KEYS, c)
        a = c["analyzers"][0]
        check(isinstance(a["avgTotalLatency(us)"], int) and a["type"] == "basic", a)
        phases = sum(a[f"avg{p}Latency(us)"] for p in ("PrepareInput", "Preprocess", "CopyInput", "Infer", "CopyOutput",
                                                       "Postprocess"))
        check(0 <= a["avgTotalLatency(us)"] - phases <= 6, f"its phases are not all of it: {a}")
        mine = next(x for x in t.values() if x["client"] == c["clientName"])
        check(abs(a["avgThroughput(req/s)"] - mine["finished"]) < 1e-6, f"of a second: {a}, {mine}")
        # Of what was under way at the end the part before it.
        check(mine["finished"] - 1 <= mine["throughput_hz"] <= mine["finished"], f"{mine}")
    f = t["task_f"]
    check(f["throughput_hz"] < f["finished"], "one of its requests is under way at the end, always")
    check(t["task_s"]["arrivals"] == 3 and t["task_d"]["realtime"] and not t["task_f"]["realtime"], t)


class Running:
    """A bench of 600 seconds, which is told when to end."""

    def __init__(self, stack, *argv, env=None):
        self.p = subprocess.Popen([FERMATA_LAB, "bench", "--json", "--progress=20ms", "--time", "600s", *argv], text=True,
                                  env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stack.callback(self.close)
        self.said = ""

    def close(self):
        if self.p.poll() is None:
            self.p.kill()
        self.p.communicate()

    def line(self):
        line = self.p.stderr.readline()
        check(line, f"it ended early: {self.said}")
        self.said += line
        return line

    def says(self, word):
        while word not in self.said:
            self.line()

    def serves(self, requests):
        """So many more than at the last look."""
        goal = self.served() + requests
        while self.served() < goal:
            self.line()

    def served(self):
        return max([int(n) for n in re.findall(r"(\d+) requests", self.said)], default=0)

    def interrupt(self, status=0):
        self.p.send_signal(signal.SIGINT)
        out, err = self.p.communicate(timeout=PATIENCE)
        check(self.p.returncode == status, f"{self.p.returncode} {self.said} {err}")
        run = json.loads(out)["runs"][0]
        check(not run["complete"] and run["seconds"] < 600, run)
        return run, sound(run)


def under_a_daemon(stack):
    """Its clients are groups that the daemon knows, with the hints that the workload gives."""
    f = Fermata(stack)
    file = workload(stack, task("hi", rate("periodic", 50)), task("lo", "continuous", "five", hints={"priority": "low"}))
    r = Running(stack, "--driver", "sim", *QUICK, "--socket", f.dir, file, env=f.env)
    r.serves(2)
    eventually("both are there", lambda: {"bench-hi", "bench-lo"} <= {g["name"] for g in f.ps()["groups"]})
    hints = {g["name"]: g["hints"]["priority"] for g in f.ps()["groups"]}
    check(hints["bench-hi"] == 64 and hints["bench-lo"] == -64, hints)
    run, t = r.interrupt()
    check(run["mode"] == "fermata" and run["policy"] == "fixed-priority", run)
    check(sum(x["finished"] for x in t.values()) > 0, t)
    e = bench("--driver", "sim", "--socket", os.path.join(f.dir, "no"), file, status=4).stderr
    check("no daemon" in e, e)


def beside_each_other(stack):
    """Natively and under a policy, by a daemon of its own; and in one process."""
    file = workload(stack, task("hi", rate("periodic", 100)), task("lo", "continuous"), task("up", rate("periodic", 2e4)),
                    task("rel", {"type": "poisson", "rate_fraction": 0.01}))
    r = json.loads(bench("--json", "--driver", "sim", "--threads", *QUICK, "--compare", "--policy", "fair slice=1ms",
                         file).stdout)
    check([(x["mode"], x["policy"]) for x in r["runs"]] == [("native", None), ("fermata", "fair")], r)
    for run in r["runs"]:
        check(sound(run)["hi"]["arrivals"] == 30, run)
    check(len({sound(run)["rel"]["rate_hz"] for run in r["runs"]}) == 1, "relative rates are of the first run")
    _, run, t = one("--driver", "sim", "--threads", *QUICK, "--local", "fixed-priority", file)
    check(run["mode"] == "local" and run["policy"] == "fixed-priority" and t["up"]["arrivals"] == 6000, run)
    text = bench("--driver", "sim", *QUICK, "--policy", "fixed-priority", file).stdout
    for word in ("software device", "fermata: fixed-priority", "hi", "continuous", "overall", "real-time", "P99",
                 "still waited at the end"):
        check(word in text, text)


def opencl(stack):
    models = {"m": {"kernels": [{"us": 200, "count": 3}, {"us": 300, "blocks": 2}], "input_bytes": 4096,
                    "output_bytes": 64}}
    file = workload(stack, task("a", rate("poisson", 40), "m"), task("b", "continuous", "m"), seconds=0.2, models=models)
    try:
        r, _, t = one("--native", *QUICK, file)
    except AssertionError as e:
        if "no such device" in str(e) or "no OpenCL loader" in str(e):
            raise Skip("no OpenCL device") from e
        raise
    check(r["device"]["driver"] == "opencl" and r["device"]["name"], r)
    check(all(k["measured_us"] > 0 for m in r["models"] for k in m["kernels"]), r["models"])
    check(t["b"]["alone_us"] > 0 and t["a"]["arrivals"] > 0, t)
    r = Running(stack, *QUICK, "--policy", "fixed-priority", file)
    r.serves(3)
    check(r.interrupt()[0]["policy"] == "fixed-priority", "another policy")
    one(*QUICK, "--native", "--threads", "--time", "100ms", file)


def cuda(stack):
    need_cuda_shim()
    file = workload(stack, task("a", "continuous"), seconds=0.2)
    r, _, _ = one("--driver", "cuda:0", *QUICK, "--policy", "fixed-priority", file, env=cuda_env(os.environ))
    check(r["device"]["platform"] == "CUDA", r)


PLAIN = ("--native", "--driver", DRIVER, "--warm-up", "0", "--alone", "1")


def beside_a_good_one(stack, model):
    return workload(stack, task("good", "continuous", "ok"), task("bad", "continuous", model), seconds=0.2)


def drivers_of_others(stack):
    for threads in ((), ("--threads",)):
        r, _, t = one("--native", "--driver", DRIVER + ":3", *PLAIN[3:], *threads, beside_a_good_one(stack, "ok:1"))
        check(r["device"]["name"] == "test:3" and '"name":"BAD"' in r["device"]["platform"], r["device"])
        check(t["good"]["alone_us"] >= 1000 and t["bad"]["service_us"]["count"] == t["bad"]["finished"], t)
        r = Running(stack, *PLAIN, *threads, beside_a_good_one(stack, "infer:4"))
        r.says("task 'bad': it is tired")
        r.serves(5)
        t = r.interrupt(status=1)[1]
        check(t["bad"]["failed"] == "it is tired" and t["bad"]["finished"] == 2, t)
        check(t["good"]["failed"] is None and t["good"]["finished"] > 0, t)
    file = beside_a_good_one(stack, "open")
    check("task 'bad': it is shut" in bench(*PLAIN, file, status=1).stderr, "a client that does not open")
    env = dict(os.environ, BENCH_DRIVER="old")
    check("version 1" in bench(*PLAIN, file, env=env, status=1).stderr, "of another version")
    env["BENCH_DRIVER"] = "torn"
    check("not sound" in bench(*PLAIN, file, env=env, status=1).stderr, "half a table")
    other = os.path.join(BUILD, "lib", "libfermata.so")
    check("exports no fm_bench_driver" in bench("--driver", other, file, status=1).stderr, "another library")
    check("cannot open" in bench("--driver", "./none.so", file, status=1).stderr, "no library")


def killed_and_stuck(stack):
    """Who is killed is reported, with what it had done, and the others go on; who does not end, too."""
    file = beside_a_good_one(stack, "die:5")
    r = Running(stack, *PLAIN, file)
    r.says("task 'bad': its process was killed by signal 9")
    r.serves(5)
    t = r.interrupt(status=1)[1]
    check("killed by signal 9" in t["bad"]["failed"] and t["bad"]["finished"] == 3, t)
    check(t["good"]["failed"] is None and t["good"]["finished"] > 0, t)
    text = bench(*PLAIN, "--threads", "--time", "600s", file, status=1).stdout
    check("bad: its process was killed by signal 9" in text and "good: its process was killed" in text, text)
    e = bench(*PLAIN[:-1], "9", file, status=1).stderr
    check("task 'bad': its process was killed" in e, e)
    r = Running(stack, *PLAIN, beside_a_good_one(stack, "stuck:5"))
    r.says("it is stuck")

    def ended():
        with contextlib.suppress(ProcessLookupError):
            r.p.send_signal(signal.SIGINT)
        return r.p.poll() is not None

    eventually("it ends at the second interrupt", ended)
    t = sound(json.loads(r.p.communicate()[0])["runs"][0])
    check(r.p.returncode == 1 and "does not end" in t["bad"]["failed"] and t["bad"]["finished"] == 3, t)


def the_examples(stack):
    """All of them are read; the driver builds as its head says, and its own workload runs."""
    need("cc")
    so = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-")), "cpu.so")
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-std=c11", "-shared", "-fPIC", "-I",
                    os.path.join(SOURCE, "include"), os.path.join(EXAMPLES, "cpu.c"), "-o", so], check=True)
    for name in sorted(os.listdir(EXAMPLES)):
        if name == "mlp.json":
            r, _, t = one("--native", "--driver", so, *QUICK, "--time", "200ms", os.path.join(EXAMPLES, name))
            check(r["device"]["name"] == "processor" and t["large"]["alone_us"] > 0, t)
        elif name.endswith(".json") and not name.startswith("disb-"):  # test_kserve.py
            one(*SIM, "--scale", "0.02", "--time", "50ms", os.path.join(EXAMPLES, name))
    e = bench("--native", "--driver", so, os.path.join(EXAMPLES, "a.json"), status=1).stderr
    check("model_name is not mlp" in e, e)


GOOD = {"time": 1, "tasks": [{"id": "a", "load": {"type": "continuous"}, "client": {}}]}


def bad(path, value):
    """GOOD with one member set; or taken away."""
    text = json.loads(json.dumps(GOOD))
    at = text
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(text)


LOAD, CLIENT = ("tasks", 0, "load"), ("tasks", 0, "client")
MISTAKES = [
    ("{", "line 1"), ("[]", "is not an object"), ('{"time": 1, "time": 2}', "duplicate"),
    (bad(("time",), None), "time: is missing"), (bad(("time",), "x"), "time: is not a number"),
    (bad(("time",), 0), "time: is not from"), (bad(("tasks",), []), "tasks: is missing, empty"),
    (bad(("tasks", 0), 7), "tasks[0]: is not an object"), (bad(("tasks",), GOOD["tasks"] * 65), "more than 64"),
    (bad(("tasks",), GOOD["tasks"] * 2), "two are called 'a'"), (bad(("tasks", 0, "id"), None), "tasks[0].id: is missing"),
    (bad(("tasks", 0, "id"), "a b"), "printable ASCII"), (bad(("tasks", 0, "id"), "x" * 48), "1 to 47"),
    (bad(LOAD, None), "tasks[0].load: is missing"), (bad(LOAD, {}), "tasks[0].load.type: is missing"),
    (bad(LOAD, {"type": "x"}), "neither continuous"), (bad(LOAD, {"type": "periodic"}), "load.frequency: is missing"),
    (bad(LOAD, {"type": "periodic", "frequency": -1}), "frequency: is not from"),
    (bad(LOAD, {"type": "poisson", "frequency": 1, "rate_fraction": 1}), "one of them"),
    (bad(LOAD, {"type": "poisson", "rate_fraction": 0}), "rate_fraction: is not from"),
    (bad(LOAD, {"type": "periodic", "frequency": 1, "priority": 0.5}), "priority: is not a whole number"),
    (bad(LOAD, {"type": "trace"}), "trace: is missing"), (bad(LOAD, {"type": "trace", "trace": [1, -1]}), "trace[1]"),
    (bad(LOAD, {"type": "trace", "trace": ["1"]}), "trace[0]: is not a number"),
    (bad(LOAD, {"type": "dependent"}), "prev_task_ids: is missing"),
    (bad(LOAD, {"type": "dependent", "prev_task_ids": ["b"]}), "no task 'b'"),
    (bad(LOAD, {"type": "dependent", "prev_task_ids": ["a"]}), "waits for itself"),
    (bad(CLIENT, None), "tasks[0].client: is missing"), (bad(CLIENT, {"model_name": "x"}), "no model 'x'"),
    (bad(CLIENT, {"model_name": 1}), "model_name: is not a string"),
    (bad(CLIENT, {"batch_size": 0}), "client.batch_size: is not from"),
    (bad(("tasks", 0, "hints"), 1), "hints: is not an object"),
    (bad(("tasks", 0, "hints"), {"urgency": 1}), "tasks[0].hints.urgency"),
    (bad(("tasks", 0, "hints"), {"priority": 1000}), "hints.priority"),
    (bad(("tasks", 0, "hints"), {"priority": 0.5}), "neither a string"),
    (bad(("models",), []), "models: is not an object"), (bad(("models",), {"m": {}}), "models.m.kernels: is missing"),
    (bad(("models",), {"m": {"kernels": [{}]}}), "models.m.kernels[0].us: is missing"),
    (bad(("models",), {"m": {"kernels": [{"us": 1, "count": 0}]}}), "count: is not from 1"),
    (bad(("models",), {"m": {"kernels": [{"us": 1, "blocks": 10 ** 6}]}}), "blocks: is not from"),
    (bad(("models",), {"m": {"kernels": [{"us": 1}] * 4097}}), "more than 4096 kernels"),
]


def mistakes(stack):
    for text, word in MISTAKES:
        r = subprocess.run([FERMATA_LAB, "bench", *SIM, "-"], input=text, text=True, capture_output=True, timeout=PATIENCE)
        check(r.returncode == 2 and r.stderr.startswith("fermata-lab: standard input: ") and word in r.stderr,
              f"{text[:200]}: {r.returncode} {r.stderr}")
        check("hint: " in r.stderr and not r.stdout, r.stderr)
    good = workload(stack, task("a", "continuous"))
    r = bench(*SIM, "--time", "1ms", workload(stack, task("a", {"type": "continuous", "colour": 1})))
    check("'tasks[0].load.colour' means nothing" in r.stderr, r.stderr)
    r = bench(*SIM, "--time", "1ms", workload(stack, task("a", {"type": "continuous", "\x1b[31m": 1})))
    check("'tasks[0].load.?[31m' means nothing" in r.stderr, r.stderr)
    # Of no request there is no time.
    r = bench(*SIM, "--time", "1ms", workload(stack, task("a", {"type": "trace", "trace": []})))
    check(re.search(r"^a +trace +0 +0 +0 +0\.0 +[0-9.]+ [mu]s +- +- +- +- +-$", r.stdout, re.M), r.stdout)
    for argv, word in ((["--driver", "disk", good], "is none of"), (["--hint", "b:weight=1", good], "no task fits"),
                       (["--hint", "a:colour=1", good], "colour"), (["--hint", "a", good], "TASK:NAME=VALUE"),
                       ([], "no workload"), ([good, good], "one workload"), (["--late", "x", good], "neither queue"),
                       (["--scale", "0", good], "0.001"), (["--time", "0", good], "1ms"), (["--seed", "x", good], "seed"),
                       (["--native", "--compare", good], "--compare"), (["--local", "fair", good], "--threads"),
                       (["--policy", "x", good], "no policy"), (["--policy", "fair", "--socket", "x", good], "either"),
                       (["--driver", "sim", "--native", good], "add --threads"), (["/none.json"], "cannot be read"),
                       (["/"], "/: cannot be read: Is a directory"), (["--models", "/", good], "/: cannot be read"),
                       (["--models", good, good], "models.time: is not an object"),
                       (["--driver", "sim", "--threads", "--time", "20000s",
                         workload(stack, task("a", rate("periodic", 10 ** 6)))], "more than")):
        e = bench(*argv, status=1 if "cannot be read" in word else 2).stderr
        check(word in e or word == "seed", f"{argv}: {e}")
    r = subprocess.run([FERMATA, "_bench", "0", "0", "all", "sim"], text=True, capture_output=True, timeout=PATIENCE)
    check(r.returncode == 2 and "fermata-lab bench" in r.stderr, r.stderr)


if __name__ == "__main__":
    main(arrivals_are_of_the_seed, overload_shows_in_latency, the_mean_is_of_what_the_percentiles_are_of,
         progress_is_one_line_on_a_terminal, deadlines_and_relative_rates, who_depends_on_others,
         as_disb_has_it, under_a_daemon, beside_each_other, opencl, cuda, drivers_of_others, killed_and_stuck, the_examples,
         mistakes)
