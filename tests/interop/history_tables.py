# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Small tables with a history, as one old release of official Lance makes them. tools/make_history.py runs this with the Python that has the
release: history_tables.py FOLDER FILE makes one table a folder below FOLDER and writes a JSON object to FILE: {table: [steps that the release could do]}.

A step that the release does not have, or panics in, is left out; a table without its first step is removed. Nothing here may need a
newer Python than 3.9 or a newer pyarrow than 12. All values are fixed: only names, times and ids differ from run to run.
"""
import datetime
import decimal
import json
import os
import shutil
import sys

import lance
import pyarrow as pa



def cycle(values, start, n):
    return [values[i % len(values)] for i in range(start, start + n)]


def columns(start, n):
    """Every kind of column that some release holds: name -> array. A release keeps those that it reads back."""
    day, at = datetime.date(2020, 2, 28), datetime.datetime(2021, 3, 4, 5, 6, 7)
    numbers = list(range(start, start + n))
    holes = [None if i % 5 == 2 else i for i in numbers]
    texts = [None if i % 6 == 1 else "" if i % 6 == 4 else "text %d \u00e9" % i for i in numbers]
    made = {
        "id": pa.array(numbers, pa.int64()),
        "i8": pa.array([i % 100 - 50 for i in numbers], pa.int8()),
        "u16": pa.array([i * 31 % 65536 for i in numbers], pa.uint16()),
        "i32": pa.array([None if v is None else -v * 1000 for v in holes], pa.int32()),
        "u64": pa.array([i + (1 << 63) for i in numbers], pa.uint64()),
        "f32": pa.array([i / 3 for i in numbers], pa.float32()),
        "f64": pa.array([None if v is None else v / 7 for v in holes], pa.float64()),
        "flag": pa.array(cycle([True, False, False, None, True], start, n)),
        "s": pa.array(texts, pa.string()),
        "ls": pa.array(texts, pa.large_string()),
        "bin": pa.array([None if t is None else t.encode() for t in texts], pa.binary()),
        "fsb": pa.array([b"%04d" % (i % 10000) for i in numbers], pa.binary(4)),
        "day": pa.array([day + datetime.timedelta(days=i) for i in numbers], pa.date32()),
        "at": pa.array([at + datetime.timedelta(hours=i) for i in numbers], pa.timestamp("us")),
        "zone": pa.array([at + datetime.timedelta(hours=i) for i in numbers], pa.timestamp("us", "UTC")),
        "dec": pa.array([decimal.Decimal(i) / 4 for i in numbers], pa.decimal128(12, 2)),
        "dict": pa.DictionaryArray.from_arrays(pa.array([i % 3 for i in numbers], pa.int8()), pa.array(["red", "green", "blue"])),
        "list": pa.array([list(range(i % 4)) for i in numbers], pa.list_(pa.int32())),
        "lists": pa.array([None if i % 7 == 3 else ["x%d" % (i % 3)] * (i % 3) for i in numbers], pa.list_(pa.string())),
        "st": pa.array([{"x": i, "y": "y%d" % (i % 5)} for i in numbers], pa.struct([("x", pa.int32()), ("y", pa.string())])),
        "deep": pa.array([{"in": {"z": i}, "l": [i, i + 1]} for i in numbers],
                         pa.struct([("in", pa.struct([("z", pa.int64())])), ("l", pa.list_(pa.int64()))])),
        "items": pa.array([[{"p": i, "q": "q"}] * (i % 3) for i in numbers],
                          pa.list_(pa.struct([("p", pa.int16()), ("q", pa.string())]))),
        "nulls": pa.array([None if i % 4 else {"v": i} for i in numbers], pa.struct([("v", pa.int32())])),
        "vec": pa.FixedSizeListArray.from_arrays(pa.array([float(i % 16) for i in range(start * 4, (start + n) * 4)], pa.float32()), 4),
        "half": pa.FixedSizeListArray.from_arrays(pa.array([i % 200 for i in range(start * 2, (start + n) * 2)], pa.uint8()), 2),
    }
    return made


class Maker:
    """Runs steps against one release and keeps what worked."""

    def __init__(self, folder):
        self.folder, self.made, self.names = folder, {}, None

    def uri(self, table):
        return os.path.join(self.folder, table)

    def step(self, table, name, call):
        try:
            call()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # panics derive from BaseException
            print("%s %s %s: %s" % (lance.__version__, table, name, str(error)[:150]), file=sys.stderr)
            return False
        self.made.setdefault(table, []).append(name)
        return True

    def table(self, name, *steps, needs=None):
        """steps: (name, function of the uri). Without the first one, and without the one that it needs, there is no table."""
        uri = self.uri(name)
        for what, call in steps:
            if not self.step(name, what, lambda call=call: call(uri)) and what in (steps[0][0], needs):
                shutil.rmtree(uri, ignore_errors=True)
                self.made.pop(name, None)
                return

    def probe(self):
        """Which columns the release writes and reads back with the same length, each tried alone."""
        names = []
        for name, array in columns(0, 20).items():
            uri = self.uri("probe")
            try:
                lance.write_dataset(pa.table({name: array}), uri)
                if lance.dataset(uri).to_table().num_rows == 20:
                    names.append(name)
            except BaseException as error:
                print("%s has no %s: %s" % (lance.__version__, name, str(error)[:100]), file=sys.stderr)
            shutil.rmtree(uri, ignore_errors=True)
        self.names = names

    def rows(self, start, n, only=None):
        made = columns(start, n)
        return pa.table({name: made[name] for name in (only or self.names)})


def few(start, n):
    """Rows of the tables that are about the table, not the types."""
    made = columns(start, n)
    return pa.table({"id": made["id"], "s": made["s"], "vec": made["vec"]})


def write(table, uri, mode="create", **options):
    lance.write_dataset(table, uri, mode=mode, **options)


def fresh(uri):
    return lance.dataset(uri)


def drop(uri, name):
    fresh(uri).drop_columns([name])


def update(uri, where, text):
    fresh(uri).update({"s": "'%s'" % text}, where=where)


def upsert(uri, rows):
    fresh(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def commit(uri, operation, read_version=None):
    make = getattr(lance.LanceDataset, "commit", None) or lance.LanceDataset._commit
    return make(uri, operation, read_version=read_version)


def add_to_fragments(uri):
    """A column by the fragment calls of its time, one new file a fragment."""
    from lance import LanceOperation
    dataset, fragments, schema = fresh(uri), [], None

    def column(batch):
        values = [v.as_py() for v in batch.column(0)]
        return pa.RecordBatch.from_arrays([pa.array([None if v % 3 == 0 else v * 2 for v in values], pa.int64())], ["twice"])

    for fragment in dataset.get_fragments():
        if hasattr(fragment, "merge_columns"):
            try:
                made, schema = fragment.merge_columns(column, columns=["id"])
            except ValueError:  # later releases try the function on no rows of any kind first
                made, schema = fragment.merge_columns({"twice": "id * 2"}, columns=["id"])
        else:
            made, schema = fragment.add_columns(column, columns=["id"]), None
        fragments.append(made)
    if schema is None:
        schema = dataset.schema.append(pa.field("twice", pa.int64()))
    commit(uri, LanceOperation.Merge(fragments, schema), dataset.version)


def own_ids(uri, ids):
    """Fragments with ids that the caller chose, as engines of the time committed them."""
    from lance import LanceOperation
    from lance.fragment import LanceFragment
    rows = few(0, 4)
    fragments = [LanceFragment.create(uri, few(4 * i, 4), id_) for i, id_ in enumerate(ids)]
    commit(uri, LanceOperation.Overwrite(rows.schema, fragments))


def detached(uri):
    """A version outside the chain."""
    from lance import LanceOperation
    from lance.fragment import LanceFragment
    made = LanceFragment.create(uri, few(100, 3))
    lance.LanceDataset.commit(uri, LanceOperation.Append([made]), read_version=fresh(uri).version, detached=True)


def index(uri, column, kind, **options):
    dataset = fresh(uri)
    if kind == "IVF_PQ":
        dataset.create_index(column, kind, num_partitions=1, num_sub_vectors=1, **options)
    else:
        dataset.create_scalar_index(column, kind, **options)


def vectors(start, n):
    """Of few different values, so that what is made of them packs well."""
    flat = [float(i // 8 % 16 if i % 2 else i // 8 // 16 % 16) for i in range(start * 8, (start + n) * 8)]
    return pa.table({"id": pa.array(range(start, start + n), pa.int32()), "low": pa.array(cycle([1, 2, 3], start, n), pa.int16()),
                     "vec": pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), 8)})


def blobs(uri):
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = [None if i % 5 == 4 else b"%d" % i * i for i in range(12)]
    table = pa.table([pa.array(range(12), pa.int64()), pa.array(values, pa.large_binary())],
                     schema=pa.schema([pa.field("id", pa.int64()), field]))
    write(table, uri)


def storage_class_blobs(uri):
    """The experiment of 0.19 to 0.38: blobs in a side table of their own."""
    field = pa.field("b", pa.large_binary(), metadata={"lance-schema:storage-class": "blob"})
    schema = pa.schema([pa.field("id", pa.int64()), field])
    write(pa.table([pa.array(range(12), pa.int64()), pa.array([b"x" * i for i in range(12)], pa.large_binary())], schema=schema), uri)


def described(uri):
    fields = [pa.field("id", pa.int64(), False, {"unit": "none"}), pa.field("s", pa.string(), True, {"lang": "\u00e9n"})]
    made = columns(0, 6)
    write(pa.table([made["id"], made["s"]], schema=pa.schema(fields, {"made": "long ago", "empty": ""})), uri)


def make_types(maker):
    maker.table(
        "types",
        ("create", lambda u: write(maker.rows(0, 40), u, max_rows_per_file=20, max_rows_per_group=10)),
        ("append", lambda u: write(maker.rows(40, 7), u, "append")),
        ("delete", lambda u: fresh(u).delete("id < 3 or id = 25")),
        ("append again", lambda u: write(maker.rows(47, 2), u, "append")))
    for storage in ("legacy", "2.0", "2.1", "2.2"):
        old = {"use_legacy_format": storage == "legacy"} if storage in ("legacy", "2.0") else None
        probe = maker.uri("probe")
        for options in ({"data_storage_version": storage}, old):
            if options is None:
                continue
            try:
                write(maker.rows(0, 30), probe, **options)
                shutil.rmtree(probe)
            except BaseException:
                shutil.rmtree(probe, ignore_errors=True)
                continue
            maker.table(
                "storage-" + storage,
                ("create", lambda u: write(maker.rows(0, 30), u, max_rows_per_file=20, **options)),
                ("append", lambda u: write(maker.rows(30, 5), u, "append")),
                ("delete", lambda u: fresh(u).delete("id in (1, 2, 31)")))
            break


def make_columns(maker):
    extra = pa.table({"id": pa.array(range(0, 30, 2), pa.int64()), "more": pa.array(["m%d" % i for i in range(15)])})
    maker.table(
        "columns",
        ("create", lambda u: write(few(0, 20), u, max_rows_per_file=10)),
        ("delete", lambda u: fresh(u).delete("id in (4, 12)")),
        ("merge", lambda u: fresh(u).merge(extra, "id")),
        ("fragment column", add_to_fragments),
        ("add", lambda u: fresh(u).add_columns({"thrice": "id * 3"})),
        ("drop", lambda u: drop(u, "s")),
        ("rename", lambda u: fresh(u).alter_columns({"path": "vec", "name": "vector"})),
        ("cast", lambda u: fresh(u).alter_columns({"path": "id", "data_type": pa.int32()})),
        ("drop added", lambda u: drop(u, "more")),
        ("delete again", lambda u: fresh(u).delete("id = 7")),
        ("compact", lambda u: fresh(u).optimize.compact_files()))
    # Columns that come and go while fragments of several ages stay.
    maker.table(
        "ages",
        ("create", lambda u: write(few(0, 8), u)),
        ("drop", lambda u: drop(u, "s")),
        ("append", lambda u: write(few(8, 4).drop(["s"]), u, "append")),
        ("add null", lambda u: fresh(u).add_columns(pa.field("later", pa.string()))),
        ("append whole", lambda u: write(few(12, 4).drop(["s"]).append_column("later", pa.array(["a", None, "b", "c"])), u, "append")),
        ("append part", lambda u: write(few(16, 3).select(["id"]), u, "append")),
        ("drop vec", lambda u: drop(u, "vec")),
        needs="drop")


def make_rows(maker):
    maker.table(
        "changes",
        ("create", lambda u: write(few(0, 20), u, max_rows_per_file=5)),
        ("delete", lambda u: fresh(u).delete("id in (1, 6, 7)")),
        ("update", lambda u: update(u, "id > 14", "changed")),
        ("upsert", lambda u: upsert(u, few(18, 5))),
        ("compact", lambda u: fresh(u).optimize.compact_files(target_rows_per_fragment=9)),
        ("append", lambda u: write(few(30, 3), u, "append")),
        ("compact again", lambda u: fresh(u).optimize.compact_files(target_rows_per_fragment=100)),
        ("delete fragment", lambda u: fresh(u).delete("id >= 0")))
    maker.table(
        "versions",
        ("create", lambda u: write(few(0, 5), u)),
        ("append", lambda u: write(few(5, 5), u, "append")),
        ("tag", lambda u: fresh(u).tags.create("second", 2)),
        ("overwrite", lambda u: write(pa.table({"other": ["new", None, "schema"]}), u, "overwrite")),
        ("append after", lambda u: write(pa.table({"other": ["x"]}), u, "append")),
        ("restore", lambda u: lance.dataset(u, version=2).restore()),
        ("append restored", lambda u: write(few(10, 2), u, "append")),
        ("tag again", lambda u: fresh(u).tags.create("last.one", fresh(u).version)))
    many = pa.table({"n": pa.array(range(6000), pa.int32())})
    maker.table(
        "bitmap",
        ("create", lambda u: write(many, u)),
        ("delete", lambda u: fresh(u).delete("n < 5500 and n % 3 > 0 or n = 0")),
        ("delete many", lambda u: fresh(u).delete("n < 5100")),
        ("append", lambda u: write(many.slice(0, 3), u, "append")))
    maker.table(
        "empty",
        ("create", lambda u: write(few(0, 0), u)),
        ("append", lambda u: write(few(0, 3), u, "append")),
        ("delete all", lambda u: fresh(u).delete("true")),
        ("append again", lambda u: write(few(3, 2), u, "append")))
    maker.table("twice", ("own ids", lambda u: own_ids(u, [3, 3])), ("append", lambda u: write(few(8, 2), u, "append")))
    maker.table("falling", ("own ids", lambda u: own_ids(u, [5, 2, 3])), ("append", lambda u: write(few(12, 2), u, "append")))


def make_features(maker):
    for option in ("enable_stable_row_ids", "enable_move_stable_row_ids"):
        maker.table(
            "stable",
            ("create", lambda u: write(few(0, 20), u, max_rows_per_file=10, **{option: True})),
            ("append", lambda u: write(few(20, 5), u, "append")),
            ("delete", lambda u: fresh(u).delete("id in (3, 21)")),
            ("update", lambda u: update(u, "id % 8 = 2", "moved")),
            ("upsert", lambda u: upsert(u, few(23, 4))),
            ("compact", lambda u: fresh(u).optimize.compact_files(target_rows_per_fragment=12)),
            ("add", lambda u: fresh(u).add_columns({"twice": "id * 2"})),
            ("delete after", lambda u: fresh(u).delete("id = 12")))
        if "stable" in maker.made:
            break
    for name, flag in (("names-v1", False), ("names-v2", True)):
        maker.table(
            name,
            ("create", lambda u: write(few(0, 2), u, enable_v2_manifest_paths=flag)),
            *[("append %d" % i, lambda u, i=i: write(few(2 + i, 1), u, "append")) for i in range(9)])
    maker.table(
        "names-moved",
        ("create", lambda u: write(few(0, 2), u, enable_v2_manifest_paths=False)),
        ("append", lambda u: write(few(2, 1), u, "append")),
        ("migrate", lambda u: fresh(u).migrate_manifest_paths_v2()),
        ("append again", lambda u: write(few(3, 1), u, "append")),
        needs="migrate")
    maker.table(
        "settings",
        ("create", described),
        ("config", lambda u: fresh(u).update_config({"team": "gr\u00f6\u00dfe"})),
        ("schema metadata", lambda u: fresh(u).replace_schema_metadata({"made": "later"})),
        ("field metadata", lambda u: fresh(u).replace_field_metadata("s", {"lang": "de"})),
        ("table metadata", lambda u: fresh(u).update_metadata({"origin": "old"})),
        ("append", lambda u: write(fresh(u).to_table().slice(0, 2), u, "append")))
    maker.table("blobs", ("create", blobs), ("delete", lambda u: fresh(u).delete("id = 3")))
    maker.table("side-blobs", ("create", storage_class_blobs), ("delete", lambda u: fresh(u).delete("id = 3")))
    maker.table(
        "indexed",
        ("create", lambda u: write(vectors(0, 256), u, max_rows_per_file=128)),
        ("scalar", lambda u: index(u, "id", "BTREE")),
        ("vector", lambda u: index(u, "vec", "IVF_PQ")),
        ("bitmap", lambda u: index(u, "low", "BITMAP")),
        ("append", lambda u: write(vectors(256, 4), u, "append")),
        ("delete", lambda u: fresh(u).delete("id in (5, 257)")),
        ("optimize", lambda u: fresh(u).optimize.optimize_indices()))
    maker.table(
        "detached",
        ("create", lambda u: write(few(0, 4), u)),
        ("detached", lambda u: detached(u)),
        ("append", lambda u: write(few(4, 2), u, "append")),
        needs="detached")


def make_places(maker):
    """Tables that name other places: their manifests hold FOLDER."""
    maker.table(
        "branched",
        ("create", lambda u: write(few(0, 8), u, max_rows_per_file=4)),
        ("delete", lambda u: fresh(u).delete("id = 1")),
        ("branch", lambda u: write(few(8, 2), fresh(u).create_branch("exp/one"), "append")),
        ("second branch", lambda u: fresh(u).create_branch("two").delete("id = 5")),
        ("append", lambda u: write(few(20, 1), u, "append")),
        needs="branch")
    origin = maker.uri("origin")
    maker.table(
        "cloned",
        ("clone", lambda u: (write(few(0, 8), origin, max_rows_per_file=4), fresh(origin).delete("id = 1"),
                             fresh(origin).tags.create("cut", 2), fresh(origin).shallow_clone(u, "cut"))),
        ("append", lambda u: write(few(8, 2), u, "append")),
        ("delete", lambda u: fresh(u).delete("id in (2, 8)")))
    if "cloned" not in maker.made:
        shutil.rmtree(origin, ignore_errors=True)


def main(folder, file):
    maker = Maker(folder)
    maker.probe()
    for make in (make_types, make_columns, make_rows, make_features, make_places):
        make(maker)
    with open(file, "w") as out:
        json.dump(maker.made, out, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
