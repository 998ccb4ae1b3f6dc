#!/bin/sh
# Run every fuzz target of a build folder for some time; stop at the first finding.
#
#   tools/fuzz.sh <build folder> <seconds per target>
#
# Inputs start from tests/fuzz/corpus/<target>/, where that exists; new ones stay in the build
# folder, and so does an input that crashes a target.

set -eu
build=$1
seconds=$2
cd "$(dirname "$0")/.."

for program in "$build"/fuzz/fuzz_*; do
    [ -x "$program" ] || continue # there are none
    target=$(basename "$program")
    corpus=tests/fuzz/corpus/$target
    found=$build/corpus/$target
    log=$build/$target.log
    mkdir -p "$found"
    set -- "$found"
    [ -d "$corpus" ] && set -- "$@" "$corpus"

    echo "$target"
    if ! "$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
        -artifact_prefix="$build/$target-" "$@" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        echo "$target failed; the whole output is in $log" >&2
        exit 1
    fi
    tail -n 1 "$log"
done
