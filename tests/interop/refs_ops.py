# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What test_refs.py asks of official Lance. Runs inside oracle_server.py, under either pylance."""
import lance
import pyarrow as pa

from official_ops import _quietly


def _at(uri, branch=None, version=None):
    dataset = lance.dataset(uri)
    return dataset.checkout_version((branch, version)) if branch or version else dataset


def _reference(reference):
    return tuple(reference) if isinstance(reference, list) else reference


def _plain(entries):
    """Times as text, pairs as lists: what JSON holds."""
    return {name: {key: str(value) if key.endswith("_at") and key != "create_at" else value for key, value in entry.items()}
            for name, entry in entries.items()}


def make(uri, n=10, stable=False, index=False, storage=None):
    """n rows, a deletion, an append of n more; with an index on x."""
    options = {"data_storage_version": storage} if storage else {}
    lance.write_dataset(_rows(0, n), uri, max_rows_per_file=n, enable_stable_row_ids=stable, **options)
    dataset = lance.dataset(uri)
    if index:
        dataset.create_scalar_index("x", "BTREE", name="by_x")
    dataset.delete("x = 3")
    lance.write_dataset(_rows(n, n), uri, mode="append")
    return lance.dataset(uri).version


def _rows(first, n):
    return pa.table({"x": pa.array(range(first, first + n), pa.int64()), "t": pa.array([f"t{i % 3}" if i % 4 else None for i in range(n)], pa.string())})


def append(uri, first, n, branch=None):
    return lance.write_dataset(_rows(first, n), _at(uri, branch), mode="append").version


def delete(uri, predicate, branch=None):
    dataset = _at(uri, branch)
    dataset.delete(predicate)
    return dataset.version


def values(uri, branch=None, version=None, tag=None, where=None):
    dataset = lance.dataset(uri, version=tag) if tag else _at(uri, branch, version)
    return sorted(dataset.to_table(columns=["x"], filter=where).column("x").to_pylist())


def validate(uri, branch=None):
    _at(uri, branch).validate()
    return True


def tags(uri):
    return _plain(lance.dataset(uri).tags.list())


def branches(uri):
    return _plain(lance.dataset(uri).branches.list())


def tag(uri, action, name, reference=None, branch=None):
    """None, or the text of the error."""
    call = getattr(_at(uri, branch).tags, action)
    return _quietly(lambda: call(name) if action == "delete" else call(name, _reference(reference)))[1]


def tag_metadata(uri, name, metadata):
    lance.dataset(uri).tags.replace_metadata(name, metadata)


def branch_metadata(uri, name, metadata):
    lance.dataset(uri).branches.replace_metadata(name, metadata)


def create_branch(uri, name, reference=None, branch=None):
    return _quietly(lambda: _at(uri, branch).create_branch(name, _reference(reference)).version)


def delete_branch(uri, name):
    return _quietly(lambda: lance.dataset(uri).branches.delete(name))[1]


def clone(uri, to, reference, deep=False, branch=None):
    dataset = _at(uri, branch)
    return (dataset.deep_clone if deep else dataset.shallow_clone)(to, _reference(reference)).version


def compact(uri, branch=None):
    dataset = _at(uri, branch)
    dataset.optimize.compact_files()
    return dataset.version


def indices(uri, branch=None):
    return sorted(index["name"] for index in _at(uri, branch).list_indices())
