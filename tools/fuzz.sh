#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Fuzzes every target for SECONDS each under ASan and UBSan, JOBS targets at a time; RUNS in the environment ends a target after so
# many executions. New inputs go to build/fuzz-corpus, what was found to build/fuzz-findings, a line of counts a target to
# build/fuzz-counts.tsv: date, commit, target, seconds, executions, findings. Ends with one line: targets without and with a finding.
# Usage: tools/fuzz.sh SECONDS [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
shift
cmake --preset fuzz >/dev/null
cmake --build build/fuzz -j "${JOBS:-2}"
if [ $# -eq 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        [ -f "$source" ] || { echo "fuzz: no targets in tests/fuzz" >&2; exit 1; }
        name=$(basename "$source" .c)
        set -- "$@" "${name#fuzz_}"
    done
fi

one() {
    name=$1
    mkdir -p "build/fuzz-corpus/$name" "build/fuzz-findings/$name"
    seeds=()
    [ -d "tests/fuzz/corpus/$name" ] && seeds=("tests/fuzz/corpus/$name")
    begin=$SECONDS
    found=0
    # Stacks of allocations and freed memory are kept short: with the whole ones a replay tells more, and a fuzzer runs half as fast.
    if ASAN_OPTIONS=malloc_context_size=1:quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 "build/fuzz/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=20 \
        -rss_limit_mb=2048 -print_final_stats=1 -print_funcs=0 -runs="${RUNS:--1}" -artifact_prefix="build/fuzz-findings/$name/" \
        "build/fuzz-corpus/$name" ${seeds[@]+"${seeds[@]}"} >"build/fuzz-findings/$name.log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz-findings/$name.log")
        echo "fuzz $name: no finding in ${runs:-?} runs"
    else
        echo "fuzz $name: FINDING, see build/fuzz-findings/$name.log"
        tail -n 25 "build/fuzz-findings/$name.log"
        touch "build/fuzz-findings/$name.failed"
        found=1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz-findings/$name.log")
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%F)" "$commit" "$name" $((SECONDS - begin)) "${runs:-0}" "$found" >>build/fuzz-counts.tsv
}
export -f one
commit=$(git rev-parse --short HEAD)
export seconds commit
mkdir -p build/fuzz-findings
rm -f build/fuzz-findings/*.failed
printf '%s\n' "$@" | xargs -P "${JOBS:-2}" -I{} bash -c 'one "$1"' _ {}
failed=$(find build/fuzz-findings -maxdepth 1 -name '*.failed' | wc -l)
echo "$(($# - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
