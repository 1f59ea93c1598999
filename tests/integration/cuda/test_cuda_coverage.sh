#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The docs say what the shim does, and nothing is both in its table and left alone. Where there is a toolkit, the
# table has what its headers have, with the same parameters.
set -euo pipefail
: "${SOURCE:?set it to the source directory (ctest does)}"

"$SOURCE/script/coverage" cuda --check
headers=${CUDA_HOME:-/usr/local/cuda}/include
if [ ! -e "$headers/cuda.h" ]; then
	echo "no headers in $headers: the table is not compared with them"
elif grep -q '^#define CUDA_VERSION 13000$' "$headers/cuda.h"; then
	"$SOURCE/script/coverage" cuda --headers "$headers"
else
	"$SOURCE/script/coverage" cuda --parameters "$headers"
fi
