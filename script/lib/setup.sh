# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the scripts: what they share. Expects strict mode; sets ROOT and goes there.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$ROOT" || exit

# Debian 12 packages: to build and to run the demo; and, besides, to run all tests.
# shellcheck disable=SC2034
BUILD_PACKAGES=(gcc libc6-dev cmake ninja-build pkg-config libsystemd-dev libinih-dev libjansson-dev libmicrohttpd-dev
    libncurses-dev liblz4-dev libzstd-dev systemtap-sdt-dev libcmocka-dev opencl-headers ocl-icd-opencl-dev
    libvulkan-dev pocl-opencl-icd g++ liboclgrind-dev python3-minimal)
# shellcheck disable=SC2034
TEST_PACKAGES=(git clang clang-format libclang-rt-dev llvm oclgrind shellcheck man-db valgrind python3 python3-pyopencl
    python3-numpy clinfo clpeak hashcat ffmpeg libze-dev clblast-tests mesa-vulkan-drivers vulkan-validationlayers systemd prometheus tmux
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user
    musl-tools libc6-i386 libclang-cpp15 libclc-15 libdrm-nouveau2 libllvm15 libllvmspirvlib15 libsensors5)

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "$(basename "$0"): $*"
    exit 1
}

missing_packages() {
    local p
    for p in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) == installed ]] || echo "$p"
    done
}

# Sets `apt`, to run apt-get as root: through sudo where this is not root. Fails where that is not to be had.
as_root() {
    apt=(env DEBIAN_FRONTEND=noninteractive apt-get)
    ((EUID != 0)) || return 0
    if ! command -v sudo >/dev/null || ! { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
        fail "packages are missing; install them first: sudo apt-get install $*"
    fi
    apt=(sudo "${apt[@]}")
}

# What apt-get would remove for the sake of these packages.
removed_for() {
    apt-get -s --no-install-recommends install "$@" 2>/dev/null | awk '$1 == "Remv" { print $2 }' | sort -u
}

# Sets `missing`. 1: there is nothing to do, or nothing that can be done here.
find_missing() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "this is not a Debian system: make sure that you have what these Debian packages hold: $*"
        return 1
    fi
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]}))
}

install_missing() {
    say "installing: $*"
    "${apt[@]}" -qq install -y --no-remove --no-install-recommends "$@" >&2 ||
        fail "apt-get could not install them; see its messages above"
}

# install_packages NAME...: install those that are missing. As root at once, else through sudo. No package is ever removed.
install_packages() {
    local missing apt removed
    find_missing "$@" || return 0
    as_root "${missing[@]}"
    "${apt[@]}" -qq update >&2
    mapfile -t removed < <(removed_for "${missing[@]}")
    ((${#removed[@]} == 0)) ||
        fail "these would be removed if ${missing[*]} came: ${removed[*]}; remove them yourself, or have --no-install"
    install_missing "${missing[@]}"
}

# install_what_goes NAME...: as install_packages; those for which another package would have to be removed are left out,
# and told on stdout, a line each.
install_what_goes() {
    local missing apt removed p can=()
    find_missing "$@" || return 0
    as_root "${missing[@]}"
    "${apt[@]}" -qq update >&2
    mapfile -t removed < <(removed_for "${missing[@]}")
    if ((${#removed[@]} == 0)); then
        can=("${missing[@]}")
    else
        for p in "${missing[@]}"; do
            mapfile -t removed < <(removed_for "${can[@]}" "$p")
            if ((${#removed[@]} == 0)); then
                can+=("$p")
            else
                echo "$p is not installed, since ${removed[*]} would be removed: sudo apt-get install $p, if you do not need that"
            fi
        done
    fi
    ((${#can[@]} == 0)) || install_missing "${can[@]}"
}

# unpack_package NAME FOLDER: what a package holds, in a folder and not in the system: a driver that all programs would see
# otherwise. 1, with the reason on stdout: it cannot be had.
unpack_package() {
    local name=$1 folder=$2 new
    [[ ! -d $folder ]] || return 0
    if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
        echo "$name is not unpacked: this is not a Debian system"
        return 1
    fi
    if ! { mkdir -p "$(dirname "$folder")" && new=$(mktemp -d "$folder.XXXXXX"); }; then
        echo "$name is not unpacked: there can be no $folder"
        return 1
    fi
    if (cd "$new" && apt-get -qq download "$name" && dpkg -x ./*.deb tree) >&2; then
        mv -T "$new/tree" "$folder"
    else
        echo "$name is not unpacked: apt-get download $name, or dpkg -x, fails"
    fi
    rm -rf "$new"
    [[ -d $folder ]]
}

# build PRESET [TARGET...]: configure and build; quiet unless it fails.
build() {
    local preset=$1 log
    shift
    log=$(mktemp)
    say "building ($preset)"
    if ! { cmake --preset "$preset" && cmake --build --preset "$preset" ${1:+--target "$@"}; } >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        rm -f "$log"
        fail "the $preset build failed"
    fi
    rm -f "$log"
}
