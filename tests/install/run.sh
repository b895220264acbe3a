#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Installs into a folder of its own, moves that folder, and builds and runs a small program against it in every way that a
# user has: pkg-config shared, pkg-config with the static archive, find_package. Usage: tests/install/run.sh [BUILD_FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build/release}
version=$(sed -n 's/^project(pennon VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# check NAME COMMAND...: counts; the output of a command that failed is shown.
check() {
    local name=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        passed=$((passed + 1))
        echo "ok   $name"
    else
        failed=$((failed + 1))
        echo "FAIL $name: $*"
        sed 's/^/     /' "$work/output"
    fi
}
prints() { # prints TEXT COMMAND...
    local wanted=$1 got
    shift
    got=$("$@")
    [ "$got" = "$wanted" ] || { echo "wanted '$wanted', got '$got'"; return 1; }
}
not() { ! "$@"; }
strict=(-std=c11 -Wall -Wextra -Wconversion -Werror)

check "install with DESTDIR" env DESTDIR="$work/stage" cmake --install "$build" --prefix /opt/pennon
mv "$work/stage/opt/pennon" "$work/moved"
prefix=$work/moved
libdir=$(dirname "$(find "$prefix" -name libpennon.a)")
export PKG_CONFIG_PATH=$libdir/pkgconfig

check "all public headers" diff <(cd "$root/include/pennon" && ls ./*.h) <(cd "$prefix/include/pennon" && ls ./*.h)
check "licence" test -f "$prefix/share/doc/pennon/LICENSE"
check "soname" grep -q 'libpennon\.so\.0\]' <(readelf -d "$libdir/libpennon.so")
check "archive is one object" prints 1 sh -c "ar t '$libdir/libpennon.a' | wc -l"
check "pkg-config version" prints "$version" pkg-config --modversion pennon
check "pkg-config names no build path" not grep -q "$root" "$libdir/pkgconfig/pennon.pc"

read -ra flags <<<"$(pkg-config --cflags --libs pennon)"
check "build with pkg-config, shared" cc "${strict[@]}" "$here/program.c" -o "$work/shared" "${flags[@]}"
check "run it" prints "$version" env LD_LIBRARY_PATH="$libdir" "$work/shared"
check "it uses the shared library" grep -q 'libpennon\.so\.0' <(readelf -d "$work/shared")

read -ra flags <<<"$(pkg-config --cflags --libs --static pennon)"
flags=("${flags[@]/#-lpennon/-l:libpennon.a}")
check "build with pkg-config, archive" cc "${strict[@]}" "$here/program.c" -o "$work/static" "${flags[@]}"
check "run it" prints "$version" "$work/static"
check "it uses no shared library of ours" not grep -q libpennon <(readelf -d "$work/static")

check "find_package" cmake -S "$here" -B "$work/user" -DCMAKE_PREFIX_PATH="$prefix"
check "build with CMake" cmake --build "$work/user"
check "run it, shared" prints "$version" "$work/user/with_shared"
check "run it, archive" prints "$version" "$work/user/with_static"
check "find_package refuses another version" not cmake -S "$here" -B "$work/other" -DCMAKE_PREFIX_PATH="$prefix" \
    -DWANTED_VERSION=1.0

if compgen -G "$root/cli/*.c" >/dev/null; then
    check "the command" grep -qF "$version" <("$prefix/bin/pennon" --version)
    check "its manual page" test -s "$prefix/share/man/man1/pennon.1"
fi
check "manual page of the library" test -s "$prefix/share/man/man3/pennon.3"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
