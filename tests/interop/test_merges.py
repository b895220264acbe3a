# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The same merges by Pennon and by official on copies of one table, of random tables, rows and options: numbers, rows, row ids, versions, lineage and
fragments are equal; each side reads, checks and goes on with what the other one made.

MERGES names how many there are (default 240), MERGE_SEED the first.
"""
import json
import os
import shutil
import subprocess

import pytest

import pennon

# What official 8.0.0 cannot do where Pennon can: a delete of matched rows beside one by source, null dictionaries.
OFFICIAL_FAILS = ("missing from merge insert input schema", "out of bounds: 0 (should be in [0, -1])")
FIRST = int(os.environ.get("MERGE_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("MERGES", "240")))


def merge(uri, source, options, *more):
    """As merge_ops.merge."""
    what = options["matched"] if options["condition"] is None else f"update-if {options['condition']}"
    by_source = options["by_source"] if options["by_condition"] is None else f"delete-if {options['by_condition']}"
    args = ["--on", ",".join(options["on"]), "--when-matched", "ignore" if what == "nothing" else what, "--when-not-matched",
            "insert" if options["insert"] else "ignore", "--when-not-matched-by-source", by_source]
    try:
        done = pennon.as_json("merge", uri, source, *args, *more)
    except pennon.Failed as failed:
        assert failed.code == 2, failed
        return {"error": failed.stderr}
    return {name: done[f"rows_{name}"] for name in ("inserted", "updated", "deleted")}


@pytest.mark.parametrize("seed", SEEDS)
def test_merges_are_the_same(seed, tmp_path, oracles):
    call = lambda function, **args: oracles.get("v8").call("merge_ops." + function, **args)
    options = call("make_case", folder=str(tmp_path), seed=seed)
    ours, theirs, source = str(tmp_path / "ours.lance"), str(tmp_path / "theirs.lance"), str(tmp_path / "source.arrow")
    base = call("version", uri=str(tmp_path / "base.lance"))
    shutil.copytree(tmp_path / "base.lance", ours)
    shutil.copytree(tmp_path / "base.lance", theirs)
    mine, other = merge(ours, source, options), call("merge", uri=theirs, source=source, options=options)
    if any(text in other.get("error", "") for text in OFFICIAL_FAILS):
        assert "error" not in mine and call("state", uri=ours, base=base)["version"] == base + 1, options
        assert not pennon.findings(ours)
        return
    if "error" in other:
        for text in ("Ambiguous merge inserts are prohibited", "found matching row with key values"):
            assert (text in mine.get("error", "")) == (text in other["error"]), (options, mine, other)
        assert "error" in mine, (options, mine, other)
    else:
        assert mine == other, options
    assert call("state", uri=ours, base=base) == call("state", uri=theirs, base=base), options
    assert not pennon.findings(ours)
    if seed % 4 == 0:
        left, wanted = call("write_on", uri=ours), call("write_on", uri=theirs)
        assert left == wanted or any(text in str(wanted) for text in OFFICIAL_FAILS), (options, left, wanted)
        assert not pennon.findings(ours)


# ---- primary keys ----

def _transaction(uri):
    """Without what is by chance."""
    t = json.loads(pennon.run("transaction", uri))
    t.pop("uuid")
    operation = t["operation"]
    operation["updated_fragments"].sort(key=lambda f: f["id"])
    for f in operation["updated_fragments"]:
        f["deletion_file"].pop("id")
    for f in operation.get("new_fragments", []):
        for data in f["files"]:
            data.pop("path")
            data.pop("file_size_bytes")
    return t


@pytest.mark.parametrize("stable", [False, True], ids=["", "stable"])
@pytest.mark.parametrize("name", ["text", "int", "small", "unsigned", "bytes", "two"])
def test_the_transaction_is_the_same(name, stable, tmp_path, oracles):
    """With the filter of inserted keys, bit by bit; the keys are those of the schema where none are named."""
    call = lambda function, **args: oracles.get("v8").call("merge_ops." + function, **args)
    base, source = str(tmp_path / "base.lance"), str(tmp_path / "source.arrow")
    keys = call("make_primary", uri=base, source=source, name=name, stable=stable)
    options = {"on": keys, "insert": True, "matched": "update", "condition": None, "by_source": "keep", "by_condition": None}
    uris = [str(tmp_path / f"{who}.lance") for who in ("ours", "theirs")]
    for uri in uris:
        shutil.copytree(base, uri)
    done = pennon.as_json("merge", uris[0], source)
    assert (done["rows_inserted"], done["rows_updated"]) == (10, 10)
    assert call("merge", uri=uris[1], source=source, options=options) == {"inserted": 10, "updated": 10, "deleted": 0}
    ours, theirs = map(_transaction, uris)
    assert theirs["operation"]["inserted_rows"]["bloom"]["bitmap"].strip("A=")
    assert ours == theirs
    # Official finds the keys that Pennon inserted, and only those.
    assert "oo many concurrent" in call("insert_beside", uri=uris[0], name=name, first=25, n=1, version=1)
    assert call("insert_beside", uri=uris[0], name=name, first=70, n=1, version=1) == "ok"


def test_pennon_finds_the_keys_of_official(tmp_path, oracles):
    """A merge through a handle of an old version is begun again, and updates what the other one inserted."""
    call = lambda function, **args: oracles.get("v8").call("merge_ops." + function, **args)
    uri, source = str(tmp_path / "t.lance"), str(tmp_path / "source.arrow")
    call("make_primary", uri=uri, source=source, name="int", stable=True)
    python = os.environ.get("PENNON_PYTHON")
    if python:  # the command has no handle of an old version
        script = ("import sys, pennon, pyarrow as pa; d = pennon.dataset(sys.argv[1]); input(); "
                  "print(d.merge_insert().when_matched_update_all().when_not_matched_insert_all().execute(pa.ipc.open_stream(sys.argv[2]).read_all()))")
        with subprocess.Popen([python, "-c", script, uri, source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
            assert call("insert_beside", uri=uri, name="int", first=25, n=5, version=1) == "ok"
            out, _ = one.communicate("go\n")
        assert "'num_inserted_rows': 5, 'num_updated_rows': 15" in out
    else:
        assert call("insert_beside", uri=uri, name="int", first=25, n=5, version=1) == "ok"
        done = pennon.as_json("merge", uri, source)
        assert (done["rows_inserted"], done["rows_updated"]) == (5, 15)
    assert pennon.as_json("info", uri)["rows"] == 30
    assert not pennon.findings(uri)


# ---- other columns ----

def test_columns_that_go_through(tmp_path, oracles):
    """JSON, nested lists, dictionaries, sequences of turns: what official reads of ours is what it reads of its own."""
    call = lambda function, **args: oracles.get("v8").call("merge_ops." + function, **args)
    uris = [str(tmp_path / f"{who}.lance") for who in ("ours", "theirs")]
    options = {"on": ["id"], "insert": True, "matched": "update", "condition": None, "by_source": "keep", "by_condition": None}
    for uri in uris:
        call("make_rich", uri=uri)
    for turn in range(4):
        source = str(tmp_path / f"source-{turn}.arrow")
        call("rich_source", path=source, turn=turn)
        # By turns each side goes on with a table of the other.
        mine, other = (uris[0], uris[1]) if turn % 2 == 0 else (uris[1], uris[0])
        assert merge(mine, source, options) == call("merge", uri=other, source=source, options=options)
        states = [call("state", uri=uri, base=1) for uri in uris]
        assert states[0] == states[1]
        assert oracles.get("new").call("merge_ops.state", uri=uris[0], base=1) == states[0]
        for uri in uris:
            assert not pennon.findings(uri)


def test_refused(tmp_path, oracles):
    """Both refuse, and neither makes a version."""
    call = lambda function, **args: oracles.get("v8").call("merge_ops." + function, **args)
    uri = str(tmp_path / "t.lance")
    call("make_rich", uri=uri)
    ok = {"on": ["id"], "insert": True, "matched": "update", "condition": None, "by_source": "keep", "by_condition": None}
    for kind, change, why in [("extra", {}, "is not in the table"), ("type", {}, "in the table and"), ("keyless", {}, "no key column 'id'"), ("null", {}, "declared not null"),
                              ("plain", {"on": ["nosuch"]}, "'nosuch' does not exist in schema"), ("plain", {"matched": "nothing", "insert": False}, "not configured to change"),
                              ("plain", {"matched": "update-if", "condition": "source.nosuch = 1"}, "nosuch"), ("plain", {"matched": "update-if", "condition": "source.id"}, "boolean"),
                              ("plain", {"by_source": "delete-if", "by_condition": "nosuch = 1"}, "nosuch"), ("missing", {}, "target column(s) [\"n\"] are non-nullable")]:
        source = str(tmp_path / f"{kind}.arrow")
        call("odd_source", path=source, kind=kind)
        mine = merge(uri, source, {**ok, **change})
        assert why in mine.get("error", ""), (kind, change, mine)
        assert "error" in call("merge", uri=uri, source=source, options={**ok, **change}), (kind, change)
        assert call("version", uri=uri) == 1


@pytest.mark.parametrize("kind,why", [("blob", "blob columns ('b')"), ("old", "data storage version 0.1")])
def test_tables_that_are_refused(kind, why, tmp_path, oracles):
    call = lambda function, **args: oracles.get("v8").call("merge_ops." + function, **args)
    uri, source = str(tmp_path / "t.lance"), str(tmp_path / "plain.arrow")
    call("make_refused", uri=uri, kind=kind)
    call("odd_source", path=source, kind="plain")
    with pytest.raises(pennon.Failed) as refused:
        pennon.run("merge", uri, source, "--on", "id")
    assert refused.value.code == 1 and why in refused.value.stderr
    assert call("version", uri=uri) == 1
