#!/usr/bin/env python3
"""Which sources have no test of the same name?

src/x/y.c should have tests/x/test_y.c, apps/quadruped/y.c tests/quadruped/test_y.c. EXCEPTIONS names
the sources that are tested elsewhere and says where. Exits with 1 when a source has neither, or when
an exception is no longer one.

    tools/test_names.py          check
    tools/test_names.py --list   also print the exceptions and the longest test files
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Source -> the tests that cover it.
EXCEPTIONS = {}


def sources():
    for path in sorted([*ROOT.glob("src/**/*.c"), *ROOT.glob("apps/*/*.c")]):
        yield path.relative_to(ROOT).as_posix()


def test_of(source):
    """tests/x/test_y.c for src/x/y.c, src/x/z/y.c and apps/x/y.c"""
    parts = source.split("/")
    return f"tests/{parts[1]}/test_{parts[-1]}"


def main():
    there = {p.relative_to(ROOT).as_posix() for p in ROOT.glob("tests/*/test_*.c")}
    wrong = 0
    for source in sources():
        test = test_of(source)
        if test not in there and source not in EXCEPTIONS:
            print(f"{source}: there is no {test}")
            wrong += 1
        if test in there and source in EXCEPTIONS:
            print(f"{source}: {test} exists; remove the exception from {sys.argv[0]}")
            wrong += 1
    for source, tests in EXCEPTIONS.items():
        for test in tests.split():
            if not (ROOT / source).exists() or f"tests/{test}.c" not in there:
                print(f"{source}: the exception names {test}, which is not there")
                wrong += 1
    if "--list" in sys.argv:
        for source, tests in EXCEPTIONS.items():
            print(f"{source}: {tests}")
        longest = sorted(((len((ROOT / t).read_text().splitlines()), t) for t in there), reverse=True)
        for lines, test in longest[:20]:
            print(f"{lines:5d} {test}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
