# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Data in and out, of every library that is Arrow."""
import sys

import duckdb
import numpy as np
import pandas as pd
import pennon
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest


def test_table_round_trip(ds, table):
    assert ds.to_table().equals(table)
    assert ds.schema.equals(table.schema)
    assert len(ds) == table.num_rows == ds.count_rows()
    assert pa.table(ds).equals(table)
    assert pa.table(ds.scanner()).equals(table)
    assert pa.schema(ds).equals(table.schema)


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table,
        lambda table: table.to_batches()[0],
        lambda table: table.to_reader(),
        lambda table: pyarrow.dataset.dataset(table),
        lambda table: pyarrow.dataset.dataset(table).scanner(),
        lambda table: table.to_pydict(),
        lambda table: table.to_pylist(),
        lambda table: pl.from_arrow(table),
        lambda rows: duckdb.sql("select * from rows"),
        lambda table: table.to_pandas(),
        lambda table: {"id": table["id"].to_numpy(), "half": table["half"].to_numpy(), "name": np.array(table["name"].to_pylist())},
    ],
    ids=["table", "batch", "reader", "dataset", "scanner", "dict", "rows", "polars", "duckdb", "pandas", "numpy"],
)
def test_input_forms(make, table, tmp_path):
    table = table.select(["id", "half", "name"])
    half = table["half"].to_pylist()
    got = pennon.write_dataset(make(table), tmp_path / "t").to_table()
    assert got["id"].to_pylist() == table["id"].to_pylist()
    assert [None if value is None or value != value else value for value in got["half"].to_pylist()] == half
    assert got["name"].to_pylist() == table["name"].to_pylist()


def test_iterables_need_a_schema(table, tmp_path):
    with pytest.raises(ValueError, match="Must provide schema"):
        pennon.write_dataset(iter(table.to_batches()), tmp_path / "t")
    assert pennon.write_dataset(iter(table.to_batches()), tmp_path / "t", schema=table.schema).to_table().equals(table)
    with pytest.raises(TypeError, match="Unknown data type"):
        pennon.write_dataset(5, tmp_path / "u")
    with pytest.raises(TypeError, match="Unknown data type"):
        pennon.write_dataset("text", tmp_path / "u")


def test_what_we_give_we_take(ds, table, tmp_path):
    assert pennon.write_dataset(ds, tmp_path / "a").to_table().equals(table)
    assert pennon.write_dataset(ds.scanner(columns=["id"]), tmp_path / "b").to_table().equals(table.select(["id"]))
    assert pennon.write_dataset(ds.get_fragments()[1], tmp_path / "c").to_table().equals(table.slice(300, 300))


def test_pandas_reads_it(ds, table):
    assert pd.DataFrame.from_arrow(ds)["id"].tolist() == table["id"].to_pylist()
    assert ds.to_pandas(["id"], filter="id < 3")["id"].tolist() == [0, 1, 2]


def test_polars_reads_it(ds, table):
    assert pl.DataFrame(ds).shape == (table.num_rows, table.num_columns)
    assert pl.DataFrame(ds.scanner(columns=["id"], filter="id < 3")).to_dict(as_series=False) == {"id": [0, 1, 2]}


def test_duckdb_reads_it(ds):
    assert duckdb.sql("select count(*), sum(id) from ds where id < 10").fetchall() == [(10, 45)]
    scanner = ds.scanner(filter="id >= 990")
    # Twice: a scanner can be run again.
    assert duckdb.sql("select min(id) from scanner").fetchall() == [(990,)]
    assert duckdb.sql("select max(id) from scanner").fetchall() == [(999,)]
    assert scanner.to_table().num_rows == 10


def test_a_stream_is_handed_out_once(ds):
    stream = ds.scanner()._stream()
    assert pa.RecordBatchReader.from_stream(stream).read_all().num_rows == 1000
    with pytest.raises(ValueError, match="handed out"):
        stream.__arrow_c_stream__()
    with pytest.raises(ValueError, match="handed out"):
        next(stream)


def test_batches_without_pyarrow(ds, table):
    rows = 0
    for batch in ds.scanner(batch_size=64)._stream():
        assert batch.num_rows <= 64
        assert pa.record_batch(batch).equals(pa.record_batch(batch))
        rows += batch.num_rows
    assert rows == table.num_rows


def test_batches_outlive_their_stream(ds, table):
    batches = list(ds.scanner()._stream())
    got = pa.Table.from_batches([pa.record_batch(batch) for batch in batches])
    del batches, ds
    assert got.equals(table)


def test_a_failing_source(table, tmp_path):
    def batches():
        yield table.to_batches()[0]
        raise RuntimeError("the source is broken")

    with pytest.raises(OSError, match="the source is broken"):
        pennon.write_dataset(pa.RecordBatchReader.from_batches(table.schema, batches()), tmp_path / "t")
    with pytest.raises(ValueError):
        pennon.dataset(tmp_path / "t")


def test_a_used_stream_is_refused(table, tmp_path):
    capsule = table.__arrow_c_stream__()

    class Once:
        def __arrow_c_stream__(self, requested_schema=None):
            return capsule

    assert pennon.write_dataset(Once(), tmp_path / "t").count_rows() == 1000
    with pytest.raises(ValueError, match="used already"):
        pennon.write_dataset(Once(), tmp_path / "u")


@pytest.mark.parametrize("bad", [None, 5, (1, 2), object()])
def test_capsules_that_are_none(bad, tmp_path):
    class Bad:
        def __arrow_c_stream__(self, requested_schema=None):
            return bad

    class BadArray:
        def __arrow_c_array__(self, requested_schema=None):
            return bad

    for data in (Bad(), BadArray()):
        with pytest.raises((TypeError, ValueError)):
            pennon.write_dataset(data, tmp_path / "t")


def test_filters_of_pyarrow(ds, table):
    for expression, sql in [
        (pc.field("id") > 990, "id > 990"),
        ((pc.field("id") < 5) | (pc.field("name") == "name 3"), "id < 5 or name = 'name 3'"),
        (pc.field("half").is_null(), "half is null"),
    ]:
        want = ds.to_table(filter=sql)
        assert want.num_rows > 0
        assert ds.to_table(filter=expression).equals(want)
        assert ds.count_rows(expression) == ds.count_rows(sql) == want.num_rows
        assert want.equals(table.filter(expression))


def test_scan_options(ds, table):
    assert ds.to_table(columns=["name", "id"]).equals(table.select(["name", "id"]))
    assert ds.to_table(columns={"twice": "id * 2"}, limit=3, offset=1).to_pydict() == {"twice": [2, 4, 6]}
    assert ds.to_table(columns=[], with_row_id=True).schema.names == ["_rowid"]
    assert ds.to_table(columns=["id"], with_row_address=True, limit=1, offset=300).to_pydict() == {"id": [300], "_rowaddr": [1 << 32]}
    order = [pennon.scanner.ColumnOrdering("half", ascending=False, nulls_first=True), "id"]
    got = ds.to_table(columns=["id", "half"], order_by=order)
    assert got["half"].to_pylist()[:143] == [None] * 143
    assert got["id"].to_pylist()[143] == 999
    assert {batch.num_rows for batch in ds.scanner(batch_size=100, strict_batch_size=True).to_batches()} == {100}
    assert ds.to_table(filter="id = 7", late_materialization=["name"]).equals(table.slice(7, 1))
    assert ds.to_table(filter="id = 7", late_materialization=True).equals(ds.to_table(filter="id = 7", late_materialization=False))
    fragments = ds.get_fragments()
    assert ds.scanner(fragments=[fragments[2], fragments[0]]).to_table()["id"].to_pylist()[0] == 600
    assert ds.head(2).equals(table.slice(0, 2))
    scanner = ds.scanner(filter="id >= 10", limit=5)
    assert scanner.count_rows() == 5 and scanner.head(2).num_rows == 2
    assert scanner.projected_schema.equals(table.schema) and scanner.dataset_schema.equals(table.schema)
    assert sum(batch.num_rows for batch in scanner.to_reader()) == 5


def test_plans(ds):
    scanner = ds.scanner(filter="id > 3")
    assert "LanceRead" in scanner.explain_plan()
    assert "metrics" in scanner.analyze_plan()


def test_scan_statistics(ds):
    told = []
    ds.scanner(scan_stats_callback=told.append).to_table()
    assert len(told) == 1 and told[0].rows == 1000 and told[0].bytes_read > 0
    # Let go before its end: nothing is told.
    stream = iter(ds.scanner(batch_size=10, scan_stats_callback=told.append).to_batches())
    next(stream)
    del stream
    assert len(told) == 1


def test_scan_statistics_errors_are_not_the_scan_s(ds, monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: said.append(args.exc_value))

    def broken(statistics):
        raise RuntimeError("broken")

    assert ds.scanner(scan_stats_callback=broken).to_table().num_rows == 1000
    assert [str(error) for error in said] == ["broken"]


@pytest.mark.parametrize("make", [list, np.array, pa.array, lambda rows: np.array(rows, np.int32), tuple])
def test_take(ds, table, make):
    assert ds.take(make([999, 0, 301, 0])).equals(table.take([999, 0, 301, 0]))
    assert ds.take(make([5]), columns={"x": "id + 1"}).to_pydict() == {"x": [6]}
    assert ds._take_rows(make([5, 7]), columns=["id"]).to_pydict() == {"id": [5, 7]}


def test_take_of_nothing(ds, table):
    assert ds.take([]).schema.equals(table.schema) and ds.take([]).num_rows == 0


def test_sample(ds):
    rows = ds.sample(20, columns=["id"], randomize_order=False)["id"].to_pylist()
    assert len(set(rows)) == 20 and rows == sorted(rows)
    with pytest.raises(ValueError, match="larger than population"):
        ds.sample(1001)


def test_default_scan_options(ds):
    other = pennon.dataset(ds.uri, default_scan_options={"with_row_id": True, "limit": 3})
    assert other.to_table().num_rows == 3 and other.schema.names[-1] == "_rowid"
    assert other.to_table(limit=4).num_rows == 4
    with pytest.raises(ValueError, match="Unknown option nonsense"):
        pennon.dataset(ds.uri, default_scan_options={"nonsense": 1})


def test_files(table, tmp_path):
    import pennon.file

    path = tmp_path / "f.lance"
    with pennon.file.LanceFileWriter(path) as writer:
        for batch in table.to_batches(max_chunksize=100):
            writer.write_batch(batch)
        writer.add_schema_metadata("key", "value")
        assert writer.add_global_buffer(b"bytes") == 1
    reader = pennon.file.LanceFileReader(path)
    assert reader.num_rows() == 1000
    assert reader.read_all().to_table().replace_schema_metadata(None).equals(table)
    assert reader.read_range(5, 3).to_table()["id"].to_pylist() == [5, 6, 7]
    assert reader.take_rows([7, 3]).to_table()["id"].to_pylist() == [7, 3]
    assert reader.read_global_buffer(1) == b"bytes"
    assert reader.metadata().schema.metadata == {b"key": b"value"}
    assert reader.file_statistics().columns[0].num_pages == 1
    assert pennon.file.LanceFileReader(path, columns=["name"]).read_all().to_table().schema.names == ["name"]
    assert writer.close() is None
    with pytest.raises(FileNotFoundError):
        pennon.file.LanceFileReader(tmp_path / "missing")
    with pytest.raises(RuntimeError, match="stop"), pennon.file.LanceFileWriter(tmp_path / "g.lance", table.schema):
        raise RuntimeError("stop")
    assert not (tmp_path / "g.lance").exists()
