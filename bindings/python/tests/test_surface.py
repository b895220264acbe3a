# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the surface does beside its verbs: modules, refusals by name, requested schemas, progress, loggers, texts and pickles of its objects."""
import importlib
import inspect
import io
import json
import logging
import pickle
import subprocess
import sys
import time

import pennon
import pennon.dataset
import pennon.fragment
import pennon.optimize
import pennon.query
import pyarrow as pa
import pytest
import test_signatures
from pennon import _progress


def test_modules_are_there_without_an_import_of_their_own(ds):
    for name in ("blob", "commit", "debug", "file", "indices", "io", "log", "optimize", "query", "sampler", "types", "udf"):
        assert inspect.ismodule(getattr(pennon, name))
    for name in pennon.__all__:
        assert getattr(pennon, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        pennon.nonsense
    with pytest.raises(AttributeError, match="nonsense"):
        pennon.dataset.__globals__["__getattr__"]("nonsense")


def test_no_module_needs_pyarrow_to_be_imported():
    modules = [name for name in test_signatures.MODULES if name not in ("", "blob", "torch.data")]
    text = "import importlib, sys\n" + "".join(f"importlib.import_module('pennon.{name}')\n" for name in modules)
    done = subprocess.run([sys.executable, "-c", text + "print({'pyarrow', 'numpy', 'pandas'} & set(sys.modules))"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def dummies(function):
    """Arguments for every parameter that has to be given."""
    return [None for name, kind, default in test_signatures.python_ops._parameters(function) if default is None and kind == "POSITIONAL_OR_KEYWORD"]


def refused_calls():
    for module, names in test_signatures.refused().items():
        for name in sorted(names):
            yield pytest.param(module, name, id=f"{module}.{name}")


@pytest.mark.parametrize(("module", "name"), [*refused_calls()])
def test_refused_by_name(ds, module, name):
    home = importlib.import_module(module)
    first, _, last = name.partition(".")
    owner = {"LanceDataset": ds, "LanceFragment": ds.get_fragments()[0], "LanceScanner": ds.scanner(), "LanceStats": ds.stats}.get(first, getattr(home, first))
    call = getattr(owner, last) if last else owner
    if inspect.isclass(owner) and last and inspect.isfunction(inspect.getattr_static(owner, last)):
        call = getattr(owner.__new__(owner), last)
    ds.has_index  # noqa: B018
    if last in ("list_indices", "describe_indices", "index_statistics", "index_stats"):
        return  # they answer where there is no index: test_what_needs_no_index
    with pytest.raises(NotImplementedError, match="not supported yet"):
        call(*dummies(call))


def test_what_needs_no_index(ds):
    assert (ds.has_index, ds.list_indices(), ds.describe_indices()) == (False, [], [])
    for call in (ds.index_statistics, ds.stats.index_stats):
        with pytest.raises(KeyError, match='"none" not found'):
            call("none")


def test_merges(ds, table):
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().conflict_retries(3).use_index(False)
    assert repr(merge).startswith("MergeInsertBuilder(on=['id'], when_matched=1")
    with pytest.raises(NotImplementedError, match="write-ahead log"):
        merge.mark_generations_as_merged([])
    assert merge.execute(table.slice(0, 4)) == {"num_inserted_rows": 0, "num_updated_rows": 4, "num_deleted_rows": 0}
    assert (ds.version, ds.count_rows()) == (2, table.num_rows)
    # The last clause about the same rows counts.
    once = ds.merge_insert("id").when_matched_update_all("source.id = 1").when_matched_delete()
    assert once.execute(table.slice(0, 4))["num_deleted_rows"] == 4


def test_a_merge_hands_on_which_keys_it_inserted(tmp_path):
    """Without them, two writers could insert one key."""
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    rows = lambda *ids: pa.table({"id": list(ids)}, schema=pa.schema([key]))
    ds = pennon.write_dataset(rows(1, 2), tmp_path / "t")
    transaction, _ = ds.merge_insert().when_not_matched_insert_all().execute_uncommitted(rows(2, 3))
    assert isinstance(transaction.operation, pennon.LanceOperation.Update)
    ds.merge_insert().when_not_matched_insert_all().execute(rows(3))
    with pytest.raises(OSError, match="preempted by concurrent transaction Update"):
        pennon.LanceDataset.commit(ds, transaction)
    assert ds.count_rows() == 3


# ---- requested schemas ----


def test_requested_schema(ds, table):
    wanted = pa.schema([("id", pa.int32()), ("name", pa.large_string())])
    scanner = ds.scanner(columns=["id", "name"])
    read = pa.RecordBatchReader.from_stream(scanner, schema=wanted).read_all()
    assert read.schema == wanted and read.equals(table.select(["id", "name"]).cast(wanted))
    assert pa.RecordBatchReader.from_stream(ds, schema=table.schema).read_all().equals(table)
    fragment = ds.get_fragments()[0].__arrow_c_stream__(pa.schema([*table.schema]).__arrow_c_schema__())
    assert "arrow_array_stream" in repr(fragment)


def test_schema_capsules(ds, table):
    assert pa.schema(ds) == table.schema == pa.schema(ds.scanner())
    assert pa.schema(ds.scanner(columns={"x": "id * 2"})).field("x").type == pa.int64()


# ---- progress ----


def test_lines_of_progress():
    assert _progress.line_of("writing", "rows", 1234, 0, 2.0) == "writing: 1,234 rows, 2 s, 617 rows/s"
    half = _progress.line_of("cloning", "bytes", 500, 1000, 1.0)
    assert "50%" in half and half.count("#") == half.count(".") and "of 1,000 bytes" in half


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_alone(monkeypatch, table, tmp_path):
    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr(_progress, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(_progress, "_STEP_SECONDS", 0.01)

    def slow():
        for batch in table.to_batches(max_chunksize=200):
            time.sleep(0.05)
            yield batch

    monkeypatch.setattr(sys, "stderr", file)
    pennon.write_dataset(slow(), tmp_path / "file", schema=table.schema)
    assert file.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", terminal)
    ds = pennon.write_dataset(slow(), tmp_path / "terminal", schema=table.schema)
    assert "writing:" in terminal.getvalue() and terminal.getvalue().endswith("\r")
    monkeypatch.setenv("PENNON_PROGRESS", "0")
    terminal.truncate(0)
    ds.validate()
    assert "validating" not in terminal.getvalue()


def test_counters(table, tmp_path):
    counter = pennon._pennon.Progress()
    assert counter.numbers() == (0, 0)
    ds = pennon._pennon.write(str(tmp_path / "t"), table, {"max_rows_per_file": 300}, counter)
    assert counter.numbers()[0] == 1000
    counter = pennon._pennon.Progress()
    assert ds.verify(0, counter) == [] and counter.numbers()[0] > 0
    with pytest.raises(TypeError, match="Progress"):
        ds.verify(0, object())


def test_hooks_of_fragments_fail_the_write(table, tmp_path):
    class Failing(pennon.progress.NoopFragmentWriteProgress):
        def complete(self, fragment, **kwargs):
            raise RuntimeError(f"fragment of {fragment.num_rows} rows")

    with pytest.raises(RuntimeError, match="fragment of 1000 rows"):
        pennon.fragment.write_fragments(table, tmp_path / "t", progress=Failing())


# ---- loggers ----


def test_set_logger(tmp_path):
    pennon.set_logger(str(tmp_path / "log"), "pennon.test", logging.WARNING, "%(levelname)s %(message)s")
    logging.getLogger("pennon.test").warning("hello")
    logging.getLogger("pennon.test").info("not this")
    for handler in logging.getLogger("pennon.test").handlers:
        handler.close()
    assert (tmp_path / "log").read_text() == "WARNING hello\n"


def test_levels_of_the_environment(monkeypatch):
    for text, level in (("", "INFO"), ("debug", "DEBUG"), ("trace", "DEBUG"), ("lance=debug,warn", "WARN")):
        monkeypatch.setenv("LANCE_LOG", text)
        assert pennon.log.get_log_level() == level


# ---- texts and pickles ----


def objects(ds):
    plan = pennon.optimize.Compaction.plan(ds, {})
    match = pennon.query.MatchQuery("word", "name", fuzziness=None)
    return {
        "dataset": ds,
        "fragment": ds.get_fragments()[0],
        "metadata": ds.get_fragments()[0].metadata,
        "file": ds.get_fragments()[0].data_files()[0],
        "deletions": pennon.fragment.DeletionFile(1, 2, "bitmap", 3),
        "row ids": pennon.fragment.RowIdMeta('{"Inline": [1]}'),
        "schema": ds.lance_schema,
        "field": ds.lance_schema.fields()[0],
        "transaction": ds.read_transaction(1),
        "ordering": pennon.dataset.__globals__["ColumnOrdering"]("id"),
        "plan": plan,
        "task": plan.tasks[0],
        "result": plan.tasks[0].execute(ds),
        "metrics": pennon.optimize.CompactionMetrics(1, 2, 3, 4),
        "query": match & pennon.query.PhraseQuery("two words", "name") | pennon.query.BoostQuery(match, match),
        "multi": pennon.query.MultiMatchQuery("word", ["a", "b"], boosts=[1.0, 2.0]),
        "index": pennon.Index("u", "i", [0], 1, {0}, 0),
        "blob": pennon.Blob.from_uri("file:///x", 1, 2),
        "base": pennon.DatasetBasePath("/x", "name"),
        "progress": pennon.IndexProgress("start", "x"),
        "update": pennon.LanceOperation.Update(new_fragments=[ds.get_fragments()[0].metadata], update_mode="rewrite_rows"),
        "rewrite": pennon.LanceOperation.Rewrite([pennon.LanceOperation.RewriteGroup([], [])], []),
    }


def test_objects_have_texts_and_can_be_sent(ds):
    for name, one in objects(ds).items():
        assert " object at 0x" not in repr(one), name
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is type(one), name
        if name not in ("dataset", "fragment", "field"):
            assert again == one, name
    for one in (ds.scanner(), ds.session(), pennon.dataset.__globals__["ScannerBuilder"](ds).limit(1), ds.stats, ds.tags, ds.branches, ds.optimize):
        assert repr(one)


def test_plans_as_json(ds):
    made = objects(ds)
    for name in ("plan", "result"):
        assert type(made[name]).from_json(made[name].json()) == made[name]
    task = made["plan"].tasks[0]
    assert type(task).from_json(task.json()) == task and made["plan"].num_tasks() == 1


def test_operations_travel(ds):
    for name in ("update", "rewrite"):
        transaction = pennon.Transaction(1, objects(ds)[name])
        native = pennon._pennon.transaction_from_json(json.dumps(transaction._tree()))
        assert type(transaction)._of(json.loads(native.to_json())) == transaction
        assert pennon._pennon.transaction_from_bytes(native.to_bytes()).to_json() == native.to_json()


def test_deletion_files_have_paths():
    one = pennon.fragment.DeletionFile(4, 7, "array", 1)
    assert one.path(3) == "_deletions/3-4-7.arrow" and one.path(3, "/base") == "/base/_deletions/3-4-7.arrow"
    assert pennon.fragment.DeletionFile.from_json(one.json()) == one


def test_queries_are_checked():
    with pytest.raises(ValueError, match="must be > 0"):
        pennon.indices.VectorSearchQuery("v", [1.0], k=0)
    with pytest.raises(ValueError, match="minimum_nprobes"):
        pennon.indices.VectorSearchQuery("v", [1.0], nprobes=1, minimum_nprobes=1)
    with pytest.raises(ValueError, match="2 boosts"):
        pennon.query.MultiMatchQuery("x", ["a"], boosts=[1.0, 2.0])


def test_blobs_are_checked():
    for arguments in ({"data": b"", "uri": "x"}, {"uri": ""}, {"position": 1}, {"uri": "x", "position": 1}):
        with pytest.raises(ValueError):
            pennon.Blob(**arguments)
    for keywords, kind in (
        ({"inline_size_threshold": -1}, ValueError), ({"dedicated_size_threshold": 0}, ValueError), ({"inline_size_threshold": True}, TypeError),
        ({"inline_size_threshold": 1.0}, TypeError), ({"inline_size_threshold": 2**64}, OverflowError),
    ):
        with pytest.raises(kind):
            pennon.blob_field("b", **keywords)
    with pytest.raises(TypeError, match="BlobArray values"):
        pennon.blob_array([1])
    with pytest.raises(ValueError, match="Expected a binary array"):
        pennon.BlobColumn(pa.array([1]))


def test_blobs_in_pandas(tmp_path):
    table = pa.table([pa.array([b"a", b"bc"], pa.large_binary())], schema=pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]))
    ds = pennon.write_dataset(table, tmp_path / "t")
    assert list(ds.to_pandas(blob_mode="bytes")["b"]) == [b"a", b"bc"]
    assert "size" in ds.to_pandas(blob_mode="descriptions")["b"][0]
    with pytest.raises(ValueError, match="blob_mode must be one of"):
        ds.to_pandas(blob_mode="x")
    assert [file.read() for file in ds.to_pandas()["b"]] == [b"a", b"bc"]


def test_defaults_of_the_builder(ds):
    builder = pennon.dataset.__globals__["ScannerBuilder"](ds).apply_defaults({"columns": ["id"], "limit": 2, "fragments": ds.get_fragments()[1:2]})
    assert builder.to_scanner().to_table().to_pydict() == {"id": [300, 301]}
    with pytest.raises(ValueError, match="Unknown option nonsense"):
        builder.apply_defaults({"nonsense": 1})
    for wrong in (lambda: builder.limit(-1), lambda: builder.offset(-1), lambda: builder.batch_readahead(-1)):
        with pytest.raises(ValueError):
            wrong()


def test_texts_for_people(ds):
    assert '"name": "half"' in pennon.debug.format_schema(ds)
    assert '"physical_rows": 300' in pennon.debug.format_manifest(ds)
    assert '"point.x"' in pennon.debug.format_fragment(ds.get_fragments()[0].metadata, ds)
    assert '"Overwrite"' in pennon.debug.list_transactions(ds)[0]
