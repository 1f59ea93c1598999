#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The docs say what the shim does, and nothing is both in its table and left alone. Where there are headers of HIP, of
# whichever version, the table has the same parameters; where there is the library, each of its functions has its place.
set -euo pipefail
: "${SOURCE:?set it to the source directory (ctest does)}" "${BUILD:?and this to the build directory}"

"$SOURCE/script/coverage" hip --check
headers=${HIP_PATH:-/usr}/include
if [ -e "$headers/hip/hip_runtime_api.h" ]; then
	"$SOURCE/script/coverage" hip --parameters "$headers"
else
	echo "no headers in $headers: the table is not compared with them"
fi
for library in "$BUILD/tests/fakes/hip/libamdhip64.so.6" /usr/lib/*/libamdhip64.so "${ROCM_PATH:-/opt/rocm}/lib/libamdhip64.so"; do
	[ ! -e "$library" ] || "$SOURCE/script/coverage" hip --library "$library"
done
