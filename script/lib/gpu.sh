# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What script/gpu-test and script/gpu-bench share: the build to use, and the GPU's drivers of OpenCL and Vulkan made known
# to their loaders where the machine (a container, often) has the driver but no entry for it.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$ROOT/build
build_it=yes
gpu_rest=()
vulkan_driver=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json # where containers have it

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

loads() { python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$1" 2>/dev/null; }

# Containers may have the driver's manifest where the loader does not look; and without the libraries of X its library for GLX
# cannot be loaded, of which that for EGL is as good a Vulkan driver.
find_vulkan_driver() {
    local file=${VK_DRIVER_FILES:-${VK_ICD_FILENAMES:-}}
    for file in "$file" /usr/share/vulkan/icd.d/nvidia_icd.json /etc/vulkan/icd.d/nvidia_icd.json "$vulkan_driver"; do
        [[ ! -e $file ]] || break
    done
    [[ -e $file ]] || return 0
    if grep -q libGLX_nvidia "$file" && ! loads libGLX_nvidia.so.0 && loads libEGL_nvidia.so.0; then
        sed 's/libGLX_nvidia/libEGL_nvidia/' "$file" >"$gpu_tmp/nvidia_icd.json"
        file=$gpu_tmp/nvidia_icd.json
    elif [[ $file != "$vulkan_driver" ]]; then
        return 0
    fi
    export VK_DRIVER_FILES=$file
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
    find_vulkan_driver
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
