#!/bin/sh
# Folders of src/ include headers of the layers below them, nothing else: those of libneuralsim each
# other, src/solver no robots, src/report no fits, src/sysid nothing of src/fit (docs/design.md,
# Layout). Prints each include that breaks this and fails.
#
# usage: tools/check_layers.sh [FOLDER]     the project; default: the folder above this script

set -eu
cd "${1:-$(dirname "$0")/..}"

core="base expr math model io dyn contact nn sim data"

# What a folder may include besides itself and public headers.
layers_below() {
    case $1 in
    solver) echo base ;;
    report) echo "$core" ;;
    sysid) echo "$core solver" ;;
    fit) echo "$core report solver sysid" ;;
    discover | study) echo "$core report solver sysid fit" ;;
    *) case " $core " in *" $1 "*) echo "$core" ;; esac ;;
    esac
}

failed=0
for folder in src/*/; do
    name=$(basename "$folder")
    below=$(layers_below "$name")
    if [ -z "$below" ]; then
        echo "$folder has no layer; add it to tools/check_layers.sh"
        failed=1
    fi
    bad=$(grep -rnoE '^ *# *include *"[a-z0-9_]+/' "$folder" --include='*.[ch]' |
        while IFS= read -r line; do
            to=${line##*\"}
            case " $name neuralsim $below " in
            *" ${to%/} "*) ;;
            *) echo "${line%%:*} includes ${to%/}" ;;
            esac
        done)
    if [ -n "$bad" ]; then
        echo "$bad"
        failed=1
    fi
done
exit $failed
