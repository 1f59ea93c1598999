# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What test_cli*.sh share: the real `fermata' is run with a daemon of this test's own, and what comes of it is checked.
# The scripts end with report.
set -u

: "${BUILD:?set it to the build directory (ctest does)}" "${SOURCE:?set it to the source tree}"
SANITIZE=${SANITIZE:-}
here=$SOURCE/tests/integration/cli
fermata=$BUILD/bin/fermata
# shellcheck disable=SC2034 # for who sources this
lab=$BUILD/bin/fermata-lab
layer=$BUILD/lib/libfermata-opencl.so
tmp=$(mktemp -d)
own_slash_tmp=
checks=0 failures=0 skips=0
unset FERMATA_TEST_SECONDS FERMATA_SOCKET FERMATA_GROUP FERMATA_HINTS FERMATA_LEVEL FERMATA_LOCAL FERMATA_LIBDIR OPENCL_LAYERS
export XDG_RUNTIME_DIR=$tmp/run LC_ALL=C.UTF-8
mkdir -m 700 "$XDG_RUNTIME_DIR"

# Processes whose command line names a directory of this test: daemons, whoever started them.
daemons() {
    pgrep -f -- "fermatad --dir $1( |\$)" || true
}

# shellcheck disable=SC2317 # called by trap
clean_up() {
    local pids
    pids=$(daemons "$tmp.*")
    [[ -z $own_slash_tmp ]] || pids+=" $(daemons "$own_slash_tmp")"
    # shellcheck disable=SC2046,SC2086 # lists
    kill -9 $pids $(jobs -p) 2>/dev/null
    wait 2>/dev/null
    rm -rf "$tmp" ${own_slash_tmp:+"$own_slash_tmp"}
}
trap clean_up EXIT
trap 'exit 1' INT TERM

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n  status %s\n' "$1" "${rc:-?}"
    sed 's/^/  stdout: /' "$tmp/out"
    sed 's/^/  stderr: /' "$tmp/err"
}

# expect STATUS NAME COMMAND...: run it, keep its output, compare its status.
expect() {
    local status=$1 name=$2
    shift 2
    checks=$((checks + 1))
    timeout 60 "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    rc=$?
    [[ $rc == "$status" ]] || fail "$name: status is not $status"
}

# Of what expect() ran last. ERE; out_is and err_is compare all.
out_has() {
    checks=$((checks + 1))
    grep -qE -- "$1" "$tmp/out" || fail "stdout lacks: $1"
}
out_lacks() {
    checks=$((checks + 1))
    ! grep -qE -- "$1" "$tmp/out" || fail "stdout has: $1"
}
out_is() {
    checks=$((checks + 1))
    [[ $(<"$tmp/out") == "$1" ]] || fail "stdout is not: $1"
}
err_has() {
    checks=$((checks + 1))
    grep -qE -- "$1" "$tmp/err" || fail "stderr lacks: $1"
}
silent() {
    checks=$((checks + 1))
    [[ ! -s $tmp/err ]] || fail "stderr is not empty"
}
# Errors have the form "fermata: text", "  hint: what to do".
error_form() {
    checks=$((checks + 1))
    { grep -qE '^fermata: .+' "$tmp/err" && grep -qE '^  hint: .+' "$tmp/err"; } || fail "no error with a hint"
}
# json EXPRESSION: stdout is JSON, and the expression, with r for it, is true.
json() {
    checks=$((checks + 1))
    python3 -m json.tool "$tmp/out" >/dev/null 2>"$tmp/err" || fail "stdout is not JSON"
    python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); sys.exit(not ('"$1"'))' "$tmp/out" \
        2>"$tmp/err" || fail "not true of the JSON: $1"
}
that() {
    local name=$1
    shift
    checks=$((checks + 1))
    "$@" || fail "$name"
}
skip() {
    skips=$((skips + 1))
    echo "skipped: $1"
}
# eventually COMMAND...: within a minute.
eventually() {
    local i
    for ((i = 0; i < 1200; i++)); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.05
    done
    return 1
}
# quiet COMMAND...: it says nothing. Of a daemon that takes more than 2 s to start, as on a busy machine, `run' does.
# shellcheck disable=SC2317 # called by eventually
quiet() {
    [[ -z $("$@" 2>&1 >/dev/null) ]]
}
# What of its environment concerns us, as a command for `fermata run'.
# shellcheck disable=SC2034 # for who sources this
show=(sh -c 'env | grep -E "^(FERMATA|OPENCL)_" || true')
environment_has() {
    checks=$((checks + 1))
    grep -qxF -- "$1" "$tmp/out" || fail "the environment lacks $1"
}

# number N DIR: so many daemons run there.
number() {
    [[ $(daemons "$2" | wc -l) == "$1" ]]
}
# Where `fermata run' finds none it starts one.
start_daemon() {
    that "a daemon starts" eventually quiet "$fermata" run true
}
# The command with nothing beside it, as $alone.
alone=$tmp/alone/bin/fermata
take_alone() {
    mkdir -p "$tmp/alone/bin"
    cp "$fermata" "$tmp/alone/bin"
}
report() {
    printf '%d checks, %d failed, %d skipped\n' "$checks" "$failures" "$skips"
    ((failures == 0))
}

if ! command -v python3 >/dev/null || ! command -v pgrep >/dev/null; then
    echo "python3 or pgrep is missing"
    exit 77
fi
