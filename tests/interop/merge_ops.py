# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What test_merges.py asks of official Lance. Runs inside oracle_server.py, under either pylance.

A case is made of a seed: a table, rows to merge into it, and what is to be done. Keys have few values, so that much matches.
"""
import datetime
import decimal
import json
import os
import random

import lance
import pyarrow as pa

STORAGE = ["2.0", "2.1", "2.2"]
DAY = datetime.date(2020, 1, 1)
KEYS = {
    "int64": (pa.int64(), lambda i: i - 3), "int32": (pa.int32(), lambda i: -i), "uint8": (pa.uint8(), lambda i: i), "bool": (pa.bool_(), lambda i: i % 2 == 0),
    "float": (pa.float64(), lambda i: [0.0, -0.0, float("nan"), float("inf"), 1e300][i % 5] if i < 5 else i / 4), "text": (pa.string(), lambda i: "k" * (i % 4) + str(i)),
    "large": (pa.large_string(), lambda i: "" if i == 0 else f"a rather long key, number {i}"), "bytes": (pa.binary(), lambda i: bytes([i, 0, i])),
    "fixed": (pa.binary(3), lambda i: bytes([0, i, 255])), "date": (pa.date32(), lambda i: DAY + datetime.timedelta(i)),
    "time": (pa.timestamp("us", "UTC"), lambda i: datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=i)), "int16": (pa.int16(), lambda i: i * 100),
    "decimal": (pa.decimal128(12, 2), lambda i: decimal.Decimal(f"{i}.25")), "dictionary": (pa.dictionary(pa.int32(), pa.string()), lambda i: f"word {i}"),
}
VALUES = {
    "v": (pa.int64(), lambda i: i * 7 % 23), "s": (pa.string(), lambda i: f"text {i % 9}"), "l": (pa.list_(pa.int32()), lambda i: [i, None, -i][: i % 4]),
    "f": (pa.float32(), lambda i: i / 8), "st": (pa.struct([("x", pa.int64()), ("y", pa.string())]), lambda i: {"x": i % 5, "y": None if i % 3 else str(i)}),
    "w": (pa.list_(pa.float32(), 2), lambda i: [i, -i]), "d": (pa.dictionary(pa.int8(), pa.string()), lambda i: f"d{i % 4}"), "b": (pa.bool_(), lambda i: i % 2 == 0),
    "e": (pa.decimal128(20, 3), lambda i: decimal.Decimal(i)),
}
CONDITIONS = [("source.v > target.v", {"v"}), ("target.s IS NULL OR source.v % 2 = 0", {"v"}), ("source.st.x = target.st.x", {"st"}), ("false", set()), ("true", set()),
              ("source.v IS NOT NULL AND target.v IS NOT NULL", {"v"}), ("target.v < 12", set()), ("source.s < target.s", {"s"}), ("target.st.y IS NULL", set())]
BY_SOURCE = ["v > 10", "s IS NULL", "st.x = 2 OR f < 1", "false", "true", "v % 3 = 0 AND b"]


def _column(kind, make, numbers, nulls, dice):
    return pa.array([None if dice.random() < nulls else make(i) for i in numbers], kind)


def _rows(keys, columns, numbers, nulls, dice, storage):
    out = {}
    for k, name in enumerate(keys):
        out[f"k{k}"] = _column(*KEYS[name], [i if k == 0 else i % 3 for i in numbers], nulls, dice)
    for name in columns:
        # Version 2.0 has no null structs.
        share = 0 if name == "st" and storage == "2.0" else 0.15
        out[name] = _column(*VALUES[name], [dice.randrange(40) for _ in numbers], share, dice)
    return pa.table(out)


def _options(dice, on, columns):
    o = {"on": on, "insert": dice.random() < 0.6}
    o["matched"] = dice.choice(["nothing", "update", "update", "update", "update-if", "update-if", "delete", "fail"])
    fits = [text for text, needs in CONDITIONS if needs <= set(columns)]
    o["condition"] = dice.choice(fits) if o["matched"] == "update-if" else None
    o["by_source"] = dice.choice(["keep", "keep", "keep", "delete", "delete-if"])
    o["by_condition"] = dice.choice(BY_SOURCE) if o["by_source"] == "delete-if" else None
    if o["matched"] == "nothing" and not o["insert"] and o["by_source"] == "keep":
        o["insert"] = True
    return o


def make_case(folder, seed):
    """The table in folder/base.lance, the rows in folder/source.arrow; what is to be done is returned."""
    dice = random.Random(seed)
    storage, stable = STORAGE[seed % 3], seed // 3 % 2 == 1
    keys = [dice.choice(list(KEYS)) for _ in range(dice.choice([1, 1, 1, 2, 2, 3]))]
    columns = dice.sample(list(VALUES), len(VALUES))
    domain, nulls = dice.choice([4, 12, 30]), dice.choice([0, 0, 0.1, 0.4])
    target_double = dice.random() < 0.3
    uri = os.path.join(folder, "base.lance")
    numbers = list(range(domain))
    dice.shuffle(numbers)
    if target_double:
        numbers += [dice.randrange(domain) for _ in range(domain // 2)]
    table = _rows(keys, columns, [] if dice.random() < 0.05 else numbers, nulls, dice, storage)
    lance.write_dataset(table, uri, max_rows_per_file=dice.choice([3, 7, 100]), data_storage_version=storage, enable_stable_row_ids=stable)
    if dice.random() < 0.5:
        dataset = lance.dataset(uri)
        dataset.delete(dice.choice(["v < 5", "s = 'text 3'", "b", "v % 2 = 1", "f < 2 OR v IS NULL"]))
    if dice.random() < 0.15:
        lance.dataset(uri).update({"v": "v + 1"}, where="v > 15")
    chosen = sorted(columns) if dice.random() < 0.6 else dice.sample(columns, dice.randrange(len(columns)))
    # Where they are missing, official cannot write dictionaries of no values; Pennon refuses to write null structs to 2.0.
    chosen += [name for name in ("d", "st") if name not in chosen]
    n = dice.choice([0, 1, domain // 2, domain])
    picked = dice.sample(range(domain + domain // 2), min(n, domain))
    if dice.random() < 0.15:
        picked += picked[:2]
    source = _rows(keys, chosen, picked, nulls, dice, storage)
    names = dice.sample(source.column_names, source.num_columns)
    source = source.select(names)
    at, batches = 0, []
    whole = source.combine_chunks().to_batches()
    while whole and at < source.num_rows:
        step = dice.choice([1, 5, 1000])
        batches.append(whole[0].slice(at, step))
        at += step
    with pa.ipc.new_stream(os.path.join(folder, "source.arrow"), source.schema) as sink:
        for batch in batches:
            sink.write_batch(batch)
    return {"storage": storage, "stable": stable, "keys": keys, **_options(dice, [f"k{k}" for k in range(len(keys))], chosen)}


def _source(path):
    """The rows, in memory that is aligned as official wants it."""
    with pa.ipc.open_stream(path) as reader:
        return pa.Table.from_batches([batch.take(pa.array(range(batch.num_rows))) for batch in reader], reader.schema)


def _builder(uri, options):
    builder = lance.dataset(uri).merge_insert(options["on"])
    if options["matched"] in ("update", "update-if"):
        builder = builder.when_matched_update_all(options["condition"])
    elif options["matched"] == "delete":
        builder = builder.when_matched_delete()
    elif options["matched"] == "fail":
        builder = builder.when_matched_fail()
    if options["insert"]:
        builder = builder.when_not_matched_insert_all()
    if options["by_source"] != "keep":
        builder = builder.when_not_matched_by_source_delete(options["by_condition"])
    return builder


def merge(uri, source, options):
    """The numbers, or what was wrong."""
    try:
        done = _builder(uri, options).execute(_source(source))
    except (OSError, ValueError) as error:
        return {"error": str(error)}
    return {name: done[f"num_{name}_rows"] for name in ("inserted", "updated", "deleted")}


def _plain(value):
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (int, str, type(None))) else repr(value)


def state(uri, base):
    """Everything there is to compare of the newest version. Rows are in no order; ids of rows that the base version does not have stand for one another."""
    dataset = lance.dataset(uri)
    dataset.validate()
    stable = dataset.has_stable_row_ids
    names = dataset.schema.names + ["_rowid"] + (["_row_created_at_version", "_row_last_updated_at_version"] if stable else [])
    rows = [_plain(row) for row in dataset.to_table(columns=names).to_pylist()]
    old = set(lance.dataset(uri, version=base).to_table(columns=["_rowid"])["_rowid"].to_pylist())
    for row in rows:
        if row["_rowid"] not in old:
            row["_rowid"] = "new"
    kept, new = [], 0
    before = {f.fragment_id for f in lance.dataset(uri, version=base).get_fragments()}
    for f in dataset.get_fragments():
        if f.fragment_id in before:
            kept.append([f.fragment_id, f.physical_rows, f.num_deletions])
        else:
            new += f.physical_rows
    return {"version": dataset.version, "rows": sorted(json.dumps(row, sort_keys=True) for row in rows), "kept": kept, "new": new}


def version(uri):
    return lance.dataset(uri).version


def write_on(uri):
    """Official goes on with a table: append, delete, compaction. The rows that are left, or what was wrong."""
    try:
        return _write_on(uri)
    except OSError as error:
        return str(error)


def _write_on(uri):
    dataset = lance.dataset(uri)
    rows = dataset.to_table(filter="d IS NOT NULL")  # of null dictionaries alone official makes what it cannot write
    if rows.num_rows:
        dataset = lance.write_dataset(rows.slice(0, 2), uri, mode="append")
    dataset.delete("v = 3")
    dataset.optimize.compact_files(target_rows_per_fragment=1000)
    dataset = lance.dataset(uri)
    dataset.validate()
    return dataset.count_rows()


# ---- tables with a primary key ----

PRIMARY = {
    "text": ([("k", pa.string())], lambda i: {"k": f"key {i}"}), "int": ([("k", pa.int64())], lambda i: {"k": i - 5}),
    "small": ([("k", pa.int32())], lambda i: {"k": i - 5}), "unsigned": ([("k", pa.uint32())], lambda i: {"k": 4294967295 - i}),
    "bytes": ([("k", pa.large_binary())], lambda i: {"k": bytes([i, 0])}), "two": ([("k", pa.int64()), ("m", pa.large_string())], lambda i: {"k": i, "m": f"m{i}"}),
}


def primary_rows(name, first, n):
    keys, make = PRIMARY[name]
    mark = {b"lance-schema:unenforced-primary-key": b"true"}
    fields = [pa.field(key, kind, nullable=False, metadata={**mark, b"lance-schema:unenforced-primary-key:position": str(at + 1).encode()})
              for at, (key, kind) in enumerate(keys)]
    schema = pa.schema([*fields, ("v", pa.int64())])
    return pa.Table.from_pylist([{**make(i), "v": i} for i in range(first, first + n)], schema)


def make_primary(uri, source, name, stable):
    """A table of twenty rows, and in a file the rows that come to it: ten of them are new."""
    lance.write_dataset(primary_rows(name, 0, 20), uri, max_rows_per_file=8, enable_stable_row_ids=stable)
    table = primary_rows(name, 10, 20)
    with pa.ipc.new_stream(source, table.schema) as sink:
        sink.write_table(table)
    return [key for key, _ in PRIMARY[name][0]]


def insert_beside(uri, name, first, n, version):
    """A merge through a handle of an old version, without a second attempt: "ok", or what was wrong."""
    dataset = lance.dataset(uri, version=version)
    try:
        dataset.merge_insert([key for key, _ in PRIMARY[name][0]]).when_not_matched_insert_all().conflict_retries(0).execute(primary_rows(name, first, n))
    except OSError as error:
        return str(error)
    return "ok"


# ---- tables of many kinds of columns ----

def _rich(first, n, turn):
    ids = list(range(first, first + n))
    json_type = pa.json_(pa.string()) if hasattr(pa, "json_") else pa.string()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int32(), nullable=False), ("j", json_type), ("ll", pa.list_(pa.list_(pa.string()))),
                        ("d", pa.dictionary(pa.int16(), pa.string())), ("ls", pa.list_(pa.struct([("a", pa.int8()), ("b", pa.list_(pa.float64()))]))), ("big", pa.large_binary())])
    columns = [pa.array(ids, pa.int64()), pa.array([i % 7 for i in ids], pa.int32()),
               pa.array([None if i % 5 == 0 else json.dumps({"turn": turn, "i": i}) for i in ids], pa.string()).cast(json_type) if hasattr(pa, "json_")
               else pa.array([None] * n, pa.string()),
               pa.array([[[str(i), None], None, []] if i % 3 else None for i in ids], schema.field("ll").type), pa.array([f"w{i % 3}" for i in ids]).cast(schema.field("d").type),
               pa.array([[{"a": i % 100, "b": [i / 2, None]}, None][: i % 3] for i in ids], schema.field("ls").type), pa.array([bytes(i % 50) for i in ids], pa.large_binary())]
    return pa.Table.from_arrays(columns, schema=schema)


def make_rich(uri):
    lance.write_dataset(_rich(0, 60, 0), uri, max_rows_per_file=25, enable_stable_row_ids=True)


def _write(path, table):
    with pa.ipc.new_stream(path, table.schema) as sink:
        sink.write_table(table, max_chunksize=7)


def rich_source(path, turn):
    """Some columns in every other turn, in another order."""
    table = _rich(20 * turn, 55, turn + 1)
    _write(path, table.select(["ls", "id", "n", "d", "j"] if turn % 2 else ["big", "j", "d", "ll", "ls", "n", "id"]))


def odd_source(path, kind):
    table = _rich(0, 5, 9).select(["id", "n", "d"])
    if kind == "extra":
        table = table.append_column("zz", pa.array([1] * 5))
    elif kind == "type":
        table = table.set_column(1, "n", pa.array([1.5] * 5))
    elif kind == "keyless":
        table = table.select(["n", "d"])
    elif kind == "null":
        table = table.set_column(1, pa.field("n", pa.int32()), pa.array([1, None, 1, 1, 1], pa.int32()))
    elif kind == "missing":
        table = table.select(["id", "d"])
    _write(path, table)


def make_refused(uri, kind):
    """A table that Pennon does not merge into."""
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("id", pa.int64()), blob] if kind == "blob" else [("id", pa.int64()), ("b", pa.large_binary())])
    lance.write_dataset(pa.table({"id": [1, 2], "b": [b"x", b"y"]}, schema=schema), uri, data_storage_version="0.1" if kind == "old" else "2.1")
