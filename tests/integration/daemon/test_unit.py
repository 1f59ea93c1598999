#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The unit of the system's daemon: how much systemd says that it exposes, and, under a systemd of its own
(systemd-box), that the daemon works in it, for programs of all users, and has the rights of none."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import (BUILD, LibClient, SANITIZE, Skip, check, eventually, halt, main, need, program)  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
UNIT = os.path.join(BUILD, "units", "system", "fermatad.service")
WORST = 0.8  # the exposure that the unit may have, of 10; other versions of systemd count other things
DIR = "/run/fermata"
SOMEBODY = {"user": 61001, "group": 61001, "extra_groups": []}


def it_exposes_little(stack):
    need("systemd-analyze")
    r = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", UNIT], text=True,
                       capture_output=True, env=dict(os.environ, LC_ALL="C.UTF-8"))
    if "unrecognized option" in r.stderr:
        raise Skip("this systemd-analyze does not look at files")
    found = re.search(r"Overall exposure level for fermatad.service: (\d+\.\d)", r.stdout)
    check(found, f"{r.stdout}{r.stderr}")
    check(float(found[1]) <= WORST, f"the exposure is {found[1]}, and was {WORST} at most:\n{r.stdout}")
    version = subprocess.run(["systemd-analyze", "--version"], text=True, capture_output=True).stdout.split()[1]
    with open(os.path.join(SOURCE, "docs", "rights.md"), encoding="ascii") as f:
        quoted = re.search(r"systemd (\d+) rates\s+it ([0-9.]+)", f.read())
    check(quoted, "docs/rights.md does not quote it")
    check(version != quoted[1] or float(found[1]) == float(quoted[2]),
          f"docs/rights.md says {quoted[2]}, systemd {version} says {found[1]}")


def it_works_under_systemd(stack):
    if SANITIZE:
        raise Skip("a sanitizer needs what the unit takes away")
    need("cmake")
    setup = f"env BUILD={BUILD} {os.path.abspath(__file__)} --populate"
    r = subprocess.run([os.path.join(SOURCE, "tests", "integration", "daemon", "systemd-box"), setup, sys.executable,
                        os.path.abspath(__file__), "--in-box"], text=True, stdout=subprocess.PIPE, timeout=200)
    if r.returncode == 77:
        raise Skip(r.stdout.strip().splitlines()[-1])
    print(r.stdout, end="")
    check(r.returncode == 0, f"in the box: status {r.returncode}")


def populate(root):
    """What a package's installation does, and a client that everybody may run."""
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as f:
        prefix = re.search(r"^CMAKE_INSTALL_PREFIX:\w+=(.*)$", f.read(), re.M)[1]
    subprocess.run(["cmake", "--install", BUILD], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, DESTDIR=root))
    units = f"{root}{prefix}/lib/systemd/system"
    shutil.copytree(units, f"{root}/etc/systemd/system", dirs_exist_ok=True)
    subprocess.run(["chroot", root, "systemd-sysusers", f"{prefix}/lib/sysusers.d/fermata.conf"], check=True)
    shutil.copy(program("lib_client"), f"{root}/usr/bin/lib_client")
    for library in os.listdir(os.path.join(BUILD, "lib")):
        if library.startswith("libfermata.so."):
            shutil.copy(os.path.join(BUILD, "lib", library), f"{root}/usr/lib/{library}")


# In the box, in this order: root of a machine whose init is systemd.

def run(*argv, status=0, **more):
    env = dict(os.environ, FERMATA_SOCKET=DIR)
    r = subprocess.run(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, timeout=60, **more)
    check(r.returncode == status, f"{' '.join(argv)}: status {r.returncode}: {r.stdout}")
    return r.stdout


def fermata(*argv, **more):
    return run(shutil.which("fermata") or "/usr/local/bin/fermata", *argv, **more)


def main_pid():
    return int(run("systemctl", "show", "-p", "MainPID", "--value", "fermatad"))


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def journal():
    run("journalctl", "--sync")
    return run("journalctl", "-b", "-o", "cat", "-u", "fermatad")


def client(stack, name):
    c = LibClient(["/usr/bin/lib_client", name], env=dict(os.environ, FERMATA_SOCKET=DIR), **SOMEBODY)
    stack.callback(c.close)
    c.line("ready 0")
    eventually("the daemon knows it", lambda: c.pid in [
        q["pid"] for g in json.loads(fermata("ps", "--json"))["groups"] for q in g["queues"]])
    c.do("feed")
    return c


def settings(text):
    """Of the system's daemon, where this build has them."""
    words = re.sub(r"\s+", "", run("fermatad", "--help"))
    path = re.search(r"default:(/[^ ]*?fermatad\.conf)forroot", words)[1]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    return path


def the_socket_starts_it(stack):
    run("systemctl", "start", "fermatad.socket")
    check(main_pid() == 0, "it runs already")
    fermata("ps", **SOMEBODY)
    check(main_pid() > 0, "a client does not start it")
    check(json.loads(fermata("version", "--json"))["daemon"]["instance"] == "system", "it serves one user")


def it_has_no_rights(stack):
    s = status_of(main_pid())
    uids = set(s["Uid"].split())
    check(len(uids) == 1 and uids != {"0"}, f"its user is {uids}")
    for caps in "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
        check(int(s[caps], 16) == 0, f"{caps} is {s[caps]}")
    check(s["NoNewPrivs"] == "1" and s["Seccomp"] == "2", f"{s}")
    for ns in "net", "mnt", "ipc", "uts":
        there, here = (os.readlink(f"/proc/{p}/ns/{ns}") for p in (main_pid(), "self"))
        check(there != here, f"it shares the namespace {ns}")


def it_knows_its_clients(stack):
    c = client(stack, "-")
    group = json.loads(fermata("ps", "--json"))["groups"][0]
    check(group["name"] == f"lib_client-{c.pid}" and group["uid"] == 61001, f"it sees {group}")
    c.advances()
    fermata("suspend", str(c.pid), **SOMEBODY)
    c.stands_still()
    fermata("resume", str(c.pid))
    c.advances()
    fermata("policy", "fifo", status=1, **SOMEBODY)
    fermata("policy", "fair")
    lines = [line for line in journal().splitlines() if line.startswith("audit: ")]
    for fields in ("uid=61001 .* cmd=suspend .* result=ok", "uid=0 .* cmd=resume .* result=ok",
                   "uid=61001 .* cmd=policy .* result=EPERM", "uid=0 .* cmd=policy .* result=ok"):
        check(any(re.search(fields, line) for line in lines), f"no audit line has {fields}: {lines}")


def a_reload_fails_with_the_settings(stack):
    path = settings("[daemon]\npolicy = edf\nbogus = 1\n")
    run("systemctl", "reload", "fermatad", status=1)
    check(f"{path}:3: unknown key 'bogus'" in journal(), "the journal does not say why")
    check(json.loads(fermata("policy", "--json"))["policy"]["name"] == "fair", "the old ones do not stay")
    settings("[daemon]\npolicy = edf\n")
    run("systemctl", "reload", "fermatad")
    check(json.loads(fermata("policy", "--json"))["policy"]["name"] == "edf", "the new ones are not read")


def a_policy_by_users_runs(stack):
    folder = "/etc/fermata-policies"
    os.mkdir(folder)
    text = ("#include <fermata/policy.h>\n"
            "static void decide(void *s, uint64_t now, struct fm_policy_answer *a) { a->all = 1; }\n"
            "const struct fm_policy fm_policy = { .abi = FM_POLICY_ABI, .size = sizeof(struct fm_policy),"
            " .summary = \"all\", .decide = decide };\n")
    need("cc")
    run("cc", "-shared", "-fPIC", f"-I{SOURCE}/include", "-xc", "-", "-o", f"{folder}/mine.so", input=text)
    settings(f"[policies]\nfolder = {folder}\n")
    fermata("reload")
    fermata("policy", "mine")
    c = client(stack, "-")
    c.advances()
    in_force = json.loads(fermata("policy", "--json"))["policy"]
    check(in_force["name"] == "mine" and "dropped" not in in_force, f"{in_force}")
    settings("")


def clients_outlive_it(stack):
    c = client(stack, "job")
    before = main_pid()
    run("systemctl", "restart", "fermatad")
    check(main_pid() not in (0, before), "it was not restarted")
    eventually("the client joins the next", lambda: "job" in fermata("ps"))
    c.advances()
    before = main_pid()
    os.kill(before, 9)
    eventually("it comes back", lambda: main_pid() not in (0, before))
    eventually("the client joins it", lambda: "job" in fermata("ps"))
    c.advances()


def kept():
    return int(run("systemctl", "show", "-p", "NFileDescriptorStore", "--value", "fermatad"))


def killed():
    before = main_pid()
    os.kill(before, 9)
    eventually("it comes back", lambda: main_pid() not in (0, before))


def strict_gates_are_kept(stack):
    """For the next daemon, which opens them for a client that shows them, and for one that cannot."""
    settings("[security]\nstrict = yes\n")
    run("systemctl", "reset-failed", "fermatad")  # it has been started often enough
    run("systemctl", "restart", "fermatad")
    c = client(stack, "strict")
    c.advances()
    eventually("systemd keeps its gates", lambda: kept() == 1)
    fermata("suspend", str(c.pid))
    c.stands_still()
    killed()
    eventually("the client joins the next", lambda: "strict" in fermata("ps"))
    c.advances()
    check(kept() == 1, f"systemd keeps {kept()}")
    fermata("suspend", str(c.pid))
    c.stands_still()
    halt(c.p)
    killed()
    check("warning" not in journal().split("version")[-1], "the next daemon is not content with what it was given")
    eventually("its gates are opened, and not kept any more", lambda: kept() == 0)
    c.kill(signal.SIGCONT)
    eventually("it is there again", lambda: "strict" in fermata("ps") and kept() == 1)
    c.advances()
    c.quit()
    eventually("its gates are not kept any more", lambda: kept() == 0)
    settings("")


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x49))  # SIOCSIFFLAGS: up, loopback, running


def scraped(where):
    family = socket.AF_UNIX if isinstance(where, str) else socket.AF_INET
    with socket.socket(family) as s:
        s.settimeout(60)
        s.connect(where)
        s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        with s.makefile() as f:
            return f.read()


def the_exporter_serves(stack):
    c = client(stack, "counted")
    c.advances()
    run("systemctl", "start", "fermata-exporter")
    text = scraped(f"{DIR}/metrics.sock")
    check("\nfermata_up 1\n" in text and f'group="counted",user="61001",pid="{c.pid}"' in text, text)
    pid = int(run("systemctl", "show", "-p", "MainPID", "--value", "fermata-exporter"))
    s = status_of(pid)
    check(set(s["Uid"].split()) == set(status_of(main_pid())["Uid"].split()), f"its user is {s['Uid']}")
    check(int(s["CapBnd"], 16) == 0 and s["NoNewPrivs"] == "1" and s["Seccomp"] == "2", f"{s}")
    settings("[metrics]\nlisten = 127.0.0.1:9417\n")
    fermata("reload")
    run("systemctl", "reload", "fermata-exporter")
    eventually("it has moved", lambda: "listening on 127.0.0.1:9417" in run(
        "journalctl", "-b", "-o", "cat", "-u", "fermata-exporter"))
    loopback_up()
    text = scraped(("127.0.0.1", 9417))
    check("\nfermata_up 1\n" in text and "counted" not in text, text)
    settings("")
    run("systemctl", "stop", "fermata-exporter")
    check(run("systemctl", "show", "-p", "Result", "--value", "fermata-exporter").strip() == "success", "it failed")


def it_ends_in_order(stack):
    run("systemctl", "stop", "fermatad.socket", "fermatad")
    check(run("systemctl", "show", "-p", "Result", "--value", "fermatad").strip() == "success", "it failed")


if sys.argv[1:2] == ["--populate"]:
    populate(sys.argv[2])
elif sys.argv[1:] == ["--in-box"]:
    del sys.argv[1:]
    eventually("systemd answers", lambda: subprocess.run(["systemctl", "list-units"], capture_output=True).returncode == 0)
    main(the_socket_starts_it, it_has_no_rights, it_knows_its_clients, a_reload_fails_with_the_settings,
         a_policy_by_users_runs, clients_outlive_it, strict_gates_are_kept, the_exporter_serves,
         it_ends_in_order)
else:
    main(it_exposes_little, it_works_under_systemd)
