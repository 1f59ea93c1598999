# SPDX-License-Identifier: Apache-2.0
"""What the tests of AscendCL share: where the fake library is, the ways to its functions, and the cases of CUDA's
conformance sets that AscendCL has calls for."""
import os

from harness import BUILD, shim_env

WAYS = ("--via", "link"), ("--via", "dlsym")
# Left out: what waits for the default stream by itself, 32-bit words, errors by their numbers, and nodes of CUDA's graphs.
CASES = {
    "acl_order": ("in order", "null stream", "ping pong", "diamond", "waited for", "polling", "context synchronize",
                  "churn", "threads", "deep queue"),
    "acl_graph": ("linear", "many streams", "captures beside work", "first of all"),
}
ENDS = "exit", "threads", "cancel", "callback", "force", "shared", "errors", "fork", "exec"


def acl_env(env):
    """The environment with the fake library in it, in which programs are given the shim."""
    return shim_env({"FERMATA_ACL": "1", **env, "LD_LIBRARY_PATH": os.path.join(BUILD, "tests", "fakes", "acl")})
