# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The same program over pylance and over the Python package: CASES are functions of the module, a new dataset of 1,000 rows in four fragments, the table that
it was made of, and an empty folder. What they give is brought into one form by `shown`, and compared by bindings/python/tests/test_differential.py."""
import copy
import dataclasses
import datetime
import importlib
import json
import os
import pickle
import re
import shutil

import pyarrow as pa
import pyarrow.compute as pc

ROWS = 1000
DAY = datetime.date(2024, 2, 29)


def make_table():
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "half": pa.array([i / 2 if i % 7 else None for i in range(ROWS)], pa.float64()),
            "name": [f"name {i % 13}" for i in range(ROWS)],
            "list": pa.array([[i, None] if i % 3 else None for i in range(ROWS)], pa.list_(pa.int32())),
            "point": pa.array([{"x": i, "y": -i} for i in range(ROWS)], pa.struct([("x", pa.int16()), ("y", pa.int64())])),
            "day": pa.array([DAY + datetime.timedelta(days=i % 40) if i % 5 else None for i in range(ROWS)], pa.date32()),
            "ok": pa.array([None if i % 11 == 0 else i % 2 == 0 for i in range(ROWS)], pa.bool_()),
        },
        metadata={"made": "by hand"},
    )


def module(m, name):
    return importlib.import_module(f"{m.__name__}.{name}")


# ---- one form for what calls give ----

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
FILE = re.compile(r"[0-9a-f]{20,}(\.lance|\.arrow|\.bin)?|[01]{24}[0-9a-f]+(\.lance)?")


def shown_text(text, folder):
    return FILE.sub("FILE", UUID.sub("UUID", text.replace(str(folder), "FOLDER")))


def shown(value, folder):
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return shown_text(value, folder)
    if isinstance(value, (bytes, bytearray)):
        return "bytes " + bytes(value).hex()
    if isinstance(value, (datetime.datetime, datetime.timedelta)):
        return f"a {type(value).__name__}{' with a zone' if getattr(value, 'tzinfo', None) else ''}"
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        # Metadata of the schema: official's unsorted takes lose it.
        return ["rows", str(value.schema.remove_metadata()), repr(value.to_pylist())]
    if isinstance(value, pa.Schema):
        # Metadata apart: official has it in any order.
        inside = {field.name: shown(dict(field.metadata), folder) for field in value if field.metadata}
        return ["schema", str(pa.schema([field.remove_metadata() for field in value])), shown(dict(value.metadata or {}), folder), inside]
    if isinstance(value, dict):
        return {shown_text(str(key), folder): shown(item, folder) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(shown(item, folder) for item in value)
    if isinstance(value, (list, tuple)):
        return [shown(item, folder) for item in value]
    if dataclasses.is_dataclass(value):
        fields = {field.name: shown(getattr(value, field.name), folder) for field in dataclasses.fields(value)}
        return [type(value).__name__, fields]
    return shown_object(value, folder)


def shown_object(value, folder):
    name = type(value).__name__
    if name == "LanceDataset":
        return ["dataset", value.version & (2**63 - 1), value.count_rows(), shown(value.schema, folder)]
    if name == "LanceFragment":
        return ["fragment", value.fragment_id, value.count_rows()]
    if name == "LanceSchema":
        return ["fields", [[field.name(), field.id()] for field in value.fields()]]
    parts = [key for key in dir(value) if not key.startswith("_") and not callable(getattr(value, key))]
    return [name, {key: shown(getattr(value, key), folder) for key in parts}]


# ---- the cases ----

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def each(prefix, calls):
    """A case for each of the calls (m, ds, table, folder) of a dictionary."""
    for name, call in calls.items():
        CASES[f"{prefix}: {name}"] = call


def moved(t, by):
    """The same rows with other ids and names."""
    return t.set_column(0, "id", pc.add(t["id"], by).cast(t["id"].type)).set_column(t.column_names.index("name"), "name", pa.array([f"moved {i}" for i in range(t.num_rows)]))


def deleted(m, ds):
    """The dataset without every third row: by transactions that both sides can commit, fragment 1 whole."""
    operation = m.LanceOperation.Delete([], [1], "id >= 300 AND id < 600")
    return m.LanceDataset.commit(ds.uri, operation, read_version=ds.version)


FILTERS = [
    "id < 10", "id = 5 OR id = 7", "NOT (id > 3)", "half IS NULL", "half > 100.5 AND half < 110", "name = 'name 3' AND id < 100", "name LIKE '%1%' AND id < 60",
    "name IN ('name 1', 'name 2') AND id < 40", "id BETWEEN 10 AND 20", "point.x > 990", "point.y = -5", "ok", "ok IS NULL AND id < 50", "NOT ok AND id < 30",
    "ok = true AND id < 30", "day = date '2024-03-01' AND id < 100", "day > date '2024-04-05'", "id % 100 = 0", "id + 1 = 10", "abs(id - 500) < 3",
    "`id` == 5", "ID < 5", 'name = "name 4" AND id < 50', "id IN (1, 2, NULL)", "half != 1.0 AND id < 9", "CAST(id AS string) = '12'", "array_has(list, 10)",
    "regexp_match(name, '1[0-2]') IS NOT NULL AND id < 30", "upper(name) = 'NAME 5' AND id < 40", "length(name) = 7 AND id < 60", "false", "true AND id < 4",
    "_rowid < 5", "_rowaddr >= 4294967296 AND _rowaddr < 4294967300", "list IS NULL AND id < 20", "id > -1 AND id < 2", "coalesce(half, -1.0) = -1.0 AND id < 50",
]
EXPRESSIONS = {
    "less": lambda: pc.field("id") < 10,
    "and": lambda: (pc.field("id") > 5) & (pc.field("half") < 6.0),
    "or": lambda: (pc.field("id") == 5) | (pc.field("name") == "name 3") & (pc.field("id") < 50),
    "not": lambda: ~(pc.field("id") >= 4),
    "null": lambda: pc.field("half").is_null() & (pc.field("id") < 30),
    "valid": lambda: pc.field("half").is_valid() & (pc.field("id") < 10),
    "arithmetic": lambda: pc.field("id") + 1 == 10,
    "date": lambda: (pc.field("day") == pa.scalar(datetime.date(2024, 3, 1))) & (pc.field("id") < 100),
    "boolean": lambda: pc.field("ok") & (pc.field("id") < 20),
    "text": lambda: pc.field("name") == "name 12",
}
each("filter", {sql: lambda m, ds, t, d, sql=sql: ds.to_table(filter=sql, columns=["id"]) for sql in FILTERS})
each("count", {sql: lambda m, ds, t, d, sql=sql: ds.count_rows(sql) for sql in FILTERS[:12]})
each("expression", {name: lambda m, ds, t, d, make=make: [ds.to_table(filter=make(), columns=["id"]), ds.count_rows(make())] for name, make in EXPRESSIONS.items()})

SCANS = {
    "all": {},
    "columns": {"columns": ["name", "id"], "limit": 3},
    "nested": {"columns": ["point.x", "id"], "limit": 3},
    "expressions": {"columns": {"double": "id * 2", "who": "name", "n": "length(name)"}, "limit": 4},
    "limit": {"limit": 5, "columns": ["id"]},
    "offset": {"limit": 5, "offset": 298, "columns": ["id"]},
    "offset at the end": {"offset": 995, "columns": ["id"]},
    "offset past the end": {"offset": 2000, "columns": ["id"]},
    "row id": {"with_row_id": True, "columns": ["id"], "offset": 299, "limit": 3},
    "row address": {"with_row_address": True, "columns": ["id"], "offset": 299, "limit": 3},
    "both": {"with_row_address": True, "with_row_id": True, "columns": ["id"], "limit": 3},
    "system columns": {"columns": ["_rowid", "id", "_rowaddr", "_rowoffset"], "limit": 3},
    "row ids alone": {"columns": [], "with_row_id": True, "limit": 3},
    "filter and limit": {"filter": "id > 500", "limit": 4, "columns": ["id"]},
    "filter, offset, limit": {"filter": "id % 2 = 0", "limit": 4, "offset": 3, "columns": ["id"]},
    "order": {"order_by": ["half"], "limit": 5, "columns": ["id", "half"]},
    "order nulls": {"filter": "id < 20", "order_by": ["half"], "columns": ["id", "half"]},
    "late": {"filter": "id > 990", "late_materialization": True},
    "early": {"filter": "id > 990", "late_materialization": False},
    "late columns": {"filter": "id > 990", "late_materialization": ["name"]},
    "batch size": {"batch_size": 7, "columns": ["id"], "limit": 20},
    "not in order": {"scan_in_order": False, "columns": ["id"], "filter": "id < 10"},
    "strict": {"batch_size": 100, "strict_batch_size": True, "columns": ["id"]},
    "readahead": {"batch_readahead": 2, "fragment_readahead": 2, "columns": ["id"], "limit": 2},
    "prefilter": {"prefilter": True, "filter": "id < 3"},
    "hints": {"use_stats": False, "use_scalar_index": False, "io_buffer_size": 1 << 20, "filter": "id < 3"},
}
each("scan", {name: lambda m, ds, t, d, keys=keys: ds.scanner(**keys).to_table() for name, keys in SCANS.items()})
each("schema of a scan", {name: lambda m, ds, t, d, keys=keys: ds.scanner(**keys).projected_schema for name, keys in SCANS.items()})
each("rows of batches", {name: lambda m, ds, t, d, keys=keys: sum(batch.num_rows for batch in ds.scanner(**keys).to_batches()) for name, keys in SCANS.items()})
each(
    "order",
    {
        f"{ascending} {first}": lambda m, ds, t, d, a=ascending, f=first: ds.to_table(
            filter="id < 30", columns=["id", "half"], order_by=[module(m, "dataset").ColumnOrdering("half", a, f), "id"]
        )
        for ascending in (True, False)
        for first in (True, False)
    },
)
each(
    "take",
    {
        str(rows): lambda m, ds, t, d, rows=rows: ds.take(rows, columns=["id", "name"])
        for rows in ([0], [5, 1, 999, 5], [], [300, 299], list(range(0, 1000, 111)))
    },
)
each(
    "read",
    {
        "take an array": lambda m, ds, t, d: ds.take(pa.array([3, 1])),
        "take expressions": lambda m, ds, t, d: ds.take([3, 1], columns={"x": "id + 1"}),
        "take system columns": lambda m, ds, t, d: ds.take([3, 301], columns=["_rowid", "id", "_rowaddr"]),
        "take rows": lambda m, ds, t, d: ds._take_rows([2, 4294967296 + 5, 1], columns=["id"]),
        "head": lambda m, ds, t, d: ds.head(3),
        "head of a filter": lambda m, ds, t, d: ds.head(3, filter="id > 7", columns=["id"]),
        "scanner head": lambda m, ds, t, d: ds.scanner(columns=["id"]).head(2),
        "scanner count": lambda m, ds, t, d: [ds.scanner(filter="id < 9").count_rows(), ds.scanner().count_rows()],
        "len": lambda m, ds, t, d: len(ds),
        "sample": lambda m, ds, t, d: [sorted(ds.sample(1000)["id"].to_pylist()) == list(range(1000)), ds.sample(5, columns=["id"]).num_rows],
        "sample in order": lambda m, ds, t, d: (lambda ids: ids == sorted(ids))(ds.sample(50, columns=["id"], randomize_order=False)["id"].to_pylist()),
        "reader": lambda m, ds, t, d: ds.scanner(columns=["id"], limit=4).to_reader().read_all(),
        "batches": lambda m, ds, t, d: [batch.num_rows for batch in ds.to_batches(batch_size=100, filter="id < 250")],
        "default options": lambda m, ds, t, d: (lambda other: [other.schema, other.to_table(limit=1), other.to_table(limit=1, columns=["id"])])(
            m.dataset(ds.uri, default_scan_options={"with_row_id": True})
        ),
        "builder": lambda m, ds, t, d: module(m, "dataset").ScannerBuilder(ds).columns(["id"]).filter("id > 3").limit(2).offset(1).with_row_id().to_scanner().to_table(),
        "dataset is a dataset": lambda m, ds, t, d: [isinstance(ds, pa.dataset.Dataset), isinstance(ds.scanner(), pa.dataset.Scanner)],
        "statistics": lambda m, ds, t, d: (lambda told: [ds.scanner(scan_stats_callback=told.append).to_table().num_rows, len(told)])([]),
        "dataset schema": lambda m, ds, t, d: ds.scanner(columns=["id"]).dataset_schema,
    },
)
each(
    "facts",
    {
        "schema": lambda m, ds, t, d: ds.schema,
        "lance schema": lambda m, ds, t, d: ds.lance_schema,
        "lance schema to pyarrow": lambda m, ds, t, d: ds.lance_schema.to_pyarrow(),
        "nested field ids": lambda m, ds, t, d: [[child.name(), child.id()] for field in ds.lance_schema.fields() for child in field.children()],
        "versions": lambda m, ds, t, d: (ds.insert(t), [{**v, "metadata": {k: n for k, n in v["metadata"].items() if k != "total_files_size"}} for v in ds.versions()])[1],
        "numbers": lambda m, ds, t, d: [ds.version, ds.latest_version, ds.data_storage_version, ds.has_stable_row_ids, ds.max_field_id, ds.has_index],
        "statistics": lambda m, ds, t, d: [ds.stats.dataset_stats(), ds.stats.dataset_stats(max_rows_per_group=200), [f.id for f in ds.stats.data_stats().fields]],
        "indices": lambda m, ds, t, d: [ds.describe_indices()],
        "storage options": lambda m, ds, t, d: [ds.initial_storage_options, ds.latest_storage_options(), ds.storage_options_accessor],
        "schema as json": lambda m, ds, t, d: m.schema_to_json(ds.schema),
        "schema from json": lambda m, ds, t, d: m.json_to_schema(m.schema_to_json(ds.schema)),
        "copy": lambda m, ds, t, d: (lambda other: (ds.insert(t), [other.version, ds.version])[1])(copy.copy(ds)),
        "pickle": lambda m, ds, t, d: (lambda sent: (ds.insert(t), pickle.loads(sent).count_rows())[1])(pickle.dumps(ds)),
        "session": lambda m, ds, t, d: ds.session().is_same_as(ds.session()),
        "open with a session": lambda m, ds, t, d: m.dataset(ds.uri, session=module(m, "dataset").Session()).count_rows(),
        "primary key": lambda m, ds, t, d: [
            field.name()
            for field in module(m, "schema")
            .LanceSchema.from_pyarrow(pa.schema([pa.field("k", pa.int32(), False, {"lance-schema:unenforced-primary-key": "true"}), pa.field("v", pa.int8())]))
            .unenforced_primary_key()
        ],
    },
)
each(
    "fragments",
    {
        "list": lambda m, ds, t, d: [[f.fragment_id, f.physical_rows, f.num_deletions, f.count_rows(), f.count_rows("id < 350")] for f in ds.get_fragments()],
        "one": lambda m, ds, t, d: [ds.get_fragment(2).to_table(columns=["id"], limit=3), ds.get_fragment(9)],
        "metadata": lambda m, ds, t, d: ds.get_fragments()[1].metadata,
        "metadata as json": lambda m, ds, t, d: ds.get_fragments()[1].metadata.to_json(),
        "metadata from json": lambda m, ds, t, d: (lambda one: m.FragmentMetadata.from_json(json.dumps(one.to_json())) == one)(ds.get_fragments()[1].metadata),
        "pickle": lambda m, ds, t, d: pickle.loads(pickle.dumps(ds.get_fragments()[1].metadata)) == ds.get_fragments()[1].metadata,
        "data files": lambda m, ds, t, d: [ds.get_fragments()[1].data_files(), ds.get_fragments()[1].deletion_file()],
        "schema": lambda m, ds, t, d: ds.get_fragments()[1].schema,
        "head": lambda m, ds, t, d: ds.get_fragments()[1].head(2),
        "scan": lambda m, ds, t, d: ds.get_fragments()[1].to_table(columns=["id"], filter="id > 310", limit=3, offset=1, with_row_id=True),
        "take": lambda m, ds, t, d: [ds.get_fragments()[1].take([5, 0, 5], columns=["id"]), ds.get_fragments()[1].take([], columns=["id"])],
        "session": lambda m, ds, t, d: ds.get_fragments()[1].open_session(columns=["id"], with_row_address=True).take([5, 0]),
        "batches": lambda m, ds, t, d: [batch.num_rows for batch in ds.get_fragments()[3].to_batches(batch_size=30)],
        "scan of two": lambda m, ds, t, d: ds.to_table(columns=["id"], fragments=[ds.get_fragment(3), ds.get_fragment(1)]),
        "of another dataset": lambda m, ds, t, d: m.LanceFragment(ds, 2).count_rows(),
    },
)
each(
    "write",
    {
        "append": lambda m, ds, t, d: m.write_dataset(t, ds.uri, mode="append"),
        "append to the object": lambda m, ds, t, d: [m.write_dataset(t.slice(0, 5), ds, mode="append"), ds.version],
        "insert": lambda m, ds, t, d: (ds.insert(t.slice(0, 10)), [ds.version, ds.count_rows()])[1],
        "append some columns": lambda m, ds, t, d: m.write_dataset(t.select(["name", "id"]).slice(0, 2), ds.uri, mode="append").to_table(filter="_rowaddr >= 17179869184"),
        "overwrite": lambda m, ds, t, d: m.write_dataset({"x": [1, 2]}, ds.uri, mode="overwrite"),
        "overwrite another version": lambda m, ds, t, d: m.write_dataset(t, ds.uri, mode="overwrite", data_storage_version="2.0").data_storage_version,
        "append keeps the version": lambda m, ds, t, d: m.write_dataset(t, ds.uri, mode="append", data_storage_version="2.0").data_storage_version,
        "no rows": lambda m, ds, t, d: m.write_dataset(t.slice(0, 0), d + "/none"),
        "batches": lambda m, ds, t, d: m.write_dataset(iter(t.to_batches(max_chunksize=100)), d + "/b", schema=t.schema),
        "reader": lambda m, ds, t, d: m.write_dataset(t.to_reader(max_chunksize=100), d + "/r", max_rows_per_file=250),
        "rows": lambda m, ds, t, d: m.write_dataset([{"a": 1, "b": "x"}, {"a": 2, "b": None}], d + "/l").to_table(),
        "columns": lambda m, ds, t, d: m.write_dataset({"a": [1, 2], "b": ["x", None]}, d + "/c").to_table(),
        "a dataset": lambda m, ds, t, d: m.write_dataset(ds, d + "/ds"),
        "a scanner": lambda m, ds, t, d: m.write_dataset(ds.scanner(columns=["id"], filter="id < 5"), d + "/sc").to_table(),
        "stable row ids": lambda m, ds, t, d: m.write_dataset(t.slice(0, 3), d + "/s", enable_stable_row_ids=True).to_table(
            columns=["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        ),
        "files": lambda m, ds, t, d: [f.count_rows() for f in m.write_dataset(t, d + "/f", max_rows_per_file=130).get_fragments()],
        "v1 manifests": lambda m, ds, t, d: (m.write_dataset(t, d + "/v1", enable_v2_manifest_paths=False), os.listdir(d + "/v1/_versions"))[1],
        "properties": lambda m, ds, t, d: m.write_dataset(
            t, ds.uri, mode="append", commit_message="hello", transaction_properties={"k": "v"}
        ).read_transaction(2).transaction_properties,
        "auto cleanup": lambda m, ds, t, d: m.write_dataset(t, d + "/a", auto_cleanup_options={"interval": 5, "older_than_seconds": 60}).config(),
        "drop": lambda m, ds, t, d: (m.LanceDataset.drop(ds.uri), m.LanceDataset.drop(ds.uri, ignore_not_found=True), os.path.exists(ds.uri))[2],
        "delete": lambda m, ds, t, d: [ds.delete("id % 3 = 0 or half is null"), ds.delete("id < 0"), ds.delete(pc.field("id") > 900), ds],
        "delete fragments": lambda m, ds, t, d: [ds.delete("id >= 250"), ds.get_fragments(), ds.delete("true"), ds.count_rows(), ds.version],
        "delete on a version": lambda m, ds, t, d: [ds.delete("id = 1"), ds.checkout_version(1).delete("id = 2"), m.dataset(ds.uri)],
        "update": lambda m, ds, t, d: [
            ds.update({"half": "id * 2.0", "name": "concat(name, '!')"}, where="id % 100 = 7"),
            ds.update({"ok": "false"}, pc.field("id") == 5),
            ds.update({"id": "id + 10000"}),
            ds.update({"day": "null"}, where="id < 0", conflict_retries=2, retry_timeout=datetime.timedelta(seconds=5)),
            ds.to_table().sort_by("id"),
            ds.version,
        ],
        "merge": lambda m, ds, t, d: [
            ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(moved(t, 290)),
            ds.merge_insert(["ID"]).when_matched_update_all("source.half > target.half").use_index(False).execute(moved(t, 0)),
            ds.merge_insert("id").when_matched_delete().execute(t.select(["id"]).slice(0, 5)),
            ds.merge_insert(["id", "name"]).when_not_matched_by_source_delete("id > 320").execute(t),
            ds.merge_insert("id").when_not_matched_insert_all().conflict_retries(0).retry_timeout(datetime.timedelta(seconds=1)).execute(moved(t, 400).to_reader()),
            ds.merge_insert("id").when_matched_update_all().execute({"id": [50], "name": ["fifty"]}),
            ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(moved(t, 0).slice(0, 0)),
            ds.to_table().sort_by("id"),
            ds.version,
        ],
        "merge as transaction": lambda m, ds, t, d: (
            lambda done: [type(done[0].operation).__name__, done[0].operation.update_mode, len(done[0].operation.new_fragments), done[1], ds.version,
                          m.LanceDataset.commit(ds, done[0]).to_table().sort_by("id")]
        )(ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute_uncommitted(moved(t, 290))),
        "merge plans": lambda m, ds, t, d: (
            lambda one: [one.explain_plan().splitlines()[0], "HashJoinExec" in one.explain_plan(t.schema, verbose=True), "num_inserted_rows=290" in one.analyze_plan(moved(t, 290)),
                         ds.version]
        )(ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()),
        "truncate": lambda m, ds, t, d: (ds.truncate_table(), [ds.count_rows(), ds.version, ds.schema, ds.get_fragments()])[1],
        "path objects": lambda m, ds, t, d: m.write_dataset(t.slice(0, 1), __import__("pathlib").Path(d) / "p").uri,
    },
)


@case
def versions_and_times(m, ds, t, d):
    between = None
    ds.insert(t)
    between = datetime.datetime.now()
    ds.insert(t)
    found = [m.dataset(ds.uri, version=v).count_rows() for v in (1, 2, 3)]
    found += [m.dataset(ds.uri, asof=between).version]
    old = ds.checkout_version(1)
    old.restore()
    ds.checkout_latest()
    return [*found, old, ds, ds.checkout_version(2), ds.checkout_version((None, None)), ds.checkout_version(("main", 1))]


@case
def tags(m, ds, t, d):
    ds.insert(t)
    ds.tags.create("b", 1)
    ds.tags.create("a", 1)
    ds.tags.create("now")
    before = ds.tags.list()
    ds.tags.update("b", 2)
    ds.tags.replace_metadata("a", {"k": "v"})
    after = ds.tags.list()
    found = [{name: {**tag, "manifest_size": tag["manifest_size"] > 0} for name, tag in which.items()} for which in (before, after)]
    ordered = [[name for name, _ in ds.tags.list_ordered(order)] for order in (None, "desc", "asc")]
    ds.tags.delete("a")
    return [*found, ordered, ds.tags.get_version("b"), m.dataset(ds.uri, version="b"), ds.checkout_version("now"), sorted(ds.tags.list())]


@case
def branches(m, ds, t, d):
    ds.insert(t)
    branch = ds.create_branch("try/one", 1)
    branch.insert(t.slice(0, 7))
    second = branch.create_branch("two", ("try/one", 2))
    m.write_dataset(t.slice(0, 3), second, mode="append")
    ds.tags.create("on", ("try/one", 2))
    listed = {name: {**one, "create_at": one["create_at"] > 0, "manifest_size": one["manifest_size"] > 0} for name, one in ds.branches.list().items()}
    for one in listed.values():
        one["branch_identifier"] = len(one["branch_identifier"])
    ordered = [[name for name, _ in ds.branches.list_ordered(order)] for order in ("desc", "asc")]
    ds.branches.replace_metadata("two", {"k": "v"})
    second = ds.checkout_version(("two", None))
    found = [listed, ordered, branch, second, ds.branches.list()["two"]["metadata"], ds.tags.list()["on"]["branch"], ds.checkout_version("on")]
    ds.branches.delete("two")
    return [*found, sorted(ds.branches.list()), ds.latest_version, ds.count_rows()]


@case
def clones(m, ds, t, d):
    ds.insert(t)
    ds.tags.create("one", 1)
    by_version = ds.shallow_clone(d + "/s1", 1)
    by_tag = ds.shallow_clone(d + "/s2", "one")
    by_branch = ds.shallow_clone(d + "/s3", (None, 2))
    by_version.insert(t.slice(0, 4))
    return [by_version, by_tag, by_branch, by_version.to_table(filter="id < 3", columns=["id"]), ds.count_rows()]


@case
def cleanup(m, ds, t, d):
    ds.insert(t, mode="overwrite")
    ds.insert(t, mode="overwrite")
    ds.tags.create("old", 1)
    found = []
    try:
        ds.cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)
    except OSError:
        found.append("refused")
    stats = ds.cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)
    # Files of a version between tagged ones stay with official until the tags are gone.
    found.append([stats.old_versions, stats.deletion_files_removed, stats.index_files_removed, stats.bytes_removed > 0])
    ds.tags.delete("old")
    stats = ds.cleanup_old_versions(retain_versions=1)
    return [*found, stats.old_versions, [v["version"] for v in ds.versions()], ds.cleanup_old_versions().old_versions]


@case
def config_and_metadata(m, ds, t, d):
    found = [
        ds.update_config({"a": "1", "b": "2"}), ds.update_config({"a": None}), ds.update_config({"c": "3"}, replace=True), ds.config(),
        ds.update_metadata({"x": "y"}), ds.metadata, ds.update_metadata({"x": None, "z": "1"}),
        ds.schema_metadata, ds.update_schema_metadata({"m": "n"}), ds.update_schema_metadata({"o": "p"}, replace=True),
    ]
    ds.delete_config_keys(["c", "nothing"])
    ds.update_field_metadata({"id": {"unit": "m"}, "point.x": {"unit": "cm"}})
    found.append(ds.schema)
    ds.update_field_metadata({"id": {"unit": None, "other": "1"}})
    found.append(ds.schema.field("id").metadata)
    ds.update_field_metadata({"id": {"last": "2"}}, replace=True)
    found.append(ds.schema.field("id").metadata)
    ds.replace_schema_metadata({"q": "r"})
    ds.replace_field_metadata("name", {"s": "t"})
    ds.optimize.enable_auto_cleanup({"interval": 3, "older_than_seconds": 600})
    found += [ds.config(), ds.schema]
    ds.optimize.disable_auto_cleanup()
    return [*found, ds.config(), ds.version]


@case
def commits(m, ds, t, d):
    op, fragment = m.LanceOperation, module(m, "fragment")
    made = fragment.write_fragments(t.slice(0, 70), ds.uri, max_rows_per_file=40)
    sent = [m.FragmentMetadata.from_json(json.dumps(one.to_json())) for one in made]
    one = m.LanceDataset.commit(ds.uri, op.Append(sent), read_version=1, commit_message="hello")
    found = [[f.num_rows for f in made], one, one.read_transaction(2).transaction_properties, one.read_transaction(2)]
    one = m.LanceDataset.commit(one, op.Delete([], [0], "id < 300"), read_version=2)
    found += [one, one.read_transaction(3), [f.fragment_id for f in one.get_fragments()]]
    one = m.LanceDataset.commit(one.uri, op.Restore(1))
    found += [one, one.read_transaction(4)]
    made = fragment.write_fragments(t.slice(0, 30), d + "/new", mode="create")
    new = m.LanceDataset.commit(d + "/new", op.Overwrite(t.schema, made))
    found += [new, new.to_table(columns=["id"], limit=2), new.read_transaction(1).operation.new_schema]
    config = op.UpdateConfig(config_updates=op.UpdateMap({"a": "b"}), field_metadata_updates={0: op.UpdateMap({"k": "v"}, True)})
    new = m.LanceDataset.commit(new, config, read_version=1)
    found += [new.config(), new.schema.field("id").metadata, new.read_transaction(2)]
    project = op.Project(module(m, "schema").LanceSchema.from_pyarrow(new.schema.remove(6).remove(5)))
    new = m.LanceDataset.commit(new, project, read_version=2)
    return [*found, new, new.to_table(limit=1), type(new.read_transaction(3).operation).__name__]


@case
def transactions(m, ds, t, d):
    ds.insert(t.slice(0, 5))
    ds.update_config({"a": "b"})
    listed = ds.get_transactions(2)
    again = [pickle.loads(pickle.dumps(one)) == one for one in listed]
    everything = ds.get_transactions()
    return [listed, again, [type(one.operation).__name__ for one in everything], [one.read_version for one in everything]]


@case
def batches_of_commits(m, ds, t, d):
    fragment = module(m, "fragment")
    parts = [fragment.write_fragments(t.slice(i, 10), ds, return_transaction=True) for i in range(3)]
    result = m.LanceDataset.commit_batch(ds, parts)
    return [result["dataset"], len(result["merged"].operation.fragments), [f.count_rows() for f in result["dataset"].get_fragments()][-3:]]


@case
def detached_commits(m, ds, t, d):
    part = module(m, "fragment").write_fragments(t.slice(0, 10), ds, return_transaction=True)
    one = m.LanceDataset.commit(ds, part, detached=True)
    return [one.version >> 63, one.count_rows(), ds.latest_version, m.dataset(ds.uri).checkout_version(one.version).count_rows()]


@case
def columns_from_files(m, ds, t, d):
    """A new column of a dataset by a data file for each fragment, and a Merge."""
    fragments, schema = [], ds.schema.append(pa.field("more", pa.int32()))
    lance_schema = module(m, "schema").LanceSchema.from_pyarrow(schema)
    number = lance_schema.fields()[-1].id()
    for one in ds.get_fragments():
        name = f"more-{one.fragment_id}.lance"
        with module(m, "file").LanceFileWriter(f"{ds.uri}/data/{name}") as writer:
            writer.write_batch(pa.record_batch({"more": pa.array(range(one.physical_rows), pa.int32())}))
        metadata = one.metadata
        metadata.files.append(module(m, "fragment").DataFile(name, [number], [0], 2, 1))
        fragments.append(metadata)
    merged = m.LanceDataset.commit(ds, m.LanceOperation.Merge(fragments, lance_schema), read_version=1)
    return [merged, merged.to_table(columns=["id", "more"], offset=298, limit=4), [one.fields for one in merged.get_fragments()[0].data_files()], merged.max_field_id]


@case
def replaced_files(m, ds, t, d):
    with module(m, "file").LanceFileWriter(f"{ds.uri}/data/new.lance") as writer:
        writer.write_batch(pa.record_batch({"name": [f"new {i}" for i in range(300)]}))
    file = module(m, "fragment").DataFile.create(ds, "new.lance")
    with module(m, "file").LanceFileWriter(f"{ds.uri}/data/whole.lance") as writer:
        writer.write_batch(t.slice(0, 10))
    created = m.LanceFragment.create_from_file("whole.lance", ds, 9)
    replaced = m.LanceOperation.DataReplacement([m.LanceOperation.DataReplacementGroup(i, file) for i in range(3)])
    new = m.LanceDataset.commit(ds, replaced, read_version=1)
    new = m.LanceDataset.commit(new, m.LanceOperation.Append([created]), read_version=2)
    return [
        [file.path, file.fields, file.column_indices], [created.id, created.physical_rows, [[one.path, one.fields, one.column_indices] for one in created.files]], new,
        new.to_table(columns=["id", "name"], offset=298, limit=4), new.to_table(columns=["id", "name"], offset=998),
    ]


@case
def fragments_created(m, ds, t, d):
    one = m.LanceFragment.create(ds.uri, t.slice(0, 20), fragment_id=7)
    return [one, m.LanceDataset.commit(ds, m.LanceOperation.Append([one]), read_version=1).count_rows()]


@case
def files(m, ds, t, d):
    file = module(m, "file")
    found = []
    for version in ("2.0", "2.1", "2.2"):
        path = f"{d}/{version}.lance"
        with file.LanceFileWriter(path, t.schema, version=version) as writer:
            writer.write_batch(t.slice(0, 600))
            for batch in t.slice(600).to_batches():
                writer.write_batch(batch)
            number = writer.add_global_buffer(b"more")
            writer.add_schema_metadata("key", "value")
        reader = file.LanceFileReader(path)
        metadata = reader.metadata()
        found += [
            writer.close(), number, reader.num_rows(), reader.read_all().to_table().equals(t), reader.read_range(595, 10).to_table(),
            reader.take_rows([0, 5, 999]).to_table(),
            sum(batch.num_rows for batch in reader.read_all(batch_size=100).to_batches()),
            file.LanceFileReader(path, columns=["name", "id"]).read_range(0, 2).to_table(), reader.read_global_buffer(1), metadata.schema, metadata.num_rows,
            len(metadata.columns), [len(column.pages) for column in metadata.columns], [one.num_pages for one in reader.file_statistics().columns],
            [metadata.major_version, metadata.minor_version],
        ]
    return found


@case
def a_session_of_files(m, ds, t, d):
    session = module(m, "file").LanceFileSession(d + "/session")
    with session.open_writer("sub/a.lance", schema=t.schema) as writer:
        writer.write_batch(t)
    with open(d + "/local", "wb") as out:
        out.write(b"0123456789" * 100)
    session.upload_file(d + "/local", "up.bin")
    session.download_file("up.bin", d + "/back")
    with open(d + "/back", "rb") as back:
        same = back.read() == b"0123456789" * 100
    listed = [sorted(session.list(path)) for path in (None, "sub", "sub/", "none")]
    inside = ds.new_file_session()
    return [same, listed, session.contains("sub/a.lance"), session.contains("b"), session.open_reader("sub/a.lance", ["id"]).read_range(3, 2).to_table(), len(inside.list())]


@case
def bases(m, ds, t, d):
    base = module(m, "dataset").DatasetBasePath
    os.mkdir(d + "/one")
    os.mkdir(d + "/two")
    new = m.write_dataset(t, d + "/based", initial_bases=[base(d + "/one", "one", id=1)], target_bases=["one"], max_rows_per_file=500)
    new.add_bases([base(d + "/two", "two")])
    new = m.write_dataset(t.slice(0, 10), new.uri, mode="append", target_bases=["two"])
    return [new, [[file.base_id for file in f.data_files()] for f in new.get_fragments()], len(os.listdir(d + "/one")), len(os.listdir(d + "/two")), new.to_table(filter="id = 5")]


@case
def functions_over_batches(m, ds, t, d):
    @m.batch_udf()
    def double(batch):
        return pa.record_batch({"double": pc.multiply(batch["id"], 2)})

    normalize = module(m, "udf").normalize_transform
    batch = next(iter(ds.to_batches(limit=2)))
    made = normalize(double, ds)
    check = module(m, "udf").BatchUDFCheckpoint(d + "/check")
    info = check.BatchInfo(1, 2)
    check.insert_batch(info, double(batch))
    found = [double(batch), made.output_schema, check.get_batch(info), check.get_batch(check.BatchInfo(1, 3)), check.get_fragment(5)]
    check.insert_fragment(1, "{}")
    found += [check.get_fragment(1), check.get_batch(info), normalize({"x": "id"}, ds), normalize(lambda b: double(b), ds, ["id"]).output_schema]
    check.cleanup()
    return [*found, os.path.exists(d + "/check")]


@case
def blobs(m, ds, t, d):
    values = [b"abc", None, b"", bytes(100_000), m.Blob.from_bytes(b"x"), m.Blob.empty()]
    schema = pa.schema([pa.field("i", pa.int32()), m.blob_field("b", inline_size_threshold=10, dedicated_size_threshold=50_000)])
    table = pa.table([pa.array(range(6), pa.int32()), m.blob_array(values)], schema=schema)
    new = m.write_dataset(table, d + "/blobs", data_storage_version="2.2")
    old = pa.table({"b": pa.array([b"abc", b"", bytes(1000)], pa.large_binary())}, schema=pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]))
    first = m.write_dataset(old, d + "/old")
    column = [one and one.read() for one in m.BlobColumn(pa.array([b"a", b"bc"]))]
    return [
        new.count_rows(), [one["size"] if one else 0 for one in new.to_table()["b"].to_pylist()], [str(field.type) for field in new.to_table().schema], first.count_rows(), column,
        dict(schema.field("b").metadata),
    ]


@case
def after_a_delete(m, ds, t, d):
    ds = deleted(m, ds)
    return [
        ds, ds.take([0, 299, 300, 699], columns=["id"]), ds.to_table(columns=["id"], offset=298, limit=4), ds.count_rows("id < 650"),
        [f.fragment_id for f in ds.get_fragments()], ds._take_rows([4294967296, 2], columns=["id"]), ds.to_table(filter="id = 600", with_row_id=True, columns=["id"]),
    ]


@case
def write_progress(m, ds, t, d):
    class Told(module(m, "progress").FragmentWriteProgress):
        def __init__(self):
            self.begun, self.done = 0, 0

        def begin(self, fragment, **kwargs):
            self.begun += 1

        def complete(self, fragment, **kwargs):
            self.done += 1

    told = Told()
    module(m, "fragment").write_fragments(t, d + "/told", max_rows_per_file=400, progress=told)
    files = module(m, "progress").FileSystemFragmentWriteProgress(d + "/progress", {"a": "b"})
    fragment = ds.get_fragments()[2].metadata
    files.begin(fragment)
    names = sorted(os.listdir(d + "/progress"))
    files.complete(fragment)
    return [told.begun, names, sorted(os.listdir(d + "/progress")), module(m, "progress").IndexProgress("start", "x", 1, 4).fraction]


@case
def json_schemas(m, ds, t, d):
    kinds = [
        pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(7), pa.bool_(), pa.null(),
        pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.duration("ns"), pa.decimal128(10, 2),
        pa.decimal256(50, 3), pa.list_(pa.int8()), pa.large_list(pa.string()), pa.list_(pa.float32(), 8), pa.struct([("a", pa.int8()), ("b", pa.list_(pa.utf8()))]),
        pa.dictionary(pa.int8(), pa.string()),
    ]
    found = []
    for kind in kinds:
        schema = pa.schema([pa.field("x", kind, kind != pa.int8(), {"k": "v"} if kind == pa.bool_() else None)], metadata={"m": "n"} if kind == pa.null() else None)
        tree = m.schema_to_json(schema)
        found.append([tree, m.json_to_schema(json.loads(json.dumps(tree))).equals(schema, check_metadata=True)])
    return found


def columns_of(ds):
    """Rows, schema, field ids, and what the files have."""

    def field(f):
        return [f.name(), f.id(), [field(c) for c in f.children()]]

    return [ds.version, str(ds.schema), [field(f) for f in ds.lance_schema.fields()], ds.to_table().slice(0, 7), ds.max_field_id,
            [[[list(d.fields), list(d.column_indices)] for d in f.metadata.files] for f in ds.get_fragments()]]


@case
def added_columns(m, ds, t, d):
    found = [ds.add_columns({"next": "id + 1", "what": "concat(name, '!')"}), columns_of(ds)]
    ds.add_columns(pa.field("none", pa.int8()))
    ds.add_columns([pa.field("none2", pa.string()), pa.field("none3", pa.list_(pa.int8()))])
    ds.add_columns(pa.schema([pa.field("none4", pa.date32())]))
    ds.delete("id % 9 = 4")
    rows = ds.count_rows()
    ds.add_columns(pa.table({"number": list(range(rows))}))
    batches = [pa.record_batch({"again": pa.array(range(rows), pa.int32())})]
    ds.add_columns(iter(batches), reader_schema=batches[0].schema)
    ds.add_columns({})
    return [*found, columns_of(ds), ds.count_rows("number = again AND next = id + 1")]


@case
def columns_of_functions(m, ds, t, d):
    calls = []

    @m.batch_udf(output_schema=pa.schema([pa.field("twice", pa.int64())]))
    def twice(batch):
        calls.append([batch.num_rows, sorted(batch.schema.names)])
        return pa.record_batch([pc.multiply(batch["id"], 2)], ["twice"])

    ds.delete("id = 5 OR id >= 900")
    ds.add_columns(twice, read_columns=["id", "_rowid"], batch_size=128)
    ds.add_columns(lambda batch: pa.record_batch([pc.add(batch["id"], 1)], ["one more"]), read_columns=["id"])
    ds.add_columns(m.batch_udf()(lambda batch: batch.select(["half"]).rename_columns(["copy"])))
    return [calls, columns_of(ds)]


@case
def a_function_that_goes_on(m, ds, t, d):
    calls = []
    broken = [True]

    def function(batch):
        first = batch["id"][0].as_py()
        if broken[0] and first >= 640:
            raise ValueError("enough")
        calls.append(first)
        return pa.record_batch([pc.add(batch["id"], 1)], ["one more"])

    kind = pa.schema([pa.field("one more", pa.int64())])
    told = []
    for _ in range(2):
        try:
            ds.add_columns(m.batch_udf(kind, d + "/kept.sqlite")(function), read_columns=["id"], batch_size=100)
        except OSError as error:
            told.append("enough" in str(error))
        broken[0] = False
    return [calls, told, os.path.exists(d + "/kept.sqlite"), columns_of(ds)]


@case
def altered_columns(m, ds, t, d):
    ds.alter_columns({"path": "id", "name": "key", "nullable": True}, {"path": "half", "data_type": pa.float32()})
    ds.alter_columns({"path": "point.x", "name": "left"}, {"path": "name", "data_type": pa.large_string()})
    found = columns_of(ds)
    ds.drop_columns(["day", "point.y"])
    ds.alter_columns({"path": "key", "nullable": False, "data_type": pa.int16()})
    ds.alter_columns()
    ds.drop_columns([])
    return [found, columns_of(ds)]


@case
def merged_columns(m, ds, t, d):
    more = pa.table({"id": [1, 5, 999, 5000], "what": ["a", "b", "c", "d"], "count": pa.array([1, None, 3, 4], pa.int16())})
    ds.merge(more, "id")
    ds.merge(more.rename_columns(["key", "what2", "count2"]), "id", "key")
    ds.merge(m.write_dataset(more.rename_columns(["key", "what3", "count3"]), d + "/right"), "id", "key")
    return columns_of(ds)


@case
def fragments_with_columns(m, ds, t, d):
    more = pa.table({"id": [1, 5, 999, 5000], "what": ["a", "b", "c", "d"]})
    for make in (lambda f: f.merge(more, "id"), lambda f: f.merge_columns({"next": "id + 1"}), lambda f: f.merge_columns(
            lambda batch: pa.record_batch([pc.add(batch["id"], 1)], ["f"]), columns=["id"], batch_size=50),
            lambda f: f.merge_columns(pa.table({"g": list(range(f.count_rows()))}))):
        made = [make(fragment) for fragment in ds.get_fragments()]
        ds = m.LanceDataset.commit(ds.uri, m.LanceOperation.Merge([one for one, _ in made], made[0][1]), read_version=ds.version)
    return columns_of(ds)


@case
def fragments_updated(m, ds, t, d):
    new = pa.table({"id": [1, 5, 999, 5000], "half": [0.5, None, 2.5, 3.5], "name": ["a", "b", "c", "d"]})
    made = [f.update_columns(new, "id") for f in ds.get_fragments()]
    operation = m.LanceOperation.Update(updated_fragments=[one for one, _ in made], fields_modified=made[0][1], update_mode="rewrite_columns")
    ds = m.LanceDataset.commit(ds.uri, operation, read_version=ds.version)
    ids = pa.table({"_rowid": pa.array([0, 7], pa.uint64()), "ok": [True, False]})
    changed, fields = ds.get_fragment(0).update_columns(ids)
    operation = m.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields, update_mode="rewrite_columns")
    ds = m.LanceDataset.commit(ds.uri, operation, read_version=ds.version)
    return [[fields for _, fields in made], fields, columns_of(ds), ds.count_rows("half IS NULL"), ds.to_table(filter="id IN (1, 5, 999)")]


@case
def fragments_deleted_from(m, ds, t, d):
    first, second, third, last = ds.get_fragments()
    made = [first.delete("id < 7"), second.delete("id < 0"), last.delete("true"), third.delete("ok IS NULL")]
    operation = m.LanceOperation.Delete([made[0], made[3]], [last.fragment_id], "some")
    ds = m.LanceDataset.commit(ds.uri, operation, read_version=ds.version)
    return [made[1].num_deletions, made[2], ds.count_rows(), [f.num_deletions for f in ds.get_fragments()], ds.get_fragment(0).delete("id < 0").num_deletions]


@case
def columns_swapped(m, ds, t, d):
    schema = m.LanceSchema if hasattr(m, "LanceSchema") else module(m, "schema").LanceSchema
    swapped = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.float64())])
    small = m.write_dataset(pa.table({"b": [1, 2], "a": [1.5, 2.5]}), d + "/small")
    small = m.LanceDataset.commit(small.uri, m.LanceOperation.Project(schema.from_pyarrow(swapped)), read_version=1)
    return columns_of(small)


def run(m, names, folder):
    """{name: what it gives, or ["raises", its types]}"""
    table = make_table()
    found = {}
    for name in names:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        dataset = m.write_dataset(table, f"{folder}/table.lance", max_rows_per_file=300)
        try:
            found[name] = json.loads(json.dumps(shown(CASES[name](m, dataset, table, str(folder)), folder)))
        except Exception as error:
            found[name] = ["raises", [cls.__name__ for cls in type(error).__mro__], f"{type(error).__name__}: {error}"[:300]]
    return found
