# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The same changes of rows by Pennon and by official on copies of one table: rows, row ids, addresses, versions, lineage and fragments are equal after
every step; each side reads, checks and goes on with what the other one made."""
import json
import shutil

import pytest

import oracle
import pennon

STORAGE = ["2.0", "2.1", "2.2"]


@pytest.fixture(scope="module", params=[(s, stable) for s in STORAGE for stable in (False, True)],
                ids=lambda p: p[0] + ("-stable" if p[1] else ""))
def base(request, tmp_path_factory, oracles):
    storage, stable = request.param
    uri = tmp_path_factory.mktemp("mutations") / "base.lance"
    oracles.get("v8").call("mutation_ops.make", uri=str(uri), storage=storage, stable=stable)
    return uri, storage, stable


class Pair:
    """Two copies of a table: one is Pennon's, one is official's."""

    def __init__(self, uri, folder, storage, stable, official):
        self.ours, self.theirs, self.storage, self.stable = str(folder / "ours.lance"), str(folder / "theirs.lance"), storage, stable
        self.call = lambda function, **args: official.call("mutation_ops." + function, **args)
        shutil.copytree(uri, self.ours)
        shutil.copytree(uri, self.theirs)


@pytest.fixture
def pair(base, tmp_path, oracles):
    uri, storage, stable = base
    return Pair(uri, tmp_path, storage, stable, oracles.get("v8"))


def delete(uri, where):
    return pennon.as_json("delete", uri, "--where", where)["rows_deleted"]


def _plain(value):
    """As mutation_ops has it, which this process must not import."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (int, float, str, type(None))) else repr(value)


def same(pair):
    """Official sees the same in both, and Pennon reads from either what official reads."""
    ours, theirs = (pair.call("state", uri=uri, stable=pair.stable) for uri in (pair.ours, pair.theirs))
    assert ours == theirs
    for uri in (pair.ours, pair.theirs):
        assert not pennon.findings(uri)
        names = list(ours["rows"][0]) if ours["rows"] else ["id"]
        assert _plain(pennon.scan(uri, columns=names).to_pylist()) == [{n: row[n] for n in names} for row in ours["rows"]]


DELETES = [
    ["id = 5"], ["id IN (1, 15, 25) OR s IS NULL"], ["a > 100"], ["NOT (a > 100)"], ["id < 10"], ["id < 10", "id < 20", "true"], ["true"],
    ["false"], ["id = 99"], ["id IN (3, 4, 12)"], ["st.x = 7", "st.y = '8'", "b"], ["a % 20 = 0 AND f < 4"], ["_rowid IN (0, 2, 13)"],
    ["s LIKE 't1%'", "s NOT LIKE 't2%'", "id = 29"], ["l IS NULL OR v IS NULL"], ["a IS NOT NULL AND a = a"], ["array_length(l) > 1"],
]


@pytest.mark.parametrize("steps", DELETES, ids="; ".join)
def test_deletes_are_the_same(pair, steps):
    for where in steps:
        assert delete(pair.ours, where) == pair.call("delete", uri=pair.theirs, where=where)
        same(pair)


def test_each_goes_on_with_the_other(pair):
    """Deletes by turns on both tables, with appends and compactions in between."""
    turns = [("ours", "id % 7 = 1"), ("theirs", "id % 7 = 2"), ("ours", "id BETWEEN 20 AND 29"), ("theirs", "a = 50"), ("ours", "id > 40")]
    for step, (first, where) in enumerate(turns):
        if step == 2:
            for uri in (pair.ours, pair.theirs):
                pair.call("append", uri=uri, first=40, n=6)
        if step == 3:
            for uri in (pair.ours, pair.theirs):
                pair.call("compact", uri=uri)
        mine, other = (pair.ours, pair.theirs) if first == "ours" else (pair.theirs, pair.ours)
        assert delete(mine, where) == pair.call("delete", uri=other, where=where)
        same(pair)


def test_the_transaction_is_the_same(pair):
    where = "id IN (1, 15) OR id >= 20"
    delete(pair.ours, where)
    pair.call("delete", uri=pair.theirs, where=where)
    ours, theirs = (json.loads(pennon.run("transaction", uri)) for uri in (pair.ours, pair.theirs))
    for t in (ours, theirs):
        t.pop("uuid")
        t["operation"]["updated_fragments"].sort(key=lambda f: f["id"])  # official lists them as it gets them done
        for f in t["operation"]["updated_fragments"]:
            f["deletion_file"].pop("id")
    assert ours == theirs


def test_refused(pair):
    for where, why in (("nosuch = 1", "nosuch"), ("idd = 1", "id"), ("id +", ""), ("id", ""), ("", "predicate")):
        with pytest.raises(pennon.Failed) as refused:
            delete(pair.ours, where)
        assert refused.value.code == 2 and why in refused.value.stderr
        with pytest.raises(oracle.Refused):
            pair.call("delete", uri=pair.theirs, where=where)
    same(pair)


# ---- updates ----

def update(uri, sets, where=None):
    args = [part for column, sql in sets.items() for part in ("--set", f"{column}={sql}")]
    return pennon.as_json("update", uri, *args, *(["--where", where] if where else []))["rows_updated"]


UPDATES = [
    [({"a": "a + 1"}, "id = 5")], [({"a": "id"}, None)], [({"a": "f", "s": "id"}, "id % 3 = 0")], [({"s": "'new'"}, "s IS NULL")],
    [({"a": "NULL", "l": "NULL", "v": "NULL"}, "id < 4")], [({"a": "7"}, "false")], [({"a": "7"}, "id = 99")], [({"a": "7"}, "id IN (3, 4, 12)")],
    [({"a": "'12'", "f": "'2.5'"}, "id > 25")], [({"s": "id"}, "id BETWEEN 8 AND 12")], [({"v": "[3.0, 4.0]"}, "v IS NULL")],
    [({"l": "[1, 2]"}, "l IS NULL")], [({"b": "a > 100"}, "true")], [({"id": "id + 100"}, None), ({"a": "1"}, "id > 110"), ({"a": "2"}, "a = 1")],
    [({"a": "id"}, "_rowid IN (0, 2, 13)")], [({"a": "id"}, "id < 10")], [({"st": "named_struct('x', a, 'y', s)"}, "id >= 28")],
    [({"a": "1"}, "id = 1"), ({"a": "2"}, "id = 1"), ({"a": "3"}, "id = 1")], [({"a": "st.x * 2"}, "st.y = '8'")],
    [({"s": "upper(s)", "a": "nullif(a, 100)"}, "a IS NOT NULL")],
]


@pytest.mark.parametrize("steps", UPDATES, ids=str)
def test_updates_are_the_same(pair, steps):
    for sets, where in steps:
        assert update(pair.ours, sets, where) == pair.call("update", uri=pair.theirs, sets=sets, where=where)
        same(pair)


def test_expressions_see_the_old_values(pair):
    """Official puts in one new value after the other, in no fixed order, and later expressions see the earlier ones' values."""
    before = {row["id"]: row for row in pennon.scan(pair.ours, columns=["id", "a", "f"]).to_pylist()}
    assert update(pair.ours, {"a": "id", "f": "a"}, "id % 3 = 0") == len([i for i in before if i % 3 == 0])
    for row in pennon.scan(pair.ours, columns=["id", "a", "f"]).to_pylist():
        old = before[row["id"]]
        assert row == (old if row["id"] % 3 else {"id": old["id"], "a": old["id"], "f": old["a"]})
    pair.call("state", uri=pair.ours, stable=pair.stable)


def test_a_null_struct_is_refused_where_it_would_be_lost(pair):
    if pair.storage != "2.0":
        assert update(pair.ours, {"st": "NULL"}, "id < 4") == pair.call("update", uri=pair.theirs, sets={"st": "NULL"}, where="id < 4")
        return same(pair)
    with pytest.raises(pennon.Failed, match="2.0"):
        update(pair.ours, {"st": "NULL"}, "id < 4")
    assert not pennon.findings(pair.ours)


def test_updates_go_on_with_each_other(pair):
    """Updates and deletes by turns on both tables, with appends and compactions in between."""
    turns = [("ours", {"a": "a + 1"}, "id % 7 = 1"), ("theirs", {"a": "a + 1", "s": "'x'"}, "id % 7 < 3"), ("ours", {"f": "id"}, "s = 'x'"),
             ("theirs", {"a": "0"}, "a = 50"), ("ours", {"b": "NOT b"}, None), ("theirs", {"b": "NOT b"}, "id > 3")]
    for step, (first, sets, where) in enumerate(turns):
        for uri in (pair.ours, pair.theirs):
            if step == 2:
                pair.call("append", uri=uri, first=40, n=6)
            if step == 4:
                pair.call("compact", uri=uri)
        mine, other = (pair.ours, pair.theirs) if first == "ours" else (pair.theirs, pair.ours)
        assert update(mine, sets, where) == pair.call("update", uri=other, sets=sets, where=where)
        same(pair)
        assert delete(other, f"id = {step}") == pair.call("delete", uri=mine, where=f"id = {step}")
        same(pair)


def test_the_transaction_of_an_update_is_the_same(pair):
    sets, where = {"a": "1", "st": "named_struct('x', id, 'y', 'z')"}, "id IN (1, 15) OR id >= 20"
    update(pair.ours, sets, where)
    pair.call("update", uri=pair.theirs, sets=sets, where=where)
    ours, theirs = (json.loads(pennon.run("transaction", uri)) for uri in (pair.ours, pair.theirs))
    for t in (ours, theirs):
        t.pop("uuid")
        t["operation"]["updated_fragments"].sort(key=lambda f: f["id"])
        t["operation"]["fields_for_preserving_frag_bitmap"].sort()  # official has them in the order of a hash table
        for f in t["operation"]["updated_fragments"]:
            f["deletion_file"].pop("id")
        for f in t["operation"]["new_fragments"]:
            for part in f["files"]:
                part.pop("path")
                part.pop("file_size_bytes")
    assert ours == theirs


def test_updates_refused(pair):
    cases = [({"nosuch": "1"}, None, "nosuch"), ({"A": "1"}, None, "'a'"), ({"st.x": "1"}, None, "st.x"), ({"id": "NULL"}, "id = 1", "id"),
             ({"a": "s"}, None, ""), ({"a": "nosuch"}, None, "nosuch"), ({"a": "1"}, "idd = 1", "id"), ({"a": "1"}, "id", ""), ({"a": "st"}, None, "a")]
    for sets, where, why in cases:
        with pytest.raises(pennon.Failed) as refused:
            update(pair.ours, sets, where)
        assert refused.value.code in (1, 2) and why in refused.value.stderr, (sets, refused.value)
        with pytest.raises(oracle.Refused):
            pair.call("update", uri=pair.theirs, sets=sets, where=where)
    same(pair)


VALUES = {"d": ["'b'", "big"], "t": ["TIMESTAMP '2021-05-06 07:08:09'", "'2021-01-01'", "day", "z"], "z": ["'2021-05-06T07:08:09Z'", "t"],
          "day": ["DATE '2021-05-06'", "t", "'2021-05-06'"], "x": ["'7.5'", "1", "id + 1", "r"], "bin": ["X'beef'", "'text'", "fb"],
          "h": ["2.5", "id", "'0.5'"], "fb": ["X'0102'"], "u": ["255", "id", "'3'"], "ls": ["['p', 'q']"], "big": ["d", "id", "concat(big, big)"],
          "r": ["1", "'2.5'", "x", "h"]}


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("column", VALUES)
def test_values_are_cast_the_same(tmp_path, oracles, storage, column):
    uri = tmp_path / "types.lance"
    oracles.get("v8").call("mutation_ops.make_types", uri=str(uri), storage=storage, stable=True)
    pair = Pair(uri, tmp_path, storage, True, oracles.get("v8"))
    for sql in VALUES[column]:
        assert update(pair.ours, {column: sql}, "id > 2") == pair.call("update", uri=pair.theirs, sets={column: sql}, where="id > 2")
        same(pair)


def test_values_that_do_not_fit(tmp_path, oracles):
    uri = tmp_path / "types.lance"
    oracles.get("v8").call("mutation_ops.make_types", uri=str(uri), storage="2.1", stable=False)
    pair = Pair(uri, tmp_path, "2.1", False, oracles.get("v8"))
    for column, sql in (("u", "256"), ("u", "-1"), ("u", "'x'"), ("t", "'soon'"), ("fb", "X'010203'"), ("day", "'no day'"), ("x", "123456789.5"), ("x", "id + 0.5")):
        with pytest.raises(pennon.Failed) as refused:
            update(pair.ours, {column: sql})
        assert refused.value.code == 2, refused.value
        with pytest.raises(oracle.Refused):
            pair.call("update", uri=pair.theirs, sets={column: sql})
    same(pair)
