# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What script/gpu-test and script/gpu-bench share: the build to use, and the GPU's OpenCL driver made known
# to the loader where the machine (a container, often) has the driver but no entry for it.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$ROOT/build
build_it=yes
gpu_rest=()

# Options of both: --build DIR (a build made elsewhere; nothing is installed or built). What is none is in gpu_rest.
gpu_options() {
    while (($#)); do
        case $1 in
        --build) BUILD=$(cd "${2:?--build needs a directory}" && pwd); build_it=no; shift ;;
        -h | --help) usage; exit 0 ;;
        -*) usage >&2; exit 2 ;;
        *) gpu_rest+=("$1") ;;
        esac
        shift
    done
}

gpu_setup() {
    if [[ $build_it == yes ]]; then
        # shellcheck source=script/lib/setup.sh
        source "$ROOT/script/lib/setup.sh"
        install_packages "${BUILD_PACKAGES[@]}"
        build release
    fi
    gpu_tmp=$(mktemp -d)
    trap 'rm -rf "$gpu_tmp"' EXIT
    if [[ -z ${OCL_ICD_VENDORS:-} ]] && ! grep -qs nvidia /etc/OpenCL/vendors/*.icd &&
        ldconfig -p | grep -q libnvidia-opencl.so.1; then
        mkdir "$gpu_tmp/vendors"
        cp /etc/OpenCL/vendors/*.icd "$gpu_tmp/vendors/" 2>/dev/null || true
        echo libnvidia-opencl.so.1 >"$gpu_tmp/vendors/nvidia.icd"
        export OCL_ICD_VENDORS=$gpu_tmp/vendors
    fi
    export BUILD SOURCE=$ROOT SANITIZE=
    if ! "$BUILD/bin/fermata" doctor --json >"$gpu_tmp/doctor.json" 2>/dev/null; then
        : # says below what is missing
    fi
    if ! grep -q '"gpu"' "$gpu_tmp/doctor.json"; then
        "$BUILD/bin/fermata" doctor >&2 || true
        echo "no OpenCL GPU on this machine: nothing to do here" >&2
        exit 77
    fi
}

# The images that gpu_guardian rewrites, made where nvcc is if they are not there, or older than what they are made of.
# False: there are none.
guardian_images() {
    local dir=$BUILD/tests/guardian
    if [[ ! -e $dir/kernels.cubin || $ROOT/tests/gpu/guardian/kernels.cu -nt $dir/kernels.cubin ]]; then
        "$ROOT/tests/gpu/guardian/make-images" "$dir" >/dev/null 2>&1 || true
    fi
    [[ -e $dir/kernels.cubin ]]
}
