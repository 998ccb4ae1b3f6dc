#!/bin/sh
# Bundle the script of the pages (web/) into a folder. Where that cannot be done, for want of packages
# from npm, the files are left empty: the program then writes its pages without the script.
#
#   tools/build_page.sh FOLDER

set -eu

folder=$1
cd "$(dirname "$0")/../web"
mkdir -p "$folder"

bundle() {
    # npm leaves a copy of what it installed here.
    if [ ! -e node_modules/.package-lock.json ] ||
        [ package-lock.json -nt node_modules/.package-lock.json ]; then
        npm ci --silent --no-progress && touch node_modules/.package-lock.json || return 1
    fi
    node build.mjs "$folder"
}

if ! bundle; then
    echo "no 3D page: npm could not get or bundle its packages; 'make' tries again after" \
        "'touch web/package.json'" >&2
    : >"$folder/page.js"
    : >"$folder/page.css"
    : >"$folder/page.sha256"
fi
