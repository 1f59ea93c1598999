#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `fermata run': its status and its command's, what it leaves to its command, and daemons that start by themselves.
# shellcheck source=tests/integration/cli/cli_checks.sh
source "${SOURCE:?set it to the source tree}/tests/integration/cli/cli_checks.sh"

run_statuses() {
    start_daemon
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
    expect 0 "the environment" env -u FERMATA_TEST_LONG "$fermata" run "${show[@]}"
    environment_has "OPENCL_LAYERS=$(realpath "$layer")"
    out_lacks '^FERMATA_'
    expect 0 "every option" "$fermata" run --priority high --weight 5 --share 25% --deadline 20 \
        --period 33ms --slice=1.5ms --gang 0 --group my.group --level 3 "${show[@]}"
    environment_has 'FERMATA_HINTS=priority=64 weight=5 share=25 deadline=20000000 period=33000000 slice=1500000 gang=0'
    environment_has 'FERMATA_GROUP=my.group'
    environment_has 'FERMATA_LEVEL=3'
    expect 0 "the other hints" "$fermata" run --runtime 800us --foreground 1 --latency-nice=-5 --guard-from 50us \
        "${show[@]}"
    environment_has 'FERMATA_HINTS=runtime=800000 foreground=1 latency-nice=-5 guard-from=50000'
    expect 0 "a limit of memory" "$fermata" run --memory-limit 1.5G --memory-request 512M --memory-pin "${show[@]}"
    environment_has 'FERMATA_HINTS=memory-limit=1610612736 memory-request=536870912 memory-pin=1'
    out_lacks '^FERMATA_MEMORY='
    expect 0 "managed memory" "$fermata" run --memory "${show[@]}"
    environment_has 'FERMATA_MEMORY=1'
    out_lacks '^FERMATA_HINTS='
    expect 0 "managed memory and its limit" "$fermata" run --memory=40G "${show[@]}"
    environment_has 'FERMATA_MEMORY=1'
    environment_has 'FERMATA_HINTS=memory-limit=42949672960'
    expect 2 "no memory" "$fermata" run --memory=0 true
    err_has 'leave out the size'
    expect 2 "no amount" "$fermata" run --memory=4Q true
    err_has "'4Q' is not an amount of memory"
    expect 2 "less than none" "$fermata" run --memory=-1 true
    expect 2 "a size without =" "$fermata" run --memory 40G true
    err_has 'write --memory=40G'
    if [[ -e $BUILD/lib/libfermata-cuda.so ]]; then
        expect 0 "a partition" "$fermata" run --partition 16:urgent "${show[@]}"
        environment_has 'FERMATA_PARTITION=16:urgent'
        expect 0 "groups by priority" "$fermata" run --by-stream-priority --group web "${show[@]}"
        environment_has 'FERMATA_BY_STREAM_PRIORITY=1'
        environment_has 'FERMATA_GROUP=web'
        expect 0 "groups by priority, of no name" "$fermata" run --by-stream-priority "${show[@]}"
        out_has '^FERMATA_GROUP=sh-[0-9]*$'
        expect 2 "no room for :high" "$fermata" run --by-stream-priority --group "$(printf '%059d' 0 | tr 0 a)" true
        err_has 'at most 58 characters'
    fi
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
    mkdir -p "$tmp/libdir"
    cp "$layer" "$tmp/libdir"
    expect 0 "FERMATA_LIBDIR" env FERMATA_LIBDIR="$tmp/libdir" "$fermata" run "${show[@]}"
    environment_has "OPENCL_LAYERS=$(realpath "$tmp/libdir")/libfermata-opencl.so"
    take_alone
    mkdir -m 700 "$tmp/nolayer"
    expect 1 "no layer anywhere" env XDG_RUNTIME_DIR="$tmp/nolayer" PATH="$BUILD/bin:$PATH" "$alone" run true
    err_has 'cannot find libfermata-opencl.so'
    error_form
    that "no daemon was started for it" test ! -e "$tmp/nolayer/fermata"
    for option in --guardian --guardian-loops=k --partition=16:urgent; do
        [[ ! -e $BUILD/lib/libfermata-cuda.so ]] || break
        expect 2 "$option without CUDA" "$fermata" run "$option" true
        err_has "^fermata: ${option%=*} is for CUDA"
    done
    cp -r "$tmp/libdir" "$tmp/a:b"
    expect 1 "a layer whose path cannot be in a list" env FERMATA_LIBDIR="$tmp/a:b" "$alone" run true
    error_form
}

# What the settings say of programs that do not ask; the program, and its environment, may refuse.
run_managed() {
    local dir=$tmp/manages table=da9151d3-3ae6-cc41-a5c0-4f26d533e328 pid
    mkdir -m 700 "$dir"
    printf '[memory]\nmanage = note-* env-*\n' >"$tmp/manages.conf"
    "$BUILD/bin/fermatad" --dir "$dir" --config "$tmp/manages.conf" 2>"$tmp/manages.log" &
    pid=$!
    that "a daemon that manages" eventually quiet "$fermata" --socket "$dir" ps
    expect 0 "a group that is named" "$fermata" run --socket "$dir" --group note-7 "${show[@]}"
    environment_has 'FERMATA_MEMORY=1'
    expect 0 "by the environment" env FERMATA_GROUP=note-7 "$fermata" run --socket "$dir" "${show[@]}"
    environment_has 'FERMATA_MEMORY=1'
    expect 0 "by the program's name" "$fermata" run --socket "$dir" env
    out_has '^FERMATA_MEMORY=1$'
    expect 0 "by its path" "$fermata" run --socket "$dir" "$(command -v env)"
    out_has '^FERMATA_MEMORY=1$'
    expect 0 "another group" "$fermata" run --socket "$dir" --group training env
    out_lacks '^FERMATA_MEMORY='
    expect 0 "asked for" "$fermata" run --socket "$dir" --memory --group training env
    out_has '^FERMATA_MEMORY=1$'
    expect 0 "refused" "$fermata" run --socket "$dir" --no-memory env
    out_has '^FERMATA_MEMORY=0$'
    expect 0 "refused by the environment" env FERMATA_MEMORY=0 "$fermata" run --socket "$dir" env
    out_has '^FERMATA_MEMORY=0$'
    expect 2 "both" "$fermata" run --memory --no-memory true
    err_has 'exclude each other'
    printf '[memory]\nmanage = all\n' >"$tmp/manages.conf"
    expect 0 "read again" "$fermata" reload --socket "$dir"
    expect 0 "all" "$fermata" run --socket "$dir" --group training env
    out_has '^FERMATA_MEMORY=1$'
    out_lacks '^FERMATA_MEMORY_TABLES='
    printf '[memory]\nharmless_tables = %s\n' "$table" >"$tmp/manages.conf"
    expect 0 "read again" "$fermata" reload --socket "$dir"
    expect 0 "tables" "$fermata" run --socket "$dir" --memory env
    out_has "^FERMATA_MEMORY_TABLES=$table$"
    expect 0 "of its own" env FERMATA_MEMORY_TABLES= "$fermata" run --socket "$dir" --memory env
    out_has '^FERMATA_MEMORY_TABLES=$'
    expect 0 "not managed" "$fermata" run --socket "$dir" env
    out_lacks '^FERMATA_MEMORY'
    printf '[memory]\nmanage = off\n' >"$tmp/manages.conf"
    expect 0 "read again" "$fermata" reload --socket "$dir"
    expect 0 "none" "$fermata" run --socket "$dir" env
    out_lacks '^FERMATA_MEMORY='
    kill "$pid"
    wait "$pid"
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
    if [[ -z $SANITIZE && -e $BUILD/lib/libfermata-cuda.so ]]; then
        expect 0 "no shim for CUDA, and it was asked for" "$alone" run --local fifo --guardian true
        err_has 'CUDA programs run unscheduled: cannot find libfermata-cuda.so near '
        err_has 'hint: install'
        expect 0 "no shim for CUDA, and no layer for Vulkan" "$alone" run --local fifo true
        [[ -e /dev/nvidiactl ]] || silent
    fi
    if [[ -z $SANITIZE && -e $BUILD/lib/libfermata-vulkan.so ]]; then
        expect 0 "no layer for Vulkan, and it was asked for" env FERMATA_VULKAN=1 "$alone" run --local fifo true
        err_has 'Vulkan programs run unscheduled: cannot find fermata/vulkan/VkLayer_fermata.json near '
        err_has 'hint: install .* or give --no-vulkan'
    fi
    mkdir -m 700 "$tmp/nodaemon"
    expect 7 "no fermatad" env XDG_RUNTIME_DIR="$tmp/nodaemon" PATH=/usr/bin:/bin \
        "$alone" run sh -c 'exit 7'
    err_has 'cannot execute fermatad'
    printf '#!/bin/sh\necho earlier >&2; echo "no, today I will not"\nexit 1\n' >"$tmp/alone/bin/fermatad"
    chmod +x "$tmp/alone/bin/fermatad"
    expect 7 "a fermatad that will not" env XDG_RUNTIME_DIR="$tmp/nodaemon" "$alone" run sh -c 'exit 7'
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
    [[ $EUID != 0 ]] || pgrep -U 64123 >/dev/null || rm -rf "$other" # of a run that was ended
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
    expect 4 "nor is it asked" "${as[@]}" "$fermata" ps
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
    that "there is another" eventually number 1 "$dir"
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

run_statuses
run_environment
run_managed
run_local
run_fails_open
in_slash_tmp
own_daemon
five_at_once
report
