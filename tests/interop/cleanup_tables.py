# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Official's side of test_cleanup.py: tables with a past, official's own cleanup, and what every version holds. Runs in oracle_server.py."""
import datetime
import os
import random

import lance
import pyarrow as pa


def _rows(start, n):
    return pa.table({"a": pa.array(range(start, start + n), pa.int64()), "s": [f"text {i}" for i in range(start, start + n)]})


def _line(uri, branch):
    dataset = lance.dataset(uri)
    return dataset.checkout_version((branch, None)) if branch else dataset


def _append(uri, branch, turn, dice):
    lance.write_dataset(_rows(turn * 100, dice.randrange(1, 40)), _line(uri, branch), mode="append")


def _overwrite(uri, branch, turn, dice):
    lance.write_dataset(_rows(turn * 100, dice.randrange(30, 60)), _line(uri, branch), mode="overwrite")


def _delete(uri, branch, turn, dice):
    _line(uri, branch).delete(f"a % {dice.randrange(2, 9)} = 1")


def _update(uri, branch, turn, dice):
    _line(uri, branch).update({"s": "'changed'"}, where=f"a % {dice.randrange(3, 9)} = 0")


def _index(uri, branch, turn, dice):
    _line(uri, branch).create_scalar_index("a", "BTREE", name="by_a", replace=True)


def _compact(uri, branch, turn, dice):
    _line(uri, branch).optimize.compact_files()


def _add_column(uri, branch, turn, dice):
    _line(uri, branch).add_columns({f"c{turn}": "a * 2"})


def _restore(uri, branch, turn, dice):
    versions = [v["version"] for v in _line(uri, branch).versions()]
    at = lance.dataset(uri).checkout_version((branch, dice.choice(versions)))
    at.restore()


def _tag(uri, branch, turn, dice):
    version = dice.choice([v["version"] for v in _line(uri, branch).versions()])
    lance.dataset(uri).tags.create(f"t{turn}", (branch, version) if branch else version)


def _branch(uri, branch, turn, dice):
    version = dice.choice([v["version"] for v in _line(uri, branch).versions()])
    lance.dataset(uri).create_branch(f"b{turn}" if turn % 2 else f"exp/b{turn}", (branch, version))


CHANGES = [_append, _append, _delete, _update, _index, _compact, _add_column, _restore, _overwrite]


def make(uri, seed, steps, refs=True, stable=False):
    """The same past for the same seed; names and sizes of files aside. The branches."""
    dice = random.Random(seed)
    lance.write_dataset(_rows(0, 50), uri, enable_stable_row_ids=stable)
    branches = [None]
    for turn in range(1, steps + 1):
        branch = dice.choice(branches)
        kind = dice.randrange(8) if refs else 7
        if kind == 0:
            _tag(uri, branch, turn, dice)
        elif kind == 1 and len(branches) < 4:
            _branch(uri, branch, turn, dice)
            branches.append(f"b{turn}" if turn % 2 else f"exp/b{turn}")
        else:
            dice.choice(CHANGES)(uri, branch, turn, dice)
    return branches[1:]


def branch_at(uri, spelled, folder):
    """A branch of version 1 of a table that is called by another name, `spelled` from `folder`; main goes on by an overwrite."""
    here = os.getcwd()
    os.chdir(folder)
    try:
        lance.write_dataset(_rows(0, 50), uri)
        lance.dataset(uri).create_scalar_index("a", "BTREE", name="by_a")
        lance.dataset(uri).delete("a = 7")
        made = lance.dataset(spelled).create_branch("side")
        lance.write_dataset(_rows(500, 5), made, mode="append")
        lance.write_dataset(_rows(900, 5), uri, mode="overwrite")
    finally:
        os.chdir(here)
    return True


def clean(uri, branch=None, older_seconds=None, retain=None, delete_unverified=False):
    done = _line(uri, branch).cleanup_old_versions(
        older_than=None if older_seconds is None else datetime.timedelta(seconds=older_seconds), retain_versions=retain,
        delete_unverified=delete_unverified, error_if_tagged_old_versions=False)
    return {"versions": done.old_versions, "data_files": done.data_files_removed, "transaction_files": done.transaction_files_removed,
            "index_files": done.index_files_removed, "deletion_files": done.deletion_files_removed}


def look(uri):
    """{"branch@version": rows by their text, in the table's order} of every version of every line; each must validate."""
    main, seen = lance.dataset(uri), {}
    for name in [None, *sorted(main.branches.list())]:
        line = main.checkout_version((name, None))
        for version in [v["version"] for v in line.versions()]:
            at = main.checkout_version((name, version))
            at.validate()
            table = at.to_table()
            seen[f"{name or 'main'}@{version}"] = [table.num_rows, str(table.to_pydict())]
            if "a" in table.column_names:  # through the index, where there is one
                assert at.to_table(filter="a = 5").num_rows == table["a"].to_pylist().count(5)
    return seen


def tags(uri):
    return sorted(lance.dataset(uri).tags.list())


def go_on(uri, branch=None):
    """A change of each kind on top of what is left."""
    line = _line(uri, branch)
    before = line.count_rows()
    lance.write_dataset(_rows(10000, 10).select(["a", "s"]), line, mode="append")
    _line(uri, branch).delete("a = 10003")
    _line(uri, branch).optimize.compact_files()
    line = _line(uri, branch)
    line.validate()
    return line.count_rows() - before


def auto_config(uri, config):
    lance.dataset(uri).update_config(config)
    return True
