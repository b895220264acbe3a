# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What test_blob_verbs.py asks of official Lance. Runs inside oracle_server.py, under either pylance."""
import lance


def read(uri, column, ids=None, indices=None, addresses=None, ranges=(), version=None, branch=None):
    """For each blob None, or its size and the bytes of the ranges, (offset, length) each, as hex; 8.0.0 leaves nulls out."""
    at = lance.dataset(uri) if version is None and branch is None else lance.dataset(uri).checkout_version((branch, version) if branch else version)
    found = []
    for blob in at.take_blobs(column, ids=ids, indices=indices, addresses=addresses):
        if blob is None:
            found.append(None)
            continue
        parts = []
        for offset, length in ranges:
            blob.seek(offset)
            parts.append(blob.read(length).hex())
        blob.seek(0)
        found.append([blob.size(), blob.readall().hex(), parts])
    return found


def update(uri, sets, where):
    return lance.dataset(uri).update(sets, where=where)["num_rows_updated"]


def delete(uri, where):
    lance.dataset(uri).delete(where)


def compact(uri):
    lance.dataset(uri).optimize.compact_files()


def delta(uri, version, begin, end):
    """Ids and system columns of inserted and of updated rows, and the operations, with the dataset at a version."""
    d = lance.dataset(uri, version=version).delta(begin_version=begin, end_version=end)
    names = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = [reader.read_all().select(names).to_pylist() for reader in (d.get_inserted_rows(), d.get_updated_rows())]
    return rows + [[[t.read_version, t.uuid, type(t.operation).__name__] for t in d.list_transactions()]]
