# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What test_mutations.py asks of official Lance. Runs inside oracle_server.py, under either pylance."""
import lance
import pyarrow as pa

SYSTEM = ["_rowid", "_rowaddr"]
LINEAGE = ["_row_created_at_version", "_row_last_updated_at_version"]


def rows(first, n):
    """Texts, numbers, lists, structs, fixed size lists, booleans; nulls in all but the key."""
    ids = range(first, first + n)
    pick = lambda every, of: [None if i % every == every - 1 else of(i) for i in ids]
    kinds = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int32()), ("f", pa.float64()), ("s", pa.string()),
                       ("b", pa.bool_()), ("l", pa.list_(pa.int32())), ("v", pa.list_(pa.float32(), 2)),
                       ("st", pa.struct([("x", pa.int64()), ("y", pa.string())]))])
    return pa.table({"id": list(ids), "a": pick(5, lambda i: i * 10), "f": pick(7, lambda i: i / 4), "s": pick(6, lambda i: f"t{i}"),
                     "b": pick(4, lambda i: i % 3 == 0), "l": pick(8, lambda i: [i] * (i % 3)), "v": pick(9, lambda i: [i, -i]),
                     "st": [{"x": i, "y": None if i % 2 else str(i)} for i in ids]}, schema=kinds)


def make(uri, storage, stable):
    """Three fragments of ten rows, one of them with deletions; version 3."""
    lance.write_dataset(rows(0, 20), uri, max_rows_per_file=10, data_storage_version=storage, enable_stable_row_ids=stable)
    lance.write_dataset(rows(20, 10), uri, mode="append")
    lance.dataset(uri).delete("id IN (3, 4, 12)")
    return lance.dataset(uri).version


def make_types(uri, storage, stable):
    """Six rows of types that values have to be cast to."""
    import datetime
    import decimal
    n = range(6)
    table = pa.table({
        "id": list(n), "d": pa.array(["a", "b", "a", None, "c", "a"]).dictionary_encode(),
        "t": pa.array([datetime.datetime(2020, 1, i + 1) for i in n], pa.timestamp("us")),
        "z": pa.array([datetime.datetime(2020, 1, i + 1) for i in n], pa.timestamp("ns", "UTC")), "day": pa.array([i for i in n], pa.date32()),
        "x": pa.array([decimal.Decimal(f"{i}.25") for i in n], pa.decimal128(10, 2)), "bin": pa.array([b"\0\1"] * 6),
        "h": pa.array([1.5] * 6, pa.float32()).cast(pa.float16()), "fb": pa.array([b"ab"] * 6, pa.binary(2)), "u": pa.array([7] * 6, pa.uint8()),
        "ls": pa.array([["x"]] * 6, pa.large_list(pa.large_string())), "big": pa.array(["y"] * 6, pa.large_string()), "r": pa.array([.5] * 6, pa.float32())})
    if storage == "2.2":
        table = table.append_column("m", pa.array([[("k", i)] for i in n], pa.map_(pa.string(), pa.int32())))
    lance.write_dataset(table, uri, data_storage_version=storage, enable_stable_row_ids=stable)
    return lance.dataset(uri).version


def delete(uri, where):
    result = lance.dataset(uri).delete(where)
    return result["num_deleted_rows"] if result else None


def update(uri, sets, where=None):
    return lance.dataset(uri).update(sets, where=where)["num_rows_updated"]


def append(uri, first, n):
    return lance.write_dataset(rows(first, n), uri, mode="append").version


def compact(uri):
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)
    return lance.dataset(uri).version


def _plain(value):
    """What JSON holds as it is, all else as text."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (int, float, str, type(None))) else repr(value)


def state(uri, stable):
    """Everything there is to compare of the newest version, as JSON holds it."""
    dataset = lance.dataset(uri)
    dataset.validate()
    names = dataset.schema.names + SYSTEM + (LINEAGE if stable else [])
    table = dataset.to_table(columns=names)
    fragments = [{"id": f.fragment_id, "rows": f.physical_rows, "deleted": f.num_deletions, "files": len(f.metadata.files),
                  "deletions": f.metadata.deletion_file.file_type if f.metadata.deletion_file else None} for f in dataset.get_fragments()]
    return {"version": dataset.version, "rows": _plain(table.to_pylist()), "fragments": fragments}
