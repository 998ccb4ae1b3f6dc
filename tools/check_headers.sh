#!/bin/sh
# Each public header compiles alone, as C and as C++, without warnings. neuralsim.h includes
# all of them but vec.h, whose names have no prefix.
#
# usage: tools/check_headers.sh [CC [CXX]]     compilers; default: cc, c++. No C++ compiler: C only

set -eu
cd "$(dirname "$0")/.."
cc=${1:-cc}
cxx=${2:-c++}
warnings="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude"
command -v "$cxx" >/dev/null 2>&1 || cxx=

failed=0
for path in include/neuralsim/*.h; do
    header=${path#include/}
    text="#include \"$header\""
    echo "$text" | "$cc" -std=c17 $warnings -x c - || { echo "$header: not as C"; failed=1; }
    if [ -n "$cxx" ]; then
        echo "$text" | "$cxx" -std=c++17 $warnings -x c++ - || { echo "$header: not as C++"; failed=1; }
    fi
    case $header in neuralsim/neuralsim.h | neuralsim/vec.h) continue ;; esac
    grep -q "^$text" include/neuralsim/neuralsim.h || {
        echo "neuralsim.h does not include $header"
        failed=1
    }
done
exit $failed
