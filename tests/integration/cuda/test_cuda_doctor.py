#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fermata doctor on CUDA drivers that lack something, refuse something, or are not there: it names what is wrong,
with a remedy, and claims nothing that was not tried."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, FERMATA, SANITIZE, Skip, check, cuda_env, main, need_cuda_shim, preload, seldom_sanitized

OLD = {"LD_LIBRARY_PATH": os.path.join(BUILD, "tests", "fakes", "old")}


def doctor(stack, before=(), driver=True, program=FERMATA, alone=True, **env):
    """Its checks by name, and its devices of CUDA. Alone: there is no other API's driver, which would compile its kernels first."""
    where = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    full = {k: v for k, v in os.environ.items() if not k.startswith(("FERMATA_", "CUDA_")) and not k.endswith(("_SIZE", "_NTASKS"))}
    full = {**(cuda_env(full) if driver else full), "TMPDIR": where, "XDG_RUNTIME_DIR": where, "XDG_CACHE_HOME": where, **env}
    if alone:
        full |= {"OCL_ICD_VENDORS": where, "VK_DRIVER_FILES": f"{where}/none", "VK_ICD_FILENAMES": f"{where}/none"}
    run = subprocess.run([*before, program, "doctor", "--json"], env=full, capture_output=True, text=True, timeout=120)
    check(run.returncode in (0, 1), f"status {run.returncode}: {run.stderr}")
    report = json.loads(run.stdout)
    checks = {}
    for c in report["checks"]:
        checks.setdefault(c["check"], c)
        check(c["verdict"] == "ok" or c["remedy"], f"no remedy: {c}")
    return checks, [d for d in report["devices"] if d["platform"] == "CUDA"]


def says(checks, what, verdict, text, remedy=""):
    c = checks.get(what)
    check(c and c["verdict"] == verdict and text in c["text"] and remedy in c.get("remedy", ""), f"{what}: {checks}")


def well(stack):
    checks, devices = doctor(stack, alone=False, FAKE_CUDA_DEVICES="2")
    says(checks, "cuda", "ok", "2 of 2 devices")
    check([d["levels"] for d in devices] == [[1, 2]] * 2, f"{devices}")
    check(not {"gates", "mig", "shim", "version"} & checks.keys(), f"{checks}")


def shim_that_cannot_be_preloaded(stack):
    need_cuda_shim()
    where = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-")), "a b")
    os.mkdir(where)
    shutil.copy(os.path.join(BUILD, "lib", "libfermata-cuda.so"), where)
    checks, _ = doctor(stack, FERMATA_LIBDIR=where)
    says(checks, "shim", "warning", f"{where}/libfermata-cuda.so", "install elsewhere")
    says(checks, "cuda", "ok", "1 of 1 devices")


def shim_that_is_not_there(stack):
    need_cuda_shim()
    where = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    os.makedirs(os.path.join(where, "bin"))
    alone = shutil.copy(FERMATA, os.path.join(where, "bin"))
    checks, _ = doctor(stack, program=alone, FERMATA_LIBDIR=where)
    says(checks, "shim", "warning", "CUDA programs run unscheduled: cannot find libfermata-cuda.so", "install")
    says(checks, "cuda", "ok", "1 of 1 devices")


def run_without_the_shim(stack):
    """`fermata run` says that it is not there where NVIDIA's driver is, and nothing elsewhere."""
    need_cuda_shim()
    where = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    os.makedirs(os.path.join(where, "bin"))
    alone = shutil.copy(FERMATA, os.path.join(where, "bin"))
    shutil.copy(os.path.join(BUILD, "lib", "libfermata-opencl.so"), where)
    for node, said in ("nvidiactl", 1), ("other", 0):
        run = subprocess.run([*other_dev(f": >/dev/{node}"), alone, "run", "--local", "fifo", "true"], check=True,
                             env={**os.environ, "FERMATA_LIBDIR": where}, capture_output=True, text=True, timeout=60)
        check(run.stderr.count("CUDA programs run unscheduled") == said and (said or not run.stderr), f"{node}: {run.stderr}")


def newer_driver(stack):
    """Newer than the shim's tables, whose newest version is what docs/cuda-coverage.md has of them."""
    with open(os.path.join(os.environ["SOURCE"], "docs", "cuda-coverage.md"), encoding="ascii") as page:
        newest = max(map(float, re.findall(r"^\| cu\w+ \|[^|]*\| ([0-9.]+) \|", page.read(), re.M)))
    checks, _ = doctor(stack, FAKE_CUDA_NEW="1")
    says(checks, "version", "warning", f"CUDA 99.0, newer than the newest call that the shim knows ({newest})", "update fermata")
    says(checks, "cuda", "ok", "1 of 1 devices")


def partition(stack):
    """The smallest that the driver makes, by its own account; none before CUDA 12.5."""
    checks, _ = doctor(stack)
    says(checks, "partition", "ok", "multiprocessors of its own, ")
    checks, _ = doctor(stack, **OLD)
    says(checks, "partition", "ok", "no green contexts")


def sets_of_tasks(stack):
    """By which engines they decide on the device; the fake's linker is content with any library."""
    where = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    checks, _ = doctor(stack, FERMATA_CUDA_DEVRT=where)
    says(checks, "sets", "ok", "by `gates'; not by `graphs': no device runtime (libcudadevrt.a) in " + where + " (FERMATA_CUDA_DEVRT")
    runtime = os.path.join(where, "libcudadevrt.a")
    with open(runtime, "wb") as f:
        f.write(b"!<arch>\n")
    checks, _ = doctor(stack, FERMATA_CUDA_DEVRT=where)
    says(checks, "sets", "ok", "Fake CUDA device: sets of tasks decide on the device by `gates'; and by `graphs', with the device runtime " + runtime)
    with open(runtime, "wb") as f:
        f.write(b"not a library")
    checks, _ = doctor(stack, FERMATA_CUDA_DEVRT=where)
    says(checks, "sets", "ok", runtime + ": the driver does not take it (cuLinkAddFile is error 200: error   : it is no library)")
    with open(runtime, "wb") as f:
        f.write(b"!<arch>\n")
    checks, _ = doctor(stack, FERMATA_CUDA_DEVRT=where, FAKE_CUDA_FAIL="cuGraphUpload@1/1=999")
    says(checks, "sets", "ok", runtime + ": the driver refuses what it needs (cuGraphUpload is error 999)")
    checks, _ = doctor(stack, FAKE_CUDA_NO_MEMOPS="1")
    check("sets" not in checks, f"{checks}")


def guardian(stack):
    """A kernel is rewritten, loaded, stopped in its middle and gone on with; from machine code and from text."""
    for sm in "90", "120":
        checks, _ = doctor(stack, FAKE_CUDA_SM=sm)
        says(checks, "guardian", "ok", "a kernel of 1056 blocks stopped between two of them, and continued")
        check("cache" not in checks, f"{checks}")


def no_guardian(stack):
    for env, text, remedy in ((OLD, "lacks (cu", "555"),
                              ({"FAKE_CUDA_SM": "75"}, "architecture are not rewritten", "level 2"),
                              ({"FAKE_CUDA_NO_GUARDED": "1"}, "refuses a rewritten kernel (", "report it"),
                              ({"FAKE_CUDA_NO_MEMOPS": "1"}, "no gates", "see `gates'")):
        checks, _ = doctor(stack, **env)
        says(checks, "guardian", "warning", text, remedy)


def guardian_at_fault(stack):
    """A kernel that never ends, computes something else, or takes the driver with it: no harm to the rest."""
    for fault, text in (("hang", "a kernel "), ("wrong", "computed something else (1 of 1056 blocks"),
                        ("crash", "crashed with signal")):
        checks, devices = doctor(stack, FAKE_CUDA_TRIAL=fault)
        says(checks, "guardian", "warning", text, "do without --guardian")
        check(devices[0]["levels"] == [1, 2] and "devices" in checks, f"{checks}") # OpenCL's
    checks, _ = doctor(stack, FAKE_CUDA_TRIAL="wrong", FAKE_CUDA_MPS="1")
    says(checks, "guardian", "warning", "something else", "MPS")


def guardian_without_a_disk(stack):
    checks, _ = doctor(stack, XDG_CACHE_HOME="/proc")
    says(checks, "guardian", "ok", "stopped between two")
    says(checks, "cache", "warning", "cannot be kept", "XDG_CACHE_HOME")


def memory(stack):
    """A chunk is made, mapped, copied and given back; a part of a small device."""
    checks, _ = doctor(stack)
    says(checks, "vmm", "ok", "Fake CUDA device: memory can be moved: 128M in ")
    says(checks, "vmm", "ok", "in units of 2M")
    says(checks, "copies", "ok", "(64M of registered memory)")
    check(all(float(n) > 0 for n in re.findall(r"([0-9.]+) GB/s", checks["copies"]["text"])), f"{checks}")
    says(checks, "digest", "ok", "that of the processor")
    says(checks, "mapped", "ok", "can run from the host: 64M, written with ")
    says(checks, "nvml", "ok", "CUDA says that 32M of 4G are used, NVML 32M (0 unaccounted)")
    says(checks, "memory", "ok", "can be managed")
    for c in "host", "pages":
        check(c in checks, f"{checks}")
    checks, _ = doctor(stack, FAKE_CUDA_CAPACITY="200M", FAKE_CUDA_CONTEXT="40M")
    says(checks, "vmm", "ok", "moved: 40M in ")
    says(checks, "copies", "ok", "(40M of registered memory)")
    says(checks, "nvml", "ok", "40M of 200M are used")


def memory_refused(stack):
    """Each step says that it was, and what to do; the rest of the report is there."""
    for env, what, text, remedy in (
            ({"FAKE_CUDA_NO_VMM": "1"}, "vmm", "no virtual memory management for it (CUDA_ERROR_NOT_SUPPORTED)", "newer driver"),
            ({"FAKE_CUDA_GRANULARITY": str(4 << 20)}, "vmm", "larger than 2 MiB", "newer driver"),
            ({"FAKE_CUDA_FAIL": "cuMemAddressReserve@1/1=2"}, "vmm", "no addresses", "free memory of the device"),
            ({"FAKE_CUDA_FAIL": "cuMemCreate@1/1=2"}, "vmm", "makes no memory", "free memory of the device"),
            ({"FAKE_CUDA_FAIL": "cuMemMap@1/1=999"}, "vmm", "cannot map memory (CUDA_ERROR_UNKNOWN)", "dmesg"),
            ({"FAKE_CUDA_FAIL": "cuMemSetAccess@1/1=999"}, "vmm", "gives no access", "dmesg"),
            ({"FAKE_CUDA_FAIL": "cuMemUnmap@1/1=999"}, "vmm", "cannot unmap", "dmesg"),
            ({"FAKE_CUDA_FAIL": "cuMemRelease@2/1=999"}, "vmm", "does not take memory back", "dmesg"),
            ({"FAKE_CUDA_FAIL": "cuMemMap@1/1=-11"}, "memory", "trying it, Fake CUDA device crashed with signal", "without --memory"),
            ({"FAKE_CUDA_FAIL": "cuMemcpyDtoHAsync_v2@2/1=719"}, "copies", "from the device failed (CUDA_ERROR_LAUNCH", "without --memory"),
            ({"FAKE_CUDA_NO_HOST_CHUNKS": "1"}, "mapped", "makes no memory of the host for it (CUDA_ERROR_NOT", "newer driver"),
            ({"FERMATA_MEMORY_HOST": "0"}, "copies", "no memory of the host", "`host'"),
            ({"FERMATA_MEMORY_HOST": "0"}, "host", "each device takes 0 at most", "FERMATA_MEMORY_HOST"),
            ({"FAKE_CUDA_TRIAL": "digest"}, "digest", "another than the processor", "FERMATA_MEMORY_KEEP=0"),
            ({"FAKE_CUDA_MPS": "1"}, "memory", "(MPS), programs with --memory run as always", "echo quit")):
        if SANITIZE and "signal" in text:
            continue  # the sanitizer makes an end of its own of a signal
        checks, _ = doctor(stack, **env, FAKE_CUDA_CAPACITY="200M")
        says(checks, what, "warning", text, remedy)
        says(checks, "cuda", "ok", "can be scheduled")
        if what not in ("host", "digest", "mapped"):
            check(checks.get("memory", {}).get("verdict") != "ok", f"both: {checks}")
    checks, _ = doctor(stack, WORLD_SIZE="2", SLURM_NTASKS="8", FAKE_CUDA_DEVICES="2", CUDA_VISIBLE_DEVICES="0,1")
    says(checks, "memory", "ok", "can be managed")


def memory_of_few_addresses(stack):
    if SANITIZE:
        raise Skip("the sanitizer takes terabytes of addresses itself")
    for limit, text in (10, "there are no addresses"), (40, "only 32G of addresses can be had, less than the device's memory"):
        checks, _ = doctor(stack, ["sh", "-c", f'ulimit -v {limit}000000; exec "$0" "$@"'], FAKE_CUDA_CAPACITY="64G")
        says(checks, "vmm", "warning", text, "ulimit -v unlimited")


def memory_of_a_small_host(stack):
    """The cgroup leaves less than is left to others; no huge pages."""
    with open("/proc/self/cgroup", encoding="ascii") as mine:
        if "0::/" not in mine.read():
            raise Skip("no cgroups of version 2")
    group, pages = "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage"
    fake = (f"mount -t tmpfs none /sys; mkdir -p {group} {pages}; echo $((300 << 20)) >{group}/memory.max; "
            f"echo $((100 << 20)) >{group}/memory.current; echo 'always madvise [never]' >{pages}/enabled")
    checks, _ = doctor(stack, other_dev(fake))
    says(checks, "host", "warning", "the cgroup leaves 200M", "memory.max")
    says(checks, "copies", "warning", "no memory of the host", "`host'")
    says(checks, "pages", "warning", "no huge pages", "echo madvise")


def untried(stack):
    """The fake driver has no channel groups: nothing is said of their time slices, but what follows from that."""
    checks, _ = doctor(stack)
    says(checks, "slices", "ok", "not known")
    says(checks, "slices", "ok", "stop between kernels at best (level 2)")


def slices(stack):
    """As a kernel's driver answers that has them. What was set is what was there before."""
    where = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    rm = {"LD_PRELOAD": preload(os.path.join(BUILD, "tests", "fakes", "libfake_rm.so")), "FAKE_RM_LOG": os.path.join(where, "log")}
    checks, _ = doctor(stack, **rm)
    says(checks, "slices", "ok", "can set their time slice")
    with open(rm["FAKE_RM_LOG"], encoding="ascii") as log:
        check(log.read().splitlines() == ["get 2000", "set 2000"], "something else was asked for")
    checks, _ = doctor(stack, **rm, FAKE_RM_REFUSE="1")
    says(checks, "slices", "warning", "lets no program")


def does_not_start(stack):
    for code, name, remedy in ((803, "SYSTEM_DRIVER_MISMATCH", "versions"),
                               (802, "SYSTEM_NOT_READY", "fabricmanager"),
                               (999, "UNKNOWN", "dmesg"),
                               (2, "OUT_OF_MEMORY", "free memory of the device"),
                               (34, "STUB_LIBRARY", "stubs"),
                               (46, "DEVICE_UNAVAILABLE", "nvidia-smi -c DEFAULT"),
                               (804, "COMPAT_NOT_SUPPORTED_ON_DEVICE", "compatibility package"),
                               (805, "MPS_CONNECTION_FAILED", "MPS daemon"),
                               (807, "MPS_SERVER_NOT_READY", "MPS daemon"),
                               (810, "MPS_CLIENT_TERMINATED", "MPS daemon")):
        checks, devices = doctor(stack, FAKE_CUDA_INIT=str(code))
        says(checks, "cuda", "warning", name, remedy)
        check(not devices and "slices" not in checks, f"{checks}")


def no_device(stack):
    """For one reason or another."""
    checks, _ = doctor(stack, FAKE_CUDA_INIT="100")
    says(checks, "cuda", "warning", "NO_DEVICE", "nvidia")
    checks, _ = doctor(stack, CUDA_VISIBLE_DEVICES="7")
    says(checks, "cuda", "warning", "NO_DEVICE", "CUDA_VISIBLE_DEVICES")


def no_gates(stack):
    for env, text, remedy in (({"FAKE_CUDA_NO_MEMOPS": "1"}, "refuses stream memory operations", "515"),
                              (OLD, "has no stream memory operations", "515"),
                              ({"FAKE_CUDA_FAIL_REGISTER": "2"}, "register memory (CUDA_ERROR_OUT_OF_MEMORY)", "ulimit"),
                              ({"FAKE_CUDA_FAIL_REGISTER": "800"}, "(CUDA_ERROR_NOT_PERMITTED)", "ulimit"),
                              ({"FAKE_CUDA_FAIL_REGISTER": "801"}, "(CUDA_ERROR_NOT_SUPPORTED)", "this machine")):
        checks, devices = doctor(stack, **env)
        says(checks, "gates", "warning", text, remedy)
        says(checks, "cuda", "ok", "1 of 1 devices")
        check(devices[0]["levels"] == [1], f"{devices}")


def no_strict_gates(stack):
    """Only where the daemon is strict it bears on anything."""
    checks, devices = doctor(stack)
    check("strict" not in checks, f"{checks}")
    checks, devices = doctor(stack, FAKE_CUDA_NO_READ_ONLY="1")
    says(checks, "strict", "ok", "(CUDA_ERROR_NOT_SUPPORTED)")
    check(devices[0]["levels"] == [1, 2], f"{devices}")


def device_lost(stack):
    """It answers every call with one error."""
    for code, name, remedy in ((214, "ECC_UNCORRECTABLE", "ECC"), (719, "LAUNCH_FAILED", "nvidia-smi")):
        checks, devices = doctor(stack, FAKE_CUDA_LOST=f"{code}@0")
        says(checks, "gates", "warning", name, remedy)
        says(checks, "cuda", "warning", "0 of 1 devices")
        check(not devices[0]["levels"], f"{devices}")


def shared(stack):
    """MPS: as the device says, and as the daemon's pipe says."""
    checks, _ = doctor(stack, FAKE_CUDA_MPS="1")
    says(checks, "mps", "ok", "fails or is killed")
    says(checks, "mps", "ok", "busy_poll_us")
    says(checks, "mps", "ok", "`echo quit | nvidia-cuda-mps-control'")
    check("slices" not in checks, "time slices are the MPS server's")
    where = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-test-"))
    checks, _ = doctor(stack, CUDA_MPS_PIPE_DIRECTORY=where)
    says(checks, "mps", "ok", "a context of its own: a failure does not affect the others")
    says(checks, "mps", "ok", "`nvidia-cuda-mps-control -d'")
    os.mkfifo(os.path.join(where, "control"))
    checks, _ = doctor(stack, CUDA_MPS_PIPE_DIRECTORY=where)
    says(checks, "mps", "ok", "time slices do not")
    checks, _ = doctor(stack, FAKE_CUDA_LOST="719@0")
    check("mps" not in checks, f"nothing can be scheduled: {checks}")


def part(stack):
    checks, devices = doctor(stack, FAKE_CUDA_MIG="1")
    says(checks, "mig", "ok", "MIG 1g.5gb")
    says(checks, "mig", "ok", "CUDA_VISIBLE_DEVICES")
    check(devices[0]["levels"] == [1, 2], f"{devices}")


def other_dev(script, run=""):
    """In a name space with another /dev, without the rights of root where `run` gives them up."""
    if SANITIZE:
        raise Skip("the sanitizer needs more of /dev and of its rights")
    before = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
              f'mount -t tmpfs none /dev; : >/dev/null; {script}; exec {run} "$0" "$@"']
    try:
        works = subprocess.run([*before, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        works = False
    if not works:
        raise Skip("no name spaces here")
    return before


def no_node(stack):
    """The driver's library without its devices, as in a container that was not given them."""
    checks, _ = doctor(stack, other_dev("true"), FAKE_CUDA_INIT="100")
    says(checks, "cuda", "warning", "NO_DEVICE", "--gpus all")


def no_library(stack):
    """The devices without the driver's library; a machine without either."""
    checks, _ = doctor(stack, other_dev("true"), driver=False)
    if "cuda" in checks:
        raise Skip("this machine has a driver")
    checks, _ = doctor(stack, other_dev(": >/dev/nvidiactl"), driver=False)
    says(checks, "cuda", "warning", "libcuda.so.1", "install")


def bus(vendor, kind):
    """Another /sys, with one PCI device."""
    device = "/sys/bus/pci/devices/0000:41:00.0"
    return f"mount -t tmpfs none /sys; mkdir -p {device}; echo {vendor} >{device}/vendor; echo {kind} >{device}/class"


def nothing_but_the_bus(stack):
    """A container that was not given the GPU: neither its devices nor the driver's library. What else NVIDIA makes is none."""
    checks, _ = doctor(stack, other_dev(bus("0x8086", "0x030000")), driver=False)
    if "cuda" in checks:
        raise Skip("this machine has a driver")
    checks, _ = doctor(stack, other_dev(bus("0x10de", "0x068000")), driver=False)
    check("cuda" not in checks, f"{checks}")
    for kind in "0x030000", "0x030200":
        checks, _ = doctor(stack, other_dev(bus("0x10de", kind)), driver=False)
        says(checks, "cuda", "warning", "GPU of NVIDIA's (0000:41:00.0)", "--gpus all")


def unreadable_node(stack):
    drop = "setpriv --inh-caps=-all --bounding-set=-all --no-new-privs"
    checks, _ = doctor(stack, other_dev(": >/dev/nvidiactl; chmod 0 /dev/nvidiactl", drop))
    says(checks, "rights", "warning", "/dev/nvidiactl", "ls -l")


def denied_node(stack):
    """A device cgroup refuses with another error than a mode does; and what a driver needs besides its first node."""
    fake = {"LD_PRELOAD": preload(os.path.join(BUILD, "tests", "fakes", "libfake_denied.so"))}
    for node in "/dev/nvidiactl", "/dev/nvidia-uvm":
        before = other_dev(": >/dev/nvidiactl; : >/dev/nvidia-uvm")
        checks, _ = doctor(stack, before, **fake, FAKE_DENIED="/dev/null")
        says(checks, "rights", "ok", "every device node")
        checks, _ = doctor(stack, before, **fake, FAKE_DENIED=node)
        says(checks, "rights", "warning", f"open {node}", "--gpus all")


def given_some_of_several(stack):
    """As a batch system gives a job some of a machine's GPUs: that the others are refused is no fault."""
    fake = {"LD_PRELOAD": preload(os.path.join(BUILD, "tests", "fakes", "libfake_denied.so")), "FAKE_DENIED": "/dev/nvidia1"}
    checks, _ = doctor(stack, other_dev(": >/dev/nvidia0; : >/dev/nvidia1"), **fake)
    says(checks, "rights", "ok", "every device node")
    checks, _ = doctor(stack, other_dev(": >/dev/nvidia1"), **fake)
    says(checks, "rights", "warning", "open /dev/nvidia1", "--gpus all")


if __name__ == "__main__":
    main(well, shim_that_cannot_be_preloaded, shim_that_is_not_there, run_without_the_shim, newer_driver, partition, *seldom_sanitized(sets_of_tasks), guardian,
     no_guardian, *seldom_sanitized(guardian_at_fault),
         guardian_without_a_disk, memory, *seldom_sanitized(memory_refused), memory_of_few_addresses, memory_of_a_small_host, untried, slices, *seldom_sanitized(does_not_start), no_device, no_gates, no_strict_gates, device_lost, shared, part, no_node, no_library,
         nothing_but_the_bus, unreadable_node, denied_node, given_some_of_several)
