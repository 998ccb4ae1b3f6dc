#!/bin/sh
# Bundle the script of the pages (web/) into a folder. Where that cannot be done, for want of packages
# from npm, the files are left empty, and so old that the next build tries again: the program then
# writes its pages without the script.
#
#   tools/build_page.sh FOLDER

set -eu

folder=$1
cd "$(dirname "$0")/../web"
mkdir -p "$folder"

# Into node_modules, which all build folders share: one at a time. npm leaves a copy of what it
# installed there. Without a network it must not try for minutes.
install_packages() {
    (
        if command -v flock >/dev/null 2>&1; then flock 9 || true; fi
        [ -e node_modules/.package-lock.json ] &&
            [ ! package-lock.json -nt node_modules/.package-lock.json ] && exit 0
        npm ci --silent --no-progress --fetch-retries=1 --fetch-retry-mintimeout=1000 \
            --fetch-timeout=60000 && touch node_modules/.package-lock.json
    ) 9<package-lock.json
}

if ! { install_packages && node build.mjs "$folder"; }; then
    echo "no 3D page: npm could not get or bundle its packages; the next 'make' tries again" >&2
    for file in page.js page.css page.sha256; do
        : >"$folder/$file"
        touch -t 200001010000 "$folder/$file"
    done
fi
