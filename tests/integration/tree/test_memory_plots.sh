#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# script/memory-plots: the picture in the documentation is that of the tables in bench/results, and what was measured is drawn
# before what was only foretold.
set -uo pipefail
: "${SOURCE:?set it to the source tree}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0
fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
}
plots() { "$SOURCE/script/memory-plots" --out "$tmp/out.svg" "$@" 2>"$tmp/err"; }

plots || fail "the tables are not drawn: $(cat "$tmp/err")"
cmp -s "$tmp/out.svg" "$SOURCE/docs/pictures/memory-sets.svg" || fail "docs/pictures/memory-sets.svg is old: script/memory-plots draws it"

cat >"$tmp/foretold" <<'TABLE'
A150   jit           predicted 90.1 %, longest wait 385 ms; 4 of 6.00 GiB, turns of 125 ms; asked for: 80
A150   whole         predicted 48.0 %, longest wait 934 ms; 4 of 6.00 GiB, turns of 125 ms
TABLE
cat >"$tmp/measured" <<'TABLE'
A150   in-hbm        4 of 6.00 GiB on 16 and contexts of 2.20, turns of 125 ms: 412 steps/s, ready in 3.0 s, 9.1 s in all
A150   jit           81.4 (79.0 to 82.3) %, predicted 84.6: 0.96; longest wait 501 ms, 60.1 GiB in, 58.2 out; asked for: 80; 14.2 s
TABLE
plots "$tmp/measured" "$tmp/foretold" || fail "$(cat "$tmp/err")"
bars=$(grep -c '<rect x=.*fill-opacity' "$tmp/out.svg")
[[ $bars == 2 ]] || fail "$bars bars, not 2"
[[ $(grep -c 'fill-opacity="0.85"' "$tmp/out.svg") == 1 ]] || fail "what was measured is not drawn"
[[ $(grep -c '<circle' "$tmp/out.svg") == 1 ]] || fail "what was foretold is not drawn beside it"
python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$tmp/out.svg" || fail "that is no XML"
echo nothing >"$tmp/none"
plots "$tmp/none" && fail "a table without sets is drawn"
grep -q 'has no line of a set' "$tmp/err" || fail "no reason: $(cat "$tmp/err")"
plots "$tmp/missing" && fail "a table that is missing is drawn"
((failures == 0))
