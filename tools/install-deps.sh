#!/usr/bin/env bash
# Licensed under the Apache License, Version 2.0; see LICENSE.
# Installs the Debian packages that are missing. Usage: tools/install-deps.sh [build] [test] [torch]
# Nothing is fetched when nothing is missing. On other systems it only checks that the build can work.
set -euo pipefail

build_packages=(gcc libc6-dev binutils cmake ninja-build pkg-config scdoc
    libzstd-dev liblz4-dev libroaring-dev libxxhash-dev libutf8proc-dev libjansson-dev libpcre2-dev liburing-dev)
test_packages=(libcmocka-dev g++ clang-14 libclang-rt-14-dev llvm-14 clang-format-14 pmccabe python3 python3-venv python3-dev ccache
    util-linux git valgrind tzdata)

torch_packages=(python3 python3-torch)

if [ $# -eq 0 ]; then set -- build; fi
wanted=()
for group in "$@"; do
    case "$group" in
        build) wanted+=("${build_packages[@]}") ;;
        test) wanted+=("${test_packages[@]}") ;;
        torch) wanted+=("${torch_packages[@]}") ;;
        *) echo "install-deps: unknown group '$group' (build, test, torch)" >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    missing=()
    for program in cc cmake ninja pkg-config; do
        command -v "$program" >/dev/null 2>&1 || missing+=("$program")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        for module in libzstd liblz4 libutf8proc jansson libpcre2-8; do
            pkg-config --exists "$module" || missing+=("$module")
        done
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        echo "install-deps: this is not a Debian system; please install: ${missing[*]}" >&2
        echo "install-deps: the Debian names of all packages are: ${wanted[*]}" >&2
        exit 1
    fi
    exit 0
fi

missing=()
for package in "${wanted[@]}"; do
    # The status must be "installed": a removed package that kept its configuration does not count.
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
# A Python from elsewhere brings its own venv module and headers, and needs no package.
if [ ${#missing[@]} -gt 0 ] && command -v python3 >/dev/null 2>&1 \
    && python3 -c 'import sys, os, sysconfig, ensurepip, venv
sys.exit(sys.version_info < (3, 11) or not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null; then
    kept=()
    for package in "${missing[@]}"; do
        case "$package" in python3 | python3-venv | python3-dev) ;; *) kept+=("$package") ;; esac
    done
    missing=(${kept[@]+"${kept[@]}"})
fi
[ ${#missing[@]} -gt 0 ] || exit 0

run=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        run=(sudo)
    else
        echo "install-deps: these packages are missing: ${missing[*]}" >&2
        echo "install-deps: run as root: apt-get update && apt-get install -y ${missing[*]}" >&2
        exit 1
    fi
fi
echo "installing: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { ${run[@]+"${run[@]}"} apt-get update -q &&
    ${run[@]+"${run[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "install-deps: apt-get failed; the packages wanted are: ${missing[*]}" >&2
    exit 1
fi
