#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fermata-lab profile' on the fake driver, beside which there is a fake Compute Sanitizer: what kernels touch is found
exactly, by whatever way the program has the driver's functions; what was missed is told; and what cannot be done is said."""
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, PATIENCE, Fermata, check, command, cuda_env, eventually, main, need_cuda_shim, program

SANITIZER = os.path.join(BUILD, "tests", "fakes", "sanitizer", "libsanitizer-public.so")
WORDS = 16384  # bytes of the blocks that the programs' kernels are given
GUARD = ["0.01", "fills between", "memory in order", "copies between"]
WHOLE = [[0, WORDS]]
TOUCHED = {"fill": {0: WHOLE}, "toil": {0: [[0, 4]]}, "join": {0: WHOLE, 8: WHOLE, 16: WHOLE}, "chain": {0: WHOLE}}


def profile(stack, argv, *options, sanitizer=SANITIZER, status=0, **more):
    """Its JSON, if there is any; what it said; the folder of its data; the program's output."""
    need_cuda_shim()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    data, text = more.pop("data", folder), more.pop("input", None)
    env = cuda_env({**os.environ, "XDG_RUNTIME_DIR": folder, "XDG_DATA_HOME": data, "TMPDIR": folder,
                    "FERMATA_PROFILE_SANITIZER": sanitizer, **more})
    r = subprocess.run([*command("profile", "--json", *options), "--", *argv], env=env, capture_output=True, text=True,
                       input=text, timeout=4 * PATIENCE, check=False)
    check(r.returncode == status, f"status {r.returncode}: {r.stdout[-800:]} {r.stderr[-1500:]}")
    check(not [n for n in os.listdir(folder) if n.startswith("fermata-profile-")], "records were left")
    at = r.stdout.find("{\n")
    return json.loads(r.stdout[at:]) if at >= 0 else None, r.stderr, data, r.stdout[:at]


def spans(result):
    return {k["name"]: {p["at"]: p["spans"] for p in k["pointers"]} for k in result["kernels"]}


def exactly(stack):
    native = subprocess.run([program("cuda_guard"), *GUARD], env=cuda_env(dict(os.environ)), capture_output=True, text=True,
                            timeout=PATIENCE, check=False).stdout
    for via in ("link", "dlsym", "proc"):
        result, said, _, out = profile(stack, [program("cuda_guard"), "--via", via, *GUARD], "--check")
        seen = spans(result)
        check({k: seen.get(k) for k in TOUCHED} == TOUCHED, f"{via}: {seen}")
        check(out == native, f"{via}: the program notes something else: {out}")
        check(all(k["by"] == {"sanitizer": k["launches"]} and k["checked"] for k in result["kernels"]), f"{result['kernels']}")
        check(result["modules"] == result["patched"] > 0, f"{result}")
    check(all(w in said for w in ("looked at", "seen often enough")), said)


def of(result, name):
    return next((k for k in result["kernels"] if k["name"] == name), None)


def graphs(stack):
    """Kernels in graphs are looked at as others are: alone, and the program computes what it would. Graphs with nodes that
    cannot be left out are launched as they are, and that is said."""
    plays = "play 0\n" * 4
    result, said, _, _ = profile(stack, [program("cuda_foretold")], "--check", input=f"alloc 16\ngraph 3\n{plays}check 0\n")
    seen = of(result, "in_part")
    check(seen and seen["launches"] == 2 and seen["by"] == {"sanitizer": 2} and seen["checked"] == 2, f"{seen} {said}")
    check(seen["pointers"][0]["spans"] == [[3 << 20, (3 << 20) + 4]] and not seen["pointers"][0]["missed"], f"{seen}")
    check(result["unseen"]["graph"] == 2, f"{result}")  # of four
    for by in "marks", "hash":
        result, _, _, _ = profile(stack, [program("cuda_foretold")], "--by", by, input=f"alloc 16\ngraph 3\n{plays}check 0\n")
        check(of(result, "in_part")["by"] == {by: 2}, f"{result['kernels']}")
    # The fake's kernels `step' and `toil' do not say all that they write; and what several streams write at a time is not told
    # apart by hashes.
    for via, options, cases in (("proc", ("--check",), ("replays", "several of one", "changed", "changed elsewhere")),
                                ("link", (), ("among work", "many streams", "other nodes", "graphs in graphs", "threads"))):
        argv = [program("cuda_guard_graphs"), "--via", via, "0.01", *cases]
        native = subprocess.run(argv, env=cuda_env(dict(os.environ)), capture_output=True, text=True, timeout=PATIENCE, check=False)
        check(native.returncode == 0 and native.stdout, native.stderr)
        result, said, _, out = profile(stack, argv, *options)
        check(out == native.stdout, f"the program notes something else: {out}\nnatively: {native.stdout}")
        missed = [k["name"] for k in result["kernels"] if k["name"] not in ("step", "toil") and any(p["missed"] for p in k["pointers"])]
        check(not missed and result["unseen"]["graph"], f"{missed} {result['unseen']} {said}")


def attached(stack):
    """The next process of a group, which `fermata run' starts: it is scheduled, and looked at."""
    fermata = Fermata(stack)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    out = os.path.join(folder, "result")
    fermata.env = cuda_env({**fermata.env, "FERMATA_PROFILE_SANITIZER": SANITIZER, "TMPDIR": folder, "XDG_DATA_HOME": folder,
                            "XDG_RUNTIME_DIR": folder})
    asked = os.path.join(folder, "fermata-attach", "next-training")

    def look(*options):
        p = subprocess.Popen(command("profile", "--json", "--attach-next", "training", *options), text=True, env=fermata.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stack.callback(p.kill)
        eventually("a request", lambda: os.path.exists(asked) or p.poll() is not None)
        return p

    def run(group, *argv):
        return subprocess.run(fermata.run_argv(argv, "--group", group), env=fermata.env, capture_output=True, text=True,
                              timeout=4 * PATIENCE, check=False)

    guard = program("cuda_guard"), *GUARD
    native = subprocess.run(guard, env=cuda_env(dict(os.environ)), capture_output=True, text=True, timeout=PATIENCE, check=False)
    p = look("-o", out)
    r = run("other", *guard)
    check(r.returncode == 0 and os.path.exists(asked), "another group's process took it")
    second = subprocess.run(command("profile", "--attach-next", "training"), env=fermata.env, capture_output=True, text=True,
                            timeout=PATIENCE, check=False)
    check(second.returncode == 1 and "already" in second.stderr, second.stderr)
    r = run("training", *guard)
    check(r.returncode == 0 and r.stdout == native.stdout, f"{r}")
    stdout, said = p.communicate(timeout=4 * PATIENCE)
    check(p.returncode == 0, f"{p.returncode}: {said}")
    seen = spans(json.loads(stdout))
    check({k: seen.get(k) for k in TOUCHED} == TOUCHED and os.path.exists(out), f"{seen} {said}")
    check(not os.path.exists(asked) and not [n for n in os.listdir(folder) if n.startswith("fermata-profile-")], "something was left")
    # It was one process: the next one is not looked at.
    r = run("training", "sh", "-c", "echo $FERMATA_PROFILE-$LD_PRELOAD")
    check(r.stdout.startswith("-") and "profile" not in r.stdout, r.stdout)
    # For some time, after which the program goes on. What it did by then is kept.
    p = look("--for", "1ms")
    q = fermata.program([program("cuda_foretold")], "--group", "training")
    q.line("ready")
    fermata.knows(q.pid)
    _, said = p.communicate(timeout=4 * PATIENCE)
    check(p.returncode == 1 and "training" in said, f"{p.returncode}: {said}")  # it did nothing in that time
    for line in "alloc 16", "part 4", "check 0":
        q.tell(line)
        q.line(line.split()[0])
    q.close()
    # An interrupt while nobody has come.
    p = look()
    p.send_signal(signal.SIGINT)
    _, said = p.communicate(timeout=PATIENCE)
    check(p.returncode == 1 and "no process of 'training'" in said and not os.path.exists(asked), f"{p.returncode} {said}")
    # Somebody has taken it, and cannot say so: it is waited for no longer.
    p = look()
    os.unlink(asked)
    _, said = p.communicate(timeout=4 * PATIENCE)
    check(p.returncode == 1 and "no process of 'training'" in said, f"{p.returncode} {said}")
    for options, word in ((("--attach-next", "a/b"), "no name of a group"), (("--attach-next", "a", "--", "true"), "starts no program"),
                          (("--for", "1s", "--", "true"), "belongs to --attach-next")):
        r = subprocess.run(command("profile", *options), env=fermata.env, capture_output=True, text=True, check=False)
        check(r.returncode == 2 and word in r.stderr, f"{options}: {r.stderr}")


def what_was_missed(stack):
    """The fake's kernel `step' does not say all that it writes, which hashes see; such a kernel gets no template. What is
    blind sees nothing at all."""
    result, said, data, _ = profile(stack, [program("cuda_guard"), "0.01", "steps", "memory in order", "copies between"], "--check")
    missed = {k["name"]: sum(p["missed"] for p in k["pointers"]) for k in result["kernels"]}
    check(missed["step"] > 0 and not missed["join"] and not missed["chain"], f"{missed}")
    check("MISSED" in said, said)
    text = "".join(open(os.path.join(data, "fermata", "kernels", n), encoding="ascii").read()
                   for n in os.listdir(os.path.join(data, "fermata", "kernels")))
    check('"join"' in text and '"step"' not in text, text)
    result, _, _, _ = profile(stack, [program("cuda_guard"), *GUARD], "--check", FAKE_SANITIZER_BLIND="1")
    check(all(not p["spans"] for k in result["kernels"] for p in k["pointers"]), f"{result['kernels']}")
    check(all(any(p["missed"] for p in k["pointers"]) for k in result["kernels"]), f"{result['kernels']}")


def tensor_maps(stack):
    """By the sizes of the map, of either kind and wherever its address was set; or all of the allocation, if they do not say."""
    for command, reach in ("map 0", 1024), ("im2col 0", 6144), ("im2col 1", 6144), ("packed 1", 4 << 20):
        result, _, _, _ = profile(stack, [program("cuda_sets")], input=f"alloc 4\nalloc 4\n{command}\n")
        seen = [k for k in result["kernels"] if k["name"] == "through_map"]
        check(len(seen) == 1 and seen[0]["pointers"][0]["map"], f"{command}: {seen}")
        check(seen[0]["pointers"][0]["spans"] == [[0, reach]], f"{command}: {seen}")


def by_marks(stack):
    """In kernels that come as text; others are left to hashes, or are not looked at."""
    result, _, _, _ = profile(stack, [program("cuda_guard"), *GUARD], "--by", "marks", "--check")
    seen, by = spans(result), {k["name"]: k["by"] for k in result["kernels"]}
    check(seen["join"] == TOUCHED["join"] and set(by["join"]) == {"marks"}, f"{seen} {by}")
    check(not any(p["missed"] for k in result["kernels"] for p in k["pointers"] if k["name"] == "join"), f"{result['kernels']}")
    result, _, _, _ = profile(stack, [program("cuda_guard"), *GUARD], sanitizer="/nowhere/libsanitizer-public.so")
    by = {k["name"]: set(k["by"]) for k in result["kernels"]}
    check(by["join"] == {"marks"} and by["chain"] == {"hash"}, f"{by}")


def by_hashes(stack):
    """Writes alone, and no templates of that."""
    result, said, data, _ = profile(stack, [program("cuda_guard"), *GUARD], "--by", "hash")
    seen = spans(result)
    check(not seen["join"][8], f"it read there: {seen['join']}")
    for name, at in (("join", 0), ("chain", 0)):
        got = seen[name][at]
        check(got and got[0][0] >= 0 and got[-1][1] <= WORDS, f"{name}: {got}")
    check(all(k["by"] == {"hash": k["launches"]} for k in result["kernels"]), f"{result['kernels']}")
    check("hashes alone" in said and not os.listdir(os.path.join(data, "fermata", "kernels")), said)
    # That is no error of a file that was to have them; there is none then.
    path = os.path.join(data, "result")
    result, said, _, _ = profile(stack, [program("cuda_guard"), *GUARD], "--by", "hash", "-o", path)
    check(result["kernels"] and "templates for 0 of" in said and "cannot write" not in said, said)
    check(f"{path} is not made" in said and not os.path.exists(path), said)
    # Without a toolkit that is what there is for machine code.
    _, said, _, _ = profile(stack, [program("cuda_guard"), *GUARD], sanitizer="/nowhere/libsanitizer-public.so")
    check("without the Compute Sanitizer" in said, said)
    for refuses, word in (("subscribe", "refuses"), ("patches", "did not instrument"), ("module", "did not instrument")):
        _, said, _, _ = profile(stack, [program("cuda_guard"), *GUARD], FAKE_SANITIZER_REFUSE=refuses,
                                status=0 if refuses == "subscribe" else 1)
        check(word in said, f"{refuses}: {said}")


def files(stack):
    """The user's folder keeps what it had of other kernels; a file of its own is not overwritten."""
    data = stack.enter_context(tempfile.TemporaryDirectory())
    folder = os.path.join(data, "fermata", "kernels")

    def kernels():
        rows = []
        for name in sorted(os.listdir(folder)):
            r = subprocess.run(command("profile", "--json", "show", os.path.join(folder, name)), capture_output=True, text=True,
                               check=False)
            check(r.returncode == 0, r.stderr)
            rows += json.loads(r.stdout)
            mode = stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode)
            check(mode == 0o600, f"{name} has mode {mode:o}")
        return {k["name"]: k for k in rows}

    profile(stack, [program("cuda_guard"), "0.01", "copies between"], data=data)
    first = kernels()
    check("chain" in first and "join" not in first, f"{first}")
    name = first["chain"]["image"] + ".jsonl"
    with open(os.path.join(folder, name), encoding="ascii") as f:
        head, *lines = f.readlines()
    of_other = next(line for line in lines if '"chain"' in line).replace('"chain"', '"zz_of_another"')
    with open(os.path.join(folder, name), "w", encoding="ascii") as f:
        f.writelines([head.replace(f'"kernels":{len(lines)}', f'"kernels":{len(lines) + 1}'), *lines, of_other])
    profile(stack, [program("cuda_guard"), "0.01", "memory in order"], data=data)
    check(set(kernels()) >= {"join", "chain", "zz_of_another"}, f"{kernels()}")
    out = os.path.join(data, "result")
    profile(stack, [program("cuda_guard"), *GUARD], "-o", out)
    table = subprocess.run(command("profile", "show", out), capture_output=True, text=True, check=False)
    check(table.returncode == 0 and "KERNEL" in table.stdout and "join" in table.stdout, f"{table}")
    profile(stack, [program("cuda_guard"), *GUARD], "-o", out, status=1)
    profile(stack, [program("cuda_guard"), *GUARD], "--force", "-o", out)
    # What is no such file is neither read nor replaced.
    name = sorted(os.listdir(folder))[0]
    with open(os.path.join(folder, name), "w", encoding="ascii") as f:
        f.write("what is this?\n")
    profile(stack, [program("cuda_guard"), *GUARD], data=data, status=2)
    with open(os.path.join(folder, name), encoding="ascii") as f:
        check(f.read() == "what is this?\n", "it was replaced")


def against_templates(stack):
    """By chunks of 2 MiB, eight of them here. Each launch touches one: that of its part."""
    parts = "".join(f"part {n}\n" for n in (1, 3, 3, 9))

    def compare(first, size):
        kernels = stack.enter_context(tempfile.TemporaryDirectory())
        if size:
            subprocess.run([program("cuda_foretold"), "--templates", kernels, str(first), str(size), "1"], check=True,
                           env=cuda_env(dict(os.environ)))
        result, said, data, _ = profile(stack, [program("cuda_foretold")], "--against", kernels, input=f"alloc 16\n{parts}")
        check(not os.path.exists(os.path.join(data, "fermata")), "it has written templates")
        kernel = next(k for k in result["kernels"] if k["name"] == "in_part")
        check(kernel["launches"] == kernel["touched"] == 4 and "looked at" in said, f"{kernel} {said}")
        form, others = result["mix"][kernel["form"]], sum(m["kernels"] for m in result["mix"].values())
        check(form["kernels"] >= 1 and form["launches"] >= 4 and others == len(result["kernels"]), f"{result['mix']}")
        for word in ("launches", "touched", "foretold", "missed", "vain"):
            check(result["all"][word] == sum(k[word] for k in result["kernels"]), f"{result}")
        return kernel["form"], kernel["foretold"], kernel["missed"], kernel["vain"]

    for first, size, wants in ((0, 4, ("linear", 4, 0, 0)), (0, 4 << 20, ("linear", 12, 0, 8)), (4 << 20, 4, ("linear", 4, 4, 4)),
                               (64 << 20, 4, ("linear", 32, 0, 28)), (0, 0, ("none", 32, 0, 28))):
        got = compare(first, size)
        check(got == wants, f"templates of {size} bytes from {first}: {got}, not {wants}")
    # A result of its own: nothing is missed, and a table says so.
    data = stack.enter_context(tempfile.TemporaryDirectory())
    out = os.path.join(data, "result")
    profile(stack, [program("cuda_guard"), *GUARD], "-o", out)
    again, _, _, _ = profile(stack, [program("cuda_guard"), *GUARD], "--against", out)
    check(again["all"]["touched"] and not again["all"]["missed"] and not again["all"]["vain"], f"{again['all']}")
    env = cuda_env({**os.environ, "FERMATA_PROFILE_SANITIZER": SANITIZER})
    r = subprocess.run([*command("profile", "--against", out, "--"), program("cuda_guard"), *GUARD], env=env, capture_output=True,
                       text=True, timeout=4 * PATIENCE, check=False)
    check(r.returncode == 0 and all(w in r.stdout for w in ("MISSED %", "VAIN %", "(all)", "KERNELS")), f"{r}")
    # Hashes see writes alone: what they have not seen is not in vain.
    seen, said, _, _ = profile(stack, [program("cuda_guard"), *GUARD], "--against", out, "--by", "hash")
    check(seen["not_compared"] and not seen["kernels"] and "not compared" in said, f"{seen} {said}")
    with open(out, "a", encoding="ascii") as f:
        f.write("what is this?\n")
    for options, status, word in ((("--against", "/nowhere"), 1, "/nowhere"), (("--against", out), 2, "more than the first line"),
                                  (("--against", out, "-o", "x"), 2, "writes no templates")):
        _, said, _, _ = profile(stack, ["sh", "-c", "exit 9"], *options, status=status)
        check(word in said, f"{options}: {said}")
    r = subprocess.run(command("profile", "--against", out, "show", out), capture_output=True, text=True, check=False)
    check(r.returncode == 2 and "behind --" in r.stderr, r.stderr)


def times(stack):
    """Each launch runs once, wherever that is; what is printed, written and read again is the same."""
    native = subprocess.run([program("cuda_guard"), *GUARD], env=cuda_env(dict(os.environ)), capture_output=True, text=True,
                            timeout=PATIENCE, check=False).stdout
    out = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "times")
    for via in ("link", "dlsym", "proc"):
        result, said, data, printed = profile(stack, [program("cuda_guard"), "--via", via, *GUARD], "--rooms=8,24", "--force", "-o", out)
        check(printed == native, f"{via}: the program notes something else: {printed}")
        check({k["name"] for k in result["kernels"]} >= {"fill", "join", "chain", "step"}, f"{via}: {result['kernels']}")
        for k in result["kernels"]:
            check([(r["multiprocessors"], r["samples"]) for r in k["on"]] == [(8, 3), (24, 3), (132, 3)], f"{via}: {k}")
            check(all(r["ns"] > 0 for r in k["on"]) and k["waves"] == 1 and k["block_ns"] == k["on"][2]["ns"], f"{via}: {k}")
            check(k["per_multiprocessor"] > 0 and k["multiprocessors"] == 132, f"{via}: {k}")
        check(not result["unseen"].get("failed") and not result["rooms"] and not os.path.exists(os.path.join(data, "fermata")), f"{result}")
        check("timed" in said and "the first of their kind" in said and "not everywhere" not in said, said)
    with open(out, encoding="ascii") as f:
        text = f.read()
    check(json.loads(text)["fermata_rooms"] == 1, text[:200])
    shown = json.loads(subprocess.run(command("profile", "--json", "show", out), capture_output=True, text=True, check=True).stdout)
    check(shown == json.loads(text), f"{shown}")
    table = subprocess.run(command("profile", "show", out), capture_output=True, text=True, check=True).stdout
    check(all(w in table for w in ("ALONE us", "ON 8", "ON 24", "PER SM", "join")), table)
    profile(stack, [program("cuda_guard"), *GUARD], "--rooms", "-o", out, status=1)  # it is there
    for was, becomes, word in (('"fermata_rooms": 1', '"fermata_rooms": 2', "newer"), ('"samples": 3', '"samples": 0', "samples"),
                               ('"multiprocessors": 132', '"multiprocessors": 4', "makes no sense"),
                               ('"image": "', '"image": "x', "image"), ('"grid": [', '"grid": [0, ', "three numbers")):
        with open(out, "w", encoding="ascii") as f:
            f.write(text.replace(was, becomes))
        r = subprocess.run(command("profile", "show", out), capture_output=True, text=True, check=False)
        check(r.returncode != 0 and word in r.stderr and out in r.stderr, f"{becomes}: {r.returncode} {r.stderr}")


def times_change_nothing(stack):
    """Streams that wait for each other, threads, captures, the legacy stream, blocks that wait for each other."""
    cases = ("chains", "deep queue", "many blocks", "two streams", "host functions", "waited for", "event queries", "polled memory",
             "legacy stream", "cooperative", "threads", "given back")
    argv = [program("cuda_guard"), "0.02", *cases]
    native = subprocess.run(argv, env=cuda_env(dict(os.environ)), capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
    result, said, _, printed = profile(stack, argv, "--rooms=8,16")
    check(printed == native and native, f"the program notes something else: {printed}")
    check(result["seen"] > 50 and not result["unseen"].get("failed"), said)


def contexts_end(stack):
    """A program may release its primary context, and reset it: its parts of the device end before."""
    argv = [program("cuda_devices"), "0.02", "devices", "primary again"]
    native = subprocess.run(argv, env=cuda_env(dict(os.environ)), capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
    check("reset 0" in native, native)
    result, said, _, printed = profile(stack, argv, "--rooms=8,16")
    check(printed == native, f"the program notes something else: {printed}")
    check(any(len(k["on"]) == 3 for k in result["kernels"]), said)


def times_elsewhere(stack):
    """Where there is no part of the device, or not that one, kernels are timed on the whole of it, and the reason is told."""
    for word, options, env in (("no green contexts", "--rooms=8", {"FAKE_CUDA_FAIL": "cuDeviceGetDevResource@1/1=801"}),
                               ("refused something", "--rooms=8", {"FAKE_CUDA_GREEN": "1T"}),
                               ("just that many", "--rooms=12", {})):
        result, said, _, _ = profile(stack, [program("cuda_guard"), *GUARD], options, **env)
        check(word in said and word in result["rooms"], f"{options}: {said}")
        for k in result["kernels"]:
            check([(r["multiprocessors"], r["samples"]) for r in k["on"]] == [(132, 3)], f"{options}: {k}")
    result, said, _, _ = profile(stack, [program("cuda_guard"), *GUARD], "--rooms=132,500")
    check(all(len(k["on"]) == 1 for k in result["kernels"]) and "not everywhere" in said, said)
    for bad in ("", "0", "8,8", "16,8", "8,", "x", "-8", "1,2,3,4,5,6,7,8,9", "99999"):
        _, said, _, _ = profile(stack, ["true"], f"--rooms={bad}", status=2)
        check("rising numbers" in said, f"{bad}: {said}")
    for more in (("--by", "hash"), ("--check",), ("--against", "/nowhere")):
        _, said, _, _ = profile(stack, ["true"], "--rooms", *more, status=2)
        check("leave out" in said, said)
    _, said, _, _ = profile(stack, ["true"], "--rooms", status=1)
    check("launched no kernel" in said, said)
    _, said, _, _ = profile(stack, ["sh", "-c", "exit 7"], "--rooms", status=7)
    check("ended with status 7" in said, said)


def what_cannot_be(stack):
    for argv, options, status, word in (
            (["true"], (), 1, "did not use CUDA"),
            (["sh", "-c", "exit 7"], (), 7, "ended with status 7"),
            (["sh", "-c", "kill -9 $$"], (), 137, "ended with status 137"),
            (["/nowhere/at/all"], (), 127, "cannot run"),
            (["/etc/passwd"], (), 126, "cannot run"),
            (["true"], ("--by", "sanitiser"), 2, "did you mean 'sanitizer'"),
            (["true"], ("-o", "/nowhere/at/all"), 1, "/nowhere")):
        _, said, _, _ = profile(stack, argv, *options, status=status)
        check(word in said, f"{argv}: {said}")
    _, said, _, _ = profile(stack, ["true"], "--by", "sanitizer", sanitizer="/nowhere", status=1)
    check("no CUDA toolkit" in said and "CUDA_HOME" in said, said)
    r = subprocess.run(command("profile"), capture_output=True, text=True, check=False)
    check(r.returncode == 2 and "no program given" in r.stderr, r.stderr)


if __name__ == "__main__":
    main(exactly, graphs, attached, what_was_missed, tensor_maps, by_marks, by_hashes, files, against_templates, times, times_change_nothing, contexts_end, times_elsewhere, what_cannot_be)
