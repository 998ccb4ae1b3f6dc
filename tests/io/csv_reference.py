#!/usr/bin/env python3
"""The table of test_csv.c that another program wrote: prints its text and its numbers as C.

usage: python3 tests/io/csv_reference.py
"""
import csv
import io
import random

random.seed(7)
names = ["t", "q_hip", "a, b", 'say "hi"', "énergie", "link/a b/mass"]
rows = []
for row in range(6):
    exponents = [0, -3, 5, 20, -300, 300]
    rows.append([random.uniform(-1, 1) * 10.0**e for e in exponents])
rows[2][1] = float("inf")
rows[3][2] = -0.0
rows[4][3] = 5e-324
out = io.StringIO()
writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC)
writer.writerow(names)
writer.writerows(rows)
for line in out.getvalue().splitlines():
    print('    "%s\\r\\n"' % line.replace("\\", "\\\\").replace('"', '\\"'))
for row in rows:
    print("    {" + ", ".join("INFINITY" if x == float("inf") else x.hex() for x in row) + "},")
