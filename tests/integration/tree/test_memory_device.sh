#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# script/memory-device with steps that answer for those of a device: what they say gets into its table, and what
# takes too long is stopped.
set -uo pipefail
: "${SOURCE:?set it to the source tree}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0
fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
    sed 's/^/    /' "$tmp/says"
}
stub() { # FILE LINE
    printf '#!/bin/sh\n%s\n' "$2" >"$tmp/$1"
    chmod +x "$tmp/$1"
}
mkdir -p "$tmp/build/bin" "$tmp/bin"
stub build/bin/fermata "echo '\"gpu\"'; echo 'ok       vmm      it is there'; echo 'ok       other    it is not said'"
# shellcheck disable=SC2016 # for the stub to expand
stub bin/python3 'case "$*" in
    *"$SLOW") exec sleep 60 ;;
    *"$BROKEN") echo something else; echo it broke; exit 1 ;;
    *test_memory.py) echo "         ${FERMATA_MEMORY_TABLES:-cuBLAS}: ${PINS:-nothing}"; echo "much more" ;;
    *test_profile.py | *test_foretold.py) echo "         ${*##*/}   so many" ;;
    *) for row; do :; done; echo "$row   so many GB/s" ;;
esac'

device() { # STATUS SLOW BROKEN ARGUMENT...
    local want=$1 got=0
    SLOW=$2 BROKEN=$3 PATH=$tmp/bin:$PATH OCL_ICD_VENDORS=$tmp \
        "$SOURCE/script/memory-device" --build "$tmp/build" --out "$tmp/out" "${@:4}" >"$tmp/says" 2>&1 || got=$?
    [[ $got == "$want" ]] || fail "status $got, not $want: ${*:4}"
}
has() { grep -qE "$1" "$tmp/says" || fail "no '$1'"; }
lacks() { ! grep -qE "$1" "$tmp/says" || fail "'$1'"; }

device 0 none none pins
has 'vmm      it is there'
has 'cuBLAS: nothing'
lacks 'much more|it is not said'
grep -q 'much more' "$tmp/out/pins.txt" || fail "what is not in the table is lost"
lacks 'pins-answered'
export PINS="unknown-call: table da9151d3-3ae6-cc41-a5c0-4f26d533e328, asked by liba.so"
device 0 none none pins
has '^tables that are not known: .*FERMATA_MEMORY_TABLES=da9151d3-3ae6-cc41-a5c0-4f26d533e328$'
has '^         da9151d3-3ae6-cc41-a5c0-4f26d533e328: '
unset PINS
device 1 none train bench
for row in demand switch changed openings servers urgent; do
    has "^$row   so many"
done
has '^bench-train: failed, status 1'
has '^it broke'
device 0 none none evaluation
for row in A150 A300 B150 B300 C150 C300; do
    has "^$row   so many"
done
device 0 none none decoders ablation
for row in D150 D200 D300 M150 A150 A300 K150 K300 NA ND; do
    has "^$row   so many"
done
device 0 none none profile foretold
for row in profile foretold; do
    has "test_$row.py   so many"
done
device 1 demand none --seconds 7 bench
has '^bench-demand: stopped after'
has '^bench-switch: no time left'
device 2 none none
device 2 none none nonsense
device 2 none none --seconds 0 pins
((failures == 0))
