# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Makes the seeds of fuzz_transaction with official Lance: its transaction files in pairs, u16 length of the first and both.

Usage: python tests/fuzz/make_transaction_corpus.py [FOLDER]
"""

import os
import struct
import sys
import tempfile

import lance
import pyarrow as pa


def make(root):
    data = pa.table({"x": list(range(10)), "y": list(range(10))})
    lance.write_dataset(data, root, enable_stable_row_ids=True)
    ds = lance.write_dataset(data, root, mode="append")
    ds.create_scalar_index("x", "BTREE")
    ds.update({"y": "y + 1"}, where="x = 3")
    ds.delete("x = 2")
    ds.merge_insert("x").when_matched_update_all().when_not_matched_insert_all().execute(data.slice(4, 5))
    ds.add_columns({"z": "x * 2"})
    ds.drop_columns(["z"])
    ds.update_config({"k": "v"})
    ds.optimize.compact_files()
    ds.drop_index("x_idx")
    ds.checkout_version(2)
    ds.restore()
    lance.write_dataset(data, root, mode="overwrite")
    folder = os.path.join(root, "_transactions")
    names = sorted(os.listdir(folder), key=lambda name: int(name.split("-")[0]))
    return [open(os.path.join(folder, name), "rb").read() for name in names]


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "corpus", "transaction")
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        made = make(os.path.join(root, "t.lance"))
    for i, one in enumerate(made):
        for k in (i, (i + 1) % len(made)):
            with open(os.path.join(folder, "pair_%02d_%02d" % (i, k)), "wb") as out:
                out.write(struct.pack("<H", len(one)) + one + made[k])


if __name__ == "__main__":
    main()
