#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Makes the wheels of the Python packages in build/wheel: pennon for CPython 3.11 and later, with its libraries inside and (on Linux) with the lowest
# manylinux tag that its symbols allow; and pennon_lance. Usage: tools/wheel.sh
set -euo pipefail
cd "$(dirname "$0")/.."
tools/venv.sh venvpy
here=$PWD
python=$here/build/venvpy/bin/python
export PATH=$here/build/venvpy/bin:$PATH
out=$here/build/wheel
rm -rf "$out/raw" "$out"/*.whl
mkdir -p "$out"
wheel() {
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation \
        -C "build-dir=$out/cmake-$(basename "$1")" -w "$out/raw" "$1"
}
wheel bindings/python
wheel bindings/pennon-lance
if [ "$(uname -s)" = Linux ]; then
    # The tag comes from the symbols, not from a wish: auditwheel reads which versions of glibc's they are.
    "$python" -m auditwheel repair --plat auto -w "$out" "$out"/raw/pennon-*.whl
    mv "$out"/raw/pennon_lance-*.whl "$out"
else
    mv "$out"/raw/*.whl "$out"
fi
rm -rf "$out/raw"
ls "$out"/*.whl
