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
        return lance.dataset(uri, asof=datetime.fromisoformat(as_of))
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
