#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Policies by users: the example, built as a stranger would against what is installed, decides; those that crash,
loop or answer nonsense are dropped, the default takes over, programs go on, and the log says why."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import BUILD, Fermata, Steering, check, eventually, lib_client as client, main, need, seldom_sanitized  # noqa: E402
import harness  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")
BUDGET = 1000000  # us: the most there is, for a busy machine must not look like a bad policy
PREAMBLE = """
#include <fermata/policy.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#define WITH(...) const struct fm_policy fm_policy = { \\
	.abi = FM_POLICY_ABI, .size = sizeof(struct fm_policy), .summary = "bad", __VA_ARGS__ };
static struct fm_policy_group *last, *idle_one;
static int join(void *s, struct fm_policy_group *g, uint64_t now) { last = g; return 0; }
static void ready(void *s, struct fm_policy_group *g, uint64_t now) { last = g; }
static void on_idle(void *s, struct fm_policy_group *g, uint64_t now) { idle_one = g; }
#define TABLE .join = join, .ready = ready, .idle = on_idle
"""


def run(*argv, **more):
    r = subprocess.run(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    check(r.returncode == 0, f"{' '.join(argv)}: {r.stdout}")
    return r.stdout


def compile_policy(folder, name, text):
    need("cc")
    path = os.path.join(folder, name)
    with open(path + ".c", "w", encoding="ascii") as f:
        f.write(PREAMBLE + text)
    run("cc", "-shared", "-fPIC", "-I", os.path.join(SOURCE, "include"), path + ".c", "-o", path + ".so")
    os.chmod(path + ".so", 0o755)


class Watched(Fermata):
    """A daemon with a folder of policies."""

    def __init__(self, stack, budget=BUDGET, extra=""):
        self.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-policies-"))
        config = f"[policies]\nfolder = {self.folder}\nbudget_us = {budget}\n{extra}"
        super().__init__(stack, config, start=False)

    def logged(self):
        return "\n".join(self.log())

    def choose(self, *policy):
        """A process that is started may get no processor in time, on a busy machine: then once more."""

        def chosen():
            r = self.cli("policy", *policy, check_status=False)
            check(r.returncode == 0 or "gave no answer" in r.stderr, f"policy {policy}: {r.stderr}")
            return r.returncode == 0

        eventually(f"{policy} is taken", chosen)

    def policy(self):
        return json.loads(self.cli("policy", "--json").stdout)

    def children(self):
        with open(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children", encoding="ascii") as f:
            return [int(w) for w in f.read().split()]


def ended(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"  # whoever inherits it may not look
    except FileNotFoundError:
        return True


def feed(*clients):
    for c in clients:
        c.do("feed")


def quit_all(*clients):
    for c in clients:
        c.quit()


def goes_on(*clients):
    for c in clients:
        c.advances()


def install_example(stack):
    need("cmake", "cc", "pkg-config")
    tmp = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-example-"))
    prefix, build, source = (os.path.join(tmp, d) for d in ("prefix", "build", "source"))
    run("cmake", "--install", BUILD, "--prefix", prefix)
    run("cp", "-r", os.path.join(SOURCE, "examples", "policy"), source)
    run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror -std=c11")
    run("cmake", "--build", build)
    run("ctest", "--test-dir", build)
    return prefix, source, os.path.join(build, "latest.so")


def the_example_decides(stack):
    prefix, source, so = install_example(stack)
    f = Watched(stack)
    run("install", "-m", "755", so, f.folder)
    f.start()
    check("latest" in [p["name"] for p in f.policy()["available"]], "the file is not listed")
    early, late = client(f, stack), client(f, stack)
    feed(early)
    early.advances()
    f.choose("latest")
    check(f.policy()["policy"]["name"] == "latest", "it is not in force")
    check("became ready last runs" in f.cli("policy").stdout, "its summary is not shown")
    feed(late)
    with late.segment():
        late.advances(50)
        before = early.stands_still()
        late.advances(50)
        early.stood(before)
        reasons = {d["reason"] for g in f.ps()["groups"] for d in g["devices"]}
        check("became ready last" in reasons, f"the reasons are {reasons}")
    f.choose("latest", "turn=2ms")
    check(f.policy()["policy"]["params"] == {"turn": "2ms"}, "the setting is not in force")
    for _ in range(3):
        goes_on(early, late)
    check(len(f.children()) == 1, "there is not one process for one policy")
    f.cli("policy", "fixed-priority")
    check(not f.children(), "a process is left of a policy that nobody uses")
    goes_on(early, late)
    r = f.cli("policy", "latest", "turn=3600s", check_status=False)
    check(r.returncode != 0 and "turn is out of range" in r.stderr, f"a bad setting: {r.stderr}")
    check("policy dropped" not in f.logged(), f.logged())
    quit_all(early, late)
    # pkg-config leads to the same header.
    lib = os.path.dirname(run("find", prefix, "-name", "libfermata.so").split()[0])
    flags = run("pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "fermata",
                env={**os.environ, "PKG_CONFIG_PATH": os.path.join(lib, "pkgconfig")}).split()
    run("cc", "-shared", "-fPIC", *flags, os.path.join(source, "latest.c"), "-o", os.path.join(f.folder, "again.so"))
    f.choose("again", "turn=1ms")
    check(f.policy()["policy"]["name"] == "again", "the one built with pkg-config is not in force")


def at_start_and_with_settings(stack):
    f = Watched(stack, extra="[policy slow]\npace = 3ms\n[daemon]\npolicy = slow\n")
    compile_policy(f.folder, "slow", """
static const struct fm_policy_setting s[] = {{"pace", "ms", "", 0, 1000000000, 1000000}, {0}};
static int init(void *state, const int64_t *v) { return *v == 3000000 ? 0 : -EINVAL; }
static void decide(void *s, uint64_t now, struct fm_policy_answer *a) { a->all = 1; }
WITH(.settings = s, .init = init, .decide = decide)""")
    f.start()
    c = [client(f, stack), client(f, stack)]
    feed(*c)
    goes_on(*c)
    r = eventually("init is asked", lambda: (lambda r: "gave no answer" not in r.stderr and r)(
        f.cli("policy", "slow", "pace=4ms", check_status=False)))
    check(r.returncode != 0 and "init: Invalid argument" in r.stderr, f"init refused, and: {r.stderr}")
    check(f.policy()["policy"] == {"name": "slow", "params": {"pace": "3ms"}}, "the old policy does not go on")
    os.kill(f.daemon.pid, 1)
    eventually("the settings are read", lambda: "settings read again" in f.logged())
    goes_on(*c)
    left = f.children()
    check(len(left) == 1, "a process is left over")
    f.kill()
    eventually("its process ends with the daemon", lambda: ended(left[0]))
    goes_on(*c)
    quit_all(*c)


def hints_and_leaving_are_told(stack):
    f = Watched(stack)
    compile_policy(f.folder, "prio", """
static struct fm_policy_group *all[64];
static unsigned n;
static int come(void *s, struct fm_policy_group *g, uint64_t now) { all[n++] = g; return 0; }
static void go(void *s, struct fm_policy_group *g, uint64_t now)
{
	unsigned i = 0;
	while (all[i] != g) i++;
	all[i] = all[--n];
}
static void decide(void *s, uint64_t now, struct fm_policy_answer *a)
{
	for (unsigned i = 0; i < n; i++) {
		if (!all[i]->ready)
			continue;
		if (!a->n || fm_policy_hint(all[i], FM_HINT_PRIORITY) > fm_policy_hint(a->run[0], FM_HINT_PRIORITY))
			a->run[0] = all[i];
		a->n = 1;
	}
}
WITH(.join = come, .leave = go, .decide = decide)""")
    f.start()
    f.choose("prio")
    c = [client(f, stack, "-", "--priority", p) for p in ("5", "10", "20")]
    feed(*c)

    def only(ahead, behind):
        with ahead.segment():
            ahead.advances(50)
            before = behind.stands_still()
            ahead.advances(50)
            behind.stood(before)

    only(c[2], c[1])
    f.cli("hint", str(c[1].pid), "priority=30")
    only(c[1], c[2])
    c[1].quit()
    only(c[2], c[0])
    c[2].quit()
    goes_on(c[0])
    check("policy dropped" not in f.logged(), f.logged())
    c[0].quit()


def the_slow_are_dropped(stack):
    f = Watched(stack)
    compile_policy(f.folder, "tardy", """
static void decide(void *s, uint64_t now, struct fm_policy_answer *a) { usleep(20000); a->all = 1; a->next = now; }
WITH(.decide = decide)""")
    f.start()
    c = client(f, stack)
    feed(c)
    f.choose("tardy")
    for _ in range(5):  # it may take its time, but not all of the daemon's
        check(f.policy()["policy"]["name"] == "tardy", "it is dropped although it keeps within its budget")
    goes_on(c)
    c.quit()
    f.stop()
    f = Watched(stack, budget=100000)
    compile_policy(f.folder, "slow", """
static void decide(void *s, uint64_t now, struct fm_policy_answer *a) { usleep(50000); a->all = 1; a->next = now; }
WITH(.decide = decide)""")
    f.start()
    c = client(f, stack)
    feed(c)
    f.choose("slow")
    late = r"(its answers take \d+ us on the average|it gave no answer within 100000 us)"
    eventually("it is dropped", lambda: re.search(f"policy dropped: slow: {late}, after 3 warnings", f.logged()))
    told = re.findall(rf"policy slow: {late}; warning (\d) of 3 within a minute", f.logged())
    check([n for _, n in told] == ["1", "2", "3"], f"warnings: {told}")
    goes_on(c)
    c.quit()


def who_is_late_now_and_then_stays(stack):
    """Three times within a minute, while others run; then it is asked as before."""
    f = Watched(stack)
    nap, awake = os.path.join(f.folder, "nap"), os.path.join(f.folder, "awake")
    compile_policy(f.folder, "napping", """
#include <fcntl.h>
static int naps;
static void decide(void *s, uint64_t now, struct fm_policy_answer *a)
{
	if (access("%s", F_OK) == 0 && naps++ < 3) usleep(1150000);
	if (naps > 3) close(creat("%s", 0600));
	a->all = 1;
}
WITH(.decide = decide)""" % (nap, awake))
    f.start()
    c = client(f, stack)
    f.choose("napping")
    feed(c)
    goes_on(c)
    with open(nap, "w", encoding="ascii"):
        pass

    def decides():
        f.cli("hint", str(c.pid), f"weight={time.monotonic_ns() % 9999}")  # something to decide
        return os.path.exists(awake)

    eventually("it has napped, and decides again", decides)
    goes_on(c)
    told = re.findall(r"policy napping: it gave no answer within 1000000 us; warning (\d) of 3", f.logged())
    check(told and told == ["1", "2", "3"][:len(told)], f"warnings: {told}")  # a daemon that comes late itself sees fewer
    check(f.policy()["policy"]["name"] == "napping" and "policy dropped" not in f.logged(), f.logged())
    c.quit()


def the_eager_wait(stack):
    """Who wants to be asked again at once each time keeps neither the daemon busy nor itself, and is asked at each event."""
    f = Watched(stack)
    compile_policy(f.folder, "eager", """
static void decide(void *s, uint64_t now, struct fm_policy_answer *a) { a->all = 1; a->next = 0; }
WITH(.decide = decide)""")
    f.start()
    f.choose("eager")
    c = client(f, stack)
    feed(c)
    c.advances()
    begin, before = time.monotonic(), f.stats()["decisions"]
    time.sleep(1)
    n, took = f.stats()["decisions"] - before, time.monotonic() - begin
    check(n < 500 * took, f"it was asked {n} times in {took:.2f} s")
    check("policy dropped" not in f.logged(), f.logged())
    goes_on(c)
    c.quit()


# Each is well until two groups are there and the second has become ready.
BAD = {
    "crash": ("it crashed: Segmentation fault", "*(volatile int *)8 = 1;"),
    "aborts": ("it crashed: Aborted", "abort();"),
    "ends": ("its process ended", "_exit(0);"),
    "loop": (r"it gave no answer within \d+ us", "for (;;) ;"),
    # As much as it is not given; a sanitized one is given it.
    "eats": (r"it crashed: \w+.*|it gave no answer within \d+ us",
             "for (int n = 0; n < 512; n++) { char *p = malloc(1 << 20); for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1; }"
             "for (;;) ;"),
    "stranger": ("it crashed: .*|it chose something that is not a group",
                 "static char m[512]; a->n = 1; a->run[0] = (void *)(m + 128);"),
    "nobody": ("it chose something that is not a group", "a->n = 1; a->run[0] = 0;"),
    "twice": ("it chose a group twice", "a->n = 2; a->run[0] = a->run[1] = last;"),
    "many": ("it chose more groups than an answer holds", "a->n = 1000;"),
    "never": ("it never lets a group run", ""),
    "forges": ("it sent a message out of turn", "for (int i = 0; i < 3; i++) write(3, \"nonsense\", 8);"),
}


def the_bad_are_dropped(stack):
    f = Watched(stack)
    for name, (_, body) in BAD.items():
        compile_policy(f.folder, name, """
static int n;
static struct fm_policy_group *other;
static void both(void *s, struct fm_policy_group *g, uint64_t now) { n++; other = last; last = g; }
static void gone(void *s, struct fm_policy_group *g, uint64_t now) { n--; if (last == g) last = other; other = 0; }
static void decide(void *s, uint64_t now, struct fm_policy_answer *a)
{
	if (n < 2) { a->n = n; a->run[0] = last; return; }
	%s
}
WITH(.ready = both, .idle = gone, .decide = decide, .flags = FM_POLICY_EXACT_JOBS)""" % body)
    f.start()
    first, second = client(f, stack), client(f, stack)
    feed(first)
    first.advances()
    for name, (why, _) in BAD.items():
        f.choose(name)
        first.advances()
        feed(second)
        line = rf"policy dropped: {name}: ({why})(, after 3 warnings within a minute)?; fixed-priority takes over"
        eventually(f"the log says: {line}", lambda: re.search(line, f.logged()))
        goes_on(first, second)
        shown = f.policy()["policy"]
        check(shown["name"] == "fixed-priority", f"in force is {shown}")
        check(re.match(f"{name}: ({why})", shown["dropped"]), f"people are told {shown}")
        check("! dropped: " + name in f.cli("policy").stdout, "people are not told")
        told = f"! fixed-priority is in force instead of a policy that was dropped: {name}: "
        for argv in ["ps"], ["ps", "-q"], ["top", "--once", "-d", "0.1"]:
            check(f.cli(*argv).stdout.startswith(told), f"{argv} does not say that a fallback rules")
        check(json.loads(f.cli("top", "--once", "--json", "-d", "0.1").stdout)["policy"]["dropped"] == shown["dropped"], "nor JSON")
        check(not f.children(), "its process is still there")
        second.do("enough")
        eventually("it is idle", lambda: f.group(second.pid)["devices"][0]["state"] == "idle")
    f.cli("policy", "fifo")
    check("dropped" not in f.policy()["policy"], "what was dropped is told for ever")
    check(len(re.findall("policy dropped", f.logged())) == len(BAD), "more was dropped than was bad")
    quit_all(first, second)


def the_bad_are_refused(stack):
    f = Watched(stack)
    good = "static void decide(void *s, uint64_t now, struct fm_policy_answer *a) { a->all = 1; }\n"
    refused = {
        "version": ("another version", good + "const struct fm_policy fm_policy = {.abi = 77, .decide = decide};"),
        "empty": ("fm_policy", "int nothing;"),
        "undecided": ("no decide", "WITH(.join = join)"),
        "limits": ("make no sense", good + "static const struct fm_policy_setting s[] = "
                   "{{\"x\", \"\", \"\", 5, 4, 3}, {0}};\nWITH(.decide = decide, .settings = s)"),
        "constructor": ("it crashed: Aborted", good + "__attribute__((constructor)) static void c(void) { abort(); }\n"
                        "WITH(.decide = decide)"),
        "hangs": ("no answer", good + "__attribute__((constructor)) static void c(void) { for (;;) ; }\n"
                  "WITH(.decide = decide)"),
        "initless": ("it crashed", good + "static int init(void *s, const int64_t *v) { abort(); }\n"
                     "WITH(.init = init, .decide = decide)"),
        "writable": ("written by other users", good + "WITH(.decide = decide)"),
        "fine": ("written by other users", good + "WITH(.decide = decide)"),
    }
    for name, (_, text) in refused.items():
        compile_policy(f.folder, name, text)
    os.chmod(os.path.join(f.folder, "writable.so"), 0o775)
    os.symlink("fine.so", os.path.join(f.folder, "link.so"))
    with open(os.path.join(f.folder, "text.so"), "w", encoding="ascii") as t:
        t.write("no object")
    f.start()
    f.cli("policy", "fifo")
    c = client(f, stack)
    feed(c)
    c.advances()

    def refuses(name, why):
        r = f.cli("policy", name, check_status=False)
        check(r.returncode != 0 and re.search(why, r.stderr), f"{name} should be refused for '{why}': {r.stderr}")
        check(f.policy()["policy"]["name"] == "fifo", "the old policy does not go on")
        c.advances()

    for name, (why, _) in refused.items():
        if name != "fine":
            refuses(name, why)
    refuses("link", "link.so in .*: a symbolic link is not followed")
    refuses("text", "could not be loaded")
    refuses("absent", "there is no policy 'absent', built in or in")
    refuses("../fine", "there is no policy")
    os.chmod(f.folder, 0o777)
    refuses("fine", "written by other users")
    os.chmod(f.folder, 0o755)
    f.choose("fine")
    check(len(f.children()) == 1, "processes of the refused are left")
    before = f.children()
    Steering(stack, f).sock.sendall(b'{"cmd":"policy","name":"hangs"}\n')
    looping = eventually("another is being loaded", lambda: [p for p in f.children() if p not in before])
    f.kill()
    eventually("it ends with the daemon although it loops", lambda: ended(looping[0]))
    c.quit()


def the_configuration_is_checked(stack):
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-policies-"))
    path = os.path.join(folder, "conf")
    compile_policy(folder, "mine", "static void decide(void *s, uint64_t now, struct fm_policy_answer *a) { a->all = 1; }\n"
                   "WITH(.decide = decide)")

    def says(status, text, config):
        with open(path, "w", encoding="ascii") as f:
            f.write(config)
        r = subprocess.run([harness.FERMATAD, "--check-config", "--config", path], text=True, capture_output=True)
        check(r.returncode == status and text in r.stderr, f"{config}: {r.returncode}, {r.stderr}")

    says(0, "", f"[daemon]\npolicy = mine\n[policies]\nfolder = {folder}\n")
    says(2, "conf:2: there is no policy 'mine'", "[daemon]\npolicy = mine\n")
    says(2, "conf:2: there is no policy 'mine'", f"[policy mine]\nx = 1\n[policies]\nfolder = {folder}\n")
    says(2, "conf:4: 'x=1' is not a setting of policy mine", f"[policies]\nfolder = {folder}\n[policy mine]\nx = 1\n")
    says(2, "conf:2: folder: the name does not begin with /", "[policies]\nfolder = here\n")
    says(2, "conf:2: ", "[policies]\nbudget_us = 49\n")
    says(2, "unknown key 'dir' in [policies]", "[policies]\ndir = /\n")
    says(2, f"folder of policies {folder}/no: No such file", f"[daemon]\npolicy = mine\n[policies]\nfolder = {folder}/no\n")


if __name__ == "__main__":
    main(the_example_decides, at_start_and_with_settings, hints_and_leaving_are_told, *seldom_sanitized(the_slow_are_dropped),
         who_is_late_now_and_then_stays, the_eager_wait, the_bad_are_dropped, the_bad_are_refused, the_configuration_is_checked)
