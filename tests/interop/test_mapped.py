# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Scans that map files give the rows of scans that read them, on tables that official wrote, and read less where vectors lie in files as they are."""
import re

import pyarrow as pa
import pytest

import arrow_diff
import pennon
from features import only, scanned


def vectors(n):
    def lists(kind, size, null=None):
        values = pa.array(range(n * size)).cast(kind)
        mask = pa.array([i % 5 == null for i in range(n)]) if null is not None else None
        return pa.FixedSizeListArray.from_arrays(values, size, mask=mask)

    return pa.table({"id": pa.array(range(n)), "f": lists(pa.float32(), 96), "h": lists(pa.float16(), 128), "d": lists(pa.float64(), 33),
                     "nulls": lists(pa.float32(), 96, null=2), "small": lists(pa.float32(), 4), "b": pa.array([b"%0200d" % i for i in range(n)], pa.binary(200)),
                     "st": pa.StructArray.from_arrays([lists(pa.int64(), 64), pa.array(range(n))], ["v", "x"])})


@pytest.mark.parametrize("storage", ["2.0", "2.1", "2.2"])
def test_vectors_of_official(storage, tmp_path, oracles):
    source, uri, n = tmp_path / "v.arrow", str(tmp_path / "t.lance"), 3000
    with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_stream(sink, vectors(n).schema) as writer:
        writer.write_table(vectors(n))
    oracles.get("v8").call("expression_ops.make", uri=uri, ipc=str(source), storage=storage, rows_per_file=1100, deletes=["id % 10 = 3"], stable=False)
    for options in ((), ("--batch-size", 64), ("--filter", "id > 500 AND id % 4 = 1"), ("--filter", "id >= 0"), ("--offset", 100, "--limit", 900)):
        want = scanned(uri, *options)
        assert want.num_rows >= 500
        assert arrow_diff.diff_table(want, scanned(uri, "--mapped", *options)) is None, options
    read = [int(re.search(r"bytes_read=(\d+)", pennon.run("scan", uri, "--columns", "f,d,st.v", "--analyze", *more).decode()).group(1))
            for more in ((), ("--mapped",))]
    assert read[1] < read[0] / 8 if storage != "2.0" else read[1] == read[0]


@only("updates", "encoded", "blobs_v1", "mixed_files")
def test_other_tables(tables, case):
    made = tables(case)
    want = made.expected(made.newest())
    assert arrow_diff.diff_table(want, scanned(made.uri, "--mapped", columns=want.column_names)) is None
