#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Manual pages and completions, which have each option that --help has, and an installation.
# shellcheck source=tests/integration/cli/cli_checks.sh
source "${SOURCE:?set it to the source tree}/tests/integration/cli/cli_checks.sh"

# Each option that --help has stands in the manual page, and bash offers it.
options_are_told() {
    local program command option page
    while read -r program command; do
        case $command in
        suspend | resume) page="fermata-hint.1" ;;
        reload | stats | metrics | version | help) page=$program.1 ;;
        *) page="$program-${command%% *}.1" ;;
        esac
        # shellcheck disable=SC2086 # words to split
        "$BUILD/bin/$program" $command --help | sed -nE 's/^ {2,6}(-., )?(--[a-z-]+).*/\2/p' >"$tmp/options"
        that "$command has options" grep -qx -- --help "$tmp/options"
        # shellcheck disable=SC2086
        expect 0 "complete $command --" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" $program $command --
        while read -r option; do
            [[ $option != --usage && $option != --help ]] || continue
            out_has "^$option\$"
            that "$page has $option" grep -qF -- "${option//-/\\-}" "$SOURCE/man/$page"
        done <"$tmp/options"
    done < <(for program in fermata fermata-lab; do
        "$BUILD/bin/$program" --help | sed -nE "s/^  ([a-z-]+) +[A-Z].*/$program \\1/p"
    done && printf '%s\n' 'fermata trace record' 'fermata trace dump' 'fermata-lab trace export')
}

pages_and_completions() {
    local page name target rc=0
    for page in "$SOURCE"/man/fermata*.[1-8]; do
        name=$(basename "$page")
        target=$(sed -n 's/^\.so //p' "$page") # another name of a page
        if [[ -n $target ]]; then
            that "$name is $target" test -f "$SOURCE/man/${target#man?/}"
            continue
        fi
        if command -v groff >/dev/null; then
            expect 0 "$name" groff -ww -man -Tutf8 -z "$page"
            silent
            # A macro of two fonts in turn takes the spaces from between words.
            expect 0 "$name" groff -man -Tascii -P-cbou "$page"
            out_lacks '[a-z]{28,}'
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
$(complete -p "$1" | sed 's/.*-F \([^ ]*\).*/\1/') 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
SCRIPT
    expect 0 "complete commands" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata res
    out_is resume
    expect 0 "complete commands of the laboratory" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata-lab po
    out_is policy-test
    expect 0 "each completes its own" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata si
    out_is ''
    expect 0 "complete options" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata run --pri
    out_is --priority
    expect 0 "complete values" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata run --priority = hi
    out_is high
    expect 0 "complete methods" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata analyze --method = rr-b
    out_is rr-busy
    expect 0 "complete overruns" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata admit --overrun = sto
    out_is stop
    expect 0 "complete studies" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata-lab study gedf-8
    out_is gedf-8
    expect 0 "complete columns" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata top --sort = pre
    out_is preemptions
    expect 0 "complete policies" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata policy fix
    out_is fixed-priority
    expect 0 "complete parameters" bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" fermata policy bandwidth p
    out_is period=
    options_are_told
    # They ask the command for policies, and have no list of their own.
    expect 0 "a daemon is there, after all this time" "$fermata" run true
    "$fermata" policy --json >"$tmp/policies"
    expect 0 "a daemon has those built in" python3 -c '
import json, sys
print(*[p["name"] for p in json.load(open(sys.argv[1]))["available"]], sep="\n")' "$tmp/policies"
    cp "$tmp/out" "$tmp/available"
    expect 0 "names of policies" "$fermata" policy --names --socket=/nonexistent
    out_is "$(cat "$tmp/available")"
    expect 2 "names, and one" "$fermata" policy --names fair
    err_has 'takes no NAME'
    for words in "fermata policy" "fermata run --local =" "fermata-lab sim --policy" "fermata-lab bench --policy" "fermata-lab policy-test"; do
        # shellcheck disable=SC2086 # words to split
        expect 0 "complete policies of $words" env FERMATA_SOCKET=/nonexistent \
            bash "$tmp/complete" "$SOURCE/contrib/completion/fermata" $words least
        out_is least-laxity
    done
    for name in heterogeneous-priority least-laxity mlfq; do
        that "no completion names $name" test -z "$(grep -l -e "$name" "$SOURCE"/contrib/completion/*)"
    done
    expect 0 "zsh asks, too" grep -q 'fermata policy --names' "$SOURCE/contrib/completion/_fermata"
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
        -a -e "$root/share/bash-completion/completions/fermata-lab" -a -e "$root/share/zsh/site-functions/_fermata"
    expect 0 "the installed command finds the laboratory" "$root/bin/fermata" study
    out_has '^gcaps-8a '
    expect 0 "and the laboratory finds the command" "$root/bin/fermata-lab" bench --driver sim --time 1s --alone 1 \
        --warm-up 1 --json "$SOURCE/examples/bench/a.json"
    json 'r["runs"][0]["mode"] == "fermata" and all(t["finished"] for t in r["runs"][0]["tasks"])'
    if command -v man >/dev/null && [[ -z $SANITIZE ]]; then
        expect 0 "an old name of a page" env MANPATH="$root/share/man" man -P cat fermata-sim
        out_has 'fermata-lab-sim '
    fi
    expect 0 "install into a place apart" env DESTDIR="$tmp/apart" cmake --install "$BUILD" --prefix /opt/fermata
    expect 0 "the laboratory is found there" "$tmp/apart/opt/fermata/bin/fermata" study
    out_has '^gcaps-8a '
    if [[ -e $BUILD/lib/libfermata-cuda.so && -z $SANITIZE ]]; then
        expect 0 "install where LD_PRELOAD cannot name the shim" cmake --install "$BUILD" --prefix "$root of mine"
        expect 0 "it runs" env FERMATA_CUDA=1 "$root of mine/bin/fermata" run env
        err_has '^fermata: CUDA programs run unscheduled: the path of the shim is .* of mine/'
        out_lacks '^LD_PRELOAD='
    fi
}

start_daemon
pages_and_completions
installed
report
