#!/bin/sh
# Install what building, testing or checking needs on a Debian machine, if it is missing.
#
#   tools/setup.sh build|test|check
#
# Silent when everything is there. Installs when run as root; otherwise prints the command to run
# and fails. On other systems it says what is needed and goes on.

set -eu

build="gcc make cmake libc6-dev libexpat1-dev libjansson-dev libyaml-dev zlib1g-dev libqhull-dev
    libopenblas-pthread-dev liblapacke-dev liblbfgs-dev libnlopt-dev libcivetweb-dev"
test="$build clang libcmocka-dev libcminpack-dev libccd-dev"
optional_test="libmujoco-dev libassimp-dev" # not in every release: what cannot be had is left out
# Of pages, which need a browser and its language. They may be there from elsewhere, and Debian's npm
# does not go with another node.
command -v npm >/dev/null 2>&1 || optional_test="$optional_test nodejs npm"
command -v chromium >/dev/null 2>&1 || optional_test="$optional_test chromium"
check="$test clang-format clang-tidy cppcheck libclang-rt-dev valgrind"

case "${1:-}" in
build) packages=$build optional= ;;
test) packages=$test optional=$optional_test ;;
check) packages=$check optional=$optional_test ;;
*)
    echo "usage: tools/setup.sh build|test|check" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "not a Debian system; this needs (Debian's names): $packages $optional" >&2
    exit 0
fi

# Those of the packages given that are not installed, into `missing`. One query for all; packages
# that were never known are reported on stderr and left out.
find_missing() {
    installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "$@" 2>/dev/null || true)"
    missing=""
    for package in "$@"; do
        case "$installed" in
        *" installed:$package "*) ;;
        *) missing="$missing $package" ;;
        esac
    done
}

install_missing() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
}

find_missing $packages
if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "missing packages; install them with" >&2
        echo "    sudo apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    echo "installing$missing"
    # The package lists are fetched only when what is there does not do.
    if ! install_missing >/dev/null 2>&1; then
        apt-get update
        install_missing
    fi
fi

[ -n "$optional" ] || exit 0
find_missing $optional
if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "without$missing some tests are left out; to have them" >&2
        echo "    sudo apt-get install --no-install-recommends$missing" >&2
        exit 0
    fi
    echo "installing$missing"
    if ! install_missing >/dev/null 2>&1; then
        apt-get update >/dev/null 2>&1 || true
        for package in $missing; do # one that cannot be had does not keep out the others
            missing=$package
            install_missing >/dev/null 2>&1 ||
                echo "cannot install $package here: some tests are left out" >&2
        done
    fi
fi
