#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Runs every benchmark program of a build folder, and the one with official Lance beside Pennon; the output is also kept in <folder>/results.
# Usage: tools/bench.sh BUILD_FOLDER [NAME_PART]
set -euo pipefail
folder=$1
part=${2:-}
mkdir -p "$folder/results"
ran=0
for program in "$folder"/bench/*"$part"*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    name=$(basename "$program")
    case "$name" in beside_table | query_table) continue ;; esac # below
    echo "== $name"
    "$program" | tee "$folder/results/$name.txt"
    ran=$((ran + 1))
done
case beside_official in *"$part"*)
    echo "== beside_official"
    tools/venv.sh
    build/venv8/bin/python bench/beside_official.py "$folder/bench/beside_table" "$folder/beside" | tee "$folder/results/beside_official.txt"
    rm -rf "$folder/beside"
    ran=$((ran + 1))
    ;;
esac
case queries_beside_official in *"$part"*)
    echo "== queries_beside_official"
    tools/venv.sh
    build/venv8/bin/python bench/queries_beside_official.py "$folder/bench/query_table" "$folder/queries" | tee "$folder/results/queries_beside_official.txt"
    rm -rf "$folder/queries"
    ran=$((ran + 1))
    ;;
esac
case small in *"$part"*)
    echo "== small"
    tools/venv.sh
    library=$(find "$folder" -maxdepth 1 -name 'libpennon.so.*.*.*')
    build/venv8/bin/python bench/small.py "$folder/pennon" "$library" "$folder/small" | tee "$folder/results/small.txt"
    rm -rf "$folder/small"
    ran=$((ran + 1))
    ;;
esac
if [ "$ran" -eq 0 ]; then
    echo "bench: no benchmark matches '$part' in $folder/bench" >&2
    exit 1
fi
