#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Runs every benchmark program of a build folder; the output is also kept in <folder>/results.
# Usage: tools/bench.sh BUILD_FOLDER [NAME_PART]
set -euo pipefail
folder=$1
part=${2:-}
mkdir -p "$folder/results"
ran=0
for program in "$folder"/bench/*"$part"*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    name=$(basename "$program")
    echo "== $name"
    "$program" | tee "$folder/results/$name.txt"
    ran=$((ran + 1))
done
if [ "$ran" -eq 0 ]; then
    echo "bench: no benchmark matches '$part' in $folder/bench" >&2
    exit 1
fi
