#!/usr/bin/env python3
"""Prints the reference values of nsi_hash_bytes in test_index.c."""

MULTIPLIER = 0xC6A4A7935BD1E995
MASK = 2**64 - 1


def hash_bytes(data):
    state = (len(data) + 1) * MULTIPLIER & MASK
    for start in range(0, len(data), 8):
        word = int.from_bytes(data[start : start + 8], "little")
        word = word * MULTIPLIER & MASK
        word ^= word >> 47
        word = word * MULTIPLIER & MASK
        state = (state ^ word) * MULTIPLIER & MASK
    state ^= state >> 47
    state = state * MULTIPLIER & MASK
    return state >> 32


for text in ["", "a", "abc", "link/arm", "link/upper/mass", "joint/elbow/damping", "x" * 64]:
    print('{"%s", 0x%08Xu},' % (text, hash_bytes(text.encode())))
