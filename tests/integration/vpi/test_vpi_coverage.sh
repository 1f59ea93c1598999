#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The docs say what the shim does, and nothing is both in its table and left alone. Where there are headers of VPI, the table has
# the same parameters.
set -euo pipefail
: "${SOURCE:?set it to the source directory (ctest does)}"

"$SOURCE/script/coverage" vpi --check
if [ -e /usr/include/vpi/VPI.h ]; then
	"$SOURCE/script/coverage" vpi --parameters /usr/include
else
	echo "no headers (NVIDIA's vpi-dev): the table is not compared with them"
fi
