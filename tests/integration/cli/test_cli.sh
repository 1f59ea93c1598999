#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every command of `fermata', with the real daemon, without one, and with what is none: errors, exit codes, tables.
# shellcheck source=tests/integration/cli/cli_checks.sh
source "${SOURCE:?set it to the source tree}/tests/integration/cli/cli_checks.sh"

# help_texts PROGRAM COMMANDS HIDDEN: it has as many commands at least, and one that it does not show.
help_texts() {
    local program=$BUILD/bin/$1 c commands
    expect 0 "--help" "$program" --help
    silent
    cp "$tmp/out" "$tmp/help"
    mapfile -t commands < <(sed -nE 's/^  ([a-z-]+) +[A-Z].*/\1/p' "$tmp/help")
    that "--help lists the commands" test "${#commands[@]}" -ge "$2"
    for c in "${commands[@]}"; do
        expect 0 "$c --help" "$program" "$c" --help
        out_has "^Usage: $1 $c"
        cp "$tmp/out" "$tmp/by-option"
        expect 0 "help $c" "$program" help "$c"
        [[ $c == help ]] || that "help $c is $c --help" cmp -s "$tmp/out" "$tmp/by-option"
        that "$1(1) names $c" grep -qE "\\b${c/-/\\\\-}\\b" "$SOURCE/man/$1.1" # "\\-" is a hyphen there
    done
    that "what is hidden is not listed" bash -c "! grep -q '$3' '$tmp/help'"
    expect 0 "help" "$program" help
    out_has 'Commands:'
    expect 0 "--version" "$program" --version
    out_has "^$1 [0-9]+\.[0-9]+\.[0-9]+\$"
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
suspend a --wait
suspend a --out --timeout 0
suspend a --out --timeout=-1
suspend a --out --timeout nan
suspend a --out --timeout 1e300
suspend a --out --timeout soon
resume a --timeout 0
resume a --out
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
hint x memory-limit=40GB
hint x memory-request=2P
hint x memory-pin=2
run --memory-limit=-1 true
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
    expect 2 "no study" "$lab" study gedf
    err_has "hint: .fermata-lab study' lists them"
    expect 2 "a policy with a mistake" "$lab" policy-test fiar
    err_has "hint: did you mean 'fair'\?"
    expect 2 "no policy" "$lab" policy-test nonsense
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
        expect 4 "$c without a daemon" "$fermata" $c
        error_form
        # shellcheck disable=SC2086
        expect 4 "$c --json without a daemon" "$fermata" $c --json
        out_is ''
    done
    expect 4 "a named directory" "$fermata" ps --socket "$tmp/nowhere"
    err_has "no daemon runs in $tmp/nowhere"
    err_has "hint: start one with .fermatad --dir $tmp/nowhere'; .fermata doctor' explains$" # \`run' does not, there
    for c in ps "top --once"; do
        # shellcheck disable=SC2086
        expect 4 "$c, where there are several places" "$fermata" $c
        err_has "no daemon runs, neither in $XDG_RUNTIME_DIR/fermata nor in "
        err_has "hint: .fermata run' starts one by itself"
    done
    expect 4 "before the command, too" "$fermata" --socket "$tmp/nowhere" ps
    err_has "$tmp/nowhere"
    expect 4 "and in the environment" env FERMATA_SOCKET="$tmp/nowhere" "$fermata" ps
    err_has "$tmp/nowhere"
    expect 4 "a directory too long for a socket" "$fermata" ps --socket "$(printf '/x%.0s' {1..100})"
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
    eventually grep -q ready "$tmp/fake/log" || fail "the false daemon does not start"
}

end_fake() {
    { kill "$fake" && wait "$fake"; } 2>/dev/null
}

odd_daemons() {
    with_fake silent
    expect 4 "a daemon that never answers" "$fermata" ps --socket "$tmp/fake"
    err_has 'does not answer'
    end_fake
    with_fake close
    expect 4 "a daemon that hangs up" "$fermata" ps --socket "$tmp/fake"
    error_form
    end_fake
    with_fake text 'HTTP/1.0 400 Bad Request'
    expect 4 "something that is no daemon" "$fermata" ps --socket "$tmp/fake"
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
    local command
    with_fake names
    expect 0 "ps" "$fermata" ps --socket "$tmp/fake"
    that "no control characters" bash -c "! LC_ALL=C grep -qP '[\\x00-\\x09\\x0b-\\x1f\\x7f]|\\xc2[\\x80-\\x9f]' '$tmp/out'"
    out_has '^GROUP +USER +PRIO +STATE +LEVEL +DEVICE TIME +WAIT +PREEMPT +QUEUES +COVERAGE$'
    out_has '^evil.* u +7 +ready +1-2 +1h00m +250 us +7 +2 +99\.9%$'
    out_has '^x{300} +ümlaut +7 +suspended +- +0 us +0 us +0 +0 +100%$'
    that "sorted by device time" bash -c "sed -n 2p '$tmp/out' | grep -q ^evil"
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
    for command in 'fermata --help' 'fermata --version' 'fermata help ps' 'fermata ps --help' 'fermata version' \
        'fermata-lab policy-test --list' 'fermata-lab policy-test --json fair'; do
        expect 1 "$command on a full disk" bash -c "exec '$BUILD/bin/'$command >/dev/full"
        that "said once" test "$(sed 's/: No space left on device$//' "$tmp/err")" = "${command%% *}: cannot write the answer"
    done
}

# start_client NAME OPTION...: a program of a group, by `fermata run`; ends when $tmp/NAME.in closes.
start_client() {
    local name=$1
    shift
    mkfifo "$tmp/$name.in"
    "$fermata" run --group "$name" "$@" "$BUILD/tests/cli_client" <"$tmp/$name.in" &
    client=$!
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
    for time in '300 us=0.3' '1.5 ms=1.5' '2.00 s=2000' 3m20s=200000 0h05m=300000 60min=3600000; do # as they are printed
        expect 0 "a time as it is printed" "$fermata" hint alpha "runtime=${time%=*}"
        expect 0 "it is read" "$fermata" ps --json
        json "r['groups'][0]['hints']['runtime_ms'] == ${time#*=}"
    done
    expect 2 "minutes or milliseconds?" "$fermata" hint alpha runtime=5m
    err_has 'hint: write a number and ns, us, ms, s, min or h'
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
    expect 2 "no such policy" "$fermata" policy nonsense
    error_form
    expect 2 "no such parameter" "$fermata" policy fair nonsense=1
    error_form
    expect 2 "nothing in an argument" "$fermata" policy ' '
    expect 2 "out of range" "$fermata" policy fair slice=1h
    expect 0 "the old one stays" "$fermata" policy --json
    json 'r["policy"]["name"] == "round-robin"'
    expect 0 "all in one argument" "$fermata" policy 'fair slice=3ms  granularity=2ms'
    expect 0 "it changed, too" "$fermata" policy
    out_has '^\* fair '
    out_has '^      slice=3ms '
    out_has '^      granularity=2ms '
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
        out_has '1(, 2(, 3)?)?  '
        out_lacks failed
        expect 0 "doctor --json" "$fermata" doctor --json
        json 'r["ok"] and len(r["devices"]) > 0 and 1 in r["devices"][0]["levels"]'
    fi
    take_alone
    expect 1 "doctor, no layer" "$alone" doctor --socket "$tmp/nowhere"
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
    no_layers "$cc"
}

# A loader that has devices, and no layers: bad where there is nothing else.
no_layers() {
    local vendors=/etc/OpenCL/vendors none=$tmp/none/libnone.so
    if [[ -z $(find -L $vendors -name '*.icd' 2>/dev/null) ]]; then
        skip "doctor with a loader without layers (no OpenCL driver)"
        return
    fi
    mkdir -p "$tmp/none" "$tmp/layer"
    echo 'int unsetenv(const char *); __attribute__((constructor)) static void c(void) { unsetenv("OPENCL_LAYERS"); }' |
        "$1" -x c -shared -fPIC -o "$none" -
    expect 1 "doctor, a loader without layers" env LD_PRELOAD="$none" "$fermata" doctor
    out_has '^failed +layers +the OpenCL loader ignores OPENCL_LAYERS'
    [[ -e $BUILD/lib/libfermata-cuda.so ]] || return 0
    expect 0 "doctor, the same where CUDA works" env LD_PRELOAD="$none" LD_LIBRARY_PATH="$BUILD/tests/fakes" "$fermata" doctor
    out_has '^warning +layers +the OpenCL loader ignores OPENCL_LAYERS'
    out_has '^ +remedy: install ocl-icd 2.3'
    cp "$layer" "$tmp/layer"
    expect 1 "doctor, and CUDA's shim is not installed" env LD_PRELOAD="$none" LD_LIBRARY_PATH="$BUILD/tests/fakes" \
        FERMATA_LIBDIR="$tmp/layer" "$alone" doctor
    out_has '^warning +shim '
    out_has '^failed +layers '
}

help_texts fermata 19 _probe
help_texts fermata-lab 7 _bench
usage_errors
without_daemon
odd_daemons
tables
start_daemon
steering
policies
numbers
doctor
bad_drivers
report
