# SPDX-License-Identifier: Apache-2.0
"""What the tests of HIP share: where the fake runtime is, the ways to its functions, and the cases of CUDA's
conformance sets that HIP has calls for."""
import os

from harness import BUILD, shim_env

WAYS = tuple((*via, *spt) for via in (("--via", "link"), ("--via", "dlsym"), ("--via", "proc"))
             for spt in ((), ("--spt",)))
# Left out: launches with clusters, contexts beside the device's own, graphs composed of nodes of CUDA's.
CASES = {
    "hip_order": ("in order", "legacy stream", "null stream", "stalled streams", "ping pong", "diamond", "events",
                  "words of memory", "batch of words", "host functions", "waited for", "cooperative", "errors",
                  "polling", "context synchronize", "churn", "threads", "deep queue"),
    "hip_graph": ("linear", "fork join", "all nodes", "many streams", "info", "forbidden", "captures beside work",
                  "first of all"),
}


def hip_env(env):
    """The environment with the fake runtime in it, in which programs are given the shim."""
    return shim_env({"FERMATA_HIP": "1", "FERMATA_LEVEL": "2", **env, "LD_LIBRARY_PATH": os.path.join(BUILD, "tests", "fakes", "hip")})


def _answers(spt):
    compiled = ["compiled kernels 4561c9c5", "a function that is none 98", "it is the last error 98, 98, once 0"]
    return [*compiled, *compiled,
            "extended launch 205659c5, timed yes",
            "waits for values 1",
            "signal memory of 4 bytes 1",
            "beside it 1329e1c5, it 600",
            "the first has come, the second 600",
            "both 8c2455c5",
            "pageable memory 1",
            "no such comparison 1",
            "destroyed when done: yes",
            "a call from a host function 999",
            "a stream that is gone 400",
            "the NULL stream is not destroyed 400",
            "capturing 1",
            "nothing has run 58ef71c5",
            "five launches 6c031e55",
            "a value in a capture 900, which is over 901",
            "thread 0 359821c5",
            "thread 1 09d069c5",
            "thread 2 6a0629c5",
            "thread 3 dbbf41c5",
            "flags 0" if spt else "between blocking streams 231388ad, flags 0",
            "in a child: an error",
            "after a reset: the stream 400, it goes on b824cdc5"]


ANSWERS = {spt: _answers(spt) for spt in (False, True)}
