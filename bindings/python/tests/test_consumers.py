# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The libraries that read and write what the package gives and takes: what they hand down, and what comes back."""
import asyncio
import io
import pickle
import subprocess
import sys
import threading

import duckdb
import nanoarrow as na
import numpy as np
import pandas as pd
import pennon
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest


@pytest.fixture
def asked(monkeypatch):
    """Columns and filter of every scan, as the consumer hands them down."""
    seen = []
    scanner = pennon.LanceDataset.scanner

    def record(self, columns=None, filter=None, *args, **kwargs):
        seen.append((columns, None if filter is None else str(filter)))
        return scanner(self, columns, filter, *args, **kwargs)

    monkeypatch.setattr(pennon.LanceDataset, "scanner", record)
    return seen


# ---- DuckDB ----


def test_duckdb_hands_columns_and_filter_down(ds, asked):
    plan = duckdb.sql("explain select name from ds where id > 995 and half < 499").fetchall()[0][1]
    below = plan.split("Arrow Scan")[1]
    assert '"id" > 995' in below and '"half" < 499' in below and "Projections: name" in below
    del asked[:]
    assert duckdb.sql("select name from ds where id > 995 and half < 499").fetchall() == [("name 8",), ("name 9",)]
    (columns, filter), = asked
    assert set(columns) == {"id", "half", "name"} or set(columns) == {"name"}
    assert "id > 995" in filter and "half < 499" in filter


def test_duckdb_aggregates_and_joins(ds, table):
    other = pa.table({"name": ["name 1", "name 2"], "points": [10, 20]})
    got = duckdb.sql("select sum(points), count(*) from ds join other using (name) where id < 26").fetchall()
    assert got == [(60, 4)]
    assert duckdb.sql("select name, count(*) n from ds group by name order by name limit 1").fetchall() == [("name 0", 77)]
    assert duckdb.sql("select point.x + 1 from ds where id = 41").fetchall() == [(42,)]
    assert duckdb.sql("select unnest(list) from ds where id = 4").fetchall() == [(4,), (None,)]
    del other, table


def test_duckdb_results_are_written(ds, tmp_path):
    made = pennon.write_dataset(duckdb.sql("select id, id * 2 as twice from ds where id < 5"), tmp_path / "d")
    assert made.to_table().to_pydict() == {"id": [0, 1, 2, 3, 4], "twice": [0, 2, 4, 6, 8]}
    duckdb.sql("create or replace view v as select * from ds")
    assert duckdb.sql("select count(*) from v").fetchall() == [(1000,)]


def test_duckdb_many_types(tmp_path):
    rows = pa.table(
        {
            "i8": pa.array([1, None, -3], pa.int8()),
            "u64": pa.array([1, 2**63, None], pa.uint64()),
            "b": pa.array([True, None, False]),
            "d": pa.array([1, 2, None], pa.date32()),
            "ts": pa.array([1, 2, None], pa.timestamp("us", "UTC")),
            "dec": pa.array(["1.50", None, "-3.25"]).cast(pa.decimal128(10, 2)),
            "bin": pa.array([b"a", None, b"\0"], pa.binary()),
            "fsl": pa.array([[1, 2], None, [5, 6]], pa.list_(pa.float32(), 2)),
        }
    )
    ds = pennon.write_dataset(rows, tmp_path / "t")
    want = duckdb.sql("select * from rows").fetchall()
    assert duckdb.sql("select * from ds").fetchall() == want
    for where in ("b", "dec < 0", "bin = 'a'::blob", "d = date '1970-01-02'", "i8 is null", "ts > timestamptz '1970-01-01 00:00:00.000001+00'"):
        assert duckdb.sql(f"select * from ds where {where}").fetchall() == duckdb.sql(f"select * from rows where {where}").fetchall() != [], where
    # Unsigned columns have no form in the filters that pyarrow hands down: refused as by pylance. A scanner is filtered by DuckDB itself.
    with pytest.raises(duckdb.Error, match="not supported in filters"):
        duckdb.sql("select * from ds where u64 > 5").fetchall()
    scanner = ds.scanner()
    assert duckdb.sql("select u64 from scanner where u64 > 5").fetchall() == [(2**63,)]


# ---- Polars ----


def test_polars_lazy(ds, asked):
    lazy = pl.scan_pyarrow_dataset(ds)
    assert lazy.collect_schema().names() == ds.schema.names
    del asked[:]
    got = lazy.filter(pl.col("id") > 997).select("id", "name").collect()
    assert got.to_dict(as_series=False) == {"id": [998, 999], "name": ["name 10", "name 11"]}
    (columns, filter), = asked
    assert set(columns) == {"id", "name"} and "id > 997" in filter
    assert lazy.select(pl.len()).collect().item() == 1000
    assert lazy.head(3).collect()["id"].to_list() == [0, 1, 2]
    assert lazy.group_by("name").agg(pl.col("half").sum()).collect().height == 13


def test_polars_eager(ds, table, tmp_path):
    frame = pl.DataFrame(ds)
    assert frame.equals(pl.from_arrow(table))
    assert pl.DataFrame(ds.scanner(columns=["id"], limit=2))["id"].to_list() == [0, 1]
    back = pennon.write_dataset(frame, tmp_path / "p")
    assert pl.DataFrame(back).equals(frame)
    lazy = frame.lazy().filter(pl.col("id") < 3).collect()
    assert pennon.write_dataset(lazy, tmp_path / "q").count_rows() == 3
    series = pennon.write_dataset(pl.DataFrame({"c": pl.Series(["x", "y", "x"], dtype=pl.Categorical)}), tmp_path / "r")
    assert pl.DataFrame(series)["c"].cast(pl.String).to_list() == ["x", "y", "x"]


# ---- pandas and NumPy ----


def test_pandas_round_trip(tmp_path):
    frame = pd.DataFrame(
        {
            "int": pd.array([1, None, 3], "Int64"),
            "float": [0.5, float("nan"), 2.5],
            "text": ["a", None, "c"],
            "time": pd.to_datetime(["2020-01-01", "2021-06-01", None], utc=True),
            "category": pd.Categorical(["x", "y", "x"]),
        },
        index=pd.Index([10, 20, 30], name="key"),
    )
    ds = pennon.write_dataset(frame, tmp_path / "t")
    got = ds.to_pandas()
    assert got["int"].isna().tolist() == [False, True, False] and got["int"].dropna().tolist() == [1, 3]
    assert got["time"].dt.year.dropna().tolist() == [2020, 2021]
    assert got["category"].tolist() == ["x", "y", "x"]
    assert (got.index if got.index.name == "key" else got["key"]).tolist() == [10, 20, 30]
    assert ds.to_table(["int"]).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)["int"].dtype == pd.Int64Dtype()
    again = pennon.write_dataset(got, tmp_path / "u")
    assert again.to_table()["text"].to_pylist() == ["a", None, "c"]


def test_numpy(tmp_path):
    vectors = np.arange(40, dtype="float32").reshape(10, 4)
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 4), "n": np.arange(10)})
    ds = pennon.write_dataset(table, tmp_path / "t")
    column = ds.to_table(columns=["v"])["v"].combine_chunks()
    assert np.array_equal(column.flatten().to_numpy().reshape(-1, 4), vectors)
    assert ds.take(np.array([7, 2], "uint32"))["n"].to_numpy().tolist() == [7, 2]
    assert ds.take(np.flatnonzero(vectors[:, 0] > 30), columns=["n"])["n"].to_pylist() == [8, 9]
    made = pennon.write_dataset({"a": np.ones(3), "b": np.array(["x", "yy", "z"])}, tmp_path / "u")
    assert made.to_table().to_pydict() == {"a": [1.0, 1.0, 1.0], "b": ["x", "yy", "z"]}


# ---- nanoarrow and pyarrow ----


def test_nanoarrow(ds, table, tmp_path):
    stream = na.ArrayStream(ds.scanner(columns=["id"]))
    assert [child for child in stream.read_all().iter_tuples()][:2] == [(0,), (1,)]
    assert [field.name for field in na.Schema(ds.scanner(columns=["id", "name"]).projected_schema).fields] == ["id", "name"]
    array = na.Array([1, 2, None], na.int32())
    struct = na.c_array_from_buffers(na.struct({"x": na.int32()}), 3, [None], children=[array])
    assert pennon.write_dataset(na.Array(struct), tmp_path / "t").to_table().to_pydict() == {"x": [1, 2, None]}
    stream = na.ArrayStream.from_readable(io.BytesIO(ipc(table.select(["id"]))))
    assert pennon.write_dataset(stream, tmp_path / "u").count_rows() == 1000


def ipc(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_a_dataset_of_pyarrow(ds, table):
    assert isinstance(ds, pyarrow.dataset.Dataset) and isinstance(ds, pennon.LanceDataset)
    # Below Python there is nothing: no crash, and no empty answer.
    with pytest.raises(FileNotFoundError, match="read by its own methods"):
        pyarrow.dataset.Scanner.from_dataset(ds).to_table()
    with pytest.raises(NotImplementedError, match="replace_schema"):
        pyarrow.dataset.dataset([ds])
    assert ds.to_table().equals(table)


def test_a_dataset_of_pyarrow_from_the_first_one_on(ds):
    done = subprocess.run(
        [sys.executable, "-c", "import pennon, sys; assert 'pyarrow' not in sys.modules; ds = pennon.dataset(sys.argv[1])\n"
         "import pyarrow.dataset, copy, pickle\n"
         "for other in (ds, copy.copy(ds), pickle.loads(pickle.dumps(ds)), ds.checkout_version(1)):\n"
         "    assert isinstance(other, pyarrow.dataset.Dataset) and type(other) is pennon.LanceDataset\n"
         "    assert other.to_table().num_rows == 1000", ds.uri],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pyarrow_reads_it(ds, table):
    reader = pa.RecordBatchReader.from_stream(ds)
    assert reader.schema.equals(table.schema) and reader.read_all().equals(table)
    assert pyarrow.dataset.Scanner.from_batches(ds.scanner().to_reader(), filter=pc.field("id") < 2).to_table().num_rows == 2
    assert pa.table(ds.get_fragment(1)).equals(table.slice(300, 300))


# ---- processes, threads and tasks ----


def test_pickles(ds, table):
    fragment = ds.get_fragments()[1]
    for thing in (ds, fragment, ds.read_transaction(1), ds.lance_schema):
        again = pickle.loads(pickle.dumps(thing))
        assert type(again) is type(thing) and repr(again) == repr(thing)
    assert pickle.loads(pickle.dumps(fragment)).to_table().equals(table.slice(300, 300))
    assert pickle.loads(pickle.dumps(ds.lance_schema)).to_pyarrow().equals(ds.schema)
    ds.insert(table)
    assert pickle.loads(pickle.dumps(ds)).count_rows() == 2000
    ds.create_branch("side").insert(table)
    side = pennon.dataset(ds.uri).checkout_version(("side", None))
    assert pickle.loads(pickle.dumps(side)).count_rows() == 3000


def test_asyncio(ds, table):
    async def one(i):
        return await asyncio.to_thread(ds.to_table, filter=f"id >= {i * 100} and id < {i * 100 + 10}")

    async def batches():
        scanner = ds.scanner(batch_size=100)
        stream = iter(scanner.to_batches())
        rows, done = 0, object()
        while (batch := await asyncio.to_thread(next, stream, done)) is not done:
            rows += batch.num_rows
        return rows

    async def everything():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        parts = await asyncio.gather(*(one(i) for i in range(10)), batches())
        ticking.cancel()
        assert ticks > 0
        return parts

    *parts, rows = asyncio.run(everything())
    assert rows == 1000 and [part["id"][0].as_py() for part in parts] == list(range(0, 1000, 100))


def test_writers_in_tasks(tmp_path, table):
    ds = pennon.write_dataset(table, tmp_path / "t")

    async def everything():
        await asyncio.gather(*(asyncio.to_thread(pennon.write_dataset, table, ds.uri, mode="append") for _ in range(5)))

    asyncio.run(everything())
    assert pennon.dataset(ds.uri).count_rows() == 6000


def test_a_bar_of_progress(ds):
    """As a notebook shows it: batches and the whole that they are of, from another thread at that."""
    shown = []

    def work():
        done, total = 0, ds.count_rows()
        for batch in ds.to_batches(batch_size=128):
            done += batch.num_rows
            shown.append(done / total)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert shown == sorted(shown) and shown[-1] == 1.0 and len(shown) >= 8
