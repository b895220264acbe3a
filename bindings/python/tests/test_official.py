# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Beside pylance 8.0.0: tables of one read by the other, and what calls raise."""
import pennon
import pyarrow as pa
import pytest
from pennon.fragment import write_fragments


def save(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


def load(path):
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_stream(source).read_all()


@pytest.mark.parametrize("storage", ["2.0", "2.1", "2.2"])
def test_official_reads_ours(official, table, tmp_path, storage):
    ds = pennon.write_dataset(table, tmp_path / "t", max_rows_per_file=300, data_storage_version=storage)
    ds.insert(table)
    ds.tags.create("first", 1)
    official.validate(uri=ds.uri)
    official.scan(uri=ds.uri, out=str(tmp_path / "out"))
    assert load(tmp_path / "out").equals(pa.concat_tables([table, table]))
    official.scan(uri=ds.uri, out=str(tmp_path / "out"), tag="first", filter="id < 7")
    assert load(tmp_path / "out").equals(table.slice(0, 7))


@pytest.mark.parametrize("storage", ["2.0", "2.1", "2.2"])
def test_we_read_official_s(official, table, tmp_path, storage):
    uri = str(tmp_path / "t")
    ipc = save(table, tmp_path / "in")
    official.write(uri=uri, ipc=ipc, storage=storage, max_rows_per_file=300)
    official.write(uri=uri, ipc=ipc, mode="append")
    official.delete(uri=uri, predicate="id % 3 = 0")
    ds = pennon.dataset(uri)
    kept = [i for i in range(1000) if i % 3]
    both = pa.concat_tables([table.take(kept), table.take(kept)])
    assert ds.to_table().equals(both) and ds.count_rows() == len(both)
    for sql in ("id < 100 and half is not null", "name = 'name 5' or point.x > 990", "list is null"):
        official.scan(uri=uri, out=str(tmp_path / "out"), filter=sql)
        assert ds.to_table(filter=sql).equals(load(tmp_path / "out"))
    rows = [5, 1300, 0, 5]
    official.take(uri=uri, rows=rows, out=str(tmp_path / "out"))
    assert ds.take(rows).equals(load(tmp_path / "out"))
    assert ds.checkout_version(1).to_table().equals(table)
    assert [version["version"] for version in ds.versions()] == official.versions(uri=uri) == [1, 2, 3]
    assert isinstance(ds.read_transaction(3).operation, pennon.LanceOperation.Delete)
    assert isinstance(ds.read_transaction(2).operation, pennon.LanceOperation.Append)


def test_commits_of_fragments(official, table, tmp_path):
    uri = str(tmp_path / "t")
    official.write(uri=uri, ipc=save(table, tmp_path / "in"))
    made = write_fragments(table, uri)
    pennon.LanceDataset.commit(uri, pennon.LanceOperation.Append(made), read_version=1)
    official.validate(uri=uri)
    assert official.count(uri=uri) == 2000


CALLS = {
    "open missing": lambda m, ds, t: m.dataset("/nowhere/at/all"),
    "open version": lambda m, ds, t: m.dataset(ds.uri, version=99),
    "open tag": lambda m, ds, t: m.dataset(ds.uri, version="zz"),
    "checkout version": lambda m, ds, t: ds.checkout_version(99),
    "checkout tag": lambda m, ds, t: ds.checkout_version("zz"),
    "unknown column": lambda m, ds, t: ds.to_table(filter="zz > 1"),
    "syntax": lambda m, ds, t: ds.to_table(filter="id >"),
    "type": lambda m, ds, t: ds.to_table(filter="name > 10"),
    "projection": lambda m, ds, t: ds.to_table(columns=["zz"]),
    "order": lambda m, ds, t: ds.scanner(order_by=[m.dataset.__globals__["LanceDataset"]]),
    "limit": lambda m, ds, t: ds.to_table(limit=-1),
    "take past the end": lambda m, ds, t: ds.take([9999]),
    "take below zero": lambda m, ds, t: ds.take([-1]),
    "count": lambda m, ds, t: ds.count_rows("zz > 1"),
    "sample": lambda m, ds, t: ds.sample(9999),
    "exists": lambda m, ds, t: m.write_dataset(t, ds.uri),
    "mode": lambda m, ds, t: m.write_dataset(t, ds.uri, mode="x"),
    "other schema": lambda m, ds, t: m.write_dataset(t.rename_columns(["a", "b", "c", "d", "e"]), ds.uri, mode="append"),
    "storage version": lambda m, ds, t: m.write_dataset(t, ds.uri + "9", data_storage_version="9.9"),
    "reserved name": lambda m, ds, t: m.write_dataset(t.select(["id"]).rename_columns(["_rowid"]), ds.uri + "r"),
    "tag again": lambda m, ds, t: (ds.tags.create("twice", 1), ds.tags.create("twice", 1)),
    "tag of no version": lambda m, ds, t: ds.tags.create("q", 99),
    "tag name": lambda m, ds, t: ds.tags.create("q q", 1),
    "delete, unknown column": lambda m, ds, t: ds.delete("zz = 1"),
    "delete, syntax": lambda m, ds, t: ds.delete("id >"),
    "delete, no text": lambda m, ds, t: ds.delete(5),
    "delete, nothing": lambda m, ds, t: ds.delete(""),
    "delete, retries": lambda m, ds, t: ds.delete("id = 1", conflict_retries=-1),
    "delete, timeout": lambda m, ds, t: ds.delete("id = 1", retry_timeout=5),
    "delete, negative timeout": lambda m, ds, t: ds.delete("id = 1", retry_timeout=__import__("datetime").timedelta(seconds=-5)),
    "update, unknown column": lambda m, ds, t: ds.update({"zz": "1"}),
    "update, nothing": lambda m, ds, t: ds.update({}),
    "update, expression": lambda m, ds, t: ds.update({"id": "zz + 1"}),
    "update, value": lambda m, ds, t: ds.update({"id": "'x'"}),
    "update, no text": lambda m, ds, t: ds.update({"id": 5}),
    "update, no dictionary": lambda m, ds, t: ds.update([("id", "1")]),
    "update, where": lambda m, ds, t: ds.update({"id": "1"}, where="q = 1"),
    "add, there already": lambda m, ds, t: ds.add_columns({"id": "id"}),
    "add, expression": lambda m, ds, t: ds.add_columns({"x": "zz + 1"}),
    "add, syntax": lambda m, ds, t: ds.add_columns({"x": "id +"}),
    "add, no text": lambda m, ds, t: ds.add_columns({"x": 5}),
    "add, a number": lambda m, ds, t: ds.add_columns(5),
    "add, not null": lambda m, ds, t: ds.add_columns(__import__("pyarrow").field("x", __import__("pyarrow").int8(), nullable=False)),
    "add, too few rows": lambda m, ds, t: ds.add_columns(t.slice(0, 3).select(["id"]).rename_columns(["x"])),
    "add, function fails": lambda m, ds, t: ds.add_columns(m.batch_udf(t.select(["id"]).rename_columns(["x"]).schema)(lambda batch: 1 / 0)),
    "add, function of another schema": lambda m, ds, t: ds.add_columns(m.batch_udf(t.select(["id"]).rename_columns(["x"]).schema)(lambda batch: batch)),
    "add, function fails at once": lambda m, ds, t: ds.add_columns(lambda batch: 1 / 0),
    "add, function with fewer rows": lambda m, ds, t: ds.add_columns(
        m.batch_udf(t.select(["id"]).rename_columns(["x"]).schema)(lambda batch: batch.slice(1).select(["id"]).rename_columns(["x"]))),
    "drop, unknown column": lambda m, ds, t: ds.drop_columns(["zz"]),
    "drop, all": lambda m, ds, t: ds.drop_columns(ds.schema.names),
    "drop, no list": lambda m, ds, t: ds.drop_columns("id"),
    "alter, unknown key": lambda m, ds, t: ds.alter_columns({"path": "id", "type": 5}),
    "alter, nothing": lambda m, ds, t: ds.alter_columns({"path": "id"}),
    "alter, no path": lambda m, ds, t: ds.alter_columns({"name": "x"}),
    "alter, unknown column": lambda m, ds, t: ds.alter_columns({"path": "zz", "name": "x"}),
    "alter, in the way": lambda m, ds, t: ds.alter_columns({"path": "id", "name": "name"}),
    "alter, no such cast": lambda m, ds, t: ds.alter_columns({"path": "id", "data_type": __import__("pyarrow").string()}),
    "alter, too small": lambda m, ds, t: ds.alter_columns({"path": "id", "data_type": __import__("pyarrow").int8()}),
    "alter, nulls": lambda m, ds, t: ds.alter_columns({"path": "half", "nullable": False}),
    "alter, no type": lambda m, ds, t: ds.alter_columns({"path": "id", "data_type": "int8"}),
    "merge, unknown column": lambda m, ds, t: ds.merge(t.select(["id"]), "zz", "id"),
    "merge, unknown key": lambda m, ds, t: ds.merge(t.select(["id"]), "id", "zz"),
    "merge, there already": lambda m, ds, t: ds.merge(t.select(["id", "name"]), "id"),
    "fragment, add": lambda m, ds, t: ds.get_fragment(0).merge_columns({"x": "zz + 1"}),
    "fragment, merge": lambda m, ds, t: ds.get_fragment(0).merge(t.select(["id"]), "zz", "id"),
    "fragment, update": lambda m, ds, t: ds.get_fragment(0).update_columns(t.select(["id"]).append_column("zz", t["id"]), "id"),
    "fragment, delete": lambda m, ds, t: ds.get_fragment(0).delete("zz = 1"),
    "replace the schema": lambda m, ds, t: ds.replace_schema(t.schema),
    "merge insert, no key": lambda m, ds, t: ds.merge_insert(),
    "merge insert, unknown key": lambda m, ds, t: ds.merge_insert("zz"),
    "merge insert, nothing to do": lambda m, ds, t: ds.merge_insert("id").execute(t),
    "merge insert, matches": lambda m, ds, t: ds.merge_insert("id").when_matched_fail().execute(t),
    "merge insert, twice the same": lambda m, ds, t: ds.merge_insert("id").when_matched_update_all().execute(t.take([1, 1])),
    "merge insert, unknown column": lambda m, ds, t: ds.merge_insert("id").when_matched_update_all().execute(t.append_column("zz", t["id"])),
    "merge insert, type": lambda m, ds, t: ds.merge_insert("id").when_matched_update_all().execute(t.select(["id", "name"]).rename_columns(["id", "half"])),
    "merge insert, without the key": lambda m, ds, t: ds.merge_insert("id").when_matched_update_all().execute(t.select(["name"])),
    "merge insert, condition": lambda m, ds, t: ds.merge_insert("id").when_matched_update_all("source.zz = 1").execute(t),
    "merge insert, by source": lambda m, ds, t: ds.merge_insert("id").when_not_matched_by_source_delete("zz = 1"),
    "merge insert, timeout": lambda m, ds, t: ds.merge_insert("id").retry_timeout(5),
    "merge insert, retries": lambda m, ds, t: ds.merge_insert("id").when_matched_delete().conflict_retries(-1).execute(t),
    "merge insert, no data": lambda m, ds, t: ds.merge_insert("id").when_matched_delete().execute(5),
    "merge insert, plan of nothing": lambda m, ds, t: ds.merge_insert("id").explain_plan(),
    "tag delete": lambda m, ds, t: ds.tags.delete("zz"),
    "tag update": lambda m, ds, t: ds.tags.update("zz", 1),
    "tag version": lambda m, ds, t: ds.tags.get_version("zz"),
    "branch again": lambda m, ds, t: (ds.create_branch("again"), ds.create_branch("again")),
    "branch delete": lambda m, ds, t: ds.branches.delete("zz"),
    "clone in the way": lambda m, ds, t: ds.shallow_clone(ds.uri, 1),
    "commit without a version": lambda m, ds, t: m.LanceDataset.commit(ds.uri, m.LanceOperation.Append([])),
    "commit on no version": lambda m, ds, t: m.LanceDataset.commit(ds.uri, m.LanceOperation.Append([]), read_version=99),
    "fragments": lambda m, ds, t: m.LanceOperation.Append([1]),
    "asof": lambda m, ds, t: m.dataset(ds.uri, asof=__import__("datetime").datetime(2020, 1, 1)),
    "no uri": lambda m, ds, t: m.dataset(),
    "uri and a catalog": lambda m, ds, t: m.dataset(ds.uri, namespace_client=object(), table_id=["t"]),
    "an id alone": lambda m, ds, t: m.dataset(table_id=["t"]),
    "a version that is not there": lambda m, ds, t: ds.read_transaction(99),
    "a field that is not there": lambda m, ds, t: ds.update_field_metadata({"zz": {"a": "b"}}),
    "drop": lambda m, ds, t: m.LanceDataset.drop(ds.uri + "-none"),
    "a number as columns": lambda m, ds, t: ds.to_table(columns="id"),
    "type in a schema": lambda m, ds, t: m.json_to_schema({"fields": [{"name": "x", "type": {"type": "zz"}, "nullable": True}]}),
    "default options": lambda m, ds, t: m.dataset(ds.uri, default_scan_options={"nonsense": 1}).to_table(),
}


def raised(call, module, ds, table):
    """Names of the exception's types, the nearest first; the end is Exception."""
    try:
        call(module, ds, table)
    except Exception as error:
        return [cls.__name__ for cls in type(error).__mro__]
    return []


def test_exceptions(official, ds, table, tmp_path):
    theirs = official.call("python_ops.raised", calls=__file__, uri=str(tmp_path / "o"), ipc=save(table, tmp_path / "in"))
    assert set(theirs) == set(CALLS)
    differ = {}
    for name, call in CALLS.items():
        ours = raised(call, pennon, ds, table)
        # Our exception may be a finer one.
        if theirs[name] is None or theirs[name] not in ours:
            differ[name] = (theirs[name], ours[:1])
    assert differ == {}


def test_details(ds):
    with pytest.raises(ValueError) as caught:
        pennon.dataset(ds.uri, version=99)
    detail = caught.value.detail
    assert isinstance(detail, pennon.ErrorDetail)
    assert (detail.code, detail.kind) == ("NOT_FOUND", "VersionNotFound")
    # The words that programs look for in pylance's text stand before the message.
    assert str(caught.value) == f"Version not found error, it does not exist: {detail.message}"
    for call, words in (
        (lambda: pennon.dataset(ds.uri, version="zz"), "Ref not found error, it does not exist"),
        (lambda: pennon.dataset(ds.uri + "/none"), "Dataset was not found"),
        (lambda: pennon.write_dataset({"x": [1]}, ds.uri), "Dataset already exists"),
        (lambda: pennon.write_dataset({"x": [1]}, ds.uri, mode="append"), "Append with different schema"),
    ):
        with pytest.raises((ValueError, OSError)) as caught:
            call()
        assert str(caught.value).startswith(words) and str(caught.value).count(words) == 1
    with pytest.raises(ValueError) as caught:
        ds.to_table(columns={"x": "1 / (id - id)"})
    assert caught.value.detail.code == "INVALID_ARGUMENT"
