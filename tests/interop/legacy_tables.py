# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Tables of data storage version 0.1 with a history, made by official Lance. Runs inside oracle_server.py.

Each function makes one table at uri. The sizes of groups and files are odd on purpose: batches of 0.1 files are the groups.
"""
import lance
import pyarrow as pa
from lance import LanceOperation

WORDS = ["", "a", "be", "see", "deep", "größe"]


def rows(start, n):
    ids = range(start, start + n)
    keys = pa.array([None if i % 19 == 5 else i % 4 for i in ids], pa.int16())
    return pa.table({
        "a": pa.array(ids, pa.int64()),
        "s": pa.array([None if i % 11 == 0 else f"row {i}" * (i % 3) for i in ids]),
        "flag": pa.array([None if i % 5 == 0 else i % 3 == 0 for i in ids]),
        "st": pa.array([None if i % 13 == 0 else {"x": i, "y": f"y{i % 5}", "z": {"deep": i / 3}} for i in ids],
                       pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.struct([("deep", pa.float64())]))])),
        "l": pa.array([None if i % 7 == 0 else list(range(i % 4)) for i in ids], pa.list_(pa.int16())),
        "ls": pa.array([None if i % 6 == 0 else [{"k": k, "w": [WORDS[k]] * (i % 3)} for k in range(i % 5)] for i in ids],
                       pa.list_(pa.struct([("k", pa.int8()), ("w", pa.large_list(pa.string()))]))),
        "d": pa.DictionaryArray.from_arrays(keys, pa.array(["null", "one", "two", "three"])),
        "v": pa.FixedSizeListArray.from_arrays(pa.array([j / 2 for j in range(start * 3, (start + n) * 3)], pa.float32()), 3),
    })


def create(uri, n=1000, per_file=300, per_group=97):
    return lance.write_dataset(rows(0, n), uri, max_rows_per_file=per_file, max_rows_per_group=per_group,
                               data_storage_version="legacy")


def append(uri, start, n, **options):
    return lance.write_dataset(rows(start, n), uri, mode="append", **options)


def deleted(uri):
    dataset = create(uri)
    append(uri, 1000, 50)
    dataset = lance.dataset(uri)
    dataset.delete("a % 10 = 3")
    dataset.delete("a < 20 or a in (299, 300, 599)")
    dataset.delete("a >= 300 and a < 600")  # a whole fragment


def evolved(uri):
    dataset = create(uri)
    dataset.add_columns({"twice": "a * 2"})
    dataset.alter_columns({"path": "s", "name": "text"})
    dataset.alter_columns({"path": "a", "data_type": pa.int32()})
    dataset = lance.dataset(uri)
    dataset.drop_columns(["flag", "st.x"])
    dataset.add_columns({"more": "twice + 1", "words": "concat(text, '!')"})
    dataset.drop_columns(["twice"])
    dataset.delete("a > 990 or a = 5")


def updated(uri):
    dataset = create(uri)
    dataset.update({"s": "'changed'"}, where="a % 100 = 7")
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(rows(990, 25))
    dataset = lance.dataset(uri)
    dataset.update({"flag": "true"}, where="a between 295 and 305")
    dataset.delete("a = 7")


def compacted(uri):
    dataset = create(uri, per_file=100, per_group=30)
    dataset.delete("a % 3 = 0")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=350)
    append(uri, 1000, 30, max_rows_per_group=7)


def _rewrite(uri, columns):
    """Columns of the first fragment move into a file of their own; the old file keeps tombstones."""
    dataset = lance.dataset(uri)
    fragment = dataset.get_fragments()[0]
    changed, modified = fragment.update_columns(_doubled(fragment, columns), "k")
    operation = LanceOperation.Update(updated_fragments=[changed], fields_modified=modified)
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)


def _doubled(fragment, columns):
    table = fragment.to_table(columns=["k"] + columns)
    for name in columns:
        i = table.schema.get_field_index(name)
        twice = pa.array([v * 2 for v in table.column(name).to_pylist()], table.schema.field(name).type)
        table = table.set_column(i, name, twice)
    return table


def _plain(n):
    return pa.table({"p": pa.array(range(n), pa.int32()), "k": pa.array(range(n), pa.int64()),
                     "q": pa.array([f"q{i}" for i in range(n)]), "r": pa.array([i / 4 for i in range(n)], pa.float64())})


def tombstones(uri):
    """Dropped fields inside a data file: its list of ids holds -2."""
    lance.write_dataset(_plain(500), uri, max_rows_per_file=200, max_rows_per_group=64, data_storage_version="legacy")
    _rewrite(uri, ["q", "r"])


def first_tombstone(uri):
    """The first field of the file is dropped; official no longer finds the others."""
    lance.write_dataset(_plain(500), uri, max_rows_per_file=200, max_rows_per_group=64, data_storage_version="legacy")
    first = lance.dataset(uri).get_fragments()[0].count_rows()
    _rewrite(uri, ["p"])
    return first


def empty(uri):
    table = rows(0, 3).drop_columns(["d"])
    lance.write_dataset(table.slice(0, 0), uri, data_storage_version="legacy")
    lance.write_dataset(table, uri, mode="append")
    lance.dataset(uri).delete("true")
