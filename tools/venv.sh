#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Makes the Python environments of the tests: build/venv8 (the release of official Lance that Pennon follows), build/venvnew (the
# newest release), build/venvpy (for the Python package: what builds its wheel, and what reads its data). An environment is made
# only when it is absent or its requirements changed. build/venvtorch, which is made only when it is named, has Debian's PyTorch
# (python3-torch, without a GPU): that of the package index brings gigabytes of libraries for one.
# Usage: tools/venv.sh [venv8] [venvnew] [venvpy] [venvtorch]; PYTHON names another interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
if [ $# -eq 0 ]; then set -- venv8 venvnew venvpy; fi

if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "venv: $python must be Python 3.11 or newer with the venv module (Debian: python3-venv)" >&2
    exit 1
fi
for name in "$@"; do
    wants=tools/requirements-$name.txt
    if [ ! -f "$wants" ]; then
        echo "venv: no $wants" >&2
        exit 2
    fi
    folder=build/$name
    if [ -x "$folder/bin/python" ] && cmp -s "$wants" "$folder/requirements.txt" && "$folder/bin/python" -c '' 2>/dev/null; then
        continue
    fi
    echo "making $folder"
    rm -rf "$folder"
    mkdir -p build
    if [ "$name" = venvtorch ]; then
        # Without the pip of Debian's Python, which is a package of its own.
        /usr/bin/python3 -m venv --without-pip --system-site-packages "$folder"
        build/venvpy/bin/python -m pip --python "$folder/bin/python" install --quiet --disable-pip-version-check --no-input -r "$wants"
    else
        "$python" -m venv "$folder"
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$wants"
    fi
    # Written last: an interrupted installation is made anew.
    cp "$wants" "$folder/requirements.txt"
done
