# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Transactions travel both ways: official's are read and committed by ours, ours by official; fragments, batches, detached versions, config, bases."""
import base64
import json

import pyarrow as pa
import pytest

import pennon
from transaction_files import Workshop
from transaction_names import OFFICIAL


@pytest.fixture(scope="module")
def workshop(tmp_path_factory, oracles):
    return Workshop(tmp_path_factory.mktemp("transactions"), oracles.get("v8"))


@pytest.fixture
def official(oracles):
    return lambda function, **args: oracles.get("v8").call("transaction_ops." + function, **args)


def _rows(first, n):
    ids = range(first, first + n)
    return pa.table({"id": pa.array(ids, pa.int64()), "a": pa.array([10 * i for i in ids], pa.int64()),
                     "b": pa.array([str(i) for i in ids])})


def _save(path, table):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


def _transaction(uri, *args):
    return json.loads(pennon.run("transaction", uri, *args))


def _schema(fields):
    """Top-level fields, as official shows a schema; the types of the workshop's columns."""
    types = {"int64": "int64", "string": "string"}
    return [[f["name"], types[f["logical_type"]], f.get("nullable", False)] for f in fields if f["parent_id"] == -1]


def _map(updates):
    return updates and {"updates": updates.get("update_entries", {}), "replace": updates.get("replace", False)}


def _covered(index):
    """Fragment ids of a small Roaring bitmap: one array container, or runs."""
    raw = base64.b64decode(index["fragment_bitmap"])
    cookie = int.from_bytes(raw[:4], "little")
    if cookie & 0xffff == 12347:
        starts = [(int.from_bytes(raw[i:i + 2], "little"), int.from_bytes(raw[i + 2:i + 4], "little"))
                  for i in range(11, len(raw), 4)]
        return [v for start, more in starts for v in range(start, start + more + 1)]
    return [int.from_bytes(raw[i:i + 2], "little") for i in range(16, len(raw), 2)]


def _as_official(t):
    """Our JSON in the shape of official's classes."""
    o = t["operation"]
    kind = o["type"]
    simple = {
        "Append": lambda: {"fragments": o["fragments"]},
        "Delete": lambda: {"updated_fragments": o.get("updated_fragments", []),
                           "deleted_fragment_ids": o.get("deleted_fragment_ids", []), "predicate": o["predicate"]},
        "Overwrite": lambda: {"new_schema": _schema(o["schema"]), "fragments": o["fragments"],
                              "initial_bases": o.get("initial_bases")},
        "Merge": lambda: {"fragments": o["fragments"], "schema": _schema(o["schema"])},
        "Project": lambda: {"schema": _schema(o["schema"])},
        "Restore": lambda: {"version": o["version"]},
        "Rewrite": lambda: {"groups": o["groups"], "rewritten_indices": o.get("rewritten_indices", [])},
        "DataReplacement": lambda: {"replacements": [{"fragment_id": r.get("fragment_id", 0), "new_file": r["new_file"]}
                                                     for r in o["replacements"]]},
        "UpdateConfig": lambda: {
            **{k: _map(o.get(k)) for k in ("config_updates", "table_metadata_updates", "schema_metadata_updates")},
            "field_metadata_updates": {k: _map(v) for k, v in o["field_metadata_updates"].items()}
            if "field_metadata_updates" in o else None},
        "Update": lambda: {k: o.get(k, []) for k in ("removed_fragment_ids", "updated_fragments", "new_fragments",
                                                     "fields_modified", "fields_for_preserving_frag_bitmap")},
        "CreateIndex": lambda: {"new_indices": [(i["uuid"], i["name"], i["fields"], i["dataset_version"], _covered(i))
                                                for i in o["new_indices"]], "removed_indices": o.get("removed_indices", [])},
        "UpdateBases": lambda: None,
    }
    return {"read_version": t["read_version"], "uuid": t["uuid"], "properties": t.get("properties", {}),
            "type": kind, "operation": simple[kind]()}


def _comparable(t):
    """What official shows, without what ours says in another way."""
    o = t["operation"]
    if t["type"] == "CreateIndex":
        o = {"new_indices": [(i["uuid"], i["name"], i["fields"], i["dataset_version"], sorted(i["fragment_ids"]))
                             for i in o["new_indices"]], "removed_indices": o["removed_indices"]}
    if t["type"] == "Update":
        o = {k: v for k, v in o.items() if k != "update_mode"}
    if t["type"] == "BaseOperation":
        return {**t, "type": "UpdateBases", "operation": None}
    return {**t, "operation": o}


@pytest.mark.parametrize("name", OFFICIAL)
def test_of_official_reads_as_official_shows_it(workshop, official, name):
    uri, version = workshop.folder / f"make-{name}", workshop.versions[name]
    ours = _transaction(uri, "--version", version)
    theirs = official("transaction", uri=str(uri), version=version)
    assert _as_official(ours) == _comparable(theirs)


@pytest.mark.parametrize("name", OFFICIAL)
def test_of_official_committed_by_ours(workshop, official, name):
    """The same table as after official's own commit, and the transaction that official reads back says the same."""
    uri = workshop.fresh()
    assert workshop.ours(uri, name) == "ok"
    made, version = workshop.folder / f"make-{name}", workshop.versions[name]
    ours, theirs = workshop.state(uri), workshop.state(made)
    same = {"version": 0}
    if name in ("Overwrite", "Rewrite@01"):  # ids go on above those that were ever used; those of the rewrite were reserved elsewhere
        same["fragments"] = 0
        assert [f[1:] for f in ours["fragments"]] == [f[1:] for f in theirs["fragments"]]
    assert {**ours, **same} == {**theirs, **same}
    ours = official("transaction", uri=str(uri), version=workshop.state(uri)["version"])
    theirs = official("transaction", uri=str(made), version=version)
    if name == "Rewrite@01":
        for group in theirs["operation"]["groups"]:
            group["new_fragments"] = [{**f, "id": 0} for f in group["new_fragments"]]
    assert {**ours, "uuid": 0, "read_version": 0} == {**theirs, "uuid": 0, "read_version": 0}
    assert pennon.findings(uri) == ""


def test_transaction_file_and_inline_copy_agree(workshop):
    uri = workshop.folder / "make-Append"
    inline = _transaction(uri, "--version", 3)
    path, = (uri / "_transactions").glob(f"2-{inline['uuid']}.txn")
    assert _transaction(path, "--file") == inline


# ---- fragments ----

@pytest.mark.parametrize("stable", [False, True])
def test_fragments_of_official_committed_by_ours(tmp_path, official, stable):
    uri = str(tmp_path / "t.lance")
    pennon.write(uri, _save(tmp_path / "base", _rows(0, 4)), stable_row_ids=stable)
    fragments = tmp_path / "fragments.json"
    fragments.write_text(official("fragments_json", uri=uri, first=4, n=7))
    assert len(json.loads(fragments.read_text())) == 3
    pennon.run("commit", uri, fragments, "--message", "by hand")
    assert official("ids", uri=uri) == list(range(11))
    assert official("properties", uri=uri, version=2) == {"__lance_commit_message": "by hand"}
    assert pennon.findings(uri) == ""


def test_fragments_of_ours_committed_by_official(tmp_path, official):
    uri = str(tmp_path / "t.lance")
    official("write_with_bases", uri=uri, first=0, n=4)
    text = pennon.run("write", uri, _save(tmp_path / "more", _rows(4, 7)), "--mode", "append", "--no-commit",
                      "--max-rows-per-file", 3).decode()
    assert official("ids", uri=uri) == [0, 1, 2, 3]
    assert official("commit_fragments", uri=uri, text=text, mode="append", read_version=1) == 2
    assert official("ids", uri=uri) == list(range(11))
    assert pennon.scan(uri).equals(_rows(0, 11))


@pytest.mark.parametrize("mode", ["create", "overwrite"])
def test_fragments_that_bring_their_schema(tmp_path, official, mode):
    """The committer takes the schema from the data files."""
    uri = str(tmp_path / "t.lance")
    if mode == "overwrite":
        official("write_with_bases", uri=uri, first=100, n=4)
    fragments = tmp_path / "fragments.json"
    fragments.write_bytes(pennon.run("write", uri, _save(tmp_path / "in", _rows(0, 5)), "--mode", mode, "--no-commit"))
    pennon.run("commit", uri, fragments, "--mode", mode)
    assert official("ids", uri=uri) == [0, 1, 2, 3, 4]
    assert pennon.scan(uri).equals(_rows(0, 5))


def test_fragments_created_by_ours_for_official(tmp_path, official):
    uri = str(tmp_path / "t.lance")
    text = pennon.run("write", uri, _save(tmp_path / "in", _rows(0, 5)), "--no-commit").decode()
    assert official("commit_fragments", uri=uri, text=text, mode="create") == 1
    assert pennon.scan(uri).equals(_rows(0, 5))


def test_several_files_of_fragments_are_one_version(tmp_path, official):
    uri = str(tmp_path / "t.lance")
    pennon.write(uri, _save(tmp_path / "base", _rows(0, 4)))
    files = []
    for i in range(3):
        files.append(tmp_path / f"{i}.json")
        files[-1].write_text(official("fragments_json", uri=uri, first=4 + 4 * i, n=4))
    one = tmp_path / "one.json"
    one.write_text(json.dumps(json.loads(official("fragments_json", uri=uri, first=16, n=1))[0]))
    assert pennon.as_json("commit", uri, *files, one) == {"version": 2, "rows": 17}
    assert official("ids", uri=uri) == list(range(17))


# ---- batches, detached versions, restore ----

def test_batch(tmp_path, official):
    uri = str(tmp_path / "t.lance")
    pennon.write(uri, _save(tmp_path / "base", _rows(0, 4)))
    files = []
    for i in range(2):
        files.append(tmp_path / f"{i}.json")
        files[-1].write_bytes(pennon.run("write", uri, _save(tmp_path / f"in{i}", _rows(4 + 2 * i, 2)), "--mode", "append",
                                         "--no-commit", "--json"))
    assert pennon.as_json("commit", uri, *files) == {"version": 2, "rows": 8}
    assert official("transaction", uri=uri, version=2)["type"] == "Append"
    assert official("batch", uri=uri, parts=[[8, 2], [10, 1]]) == 3
    assert pennon.scan(uri).equals(_rows(0, 11))
    assert len(_transaction(uri, "--version", 3)["operation"]["fragments"]) == 2


def test_batch_takes_appends_only(workshop):
    uri = workshop.fresh()
    with pytest.raises(pennon.Failed, match="only Append") as refused:
        pennon.run("commit", uri, workshop.files["Append"], workshop.files["Delete@0"])
    assert refused.value.code == 2


def test_detached(tmp_path, official):
    uri = str(tmp_path / "t.lance")
    pennon.write(uri, _save(tmp_path / "base", _rows(0, 4)))
    more = tmp_path / "more.json"
    more.write_text(official("fragments_json", uri=uri, first=4, n=2))
    version = pennon.as_json("commit", uri, more, "--detached")["version"]
    assert version >> 63 == 1
    assert official("ids", uri=uri, version=version) == list(range(6))
    assert official("ids", uri=uri) == list(range(4))
    theirs = official("detached", uri=uri, first=4, n=3)
    assert pennon.scan(uri, version=theirs).equals(_rows(0, 7))
    assert pennon.count(uri) == 4 and len(pennon.run("versions", uri, "--json").splitlines()) == 1
    # What was read may be a detached version.
    again = json.loads(more.read_text())
    t = tmp_path / "t.json"
    t.write_text(json.dumps({"read_version": theirs, "operation": {"type": "Append", "fragments": again}}))
    third = pennon.as_json("commit", uri, t, "--detached")
    assert third["rows"] == 9 and official("ids", uri=uri, version=third["version"]) == sorted([*range(7), 4, 5])


def test_restore(tmp_path, official):
    uri = str(tmp_path / "t.lance")
    pennon.write(uri, _save(tmp_path / "base", _rows(0, 4)))
    pennon.write(uri, _save(tmp_path / "more", _rows(4, 4)), mode="overwrite")
    assert pennon.as_json("restore", uri, "--version", 1, "--message", "back") == {"version": 3, "rows": 4}
    assert official("ids", uri=uri) == [0, 1, 2, 3]
    assert official("transaction", uri=uri, version=3)["operation"] == {"version": 1}
    assert official("properties", uri=uri, version=3) == {"__lance_commit_message": "back"}


def test_strict_overwrite(tmp_path):
    """Without retries an overwrite does not go over a version that its writer has not seen."""
    uri = str(tmp_path / "t.lance")
    pennon.write(uri, _save(tmp_path / "base", _rows(0, 4)))
    t = tmp_path / "t.json"
    t.write_bytes(pennon.run("write", uri, _save(tmp_path / "new", _rows(9, 1)), "--mode", "overwrite", "--no-commit", "--json"))
    pennon.write(uri, _save(tmp_path / "more", _rows(4, 4)), mode="append")
    with pytest.raises(pennon.Failed) as refused:
        pennon.run("commit", uri, t, "--max-retries", 0)
    assert refused.value.code == 5
    assert pennon.as_json("commit", uri, t) == {"version": 3, "rows": 1}


# ---- config and metadata ----

FLAGS = {"config": [], "table": ["--table-metadata"], "schema": ["--schema-metadata"], "a": ["--field", "a"]}


@pytest.mark.parametrize("which", sorted(FLAGS))
def test_metadata(tmp_path, official, which):
    uri = str(tmp_path / "t.lance")
    pennon.write(uri, _save(tmp_path / "base", _rows(0, 4)))

    def both():
        shown = official("metadata", uri=uri)
        theirs = shown["fields"][which] if which not in shown else shown[which]
        ours = pennon.as_json("config", "get", uri, *FLAGS[which])
        assert ours == theirs
        return ours

    assert both() == {}
    pennon.run("config", "set", uri, "x=1", "y=a=b", *FLAGS[which])
    assert both() == {"x": "1", "y": "a=b"}
    official("update_metadata", uri=uri, which=which, values={"x": "2", "z": "\u00e4"})
    assert both() == {"x": "2", "y": "a=b", "z": "\u00e4"}
    assert pennon.run("config", "get", uri, "x", "z", *FLAGS[which]).decode() == "2\n\u00e4\n"
    pennon.run("config", "unset", uri, "x", "not-there", *FLAGS[which])
    assert both() == {"y": "a=b", "z": "\u00e4"}
    pennon.run("config", "set", uri, "--replace", "only=1", *FLAGS[which])
    assert both() == {"only": "1"}
    with pytest.raises(pennon.Failed, match="'x' is not set") as missing:
        pennon.run("config", "get", uri, "x", *FLAGS[which])
    assert missing.value.code == 3
    assert pennon.findings(uri) == ""


def test_metadata_of_no_field(tmp_path):
    uri = str(tmp_path / "t.lance")
    pennon.write(uri, _save(tmp_path / "base", _rows(0, 4)))
    with pytest.raises(pennon.Failed, match="'aa'"):
        pennon.run("config", "set", uri, "k=v", "--field", "aa")


# ---- bases ----

def test_bases_of_ours(tmp_path, official):
    uri = str(tmp_path / "t.lance")
    one, two = tmp_path / "one", tmp_path / "two"
    pennon.run("write", uri, _save(tmp_path / "in", _rows(0, 8)), "--max-rows-per-file", 2, "--bases", f"one={one},two={two}",
               "--target-bases", f"two,{one}")
    assert official("base_files", uri=uri) == [2, 1, 2, 1]
    assert len(list(one.iterdir())) == len(list(two.iterdir())) == 2
    pennon.run("write", uri, _save(tmp_path / "more", _rows(8, 2)), "--mode", "append", "--target-bases", "1")
    pennon.run("write", uri, _save(tmp_path / "last", _rows(10, 2)), "--mode", "append")
    assert official("base_files", uri=uri) == [2, 1, 2, 1, 1, None]
    assert official("ids", uri=uri) == list(range(12))
    assert pennon.scan(uri).equals(_rows(0, 12))
    assert pennon.findings(uri) == ""
    with pytest.raises(pennon.Failed, match="'three' is not found"):
        pennon.run("write", uri, tmp_path / "more", "--mode", "append", "--target-bases", "three")
    with pytest.raises(pennon.Failed, match="cannot be registered"):
        pennon.run("write", uri, tmp_path / "more", "--mode", "append", "--bases", "x=/x")


def test_bases_of_official(tmp_path, official):
    uri, one, two = str(tmp_path / "t.lance"), str(tmp_path / "one"), str(tmp_path / "two")
    official("write_with_bases", uri=uri, first=0, n=4, bases={"one": one}, targets=["one"])
    assert official("base_files", uri=uri) == [1, 1]
    pennon.run("write", uri, _save(tmp_path / "more", _rows(4, 4)), "--mode", "append", "--max-rows-per-file", 2,
               "--target-bases", "one")
    official("add_base", uri=uri, name="two", path=two)
    bases = tmp_path / "bases.json"
    bases.write_text(json.dumps({"read_version": 3, "operation": {"type": "UpdateBases", "new_bases": [{"name": "three", "path": f"{two}3"}]}}))
    pennon.run("commit", uri, bases)
    pennon.run("write", uri, _save(tmp_path / "last", _rows(8, 3)), "--mode", "append", "--max-rows-per-file", 1,
               "--target-bases", "three,two,one")
    assert official("base_files", uri=uri) == [1, 1, 1, 1, 3, 2, 1]
    assert official("ids", uri=uri) == list(range(11))
    official("write_with_bases", uri=uri, first=11, n=2, mode="append", targets=["three"])
    assert pennon.scan(uri).equals(_rows(0, 13))


# ---- what is refused ----

@pytest.mark.parametrize("text, message", [
    ("{", "no JSON"),
    ('{"operation": {"type": "Append", "fragmnts": []}}', "did you mean 'fragments'"),
    ('[{"files": [{"pth": "x"}]}]', "did you mean 'path'"),
    ('{"read_version": 9, "operation": {"type": "Append"}}', "9"),
])
def test_refused(tmp_path, text, message):
    uri = str(tmp_path / "t.lance")
    pennon.write(uri, _save(tmp_path / "base", _rows(0, 4)))
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(pennon.Failed, match=message) as refused:
        pennon.run("commit", uri, path)
    assert refused.value.code in (2, 3) and not refused.value.crashed
    assert pennon.count(uri) == 4


def test_nothing_to_append_to(tmp_path):
    path = tmp_path / "t.json"
    path.write_text("[]")
    with pytest.raises(pennon.Failed) as refused:
        pennon.run("commit", tmp_path / "none.lance", path)
    assert refused.value.code == 3
