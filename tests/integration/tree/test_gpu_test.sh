#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# script/gpu-test on a machine where a part cannot be tried: it is named at the end, and what failed is no skip. And a build
# that script/gpu-pack packs for such a machine.
set -uo pipefail
: "${SOURCE:?set it to the source tree}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0
fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
    sed 's/^/    /' "$tmp/out"
}
stub() { # NAME LINE
    printf '#!/bin/sh\n%s\n' "$2" >"$tmp/bin/$1"
    chmod +x "$tmp/bin/$1"
}

# A build whose doctor sees a GPU, and a machine without nvcc on which python3 runs no test but answers for it.
mkdir -p "$tmp/build/bin" "$tmp/bin"
# shellcheck disable=SC2016 # for the stub to expand
stub python3 'case $1 in *"$ABSENT") exit 77 ;; *"$BROKEN") exit 1 ;; esac'
stub ldconfig 'echo "libcuda.so.1"'
stub nvcc 'exit 1'
stub fermata "echo '\"gpu\"'"
mv "$tmp/bin/fermata" "$tmp/build/bin"

gpu_test() { # STATUS ABSENT BROKEN [OPTION...]
    local want=$1 got=0
    ABSENT=$2 BROKEN=$3 PATH=$tmp/bin:$PATH OCL_ICD_VENDORS=$tmp "$SOURCE/script/gpu-test" --build "$tmp/build" "${@:4}" >"$tmp/out" 2>&1 || got=$?
    [[ $got == "$want" ]] || fail "status $got, not $want"
}

gpu_test 0 test_nccl.py none
sed -n '/^not tried here:$/,$p' "$tmp/out" >"$tmp/end"
grep -qx 'nccl: python3 tests/gpu/test_nccl.py' "$tmp/end" || fail "NCCL is not named"
grep -q '^kernels: the guardian .*no nvcc' "$tmp/end" || fail "the guardian is not named"
[[ $(wc -l <"$tmp/end") == 3 ]] || fail "something else is named"
gpu_test 1 test_torch.py test_guard.py
grep -qx 'torch: python3 tests/gpu/test_torch.py' "$tmp/out" || fail "PyTorch is not named"
sed -n '/^failed:$/,$p' "$tmp/out" | grep -q 'test_guard.py' || fail "what failed is not named"
ran() { # PART...: these, and no others
    [[ $(sed -n 's/^\([a-z_]*\): [0-9]* s$/\1/p' "$tmp/out" | sort | xargs) == "$(printf '%s\n' "$@" | sort | xargs)" ]] || fail "not just $*"
}
gpu_test 0 none none --from torch_guarded
ran torch_guarded nccl profile memory record pad sets kill_blocks vulkan
gpu_test 0 none none --to ways
ran torch ways
gpu_test 0 none none --from ways --to streams --only streams,memory,ways
ran ways streams
gpu_test 2 none none --only calls,nonsense
grep -q "there is no part 'nonsense'; the parts are: torch" "$tmp/out" || fail "nonsense is not named"
gpu_test 2 none none --from memory --to torch
for bad in --only --from --to; do
    gpu_test 2 none none "$bad"
done
stub ldconfig 'echo nothing'
gpu_test 0 none none
grep -qx 'CUDA: all of it (no libcuda.so.1)' "$tmp/out" || fail "CUDA is not named"

# What is packed of this build runs where it is unpacked; what only tests without a GPU need is not there.
: "${BUILD:?set it to the build}"
"$SOURCE/script/gpu-pack" --build "$BUILD" "$tmp/pack.tar.gz" >"$tmp/out" 2>&1 || fail "gpu-pack: status $?"
tail -n 1 "$tmp/out" | grep -q "to be in $(realpath "$BUILD")\$" || fail "gpu-pack does not say where to unpack"
mkdir "$tmp/there"
tar --extract --gzip --file "$tmp/pack.tar.gz" --directory "$tmp/there" >"$tmp/out" 2>&1 || fail "tar: status $?"
there=$tmp/there$(realpath "$BUILD")
"$there/bin/fermata" --version >"$tmp/out" 2>&1 || fail "the packed fermata: status $?"
for of in lib/libfermata-cuda.so tests/cuda_gpu_rows; do
    [[ -s $there/$of ]] || fail "$of is not packed"
done
[[ ! -e $there/tests/fakes && ! -e $there/tests/test_sched ]] || fail "it is packed whole"
"$SOURCE/script/gpu-pack" --build "$tmp" "$tmp/none.tar.gz" >"$tmp/out" 2>&1 && fail "what is no build was packed"
grep -q "is not a build" "$tmp/out" || fail "it is not said that it is no build"
((failures == 0))
