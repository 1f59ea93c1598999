#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every function of the header that takes a queue is in the table, or named; and the docs say what the code does.
set -euo pipefail
exec "$SOURCE/script/coverage" vulkan --check
