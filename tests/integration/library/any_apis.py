# SPDX-License-Identifier: Apache-2.0
"""For tests of all device APIs alike: any_apis.c, which has an adapter for each, and the world in which it runs."""
import glob
import os

from harness import BUILD, Fermata, Worker, check, cuda_env, eventually, need_cuda_shim, program

FAKES = os.path.join(BUILD, "tests", "fakes")
LAVAPIPE = [f for f in glob.glob("/usr/share/vulkan/icd.d/*.json") if "lvp" in f]


def shim(api):
    return os.path.join(BUILD, "lib", f"libfermata-{api}.so")


def there():
    """The APIs that this machine and this build have drivers for, real or not."""
    have = {
        "opencl": True,
        "cuda": True,
        "hip": os.path.exists(os.path.join(FAKES, "hip", "libamdhip64.so.6")),
        "vulkan": bool(LAVAPIPE),
        "ze": os.path.exists(os.path.join(FAKES, "libfake_ze.so")),
        "vpi": os.path.exists(os.path.join(FAKES, "vpi", "libnvvpi.so.3")),
        "acl": os.path.exists(os.path.join(FAKES, "acl", "libascendcl.so")),
        "cudla": os.path.exists(os.path.join(FAKES, "cudla", "libcudla.so.1")),
    }
    return [api for api in have if have[api] and os.path.exists(shim(api))]


def world(stack, **more):
    need_cuda_shim()
    f = Fermata(stack, **more)
    f.env = cuda_env({**f.env, "FERMATA_HIP": "1", "FERMATA_LEVEL_ZERO": "1", "FERMATA_VPI": "1", "FERMATA_ACL": "1", "FERMATA_CUDLA": "1", "LP_NUM_THREADS": "1",
                      "LD_LIBRARY_PATH": ":".join(os.path.join(FAKES, api) for api in ("hip", "vpi", "acl", "cudla")), "ZE_ENABLE_ALT_DRIVERS": os.path.join(FAKES, "libfake_ze.so")})
    if LAVAPIPE:
        f.env["VK_ICD_FILENAMES"] = LAVAPIPE[0]
    # The linker that OpenCL's driver starts has the sanitizer before it, too, and does not free all that it has; nor do drivers.
    f.env["ASAN_OPTIONS"] = f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"
    return f


class Apis(Worker):
    """tests/integration/library/any_apis.c."""

    def say(self, line):
        """What it answers."""
        mark = self.mark()
        self.tell(line)
        return int(self.line("did ", mark).split()[1])

    def must(self, line):
        rc = self.say(line)
        check(rc == 0, f"'{line}': {rc}")


def start(f, *args, options=(), queues=None):
    p = f.program([program("any_apis"), *args], *options, cls=Apis)
    p.line("ready")
    queues = sum("=" not in a for a in args) if queues is None else queues
    eventually("its queues are known", lambda: len(queues_of(f, p)) == queues)
    return p


def queues_of(f, p):
    """API and group of each of its queues."""
    return sorted((q["api"], g["name"]) for g in f.ps()["groups"] for q in g["queues"] if q["pid"] == p.pid)
