# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Makes the seeds of fuzz_dataset with official Lance: small tables of each version, packed as the target reads them.

An object is u8 length of its path, the path, u32 size, bytes. Usage: python tests/fuzz/make_dataset_corpus.py [FOLDER]
"""

import os
import struct
import sys
import tempfile

import lance
import pyarrow as pa


def pack(root):
    packed = b""
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root).encode()
            with open(os.path.join(folder, name), "rb") as f:
                data = f.read()
            packed += struct.pack("<B", len(path)) + path + struct.pack("<I", len(data)) + data
    return packed


def rows(first, n):
    return pa.table({"i": pa.array(range(first, first + n), pa.int32()), "s": [None if k % 3 == 1 else f"t{k}" for k in range(n)]})


def nested(n):
    return pa.table(
        {
            "l": pa.array([[k] * (k % 3) if k % 4 else None for k in range(n)], pa.list_(pa.int16())),
            "v": pa.array([[k, -k] for k in range(n)], pa.list_(pa.float32(), 2)),
            "d": pa.array(["a", "b"] * (n // 2)).dictionary_encode(),
            "t": pa.array([{"x": k, "y": str(k)} for k in range(n)]),
        }
    )


def plain(root, version):
    ds = lance.write_dataset(rows(0, 6), root, data_storage_version=version)
    ds = lance.write_dataset(rows(6, 5), root, mode="append")
    ds.tags.create("first", 1)


def deleted(root, version):
    lance.write_dataset(rows(0, 40), root, data_storage_version=version, max_rows_per_file=20)
    ds = lance.dataset(root)
    ds.delete("i % 4 == 1")
    ds.delete("i < 18 and i != 5")


def bitmap(root, version):
    ds = lance.write_dataset(pa.table({"i": pa.array([7] * 3000, pa.int8())}), root, data_storage_version=version)
    ds.delete("_rowid % 2 = 0")


def row_ids(root, version):
    ds = lance.write_dataset(rows(0, 12), root, data_storage_version=version, enable_stable_row_ids=True, max_rows_per_file=6)
    ds = lance.write_dataset(rows(12, 3), root, mode="append")
    ds.delete("i = 3")
    ds.update({"s": "'new'"}, where="i > 8")
    ds.tags.create("first", 2)


def evolved(root, version):
    ds = lance.write_dataset(rows(0, 8), root, data_storage_version=version)
    ds.add_columns({"j": "i * 2"})
    ds.drop_columns(["s"])
    ds.update_config({"k": "v"})


def types(root, version):
    lance.write_dataset(nested(8), root, data_storage_version=version)


def blobs(root, version):
    """Values in the data file and, from 2.2 on, in files of their own."""
    values = [None if k == 2 else b"" if k == 5 else bytes([k]) * (k * 5) for k in range(9)]
    if version == "2.2":
        field, column = lance.blob_field("b", inline_size_threshold=8, dedicated_size_threshold=32), lance.blob_array(values)
    else:
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        column = pa.array(values, pa.large_binary())
    table = pa.table([pa.array(range(9)), column], schema=pa.schema([pa.field("i", pa.int64()), field]))
    lance.write_dataset(table, root, data_storage_version=version, max_rows_per_file=6).delete("i = 3")


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "corpus", "dataset")
    os.makedirs(target, exist_ok=True)
    for version in ("2.0", "2.1", "2.2"):
        for make in (plain, deleted, bitmap, row_ids, evolved, types, blobs):
            with tempfile.TemporaryDirectory() as work:
                root = os.path.join(work, "t")
                make(root, version)
                with open(os.path.join(target, f"{make.__name__}_{version}"), "wb") as f:
                    f.write(pack(root))


if __name__ == "__main__":
    main()
