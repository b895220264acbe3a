# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Compaction: whole and in parts, with the texts of pylance, whose planner gives the same plans."""
import json
import pickle

import pennon
import pyarrow as pa
import pytest
from pennon.optimize import Compaction, CompactionMetrics, CompactionPlan, CompactionTask, RewriteResult

LAYOUTS = 240


@pytest.fixture
def small(table, tmp_path):
    return pennon.write_dataset(table, tmp_path / "small.lance", max_rows_per_file=100)


def test_compact_files(small, table):
    small.delete("id % 4 = 0")
    want = small.to_table()
    metrics = small.optimize.compact_files(target_rows_per_fragment=300)
    assert metrics == CompactionMetrics(10, 3, 20, 3)
    assert small.version == 4 and small.to_table() == want
    assert small.optimize.compact_files(target_rows_per_fragment=300, num_threads=1, batch_size=10) == CompactionMetrics(0, 0, 0, 0)
    assert small.version == 4
    assert not small.validate()
    assert Compaction.execute(small, {}) == CompactionMetrics(3, 1, 3, 1)


def test_parts(small, table):
    plan = Compaction.plan(small, {"target_rows_per_fragment": 400})
    assert (plan.read_version, plan.num_tasks(), len(plan.tasks)) == (1, 2, 2)
    assert repr(plan) == "CompactionPlan(read_version=1, tasks=<2 compaction tasks>)"
    assert [fragment.id for fragment in plan.tasks[0].fragments] == [0, 1, 2, 3]
    assert "CompactionTask(read_version=1, fragments=[FragmentMetadata(id=0" in repr(plan.tasks[0])
    results = [task.execute(pennon.dataset(small.uri)) for task in plan.tasks]
    assert results[0].metrics == CompactionMetrics(4, 1, 4, 1) and results[0].read_version == 1
    assert [fragment.physical_rows for fragment in results[1].new_fragments] == [400, 200]
    assert results[0].original_fragments == results[0].old_fragments == plan.tasks[0].fragments
    for one in (plan, plan.tasks[0], results[0]):
        assert type(one).from_json(one.json()) == one == pickle.loads(pickle.dumps(one)) != 3
        with pytest.raises(TypeError, match="cannot create"):
            type(one)()
        with pytest.raises(TypeError):
            hash(one)
    # A part of them, and the rest; rows keep their order.
    assert Compaction.commit(small, results[1:]) == CompactionMetrics(6, 2, 6, 2)
    assert small.version == 3
    assert Compaction.commit(small, results[:1]) == CompactionMetrics(4, 1, 4, 1)
    assert sorted(small.to_table()["id"].to_pylist()) == table["id"].to_pylist()
    assert Compaction.commit(small, []) == CompactionMetrics()
    assert small.version == 5


def test_the_loser_is_told(small):
    plan = Compaction.plan(small, {})
    results = [task.execute(small) for task in plan.tasks]
    small.delete("id = 5")
    with pytest.raises(OSError, match="preempted by concurrent transaction Delete"):
        Compaction.commit(small, results)
    assert pennon.dataset(small.uri).count_rows() == 999


def test_arguments(small):
    wrong = [
        ({"bogus": 1}, ValueError, "Invalid compaction option: bogus"), ({"target_rows_per_fragment": None}, TypeError, "NoneType"),
        ({"target_rows_per_fragment": "10"}, TypeError, "integer"), ({"num_threads": -1}, OverflowError, "negative"),
        ({"materialize_deletions": 1}, TypeError, "bool"), ({"compaction_mode": "x"}, ValueError, "Invalid compaction mode"),
        ({"compaction_mode": 1}, TypeError, "str"), ({"materialize_deletions_threshold": "x"}, TypeError, "real number"), (None, TypeError, "dict"),
    ]
    for options, kind, text in wrong:
        with pytest.raises(kind, match=text):
            Compaction.plan(small, options)
    for name in ("max_bytes_per_file", "num_threads", "batch_size", "io_buffer_size", "binary_copy_read_batch_bytes", "max_source_fragments"):
        assert json.loads(Compaction.plan(small, {name: None}).json())["options"][name] is None
    for kind, text in ((CompactionPlan, '{"tasks":[],"read_version":1}'), (CompactionTask, "{}"), (RewriteResult, "[]"), (CompactionPlan, "nope")):
        with pytest.raises(ValueError, match=f"Could not load {kind.__name__}"):
            kind.from_json(text)
    for rewrites in (3, [3]):
        with pytest.raises(TypeError, match="rewrites"):
            Compaction.commit(small, rewrites)
    small.update_config({"lance.compaction.batch_size": "many"})
    with pytest.raises(ValueError, match="lance.compaction.batch_size: 'many'"):
        small.optimize.compact_files()
    small.update_config({"lance.compaction.batch_size": "7"})
    assert json.loads(Compaction.plan(small, {}).json())["options"]["batch_size"] == 7
    small.delete("id = 1")
    with pytest.raises(OSError, match="binary copy is not supported"):
        small.optimize.compact_files(compaction_mode="force_binary_copy")


def test_binary_copy(small, table):
    assert small.optimize.compact_files(compaction_mode="force_binary_copy") == CompactionMetrics(10, 1, 10, 1)
    assert small.to_table() == table and not small.validate()
    assert small.take([0, 99, 100, 999]) == table.take([0, 99, 100, 999])


def test_plans_are_those_of_pylance_and_tasks_go_to_and_fro(official, tmp_path):
    """Of random layouts: the plan to the byte; then tasks executed by one and committed by the other, by turns."""
    uri = str(tmp_path / "t.lance")
    ask = lambda function, **args: official.call("compaction_ops." + function, uri=uri, **args)  # noqa: E731
    exchanged = 0
    for seed in range(LAYOUTS):
        made = ask("layout", seed=seed)
        ds = pennon.dataset(uri)
        plan = Compaction.plan(ds, made["options"])
        assert plan.json() == ask("plan", options=made["options"]), seed
        assert [task.json() for task in plan.tasks] == ask("tasks", options=made["options"]), seed
        if not plan.tasks or (made["indexed"] and not made["stable"]):
            continue
        before = ask("rows", stable=made["stable"])
        if seed % 2:
            results = [RewriteResult.from_json(text) for text in ask("execute", texts=[task.json() for task in plan.tasks])]
            Compaction.commit(ds, results)
        else:
            results = [task.execute(ds) for task in plan.tasks]
            ask("commit", texts=[result.json() for result in results])
        assert ask("rows", stable=made["stable"]) == before, seed
        assert sorted(pennon.dataset(uri).to_table(columns=["id", "v"]).to_pylist(), key=lambda row: row["id"]) == [
            {"id": row["id"], "v": row["v"]} for row in before
        ], seed
        exchanged += 1
    assert exchanged > LAYOUTS / 3


def test_deferred_in_parts(official, tmp_path):
    uri = str(tmp_path / "t.lance")
    official.call("compaction_ops.indexed", uri=uri)
    ds = pennon.dataset(uri)
    results = [task.execute(ds) for task in Compaction.plan(ds, {"target_rows_per_fragment": 1000}).tasks]
    with pytest.raises(OSError, match="index 'id_idx'"):
        Compaction.commit(ds, results)
    Compaction.commit(ds, results, {"defer_index_remap": True})
    assert official.call("compaction_ops.answers", uri=uri)["wrong"] == []


def test_blobs(tmp_path, official):
    """The bytes of blobs come along, whole; nulls and empty ones stay what they are."""
    values = [b"x", None, b"", b"m" * 100_000, b"Z" * 5_000_000, None]
    field = pa.field("b", pa.struct([("data", pa.large_binary()), ("uri", pa.string())]), metadata={"ARROW:extension:name": "lance.blob.v2"})
    rows = pa.array([None if value is None else {"data": value, "uri": None} for value in values], field.type)
    for i in range(3):
        ds = pennon.write_dataset(pa.table([pa.array(range(i * 6, i * 6 + 6)), rows], schema=pa.schema([("id", pa.int64()), field])),
                                  tmp_path / "b.lance", mode="append" if i else "create", data_storage_version="2.2")
    ds.delete("id IN (4, 7)")
    want = ds.to_table(blob_handling="all_binary")
    assert ds.optimize.compact_files() == CompactionMetrics(3, 1, 5, 1)
    assert ds.to_table(blob_handling="all_binary") == want and not ds.validate()
    assert want["b"].to_pylist() == [value for i, value in enumerate(values * 3) if i not in (4, 7)]
