#!/bin/sh
# Install what building, testing or checking needs on a Debian machine, if it is missing.
#
#   tools/setup.sh build|test|check
#
# Silent when everything is there. Installs when run as root; otherwise prints the command to run
# and fails. On other systems it says what is needed and goes on.

set -eu

build="gcc make cmake libc6-dev libexpat1-dev"
test="$build clang libcmocka-dev libjansson-dev"
check="$test clang-format clang-tidy cppcheck libclang-rt-dev valgrind"

case "${1:-}" in
build) packages=$build ;;
test) packages=$test ;;
check) packages=$check ;;
*)
    echo "usage: tools/setup.sh build|test|check" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "not a Debian system; this needs (Debian's names): $packages" >&2
    exit 0
fi

# One query for all; packages that were never known are reported on stderr and left out.
installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' $packages 2>/dev/null || true)"
missing=""
for package in $packages; do
    case "$installed" in
    *" installed:$package "*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "missing packages; install them with" >&2
    echo "    sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

install_missing() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
}

echo "installing$missing"
# The package lists are fetched only when what is there does not do.
if ! install_missing >/dev/null 2>&1; then
    apt-get update
    install_missing
fi
