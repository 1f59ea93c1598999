# SPDX-License-Identifier: Apache-2.0
"""Commands of `fermata' that need no daemon, and the workloads that `fermata record' writes and `fermata-lab sim' runs."""
import json
import subprocess

from harness import check, command


class Workload:
    """What is in a workload file: sections, each with its keys, in lists for those that come several times."""

    def __init__(self, text):
        self.text, self.sections = text, {}
        for line in text.splitlines():
            if line.startswith("["):
                section = self.sections.setdefault(line.strip("[]"), {})
            elif line and not line.startswith("#"):
                key, value = (w.strip() for w in line.split("=", 1))
                section.setdefault(key, []).append(value)

    def group(self, name):
        return self.sections["group " + name]

    def one(self, section, key):
        values = self.sections[section].get(key, [])
        check(len(values) == 1, f"[{section}] {key}: {values}")
        return values[0]

    def jobs(self, name):
        """Times, lengths, commands and pauses; a pause of the first is None."""
        jobs = []
        for line in self.group(name).get("job", []):
            at, length, commands, *pause = line.split()
            jobs.append((ns(at), ns(length), int(commands), ns(pause[0]) if pause else None))
        return jobs


def ns(text):
    check(text.endswith("ns"), f"no time in ns: {text}")
    return int(text[:-2])


def read(path):
    with open(path, encoding="ascii") as f:
        return Workload(f.read())


def fermata(*argv, status=0, **popen):
    r = subprocess.run(command(*argv), text=True, capture_output=True, timeout=120, check=False, **popen)
    check(r.returncode == status, f"fermata {' '.join(argv)}: status {r.returncode}: {r.stderr}")
    return r


def simulated(path, *options):
    """What all of a workload comes to: however late its last job is, its end is within."""
    return json.loads(fermata("sim", path, "--duration", "1000s", "--json", *options).stdout)


def all_of_it_is_simulated(path, *options):
    """Each job of the workload, and its device time to the nanosecond."""
    w, r = read(path), simulated(path, *options)
    check(len(r["groups"]) == sum(s.startswith("group ") for s in w.sections), f"{r['groups']}")
    for g in r["groups"]:
        jobs = w.jobs(g["name"])
        check((g["jobs"], g["left"], g["dropped"]) == (len(jobs), 0, 0), f"of {len(jobs)} jobs: {g}")
        check(g["served_ns"] == sum(j[1] for j in jobs), f"another device time: {g}")
    return w, r
