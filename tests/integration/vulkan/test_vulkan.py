#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Vulkan programs under `fermata run`, on lavapipe, the software device of Mesa, or with FERMATA_TEST_VULKAN=real on the first device that
there is: what they compute is what they compute natively, and
they stop and go on as the daemon says. With the validation layer on both sides of ours, where it is installed."""
import glob
import json
import os
import random
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, PATIENCE, SANITIZE, Fermata, Skip, Worker, check, eventually, foreign, halt, main, need, preload, program, runtime

WORKER = program("vulkan_worker")
REAL = os.environ.get("FERMATA_TEST_VULKAN") == "real"
STEPS = "20000" if REAL else "300"
LAYER = "VK_LAYER_FERMATA_schedule"
VALIDATION = "VK_LAYER_KHRONOS_validation"
FRAMES = (
    "ffmpeg -nostdin -hide_banner -loglevel error -init_hw_device vulkan=vk:llvmpipe -filter_hw_device vk -f lavfi "
    "-i testsrc=duration=1:size=96x64:rate=8 -vf format=yuv420p,hwupload,{},hwdownload,format=yuv420p -f framemd5 -")

# Ways to use Vulkan: what the program asks of the device itself, how it submits, what orders its commands, how it waits.
WAYS = (
    [],
    ["how=2", "api=3", "timeline=all", "chain=timeline", "wait=value"],
    ["timeline=one", "chain=timeline", "wait=value"],
    ["timeline=off12", "how=2", "api=3", "wait=queue"],
    ["timeline=off", "wait=device"],
    ["chain=binary", "wait=device"],
    ["chain=binary", "how=2", "api=3", "wait=queue"],
    ["api=0"],
    ["api=1", "depth=300", "wait=queue"],
    ["devices=3"],
    ["fork"],
    ["late"],
)


def need_device(env):
    if REAL:
        return
    icd = [f for f in glob.glob("/usr/share/vulkan/icd.d/*.json") if "lvp" in f]
    if not icd:
        raise Skip("lavapipe is not installed (Debian: mesa-vulkan-drivers)")
    env["VK_ICD_FILENAMES"] = icd[0]
    if SANITIZE:
        if not runtime():
            raise Skip("only the address sanitizer's library can come before what is loaded")
        env["FM_TEST_SHIM"] = "1"
    env["LP_NUM_THREADS"] = "1"


def start(stack, **more):
    fermata = Fermata(stack, **more)
    need_device(fermata.env)
    return fermata


def argv(*options, count=None):
    return [WORKER, *options, STEPS, *([str(count)] if count else [])]


def worker(fermata, *run, options=(), governed=True):
    w = fermata.program(argv(*options), *run, cls=Worker)
    w.line("first")
    if governed:
        eventually("its queue is known", lambda: fermata.group(w.pid))
    return w


def works_natively(fermata, *options):
    """Whether the driver itself does what is to be tried: lavapipe does."""
    r = subprocess.run(argv(*options, count=8), env=fermata.env, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    if r.returncode:
        print(f"         {' '.join(options)}: natively status {r.returncode} {r.stdout[-200:]}{r.stderr[-200:]}", flush=True)
    return not r.returncode


def run(fermata, command, *options):
    r = subprocess.run(fermata.run_argv(command, *options) if options is not None else command, env=fermata.env, text=True,
                       capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    check(r.returncode == 0, f"{command}: status {r.returncode}: {r.stdout[-500:]} {r.stderr[-1500:]}")
    return r


def queues(fermata, pid):
    return [q for g in fermata.ps()["groups"] for q in g["queues"] if q["pid"] == pid]


def ways(stack):
    """Each command is counted, and the results are right."""
    fermata, all_done = start(stack), 0
    for way in WAYS:
        if REAL and not works_natively(fermata, *way):
            continue
        w = worker(fermata, options=way)
        w.finish()
        all_done += int(w.line("done ").split()[1])
    check(all_done, "nothing works natively")
    eventually(f"{all_done} commands are counted", lambda: fermata.stats()["governed"] == all_done)
    check(fermata.stats()["ungoverned"] == 0, "something was not scheduled")


def level_and_name(stack):
    fermata = start(stack)
    for options, run_options, level in (([], [], 2), (["api=0"], [], 2), (["timeline=off12"], [], 2), ([], ["--level", "1"], 1)):
        w = worker(fermata, *run_options, options=options)
        q = queues(fermata, w.pid)
        check(len(q) == 1 and q[0]["level"] == level, f"{options} {run_options}: {q}")
        check(q[0]["device"].startswith("GPU-") if REAL else q[0]["device"].startswith("llvmpipe"), f"it is called {q[0]['device']}")
        w.finish()


def uppermost(stack):
    """With no other layer, as on a machine without Mesa: then the loader asks ours for vkCreateInstance. Elsewhere Mesa's stands above it."""
    fermata = start(stack)
    fermata.env["NODEVICE_SELECT"] = "1"
    for options in [], ["api=0"]:
        worker(fermata, options=options).finish()
    check(fermata.stats()["governed"], "nothing was scheduled")


def suspended(stack):
    """It stops, in each way to wait and at either level, goes on, and ends right."""
    fermata = start(stack)
    for options, level in (([], "2"), (["chain=binary", "wait=queue"], "2"), (["wait=device", "devices=2"], "2"), (["wait=device"], "1")):
        w = worker(fermata, "--level", level, options=options)
        fermata.cli("suspend", str(w.pid))
        w.stands()
        fermata.cli("resume", str(w.pid))
        w.advances()
        w.finish()


def at_random(stack):
    fermata = start(stack)
    programs = [fermata.program(argv(*way, count=160), cls=Worker) for way in (WAYS[0], WAYS[1], WAYS[5])]
    n = fermata.suspend_at_random(random.Random(35), programs)
    for p in programs:
        check(p.wait() == 0 and p.line("done ").endswith("wrong 0"), f"{p.argv}: {p.lines}")
    check(n, "none was suspended")


def urgent(stack):
    """The urgent program has the device, and the other has what is left."""
    fermata = start(stack)
    low = worker(fermata, "--priority", "low")
    before = fermata.preemptions()
    for _ in range(3):
        run(fermata, argv(count=24), "--priority", "high")
    eventually("the other was stopped for it", lambda: fermata.preemptions() > before)
    low.advances()
    low.finish()


def daemon_dies(stack):
    """Killed while the program is stopped: it goes on, and is known to the next daemon."""
    fermata = start(stack)
    w = worker(fermata)
    fermata.cli("suspend", str(w.pid))
    w.stands()
    fermata.kill()
    w.advances()
    fermata.start()
    eventually("its queue is known again", lambda: fermata.group(w.pid))
    w.advances()
    w.finish()


def daemon_hangs(stack):
    """It stands, and the program goes on as it was told last; one that comes meanwhile does not wait for it."""
    fermata = start(stack)
    w = worker(fermata)
    halt(fermata.daemon)
    try:
        w.advances()
        check("done 24 wrong 0" in run(fermata, argv(count=24)).stdout, "beside a daemon that hangs")
    finally:
        fermata.daemon.send_signal(signal.SIGCONT)
    w.advances()
    w.finish()


def no_daemon(stack):
    fermata = start(stack, start=False)
    env = dict(fermata.env, VK_INSTANCE_LAYERS=LAYER, VK_ADD_LAYER_PATH=os.path.join(BUILD, "lib", "fermata", "vulkan"))
    env.update(LD_PRELOAD=preload(), ASAN_OPTIONS="detect_leaks=0:verify_asan_link_order=0") if runtime() else None
    for more in ({}, {"FERMATA_DISABLE": "1"}, {"FERMATA_VULKAN": "0"}):
        r = subprocess.run(argv(count=24), env=dict(env, **more), text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
        check(r.returncode == 0 and "done 24 wrong 0" in r.stdout and not r.stderr, f"{more}: {r.stdout} {r.stderr}")


def left_alone(stack):
    """A device that could show something is not scheduled unless that is asked for; and what is not is counted by name."""
    fermata = start(stack)
    if REAL and not works_natively(fermata, "swapchain"):
        raise Skip("the driver shows nothing")
    w = worker(fermata, options=["swapchain"], governed=False)
    w.advances()
    calls = fermata.cli("ps", "--calls").stdout
    check(re.search(r"vkQueueSubmit \(swapchain\) +[1-9]", calls), f"its submissions are not counted:\n{calls}")
    check(not queues(fermata, w.pid), "it has a queue")
    w.finish()
    fermata.env["FERMATA_VULKAN"] = "all"
    w = worker(fermata, options=["swapchain"])
    w.finish()


def behind(fermata, name):
    """A layer of the tests', between ours and the driver."""
    folder = fermata.dir
    ours = os.path.realpath(os.path.join(BUILD, "lib", "fermata", "vulkan"))
    library = os.path.join(BUILD, "tests", "fakes", f"libvulkan_{name}.so")
    with open(os.path.join(folder, f"VkLayer_{name}.json"), "w") as f:
        json.dump({"file_format_version": "1.2.0", "layer": {
            "name": f"VK_LAYER_FERMATA_{name}", "type": "GLOBAL", "library_path": library, "api_version": "1.3.239",
            "implementation_version": "1", "description": name}}, f)
    fermata.env.update(VK_INSTANCE_LAYERS=f"{LAYER}:VK_LAYER_FERMATA_{name}", VK_ADD_LAYER_PATH=f"{ours}:{folder}")


def queues_that_share(stack):
    """Two queues of a device that share one of the driver's: the second would hold up the first, so it has no gates. The results of
    programs that use both are right, also suspended at random, and none waits for a binary semaphore too early (the layer would end it)."""
    fermata = start(stack)
    behind(fermata, "one")
    p = fermata.program([program("gpu_vulkan"), "binary", "100000000"])
    both = eventually("both queues are known", lambda: len(queues(fermata, p.pid)) == 2 and queues(fermata, p.pid))
    check(sorted(q["level"] for q in both) == [1, 2], f"{both}")
    p.close()
    for how in "binary", "chain":
        p = fermata.program([program("gpu_vulkan"), how, "300"])
        check(fermata.suspend_at_random(random.Random(4), [p], hold=0.02), "it was not suspended")
        check(p.wait() == 0, f"{how}: status {p.p.returncode} {p.lines}")


def sparse_binds(stack):
    """On a device with sparse binding: results are right, also suspended at random; and a bind stands behind what the program has
    submitted before it and may not run."""
    fermata = start(stack)
    behind(fermata, "sparse")
    native = dict(fermata.env, VK_INSTANCE_LAYERS="VK_LAYER_FERMATA_sparse")
    r = subprocess.run([program("gpu_vulkan"), "sparse", "60"], env=native, text=True, capture_output=True, timeout=PATIENCE)
    check(r.returncode == 0, f"natively: status {r.returncode} {r.stdout} {r.stderr}")
    p = fermata.program([program("gpu_vulkan"), "sparse", "200"])
    check(fermata.suspend_at_random(random.Random(5), [p], hold=0.01), "it was not suspended")
    check(p.wait() == 0, f"status {p.p.returncode} {p.lines}")
    check(fermata.stats()["governed"] >= 200, f"{fermata.stats()}")
    p = fermata.program([program("gpu_vulkan"), "held"])
    p.line("ready")
    for _ in range(2):
        after = p.mark()
        fermata.cli("suspend", str(p.pid))
        eventually("its gate is closed", lambda: queues(fermata, p.pid)[0]["gate"] == "closed")
        p.tell("go")
        p.line("submitted", after)
        try:
            p.line("bound", after, seconds=0.3)
        except AssertionError:
            pass
        check("bound" not in p.lines[after:], "a bind went to the driver while the program was suspended")
        fermata.cli("resume", str(p.pid))
        p.line("done", after)
    p.p.stdin.close()
    check(p.wait() == 0, f"status {p.p.returncode} {p.lines}")


def failing_calls(stack):
    """What fails in the layer's own calls is never the program's: its results are right, it is stopped as well as that can be, and
    goes on."""
    fermata = start(stack)
    behind(fermata, "faults")
    for faults, level in (("signal", 2), ("status,submit,fence", None), ("device", 1)):
        fermata.env["FAULTS"] = faults
        w = worker(fermata)
        check(level in (None, queues(fermata, w.pid)[0]["level"]), f"{faults}: {queues(fermata, w.pid)}")
        fermata.cli("suspend", str(w.pid))
        if level == 2:
            w.stands()
        fermata.cli("resume", str(w.pid))
        w.advances()
        w.finish()


def without_timelines(stack):
    """A device that has no timeline semaphores, or is of Vulkan 1.0: level 1, at which it is stopped; and nothing of ours asks for what it
    has not (the layer would end the program). Doctor says so."""
    fermata = start(stack)
    behind(fermata, "old")
    for old, way in (("", []), ("", ["timeline=off12", "how=2", "api=3", "wait=queue"]), ("1.0", ["api=0"]), ("1.0", ["chain=binary", "wait=device"])):
        fermata.env["OLD"] = old
        w = worker(fermata, options=way)
        q = queues(fermata, w.pid)
        check([one["level"] for one in q] == [1], f"{old} {way}: {q}")
        fermata.cli("suspend", str(w.pid))
        w.stands()
        fermata.cli("resume", str(w.pid))
        w.advances()
        w.finish()
    check(fermata.stats()["ungoverned"] == 0, "something was not scheduled")
    # Doctor takes VK_INSTANCE_LAYERS out.
    env = dict(fermata.env, VK_LOADER_LAYERS_ENABLE="VK_LAYER_FERMATA_old")
    env.update(LD_PRELOAD=runtime(), ASAN_OPTIONS="detect_leaks=0") if SANITIZE else None
    for old in "", "1.0":
        report = json.loads(subprocess.run([FERMATA, "doctor", "--json"], env=dict(env, OLD=old), text=True, capture_output=True,
                                           timeout=PATIENCE).stdout)
        found = [d for d in report["devices"] if d["platform"] == "Vulkan"]
        check(found and found[0]["levels"] == [1] and "no timeline semaphores" in found[0]["text"], f"{old}: {report}")


def passed_on(stack):
    """From when something is shared with other processes, the device is left alone, also where the program stands at a gate; unless that
    is asked for. Memory that is no dma-buf is not such a thing."""
    fermata = start(stack)
    behind(fermata, "faults")
    for name, alone in (("vkGetSemaphoreFdKHR", True), ("vkImportSemaphoreFdKHR", True), ("vkGetFenceFdKHR", True),
                        ("vkImportFenceFdKHR", True), ("vkGetMemoryFdKHR", True), ("opaque", False), ("vkGetFenceFdKHR", None)):
        fermata.env["FERMATA_VULKAN"] = "all" if alone is None else ""
        w = worker(fermata, options=[f"share={name}"])
        fermata.cli("suspend", str(w.pid))
        w.stands()
        w.tell("x")
        w.line("shared 0")
        if alone:
            w.advances()
            calls = fermata.cli("ps", "--calls").stdout
            check(re.search(r"vkQueueSubmit \(shared\) +[1-9]", calls), f"{name}: its submissions are not counted:\n{calls}")
        else:
            w.stands()
            fermata.cli("resume", str(w.pid))
            w.advances()
        w.finish()


def device_lost(stack):
    """All counts as finished, so that another program has its turn, and gates open: the program, which may have been stopped, hears of it
    and can end the device."""
    fermata = start(stack)
    behind(fermata, "faults")
    beside = worker(fermata, "--priority", "low")
    lost = os.path.join(fermata.dir, "lost")
    for faults, options, stopped in (("", [], True), ("highest", [], True), ("", [], False), ("", ["--level", "1"], False)):
        fermata.env.update(FAULTS=faults, LOST=lost)
        w = worker(fermata, "--priority", "high", *options, options=["lost"])
        if stopped:
            fermata.cli("suspend", str(w.pid))
            w.stands()
        with open(lost, "w", encoding="ascii"):
            pass
        w.line("lost -4")
        eventually("nothing is under way", lambda: all(q["submitted"] == q["done"] for q in queues(fermata, w.pid)))
        beside.advances()
        w.finish()
        os.unlink(lost)
    beside.finish()


def environment(stack):
    """What the user has set stays, in front of ours."""
    fermata = start(stack)
    folder = os.path.realpath(os.path.join(BUILD, "lib", "fermata", "vulkan"))

    def after(*options, **env):
        fermata.env.update(env)
        shown = run(fermata, ["env"], *options).stdout
        for name in env:
            del fermata.env[name]
        return dict(line.split("=", 1) for line in shown.splitlines() if line.startswith("VK_"))

    given = after()
    check(given["VK_INSTANCE_LAYERS"] == LAYER and given["VK_ADD_LAYER_PATH"] == folder, given)
    given = after(VK_INSTANCE_LAYERS="A:B", VK_ADD_LAYER_PATH="/a")
    check(given["VK_INSTANCE_LAYERS"] == f"A:B:{LAYER}" and given["VK_ADD_LAYER_PATH"] == f"/a:{folder}", given)
    given = after(VK_LAYER_PATH="/only", VK_INSTANCE_LAYERS=LAYER)
    check(given["VK_INSTANCE_LAYERS"] == LAYER and given["VK_LAYER_PATH"] == f"/only:{folder}", given)
    check("VK_ADD_LAYER_PATH" not in given, given)
    for off in (after("--no-vulkan"), after(FERMATA_VULKAN="0")):
        check("VK_INSTANCE_LAYERS" not in off, off)


def validated(stack):
    """The validation layer says nothing that it does not say natively: above ours, where it sees the program's calls, and below,
    where it sees ours as well."""
    if SANITIZE:
        raise Skip("the validation layer is not built with the sanitizer")
    if not glob.glob("/usr/share/vulkan/explicit_layer.d/*validation*.json"):
        raise Skip("the validation layer is not installed (Debian: vulkan-validationlayers)")
    fermata = start(stack)
    for way in (["devices=2", "chain=binary", "wait=queue"], WAYS[1], ["api=0", "wait=device"]):
        said = {}
        for layers in (VALIDATION, f"{VALIDATION}:{LAYER}", f"{LAYER}:{VALIDATION}"):
            fermata.env["VK_INSTANCE_LAYERS"] = layers
            # Loaders from 1.3.234 to 1.3.246 stack layers as they find them, whatever the order of their names is.
            if layers.startswith(VALIDATION):
                fermata.env["VK_ADD_LAYER_PATH"] = "/usr/share/vulkan/explicit_layer.d"
            else:
                del fermata.env["VK_ADD_LAYER_PATH"]
            native = LAYER not in layers
            r = run(fermata, argv(*way, count=24), *(["--no-vulkan"] if native else []))
            check("wrong 0" in r.stdout, f"{way} {layers}: {r.stdout}")
            text = re.sub(r"0x[0-9a-f]+", "0x", r.stdout + r.stderr)
            said[layers] = sorted(set(re.findall(r"VUID-\S+|UNASSIGNED-\S+|Validation Error.*", text)))
            check(said[layers] == said[VALIDATION], f"{way} {layers}:\n{text}\nnatively: {said[VALIDATION]}")


def doctor(stack):
    """What it finds by trying is what a queue of the device then has; through our layer, too; and no device is no fault."""
    fermata = start(stack)
    if SANITIZE:
        fermata.env.update(LD_PRELOAD=runtime(), ASAN_OPTIONS="detect_leaks=0")

    def asked(**env):
        report = json.loads(subprocess.run([FERMATA, "doctor", "--json"], env=dict(fermata.env, **env), text=True, capture_output=True,
                                           timeout=PATIENCE).stdout)
        return [c for c in report["checks"] if c["check"].startswith("Vulkan")], [d for d in report["devices"] if d["platform"] == "Vulkan"]

    checks, devices = asked()
    w = worker(fermata)
    q = queues(fermata, w.pid)[0]
    check([c["verdict"] for c in checks] == ["ok", "ok"] and checks[1]["text"] == f"{len(devices)} of {len(devices)} devices can be scheduled",
          f"{checks}")
    alone, _ = asked(NODEVICE_SELECT="1")
    check(alone == checks, f"without Mesa's layer: {alone}, with it: {checks}")
    mine = devices if REAL else [d for d in devices if q["device"].startswith(d["name"])]
    check(mine and max(mine[0]["levels"]) == q["level"], f"doctor: {devices}, a queue: {q}")
    check(REAL or "unproven" not in mine[0]["text"], mine[0]["text"])
    w.finish()
    empty = os.path.join(fermata.dir, "no_driver.json")
    checks, devices = asked(VK_ICD_FILENAMES=empty, VK_DRIVER_FILES=empty)
    check(not devices and [c["verdict"] for c in checks] == ["ok", "ok"] and "no device" in checks[1]["text"], f"{checks} {devices}")
    checks, devices = asked(VK_LOADER_LAYERS_DISABLE=LAYER)
    check(devices and checks[-1]["verdict"] == "warning" and "does not find the layer" in checks[-1]["text"], f"{checks}")


def same_frames(stack, vulkan_filter):
    """An unmodified program: the same frames, alone, beside another program, suspended at random, and when the daemon dies and another
    comes."""
    need("ffmpeg")
    fermata = start(stack)
    command = foreign(FRAMES.format(vulkan_filter).split())
    native = subprocess.run(command, env=fermata.env, text=True, capture_output=True, timeout=PATIENCE)
    if native.returncode:
        raise Skip(f"ffmpeg has no such filter here: {native.stderr[-200:]}")
    check(len(re.findall(r"^0,", native.stdout, re.M)) == 8, native.stdout)
    check(run(fermata, command).stdout == native.stdout, "other frames alone")
    check(fermata.stats()["governed"], "nothing was scheduled")
    beside = worker(fermata, "--priority", "low")
    p = fermata.program(command, "--priority", "high")
    q = fermata.program(command)
    fermata.suspend_at_random(random.Random(36), [p, q])
    for one in (p, q):
        check(one.wait() == 0, f"ffmpeg ended with status {one.p.returncode}")
        one.reader.join()
        check([x for x in one.lines if x is not None] == native.stdout.splitlines(), "other frames")
    stopped = worker(fermata, "--group", "film")
    fermata.cli("suspend", "film")
    stopped.stands()
    p = fermata.program(command, "--group", "film")
    eventually("it has submitted something", lambda: queues(fermata, p.pid))
    fermata.kill()
    stopped.advances()
    fermata.start()
    check(p.wait() == 0, f"ffmpeg ended with status {p.p.returncode}")
    p.reader.join()
    check([x for x in p.lines if x is not None] == native.stdout.splitlines(), "other frames after a daemon that died")
    for one in (stopped, beside):
        one.finish()


def ffmpeg(stack):
    same_frames(stack, "gblur_vulkan=sigma=2")


def libplacebo(stack):
    same_frames(stack, "libplacebo=w=64:h=48")


main(ways, level_and_name, uppermost, suspended, at_random, urgent, daemon_dies, daemon_hangs, no_daemon, left_alone, queues_that_share, sparse_binds, failing_calls, without_timelines, passed_on, device_lost, environment, doctor, validated, ffmpeg, libplacebo)
