#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every enqueue function of the loader's dispatch table is governed, and the docs say what the code does.
set -euo pipefail
exec "$SOURCE/script/coverage" opencl --check
