#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The settings: every key is documented and every documented key is one, mistakes are told with file, line and
what was meant, and a reload takes all of a file or nothing."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from harness import FERMATAD, Fermata, Skip, check, main  # noqa: E402

SOURCE = os.environ.get("SOURCE") or sys.exit("SOURCE: set it to the source directory (ctest does)")


def fermatad(*argv):
    return subprocess.run([FERMATAD, *argv], text=True, capture_output=True, timeout=60)


def written(stack, text):
    f = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="fermata-", suffix=".conf"))
    f.write(text)
    f.flush()
    return f.name


def printed(path):
    r = fermatad("--print-config", path)
    check(r.returncode == 0, f"--print-config: {r.stderr}")
    return r.stdout


def keys_of(text):
    """(section, key) of every line in INI form."""
    section, keys = "", []
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif re.match(r"[a-z_-]+ =", line):
            keys.append((section, line.split(" =")[0]))
    return keys


def man_keys():
    section, keys = "", []
    with open(os.path.join(SOURCE, "man", "fermatad.conf.5"), encoding="ascii") as f:
        for line in f.read().replace("\\-", "-").splitlines():
            if line.startswith(".SH "):
                section = line[4:].strip("[]")
            elif line.startswith(".BI "):
                keys += [(section, k) for k in re.findall(r'(?:^\.BI|\\fP ") ([a-z_-]+) " =', line)]
    return keys


def example(stack, everything):
    """contrib/fermatad.conf with the defaults, or with the examples, too, in force."""
    with open(os.path.join(SOURCE, "contrib", "fermatad.conf"), encoding="ascii") as f:
        lines, taken = [], True
        for line in f:
            if line.startswith(("[", "#[")):
                taken = everything or line.startswith("[")
            bare = re.match(r"#(\[.*|[a-z_-]+ =.*)", line)
            lines.append(bare[1] + "\n" if bare and taken else line)
    return written(stack, "".join(lines))


def documents_have_every_key(stack):
    keys = keys_of(printed("/dev/null"))
    check(len(keys) == len(set(keys)) > 30, f"the keys are {keys}")
    man = man_keys()
    check(sorted(man) == sorted(keys), f"fermatad.conf(5) and the daemon differ in {set(man) ^ set(keys)}")
    path = example(stack, everything=False)
    with open(path, encoding="ascii") as f:
        shown = keys_of(f.read())
    check(sorted(shown) == sorted(keys), f"contrib/fermatad.conf and the daemon differ in {set(shown) ^ set(keys)}")


def the_example_shows_the_defaults(stack):
    check(printed(example(stack, everything=False)) == printed("/dev/null"), "what is commented out is no default")
    r = fermatad("--check-config", example(stack, everything=True))
    check(r.returncode == 0, f"an example is not sound: {r.stderr}")


def what_is_printed_says_the_same(stack):
    text = printed(written(stack, """[policy fair]
slice = 2ms
[daemon]
policy = fair
linger_us = 7 ; a comment
[limits user 7]
weight_max = 9
[limits group users]
hints = weight, gang
deadline_min = 1500us
[limits]
hints = none
share_max = 50%
clients = 3
"""))
    for line in ("slice = 2ms", "linger_us = 7", "[limits user 7]\nweight_max = 9\n",
                 "[limits group users]\nhints = weight gang\ndeadline_min = 1500us\n", "hints = none\n", "share_max = 50%"):
        check(line in text, f"'{line}' is not in {text}")
    check(printed(written(stack, text)) == text, "what is printed reads otherwise")
    text = printed(written(stack, "[device card]\nsame = GPU-* NVIDIA?H100*\n[device other]\nlevel = 2\n"))
    check("[device card]\nsame = GPU-* NVIDIA?H100*\n" in text and "[device other]\nlevel = 2\n" in text, text)
    check(printed(written(stack, text)) == text, "what is printed of devices reads otherwise")
    # One end beyond a ceiling that is as by default.
    for pad in "auto:7%", "auto", "16":
        text = printed(written(stack, f"[device]\npad = {pad}\n"))
        check(f"\npad = {pad}\n" in text, text)
    text = printed(written(stack, "[limits user 7]\ndeadline_max = 200us\n"))
    check(printed(written(stack, text)) == text, "what is printed reads otherwise where a default gave way")


MISTAKES = [  # where, what is said, what to do; the settings
    (2, "unknown key 'liger_us' in [daemon]", "did you mean 'linger_us'?", "[daemon]\nliger_us = 3\n"),
    (3, "unknown key 'groops' in [limits]", "did you mean 'groups'?", "[limits]\n# groups\ngroops = 3\n"),
    (2, "unknown key 'prority_max' in [limits]", "did you mean 'priority_max'?", "[limits user 7]\nprority_max = 3\n"),
    (2, "unknown key 'folder' in [daemon]", "'folder' belongs into [policies]", "[daemon]\nfolder = /x\n"),
    (2, "unknown key 'colour' in [access]", "keys are group", "[access]\ncolour = red\n"),
    (2, "manage: 'yes' is neither off nor all", "write all; a group of that name is written [y]es", "[memory]\nmanage = yes\n"),
    (2, "manage: 'none' is neither off nor all", "write off;", "[memory]\nmanage = train-* none\n"),
    (3, "manage: off and all stand alone", "give off, all, or patterns", "[memory]\n\nmanage = all train-*\n"),
    (2, "manage: 'a/b' matches no name of a group", "without '/'", "[memory]\nmanage = x a/b\n"),
    (2, "manage: there is no value", "leave out the line", "[memory]\nmanage =\n"),
    (2, f"manage: '{'x' * 40}...' is longer than", "at most 63", f"[memory]\nmanage = {'x' * 64}\n"),
    (2, "harmless_tables: '21318c60' is no identifier", "21318c60-9714-", "[memory]\nharmless_tables = 21318c60\n"),
    (2, "templates: 'maybe'", "", "[memory]\ntemplates = maybe\n"),
    (2, "early_start: 'maybe'", "", "[memory]\nearly_start = maybe\n"),
    (2, "unknown key 'manages' in [memory]", "did you mean 'manage'?", "[memory]\nmanages = all\n"),
    (1, "behind [daemon] there is something else", "", "[daemon] policy = fair\n"),
    (2, "hints: all and none stand alone", "", "[limits]\nhints = none priority\n"),
    (1, "unknown section [damon]", "did you mean [daemon]?", "[damon]\n"),
    (2, "unknown section [colours]", "sections are [daemon]", "\n[colours]\nred = 1\n"),
    (1, "unknown section [limits fred]", "[limits user NAME]", "[limits fred]\n"),
    (1, "there is no user 'no such'", "getent passwd", "[limits user no such]\n"),
    (1, "there is no group 'nosuch'", "getent group", "[limits group nosuch]\n"),
    (1, "root is not limited", "leave the section away", "[limits user root]\n"),
    (1, "the section's name is too long", "", "[limits user " + 50 * "x" + "]\n"),
    (1, "'policy' stands before the first section", "[daemon]", "policy = fair\n"),
    (2, "linger_us: '1s' is not a whole number", "microseconds from 0 to 1000000", "[daemon]\nlinger_us = 1s\n"),
    (2, "budget_us: '7' is out of range", "microseconds from 50 to 1000000", "[policies]\nbudget_us = 7\n"),
    (2, "idle_exit_s: '-1' is out of range", "seconds from 0 to 86400", "[daemon]\nidle_exit_s = -1\n"),
    (2, "clients: 'many' is not a whole number", "clients from 0 to", "[limits]\nclients = many\n"),
    (2, "realtime: 'maybe' is neither yes nor no", "write yes or no", "[daemon]\nrealtime = maybe\n"),
    (2, "hints: 'wieght' is not a hint", "did you mean 'weight'?", "[limits]\nhints = priority wieght\n"),
    (2, "hints: there is no value", "all, none", "[limits]\nhints =\n"),
    (2, "priority_max: '256' is out of range", "low, normal, high, realtime", "[limits]\npriority_max = 256\n"),
    (2, "share_min: '101' is out of range", "0% to 100%", "[limits]\nshare_min = 101%\n"),
    (2, "deadline_max: '5 days' is not a time", "ns, us, ms, s, min or h", "[limits]\ndeadline_max = 5 days\n"),
    (2, "slice_max: slice out of range", "0 to 10000 ms", "[limits]\nslice_max = 11s\n"),
    (3, "weight_min is above weight_max", "", "[limits]\nweight_max = 5\nweight_min = 6\n"),
    (4, "gang_min is above gang_max", "of [limits]", "[limits]\ngang_max = 0\n[limits user 7]\ngang_min = 1\n"),
    (2, "folder: the name does not begin with /", "absolute", "[policies]\nfolder = lib\n"),
    (2, "group: the value is too long", "at most 63", "[access]\ngroup = " + 64 * "x" + "\n"),
    (2, "group: the value begins with a semicolon", "line of its own", "[access]\ngroup =;x\n"),
    (2, "'slise=1' is not a setting of policy fair", "did you mean 'slice'?", "[policy fair]\nslise = 1\n"),
    (2, "slice is out of range", "0.1 to 10000 ms", "[policy fair]\nslice = 0\n"),
    (2, "there is no policy 'fiar'", "did you mean 'fair'?", "[daemon]\npolicy = fiar\n[limits]\nclients = 1\n"),
    (2, "listen: '0.0.0.0:9417' is neither", "127.0.0.1:PORT", "[metrics]\nlisten = 0.0.0.0:9417\n"),
    (2, "listen: '70000' is no port", "1 to 65535", "[metrics]\nlisten = [::1]:70000\n"),
    (2, "listen: the path is too long", "at most 107", "[metrics]\nlisten = /" + 120 * "x" + "\n"),
    (2, "limit: '0' is out of range", "rows from 1", "[metrics]\nlimit = 0\n"),
    (4, "'policy' stands in [daemon] already, in line 2", "keep one of the two",
     "[daemon]\npolicy = fifo\nlinger_us = 5\npolicy = fair\n"),
    (5, "'slice' stands in [policy fair] already, in line 2", "",
     "[policy fair]\nslice = 2\n[limits]\n[policy fair]\nslice = 3\n"),
    (4, "'clients' stands in [limits user 7] already, in line 2", "",
     "[limits user 7]\nclients = 1\n[limits user 7]\nclients = 2\n"),
    (2, "neither [section], key = value nor a comment", "", "[daemon]\npolicy\nlinger = 1\n"),
    (2, "platform: the name does not begin with /", "absolute", "[admission]\nplatform = p.json\n"),
    (2, "/nonexistent: cannot be read: No such file", "", "[admission]\nplatform = /nonexistent\nmethod = gcaps-busy\n"),
    (2, "/dev/null: is not a plain file", "calibrate", "[admission]\nplatform = /dev/null\n"),
    (2, "line too long, or not text", "", "[daemon]\n#" + 300 * "x" + "\n"),
    (3, "[limits user 007] is [limits user 7], which is there already", "", "[limits user 7]\nclients = 1\n[limits user 007]\n"),
    (1, "[limits  user 7] has blanks", "", "[limits  user 7]\nclients = 1\n"),
    (1, "[device a ] has blanks", "", "[device a ]\nlevel = 2\n"),
    (2, "same: [device *] is a pattern", "with a name of your choice", "[device]\nsame = GPU-*\n"),
    (2, "same: [device GPU-*] is a pattern", "with a name of your choice", "[device GPU-*]\nsame = NPU\n"),
    (4, "same: 'a' is [device a], which has `same', too", "in one section", "[device a]\nsame = b\n[device b]\nsame = a\n"),
    (4, "same: 'b' is [device b], which has `same', too", "in one section", "[device a]\nsame = x b\n[device b]\nsame = c\n"),
    (4, "same: 'GPU-*' stands in [device a] already", "of one section", "[device a]\nsame = x GPU-*\n[device b]\nsame = y GPU-*\n"),
    (2, f"same: '{'x' * 40}...' is longer than a device's name", "95", f"[device a]\nsame = x {'x' * 96}\n"),
    (2, "unknown key 'sane' in [device]", "did you mean 'same'?", "[device a]\nsane = b\n"),
    (1, "line too long, or not text", "", "# a comment\r[daemon]\rpolicy = fair\r"),
    (1, "unknown section [damon]", "did you mean [daemon]?", "\v[damon]\n"),
    (4, "'clients' stands in [limits user 7] already, in line 2", "",
     "\f[limits user 7]\nclients = 1\n \r\v[limits user 7]\n\fclients = 2\n"),
]


def any_blank_may_stand_in_front(stack):
    text = "{0}[device]\n{0}level = 2\n{0}[limits user 7]\n{0}clients = 1\n"
    plain = printed(written(stack, text.format("")))
    for blanks in " \t", "\v", "\f", "\r", " \f\v":
        check(printed(written(stack, text.format(blanks))) == plain, f"{blanks!r} in front of each line says something else")


def mistakes_are_told_with_their_line(stack):
    for line, text, hint, settings in MISTAKES:
        path = written(stack, settings)
        r = fermatad("--check-config", path)
        check(r.returncode == 2 and not r.stdout, f"{settings!r}: status {r.returncode}, {r.stdout}")
        check(r.stderr.startswith(f"fermatad: error: {path}:{line}: {text}") and hint in r.stderr.partition(text)[2],
              f"{settings!r}: {r.stderr}")


def the_status_says_what_is_wrong(stack):
    sound, wrong = written(stack, "[daemon]\npolicy = fifo\n"), written(stack, "x")
    for status, argv in ((0, [sound]), (0, ["--config", sound]), (2, [wrong]), (2, ["--config", wrong]),
                         (1, [sound + ".none"]), (1, [os.path.dirname(sound)]), (2, [sound, "--policy", "fiar"])):
        for option in "--check-config", "--print-config":
            r = fermatad(option, *argv)
            check(r.returncode == status and bool(r.stderr) == bool(status), f"{option} {argv}: {r}")
    check(fermatad("--check-config", sound).stdout == f"{sound}: sound\n", "it does not say what was checked")
    check(fermatad(sound).returncode == 2, "a file without an option is taken")
    check(fermatad("--check-config", sound, sound).returncode == 2, "two files are taken")


def a_pipe_is_read_once(stack):
    """As bash makes one of <(...)."""
    pipe = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="fermata-")), "pipe")
    os.mkfifo(pipe)
    for text, status in (("[daemon]\npolicy = fifo\n", 0), ("[bad", 2)):
        p = subprocess.Popen([FERMATAD, "--check-config", pipe], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stack.callback(p.kill)
        with open(pipe, "w", encoding="ascii") as f:
            f.write(text)
        p.communicate(timeout=60)
        check(p.returncode == status, f"{text!r} by a pipe: {p.returncode}")


def what_is_in_force_is_printed(stack):
    r = fermatad("--print-config", "/dev/null", "--policy", "fair slice=3ms")
    check("\npolicy = fair slice=3ms\n" in r.stdout, r.stdout)
    with open("/dev/full", "w", encoding="ascii") as full:
        for argv, status in ((["--check-config", written(stack, "")], 1), (["--version"], 1)):
            r = subprocess.run([FERMATAD, *argv], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            check(r.returncode == status, f"{argv} to a full disk: {r}")


def unreadable_is_not_wrong(stack):
    path = written(stack, "")
    os.chmod(path, 0)
    somebody = {} if os.geteuid() else {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        r = subprocess.run([FERMATAD, "--check-config", path], text=True, capture_output=True, timeout=60, **somebody)
    except PermissionError:
        raise Skip("others cannot get at the program")
    check(r.returncode == 1 and "Permission denied" in r.stderr, f"a file that may not be read: {r}")


def a_bad_reload_changes_nothing(stack):
    f = Fermata(stack, config="[daemon]\npolicy = fair\n")

    def rewrite(text):
        with open(f.args[1], "w", encoding="ascii") as conf:
            conf.write(text)

    def policy():
        return f.ps()["policy"]["name"]

    f.cli("reload")
    check(policy() == "fair", "a reload of the same")
    rewrite("[daemon]\npolicy = edf\n[limits]\nqeues = 1\n")
    r = f.cli("reload", check_status=False)
    check(r.returncode == 1 and f"{f.args[1]}:4: unknown key 'qeues'" in r.stderr and "queues" in r.stderr, f"{r}")
    check(policy() == "fair", "half of a bad file was taken")
    rewrite("[daemon]\npolicy = edf\n")
    f.cli("reload")
    check(policy() == "edf", "a good file was not taken")
    os.unlink(f.args[1])
    r = f.cli("reload", check_status=False)
    check(r.returncode == 1 and "No such file" in r.stderr and policy() == "edf", f"a file that is gone: {r}")


def a_daemon_does_not_start_with_mistakes(stack):
    path = written(stack, "[daemon]\nbogus = 1\n")
    r = fermatad("--dir", os.path.dirname(path) + "/fermata-never", "--config", path)
    check(r.returncode == 1 and f"{path}:2:" in r.stderr, f"{r}")
    check(not os.path.exists(os.path.dirname(path) + "/fermata-never"), "it made its directory")


main(documents_have_every_key, the_example_shows_the_defaults, what_is_printed_says_the_same,
     any_blank_may_stand_in_front, mistakes_are_told_with_their_line, the_status_says_what_is_wrong, unreadable_is_not_wrong,
     a_pipe_is_read_once, what_is_in_force_is_printed, a_bad_reload_changes_nothing, a_daemon_does_not_start_with_mistakes)
