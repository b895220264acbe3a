# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the tests ask of official Lance. Runs inside oracle_server.py, under either pylance.

Data goes in and out as Arrow IPC stream files. Every function returns something JSON can hold.
"""
import os

import lance
import pyarrow as pa


def _read(path):
    # Official panics on a decimal or view buffer that is only 8-byte aligned, which IPC allows.
    options = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
    with pa.ipc.open_stream(pa.memory_map(path), options=options) as reader:
        return reader.schema, list(reader)


def _save(table, path):
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return table.num_rows


def version():
    return lance.__version__


def open_at(uri, version=None, tag=None, branch=None, as_of=None):
    if as_of is not None:
        from datetime import datetime
        return lance.dataset(uri, asof=datetime.fromisoformat(as_of).astimezone().replace(tzinfo=None))  # it compares local times
    dataset = lance.dataset(uri, version=version if version is not None else tag)
    return dataset.checkout_version((branch, None)) if branch else dataset


def write(uri, ipc, mode="create", storage=None, columns=None, data_cache_bytes=None, bases=None, **options):
    """bases: paths outside of the table that a new one may refer to."""
    schema, batches = _read(ipc)
    if bases:
        options["initial_bases"] = [lance.DatasetBasePath(path, f"base{i}", False, i + 1) for i, path in enumerate(bases)]
    if columns is not None:
        table = pa.Table.from_batches(batches, schema).select(columns)
        schema, batches = table.schema, table.to_batches()
    if data_cache_bytes and int(lance.__version__.split(".")[0]) >= 9:
        options["data_cache_bytes"] = data_cache_bytes
    if storage:
        options["data_storage_version"] = storage
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    dataset = lance.write_dataset(reader, uri, mode=mode, **options)
    return dataset.version


def scan(uri, out, version=None, tag=None, branch=None, as_of=None, **options):
    """options are those of LanceDataset.to_table."""
    return _save(open_at(uri, version, tag, branch, as_of).to_table(**options), out)


def take(uri, rows, out, columns=None, version=None):
    return _save(open_at(uri, version).take(rows, columns=columns), out)


def take_rows(uri, ids, out, columns=None, version=None):
    """By row id; official drops ids that do not exist."""
    return _save(open_at(uri, version)._take_rows(ids, columns=columns), out)


def count(uri, version=None):
    return open_at(uri, version).count_rows()


def validate(uri):
    lance.dataset(uri).validate()
    return True


def versions(uri):
    return [v["version"] for v in lance.dataset(uri).versions()]


def file_scan(path, out):
    """One data file alone, at file level."""
    from lance.file import LanceFileReader
    return _save(LanceFileReader(path).read_all().to_table(), out)


def blobs(uri, column, rows=None):
    """Payloads of a blob column as hex, None for null, in row order."""
    dataset = lance.dataset(uri)
    if rows is None:
        rows = list(range(dataset.count_rows()))
    found = dataset.take_blobs(column, indices=rows)
    return [None if blob is None else blob.readall().hex() for blob in found]


def delete(uri, predicate):
    lance.dataset(uri).delete(predicate)
    return True


def refuses(uri, ipc, out, storage, columns, **options):
    """Writes and reads back; raises what official raises. The table is left in place."""
    write(uri, ipc, storage=storage, columns=columns, **options)
    return scan(uri, out)


def remove(uri):
    import shutil
    shutil.rmtree(uri, ignore_errors=True)
    return not os.path.exists(uri)


def _branches(dataset):
    try:
        return list(dataset.branches.list())
    except AttributeError:
        return []


def _quietly(call):
    """(value, None), or (None, text) for errors and panics."""
    try:
        return call(), None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # PanicException derives from BaseException
        return None, f"{type(error).__name__}: {error}"


def history(uri, out, ends=False):
    """Every version of every branch (only the first and the last with `ends`), with row ids and addresses, as out/LABEL.arrow. LABEL is the
    version, or BRANCH@VERSION with "/" as "%2F". Gives {label: answer}: {"rows": n}, with "ids": text where the rows can be read only
    without their ids, or {"refused": text}."""
    main, answers = lance.dataset(uri), {}
    places = [("", main)] + [(branch + "@", main.checkout_version((branch, None))) for branch in _branches(main)]
    for prefix, dataset in places:
        numbers = [v["version"] for v in dataset.versions()]
        for version in sorted({numbers[0], numbers[-1]}) if ends else numbers:
            label = f"{prefix}{version}"
            path = os.path.join(out, label.replace("/", "%2F") + ".arrow")
            at, refused = _quietly(lambda: dataset.checkout_version((prefix[:-1], version) if prefix else version))
            if at is not None:
                rows, refused = _quietly(lambda: _save(at.to_table(with_row_id=True, with_row_address=True), path))
                answers[label] = {"rows": rows}
            if refused and at is not None:
                answers[label]["ids"] = refused
                answers[label]["rows"], refused = _quietly(lambda: _save(at.to_table(), path))
            if refused:
                answers[label] = {"refused": refused}
    return answers


SYSTEM = ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]


def feature(name, uri, stable=False, storage=None):
    """A table of feature_tables.py; what its maker returns."""
    import feature_tables
    return feature_tables.make(name, uri, stable, storage)


def _fields(fields):
    return [{"name": f.name(), "id": f.id(), "nullable": f.to_arrow().nullable, "fields": _fields(f.children())} for f in fields]


def _facts(at):
    """What official says of a version besides its rows."""
    return {
        "count": at.count_rows(),
        "fields": _fields(at.lance_schema.fields()),
        "schema_metadata": {k.decode(): v.decode() for k, v in (at.schema.metadata or {}).items()},
        "storage_version": at.data_storage_version,
        "stable_row_ids": at.has_stable_row_ids,
        "config": dict(at.config()),
        "table_metadata": dict(at.metadata),
        "indices": sorted({index["name"] for index in at.list_indices()}),
        "fragments": [{"fragment": f.fragment_id, "physical_rows": f.physical_rows, "deleted_rows": f.num_deletions,
                       "rows": f.count_rows(), "paths": [d.path for d in f.metadata.files],
                       "deletion_file": None if f.deletion_file() is None else "bitmap" if f.deletion_file().endswith("bin") else "array"}
                      for f in at.get_fragments()],
    }


def survey(uri, out):
    """Every version of every branch: {label: {"facts", "time", and "rows" or "refused"}}; the rows with all system columns in out/LABEL.arrow,
    labels as in history()."""
    main, answers = lance.dataset(uri), {}
    places = [("", main)] + [(branch + "@", main.checkout_version((branch, None))) for branch in _branches(main)]
    for prefix, dataset in places:
        for entry in dataset.versions():
            label = f"{prefix}{entry['version']}"
            # Opened anew: 8.0.0 remembers row ids by the fragment's id alone, over an overwrite too.
            at = lance.dataset(uri, version=None if prefix else entry["version"])
            at = at.checkout_version((prefix[:-1], entry["version"])) if prefix else at
            path = os.path.join(out, label.replace("/", "%2F") + ".arrow")
            rows, refused = _quietly(lambda: _save(at.to_table(columns=at.schema.names + SYSTEM), path))
            answers[label] = {"facts": _facts(at), "time": entry["timestamp"].isoformat(), "rows": rows}
            if refused:
                answers[label]["refused"] = refused
    return answers


def touch(uri, ipc, branch=None, compact=True):
    """Appends to, deletes from and compacts what Pennon wrote; the version that stands then."""
    schema, batches = _read(ipc)
    dataset = open_at(uri, branch=branch)
    dataset = lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches), dataset, mode="append")
    dataset.delete(f"{schema.names[0]} is null")
    if compact:
        dataset.optimize.compact_files(target_rows_per_fragment=100)
    return dataset.version


def rows_at(uri, out, version=None, branch=None):
    """All columns and the system columns of a version, or of the newest one of a branch."""
    at = open_at(uri, version, branch=branch)
    return _save(at.to_table(columns=at.schema.names + SYSTEM), out)


def optimize_indices(uri):
    lance.dataset(uri).optimize.optimize_indices()
    return sorted({index["name"] for index in lance.dataset(uri).list_indices()})
