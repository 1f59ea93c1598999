#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The docs say what the shim does, and nothing is both in its tables and left alone.
set -euo pipefail
exec "$SOURCE/script/cuda-coverage" --check
