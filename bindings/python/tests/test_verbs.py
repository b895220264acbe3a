# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Versions, references, transactions, metadata, and what goes wrong."""
import copy
import json
import pathlib
import pickle
from datetime import datetime, timedelta, timezone

import pennon
import pyarrow as pa
import pytest
from pennon.fragment import write_fragments


def test_versions(ds, table):
    before = datetime.now()
    assert ds.versions()[0]["version"] == 1 and abs(ds.versions()[0]["timestamp"] - before) < timedelta(minutes=1)
    other = copy.copy(ds)
    ds.insert(table)
    assert (ds.version, other.version, other.latest_version) == (2, 1, 2)
    assert [version["metadata"]["total_rows"] for version in ds.versions()] == ["1000", "2000"]
    other.checkout_latest()
    assert other.version == 2 and other.count_rows() == 2000
    old = ds.checkout_version(1)
    assert old.count_rows() == 1000 and ds.version == 2
    old.restore()
    assert (old.version, old.count_rows(), ds.latest_version) == (3, 1000, 3)
    assert pennon.dataset(ds.uri, asof=datetime.now() + timedelta(days=1)).version == 3
    assert pennon.dataset(ds.uri, asof=datetime.now(timezone.utc) + timedelta(days=1)).version == 3
    with pytest.raises(ValueError, match="earlier than the first version"):
        pennon.dataset(ds.uri, asof="2020-01-01")


def test_write_modes(ds, table, tmp_path):
    assert pennon.write_dataset(table, ds, mode="append").count_rows() == 2000
    new = pennon.write_dataset({"x": [1]}, ds.uri, mode="overwrite", data_storage_version="2.0")
    assert new.schema.names == ["x"] and new.data_storage_version == "2.0"
    # An append takes the dataset's own, whatever is asked for.
    assert pennon.write_dataset({"x": [2]}, ds.uri, mode="append", data_storage_version="2.1").data_storage_version == "2.0"
    assert pennon.write_dataset({"x": [2]}, tmp_path / "new", mode="append").count_rows() == 1
    assert pennon.write_dataset(table, tmp_path / "s", enable_stable_row_ids=True).has_stable_row_ids
    auto = pennon.write_dataset(table, tmp_path / "c", auto_cleanup_options={"interval": 3, "older_than_seconds": 60})
    assert auto.config()["lance.auto_cleanup.interval"] == "3"


def test_commit_message_and_transactions(ds, table):
    pennon.write_dataset(table, ds.uri, mode="append", commit_message="more", transaction_properties={"k": "v"})
    ds.checkout_latest()
    newest, first = ds.get_transactions()
    assert newest.transaction_properties == {"__lance_commit_message": "more", "k": "v"}
    assert isinstance(newest.operation, pennon.LanceOperation.Append) and newest.read_version == 1
    assert isinstance(first.operation, pennon.LanceOperation.Overwrite)
    assert [field.name() for field in first.operation.new_schema.fields()] == ds.schema.names
    assert ds.read_transaction(2) == newest == pickle.loads(pickle.dumps(newest))


def test_tags(ds, table):
    ds.insert(table)
    ds.tags.create("one", 1)
    ds.tags.create("now")
    assert ds.tags.get_version("one") == 1 and ds.tags.get_version("now") == 2
    assert [name for name, _ in ds.tags.list_ordered()] == ["now", "one"]
    assert [name for name, _ in ds.tags.list_ordered("asc")] == ["one", "now"]
    ds.tags.update("now", 1)
    ds.tags.replace_metadata("now", {"a": "b"})
    assert ds.tags.list()["now"]["metadata"] == {"a": "b"} and ds.tags.list()["now"]["version"] == 1
    assert pennon.dataset(ds.uri, version="now").version == ds.checkout_version("one").version == 1
    ds.tags.delete("now")
    assert list(ds.tags.list()) == ["one"]
    with pytest.raises(ValueError, match="Invalid sort order"):
        ds.tags.list_ordered("sideways")


def test_branches(ds, table):
    branch = ds.create_branch("try/it", 1)
    branch.insert(table)
    assert (branch.count_rows(), ds.count_rows(), ds.latest_version) == (2000, 1000, 1)
    assert ds.branches.list()["try/it"]["parent_version"] == 1
    assert ds.checkout_version(("try/it", None)).count_rows() == 2000
    assert branch.checkout_version((None, None)).count_rows() == branch.checkout_version(("main", 1)).count_rows() == 1000
    assert branch.checkout_version(1).count_rows() == 1000 and branch.checkout_version(1).uri == branch.uri != ds.uri
    assert pennon.write_dataset(table, branch, mode="append").count_rows() == 3000
    assert pickle.loads(pickle.dumps(branch)).count_rows() == 2000
    ds.tags.create("on-branch", ("try/it", 2))
    assert ds.tags.list()["on-branch"]["branch"] == "try/it"
    ds.tags.delete("on-branch")
    ds.branches.delete("try/it")
    assert ds.branches.list() == {}


def test_clones(ds, table, tmp_path):
    shallow = ds.shallow_clone(tmp_path / "shallow", 1)
    deep = ds.deep_clone(tmp_path / "deep")
    assert shallow.to_table().equals(table) and deep.to_table().equals(table)
    deep.insert(table)
    assert ds.count_rows() == 1000


def test_cleanup(ds, table):
    ds.insert(table, mode="overwrite")
    stats = ds.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert stats.old_versions == 1 and stats.data_files_removed == 4 and stats.bytes_removed > 0
    assert [version["version"] for version in ds.versions()] == [2]
    ds.insert(table)
    assert ds.cleanup_old_versions(retain_versions=1).old_versions == 1


def test_config_and_metadata(ds):
    assert ds.update_config({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    assert ds.update_config({"a": None}) == {"b": "2"} == ds.config()
    ds.delete_config_keys(["b"])
    assert ds.config() == {}
    assert ds.update_metadata({"x": "y"}) == ds.metadata == {"x": "y"}
    assert ds.update_schema_metadata({"m": "n"}) == ds.schema_metadata == {"m": "n"}
    assert ds.update_schema_metadata({"o": "p"}, replace=True) == {"o": "p"}
    ds.replace_field_metadata("id", {"unit": "m"})
    assert ds.schema.field("id").metadata == {b"unit": b"m"}
    assert ds.version == 8


def test_fragments(ds, table):
    fragments = ds.get_fragments()
    assert [fragment.fragment_id for fragment in fragments] == [0, 1, 2, 3]
    one = fragments[1]
    assert one.to_table().equals(table.slice(300, 300)) and one.count_rows() == one.physical_rows == 300
    assert one.count_rows("id < 310") == 10 and one.num_deletions == 0
    assert one.take([5, 0], columns=["id"]).to_pydict() == {"id": [305, 300]}
    assert one.head(1).to_pydict()["id"] == [300]
    assert sum(batch.num_rows for batch in one.to_batches(batch_size=7)) == 300
    assert pickle.loads(pickle.dumps(one)).to_table().equals(one.to_table())
    assert ds.get_fragment(4) is None and ds.get_fragment(3).count_rows() == 100
    with pytest.raises(ValueError, match="300 rows"):
        one.take([300])
    assert ds.stats.dataset_stats() == {"num_deleted_rows": 0, "num_fragments": 4, "num_small_files": 4}
    assert sum(field.bytes_on_disk for field in ds.stats.data_stats().fields) > 0


def test_distributed_write(ds, table):
    made = write_fragments(table, ds.uri, max_rows_per_file=400)
    assert [fragment.num_rows for fragment in made] == [400, 400, 200] and ds.latest_version == 1
    sent = [pennon.FragmentMetadata.from_json(json.dumps(fragment.to_json())) for fragment in made]
    assert sent == made == pickle.loads(pickle.dumps(made))
    committed = pennon.LanceDataset.commit(ds, pennon.LanceOperation.Append(sent), read_version=1, commit_message="hello")
    assert committed.count_rows() == 2000
    assert committed.read_transaction(2).transaction_properties == {"__lance_commit_message": "hello"}
    with pytest.raises(ValueError, match="read_version is required"):
        pennon.LanceDataset.commit(ds, pennon.LanceOperation.Append(sent))
    with pytest.raises(TypeError, match="FragmentMetadata"):
        pennon.LanceOperation.Append([1])


def test_overwrite_and_project(table, tmp_path):
    uri = str(tmp_path / "new")
    made = write_fragments(table, uri, mode="create")
    ds = pennon.LanceDataset.commit(uri, pennon.LanceOperation.Overwrite(table.schema, made))
    assert ds.to_table().equals(table)
    schema = ds.lance_schema
    assert [field.id() for field in schema.fields()] == [0, 1, 2, 3, 5]
    kept = [message for message in schema._messages if message.get("id", 0) in (0, 2)]
    small = pennon.LanceOperation.Project(type(schema)(kept, {}))
    assert pennon.LanceDataset.commit(ds, small, read_version=1).to_table().equals(table.select(["id", "name"]))
    old = pennon.LanceDataset.commit(ds, pennon.LanceOperation.Restore(1))
    assert old.version == 3 and old.to_table().equals(table)
    config = pennon.LanceOperation.UpdateConfig(config_updates=pennon.LanceOperation.UpdateMap({"a": "b"}))
    assert pennon.LanceDataset.commit(ds, config, read_version=3).config() == {"a": "b"}
    deleted = pennon.LanceOperation.Delete([], [0], "true")
    assert pennon.LanceDataset.commit(ds, deleted, read_version=4).count_rows() == 0


def test_operations_come_back(ds, table):
    ds.update_config({"a": "b"})
    ds.update_metadata({"c": "d"}, replace=True)
    for version in range(1, ds.version + 1):
        transaction = ds.read_transaction(version)
        again = pennon.operation.Transaction._of(json.loads(json.dumps(transaction._tree())))
        assert again == transaction
    assert ds.read_transaction(3).operation.table_metadata_updates == pennon.LanceOperation.UpdateMap({"c": "d"}, True)


def test_batch_commit(ds, table):
    transactions = [write_fragments(table, ds, return_transaction=True) for _ in range(3)]
    result = pennon.LanceDataset.commit_batch(ds, transactions)
    assert result["dataset"].version == 2 and result["dataset"].count_rows() == 4000
    assert len(result["merged"].operation.fragments) == 3
    with pytest.raises(OSError):
        pennon.LanceDataset.commit_batch(ds, [])


def test_conflicts(ds, table):
    made = write_fragments(table, ds, mode="overwrite")
    ds.insert(table)
    strict = pennon.operation.Transaction(1, pennon.LanceOperation.Overwrite(table.schema, made))
    with pytest.raises(OSError) as caught:
        pennon.LanceDataset.commit(ds, strict, max_retries=0)
    assert caught.value.detail.code == "CONFLICT"
    with pytest.raises(ValueError, match="positive duration"):
        pennon.LanceDataset.commit(ds, strict, commit_timeout=timedelta(0))


def test_detached(ds, table):
    transaction = write_fragments(table, ds, return_transaction=True)
    detached = pennon.LanceDataset.commit(ds, transaction, detached=True)
    assert detached.version >> 63 == 1 and ds.latest_version == 1


def test_bases(ds, tmp_path, table):
    ds.add_bases([pennon.DatasetBasePath(str(tmp_path / "base"), "other")])
    (tmp_path / "base").mkdir()
    assert pennon.write_dataset(table, ds.uri, mode="append", target_bases=["other"]).to_table().num_rows == 2000
    assert list((tmp_path / "base").iterdir())


def test_validate(ds, tmp_path):
    ds.validate()
    file = next((tmp_path / "table.lance" / "data").iterdir())
    data = bytearray(file.read_bytes())
    data[-100:-40] = bytes(60)
    file.write_bytes(data)
    with pytest.raises(OSError) as caught:
        pennon.dataset(ds.uri).validate()
    assert caught.value.detail.file.endswith(file.name)


def test_repr(ds):
    assert repr(ds) == f"LanceDataset(uri='{ds.uri}', version=1, rows=1000, columns=[id, half, name, list, point])"
    assert "fragment" in repr(ds.get_fragments()[0]).lower()
    assert "id=0" in repr(ds.lance_schema)


def test_what_a_function_raises(ds):
    kind = pa.schema([pa.field("x", pa.int64())])
    version, files = ds.version, sorted(path.name for path in (pathlib.Path(ds.uri) / "data").iterdir())

    def broken(batch):
        if batch["id"][0].as_py() > 500:
            raise ZeroDivisionError("too far")
        return batch.select(["id"]).rename_columns(["x"])

    with pytest.raises(OSError, match="ZeroDivisionError: too far") as caught:
        ds.add_columns(pennon.batch_udf(kind)(broken), batch_size=100)
    assert isinstance(caught.value.__cause__, ZeroDivisionError) and caught.value.__cause__.__traceback__ is not None

    def interrupted(batch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.add_columns(pennon.batch_udf(kind)(interrupted))

    def inside(batch):
        assert ds.count_rows("id < 10") == 10  # another call while this one is under way
        return batch.select(["id"]).rename_columns(["x"])

    assert (ds.version, files) == (version, sorted(path.name for path in (pathlib.Path(ds.uri) / "data").iterdir()))
    ds.add_columns(pennon.batch_udf(kind)(inside))
    assert ds.count_rows("x = id") == ds.count_rows()


def test_a_stream_that_breaks(ds):
    def batches():
        yield pa.record_batch({"x": [1, 2, 3]})
        raise RuntimeError("no more")

    with pytest.raises((OSError, RuntimeError), match="no more"):
        ds.add_columns(batches(), reader_schema=pa.schema([pa.field("x", pa.int64())]))
    assert "x" not in ds.schema.names


NOT_YET = [
    lambda ds: pennon.dataset(ds.uri, storage_options={"a": "b"}),
    lambda ds: pennon.dataset(ds.uri, commit_lock=print),
    lambda ds: pennon.dataset(namespace_client=object(), table_id=["t"]),
    lambda ds: pennon.write_dataset({"x": [1]}, ds.uri, mode="append", progress=object()),
    lambda ds: pennon.write_dataset({"x": [1]}, ds.uri, mode="append", data_storage_version="legacy"),
    lambda ds: ds.scanner(nearest={"column": "v"}),
    lambda ds: ds.scanner(full_text_query="words"),
    lambda ds: ds.scanner(blob_handling="all_descriptions"),
    lambda ds: ds.scanner().take([1]),
]


@pytest.mark.parametrize("call", NOT_YET)
def test_what_is_not_there_is_refused_by_name(ds, call):
    with pytest.raises(NotImplementedError):
        call(ds)


def test_arguments_are_checked(ds):
    for keywords in ({"limit": -1}, {"offset": -1}, {"batch_readahead": -1}, {"blob_handling": "nonsense"}):
        with pytest.raises(ValueError):
            ds.scanner(**keywords)
    for keywords in ({"columns": "id"}, {"fragments": [1]}, {"order_by": [1]}):
        with pytest.raises(TypeError):
            ds.scanner(**keywords)
    with pytest.raises(ValueError, match="NUL"):
        ds.to_table(filter="id = '\0'")
    with pytest.raises(OverflowError):
        ds.take([-1])
    with pytest.raises(OverflowError):
        ds.take([2**64])
    with pytest.raises(TypeError):
        ds.take(["a"])
    with pytest.raises(ValueError, match="Must specify either"):
        pennon.dataset()
    with pytest.raises(ValueError, match="Must specify either"):
        pennon.write_dataset({"x": [1]})
    with pytest.raises(TypeError):
        pennon.dataset(5)
