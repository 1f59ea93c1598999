#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same seed gives the same bytes on other processors: the simulator, built for arm64 and for s390x, whose byte order is
# the other one, runs in an emulator; its summary and its picture are those of this machine, which are known (tests/data/sim).
# So is the trace, which is in the byte order of the machine.
set -eu
: "${BUILD:?set it to the build directory (ctest does)}" "${SOURCE:?set it to the source directory}"
[ -z "${SANITIZE:-}" ] || { echo "the emulator runs no sanitizers"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$SOURCE"

fail()
{
	echo "FAILED: $*"
	exit 1
}

sources="src/mem/*.c src/policy/*.c src/sched/*.c src/rta/random.c src/sim/[!l]*.c src/trace/event.c src/trace/file_write.c src/ini/*.c
	src/base/err.c src/base/hist.c src/base/nearest.c src/base/parse.c src/base/size.c src/model/workload.c src/model/workload_finish.c
	src/model/workload_keys.c src/model/workload_memory.c src/model/workload_trace.c src/model/workload_value.c src/lab/simulate_csv.c src/lab/simulate_memory_csv.c src/lab/simulate_names.c
	src/cmd/outfile.c src/lab/simulate_out.c src/lab/simulate_svg.c src/lab/simulate_trace.c src/cmd/table.c tests/fakes/elsewhere/*.c"

# Headers alone are the same everywhere: ini.h declares two functions, jansson.h is not looked into.
headers()
{
	mkdir "$tmp/include"
	for header in ini.h jansson.h jansson_config.h; do
		from=$(printf '#include <%s>\n' "$header" | cc -E - | sed -n "s/^# 1 \"\\(.*$header\\)\".*/\\1/p" | head -n 1)
		cp "$from" "$tmp/include/"
	done
}

# $sources and $flags are several words.
# shellcheck disable=SC2086
build()
{
	flags="-std=gnu11 -O0 -D_GNU_SOURCE -Isrc -Iinclude -I$tmp/include -pthread -DFM_VERSION=\"test\""
	mkdir "$tmp/$1"
	printf '%s\n' $sources | xargs -P 2 -I FILE sh -c \
		"'$2' $flags -c FILE -o '$tmp/$1/'\$(echo FILE | tr / _).o" || fail "it cannot be built for $1"
	"$2" -pthread -o "$tmp/$1.exe" "$tmp/$1"/*.o -lm
}

here()
{
	for name in $names; do
		"$BUILD/bin/fermata-lab" sim "examples/sim/$name.ini" --duration 3s --csv --svg "$tmp/$name.svg" --until 1.2s \
			--trace "$tmp/$name.trace" >"$tmp/$name.csv" 2>/dev/null
	done
}

# elsewhere NAME COMPILER EMULATOR: is there an answer, and is it the same?
elsewhere()
{
	for tool in "$2" "$3"; do
		command -v "$tool" >/dev/null || { echo "not on $1: $tool is not installed"; return 0; }
	done
	# Where its libraries are.
	root=$(dirname "$(dirname "$("$2" -print-file-name=libc.so.6)")")
	build "$1" "$2"
	for name in $names; do
		timeout 120 "$3" -L "$root" -E LD_LIBRARY_PATH="$root/lib" "$tmp/$1.exe" "examples/sim/$name.ini" 3s 1.2s "$tmp/svg" \
			"$tmp/trace" >"$tmp/csv" || fail "$name ended with status $? on $1"
		cmp "$tmp/csv" "$tmp/$name.csv" || fail "another summary of $name on $1"
		cmp "$tmp/svg" "$tmp/$name.svg" || fail "another picture of $name on $1"
		[ "$4" = other ] || cmp "$tmp/trace" "$tmp/$name.trace" || fail "another trace of $name on $1"
		[ "$(wc -c <"$tmp/trace")" = "$(wc -c <"$tmp/$name.trace")" ] || fail "another number of records on $1"
	done
	echo "the same on $1"
	tried="$tried $1"
}

names="inference pipeline tenants memory"
tried=
little=$(printf '\001\000' | od -An -tu2 | tr -d ' ')
[ "$little" = 1 ] || { echo "this machine's byte order is not that of arm64"; exit 77; }
headers
here
elsewhere arm64 aarch64-linux-gnu-gcc qemu-aarch64 same
elsewhere s390x s390x-linux-gnu-gcc qemu-s390x other
[ -n "$tried" ] || exit 77
