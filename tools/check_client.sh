#!/bin/sh
# The program is a client of the library: cli/ includes public headers <neuralsim/...>, headers of
# its own and those of the system, nothing else. Prints each include that breaks this and fails.
#
# usage: tools/check_client.sh [FOLDER]     the project; default: the folder above this script

set -eu
cd "${1:-$(dirname "$0")/..}"

failed=0
for file in cli/*.c cli/*.h; do
    # "own.h" is in cli/; all else in quotes is private, and <neuralsim/...> must be public
    bad=$(sed -n 's/^ *# *include *\("[^"]*"\|<neuralsim\/[^>]*>\).*/\1/p' "$file" |
        while read -r header; do
            name=${header#?}
            name=${name%?}
            case $header in
            \"*) [ -f "cli/$name" ] || echo "$header" ;;
            *) [ -f "include/$name" ] || echo "$header" ;;
            esac
        done)
    symbols=$(grep -noE '\b(nsi_[a-z0-9_]+|NSI_[A-Z0-9_]+)' "$file" | head -n 3 || true)
    if [ -n "$bad" ]; then
        echo "$file includes private headers:" $bad
        failed=1
    fi
    if [ -n "$symbols" ]; then
        echo "$file uses private symbols:" $symbols
        failed=1
    fi
done
exit $failed
