#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# The life of a table on the command line, with the Palmer penguins (see README.md beside this file). Every command is shown
# before it runs; numbers that must come out are checked, so this is a test too.
# Usage: examples/demo.sh [PENNON_COMMAND]; the table is kept when KEEP names a folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pennon=$(realpath "${1:-$here/../build/release/pennon}")
if [ ! -x "$pennon" ]; then
    echo "demo: no command at $pennon; run make build" >&2
    exit 1
fi
if [ -n "${KEEP:-}" ]; then
    mkdir -p "$KEEP"
    work=$KEEP
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
cp "$here"/data/*.csv "$work"
cd "$work"
rm -rf penguins.lance

if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); else bold='' plain=''; fi
say() { printf '\n%s\n' "$*"; }
run() {
    printf '%s$ pennon %s%s\n' "$bold" "$*" "$plain"
    "$pennon" "$@"
}
# must WHAT WANTED GOT
must() {
    if [ "$2" != "$3" ]; then
        echo "demo: $1 should be $2 but is $3" >&2
        exit 1
    fi
}

say "1. A table is a folder. Two seasons of penguins, a CSV file, become version 1 of it; column types are found in the text."
run write penguins.lance penguins-2007-2008.csv --mode create
run schema penguins.lance

say "2. A new season arrives. Appending adds a data file and a manifest; nothing that was there is touched."
run write penguins.lance penguins-2009.csv --mode append
run count penguins.lance
must "the number of rows" 344 "$("$pennon" count penguins.lance)"

say "3. Every write made a version. A version is one manifest: the list of fragments that belong to it."
run versions penguins.lance
ls -R penguins.lance

say "4. Reading: only the columns asked for are read from disk. A row is where it was put; an empty cell is a null."
run scan penguins.lance --columns species,island,body_mass_g --limit 5 --format table

say "5. Time travel: the table as it was before the third season came."
run scan penguins.lance --version 1 --columns species,year --format csv -o before.csv
must "the rows of version 1, with a header" 225 "$(($(wc -l <before.csv)))"
echo "$(($(wc -l <before.csv) - 1)) rows in version 1"

say "6. Random access is what the format is made for: three rows by position, without reading the rest."
run take penguins.lance --rows 0,150,343

say "7. And out again: as CSV, as JSON lines, and as an Arrow file that any Arrow reader opens."
run export penguins.lance penguins.csv
must "the lines of the CSV file" 345 "$(($(wc -l <penguins.csv)))"
run scan penguins.lance --limit 2 --format jsonl
run export penguins.lance penguins.arrow
must "the first bytes of the Arrow file" ARROW1 "$(head -c 6 penguins.arrow)"
ls -l penguins.csv penguins.arrow

say "8. What the table says of itself; verify reads all of it and checks that it fits together."
run info penguins.lance
run verify penguins.lance

if [ -n "${KEEP:-}" ]; then say "The table is in $work/penguins.lance"; fi
