# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Tables with a history, made by official Lance. Runs inside oracle_server.py, under either pylance.

Each function makes one table at uri and returns what the tests must know beyond the table itself. `stable` asks for
stable row ids. The data is small and fixed.
"""
import datetime
import os

import lance
import numpy as np
import pyarrow as pa

MAJOR = int(lance.__version__.split(".")[0])
STORAGE = {}  # options of every new table: {"data_storage_version": ...} or nothing


def make(name, uri, stable=False, storage=None):
    """The table `name` at uri; what its maker returns."""
    STORAGE.clear()
    if storage:
        STORAGE["data_storage_version"] = storage
    return globals()[name](uri, stable)


def rows(start, n, **more):
    a = pa.array(range(start, start + n), pa.int64())
    columns = {
        "a": a,
        "s": pa.array([None if i % 11 == 0 else f"row {i}" for i in range(start, start + n)], pa.string()),
        "f": pa.array([i / 7 for i in range(start, start + n)], pa.float32()),
        "st": pa.array([None if i % 13 == 0 and STORAGE.get("data_storage_version") != "2.0" else {"x": i, "y": f"y{i % 5}"} for i in range(start, start + n)],
                       pa.struct([("x", pa.int32()), ("y", pa.string())])),
        "l": pa.array([None if i % 7 == 0 else list(range(i % 4)) for i in range(start, start + n)], pa.list_(pa.int16())),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(start * 4, (start + n) * 4), pa.float32()), 4),
    }
    columns.update(more)
    return pa.table(columns)


def _create(uri, stable=False, n=1000, per_file=300, **more):
    return lance.write_dataset(rows(0, n), uri, max_rows_per_file=per_file, enable_stable_row_ids=stable, **{**STORAGE, **more})


def _append(uri, start, n):
    return lance.write_dataset(rows(start, n), uri, mode="append")


def versions(uri, stable=False):
    _create(uri, stable)
    _append(uri, 1000, 50)
    lance.write_dataset(pa.table({"b": ["new", None, "schema"]}), uri, mode="overwrite")
    lance.write_dataset(pa.table({"b": ["x"]}), uri, mode="append")


def tags(uri, stable=False):
    dataset = _create(uri, stable)
    dataset.tags.create("first", 1)
    _append(uri, 1000, 5)
    dataset = lance.dataset(uri)
    dataset.tags.create("v2.0-rc.1_x", 2)
    return {"first": 1000, "v2.0-rc.1_x": 1005}


def branches(uri, stable=False):
    dataset = _create(uri, stable)
    dataset.delete("a < 10")
    one = dataset.create_branch("exp/one")
    lance.write_dataset(rows(5000, 20), one, mode="append")
    two = lance.dataset(uri).create_branch("two")
    two.delete("a < 100")
    _append(uri, 1000, 7)
    return {"exp/one": 1010, "two": 900}


def deletes_array(uri, stable=False):
    dataset = _create(uri, stable)
    dataset.delete("a % 10 = 3")
    dataset.delete("a < 20 or a in (299, 300, 599)")
    dataset.delete("a >= 300 and a < 600")  # a whole fragment
    dataset.delete("a = 999")


def deletes_bitmap(uri, stable=False):
    dataset = lance.write_dataset(pa.table({"a": pa.array(range(20000), pa.int32())}), uri, enable_stable_row_ids=stable, **STORAGE)
    dataset.delete("a % 2 = 1")
    dataset.delete("a = 4")


def evolution(uri, stable=False):
    dataset = _create(uri, stable)
    dataset.add_columns({"twice": "a * 2"})
    dataset.add_columns(pa.field("later", pa.string()))
    dataset.alter_columns({"path": "f", "name": "g"})
    dataset.alter_columns({"path": "a", "data_type": pa.int32()})
    _append_evolved(dataset, uri)
    dataset = lance.dataset(uri)
    dataset.drop_columns(["s", "st.x"])
    dataset.drop_columns(["twice"])
    dataset.delete("a > 990")


def _append_evolved(dataset, uri):
    more = rows(1000, 10).rename_columns(["a", "s", "g", "st", "l", "v"])
    more = more.set_column(0, "a", more.column("a").cast(pa.int32()))
    more = more.append_column("twice", pa.array(range(10), pa.int64())).append_column("later", pa.array(["now"] * 10))
    lance.write_dataset(more.cast(dataset.schema), uri, mode="append")


def missing(uri, stable=False):
    _create(uri, stable)
    lance.write_dataset(rows(1000, 20).select(["a", "l"]), uri, mode="append")
    lance.write_dataset(rows(1020, 3).select(["v"]), uri, mode="append")
    part = rows(1023, 9)
    part = part.set_column(3, pa.field("st", pa.struct([("y", pa.string())])),
                           pa.array([{"y": f"p{i}"} if i % 3 else None for i in range(9)], pa.struct([("y", pa.string())])))
    try:
        lance.write_dataset(part, uri, mode="append")
    except Exception:  # partial structs are not accepted by every release
        pass


def nested(uri, stable=False):
    """Structs and lists of structs whose children come and go."""
    n = 60
    table = pa.table({
        "a": pa.array(range(n), pa.int64()),
        "st": pa.array([None if i % 7 == 2 else {"x": i, "in": {"p": f"p{i}", "q": None if i % 3 else i}, "gone": 1} for i in range(n)],
                       pa.struct([("x", pa.int32()), ("in", pa.struct([("p", pa.string()), ("q", pa.int64())])), ("gone", pa.int8())])),
        "ls": pa.array([None if i % 5 == 1 else [{"k": i, "v": "v"}] * (i % 3) for i in range(n)],
                       pa.list_(pa.struct([("k", pa.int32()), ("v", pa.string())]))),
        "ll": pa.array([[i] * (i % 3) for i in range(n)], pa.large_list(pa.int32())),
    })
    if STORAGE.get("data_storage_version") == "2.0":  # which has no null structs
        table = table.filter(table.column("st").is_valid())
    lance.write_dataset(table, uri, max_rows_per_file=25, enable_stable_row_ids=stable, **STORAGE)
    lance.dataset(uri).drop_columns(["st.gone"])
    lance.dataset(uri).alter_columns({"path": "st.in", "name": "inner"}, {"path": "st.x", "name": "X"})
    lance.dataset(uri).delete("a % 10 = 4")
    if MAJOR > 8:  # 8.0.0 panics
        lance.dataset(uri).alter_columns({"path": "st.X", "data_type": pa.int64()})
    lance.write_dataset(lance.dataset(uri).to_table(limit=5), uri, mode="append")
    lance.dataset(uri).drop_columns(["st.inner.q"])
    lance.dataset(uri).add_columns(pa.schema([pa.field("later", pa.struct([("u", pa.int8()), ("w", pa.list_(pa.string()))]))]))
    lance.dataset(uri).optimize.compact_files()


def tombstones(uri, stable=False):
    """Columns rewritten in place: the older file keeps them under dead ids."""
    dataset = _create(uri, stable, n=90, per_file=40)
    part = pa.table({"a": pa.array([3, 41, 80], pa.int64()), "s": ["x", None, "z"]})
    dataset.merge_insert("a").when_matched_update_all().execute(part)
    dataset = lance.dataset(uri)
    fragments, fields = [], []
    for fragment in dataset.get_fragments():
        ids = fragment.to_table(columns=["a"], with_row_id=True)
        new = pa.table({"_rowid": ids.column("_rowid"), "f": pa.array([0.5] * ids.num_rows, pa.float32())})
        made, fields = fragment.update_columns(new)
        fragments.append(made)
    lance.LanceDataset.commit(uri, lance.LanceOperation.Update(updated_fragments=fragments, fields_modified=fields), dataset.version)
    lance.dataset(uri).delete("a = 41")
    lance.dataset(uri).add_columns({"sum": "a + 1"})


def merged(uri, stable=False):
    """Columns of a join, and fragments written one by one."""
    dataset = _create(uri, stable, n=50, per_file=20)
    dataset.merge(pa.table({"a": pa.array(range(0, 50, 3), pa.int64()), "joined": [f"j{i}" for i in range(17)],
                            "l2": pa.array([[i] for i in range(17)], pa.list_(pa.int32()))}), "a")
    lance.dataset(uri).delete("a in (0, 1, 49)")
    lance.dataset(uri).drop_columns(["joined"])
    made = [lance.LanceFragment.create(uri, lance.dataset(uri).to_table(limit=4)) for _ in range(2)]
    lance.LanceDataset.commit(uri, lance.LanceOperation.Append(made), lance.dataset(uri).version)


def encoded(uri, stable=False):
    """Columns that ask for their encodings; the keys stay through appends and compactions."""
    n = 4000
    keys = {
        "zstd": {"lance-encoding:compression": "zstd", "lance-encoding:compression-level": "3"},
        "lz4": {"lance-encoding:compression": "lz4"},
        "none": {"lance-encoding:compression": "none"},
        "zip": {"lance-encoding:structural-encoding": "fullzip"},
        "mini": {"lance-encoding:structural-encoding": "miniblock"},
        "rle": {"lance-encoding:rle-threshold": "0.9"},
        "bss": {"lance-encoding:bss": "on", "lance-encoding:compression": "lz4"},
        "dict": {"lance-encoding:dict-divisor": "2"},
        "packed": {"lance-encoding:packed": "true"},
    }
    text = pa.array([f"some text {i % 97}" for i in range(n)])
    data = {
        "zstd": text, "lz4": text, "none": text, "zip": text, "mini": text, "rle": pa.array([i // 50 for i in range(n)], pa.int32()),
        "bss": pa.array([i / 3 for i in range(n)], pa.float64()), "dict": pa.array([f"k{i % 5}" for i in range(n)]),
        "packed": pa.array([{"u": i, "v": i * 2} for i in range(n)], pa.struct([("u", pa.int32()), ("v", pa.int64())])),
    }
    schema = pa.schema([pa.field("a", pa.int64())] + [pa.field(k, data[k].type, metadata=keys[k]) for k in keys], {"table": "encoded"})
    table = pa.table([pa.array(range(n), pa.int64()), *[data[k] for k in keys]], schema=schema)
    lance.write_dataset(table, uri, max_rows_per_file=1500, enable_stable_row_ids=stable, **STORAGE)
    lance.write_dataset(table.slice(0, 300), uri, mode="append")
    lance.dataset(uri).delete("a % 17 = 0")
    lance.dataset(uri).optimize.compact_files()


def keys(uri, stable=False):
    """A primary key, columns that are not null."""
    schema = pa.schema([pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}),
                        pa.field("s", pa.string(), False), pa.field("n", pa.int32())])
    table = pa.table([pa.array(range(10), pa.int64()), pa.array([str(i) for i in range(10)]), pa.array([None, 1] * 5, pa.int32())],
                     schema=schema)
    lance.write_dataset(table, uri, enable_stable_row_ids=stable, **STORAGE)
    lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(table.slice(8, 2))
    lance.dataset(uri).alter_columns({"path": "s", "nullable": True})


def detached(uri, stable=False):
    """A version outside the chain."""
    dataset = _create(uri, stable, n=20)
    made = lance.LanceFragment.create(uri, rows(100, 5))
    if stable:  # official gives such fragments no row ids, and takes no detached append of them
        return {}
    outside = lance.LanceDataset.commit(uri, lance.LanceOperation.Append([made]), read_version=dataset.version, detached=True)
    _append(uri, 20, 3)
    return {"detached": outside.version}


def updates(uri, stable=False):
    dataset = _create(uri, stable)
    dataset.update({"s": "'changed'"}, where="a % 100 = 7")
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(rows(990, 25))
    dataset = lance.dataset(uri)
    dataset.merge_insert("a").when_not_matched_insert_all().execute(rows(1010, 10))
    dataset = lance.dataset(uri)
    dataset.update({"f": "f + 1"}, where="a between 295 and 305")
    dataset.delete("a = 7")


def compaction(uri, stable=False):
    dataset = _create(uri, stable, per_file=100)
    dataset.delete("a % 3 = 0")
    dataset.update({"s": "'moved'"}, where="a % 50 = 1")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=350)
    _append(uri, 1000, 30)
    dataset = lance.dataset(uri)
    dataset.delete("a = 1001")
    dataset.optimize.compact_files()
    return None


def restored(uri, stable=False):
    dataset = _create(uri, stable)
    dataset.delete("a < 500")
    _append(uri, 2000, 10)
    lance.dataset(uri, version=2).restore()
    _append(uri, 3000, 10)


def shallow(uri, stable=False):
    origin = uri + "-origin"
    dataset = _create(origin, stable)
    dataset.delete("a < 10")
    dataset.tags.create("cut", 2)
    dataset.shallow_clone(uri, "cut")
    _append(uri, 1000, 10)
    lance.dataset(uri).delete("a = 20")
    lance.dataset(uri).shallow_clone(uri + "-again", lance.dataset(uri).version)
    return {"again": uri + "-again"}


def bases(uri, stable=False):
    from lance import DatasetBasePath
    places = [DatasetBasePath(uri + "-base1", name="one"), DatasetBasePath(uri + "-base2", name="two", is_dataset_root=True)]
    for place in ("-base1", "-base2"):
        os.makedirs(uri + place, exist_ok=True)
    _create(uri, stable, initial_bases=places, target_bases=["one"])
    lance.write_dataset(rows(1000, 10), uri, mode="append", target_bases=["two"])
    _append(uri, 1010, 10)
    lance.dataset(uri).delete("a % 100 = 0")


def v1_names(uri, stable=False):
    _create(uri, stable, enable_v2_manifest_paths=False)
    for i in range(10):
        _append(uri, 1000 + i, 1)


def settings(uri, stable=False):
    dataset = _create(uri, stable)
    dataset.update_config({"team": "größe", "lance.auto_cleanup.interval": "1000"})
    dataset.update_metadata({"origin": "interop"})
    dataset.update_schema_metadata({"doc": "with ümlaut"})
    dataset.replace_field_metadata("s", {"unit": "text"})


def empty(uri, stable=False):
    lance.write_dataset(rows(0, 0), uri, enable_stable_row_ids=stable, **STORAGE)
    _append(uri, 0, 3)
    lance.dataset(uri).delete("true")


def indices(uri, stable=False, n=3000):
    """Every kind of index that is cheap to make."""
    dim = 16
    rng = np.random.default_rng(7)
    table = pa.table({
        "a": pa.array(range(n), pa.int64()), "low": pa.array([i % 5 for i in range(n)], pa.int32()),
        "tags": pa.array([["x", f"t{i % 3}"] for i in range(n)], pa.list_(pa.string())),
        "text": pa.array([f"word{i % 50} and word{i % 7} of row {i}" for i in range(n)]),
        "vec": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(n * dim), pa.float32()), dim),
    })
    dataset = lance.write_dataset(table, uri, max_rows_per_file=1000, enable_stable_row_ids=stable)
    dataset.create_scalar_index("a", "BTREE", name="by_a")
    dataset.create_scalar_index("low", "BITMAP", name="by_low")
    dataset.create_scalar_index("tags", "LABEL_LIST", name="by_tags")
    dataset.create_scalar_index("text", "INVERTED", name="by_text", with_position=False)
    dataset.create_scalar_index("a", "ZONEMAP", name="zone_a")
    dataset.create_index("vec", "IVF_PQ", name="by_vec", num_partitions=2, num_sub_vectors=4)
    return {"indices": ["by_a", "by_low", "by_tags", "by_text", "zone_a", "by_vec"]}


def deferred(uri, stable=False):
    """Fragments compacted under indices that learn of it later: the fragment reuse index."""
    dataset = _create(uri, stable, per_file=100)
    dataset.create_scalar_index("a", "BTREE", name="by_a")
    lance.dataset(uri).delete("a % 4 = 1")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=500, defer_index_remap=not stable)
    return {"indices": ["by_a"]}


def index_rows(start, n):
    """Rows for an append to the table of indices()."""
    return pa.table({
        "a": pa.array(range(start, start + n), pa.int64()), "low": pa.array([1] * n, pa.int32()),
        "tags": pa.array([["x"]] * n, pa.list_(pa.string())), "text": pa.array(["new words"] * n),
        "vec": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(n * 16), pa.float32()), 16),
    })


def blobs_v1(uri, stable=False):
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    values = [None if i % 9 == 4 else b"" if i % 9 == 5 else bytes([i % 256]) * (i * 37) for i in range(60)]
    lance.write_dataset(pa.table([pa.array(range(60), pa.int64()), pa.array(values, pa.large_binary())], schema=schema), uri,
                        max_rows_per_file=25, data_storage_version="2.1", enable_stable_row_ids=stable)
    lance.dataset(uri).delete("a = 3")
    return {"values": [None if v is None else v.hex() for i, v in enumerate(values) if i != 3]}


def blobs_v2(uri, stable=False):
    """Inline, packed and dedicated payloads, nulls and empty values."""
    sizes = {3: 70_000, 4: 100_000, 5: 5 << 20, 11: 0, 12: 65_536, 13: 65_537}
    values = [None if i % 7 == 6 else bytes([i]) * sizes.get(i, 3 + i) for i in range(20)]
    table = pa.table({"a": pa.array(range(20), pa.int64()), "b": lance.blob_array(values)})
    lance.write_dataset(table, uri, data_storage_version="2.2", max_rows_per_file=12, enable_stable_row_ids=stable)
    lance.dataset(uri).delete("a = 2")
    return {"values": [None if v is None else v.hex() for i, v in enumerate(values) if i != 2]}


def json_column(uri, stable=False):
    texts = ['{"b": 1, "a": [1, 2.5, null]}', None, '"text"', "-3", "[]", '{"deep": {"er": {"k": true}}}', "123456789012", "1e100"]
    table = pa.table({"a": pa.array(range(8), pa.int64()), "j": pa.ExtensionArray.from_storage(pa.json_(pa.utf8()), pa.array(texts))})
    lance.write_dataset(table, uri, enable_stable_row_ids=stable)
    lance.write_dataset(table, uri, mode="append")


def mixed_files(uri, stable=False):
    """14.0.2 only: data files of several versions in one table (flag 256)."""
    _create(uri, stable, data_storage_version="2.1")
    lance.write_dataset(rows(1000, 10), uri, mode="append", data_storage_version="2.2")


def spilled(uri, stable=True):
    """14.0.2 only: row ids and versions as hidden columns of data files (flag 2048)."""
    dataset = _create(uri, True)
    dataset.update_config({"lance.row_lineage.inline_max_bytes": "1", "lance.row_lineage.spill": "true"})
    dataset.update({"s": "'x'"}, where="a % 7 = 3")
    dataset.delete("a = 20")
    dataset.optimize.compact_files()


def unstable_file(uri, stable=False):
    lance.write_dataset(rows(0, 10), uri, data_storage_version="2.3")


def as_of(uri, stable=False):
    """Times between versions, for asking by time."""
    import time
    _create(uri, stable)
    time.sleep(0.05)
    between = datetime.datetime.now(datetime.timezone.utc).isoformat()
    time.sleep(0.05)
    _append(uri, 1000, 5)
    return {"time": between}


COMMON = ["versions", "deletes_array", "deletes_bitmap", "evolution", "missing", "updates", "compaction", "restored", "shallow",
          "v1_names", "settings", "empty", "json_column"]
