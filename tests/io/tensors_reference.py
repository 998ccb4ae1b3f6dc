#!/usr/bin/env python3
"""Safetensors without the library under test, after the description of the format at
https://github.com/huggingface/safetensors#format.

usage: python3 tests/io/tensors_reference.py           print the files of test_tensors.c as C
       python3 tests/io/tensors_reference.py <file>    read a file and print what is in it
"""
import json
import struct
import sys

SIZES = {"F64": ("d", 8), "F32": ("f", 4), "F16": ("e", 2), "BF16": (None, 2)}


def pack(dtype, numbers):
    if dtype == "BF16":  # the upper half of a float
        return b"".join(struct.pack("<f", x)[2:] for x in numbers)
    return struct.pack("<%d%s" % (len(numbers), SIZES[dtype][0]), *numbers)


def unpack(dtype, data):
    letter, size = SIZES[dtype]
    if dtype == "BF16":
        halves = [data[i : i + 2] for i in range(0, len(data), 2)]
        return [struct.unpack("<f", b"\0\0" + half)[0] for half in halves]
    return list(struct.unpack("<%d%s" % (len(data) // size, letter), data))


def write(tensors, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, dtype, shape, numbers in tensors:
        packed = pack(dtype, numbers)
        offsets = [len(data), len(data) + len(packed)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += packed
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def read(file):
    (length,) = struct.unpack("<Q", file[:8])
    assert length % 8 == 0
    header, data = json.loads(file[8 : 8 + length]), file[8 + length :]
    covered = 0
    for name, info in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = info["data_offsets"]
        count = 1
        for size in info["shape"]:
            count *= size
        assert begin == covered and end - begin == count * SIZES[info["dtype"]][1]
        covered = end
        yield name, info["dtype"], info["shape"], unpack(info["dtype"], data[begin:end])
    assert covered == len(data)


def print_c(name, file):
    print("static const char %s[] =" % name)
    for start in range(0, len(file), 24):
        print('    "%s"' % "".join("\\x%02x" % byte for byte in file[start : start + 24]))


if len(sys.argv) > 1:
    for tensor in read(open(sys.argv[1], "rb").read()):
        print(*tensor)
else:
    numbers = [0.1, -0.0, 5e-324, -1.7976931348623157e308, 1 / 3, 2.2250738585072014e-308]
    files = [("drag/w0", [3, 2], numbers), ("énergie \"x\"", [1, 1], [0.15625])]
    print_c("reference_f64", write([(name, "F64", shape, x) for name, shape, x in files]))
    small = [0.5, -2.0, 65504.0, 2.0**-24, 2.0**-14, -0.0]
    print_c(
        "reference_mixed",
        write(
            [
                ("single", "F32", [1, 3], [1.5, 2.0**-149, -3.4028234663852886e38]),
                ("half", "F16", [2, 3], small),
                ("brain", "BF16", [2], [1.0, -0.0078125]),
            ],
            {"format": "pt"},
        ),
    )
