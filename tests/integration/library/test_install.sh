#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install into an empty prefix, then build and run the example against it, as a stranger would: through
# find_package and through pkg-config, in C and in C++.
set -eu
: "${BUILD:?set it to the build directory (ctest does)}" "${SOURCE:?set it to the source directory}"
for tool in cmake pkg-config cc c++; do
	command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
done
tmp=$(mktemp -d)
# What the last installation from this build has put where is not for this test to forget.
manifest=$BUILD/install_manifest.txt
[ ! -f "$manifest" ] || cp "$manifest" "$tmp/manifest"
clean_up()
{
	if [ -f "$tmp/manifest" ]; then cp "$tmp/manifest" "$manifest"; else rm -f "$manifest"; fi
	rm -rf "$tmp"
}
trap clean_up EXIT
prefix=$tmp/prefix
FERMATA_SOCKET=$tmp
export FERMATA_SOCKET
flags=${SANITIZE:+-fsanitize=$SANITIZE}

fail()
{
	echo "FAILED: $*"
	exit 1
}

cmake --install "$BUILD" --prefix "$prefix" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "install"; }
grep -q "configure with -DCMAKE_INSTALL_PREFIX=$prefix" "$tmp/log" || fail "it does not say that units name another place"
lib=$(dirname "$(find "$prefix" -name libfermata.so)")
[ -f "$prefix/include/fermata/fermata.h" ] || fail "no header"
[ -f "$lib/fermata/libcuda.so.1" ] || fail "no stand-in for the driver"
for api in cuda hip ze acl vpi cudla; do
	[ "$(realpath "$lib/fermata/preload/$(uname -m)/libfermata-$api.so")" = "$(realpath "$lib/libfermata-$api.so")" ] ||
		fail "what LD_PRELOAD names does not lead to the shim for $api"
done
[ -f "$prefix/include/fermata/policy.h" ] || fail "no header for policies"
[ -x "$prefix/bin/fermata" ] || fail "no command"

# Manual pages name files that are installed, and pages that are there.
doc=$prefix/share/doc/fermata
for page in "$prefix"/share/man/man?/*; do
	sed 's/\\-/-/g' "$page" >"$tmp/page"
	grep -oE '\<(docs|examples)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' "$tmp/page" >"$tmp/names" || true
	while read -r name; do
		[ -e "$doc/$name" ] || fail "$(basename "$page") names $name, which is not installed"
	done <"$tmp/names"
	! sed 's:examples/::g' "$tmp/page" | grep -nE '(^|[ (])(contrib|script|tests|src)/[a-z]' ||
		fail "$(basename "$page") names a file of the source tree"
	sed -n 's/^\.BR \(fermata[a-z.-]*\) (\([1-8]\)).*/\1.\2/p' "$tmp/page" >"$tmp/names"
	while read -r other; do
		[ -f "$prefix/share/man/man${other##*.}/$other" ] || fail "$(basename "$page") names the page $other"
	done <"$tmp/names"
done
[ -f "$doc/docs/policies.md" ] || fail "no documents"

# The example's own words say whether it worked.
try()
{
	out=$("$@") || fail "$* ended with status $?"
	echo "$out" | grep -q "background has done 400 of 400 commands, scheduled" || fail "$*: $out"
}

outside()
{
	cmake -S "$SOURCE/examples" -B "$tmp/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="$flags"
	cmake --build "$tmp/cmake"
}
(outside) >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "build with find_package"; }
try "$tmp/cmake/own_device"
out=$("$tmp/cmake/gpu_sched") || fail "gpu_sched ended with status $?"
[ "$(echo "$out" | grep -c '^edf .* 0 of 500.* 0 of 500.* 0 of 500')" = 3 ] || fail "gpu_sched: $out"

if [ -x "$tmp/cmake/bind_opencl" ] && [ -z "${SANITIZE:-}" ]; then
	out=$("$prefix/bin/fermata" run --local fixed-priority -- "$tmp/cmake/bind_opencl" 3) || fail "bind_opencl ended with status $?"
	[ "$(echo "$out" | grep -c ': bound$')" = 2 ] || fail "bind_opencl: $out"
	echo "$out" | grep -qx "3 rounds, the last word is 2" || fail "bind_opencl: $out"
	out=$("$tmp/cmake/bind_opencl" 3) || fail "bind_opencl without Fermata ended with status $?"
	[ "$(echo "$out" | grep -c 'without Fermata$')" = 2 ] || fail "bind_opencl without Fermata: $out"
fi

PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion fermata)" = "$("$tmp/prefix/bin/fermata" --version | grep -o '[0-9][0-9.]*' | head -1)" ] ||
	fail "pkg-config and the command disagree on the version"
pc()
{
	pkg-config "$@" fermata
}
# shellcheck disable=SC2046,SC2086 # words are wanted
cc $flags -Wall -Wextra -Werror "$SOURCE/examples/own_device.c" -o "$tmp/own_device" $(pc --cflags --libs) \
	-pthread || fail "build with pkg-config"
LD_LIBRARY_PATH=$lib
export LD_LIBRARY_PATH
try "$tmp/own_device"

cat >"$tmp/version.cc" <<'END'
#include <fermata/fermata.h>
#include <fermata/policy.h>
#include <cstdio>
int main() { return std::printf("%s %d\n", fm_version(), fm_scheduled()) < 0; }
END
# shellcheck disable=SC2046,SC2086
c++ $flags -std=c++11 -Wall -Wextra -Wpedantic -Werror "$tmp/version.cc" -o "$tmp/version" $(pc --cflags --libs) ||
	fail "build in C++"
[ "$("$tmp/version")" = "$(pkg-config --modversion fermata) 0" ] || fail "the C++ program says $("$tmp/version")"

cat >"$tmp/bound.cc" <<'END'
#include <fermata/rta.h>
#include <cstdio>
int main()
{
	fm_rta_segment segment = {4, 1, 3};
	fm_rta_task task = {1, 0, 50, 50, 10, &segment, 1, FM_RTA_UNSET, 0};
	fm_rta_set set = {&task, 1, 2, FM_RTA_UNSET, FM_RTA_UNSET, 0};
	fm_rta_bound bound;
	fm_rta *rta;
	bool ok;
	if (fm_rta_new(&rta, &set, 0) || fm_rta_analyze(rta, FM_RTA_GCAPS_BUSY, &bound, &ok))
		return 1;
	std::printf("%lld\n", static_cast<long long>(bound.wcrt));
	fm_rta_free(rta);
	return !ok;
}
END
# shellcheck disable=SC2046,SC2086
c++ $flags -std=c++11 -Wall -Wextra -Wpedantic -Werror "$tmp/bound.cc" -o "$tmp/bound" \
	$(pkg-config --cflags --libs fermata-rta) || fail "build with the bounds' library"
[ "$("$tmp/bound")" = 22 ] || fail "the bound is $("$tmp/bound")"
grep -q "fermata::fermata-rta" "$lib/cmake/fermata/fermata-targets.cmake" || fail "no fermata::fermata-rta"
nm -D --defined-only "$lib/libfermata-rta.so" | sed -n 's/.* T \(.*\)@@FERMATA_RTA_0\.1$/\1/p' | sort >"$tmp/exported"
grep -o '\<fm_[a-z_]*(' "$prefix/include/fermata/rta.h" | tr -d '(' | sort -u | grep -v '^fm_rta_$' >"$tmp/listed"
while read -r symbol; do
	grep -qx "$symbol" "$tmp/exported" || fail "rta.h declares $symbol, which the library does not have"
done <"$tmp/listed"
[ -s "$tmp/exported" ] || fail "the bounds' library shows nothing"

# A CUDA server: linked with the shim, by either way, or with nothing of it and none there.
cat >"$tmp/server.cc" <<'END'
#include <fermata/cuda.h>
#include <fermata/fermata.h>
#include <cstdio>
int main()
{
	fm_cuda_binding b = fm_cuda_binding();
	b.size = sizeof(b);
	b.group = "urgent";
	return std::printf("%d %d\n", fm_cuda_bind(reinterpret_cast<CUstream_st *>(64), &b), fm_cuda_scheduled()) < 0;
}
END
# shellcheck disable=SC2046,SC2086
c++ $flags -std=c++11 -Wall -Wextra -Wpedantic -Werror "$tmp/server.cc" -o "$tmp/server" \
	$(pkg-config --cflags --libs fermata-cuda) || fail "build with the shim"
[ "$("$tmp/server")" = "-19 0" ] || fail "a server without a driver says $("$tmp/server")"
# shellcheck disable=SC2086
c++ $flags -std=c++11 -fPIE -pie -Wall -Wextra -Werror -DFERMATA_CUDA_OPTIONAL -I"$prefix/include" "$tmp/server.cc" \
	-o "$tmp/optional" || fail "build without the shim"
[ "$("$tmp/optional")" = "-38 0" ] || fail "a server without Fermata says $("$tmp/optional")"
mkdir "$tmp/find"
cat >"$tmp/find/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(server CXX)
find_package(fermata REQUIRED)
add_executable(server $tmp/server.cc)
target_link_libraries(server fermata::cuda)
END
{ cmake -S "$tmp/find" -B "$tmp/find/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_FLAGS="$flags" &&
	cmake --build "$tmp/find/build"; } >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "build with fermata::cuda"; }
[ "$("$tmp/find/build/server")" = "-19 0" ] || fail "a server built by CMake says $("$tmp/find/build/server")"
# What libfermata finds in it is not in that header, nor are sets of tasks, which both libraries have.
nm -D --defined-only "$lib/libfermata-cuda.so" | sed -n 's/.* T \(fm_[a-z_]*\).*/\1/p' | sort >"$tmp/all"
grep -v '^fm_cuda_memory_\|^fm_gpu_\|^fm_bind$\|^fm_unbind$\|^fm_thread_bind$' "$tmp/all" >"$tmp/exported"
grep -o '\<fm_cuda_[a-z_]*(' "$prefix/include/fermata/cuda.h" | tr -d '(' | sort -u | grep -vx fm_cuda_callback >"$tmp/listed"
cmp "$tmp/listed" "$tmp/exported" || fail "cuda.h and the shim differ"
grep '^fm_gpu_' "$tmp/all" >"$tmp/exported"
grep -o '\<fm_gpu_[a-z_]*(' "$prefix/include/fermata/gpu_sched.h" | tr -d '(' | sort -u >"$tmp/listed"
cmp "$tmp/listed" "$tmp/exported" || fail "gpu_sched.h and the shim differ"

binding='^fm_bind$\|^fm_bind_registry$\|^fm_thread_bind$\|^fm_unbind$'
shown=$(nm -D --defined-only "$lib/libfermata-cuda.so" | sed -n 's/.* [TBDVWi] \(.*\)/\1/p' | grep -v "$binding\|^cu[A-Z]\|^fm_cuda_\|^fm_gpu_\|^dlv\?sym$\|^dlerror$\|^ioctl$\|^nvmlDeviceGetMemoryInfo\|^ibv_\(de\|re\)\?reg_mr\|^mlx5dv_devx_umem_\|^gdr_\(un\)\?pin_buffer\|^gdr_close$" || true)
[ -z "$shown" ] || fail "CUDA's shim shows $shown"
shown=$(nm -D --defined-only "$lib/libfermata-hip.so" | sed -n 's/.* [TBDVWi] \(.*\)/\1/p' | grep -v "$binding\|^hip[A-Z]\|^dlsym$\|^dlerror$" || true)
[ -z "$shown" ] || fail "HIP's shim shows $shown"
shown=$(nm -D --defined-only "$lib/libfermata-ze.so" | sed -n 's/.* [TBDVWi] \(.*\)/\1/p' | grep -v "$binding\|^ze[A-Z]\|^dlsym$\|^dlerror$" || true)
[ -z "$shown" ] || fail "Level Zero's shim shows $shown"
for api in cudla vpi acl; do
	shown=$(nm -D --defined-only "$lib/libfermata-$api.so" | sed -n 's/.* [TBDVWi] \(.*\)/\1/p' | grep -v "$binding\|^$api\|^dlsym$\|^dlerror$" || true)
	[ -z "$shown" ] || fail "the shim for $api shows $shown"
done

# A program that says what it knows of its memory: with the library, with its shim, and with nothing of it.
cat >"$tmp/memory.cc" <<'END'
#include <fermata/memory.h>
#include <stdio.h>
int main(void)
{
	struct fm_memory_stat s;
	int want, stat;
	s.size = sizeof(s);
	s.unmanaged = 0;
	want = fm_memory_want(&s, 1, FM_MEMORY_COLD);
	stat = fm_memory_stat(&s, 1, &s);
	return printf("%d %d %d\n", want, stat, (int)s.unmanaged) < 0;
}
END
# shellcheck disable=SC2046,SC2086
c++ $flags -std=c++11 -Wall -Wextra -Wpedantic -Werror "$tmp/memory.cc" -o "$tmp/memory" $(pc --cflags --libs) ||
	fail "build with memory.h"
# shellcheck disable=SC2046,SC2086
cc $flags -std=c99 -Wall -Wextra -Wpedantic -Werror -x c -fsyntax-only "$tmp/memory.cc" $(pc --cflags) ||
	fail "memory.h in C99"
[ "$("$tmp/memory")" = "-38 -38 0" ] || fail "memory.h without Fermata says $("$tmp/memory")"
# shellcheck disable=SC2086
c++ $flags -std=c++11 -fPIE -pie -Wall -Wextra -Werror -DFERMATA_MEMORY_OPTIONAL -I"$prefix/include" "$tmp/memory.cc" \
	-o "$tmp/optional_memory" || fail "build with memory.h alone"
[ "$("$tmp/optional_memory")" = "-38 -38 0" ] || fail "memory.h without the library says $("$tmp/optional_memory")"
if [ -z "${SANITIZE:-}" ]; then
	said=$(LD_PRELOAD=$lib/libfermata-cuda.so "$tmp/memory")
	[ "$said" = "-2 0 1" ] || fail "memory.h with the shim says $said"
fi

# A program that binds queues: with the library, and with nothing of it; and with a shim, which knows no other API.
cat >"$tmp/bind.cc" <<'END'
#include <fermata/bind.h>
#include <stdio.h>
int main(void)
{
	struct fm_binding_hint hint = {FM_HINT_PRIORITY, FM_PRIORITY_HIGH};
	struct fm_binding b = {sizeof(b), "urgent", &hint, 1};
	int bound = fm_bind("opencl", &b, &b), unbound = fm_unbind("opencl", &b);
	return printf("%d %d %d\n", bound, unbound, fm_thread_bind(&b)) < 0;
}
END
# shellcheck disable=SC2046,SC2086
c++ $flags -std=c++11 -Wall -Wextra -Wpedantic -Werror "$tmp/bind.cc" -o "$tmp/bind" $(pc --cflags --libs) ||
	fail "build with bind.h"
# shellcheck disable=SC2046,SC2086
cc $flags -std=c99 -Wall -Wextra -Wpedantic -Werror -x c -fsyntax-only "$tmp/bind.cc" $(pc --cflags) ||
	fail "bind.h in C99"
[ "$("$tmp/bind")" = "-38 -38 -38" ] || fail "bind.h without Fermata says $("$tmp/bind")"
# shellcheck disable=SC2086
c++ $flags -std=c++11 -fPIE -pie -Wall -Wextra -Werror -DFERMATA_BIND_OPTIONAL -I"$prefix/include" "$tmp/bind.cc" \
	-o "$tmp/optional_bind" || fail "build with bind.h alone"
[ "$("$tmp/optional_bind")" = "-38 -38 -38" ] || fail "bind.h without the library says $("$tmp/optional_bind")"
if [ -z "${SANITIZE:-}" ]; then
	for bound in bind optional_bind; do
		said=$(LD_PRELOAD=$lib/libfermata-cuda.so "$tmp/$bound")
		[ "$said" = "-38 -38 0" ] || fail "$bound with CUDA's shim says $said"
	done
fi

# A program that does not use CUDA has of the shim no words, no thread and no connection.
if [ -z "${SANITIZE:-}" ]; then
	(
		exec </dev/null # whatever this script has there
		LD_PRELOAD=$lib/libfermata-cuda.so ls -l /proc/self/task /proc/self/fd >"$tmp/own" 2>"$tmp/said"
	) || fail "ls fails with CUDA's shim"
	[ ! -s "$tmp/said" ] || fail "CUDA's shim says $(cat "$tmp/said")"
	[ "$(sed -n '/task:/,/^$/p' "$tmp/own" | grep -c '^d')" = 1 ] || fail "CUDA's shim has threads: $(cat "$tmp/own")"
	! grep -q 'socket:\|anon_inode\|memfd' "$tmp/own" || fail "CUDA's shim has descriptors: $(cat "$tmp/own")"
fi

# A set of tasks, in virtual time, by a stranger.
cat >"$tmp/set.cc" <<'END'
#include <fermata/gpu_sched.h>
#include <stdio.h>
int main(void)
{
	struct fm_gpu_set_options o = {sizeof(o), "edf", 1, 0, "cpu", false, true, 0, false, NULL, NULL};
	struct fm_gpu_task t = {sizeof(t), "camera", 0, 0, 0, 4000, 0, 0, NULL, NULL, 4, NULL, 0, NULL};
	struct fm_gpu_stats s;
	struct fm_gpu_set *set = fm_gpu_set_new(&o, NULL);
	int task, rc;
	s.size = sizeof(s);
	if (!set)
		return 1;
	task = fm_gpu_task_add(set, &t);
	rc = fm_gpu_set_start(set);
	rc |= fm_gpu_release(set, (unsigned)task, 3);
	rc |= fm_gpu_set_drain(set, FM_FOREVER);
	rc |= fm_gpu_set_stats(set, FM_GPU_SET, &s);
	rc |= printf("%d jobs in %d ns\n", (int)s.done, (int)fm_gpu_set_now(set)) < 0;
	fm_gpu_set_free(set);
	return rc;
}
END
# shellcheck disable=SC2046,SC2086
c++ $flags -std=c++11 -Wall -Wextra -Wpedantic -Werror "$tmp/set.cc" -o "$tmp/set" $(pc --cflags --libs) ||
	fail "build with gpu_sched.h"
# shellcheck disable=SC2046,SC2086
cc $flags -std=c99 -Wall -Wextra -Wpedantic -Werror -x c -fsyntax-only "$tmp/set.cc" $(pc --cflags) ||
	fail "gpu_sched.h in C99"
[ "$("$tmp/set")" = "3 jobs in 12000 ns" ] || fail "a set of tasks says $("$tmp/set")"

# The library shows what the header declares, under one version, and needs libc alone.
sed -n 's/^\t\(fm_[a-z_]*\);$/\1/p' "$SOURCE/src/lib/exports.map" | grep -vx fm_bind_registry | sort >"$tmp/listed"
nm -D --defined-only "$lib/libfermata.so" | sed -n 's/.* T \(.*\)@@FERMATA_0\.1$/\1/p' | sort >"$tmp/exported"
cmp "$tmp/listed" "$tmp/exported" || fail "exports.map and the library differ"
while read -r symbol; do
	grep -q "[ *]$symbol(" "$prefix/include/fermata/fermata.h" "$prefix/include/fermata/memory.h" \
		"$prefix/include/fermata/gpu_sched.h" "$prefix/include/fermata/bind.h" ||
		fail "$symbol is in no header"
done <"$tmp/exported"
grep -ho '\<fm_[a-z_]*(' "$prefix/include/fermata/fermata.h" "$prefix/include/fermata/bind.h" "$prefix/include/fermata/gpu_sched.h" | tr -d '(' | sort -u | while read -r symbol; do
	grep -qx "$symbol" "$tmp/exported" || { echo "$symbol"; exit 1; }
done || fail "the header declares what the library does not have"
if [ -z "${SANITIZE:-}" ]; then
	# Before glibc 2.34 threads and dlopen were not in libc itself.
	libc='^libc\.so\|^ld-linux\|^libpthread\.so\.0$\|^libdl\.so\.2$'
	needed=$(readelf -d "$lib/libfermata.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v "$libc" || true)
	[ -z "$needed" ] || fail "the library needs $needed"
	needed=$(readelf -d "$lib/libfermata-rta.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^libc\.so\|^ld-linux' || true)
	[ -z "$needed" ] || fail "the bounds' library needs $needed"
	needed=$(readelf -d "$lib/libfermata-cuda.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v "$libc" || true)
	[ -z "$needed" ] || fail "CUDA's shim needs $needed"
	needed=$(readelf -d "$lib/fermata/libcuda.so.1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | head -2 | tr '\n' ' ')
	[ "$needed" = "libfermata-cuda.so libcuda-driver.so.1 " ] || fail "the stand-in needs $needed first"

	# Programs of an older C library load them, too.
	for object in libfermata-cuda.so libfermata-opencl.so libfermata-vulkan.so libfermata.so fermata/libcuda.so.1; do
		[ -e "$lib/$object" ] || [ $object = libfermata-vulkan.so ] || fail "there is no $object"
		[ -e "$lib/$object" ] || continue
		newest=$(readelf -V "$lib/$object" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
		[ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.17 ] ||
			fail "$object needs $newest: $(nm -D "$lib/$object" | grep "@$newest" | tr '\n' ' ')"
	done
fi

# Settings that somebody has edited stay; with the prefix /usr they are in /etc, where the daemon looks.
echo "# mine" >>"$prefix/etc/fermata/fermatad.conf"
cmake --install "$BUILD" --prefix "$prefix" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "install again"; }
[ "$(tail -n 1 "$prefix/etc/fermata/fermatad.conf")" = "# mine" ] || fail "an edited fermatad.conf is overwritten"
cmake --build "$BUILD" --target uninstall >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "uninstall"; }
[ -f "$prefix/etc/fermata/fermatad.conf" ] || fail "uninstall removes settings that were edited"
left=$(find "$prefix" -type f ! -name fermatad.conf)
[ -z "$left" ] || fail "uninstall leaves $left"
for folder in "$doc" "$lib/fermata"; do
	[ ! -e "$folder" ] || fail "uninstall leaves $folder"
done
! cmake --build "$BUILD" --target uninstall >"$tmp/log" 2>&1 || fail "there is something to uninstall twice"
grep -q "nothing was installed" "$tmp/log" || fail "uninstall does not say why it does nothing"
cmake -S "$SOURCE" -B "$tmp/usr" -DCMAKE_INSTALL_PREFIX=/usr >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "configure for /usr"; }
DESTDIR=$tmp/root cmake --install "$tmp/usr" --component settings >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "install for /usr"; }
[ -f "$tmp/root/etc/fermata/fermatad.conf" ] || fail "with the prefix /usr fermatad.conf is not in /etc"
echo "ok"
