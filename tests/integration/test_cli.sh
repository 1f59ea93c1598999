#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Drives the real `fermata' with the real daemon: every command, errors and exit codes, what `run' leaves
# to its program, and daemons that start by themselves.
set -u

: "${BUILD:?set it to the build directory (ctest does)}" "${SOURCE:?set it to the source tree}"
SANITIZE=${SANITIZE:-}
here=$SOURCE/tests/integration
fermata=$BUILD/bin/fermata
layer=$BUILD/lib/libfermata-opencl.so
tmp=$(mktemp -d)
jobs_started=() own_slash_tmp=
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
    # shellcheck disable=SC2086 # a list
    kill -9 $pids "${jobs_started[@]}" 2>/dev/null
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
show=(sh -c 'env | grep -E "^(FERMATA|OPENCL)_" || true')
environment_has() {
    checks=$((checks + 1))
    grep -qxF -- "$1" "$tmp/out" || fail "the environment lacks $1"
}

if ! command -v python3 >/dev/null || ! command -v pgrep >/dev/null; then
    echo "python3 or pgrep is missing"
    exit 77
fi

help_texts() {
    local c commands
    expect 0 "--help" "$fermata" --help
    silent
    cp "$tmp/out" "$tmp/help"
    mapfile -t commands < <(sed -nE 's/^  ([a-z-]+) +[A-Z].*/\1/p' "$tmp/help")
    that "--help lists the commands" test "${#commands[@]}" -ge 24
    for c in "${commands[@]}"; do
        expect 0 "$c --help" "$fermata" "$c" --help
        out_has "^Usage: fermata $c"
        cp "$tmp/out" "$tmp/by-option"
        expect 0 "help $c" "$fermata" help "$c"
        [[ $c == help ]] || that "help $c is $c --help" cmp -s "$tmp/out" "$tmp/by-option"
        that "fermata(1) names $c" grep -qE "\\b${c/-/\\\\-}\\b" "$SOURCE/man/fermata.1" # "\\-" is a hyphen there
    done
    that "what is hidden is not listed" bash -c "! grep -q _probe '$tmp/help'"
    expect 0 "help" "$fermata" help
    out_has 'Commands:'
    expect 0 "--version" "$fermata" --version
    out_has '^fermata [0-9]+\.[0-9]+\.[0-9]+$'
}

usage_errors() {
    local words
    while read -r words; do
        # shellcheck disable=SC2086 # words to split
        expect 2 "fermata $words" "$fermata" $words
        err_has '^fermata'
        err_has '(hint|Try)'
        out_is ''
    done <<'LINES'

nonsense
--nonsense
help nonsense
run
run --
run --nonsense true
run --priority 256 true
run --priority urgent true
run --share 101 true
run --weight -1 true
run --deadline 5parsecs true
run --level 0 true
run --level 4 true
run --level two true
run --group / true
run --group 4711 true
run --group q1 true
run --local nonsense true
run --local fifo=1 true
ps argument
hint
hint x
hint x priority
hint x nonsense=1
hint x priority=9999
hint x deadline=-1
hint x latency-nice=20
hint x foreground=yes
suspend
suspend a b
why
why a b
resume
stats argument
reload argument
version argument
doctor argument
policy fair slice
hint x gang=2
hint x level=1
hint x guard-from=11s
run --gang yes true
run --partition 16 true
run --partition 16: true
run --partition :urgent true
run --partition 2000:urgent true
LINES
    expect 2 "a command with a mistake" "$fermata" runn
    err_has "hint: did you mean 'run'\?"
    expect 2 "what is hidden" "$fermata" _prob
    err_has "hint: fermata --help"
    expect 2 "no study" "$fermata" study gedf
    err_has "hint: .fermata study' lists them"
    expect 1 "a policy with a mistake" "$fermata" policy-test fiar
    err_has "hint: did you mean 'fair'\?"
    expect 1 "no policy" "$fermata" policy-test nonsense
    err_has "hint: fermata-policy\(1\) lists them"
    expect 2 "an empty group" "$fermata" run --group '' true
    expect 2 "a group with a space" "$fermata" run --group 'a b' true
    expect 2 "a long group" "$fermata" run --group "$(printf 'x%.0s' {1..64})" true
    expect 2 "a bad local parameter" "$fermata" run --local 'round-robin slice=never' true
    expect 2 "text that is no UTF-8" "$fermata" suspend $'\xff'
    expect 2 "text that is no UTF-8: why" "$fermata" why $'\xff'
    that "usage errors start no daemon" test ! -e "$XDG_RUNTIME_DIR/fermata"
}

without_daemon() {
    local c
    for c in ps "ps -q" "ps -d" "ps -c" stats "top --once" policy "policy fair" reload "why x" "hint x priority=high" "suspend x" "resume x"; do
        # shellcheck disable=SC2086 # words to split
        expect 3 "$c without a daemon" "$fermata" $c
        error_form
        # shellcheck disable=SC2086
        expect 3 "$c --json without a daemon" "$fermata" $c --json
        out_is ''
    done
    expect 3 "a named directory" "$fermata" ps --socket "$tmp/nowhere"
    err_has "no daemon runs in $tmp/nowhere"
    err_has "hint: start one with .fermatad --dir $tmp/nowhere'; .fermata doctor' explains$" # \`run' does not, there
    for c in ps "top --once"; do
        # shellcheck disable=SC2086
        expect 3 "$c, where there are several places" "$fermata" $c
        err_has "no daemon runs, neither in $XDG_RUNTIME_DIR/fermata nor in "
        err_has "hint: .fermata run' starts one by itself"
    done
    expect 3 "before the command, too" "$fermata" --socket "$tmp/nowhere" ps
    err_has "$tmp/nowhere"
    expect 3 "and in the environment" env FERMATA_SOCKET="$tmp/nowhere" "$fermata" ps
    err_has "$tmp/nowhere"
    expect 3 "a directory too long for a socket" "$fermata" ps --socket "$(printf '/x%.0s' {1..100})"
    error_form
    expect 0 "version without a daemon" "$fermata" version
    out_has 'none answers'
    expect 0 "version --json without a daemon" "$fermata" version --json
    json 'r["daemon"] is None and r["version"]'
    that "asking starts no daemon" test ! -e "$XDG_RUNTIME_DIR/fermata"
}

# with_fake MODE...: a daemon that is none, in $tmp/fake.
with_fake() {
    rm -rf "$tmp/fake"
    mkdir "$tmp/fake"
    python3 "$here/cli_fake.py" "$tmp/fake" "$@" >"$tmp/fake/log" &
    fake=$!
    jobs_started+=("$fake")
    eventually grep -q ready "$tmp/fake/log" || fail "the false daemon does not start"
}
end_fake() {
    { kill "$fake" && wait "$fake"; } 2>/dev/null
}

odd_daemons() {
    with_fake silent
    expect 3 "a daemon that never answers" "$fermata" ps --socket "$tmp/fake"
    err_has 'does not answer'
    end_fake
    with_fake close
    expect 3 "a daemon that hangs up" "$fermata" ps --socket "$tmp/fake"
    error_form
    end_fake
    with_fake text 'HTTP/1.0 400 Bad Request'
    expect 3 "something that is no daemon" "$fermata" ps --socket "$tmp/fake"
    err_has 'not a Fermata daemon'
    end_fake
    with_fake text '{"ok":false,"error":{"code":"EPERM","text":"no, said I","hint":"ask again"}}'
    expect 1 "a refusal" "$fermata" suspend x --socket "$tmp/fake"
    err_has '^fermata: no, said I$'
    err_has '^  hint: ask again$'
    end_fake
    with_fake text '{"ok":true,"groups":7,"policy":[],"available":{"a":1},"devices":"x"}'
    expect 0 "a reply of wrong types: ps" "$fermata" ps --socket "$tmp/fake"
    expect 0 "a reply of wrong types: ps -c" "$fermata" ps -c --socket "$tmp/fake"
    expect 0 "a reply of wrong types: policy" "$fermata" policy --socket "$tmp/fake"
    expect 0 "a reply of wrong types: stats" "$fermata" stats --socket "$tmp/fake"
    expect 0 "a reply of wrong types: why" "$fermata" why x --socket "$tmp/fake"
    end_fake
    with_fake text '{"ok":true,"policy":{"name":"fair"},"targets":[1,2,"x"],"groups":[{"id":1,"name":"evil\u001b[2J","devices":[{"device":"d\u0007","state":"ready","account":{"waiting":{"why":7,"rule":[]},"waited_for":[{"group":"\u001b"},3],"waited_why":{"policy":"x"}},"waits":{"count":3}},{}],"queues":{}},{"id":2,"devices":[{"account":[],"state":"suspended"}],"suspended":true}]}'
    expect 0 "odd accounts: why" "$fermata" why x --socket "$tmp/fake"
    that "no control characters in it" bash -c "! LC_ALL=C grep -qP '[\\x00-\\x09\\x0b-\\x1f\\x7f]' '$tmp/out'"
    expect 0 "odd accounts: why --json" "$fermata" why x --json --socket "$tmp/fake"
    end_fake
}

tables() {
    with_fake names
    expect 0 "ps" "$fermata" ps --socket "$tmp/fake"
    that "no control characters" bash -c "! LC_ALL=C grep -qP '[\\x00-\\x09\\x0b-\\x1f\\x7f]|\\xc2[\\x80-\\x9f]' '$tmp/out'"
    out_has '^GROUP +USER +PRIO +STATE +LEVEL +DEVICE TIME +WAIT +PREEMPT +QUEUES +COVERAGE$'
    out_has '^evil.* u +7 +ready +1-2 +1h00m +250 us +7 +2 +99\.9%$'
    out_has '^x{300} +ümlaut +7 +suspended +- +0 us +0 us +0 +0 +100%$'
    that "most device time first" bash -c "sed -n 2p '$tmp/out' | grep -q ^evil"
    expect 0 "ps on a narrow terminal" python3 "$here/cli_pty.py" 100 "$fermata" ps --socket "$tmp/fake"
    out_has '~'
    that "fits the terminal" bash -c "! sed 's/\\x1b\\[[0-9]*m//g' '$tmp/out' | grep -qE '.{101}'"
    out_has $'\033\\[1m'
    expect 0 "without colours" env NO_COLOR=1 python3 "$here/cli_pty.py" 100 "$fermata" ps --socket "$tmp/fake"
    out_lacks $'\033'
    expect 0 "ps -q" "$fermata" ps -q --socket "$tmp/fake"
    out_has '^q1 .* 1 of 2 '
    expect 0 "ps -c" "$fermata" ps -c --socket "$tmp/fake"
    out_has '^GROUP +CALL +UNGOVERNED +UNDIVIDED$'
    out_has '^evil.* evil.* 1 +4$'
    out_has '^evil.* \(others\) +2 +0$'
    that "no control characters" bash -c "! LC_ALL=C grep -qP '[\\x00-\\x09\\x0b-\\x1f\\x7f]|\\xc2[\\x80-\\x9f]' '$tmp/out'"
    end_fake
    for command in --help --version 'help ps' 'ps --help' version 'policy-test --list' 'policy-test --json fair'; do
        expect 1 "$command on a full disk" bash -c "exec '$fermata' $command >/dev/full"
        that "said once" test "$(sed 's/: No space left on device$//' "$tmp/err")" = "fermata: cannot write the answer"
    done
}

run_statuses() {
    that "a daemon starts" eventually quiet "$fermata" run true
    expect 0 "true" "$fermata" run true
    out_is ''
    silent
    expect 1 "false" "$fermata" run false
    silent
    expect 7 "exit 7" "$fermata" run sh -c 'exit 7'
    expect 143 "a signal" bash -c "'$fermata' run sh -c 'kill -TERM \$\$'; exit \$?"
    expect 127 "no such command" "$fermata" run "$tmp/nonexistent"
    error_form
    expect 127 "no such command in PATH" "$fermata" run nonexistent-command-of-fermata
    echo 'not a program' >"$tmp/plain"
    expect 126 "not executable" "$fermata" run "$tmp/plain"
    error_form
    expect 126 "a directory" "$fermata" run "$tmp"
    expect 0 "the command's own options" "$fermata" run printf '%s %s\n' --json --socket
    out_is '--json --socket'
    expect 0 "after --" "$fermata" run -- printf '%s\n' --
    out_is '--'
    checks=$((checks + 1))
    echo hello | "$fermata" run cat >"$tmp/out" 2>"$tmp/err"
    [[ $(<"$tmp/out") == hello ]] || fail "stdin reaches the command"
}

run_environment() {
    expect 0 "the environment" "$fermata" run "${show[@]}"
    environment_has "OPENCL_LAYERS=$(realpath "$layer")"
    out_lacks '^FERMATA_'
    expect 0 "every option" "$fermata" run --priority high --weight 5 --share 25% --deadline 20 \
        --period 33ms --slice=1.5ms --gang 0 --group my.group --level 3 "${show[@]}"
    environment_has 'FERMATA_HINTS=priority=64 weight=5 share=25 deadline=20000000 period=33000000 slice=1500000 gang=0'
    environment_has 'FERMATA_GROUP=my.group'
    environment_has 'FERMATA_LEVEL=3'
    expect 0 "the other hints" "$fermata" run --runtime 800us --foreground 1 --latency-nice=-5 --guard-from 50us \
        --partition 16:urgent "${show[@]}"
    environment_has 'FERMATA_HINTS=runtime=800000 foreground=1 latency-nice=-5 guard-from=50000'
    environment_has 'FERMATA_PARTITION=16:urgent'
    expect 0 "negative priority" "$fermata" run --priority -5 "${show[@]}"
    environment_has 'FERMATA_HINTS=priority=-5'
    expect 0 "nested" "$fermata" run --priority high --weight 3 --group outer "$fermata" run --weight 5 "${show[@]}"
    environment_has 'FERMATA_HINTS=priority=64 weight=5'
    environment_has 'FERMATA_GROUP=outer'
    environment_has "OPENCL_LAYERS=$(realpath "$layer")"
    expect 0 "another layer" env OPENCL_LAYERS=/other/layer.so "$fermata" run "${show[@]}"
    environment_has "OPENCL_LAYERS=$(realpath "$layer"):/other/layer.so"
    expect 0 "never twice" env OPENCL_LAYERS="/a.so:/elsewhere/libfermata-opencl.so" "$fermata" run "${show[@]}"
    environment_has 'OPENCL_LAYERS=/a.so:/elsewhere/libfermata-opencl.so'
    mkdir -p "$tmp/libdir" "$tmp/alone/bin"
    cp "$layer" "$tmp/libdir"
    expect 0 "FERMATA_LIBDIR" env FERMATA_LIBDIR="$tmp/libdir" "$fermata" run "${show[@]}"
    environment_has "OPENCL_LAYERS=$(realpath "$tmp/libdir")/libfermata-opencl.so"
    cp "$fermata" "$tmp/alone/bin"
    expect 1 "no layer anywhere" "$tmp/alone/bin/fermata" run true
    err_has 'cannot find libfermata-opencl.so'
    error_form
    cp -r "$tmp/libdir" "$tmp/a:b"
    expect 1 "a layer whose path cannot be in a list" env FERMATA_LIBDIR="$tmp/a:b" "$tmp/alone/bin/fermata" run true
    error_form
}

run_local() {
    export XDG_RUNTIME_DIR=$tmp/local
    mkdir -m 700 "$XDG_RUNTIME_DIR"
    expect 0 "--local" "$fermata" run --local 'round-robin slice=2ms' "${show[@]}"
    silent
    environment_has 'FERMATA_LOCAL=round-robin slice=2ms'
    expect 0 "local in the environment" env FERMATA_LOCAL=fifo "$fermata" run true
    silent
    that "local starts no daemon" test ! -e "$XDG_RUNTIME_DIR/fermata"
    export XDG_RUNTIME_DIR=$tmp/run
}

# Where the user says where the daemon is, none is started; the program runs all the same.
run_fails_open() {
    mkdir -p "$tmp/empty"
    expect 7 "a named place without a daemon" "$fermata" run --socket "$tmp/empty" sh -c 'exit 7'
    error_form
    err_has "running 'sh' unscheduled"
    expect 0 "its program may join later" "$fermata" run --socket "$tmp/empty" "${show[@]}"
    environment_has "FERMATA_SOCKET=$tmp/empty"
    checks=$((checks + 1))
    (cd "$tmp" && "$fermata" run --socket empty "${show[@]}") >"$tmp/out" 2>"$tmp/err"
    grep -qx "FERMATA_SOCKET=$(realpath "$tmp")/empty" "$tmp/out" || fail "a relative directory is made absolute"
    that "nothing was started there" test -z "$(ls "$tmp/empty")"

    mkdir -p "$tmp/alone/lib"
    cp "$layer" "$tmp/alone/lib"
    mkdir -m 700 "$tmp/nodaemon"
    expect 7 "no fermatad" env XDG_RUNTIME_DIR="$tmp/nodaemon" PATH=/usr/bin:/bin \
        "$tmp/alone/bin/fermata" run sh -c 'exit 7'
    err_has 'cannot execute fermatad'
    printf '#!/bin/sh\necho earlier >&2; echo "no, today I will not"\nexit 1\n' >"$tmp/alone/bin/fermatad"
    chmod +x "$tmp/alone/bin/fermatad"
    expect 7 "a fermatad that will not" env XDG_RUNTIME_DIR="$tmp/nodaemon" "$tmp/alone/bin/fermata" run sh -c 'exit 7'
    err_has 'does not answer: no, today I will not'
    err_has "$tmp/nodaemon/fermata/fermatad.log"
    that "its words are in the log" grep -q 'today I will not' "$tmp/nodaemon/fermata/fermatad.log"

    mkdir -m 777 "$tmp/open" "$tmp/shared"
    chmod 777 "$tmp/open" "$tmp/shared"
    mkdir -m 700 "$tmp/taken"
    ln -s "$tmp/open" "$tmp/taken/fermata"
    expect 7 "a directory that is a link" env XDG_RUNTIME_DIR="$tmp/taken" "$fermata" run sh -c 'exit 7'
    error_form
    that "nothing was put behind the link" test -z "$(ls "$tmp/open")"
}

# Without XDG_RUNTIME_DIR: in a world-writable place, where others may have been there first.
in_slash_tmp() {
    local other=/tmp/fermata-64123
    local as=(env -u XDG_RUNTIME_DIR HOME=/ setpriv --reuid 64123 --regid 64123 --clear-groups)
    if [[ $EUID != 0 ]] || ! command -v setpriv >/dev/null || [[ -e $other || -e /run/user/64123 ]] ||
        ! "${as[@]}" test -x "$fermata" -a -r "$layer"; then
        skip "a hostile /tmp (needs root, setpriv and a build that others can read)"
        return
    fi
    own_slash_tmp=$other
    mkdir -m 777 "$other"
    expect 7 "somebody else's directory" "${as[@]}" "$fermata" run sh -c 'exit 7'
    error_form
    that "it stays empty" test -z "$(ls "$other")"
    expect 3 "nor is it asked" "${as[@]}" "$fermata" ps
    checks=$((checks + 1))
    ! grep -q "$other" "$tmp/err" || fail "somebody else's directory is looked into"
    rmdir "$other"

    that "a daemon starts" eventually quiet "${as[@]}" "$fermata" run true
    expect 0 "a directory of one's own" "${as[@]}" "$fermata" run "${show[@]}"
    silent
    environment_has "FERMATA_SOCKET=$other"
    that "it is private" test "$(stat -c '%a %u' "$other")" = '700 64123'
    expect 0 "the command finds it by itself" "${as[@]}" "$fermata" version
    out_has "in $other$"
    # shellcheck disable=SC2046 # a list
    kill $(daemons "$other")
    that "its daemon leaves" eventually number 0 "$other"
    rm -rf "$other"
}

# number N DIR: so many daemons run there.
number() {
    [[ $(daemons "$2" | wc -l) == "$1" ]]
}

own_daemon() {
    local dir=$XDG_RUNTIME_DIR/fermata pid
    that "run started one" number 1 "$dir"
    that "its directory is private" test "$(stat -c %a "$dir")" = 700
    pid=$(daemons "$dir")
    that "it is nobody's child here" test "$(ps -o ppid= -p "$pid" | tr -d ' ')" != $$
    that "it leads its own session" test "$(ps -o sid= -p "$pid" | tr -d ' ')" != "$(ps -o sid= -p $$ | tr -d ' ')"
    expect 0 "a second run uses it" "$fermata" run true
    that "still one" test "$(daemons "$dir")" = "$pid"
    kill -9 "$pid"
    eventually number 0 "$dir"
    checks=$((checks + 1))
    # The daemon must not hold the pipes of whoever caused it.
    exec 9> >(cat >/dev/null)
    rc=0
    timeout 60 bash -c "'$fermata' run true | cat; exit \${PIPESTATUS[0]}" >"$tmp/out" 2>"$tmp/err" || rc=$?
    exec 9>&-
    [[ $rc == 0 ]] || fail "after a kill -9 the next run starts another, and holds no pipe"
    checks=$((checks + 1))
    ! find "/proc/$(daemons "$dir")/fd" -lname 'pipe:*' 2>/dev/null | grep -q . || fail "the daemon inherited a pipe"
}

five_at_once() {
    local i pids=() bad=0
    export XDG_RUNTIME_DIR=$tmp/five
    mkdir -m 700 "$XDG_RUNTIME_DIR"
    for i in 1 2 3 4 5; do
        "$fermata" run sh -c 'exit 5' >"$tmp/five/$i" 2>&1 &
        pids+=($!)
    done
    for i in "${pids[@]}"; do
        wait "$i"
        [[ $? == 5 ]] || bad=1
    done
    cat "$tmp"/five/[1-5] | grep -vE "^fermata: .*does not answer|^  hint: |unscheduled\$" >"$tmp/err"
    that "all five ran" test $bad = 0
    silent
    that "and one daemon stayed" eventually number 1 "$XDG_RUNTIME_DIR/fermata"
    expect 0 "which answers" "$fermata" ps
    # shellcheck disable=SC2046 # a list
    kill $(daemons "$XDG_RUNTIME_DIR/fermata")
    that "and leaves when told" eventually number 0 "$XDG_RUNTIME_DIR/fermata"
    export XDG_RUNTIME_DIR=$tmp/run
}

# start_client NAME OPTION...: a program of a group, by `fermata run`; ends when $tmp/NAME.in closes.
start_client() {
    local name=$1
    shift
    mkfifo "$tmp/$name.in"
    "$fermata" run --group "$name" "$@" "$BUILD/tests/cli_client" <"$tmp/$name.in" &
    client=$!
    jobs_started+=("$client")
    exec {held}>"$tmp/$name.in"
    that "group $name appears" eventually bash -c "'$fermata' ps -q | grep -q ' $name '"
}

group_is() {
    "$fermata" ps | grep -E "^$1 " | grep -qE " $2 "
}

steering() {
    local first held_first
    start_client alpha --priority high --deadline 20ms
    first=$client held_first=$held
    expect 0 "ps" "$fermata" ps
    out_has "^alpha +$(id -un) +64 "
    expect 0 "ps --json" "$fermata" ps --json
    json 'r["groups"][0]["hints"]["deadline_ms"] == 20 and r["groups"][0]["queues"][0]["pid"] == '"$first"
    expect 0 "ps -q" "$fermata" ps -q
    out_has "^q[0-9]+ +alpha +$first +cli_client +"
    queue=$(awk 'NR == 2 { print $1 }' "$tmp/out")
    expect 0 "ps -d" "$fermata" ps -d
    out_has 'clitest'

    expect 0 "hint by name" "$fermata" hint alpha priority=low weight=7 slice=2 gang=0
    out_is alpha
    expect 0 "it is shown" "$fermata" ps --json
    json 'r["groups"][0]["hints"]["priority"] == -64 and r["groups"][0]["hints"]["slice_ms"] == 2'
    json 'r["groups"][0]["hints"]["gang"] == 0'
    expect 0 "more hints" "$fermata" hint alpha latency-nice=-7 foreground=1 runtime=3
    expect 0 "they are shown" "$fermata" ps --json
    json 'r["groups"][0]["hints"]["latency-nice"] == -7 and r["groups"][0]["hints"]["runtime_ms"] == 3'
    json 'r["groups"][0]["hints"]["foreground"] == 1'
    expect 0 "hint by pid" "$fermata" hint "$first" priority=-3 --json
    json 'r["groups"] == ["alpha"]'
    expect 0 "hint by queue" "$fermata" hint "$queue" priority=realtime
    out_is alpha
    expect 1 "hint nobody" "$fermata" hint nobody priority=high
    err_has "no group, process or queue 'nobody'"
    error_form

    expect 0 "suspend" "$fermata" suspend alpha
    out_is alpha
    that "it is suspended" eventually group_is alpha suspended
    expect 0 "why" "$fermata" why alpha
    out_has 'is suspended by hand$'
    out_has '^  fermata resume alpha$'
    expect 0 "resume" "$fermata" resume "$first" --json
    json 'r["ok"] is True'
    that "it goes on" eventually group_is alpha '(running|ready|idle)'
    expect 1 "suspend nobody" "$fermata" suspend nobody
    expect 1 "resume nobody" "$fermata" resume q99999

    start_client beta
    expect 0 "two groups" "$fermata" ps
    out_has '^alpha '
    out_has '^beta '
    exec {held}>&- {held_first}>&-
    checks=$((checks + 1))
    rc=0
    wait "$first" && wait "$client" || rc=$?
    [[ $rc == 0 ]] || fail "the programs end well"
    that "and their groups leave" eventually bash -c "[[ \$('$fermata' ps | wc -l) == 1 ]]"
}

policies() {
    expect 0 "policy" "$fermata" policy
    out_has '^\* fixed-priority '
    out_has '^  round-robin '
    out_has '^      slice=5ms '
    out_lacks '[0-9]\.[0-9]{6}'
    expect 0 "change it" "$fermata" policy round-robin slice=2ms
    out_is ''
    expect 0 "it changed" "$fermata" policy
    out_has '^\* round-robin '
    out_has '^      slice=2ms .*default 5ms'
    expect 0 "policy --json" "$fermata" policy --json
    json 'r["policy"]["name"] == "round-robin" and len(r["available"]) >= 5'
    expect 1 "no such policy" "$fermata" policy nonsense
    error_form
    expect 1 "no such parameter" "$fermata" policy fair nonsense=1
    error_form
    expect 1 "out of range" "$fermata" policy fair slice=1h
    expect 0 "the old one stays" "$fermata" policy --json
    json 'r["policy"]["name"] == "round-robin"'
    expect 0 "set with --json" "$fermata" policy --json fixed-priority
    json 'r["ok"] is True'
}

numbers() {
    expect 0 "stats" "$fermata" stats
    out_has '^events +[0-9]+ '
    out_has '^rss_kib +[1-9][0-9]* '
    expect 0 "stats --json" "$fermata" stats --json
    json 'r["decisions"] > 0 and r["gate_stores"] > 0'
    expect 0 "version" "$fermata" version
    out_has "^fermatad [0-9.]+ .* in $XDG_RUNTIME_DIR/fermata$"
    expect 0 "version --json" "$fermata" version --json
    json 'r["daemon"]["pid"] == '"$(daemons "$XDG_RUNTIME_DIR/fermata")"' and r["daemon"]["version"] == r["version"]'
}

doctor() {
    if [[ -z $(find -L /etc/OpenCL/vendors -name '*.icd' 2>/dev/null) ]]; then
        skip "doctor with a device (no OpenCL driver)"
    else
        expect 0 "doctor" "$fermata" doctor
        out_has '^ok +daemon '
        out_has '^ok +layer '
        out_has '^ok +opencl '
        out_has '^ok +layers '
        out_has '1(, 2)?  '
        out_lacks failed
        expect 0 "doctor --json" "$fermata" doctor --json
        json 'r["ok"] and len(r["devices"]) > 0 and 1 in r["devices"][0]["levels"]'
    fi
    expect 1 "doctor, no layer" "$tmp/alone/bin/fermata" doctor --socket "$tmp/empty"
    out_has '^failed +daemon '
    out_has '^ +remedy: '
    mkdir -p "$tmp/vendors"
    expect 1 "doctor, no device" env OCL_ICD_VENDORS="$tmp/vendors" OPENCL_VENDOR_PATH="$tmp/vendors" "$fermata" doctor
    out_has '^failed +devices +OpenCL has no device'
    expect 1 "doctor --json, no device" env OCL_ICD_VENDORS="$tmp/vendors" OPENCL_VENDOR_PATH="$tmp/vendors" \
        "$fermata" doctor --json
    json 'not r["ok"] and any(c["verdict"] == "failed" and c["remedy"] for c in r["checks"])'
}

# A driver that crashes and one that hangs, as soon as they are asked for anything.
bad_drivers() {
    local cc=${CC:-cc}
    if ! command -v "$cc" >/dev/null || [[ -n $SANITIZE ]]; then
        skip "doctor with a bad loader (needs a compiler, and no sanitizer)"
        return
    fi
    mkdir -p "$tmp/crash" "$tmp/odd"
    echo '__attribute__((constructor)) static void c(void) { *(volatile int *)8 = 1; }' |
        "$cc" -x c -shared -fPIC -o "$tmp/crash/libOpenCL.so.1" -
    expect 1 "doctor, a loader that crashes" env LD_LIBRARY_PATH="$tmp/crash" "$fermata" doctor
    out_has '^failed +opencl +crashed with signal 11'
    echo 'int clGetPlatformIDs(void) { return 0; }' |
        "$cc" -x c -shared -fPIC -o "$tmp/odd/libOpenCL.so.1" -
    expect 1 "doctor, a loader with holes" env LD_LIBRARY_PATH="$tmp/odd" "$fermata" doctor
    out_has '^failed +opencl +it lacks cl'
}

# Each option that --help has stands in the manual page, and bash offers it.
options_are_told() {
    local command option page
    while read -r command; do
        case $command in
        suspend | resume) page="fermata-hint.1" ;;
        reload | stats | metrics | version | help) page=fermata.1 ;;
        *) page="fermata-${command%% *}.1" ;;
        esac
        # shellcheck disable=SC2086 # words to split
        "$fermata" $command --help | sed -nE 's/^ {2,6}(-., )?(--[a-z-]+).*/\2/p' >"$tmp/options"
        that "$command has options" grep -qx -- --help "$tmp/options"
        # shellcheck disable=SC2086
        expect 0 "complete $command --" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata $command --
        while read -r option; do
            [[ $option != --usage && $option != --help ]] || continue
            out_has "^$option\$"
            that "$page has $option" grep -qF -- "${option//-/\\-}" "$SOURCE/man/$page"
        done <"$tmp/options"
    done < <("$fermata" --help | sed -nE 's/^  ([a-z-]+) +[A-Z].*/\1/p' && printf 'trace %s\n' record dump export)
}

pages_and_completions() {
    local page name rc=0
    for page in "$SOURCE"/man/fermata*.1; do
        name=$(basename "$page")
        if command -v groff >/dev/null; then
            expect 0 "$name" groff -ww -man -Tutf8 -z "$page"
            silent
        elif command -v man >/dev/null; then
            expect 0 "$name" man --warnings -E UTF-8 -l -Tutf8 "$page"
            silent
        else
            skip "rendering $name"
        fi
    done
    expect 0 "bash completion" bash -n "$SOURCE/contrib/completion/fermata"
    silent
    if command -v zsh >/dev/null; then
        expect 0 "zsh completion" zsh -n "$SOURCE/contrib/completion/_fermata"
        silent
    else
        skip "zsh completion"
    fi
    # complete WORD...: what bash offers for the last of the words.
    cat >"$tmp/complete" <<'SCRIPT'
source "$1"
shift
PATH=$BUILD/bin:$PATH
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_fermata 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
SCRIPT
    expect 0 "complete commands" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata res
    out_is resume
    expect 0 "complete options" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata run --pri
    out_is --priority
    expect 0 "complete values" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata run --priority = hi
    out_is high
    expect 0 "complete methods" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata analyze --method = rr-b
    out_is rr-busy
    expect 0 "complete overruns" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata admit --overrun = sto
    out_is stop
    expect 0 "complete studies" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata study gedf-8
    out_is gedf-8
    expect 0 "complete columns" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata top --sort = pre
    out_is preemptions
    expect 0 "complete policies" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata policy fix
    out_is fixed-priority
    expect 0 "complete parameters" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata policy bandwidth p
    out_is period=
    options_are_told
    for name in $("$fermata" policy --json | python3 -c '
import json, sys
print(*[p["name"] for p in json.load(sys.stdin)["available"]])'); do
        that "completions of --local know $name" test "$(grep -lE "local.*$name|\"[a-z -]*$name" \
            "$SOURCE"/contrib/completion/* | wc -l)" = 2
    done
}

installed() {
    local root=$tmp/root
    if [[ ! -e $BUILD/lib/libfermata.so || ! -e $BUILD/cmake_install.cmake ]] || ! command -v cmake >/dev/null; then
        skip "an installation (not all is built)"
        return
    fi
    expect 0 "install" cmake --install "$BUILD" --prefix "$root"
    expect 0 "the installed command finds its layer" "$root/bin/fermata" run "${show[@]}"
    out_has "^OPENCL_LAYERS=$(realpath "$root")/.*/libfermata-opencl.so$"
    that "manual pages" test -e "$root/share/man/man1/fermata-run.1"
    that "completions" test -e "$root/share/bash-completion/completions/fermata" \
        -a -e "$root/share/zsh/site-functions/_fermata"
}

help_texts
usage_errors
without_daemon
odd_daemons
tables
run_statuses
run_environment
run_local
run_fails_open
in_slash_tmp
own_daemon
five_at_once
steering
policies
numbers
doctor
bad_drivers
pages_and_completions
installed

printf '%d checks, %d failed, %d skipped\n' "$checks" "$failures" "$skips"
((failures == 0))
