#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""contrib/torch-server on the fake driver: which model runs when, in each of its modes."""
import contextlib
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3))
from harness import PATIENCE, check, eventually, main
from torch_served import IDS, SERVER, binary, environment, on_a_device


def work_together(s, until):
    """Both models have requests, until it is so."""
    body, headers = binary("resnet152_be")
    ends, errors = threading.Event(), []

    def client(name):
        with contextlib.closing(s.client()) as c:
            while not ends.is_set():
                status, _, answer = s.ask("POST", f"/v2/models/{name}/infer", body, headers, connection=c)
                if status != 200:
                    errors.append(answer)
                    return

    threads = [threading.Thread(target=client, args=(name,), daemon=True) for name in ("vgg19_rt", "resnet152_be", "resnet152_be")]
    for t in threads:
        t.start()
    try:
        eventually("it is so", lambda: until() or time.sleep(0.05))  # a server that is asked too often does nothing else
    finally:
        ends.set()
        for t in threads:
            t.join(PATIENCE)
    check(not errors, f"{errors}")


def served(s):
    return lambda: all(s.stats(name)["execution_count"] >= 1 for name in ("vgg19_rt", "resnet152_be"))


def the_urgent_model_stops_the_others(stack):
    fermata, s = on_a_device(stack, "level2")
    work_together(s, lambda: served(s)() and fermata.preemptions() > 0)
    names = {g["name"]: g["hints"].get("priority", 0) for g in fermata.ps()["groups"]}
    check(names.get("real-time") == 64 and names.get("resnet152_be") == -64, f"{names}")
    check(s.stats("vgg19_rt")["fermata"]["level"] == 2 and s.get("/v2")["scheduled"], "it is not scheduled")
    s.post("/v2/repository/models/resnet152_be/unload", {})
    s.load("resnet152_be")
    work_together(s, served(s))
    s.ends()


def in_every_mode_it_serves(stack):
    modes = [["sequential"], ["orion"], ["pad", "--policy", "fixed-priority"]]
    if os.environ.get("FERMATA_TEST_LONG"):
        modes += [["guardian", "--policy", "fixed-priority"], ["streams"], ["priority-streams"]]
    for mode, *options in modes:
        _, s = on_a_device(stack, mode, *options)
        work_together(s, served(s))
        s.ends()


def graphs_answer_as_kernels_do(stack):
    """Of each mode the answers are the same, for one text and for two; a text before does not change them."""
    ids = IDS["data"]
    asked = [{"inputs": [{**IDS, "data": ids[k:] + ids[:k]}]} for k in (0, 1, 0)]
    asked.append({"inputs": [{**IDS, "shape": [2, 128], "data": ids + ids[::-1]}]})
    answers = []
    for more in ([], ["--graphs"]):
        fermata, s = on_a_device(stack, "level2", *more)
        s.load("bert-base_rt")
        answers.append([s.infer("bert-base_rt", a)["outputs"] for a in asked])
        check(answers[-1][0] == answers[-1][2] != answers[-1][1], f"{more}: an answer does not depend on what is asked")
    check(answers[0] == answers[1], "a graph answers otherwise")
    work_together(s, lambda: served(s)() and fermata.preemptions() > 0)
    s.ends()
    r = subprocess.run([*SERVER, "--mode", "orion", "--graphs"], env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    check(r.returncode == 2 and "orion launches layers one by one" in r.stderr, f"{r.returncode}: {r.stderr}")


def what_a_mode_needs_is_said(stack):
    import server

    for mode in ("level2", "guardian", "pad"):
        check("fermata run" in server.prepare(server.arguments(["--mode", mode])), mode)
    check(server.prepare(server.arguments(["--mode", "orion"])) is None, "orion needs nothing")
    r = subprocess.run([*SERVER, "--mode", "level2"], env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    check(r.returncode == 1 and r.stderr.startswith("torch-server: mode level2 needs Fermata"), f"{r.returncode}: {r.stderr}")


if __name__ == "__main__":
    main(the_urgent_model_stops_the_others, in_every_mode_it_serves, graphs_answer_as_kernels_do, what_a_mode_needs_is_said)
