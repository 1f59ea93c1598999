#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shim for CUDA on another processor: built for arm64, run in an emulator over a driver that is a fake, known to a
# daemon of this machine. Its way into dlsym is written in assembly.
set -eu
: "${BUILD:?set it to the build directory (ctest does)}" "${SOURCE:?set it to the source directory}"
cc=aarch64-linux-gnu-gcc
[ -z "${SANITIZE:-}" ] || { echo "the emulator runs no sanitizers"; exit 77; }
for tool in $cc qemu-aarch64; do
	command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
done
tmp=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"; rm -rf "$tmp"' EXIT
FERMATA_SOCKET=$tmp/run
export FERMATA_SOCKET
root=$(dirname "$(dirname "$($cc -print-file-name=libc.so.6)")")
flags="-std=gnu11 -include $SOURCE/src/base/glibc.h -D_GNU_SOURCE -I$SOURCE/src -I$SOURCE/include -pthread"

fail()
{
	echo "FAILED: $*"
	exit 1
}

# $flags are several words.
# shellcheck disable=SC2086
build()
{
	cd "$SOURCE"
	mkdir "$tmp/lib"
	# Debian has liblz4 and libzstd for arm64 in another architecture's archive: no image here is packed.
	cat >"$tmp/unpack.c" <<-'C'
		#include <lz4.h>
		#include <zstd.h>
		size_t ZSTD_decompress(void *to, size_t room, const void *from, size_t n) { return (size_t)-1; }
		unsigned ZSTD_isError(size_t rc) { return rc == (size_t)-1; }
		int LZ4_decompress_safe(const char *from, char *to, int n, int room) { return -1; }
	C
	# CUDA's shim finds the driver's functions itself: src/shim/calls is for those that have a table of calls.
	sources=$(for module in base bind board device mem predict api/cuda/core code/cuda api/cuda/cache cache policy sched bridge xqueue local trace shim \
		api/cuda/gpusched api/cuda/shim gpusched idem/kill; do find "src/$module" -name '*.c' ! -path 'src/shim/calls/*'; done)
	# Without what nobody calls, as from the modules' archives.
	$cc $flags -fPIC -ffunction-sections -Wl,--gc-sections -fvisibility=hidden -DFM_VERSION='"test"' -shared -Wl,-Bsymbolic-functions \
		-Wl,-soname,libfermata-cuda.so -o "$tmp/lib/libfermata-cuda.so" $sources src/api/*.c \
		"$tmp/unpack.c" -lm
	newest=$(${cc%gcc}readelf -V "$tmp/lib/libfermata-cuda.so" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
	[ "$newest" = GLIBC_2.17 ] || fail "the shim needs $newest: $(${cc%gcc}nm -D "$tmp/lib/libfermata-cuda.so" | grep "@$newest" | tr "\n" " ")"
	$cc $flags -fPIC -shared -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1 -o "$tmp/lib/libcuda.so.1" tests/fakes/cuda/*.c src/device/digest.c "$tmp/unpack.c" -lm
	for set in $sets; do
		$cc $flags -DCUDA_PTX="\"$SOURCE/tests/integration/cuda/cuda_kernels.ptx\"" -o "$tmp/$set" "$(find tests/integration -name "$set.c")"
	done
	mkdir "$tmp/recorder"
	$cc $flags -fPIC -shared -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1 -o "$tmp/recorder/libcuda.so.1" tests/fakes/recorder/recorder.c
	$cc $flags -Itests -fPIE -pie -o "$tmp/cuda_table" tests/integration/cuda/cuda_table.c "$tmp/recorder/libcuda.so.1"
}

run()
{
	timeout 120 qemu-aarch64 -L "$root" -E LD_LIBRARY_PATH="$tmp/lib:$root/lib" "$@" || fail "$* ended with status $?"
}

table()
{
	timeout 120 qemu-aarch64 -L "$root" -E LD_LIBRARY_PATH="$tmp/recorder:$root/lib" -E LD_PRELOAD="$tmp/lib/libfermata-cuda.so" "$tmp/cuda_table"
}

# Each call of the shim's table gives the driver its parameters, however many this processor has registers for. Those with a
# structure by value are too wide for it.
each_call()
{
	table </dev/null | awk '$1 == "entry" && $2 !~ /^cuIpcOpenMemHandle/ { print "call", $2, "link", (NF > 3 ? "own" : "default") }' >"$tmp/calls"
	table <"$tmp/calls" | awk '$1 != "entry" && $1 != "ready" && $1 != "wide"' >"$tmp/answers"
	echo "$(wc -l <"$tmp/answers") calls of the table"
	paste -d ' ' "$tmp/calls" "$tmp/answers" | awk '/ ok$/ { n++ } ! / ok( differs 0 copied [0-9]+)?$/ { print; bad = 1 }
		END { exit bad || n < 200 }' || fail "the driver was given something else"
}

sets=cuda_order
[ -z "${FERMATA_TEST_LONG:-}" ] || sets="cuda_launch cuda_memory cuda_order cuda_graph"
build
mkdir -m 700 "$FERMATA_SOCKET"
"$BUILD/bin/fermatad" --dir "$FERMATA_SOCKET" &
daemon=$!
for _ in $(seq 300); do
	[ ! -S "$FERMATA_SOCKET/control.sock" ] || break
	sleep 0.1
done
for set in $sets; do
	run "$tmp/$set" >"$tmp/native"
	run -E LD_PRELOAD="$tmp/lib/libfermata-cuda.so" "$tmp/$set" >"$tmp/governed"
	cmp "$tmp/native" "$tmp/governed" || fail "$set has other results under the shim"
done
each_call
governed=$("$BUILD/bin/fermata" stats | awk '$1 == "governed" { print $2 }')
echo "$governed calls governed"
[ "$governed" -gt 1000 ] || fail "nothing was governed"
