#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The docs say what the shim does, and nothing is both in its table and left alone. Where there are headers of Level Zero, every
# function that is given a queue, a list, a fence or an event is in the table or named, and the table has the same parameters.
set -euo pipefail
: "${SOURCE:?set it to the source directory (ctest does)}"

"$SOURCE/script/coverage" ze --check
if [ -e /usr/include/level_zero/ze_api.h ]; then
	"$SOURCE/script/coverage" ze --headers /usr/include
else
	echo "no headers (Debian: libze-dev): the table is not compared with them"
fi
