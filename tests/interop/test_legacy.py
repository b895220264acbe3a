# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Data storage version 0.1, which 8.0.0 still writes: what it returns from its tables, Pennon returns.

The format itself loses validity (fixed width values, lists, structs) and takes empty text for null, so the values to
compare with are those that official reads back, never those that were written.
"""
import json

import numpy as np
import pyarrow as pa
import pytest

import cases
import oracle
import pennon
from arrow_diff import diff_table, one
from matrix import load, row_sets

ROWS = 2500
HISTORIES = ("deleted", "evolved", "updated", "compacted", "tombstones")  # makers of legacy_tables.py
# Rows a batch of the file and a file; the last pair makes one batch.
GROUPINGS = ((1024, 1 << 20), (100, 1000), (7, 900), (333, 334), (1 << 20, 1 << 20))

# What official 8.0.0 does not write at 0.1, and what it writes and cannot read back; those have tests of their own.
UNWRITTEN = {name for name in cases.KINDS if "map" in name} | {
    "fsl_struct", "fsl_struct_utf8", "fsl_list", "fsl_utf8_3", "tsplus", "dict_i16_bool", "dict_i16_tsus", "dict_i16_dec5"} | set(cases.BLOBS_V2)
UNREAD = {"blob", "struct_empty", "dict_i16_f64"}


def variants(kind):
    """Up to six columns of a kind: null patterns and list shapes that differ."""
    nulls = [n for n in ("some", "none", "required", "runs", "first", "all") if n in kind.nulls]
    if "dict" in kind.name:
        nulls = [n for n in nulls if n != "all"]  # a dictionary without values cannot be read back
    if "list" in kind.name:
        nulls = [n for n in nulls if n != "required"]  # its reader forgets that items are not nullable, and stumbles
    lists = [x for x in kind.lists if x != "garbage"]  # what lies under a null list is not defined
    out = []
    for i in range(max(len(nulls), min(len(lists), 6))):
        shape = kind.shapes[i % len(kind.shapes)]
        if shape in ("huge", "long") and kind.width > 500:
            shape = kind.shapes[0]
        meta = kind.metas[0] if kind.name in ("json", "json_large") or kind.name.startswith(("ext", "blob")) else "-"
        out.append(cases.Case(kind.name, nulls[i % len(nulls)], shape, lists[i % len(lists)], meta, "0.1", ROWS, "one"))
    return out


def save(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


def column_table(kind, rows=ROWS):
    fields, arrays = [pa.field("id", pa.int64(), False)], [pa.array(range(rows), pa.int64())]
    for i, case in enumerate(variants(kind)):
        field, array = cases.column(case)
        fields.append(field.with_name(f"c{i}"))
        arrays.append(array.slice(0, rows))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, {"purpose": "interop"}))


def same(want, got):
    found = diff_table(want, got)
    assert not found, found


def official_take(official, uri, rows, want, out):
    """Its own take; of the scan where it has none (fixed size lists of booleans)."""
    try:
        official.take(uri=uri, rows=rows, out=out)
    except oracle.Refused as error:
        assert "Expecting fixed stride data type" in str(error)
        return pa.Table.from_arrays([one(c).take(pa.array(rows)) for c in want.columns], schema=want.schema)
    return load(out).replace_schema_metadata(want.schema.metadata)  # which official leaves out


def compare(official, uri, work, rows=None):
    """Scan, parts of it, projections, takes: all against what official returns of the same table."""
    out = str(work / "official.arrow")
    official.scan(uri=uri, out=out)
    want = load(out)
    want.validate(full=True)
    n = want.num_rows
    assert pennon.count(uri) == n == (rows if rows is not None else n)
    same(want, pennon.scan(uri))
    same(want, pennon.scan(uri, batch_size=61))
    names = want.schema.names
    for offset, limit in ((0, 1), (n // 3, n // 2), (max(n - 5, 0), 100)):
        same(want.slice(offset, limit), pennon.scan(uri, offset=offset, limit=limit))
    same(want.select(names[::-1]), pennon.scan(uri, columns=names[::-1]))
    for some in row_sets(n, len(names)) if n else []:
        taken = official_take(official, uri, some, want, out)
        same(taken, pennon.take(uri, rows=some))
        same(taken.select(names[-1:]), pennon.take(uri, rows=some, columns=names[-1:]))
    assert pennon.as_json("verify", uri)["findings"] == 0
    return want


@pytest.fixture(scope="module")
def official(oracles):
    return oracles.get("v8")


@pytest.mark.parametrize("name", [name for name in cases.KINDS if name not in UNWRITTEN and name not in UNREAD])
def test_columns_read_as_official_reads_them(official, tmp_path, name):
    kind = cases.KINDS[name]
    group, file = GROUPINGS[sum(name.encode()) % len(GROUPINGS)]
    rows = 300 if kind.width > 1000 else ROWS
    uri = str(tmp_path / "t.lance")
    official.write(uri=uri, ipc=save(column_table(kind, rows), tmp_path / "in.arrow"), storage="legacy",
                   max_rows_per_group=group, max_rows_per_file=file)
    want = compare(official, uri, tmp_path, rows)
    for path in (tmp_path / "t.lance" / "data").glob("*.lance"):
        alone = pennon.scan(str(path), file=True)
        assert alone.num_rows <= rows and alone.schema.names == want.schema.names
        described = pennon.as_json("inspect", path)
        assert described["version"] == "0.1" and described["rows"] == alone.num_rows
        assert not [p for c in described["columns"] for p in c["pages"] if p["encoding"].startswith("unreadable")]
        assert pennon.as_json("verify", "--file", path)["findings"] == 0


@pytest.mark.parametrize("history", HISTORIES)
def test_tables_with_a_history(official, tmp_path, history):
    uri = str(tmp_path / "t.lance")
    official.call(f"legacy_tables.{history}", uri=uri)
    want = compare(official, uri, tmp_path)
    paths = {"st": ["st.y", "st.z.deep", "st.z"], "ls": ["ls"]}
    for name in want.schema.names:
        for path in paths.get(name, []):
            out = str(tmp_path / "part.arrow")
            official.scan(uri=uri, out=out, columns=[path])
            part = load(out)
            same(part, pennon.scan(uri, columns=[path]))
            same(part.take([3, 1, 3]), pennon.take(uri, columns=[path], rows=[3, 1, 3]))


def test_every_version_of_a_history(official, tmp_path):
    uri = str(tmp_path / "t.lance")
    official.call("legacy_tables.evolved", uri=uri)
    for version in official.versions(uri=uri):
        out = str(tmp_path / "v.arrow")
        official.scan(uri=uri, out=out, version=version)
        same(load(out), pennon.scan(uri, version=version))


def test_first_field_dropped_inside_a_file(official, tmp_path):
    """Official counts lines of the page table from the first id that the manifest lists, and -2 is no id."""
    uri = str(tmp_path / "t.lance")
    first = official.call("legacy_tables.first_tombstone", uri=uri)
    with pytest.raises(oracle.Refused):
        official.scan(uri=uri, out=str(tmp_path / "out.arrow"))
    n = 500
    want = {"p": [i * 2 if i < first else i for i in range(n)], "k": list(range(n)), "q": [f"q{i}" for i in range(n)],
            "r": [i / 4 for i in range(n)]}
    assert pennon.scan(uri).to_pydict() == want
    assert pennon.take(uri, rows=[499, 0, first]).to_pydict() == {k: [v[499], v[0], v[first]] for k, v in want.items()}


def test_tables_without_rows(official, tmp_path):
    uri = str(tmp_path / "t.lance")
    official.call("legacy_tables.empty", uri=uri)
    for version in official.versions(uri=uri):
        out = str(tmp_path / "v.arrow")
        official.scan(uri=uri, out=out, version=version)
        same(load(out), pennon.scan(uri, version=version))


def written(official, tmp_path, table, **options):
    uri = str(tmp_path / "t.lance")
    official.write(uri=uri, ipc=save(table, tmp_path / "in.arrow"), storage="legacy", **options)
    return uri


def test_dictionary_of_floats(official, tmp_path):
    table = column_table(cases.KINDS["dict_i16_f64"])
    uri = written(official, tmp_path, table, max_rows_per_group=300)
    with pytest.raises(oracle.Refused):
        official.scan(uri=uri, out=str(tmp_path / "out.arrow"))
    got = pennon.scan(uri)
    for name in table.schema.names[1:]:
        want, found = table.column(name).combine_chunks(), got.column(name).combine_chunks()
        valid = want.is_valid()  # keys under nulls name some value
        assert want.dictionary_decode().filter(valid).equals(found.dictionary_decode().filter(valid))
        assert found.null_count == 0


def test_dictionary_without_values(official, tmp_path):
    column = pa.DictionaryArray.from_arrays(pa.nulls(5, pa.int8()), pa.array([], pa.utf8()))
    uri = written(official, tmp_path, pa.table({"d": column}))
    with pytest.raises(oracle.Refused):
        official.scan(uri=uri, out=str(tmp_path / "out.arrow"))
    assert pennon.scan(uri).column("d").to_pylist() == [None] * 5


def test_dictionary_values_in_the_data_file(official, tmp_path):
    """The manifest has the values for the table, and each data file has them for whoever reads it alone."""
    values = ["x", "y", None, "x"] * 50
    table = pa.table({"d": pa.array(values).dictionary_encode(), "n": pa.array(range(200))})
    uri = written(official, tmp_path, table, max_rows_per_group=33)
    want = [v or "x" for v in values]
    assert pennon.scan(uri).column("d").to_pylist() == want
    path, = (tmp_path / "t.lance" / "data").glob("*.lance")
    assert pennon.scan(str(path), file=True).column("d").to_pylist() == want
    assert pennon.take(str(path), file=True, rows=[199, 2, 0]).column("d").to_pylist() == ["x", "x", "x"]


@pytest.mark.parametrize("group", [7, 1 << 20])
def test_lists_of_items_that_are_not_nullable(official, tmp_path, group):
    """Official writes them, and then finds that its arrays are not of the table's type."""
    item = pa.field("item", pa.utf8(), False)
    values = [["", "a"] * (i % 4) for i in range(100)]
    table = pa.table({"l": pa.array(values, pa.list_(item)), "ll": pa.array([[v] * (i % 2) for i, v in enumerate(values)],
                                                                             pa.list_(pa.list_(item)))})
    uri = written(official, tmp_path, table, max_rows_per_group=group)
    with pytest.raises(oracle.Refused):
        official.scan(uri=uri, out=str(tmp_path / "out.arrow"))
    assert pennon.scan(uri).equals(table)
    assert pennon.take(uri, rows=[99, 3, 99]).equals(table.take([99, 3, 99]).combine_chunks())


def test_blobs_are_bytes(official, tmp_path):
    values = [None if i % 5 == 0 else bytes([i]) * i for i in range(1, 60)]
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    uri = written(official, tmp_path, pa.table([pa.array(values, pa.large_binary())], schema=schema), max_rows_per_group=7)
    with pytest.raises(oracle.Refused):
        official.scan(uri=uri, out=str(tmp_path / "out.arrow"))
    assert pennon.scan(uri, blobs="bytes").column("b").to_pylist() == values
    with pytest.raises(pennon.Failed, match="version 0.1"):
        pennon.scan(uri)


def test_empty_structs_are_refused(official, tmp_path):
    table = pa.table({"a": pa.array([1, 2]), "e": pa.array([{}, {}], pa.struct([]))})
    uri = written(official, tmp_path, table)
    assert pennon.scan(uri, columns=["a"]).to_pydict() == {"a": [1, 2]}
    with pytest.raises(pennon.Failed, match="'e'.*version 0.1"):
        pennon.scan(uri)


def test_append_is_refused_and_overwrite_moves_on(official, tmp_path):
    table = pa.table({"a": pa.array([1, 2, 3])})
    uri = written(official, tmp_path, table)
    for options in ({}, {"data_storage_version": "0.1"}, {"data_storage_version": "2.1"}):
        with pytest.raises(pennon.Failed, match="0.1"):
            pennon.write(uri, str(tmp_path / "in.arrow"), mode="append", **options)
    with pytest.raises(pennon.Failed, match="0.1"):
        pennon.write(uri, str(tmp_path / "in.arrow"), mode="overwrite", data_storage_version="0.1")
    with pytest.raises(pennon.Failed, match="0.1|legacy"):
        pennon.write(str(tmp_path / "new.lance"), str(tmp_path / "in.arrow"), data_storage_version="legacy")
    pennon.write(uri, str(tmp_path / "in.arrow"), mode="overwrite")
    assert pennon.as_json("info", uri)["storage_version"] == "2.1"
    out = str(tmp_path / "out.arrow")
    official.scan(uri=uri, out=out)
    same(load(out), pennon.scan(uri))
    assert load(out).to_pydict() == table.to_pydict()
    official.scan(uri=uri, out=out, version=1)
    same(load(out), pennon.scan(uri, version=1))


def test_columns_are_not_changed(official, tmp_path):
    uri = written(official, tmp_path, pa.table({"a": pa.array([1, 2, 3]), "b": [1.5, 2.5, 3.5]}))
    for args in (("add-column", uri, "c=a + 1"), ("add-column", uri, "--nulls", "c int8"), ("drop-column", uri, "b"), ("alter-column", uri, "a", "--rename", "c")):
        with pytest.raises(pennon.Failed, match="0.1"):
            pennon.run(*args)
    assert pennon.as_json("info", uri)["version"] == 1


def test_small_budget_and_one_thread(official, tmp_path):
    """Rows are read in batches of what fits, not in the batches of the file."""
    n = 60000
    table = pa.table({"a": pa.array(range(n)), "s": pa.array([f"{i}" * 20 for i in range(n)]),
                      "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(n * 64), pa.float32()), 64)})
    uri = written(official, tmp_path, table, max_rows_per_group=n)
    got = pennon.table(pennon.run("scan", uri, "--format", "arrow", "--memory", "8M", "--threads", "1"))
    assert got.equals(table)
    assert json.loads(pennon.run("count", uri, "--memory", "1M")) == n


@pytest.mark.parametrize("rows", [30, 1 << 20], ids=["fragments", "one"])
def test_deletes(rows, tmp_path, oracles):
    """Deletes of both on one table; official reads ours, checks, appends and compacts. Updates are refused."""
    uri, plain = tmp_path / "t.lance", pa.table({"id": range(100), "s": [f"t{i}" for i in range(100)]})
    official = oracles.get("v8")
    official.write(uri=str(uri), ipc=save(plain, tmp_path / "in"), storage="legacy", max_rows_per_file=rows)
    left = set(range(100))
    for where, gone in (("id % 3 = 1 OR id < 30", lambda i: i % 3 == 1 or i < 30), ("s = 't50'", lambda i: i == 50), ("false", lambda i: False)):
        left = {i for i in left if not gone(i)}
        pennon.run("delete", uri, "--where", where)
        assert pennon.scan(uri, columns=["id"]).column(0).to_pylist() == sorted(left)
        for who in oracle.NAMES:
            assert oracles.get(who).count(uri=str(uri)) == len(left)
            oracles.get(who).validate(uri=str(uri))
    official.delete(uri=str(uri), predicate="id = 33")
    official.write(uri=str(uri), ipc=str(tmp_path / "in"), mode="append")
    pennon.run("delete", uri, "--where", "id = 35")
    official.call("mutation_ops.compact", uri=str(uri))
    want = sorted([*(left - {33, 35}), *(set(range(100)) - {35})])
    assert sorted(pennon.scan(uri, columns=["id"]).column(0).to_pylist()) == want and not pennon.findings(uri)
    with pytest.raises(pennon.Failed, match="and not updated"):
        pennon.run("update", uri, "--set", "id=1")
    pennon.run("delete", uri, "--where", "true")
    assert pennon.count(uri) == oracles.get("v8").count(uri=str(uri)) == 0


def test_deletes_beside_dictionaries(tmp_path, oracles):
    """The values of dictionary columns lie in the manifest: every new one has them, ours and official's by turns."""
    official, uri = oracles.get("v8"), tmp_path / "t.lance"
    table = pa.table({"id": range(100), "d": pa.array(["a", "bb", None, "dddd"] * 25).dictionary_encode(), "s": [f"t{i}" for i in range(100)],
                      "n": pa.array([7, 9] * 50, pa.int64()).dictionary_encode()})
    official.write(uri=str(uri), ipc=save(table, tmp_path / "in"), storage="legacy", max_rows_per_file=30)
    before = pennon.scan(uri).to_pylist()
    left = set(range(100))
    for turn in range(6):
        gone = {i for i in left if i % 7 == turn}
        left -= gone
        where = f"id % 7 = {turn}"
        if turn % 3 == 2:
            official.delete(uri=str(uri), predicate=where)
        else:
            assert pennon.as_json("delete", uri, "--where", where)["rows_deleted"] == len(gone)
        want = [row for row in before if row["id"] in left]
        assert pennon.scan(uri).to_pylist() == want and not pennon.findings(uri)
        official.scan(uri=str(uri), out=str(tmp_path / "out"))
        assert load(str(tmp_path / "out")).to_pylist() == want
    official.write(uri=str(uri), ipc=str(tmp_path / "in"), mode="append")
    pennon.run("delete", uri, "--where", "d = 'bb'")
    official.call("mutation_ops.compact", uri=str(uri))
    official.scan(uri=str(uri), out=str(tmp_path / "out"))
    rows = load(str(tmp_path / "out")).to_pylist()
    assert rows and pennon.scan(uri).to_pylist() == rows and all(row["d"] != "bb" for row in rows)
    sizes = [p.stat().st_size for p in sorted((uri / "_versions").iterdir(), key=lambda p: p.stat().st_mtime)]
    assert max(sizes) < sizes[0] + 4000
