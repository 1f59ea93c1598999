#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module: what it knows of the headers, how it is installed, and programs that use it (cuda_python.py), on the fake
driver: under a daemon, scheduled in their own process, and without Fermata."""
import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, *[".."] * 4)
sys.path[:0] = [os.path.join(SOURCE, "tests"), os.path.join(SOURCE, "python")]
from fermata import _abi
from harness import BUILD, PATIENCE, Fermata, Program, Skip, check, cuda_env, main, need, need_cuda_shim, preload

CASE = [sys.executable, os.path.join(HERE, "cuda_python.py")]
PTX = os.path.join(HERE, "..", "cuda_kernels.ptx")
STRUCTURES = {"fm_cuda_options": _abi.Options, "fm_cuda_binding": _abi.Binding, "fm_cuda_info": _abi.Info,
              "fm_cuda_room": _abi.Room, "fm_cuda_version": _abi.Version, "fm_memory_stat": _abi.MemoryStat,
              "fm_binding_hint": _abi.QueueHint, "fm_binding": _abi.QueueBinding}
ENUMS = {"FM_HINT_": _abi.Hint, "FM_PRIORITY_": _abi.Priority, "FM_CUDA_": _abi.Place, "FM_MEMORY_": _abi.Use}


def compiled(source):
    """What a C program prints."""
    need("cc")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "abi")
        with open(path + ".c", "w", encoding="ascii") as f:
            f.write(source)
        subprocess.run(["cc", "-I", os.path.join(SOURCE, "include"), "-o", path, path + ".c"], check=True)
        return subprocess.run([path], check=True, capture_output=True, text=True).stdout


def members(header, struct):
    """Of a structure, in the order of the header, which is read as text: a member that the module does not know is found."""
    with open(os.path.join(SOURCE, "include", "fermata", header), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    body = re.search(rf"struct {struct} \{{(.*?)\}};", text, re.S).group(1)
    return [re.search(r"(\w+)\s*$", name).group(1) for line in body.split(";") if line.strip() for name in line.split(",")]


def the_headers_say_the_same(_):
    lines, wanted = [], {}
    for name, s in STRUCTURES.items():
        header = "memory.h" if "memory" in name else "bind.h" if name.startswith("fm_binding") else "cuda.h"
        there, ours = members(header, name), [f[0] for f in s._fields_]
        check(there == ours, f"struct {name} has {there}, python/fermata/_abi.py {ours}")
        lines.append(f'P("{name}", sizeof(struct {name}));')
        wanted[name] = ctypes.sizeof(s)
        for field in ours:
            key = f"{name}.{field}"
            lines.append(f'P("{key}", offsetof(struct {name}, {field}));')
            lines.append(f'P("{key} size", sizeof(((struct {name} *)0)->{field}));')
            wanted[key], wanted[key + " size"] = getattr(s, field).offset, getattr(s, field).size
    for prefix, e in ENUMS.items():
        for member in e:
            lines.append(f'P("{prefix}{member.name}", {prefix}{member.name});')
            wanted[prefix + member.name] = int(member)
    lines.append('P("hints", FM_HINT_COUNT); P("keep", FM_CUDA_PRIORITY_KEEP); P("forever", FM_FOREVER); P("auto", FM_PAD_AUTO); P("device", FM_PAD_DEVICE);')
    wanted.update(hints=len(_abi.Hint), keep=_abi.PRIORITY_KEEP, forever=-1, auto=_abi.PAD_AUTO, device=_abi.PAD_DEVICE)
    for percent in 1, 50:
        lines.append(f'P("auto {percent}", FM_PAD_AUTO_AT({percent}));')
        wanted[f"auto {percent}"] = _abi.PAD_AUTO_AT(percent)
    said = compiled("#include <fermata/cuda.h>\n#include <fermata/bind.h>\n#include <fermata/memory.h>\n#include <stdio.h>\n"
                    '#define P(name, value) printf("%s=%lld\\n", name, (long long)(value))\n'
                    f"int main(void)\n{{\n{chr(10).join(lines)}\nreturn 0;\n}}\n")
    got = {k: int(v) for k, v in (line.split("=") for line in said.splitlines())}
    check(got == wanted, f"they differ in {[(k, got.get(k), wanted.get(k)) for k in {*got, *wanted} if got.get(k) != wanted.get(k)]}")
    for header, mark, ours in (("cuda.h", "FM_CUDA_API", lambda n: "cuda" in n), ("bind.h", "FM_BIND_API", lambda n: "bind" in n and "cuda" not in n)):
        with open(os.path.join(SOURCE, "include", "fermata", header), encoding="utf-8") as f:
            functions = set(re.findall(mark + r" \w+ (\w+)\(", f.read()))
        check(functions == set(filter(ours, _abi.FUNCTIONS)), f"{header} declares {functions}")


def pip_installs_it(stack):
    """Without a network, and without anything beside Python."""
    if not importlib.util.find_spec("pip"):
        raise Skip("pip is not installed")
    where = stack.enter_context(tempfile.TemporaryDirectory())
    copy = shutil.copytree(os.path.join(SOURCE, "python"), os.path.join(where, "python"))
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1"}
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", os.path.join(where, "to"), copy], env=env,
                          capture_output=True, text=True, timeout=PATIENCE)
    check(done.returncode == 0, done.stderr)
    check(os.path.exists(os.path.join(where, "to", "fermata", "py.typed")), "its types are not for others")
    got = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {os.path.join(where, 'to')!r})\n"
                          "import fermata, importlib.metadata as m; print(m.version('fermata'), fermata.__version__)"],
                         capture_output=True, text=True, check=True).stdout.split()
    with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as f:
        version = re.search(r"project\(\w+ VERSION ([\d.]+)", f.read()).group(1)
    check(got == [version, version], f"its versions are {got}, the project's is {version}")


def its_types_hold(stack):
    if not importlib.util.find_spec("mypy"):
        raise Skip("mypy is not installed")
    cache = stack.enter_context(tempfile.TemporaryDirectory())
    r = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, "fermata"], cwd=os.path.join(SOURCE, "python"),
                       capture_output=True, text=True, timeout=PATIENCE)
    check(r.returncode == 0, r.stdout + r.stderr)


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERMATA_")}
    return {**cuda_env(env), "FERMATA_SOCKET": "/nonexistent", "ASAN_OPTIONS": "detect_leaks=0", **more}


def run(argv, env):
    r = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE)
    check(r.returncode == 0 and r.stdout.endswith("done\n"), f"{' '.join(argv)}: status {r.returncode}: {r.stdout}{r.stderr}")


def scheduled_by_itself(_):
    need_cuda_shim()
    shim = preload(os.path.join(BUILD, "lib", "libfermata-cuda.so"))
    for case in ("errors", "partition", "versions", "binds_anew", "forks"):
        run([*CASE, case, PTX, "fixed-priority"], environment(LD_PRELOAD=shim))


def without_fermata(_):
    run([*CASE, "without", PTX], environment(LD_PRELOAD=preload()))


def under_a_daemon(stack):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = {**cuda_env(fermata.env), "ASAN_OPTIONS": "detect_leaks=0"}
    p = fermata.program([*CASE, "preempts", PTX], cls=Program)
    p.line("stopped")
    groups = {g["name"]: g for g in fermata.ps()["groups"]}
    check({"urgent", "batch"} <= set(groups), f"the daemon has {set(groups)}")
    check(groups["urgent"]["hints"]["priority"] == 64 and groups["batch"]["hints"]["priority"] == -64, f"{groups}")
    p.tell("go on")
    p.line("done")
    check(p.wait() == 0, f"it ended with status {p.p.returncode}")


def says_what_memory_is_used_for(stack):
    need_cuda_shim()
    fermata = Fermata(stack)
    fermata.env = cuda_env({**fermata.env, "FAKE_CUDA_CAPACITY": "80M", "FAKE_CUDA_CONTEXT": "1M", "ASAN_OPTIONS": "detect_leaks=0",
                            "FAKE_CUDA_DEVICE": os.path.join(fermata.dir, "device")})
    p = fermata.program([*CASE, "memory", PTX], "--memory", cls=Program)
    p.line("done")
    check(p.wait() == 0, f"it ended with status {p.p.returncode}")


if __name__ == "__main__":
    main(the_headers_say_the_same, pip_installs_it, its_types_hold, without_fermata, scheduled_by_itself, under_a_daemon,
         says_what_memory_is_used_for)
