#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The docs say what the shim does, and nothing is both in its table and left alone. Where there are headers of CANN the
# table has the same parameters.
set -euo pipefail
: "${SOURCE:?set it to the source directory (ctest does)}"

"$SOURCE/script/coverage" acl --check
headers=${ASCEND_HOME_PATH:-/usr/local/Ascend/ascend-toolkit/latest}/include
if [ -e "$headers/acl/acl_rt.h" ]; then
	"$SOURCE/script/coverage" acl --parameters "$headers"
else
	echo "no headers in $headers: the table is not compared with them"
fi
