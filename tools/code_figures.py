#!/usr/bin/env python3
"""Measure the rhythm, names and layout of the sources, for the table in docs/design.md.

usage: tools/code_figures.py [--long] [--names] [--untested]

  --long      list functions of 25 lines or more without a comment or a blank line
  --names     list names of static functions and files that occur more than once
  --untested  list sources without a test of their name
"""
import collections
import os
import re
import subprocess
import sys

LONG = 25  # lines of a function's body
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def tracked():
    out = subprocess.check_output(["git", "-C", ROOT, "ls-files"], text=True)
    return [f for f in out.split("\n") if f and os.path.exists(os.path.join(ROOT, f))]


def read(name):
    with open(os.path.join(ROOT, name), errors="replace") as f:
        return f.read()


def functions(text):
    """Yield (name, line number, body lines, is static) of each function of a C file."""
    lines = text.split("\n")
    start = None
    for i, line in enumerate(lines):
        if start is None and line.endswith("{") and line[:1] not in (" ", "\t", "}", "#", "/", ""):
            # The head may span several lines: go back to where it begins.
            first = i
            while first > 0 and lines[first - 1][:1] not in ("", "}", "/", "#", " ") or (
                first > 0 and lines[first].startswith(" ")
            ):
                first -= 1
            start = i
        elif start is None and line.endswith("{") and line.startswith(" ") and i > 0:
            first = i
            while first > 0 and lines[first].startswith(" "):
                first -= 1
            if "(" in lines[first] and "=" not in lines[first]:
                start = i
        elif start is not None and line.startswith("}"):
            head = " ".join(lines[first : start + 1])
            match = re.search(r"\b(\w+)\s*\(", head)
            is_function = match and "=" not in head.split("(")[0] and not head.startswith(("enum", "struct", "union", "typedef", "extern"))
            if is_function:
                yield match.group(1), first + 1, lines[start + 1 : i], head.startswith("static")
            start = None


def has_comment(line):
    return "//" in line or "/*" in line


def print_list(title, rows):
    print(title)
    for row in sorted(rows):
        print("   ", row)


def main():
    options = set(sys.argv[1:])
    if options - {"--long", "--names", "--untested"}:
        sys.exit(__doc__)
    files = tracked()
    code = [f for f in files if re.match(r"(src|cli|bench|apps)/.*\.(c|def)$", f)]
    headers = [f for f in files if re.match(r"(src|cli|bench|apps|include)/.*\.h$", f)]

    # Rhythm and names of functions.
    lengths, bare, unbroken, comments = [], [], [], 0
    statics = collections.defaultdict(set)
    for f in code:
        for name, line, body, static in functions(read(f)):
            lengths.append(len(body))
            if static and not name.isupper():
                statics[name].add(f)
            if len(body) < LONG:
                continue
            count = sum(map(has_comment, body))
            comments += count
            if count == 0:
                bare.append(f"{f}:{line} {name}")
            if all(row.strip() for row in body):
                unbroken.append(f"{f}:{line} {name}")
    lengths.sort()
    long_count = max(1, sum(n >= LONG for n in lengths))
    shared = {name: where for name, where in statics.items() if len(where) > 1}
    total = max(1, sum(len(where) for where in statics.values()))

    # Names of files, and tests of the same name.
    names = collections.Counter(os.path.basename(f) for f in code + headers)
    twice = [name for name, count in names.items() if count > 1]
    tests = {os.path.basename(f) for f in files if re.match(r"tests/.*/test_\w+\.c$", f)}
    sources = [f for f in code if re.match(r"(src|apps)/.*\.c$", f)]
    untested = [f for f in sources if "test_" + os.path.basename(f) not in tests]

    # What the program includes, and repeated lines of YAML.
    private = sum(
        bool(re.match(r'\s*#include "(?!neuralsim/)[\w]+/', line))
        for f in files
        if re.match(r"cli/.*\.[ch]$", f)
        for line in read(f).split("\n")
    )
    yaml = [
        line
        for f in files
        if f.startswith("experiments/") and f.endswith(".yaml")
        for line in read(f).split("\n")
        if line.strip()
    ]
    nearest = sum(
        len(re.findall(r"edit_distance\(", read(f))) for f in code + headers if "base/words" not in f
    )
    lines = {f: read(f).count("\n") for f in files if re.match(r"(src|apps|cli|bench|include|tests)/.*\.(c|h|def)$", f)}
    folders = collections.Counter()
    for f, count in lines.items():
        folders["/".join(f.split("/")[:2]) if f.startswith(("src/", "apps/")) else f.split("/")[0]] += count

    print(f"functions: {len(lengths)}; median {lengths[len(lengths) // 2]}, p90 {lengths[len(lengths) * 9 // 10]}, longest {lengths[-1]} lines")
    print(f"functions of {LONG} lines or more: {long_count}")
    print(f"  comments in each: {comments / long_count:.1f}")
    print(f"  without a comment: {100 * len(bare) / long_count:.0f} %")
    print(f"  without a blank line: {100 * len(unbroken) / long_count:.0f} %")
    print(f"static functions: {total}; with the name of another file's: {100 * sum(map(len, shared.values())) / total:.1f} %")
    print(f"file names that occur twice or more: {len(twice)}")
    print(f"sources: {len(sources)}; without a test of their name: {len(untested)}")
    print(f"private includes in cli: {private}")
    print(f"nearest-name searches outside base/words: {nearest}")
    print(f"lines of experiments/*.yaml: {len(yaml)}; repeated: {100 * (len(yaml) - len(set(yaml))) / max(1, len(yaml)):.0f} %")
    print("lines: " + ", ".join(f"{k} {v:,}" for k, v in sorted(folders.items())))
    if "--long" in options:
        print_list("without a comment:", bare)
        print_list("without a blank line:", unbroken)
    if "--names" in options:
        print_list("static functions that share their name:", [f"{n}: {', '.join(sorted(w))}" for n, w in shared.items()])
        print_list("files:", twice)
    if "--untested" in options:
        print_list("sources without a test of their name:", untested)


main()
