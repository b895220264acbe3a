# Licensed under the Apache License, Version 2.0; see LICENSE.
"""One engine of the model tests, in a process of its own: `engine.py lance` or `engine.py pennon`.

Reads operations as lines of JSON, carries each out on the dataset at its "path", and answers a line: {"ok": ...} or {"error": text}. The operations are
resolved: they hold the very rows, expressions and versions. What they mean is defined in world.py."""
import datetime
import importlib
import json
import sys
import traceback

import pyarrow as pa

TYPES = {"int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64(), "string": pa.string(), "bool": pa.bool_(), "date": pa.date32(),
         "list": pa.list_(pa.int32()), "point": pa.struct([("x", pa.int32()), ("y", pa.string())]), "vector": pa.list_(pa.float32(), 2)}


def schema_of(columns):
    return pa.schema([pa.field(c["name"], TYPES[c["type"]], c["nullable"]) for c in columns])


def table_of(columns, rows):
    """Columns are {"name", "type", "nullable"}; rows are lists of plain values, dates as days."""
    arrays = []
    for i, c in enumerate(columns):
        values = [row[i] for row in rows]
        if c["type"] == "date":
            values = [None if v is None else datetime.date(1970, 1, 1) + datetime.timedelta(days=v) for v in values]
        arrays.append(pa.array(values, TYPES[c["type"]]))
    return pa.Table.from_arrays(arrays, schema=schema_of(columns))


def plain(value):
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    if isinstance(value, dict):
        # 2.0 has no nulls of structs, and official makes structs of nulls of them where it rewrites a column that no file has.
        if all(item is None for item in value.values()):
            return None
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


class Engine:
    def __init__(self, name):
        self.m = importlib.import_module(name)

    def open(self, op):
        return self.m.dataset(op["path"])

    def write(self, op):
        self.m.write_dataset(table_of(op["columns"], op["rows"]), op["path"], mode=op["mode"], max_rows_per_file=op.get("file_rows", 1 << 20),
                             **({"data_storage_version": op["storage"], "enable_stable_row_ids": op["stable"]} if op["mode"] == "create" else {}))

    def delete(self, op):
        return self.open(op).delete(op["where"])["num_deleted_rows"]

    def update(self, op):
        return self.open(op).update(op["set"], where=op["where"])["num_rows_updated"]

    def merge(self, op):
        job = self.open(op).merge_insert(op["on"])
        if op["matched"] == "update":
            job = job.when_matched_update_all()
        elif op["matched"] == "update_if":
            job = job.when_matched_update_all(op["condition"])
        elif op["matched"] == "fail":
            job = job.when_matched_fail()
        elif op["matched"] == "delete":
            job = job.when_matched_delete()
        if op["insert"]:
            job = job.when_not_matched_insert_all()
        if op["by_source"] is not None:
            job = job.when_not_matched_by_source_delete(op["by_source"] or None)
        counts = job.execute(table_of(op["columns"], op["rows"]))
        return [counts["num_inserted_rows"], counts["num_updated_rows"], counts["num_deleted_rows"]]

    def add_sql(self, op):
        self.open(op).add_columns({op["name"]: op["sql"]})

    def add_nulls(self, op):
        self.open(op).add_columns(pa.field(op["name"], TYPES[op["type"]], True))

    def add_values(self, op):
        data = table_of(op["columns"], op["rows"])
        self.open(op).add_columns(pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=op["chunk"])))

    def join(self, op):
        self.open(op).merge(table_of(op["columns"], op["rows"]), "uid")

    def drop(self, op):
        self.open(op).drop_columns([op["name"]])

    def alter(self, op):
        change = {"path": op["name"], **op["change"]}
        if "data_type" in change:
            change["data_type"] = TYPES[change["data_type"]]
        self.open(op).alter_columns(change)

    def compact(self, op):
        done = self.open(op).optimize.compact_files(target_rows_per_fragment=op["target"], materialize_deletions_threshold=op["threshold"], num_threads=1)
        return [done.fragments_removed, done.fragments_added]

    def restore(self, op):
        self.m.dataset(op["path"], version=op["version"]).restore()

    def tag(self, op):
        tags = self.open(op).tags
        if op["how"] == "delete":
            tags.delete(op["name"])
        else:
            getattr(tags, op["how"])(op["name"], op["version"])

    def cleanup(self, op):
        self.open(op).cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)

    def versions(self, op):
        dataset = self.open(op)
        return {"versions": [v["version"] for v in dataset.versions()], "tags": {name: tag["version"] for name, tag in dataset.tags.list().items()}}

    def state(self, op):
        """The rows as they come, their types, and what is numbered."""
        dataset = self.m.dataset(op["path"], version=op.get("version"))
        hidden = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"] if op["stable"] else []
        names = dataset.schema.names
        data = dataset.scanner(columns=names + hidden).to_table()
        dataset.validate()
        if dataset.count_rows() != data.num_rows:
            raise AssertionError(f"{dataset.count_rows()} rows counted, {data.num_rows} scanned")
        rows = [[plain(v) for v in row.values()] for row in data.to_pylist()]
        return {"schema": [[f.name, str(f.type), f.nullable] for f in dataset.schema], "version": dataset.version,
                "rows": [row[:len(names)] for row in rows], "numbers": [row[len(names):] for row in rows],
                "fragments": [f.count_rows() for f in dataset.get_fragments()]}


def main():
    engine = Engine(sys.argv[1])
    for line in sys.stdin:
        op = json.loads(line)
        try:
            answer = {"ok": getattr(engine, op["op"])(op)}
        except BaseException as error:  # pylint: disable=broad-except
            text = str(error).strip().splitlines()
            answer = {"error": f"{type(error).__name__}: {text[0][:300] if text else ''}"}
            if not isinstance(error, Exception) or op.get("trace"):
                traceback.print_exc()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
