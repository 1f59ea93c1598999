#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The docs say what the shim does, and nothing is both in its table and left alone. Where there are headers of cuDLA, the table has
# the same parameters.
set -euo pipefail
: "${SOURCE:?set it to the source directory (ctest does)}"

"$SOURCE/script/coverage" cudla --check
if [ -e /usr/include/cudla.h ]; then
	"$SOURCE/script/coverage" cudla --parameters /usr/include
else
	echo "no headers (NVIDIA's cuda-cudla): the table is not compared with them"
fi
