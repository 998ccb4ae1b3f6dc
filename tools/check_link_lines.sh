#!/bin/sh
# check_link_lines.sh CC BUILD: compile the lines "cc my.c .." of the README with CC and the libraries in BUILD,
# each with a program that calls the libraries which the line names, and run what they make.
set -eu
cc=$1 build=$2
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
grep '^    cc my\.c ' "$root/README.md" > "$work/lines"
while read -r line; do
    {
        echo '#include <neuralsim/neuralsim.h>'
        case $line in *_report.a*) echo '#include <neuralsim/report.h>' ;; esac
        case $line in *_fit.a*) echo '#include <neuralsim/fit.h>' ;; esac
        echo 'int main(void) {'
        echo '    ns_model* model = NULL;'
        echo '    if (ns_model_load("none.urdf", NULL, &model, NULL) == NS_OK) return 1;'
        case $line in *_report.a*)
            echo '    ns_report* report = NULL;'
            echo '    if (ns_report_create("a", NULL, &report, NULL) != NS_OK) return 2;'
            echo '    ns_report_free(report);' ;;
        esac
        case $line in *_fit.a*)
            echo '    ns_fit* fit = NULL;'
            echo '    if (ns_fit_load("none.yaml", 1, &fit, NULL) == NS_OK) return 3;' ;;
        esac
        echo '    return 0;'
        echo '}'
    } > "$work/my.c"
    command=$(echo "$line" | sed "s|^cc |$cc |; s|-Iinclude|-I$root/include|; s|build/|$build/|g")
    (cd "$work" && sh -c "$command" && ./my) || { echo "README: this line does not work: $line" >&2; exit 1; }
    count=$((count + 1))
done < "$work/lines"
[ "$count" -ge 3 ] || { echo "README: $count lines begin with 'cc my.c', expected 3" >&2; exit 1; }
echo "$count link lines of the README work"
