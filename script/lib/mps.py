# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's multi-process service (MPS), for programs that are to share one context."""
import contextlib
import shutil
import subprocess
import tempfile

CONTROL = "nvidia-cuda-mps-control"


def installed():
    return shutil.which(CONTROL) is not None


@contextlib.contextmanager
def mps(env):
    """A control daemon of our own, in a folder of its own; nothing else on the machine sees it."""
    with tempfile.TemporaryDirectory(prefix="fermata-mps-") as d:
        env = dict(env, CUDA_MPS_PIPE_DIRECTORY=d, CUDA_MPS_LOG_DIRECTORY=d)
        subprocess.run([CONTROL, "-d"], env=env, check=True, timeout=20)
        try:
            yield env
        finally:
            subprocess.run([CONTROL], input="quit -t 1\n", text=True, env=env, check=False, timeout=30,
                           stdout=subprocess.DEVNULL)
