# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the tests of transactions ask of official Lance: operations by name on one small table, and their commits.

Runs inside oracle_server.py. A workshop is a folder that holds

    base/         the table at READ_VERSION: three fragments of four rows (id 0..11, a = 10 * id, b = text of id), config {"k": "0"}
    make-NAME/    a copy of it in which the verb of the operation NAME has run
    files/        all files that any operation made, to be put beside the base: data, deletions, indices

so that any two operations can be committed to a copy of the base that has the files of both.
"""
import dataclasses
import datetime
import json
import os
import shutil

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

READ_VERSION = 2


def rows(first, n, shift=0):
    ids = range(first, first + n)
    return pa.table({"id": pa.array(ids, pa.int64()), "a": pa.array([10 * i + shift for i in ids], pa.int64()),
                     "b": pa.array([str(i) for i in ids])})


# ---- the operations ----

def _append(ds):
    lance.write_dataset(rows(100, 4), ds, mode="append")


def _overwrite(ds):
    lance.write_dataset(rows(200, 3), ds, mode="overwrite")


def _replace(ds):
    """A data file of other values for fragment 0, with the fields of the one that is there."""
    made, = write_fragments(rows(0, 4, shift=7), ds.uri)
    operation = lance.LanceOperation.DataReplacement([lance.LanceOperation.DataReplacementGroup(0, made.files[0])])
    lance.LanceDataset.commit(ds.uri, operation, read_version=ds.version)


VERBS = {
    "Append": _append,
    "Delete@0": lambda ds: ds.delete("id = 1"),
    "Delete@1": lambda ds: ds.delete("id = 5"),
    "DeleteAll@0": lambda ds: ds.delete("id < 4"),
    "Overwrite": _overwrite,
    "CreateIndex(a)": lambda ds: ds.create_scalar_index("a", "BTREE"),
    "CreateIndex(id)": lambda ds: ds.create_scalar_index("id", "BTREE"),
    "Rewrite@01": lambda ds: ds.optimize.compact_files(target_rows_per_fragment=8),
    "Merge": lambda ds: ds.add_columns({"c": "a + 1"}),
    "Project": lambda ds: ds.drop_columns(["b"]),
    "Restore": lambda ds: lance.LanceDataset.commit(ds.uri, lance.LanceOperation.Restore(1), read_version=ds.version),
    "Update@0": lambda ds: ds.update({"a": "a + 1"}, where="id = 2"),
    "Update@1": lambda ds: ds.update({"a": "a + 1"}, where="id = 6"),
    "UpdateConfig(k)": lambda ds: ds.update_config({"k": "1"}),
    "UpdateConfig(l)": lambda ds: ds.update_config({"l": "1"}),
    "UpdateConfig(-k)": lambda ds: ds.update_config({"k": None}),
    "UpdateConfig(table)": lambda ds: ds.update_metadata({"t": "1"}),
    "UpdateConfig(table=)": lambda ds: ds.update_metadata({"u": "1"}, replace=True),
    "UpdateConfig(schema)": lambda ds: ds.update_schema_metadata({"s": "1"}),
    "UpdateConfig(field)": lambda ds: ds.update_field_metadata({"a": {"f": "1"}}),
    "DataReplacement@0": _replace,
    "UpdateBases": lambda ds: ds.add_bases([lance.DatasetBasePath("/nowhere/x", "x", False)]),
    "UpdateBases(y)": lambda ds: ds.add_bases([lance.DatasetBasePath("/nowhere/y", "y", False)]),
}


def make_base(folder, **options):
    ds = lance.write_dataset(rows(0, 12), f"{folder}/base", max_rows_per_file=4, **options)
    ds.update_config({"k": "0"})
    assert lance.dataset(f"{folder}/base").version == READ_VERSION
    os.makedirs(f"{folder}/files")
    return sorted(VERBS)


def make(folder, name):
    """Runs the verb; the version that it made."""
    uri = f"{folder}/make-{name}"
    shutil.copytree(f"{folder}/base", uri)
    VERBS[name](lance.dataset(uri))
    for part in ("data", "_deletions", "_indices"):
        if os.path.isdir(f"{uri}/{part}"):
            shutil.copytree(f"{uri}/{part}", f"{folder}/files/{part}", dirs_exist_ok=True)
    return lance.dataset(uri).version


def fresh(folder, uri):
    """A copy of the base with all files."""
    shutil.copytree(f"{folder}/base", uri)
    shutil.copytree(f"{folder}/files", uri, dirs_exist_ok=True)


# ---- committing ----

def _class_of(error):
    text = str(error)
    for start, name in (("Retryable commit conflict", "RT"), ("Incompatible transaction", "IN"), ("Commit conflict", "CC"),
                        ("Too many concurrent", "TM")):
        if start in text:
            return name
    return "INVALID" if "Invalid user input" in text else f"{type(error).__name__}: {text[:160]}"


def commit(folder, uri, name, version):
    """"ok", or the class of the conflict. The operation is that of make-NAME, read at READ_VERSION."""
    try:
        if name.startswith("UpdateBases"):
            VERBS[name](lance.dataset(uri, version=READ_VERSION))
        else:
            operation = lance.dataset(f"{folder}/make-{name}").read_transaction(version).operation
            if name.startswith("Rewrite"):
                # Its ids were reserved in the other table; 0 asks for new ones.
                for group in operation.groups:
                    group.new_fragments = [dataclasses.replace(f, id=0) for f in group.new_fragments]
            # A handle at the version that was read: with the URI official would check the operation against the latest version first.
            lance.LanceDataset.commit(lance.dataset(uri, version=READ_VERSION), operation, read_version=READ_VERSION)
        return "ok"
    except Exception as error:  # pylint: disable=broad-except
        return _class_of(error)


def state(uri):
    """All that two tables with the same history have in common."""
    ds = lance.dataset(uri)
    table = ds.to_table()
    try:
        # Indices of one name with the fragments that they cover.
        indices = sorted((i["name"], sorted(i["fragment_ids"])) for i in ds.list_indices())
    except RuntimeError:  # the system index of write ahead logs has no fragments, and official cannot list it
        indices = "not listed"
    fields = {f.name: {k.decode(): v.decode() for k, v in (f.metadata or {}).items()} for f in ds.schema}
    return {
        "version": ds.version,
        "columns": table.column_names,
        "rows": sorted([[str(v) for v in row.values()] for row in table.to_pylist()]),
        "fragments": [[f.fragment_id, f.metadata.num_rows, f.physical_rows] for f in ds.get_fragments()],
        "indices": indices,
        "config": dict(sorted(ds.config().items())),
        "metadata": dict(sorted(ds.metadata.items())),
        "schema_metadata": {k.decode(): v.decode() for k, v in (ds.schema.metadata or {}).items()},
        "fields": fields,
    }


def pair(folder, uri, mine, theirs, versions):
    """Both by official: [outcome of theirs, outcome of mine, state]."""
    fresh(folder, uri)
    first = commit(folder, uri, theirs, versions[theirs])
    second = commit(folder, uri, mine, versions[mine])
    return [first, second, state(uri)]


# ---- transactions as official shows them ----

def _plain(value):
    if isinstance(value, FragmentMetadata):
        return value.to_json()
    if isinstance(value, (list, tuple, set)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):
        return value.timestamp()
    if type(value) is lance.LanceOperation.BaseOperation:  # one that its API has no class for
        return None
    if hasattr(value, "__dataclass_fields__"):
        return {k.lstrip("_"): _plain(getattr(value, k)) for k in value.__dataclass_fields__}
    if hasattr(value, "to_pyarrow"):
        return [[f.name, str(f.type), f.nullable] for f in value.to_pyarrow()]
    return value


def transaction(uri, version):
    t = lance.dataset(uri).read_transaction(version)
    if t is None:
        return None
    return {"read_version": t.read_version, "uuid": t.uuid, "properties": dict(t.transaction_properties or {}),
            "type": type(t.operation).__name__, "operation": _plain(t.operation)}


def fragments_json(uri, first, n, mode="append"):
    """write_fragments without a commit; the fragments as JSON."""
    made = write_fragments(rows(first, n), uri, mode=mode, max_rows_per_file=3)
    return json.dumps([f.to_json() for f in made])


def commit_fragments(uri, text, mode, read_version=None, message=None):
    made = [FragmentMetadata.from_json(json.dumps(f)) for f in json.loads(text)]
    if mode == "append":
        operation = lance.LanceOperation.Append(made)
    else:
        operation = lance.LanceOperation.Overwrite(rows(0, 1).schema, made)
    return lance.LanceDataset.commit(uri, operation, read_version=read_version, commit_message=message).version


def properties(uri, version):
    return dict(lance.dataset(uri).read_transaction(version).transaction_properties or {})


def metadata(uri):
    ds = lance.dataset(uri)
    return {"config": ds.config(), "table": ds.metadata,
            "schema": {k.decode(): v.decode() for k, v in (ds.schema.metadata or {}).items()},
            "fields": {f.name: {k.decode(): v.decode() for k, v in (f.metadata or {}).items()} for f in ds.schema}}


def update_metadata(uri, which, values, replace=False):
    ds = lance.dataset(uri)
    if which == "config":
        ds.update_config(values)
    elif which == "table":
        ds.update_metadata(values, replace=replace)
    elif which == "schema":
        ds.update_schema_metadata(values, replace=replace)
    else:
        ds.update_field_metadata({which: values}, replace=replace)
    return ds.version


def ids(uri, version=None):
    return sorted(lance.dataset(uri, version=version).to_table().column("id").to_pylist())


def base_files(uri):
    """Base id of every data file, None for the table's own."""
    return [f.base_id for fragment in lance.dataset(uri).get_fragments() for f in fragment.metadata.files]


def write_with_bases(uri, first, n, mode="create", bases=None, targets=None):
    options = {}
    if bases:
        options["initial_bases"] = [lance.DatasetBasePath(path, name, False) for name, path in bases.items()]
    if targets:
        options["target_bases"] = targets
    lance.write_dataset(rows(first, n), uri, mode=mode, max_rows_per_file=2, **options)


def add_base(uri, name, path):
    lance.dataset(uri).add_bases([lance.DatasetBasePath(path, name, False)])


def detached(uri, first, n):
    """A detached append; its version."""
    made = write_fragments(rows(first, n), uri)
    ds = lance.dataset(uri)
    return lance.LanceDataset.commit(ds, lance.LanceOperation.Append(made), read_version=ds.version, detached=True).version


def batch(uri, parts):
    ds = lance.dataset(uri)
    made = [lance.Transaction(read_version=ds.version, operation=lance.LanceOperation.Append(write_fragments(rows(first, n), uri)))
            for first, n in parts]
    return lance.LanceDataset.commit_batch(uri, made)["dataset"].version
