# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the tests of compaction ask of official Lance. Runs inside oracle_server.py, under either pylance."""
import random
import shutil

import lance
import numpy as np
import pyarrow as pa
from lance.optimize import Compaction, CompactionTask, RewriteResult

import mutation_ops


def compact(uri, options):
    m = Compaction.execute(lance.dataset(uri), options)
    return [m.fragments_removed, m.fragments_added, m.files_removed, m.files_added]


def plan(uri, options):
    return Compaction.plan(lance.dataset(uri), options).json()


def tasks(uri, options):
    return [task.json() for task in Compaction.plan(lance.dataset(uri), options).tasks]


def execute(uri, texts):
    return [CompactionTask.from_json(text).execute(lance.dataset(uri)).json() for text in texts]


def commit(uri, texts, options=None):
    dataset = lance.dataset(uri)
    m = Compaction.commit(dataset, [RewriteResult.from_json(text) for text in texts], options)
    return [m.fragments_removed, m.fragments_added, m.files_removed, m.files_added, dataset.version]


def evolve(uri):
    """A second data file for the fragments, a column that is dropped, and one that the first ones lack."""
    dataset = lance.dataset(uri)
    dataset.add_columns({"twice": "a * 2"})
    dataset.drop_columns(["f"])
    return lance.dataset(uri).version


def delete(uri, where):
    lance.dataset(uri).delete(where)


def layout(uri, seed):
    """Fragments of random sizes, deletions, updates and indices; the options for a plan."""
    r = random.Random(seed)
    shutil.rmtree(uri, ignore_errors=True)
    stable, storage = r.random() < .5, r.choice(["2.0", "2.1", "2.2"])
    for i in range(r.randint(1, 8)):
        n = r.choice([1, 3, 5, 10, 20, 21, 40])
        table = pa.table({"id": pa.array([i * 1000 + k for k in range(n)], pa.int64()),
                          "v": pa.array([None if k % 3 == 0 else f"{i}-{k}" for k in range(n)], pa.string())})
        dataset = lance.write_dataset(table, uri, mode="append" if i else "create", enable_stable_row_ids=stable, data_storage_version=storage)
        if r.random() < .15:
            dataset.create_scalar_index("id", "BTREE", replace=True)
    for _ in range(r.randint(0, 3)):
        k = r.randint(2, 9)
        dataset.delete(f"id % {k} = {r.randint(0, k - 1)}")
    if stable and r.random() < .5:
        dataset.update({"v": "'u'"}, where="id % 7 = 1")
    if not stable and r.random() < .2:
        dataset.optimize.compact_files(target_rows_per_fragment=r.choice([10, 40]), defer_index_remap=True)
    options = {"target_rows_per_fragment": r.choice([1, 5, 10, 11, 20, 21, 40, 100, 1000])}
    if r.random() < .3:
        options["materialize_deletions"] = r.random() < .5
    if r.random() < .5:
        options["materialize_deletions_threshold"] = r.choice([0.0, 0.1, 0.2, 0.25, 0.3, 0.5, 0.9, 1.0])
    if r.random() < .2:
        options["max_source_fragments"] = r.randint(0, 6)
    return {"options": options, "stable": stable, "indexed": len(lance.dataset(uri).list_indices()) > 0}


def rows(uri, stable):
    """All rows by id, with row ids and lineage where they are stable."""
    dataset = lance.dataset(uri)
    dataset.validate()
    names = dataset.schema.names + (["_rowid"] + mutation_ops.LINEAGE if stable else [])
    return sorted(dataset.to_table(columns=names).to_pylist(), key=lambda row: row["id"])


def through_indices(uri):
    """Rows by an index and without; every one that there is."""
    dataset = lance.dataset(uri)
    ids = dataset.to_table(columns=["id"])["id"].to_pylist()
    return [i for i in ids if dataset.to_table(columns=["id"], filter=f"id = {i}")["id"].to_pylist() != [i]]


def indexed(uri):
    """Six fragments under a B-tree, a bitmap and a vector index, some rows deleted."""
    r = np.random.default_rng(3)
    for i in range(6):
        v = pa.FixedSizeListArray.from_arrays(pa.array(r.random(500 * 16, dtype=np.float32)), 16)
        table = pa.table({"id": pa.array(np.arange(i * 500, i * 500 + 500)), "s": [f"s{k % 50}" for k in range(500)], "v": v})
        dataset = lance.write_dataset(table, uri, mode="append" if i else "create")
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    dataset.create_index("v", "IVF_PQ", num_partitions=2, num_sub_vectors=4)
    dataset.delete("id % 7 = 3")


def answers(uri):
    """Answers through the indices that are not those of the rows themselves, and what each index covers."""
    dataset = lance.dataset(uri)
    dataset.validate()
    table = dataset.to_table(columns=["id", "s", "v"])
    ids, texts, vectors = table["id"].to_pylist(), table["s"].to_pylist(), np.stack(table["v"].to_numpy(zero_copy_only=False))
    wrong = []
    for k in (0, 3, 7, 500, 777, 1400, 2500, 2999):
        if dataset.to_table(filter=f"id = {k}", columns=["id"])["id"].to_pylist() != [i for i in ids if i == k]:
            wrong.append(f"id = {k}")
    got = sorted(dataset.to_table(filter="s = 's7'", columns=["id"])["id"].to_pylist())
    if got != sorted(i for i, s in zip(ids, texts) if s == "s7"):
        wrong.append("s = 's7'")
    for at in (3, 700, 1500):
        q = vectors[at]
        near = {"column": "v", "q": q, "k": 5, "nprobes": 100, "refine_factor": 50}
        got = dataset.to_table(nearest=near, columns=["id", "_distance"])["id"].to_pylist()
        best = np.argsort(((vectors - q) ** 2).sum(1))[:5]
        if set(got) != {ids[int(i)] for i in best}:
            wrong.append(f"nearest to row {at}")
    return {"wrong": wrong, "indices": sorted(index["name"] for index in dataset.list_indices()),
            "covered": {index["name"]: sorted(index["fragment_ids"]) for index in dataset.list_indices()},
            "fragments": [fragment.fragment_id for fragment in dataset.get_fragments()]}


def wide(uri, n):
    """Two fragments under a B-tree, every other row deleted."""
    for first in (0, n // 2):
        lance.write_dataset(pa.table({"id": pa.array(np.arange(first, first + n // 2))}), uri, mode="append" if first else "create")
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id % 2 = 1")


def some_by_index(uri):
    """Of some ids those that the index does not find, or that it should not."""
    dataset = lance.dataset(uri)
    top = dataset.to_table(columns=["id"])["id"]
    there = set(top.to_pylist())
    asked = [0, 1, 8, 9, 500_000, 999_999, 1_000_000, 1_999_998]
    return [i for i in asked if (dataset.to_table(filter=f"id = {i}", columns=["id"])["id"].to_pylist() == [i]) != (i in there)]


def blobs(uri, storage, outside):
    """Four fragments of blobs of all sizes, nulls and empty ones, some rows deleted; in 2.2 also a file `outside`, whole and a part of it."""
    for i in range(4):
        values = [b"x%d" % i, None, b"", b"m" * 100_000, b"Z" * 5_000_000, b"q" * 70_000, b"", None]
        if storage == "2.2":
            from lance.blob import Blob, blob_array, blob_field
            rows = [None if value is None else Blob.from_bytes(value) for value in values]
            rows += [Blob.from_uri(outside), Blob.from_uri(outside, position=5, size=17)]
            column, field, more = blob_array(rows), blob_field("b"), {"allow_external_blob_outside_bases": True}
        else:
            column, more = pa.array(values, pa.large_binary()), {}
            field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        ids = pa.array(range(i * 100, i * 100 + len(column)), pa.int64())
        table = pa.table({"id": ids, "b": column}, schema=pa.schema([("id", pa.int64()), field]))
        lance.write_dataset(table, uri, mode="append" if i else "create", data_storage_version=storage, **more)
    lance.dataset(uri).delete("id IN (3, 103, 105, 301)")


def blob_digests(uri):
    """By id: null, or the size and the first and last bytes of the value."""
    dataset = lance.dataset(uri)
    out = {}
    for place, i in enumerate(dataset.to_table(columns=["id"])["id"].to_pylist()):
        files = dataset.take_blobs("b", indices=[place])
        value = files[0].readall() if files else None
        out[str(i)] = None if value is None else [len(value), value[:4].hex(), value[-4:].hex()]
    return out
