#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For script/lib/memory_sets.py on machines without PyTorch: in the place of bench/torch_nets.py, a program of science."""
import os
import sys

os.read(0, 5)  # "take"
TOOL = os.path.join(os.environ["BUILD"], "bench", "bench_cuda_science")
os.execv(TOOL, [TOOL, "nearest" if sys.argv[1] == "decoder" else "wavelet", sys.argv[2]])
