# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Tags, branches and clones that one side makes and the other uses, lists, writes on and deletes: the JSON files field by field and byte by byte, the
manifests and transactions of clones, the rows at every place."""
import datetime
import json
import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lance_bytes
import oracle
import pennon
from features import lines

each = pytest.mark.parametrize("who", oracle.NAMES)
makers = pytest.mark.parametrize("maker", ("pennon",) + oracle.NAMES)
UUID = re.compile(r"^[0-9a-f]{32}$")
N = 10
ALL = [x for x in range(2 * N) if x != 3]


class Side:
    """Official or Pennon, asked the same things."""

    def __init__(self, who, oracles, folder):
        self.who, self.folder = who, folder
        self.oracle = None if who == "pennon" else oracles.get(who)

    def official(self, function, /, **args):
        return self.oracle.call("refs_ops." + function, **args)

    def values(self, uri, **where):
        if self.oracle:
            return self.official("values", uri=str(uri), **where)
        return sorted(pennon.scan(uri, columns=["x"], **where).column("x").to_pylist())

    def append(self, uri, first, n, branch=None):
        if self.oracle:
            return self.official("append", uri=str(uri), first=first, n=n, branch=branch)
        rows = pa.table({"x": pa.array(range(first, first + n), pa.int64()), "t": pa.array(["new"] * n)})
        path = self.folder / "more.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return pennon.write(uri, path, mode="append", branch=branch)

    def create_branch(self, uri, name, version=None, branch=None, tag=None):
        if self.oracle:
            reference = tag if tag else [branch, version]
            return self.done(*self.official("create_branch", uri=str(uri), name=name, reference=reference))
        return made("branch", uri, name, version=version, branch=branch, tag=tag)["version"]

    @staticmethod
    def done(value, error):
        assert error is None, error
        return value

    def clone(self, uri, to, deep, version=None, branch=None):
        if self.oracle:
            return self.official("clone", uri=str(uri), to=str(to), deep=deep, reference=[branch, version])
        return json.loads(pennon.run("clone", uri, to, "--json", *(["--deep"] if deep else ["--shallow"]),
                                     *flags(version=version, branch=branch)))["version"]


def flags(**options):
    out = []
    for name, value in options.items():
        out += [] if value is None else ["--" + name, str(value)]
    return out


def made(what, uri, name, action="create", **options):
    return json.loads(pennon.run(what, action, uri, name, "--json", *flags(**options)))


def refused(*args):
    """Exit code and text of a call that fails."""
    with pytest.raises(pennon.Failed) as failure:
        pennon.run(*args)
    assert not failure.value.crashed
    return failure.value.code, failure.value.stderr


@pytest.fixture
def sides(oracles, tmp_path):
    return {name: Side(name, oracles, tmp_path) for name in ("pennon",) + oracle.NAMES}


@pytest.fixture
def source(oracles, tmp_path):
    """A table of official: version 1 rows 0 … 9, 2 without 3, 3 with 10 … 19 too; versions are one more with an index."""
    def make(who, index=False, **options):
        uri = tmp_path / "t.lance"
        oracles.get(who).call("refs_ops.make", uri=str(uri), index=index, **options)
        return uri
    return make


def ref_file(uri, kind, name):
    path = Path(uri) / "_refs" / kind / (name.replace("/", "%2F") + ".json")
    return path.read_text()


def files(uri):
    return sorted(str(path.relative_to(uri)) for path in Path(uri).rglob("*") if path.is_file())


def shape(text):
    """The text with every digit, hex id and time of the same kind made equal: what two files of different times may differ in."""
    text = re.sub(r'"[0-9a-f]{32}"', '"ID"', text)
    text = re.sub(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"', '"TIME"', text)
    return re.sub(r'("createAt"|"manifestSize"): \d+', r"\1: N", text)


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")[:26].rstrip("+").split("+")[0]).replace(
        tzinfo=datetime.timezone.utc).timestamp()


# ---- tags ----

@each
def test_tag_files_are_the_same_bytes(sides, source, who):
    uri = source(who)
    official = sides[who]
    assert official.official("tag", uri=str(uri), action="create", name="theirs", reference=2) is None
    assert made("tag", uri, "ours", version=2) == {"tag": "ours", "version": 2}
    assert shape(ref_file(uri, "tags", "ours")) == shape(ref_file(uri, "tags", "theirs"))
    one, two = json.loads(ref_file(uri, "tags", "ours")), json.loads(ref_file(uri, "tags", "theirs"))
    assert list(one) == list(two) and one["manifestSize"] == two["manifestSize"] and one["createdAt"] == one["updatedAt"]
    # On a branch, moved, and with metadata.
    official.done(*official.official("create_branch", uri=str(uri), name="a/b"))
    assert official.official("tag", uri=str(uri), action="update", name="theirs", reference=["a/b", None]) is None
    made("tag", uri, "ours", "update", branch="a/b")
    for name in ("ours", "theirs"):
        official.official("tag_metadata", uri=str(uri), name=name, metadata={"k\"\n": "é\\"})
    assert shape(ref_file(uri, "tags", "ours")) == shape(ref_file(uri, "tags", "theirs"))
    made("tag", uri, "ours", "update", version=1)  # rewrites the metadata
    assert official.official("tag", uri=str(uri), action="update", name="theirs", reference=1) is None
    assert shape(ref_file(uri, "tags", "ours")) == shape(ref_file(uri, "tags", "theirs"))
    assert json.loads(ref_file(uri, "tags", "ours"))["createdAt"] == one["createdAt"]


@each
def test_tags_are_shared(sides, source, who):
    uri = source(who)
    official = sides[who]
    made("tag", uri, "v1.0-x_y", version=1)
    made("tag", uri, "last")
    listed = official.official("tags", uri=str(uri))
    assert {name: (tag["branch"], tag["version"], tag["metadata"]) for name, tag in listed.items()} == {
        "v1.0-x_y": (None, 1, {}), "last": (None, 3, {})}
    assert official.official("values", uri=str(uri), tag="v1.0-x_y") == list(range(N))
    assert official.official("tag", uri=str(uri), action="create", name="last", reference=1) is not None
    assert official.official("tag", uri=str(uri), action="update", name="last", reference=2) is None
    official.official("tag_metadata", uri=str(uri), name="last", metadata={"a": "b", "c": "d"})
    rows = lines("tag", "list", str(uri))
    assert [(row["tag"], row["branch"], row["version"]) for row in rows] == [("last", None, 2), ("v1.0-x_y", None, 1)]
    listed = official.official("tags", uri=str(uri))
    for row in rows:
        theirs = listed[row["tag"]]
        assert row["manifest_size"] == theirs["manifest_size"] and json.loads(row["metadata"]) == theirs["metadata"]
        for key in ("created", "updated"):
            assert abs(seconds(row[key]) - datetime.datetime.fromisoformat(theirs[key + "_at"]).timestamp()) < 1e-3
    assert sides["pennon"].values(uri, tag="last") == [x for x in range(N) if x != 3]
    # Each side deletes what the other made.
    assert official.official("tag", uri=str(uri), action="delete", name="v1.0-x_y") is None
    assert official.official("tag", uri=str(uri), action="create", name="theirs", reference=3) is None
    assert json.loads(pennon.run("tag", "delete", uri, "theirs", "--json")) == {"tag": "theirs", "deleted": True}
    assert set(official.official("tags", uri=str(uri))) == {"last"}


@each
def test_names_and_errors_as_official(sides, source, who):
    uri = source(who)
    official = sides[who]
    official.done(*official.official("create_branch", uri=str(uri), name="there"))
    assert official.official("tag", uri=str(uri), action="create", name="there", reference=1) is None
    for name in ("", ".a", "a.", "a..b", "x.lock", "a/b", "a b", "ö", "a€", "A-1_.z", "there", "..", "日本"):
        theirs = official.official("tag", uri=str(uri), action="create", name=name, reference=1)
        if theirs is None:
            if not name.isascii():  # with such a tag official lists none, and cleans up nothing
                with pytest.raises(oracle.Refused):
                    official.official("tags", uri=str(uri))
                assert [row["tag"] for row in lines("tag", "list", str(uri))] == sorted(["there", name])
            assert official.official("tag", uri=str(uri), action="delete", name=name) is None
            if name.isascii():
                made("tag", uri, name, version=1)
                assert name in official.official("tags", uri=str(uri))
                pennon.run("tag", "delete", uri, name)
            else:
                assert refused("tag", "create", uri, name)[0] == 2
        else:
            assert refused("tag", "create", uri, name, "--version", "1")[0] == (3 if name == "there" else 2), (name, theirs)
    for name in ("", "main", "/a", "a/", "a//b", "a/../b", "x.lock", "a b", "there", "A-1/b_2/c.d", "a/main", "ö/日本", "a€"):
        value, theirs = official.official("create_branch", uri=str(uri), name=name)
        if theirs is None:
            assert official.official("delete_branch", uri=str(uri), name=name) is None
            made("branch", uri, name)
            assert name in official.official("branches", uri=str(uri))
            assert official.official("delete_branch", uri=str(uri), name=name) is None
        else:
            assert refused("branch", "create", uri, name)[0] == (3 if name == "there" else 2), (name, theirs)
    assert refused("tag", "create", uri, "x", "--version", "9")[0] == 3
    assert refused("tag", "update", uri, "x")[0] == 3
    assert refused("tag", "delete", uri, "x")[0] == 3
    assert refused("branch", "delete", uri, "x")[0] == 3
    assert refused("branch", "create", uri, "x", "--tag", "nope")[0] == 3


# ---- branches ----

@each
def test_branch_files_are_the_same_bytes(sides, source, who):
    uri = source(who)
    official, ours = sides[who], sides["pennon"]
    before = int(datetime.datetime.now().timestamp())
    for side, name in ((official, "theirs"), (ours, "ours")):
        assert side.create_branch(uri, name, version=2) == 2
        side.append(uri, 100, 1, branch=name)
        assert side.create_branch(uri, name + "/sub", branch=name, version=3) == 3
    for name in ("%s", "%s/sub"):
        a, b = ref_file(uri, "branches", name % "ours"), ref_file(uri, "branches", name % "theirs")
        assert shape(a).replace("ours", "theirs") == shape(b)
        one, two = json.loads(a), json.loads(b)
        assert abs(one["manifestSize"] - two["manifestSize"]) <= 8 if name == "%s/sub" else one["manifestSize"] == two["manifestSize"]
        assert before <= one["createAt"] <= before + 60
        assert all(UUID.match(step[1]) for step in one["identifier"]["version_mapping"])
    parent, child = (json.loads(ref_file(uri, "branches", name))["identifier"]["version_mapping"] for name in ("ours", "ours/sub"))
    assert child[:-1] == parent and child[-1][0] == 3


@each
@makers
def test_branches_are_shared(sides, source, who, maker):
    """Made by `maker`, used by `who` and Pennon in turn: written on, listed, tagged, branched again, deleted."""
    uri = source(who)
    mine, official, ours = sides[maker], sides[who], sides["pennon"]
    assert mine.create_branch(uri, "dev", version=1) == 1
    official.append(uri, 100, 2, branch="dev")
    ours.append(uri, 200, 2, branch="dev")
    official.official("delete", uri=str(uri), predicate="x = 5", branch="dev")
    ours.append(uri, 300, 1, branch="dev")
    want = [x for x in range(N) if x != 5] + [100, 101, 200, 201, 300]
    for side in (official, ours):
        assert side.values(uri, branch="dev") == want
        assert side.values(uri) == ALL
    assert official.official("validate", uri=str(uri), branch="dev")
    assert pennon.findings(uri, "--branch", "dev") == ""
    # A branch of the branch by each, from versions that the other wrote.
    assert official.create_branch(uri, "dev/theirs", branch="dev", version=3) == 3
    assert ours.create_branch(uri, "of-dev", branch="dev") == 5
    official.append(uri, 400, 1, branch="of-dev")
    ours.append(uri, 500, 1, branch="dev/theirs")
    for side in (official, ours):
        assert side.values(uri, branch="of-dev") == want + [400]
        assert side.values(uri, branch="dev/theirs") == list(range(N)) + [100, 101, 200, 201, 500]
    for branch in ("of-dev", "dev/theirs"):
        assert official.official("validate", uri=str(uri), branch=branch)
        assert pennon.findings(uri, "--branch", branch) == ""
    listed = official.official("branches", uri=str(uri))
    rows = {row["branch"]: row for row in lines("branch", "list", str(uri))}
    assert set(rows) == set(listed) == {"dev", "dev/theirs", "of-dev"}
    for name, row in rows.items():
        theirs = listed[name]
        assert (row["parent"], row["version"], row["manifest_size"]) == (theirs["parent_branch"], theirs["parent_version"], theirs["manifest_size"])
        assert row["identifier"] == ":".join(f"{version}:{step}" for version, step in theirs["branch_identifier"])
        assert int(seconds(row["created"])) == theirs["create_at"]
    # What is needed stays; then each deletes what the other made.
    assert official.official("delete_branch", uri=str(uri), name="dev") is not None
    assert refused("branch", "delete", uri, "dev")[0] == 5
    assert refused("branch", "delete", uri, "dev", "--force")[0] == 5
    made("tag", uri, "on-dev", branch="of-dev")
    assert sides["pennon"].values(uri, tag="on-dev") == official.official("values", uri=str(uri), tag="on-dev") == want + [400]
    assert refused("branch", "delete", uri, "of-dev")[0] == 5
    pennon.run("tag", "delete", uri, "on-dev")
    assert official.official("delete_branch", uri=str(uri), name="of-dev") is None
    pennon.run("branch", "delete", uri, "dev/theirs")
    assert ours.values(uri, branch="dev") == want
    if maker == "pennon":
        assert official.official("delete_branch", uri=str(uri), name="dev") is None
    else:
        pennon.run("branch", "delete", uri, "dev")
    assert [f for f in files(uri) if f.startswith(("tree", "_refs"))] == []
    assert official.values(uri) == ours.values(uri) == ALL
    assert official.official("validate", uri=str(uri))


@each
def test_branch_of_a_tag_and_its_manifest(sides, source, who):
    uri = source(who, index=True)
    official, ours = sides[who], sides["pennon"]
    made("tag", uri, "v", version=3)
    assert official.create_branch(uri, "theirs", tag="v") == ours.create_branch(uri, "ours", tag="v") == 3
    one, two = (lance_bytes.latest(uri / "tree" / name) for name in ("ours", "theirs"))
    compare_manifests(one, two, branch=("ours", "theirs"))
    assert official.official("indices", uri=str(uri), branch="ours") == ["by_x"]
    assert official.official("values", uri=str(uri), branch="ours", where="x = 4") == [4]


def compare_manifests(ours, theirs, branch=None, names=True):
    """Field by field. `names`: data and deletion files are the same ones."""
    assert ours.unknown() == [] and theirs.unknown() == []
    a, b = dict(ours.manifest), dict(theirs.manifest)
    for m in (a, b):
        # Writers of the newest release put the section's place elsewhere; times and uuids are each one's own.
        for key in ("timestamp", "transaction_file", "old_transaction_section", "transaction_section", "index_section"):
            m.pop(key, None)
        m["fragments"] = [dict(f) for f in m.get("fragments", [])]
        m["base_paths"] = sorted(m.get("base_paths", []), key=lambda base: base.get("id", 0))
        for f in m["fragments"]:
            if names:
                continue
            f["files"] = [dict(file, path="") for file in f["files"]]
            if "deletion_file" in f:
                f["deletion_file"] = dict(f["deletion_file"], id=0)
    if branch:
        assert (a.pop("branch"), b.pop("branch")) == branch
    writer = a.pop("writer_version"), b.pop("writer_version")
    assert writer[0]["library"] == writer[1]["library"] == "lance"
    assert a == b
    one, two = dict(ours.transaction), dict(theirs.transaction)
    assert one.pop("uuid") != two.pop("uuid")
    one["clone"], two["clone"] = dict(one["clone"]), dict(two["clone"])
    if branch:
        assert (one["clone"].pop("branch_name"), two["clone"].pop("branch_name")) == branch
    assert one == two
    assert ours.manifest["transaction_file"] == f"{ours.manifest['version']}-{ours.transaction['uuid']}.txn"
    a, b = ((m.indices or {}).get("indices", []) for m in (ours, theirs))
    assert a == b


@each
def test_interrupted_creations(sides, source, who):
    """A folder without a branch file, as official's crash leaves it; a branch file without a folder, as ours does."""
    uri = source(who)
    official, ours = sides[who], sides["pennon"]
    official.done(*official.official("create_branch", uri=str(uri), name="x", reference=1))
    (uri / "_refs/branches/x.json").unlink()
    assert official.official("create_branch", uri=str(uri), name="x", reference=2)[1] is not None
    code, text = refused("branch", "create", uri, "x")
    assert code == 3 and "force" in text
    assert json.loads(pennon.run("branch", "create", uri, "x", "--force", "--json"))["version"] == 3
    assert official.values(uri, branch="x") == ours.values(uri, branch="x") == ALL
    assert len(lance_bytes.manifest_names(uri / "tree/x")) == 1
    # With a write on it nothing is lost.
    (uri / "_refs/branches/x.json").unlink()
    official.append(uri, 100, 1, branch="x")
    assert refused("branch", "create", uri, "x", "--force")[0] == 3
    assert refused("branch", "delete", uri, "x")[0] == 3
    assert official.values(uri, branch="x") == ALL + [100]
    pennon.run("branch", "delete", uri, "x", "--force")
    assert not (uri / "tree/x").exists()
    # The other way round.
    ours.create_branch(uri, "y")
    shutil.rmtree(uri / "tree/y")
    assert refused("branch", "create", uri, "y")[0] == 3
    assert refused("scan", uri, "--branch", "y")[0] == 3
    if who == "v8":
        pennon.run("branch", "create", uri, "y", "--force", "--version", "1")
        assert official.values(uri, branch="y") == list(range(N))
    assert official.official("delete_branch", uri=str(uri), name="y") is None
    assert official.values(uri) == ALL


# ---- clones ----

@each
@makers
@pytest.mark.parametrize("stable", (False, True))
def test_shallow_clones_are_shared(sides, source, tmp_path, who, maker, stable):
    uri, to, again = source(who, index=True, stable=stable), tmp_path / "c.lance", tmp_path / "c2.lance"
    mine, official, ours = sides[maker], sides[who], sides["pennon"]
    assert mine.clone(uri, to, deep=False, version=3) == 3
    assert [f for f in files(to) if f.startswith(("data", "_indices"))] == []
    want = [x for x in range(N) if x != 3]
    official.append(to, 100, 1)
    ours.append(to, 200, 1)
    official.official("delete", uri=str(to), predicate="x = 4")
    want = [x for x in want if x != 4] + [100, 200]
    for side in (official, ours):
        assert side.values(to) == want
        assert side.values(to, version=3) == [x for x in range(N) if x != 3]
        assert side.values(uri) == ALL
    assert official.official("validate", uri=str(to)) and pennon.findings(to) == ""
    # Of the clone, by each: its files are in two places.
    for side in (ours, official):
        shutil.rmtree(again, ignore_errors=True)
        side.clone(to, again, deep=False, version=6)
        assert official.values(again) == ours.values(again) == want
        found = pennon.findings(again)
        # Official looks for the indices of a clone's clone in the clone, where they are not.
        assert found == "" or (side is official and found.startswith("the folder of index") and "1 finding" in found)
    shutil.rmtree(again)
    ours.clone(to, again, deep=False)
    # Official's own clones of clones lose their indices here.
    assert official.official("values", uri=str(again), where="x = 5") == [5]
    official.official("delete", uri=str(again), predicate="x = 5")
    assert ours.values(again) == [x for x in want if x != 5]
    assert refused("clone", uri, to, "--shallow")[0] == 3


@each
def test_shallow_clone_manifest(sides, source, tmp_path, who):
    uri = source(who, index=True)
    for name in ("ours", "theirs"):
        sides["pennon" if name == "ours" else who].clone(uri, tmp_path / name, deep=False, version=3)
    compare_manifests(*(lance_bytes.latest(tmp_path / name) for name in ("ours", "theirs")))
    assert files(tmp_path / "ours")[-1] == "_versions/latest_version_hint.json"
    # From a branch: it is named.
    sides[who].create_branch(uri, "dev", version=3)
    for name in ("ours", "theirs"):
        sides["pennon" if name == "ours" else who].clone(uri, tmp_path / (name + "2"), deep=False, branch="dev")
    ours, theirs = (lance_bytes.latest(tmp_path / (name + "2")) for name in ("ours", "theirs"))
    if who == "v8":  # gives every index the new base
        for m in (ours, theirs):
            m.indices = None
    compare_manifests(ours, theirs)
    assert [base.get("name") for base in sorted(ours.manifest["base_paths"], key=lambda b: b.get("id", 0))] == [None, "dev"]


@each
@pytest.mark.parametrize("storage", ("2.0", "2.1", "2.2"))
def test_deep_clones_stand_alone(sides, source, tmp_path, who, storage):
    """Of a branch of a shallow clone, whose files lie in three places, with deletions and an index; the source is removed afterwards."""
    uri, middle, to = source(who, index=True, storage=storage), tmp_path / "m.lance", tmp_path / "c.lance"
    official, ours = sides[who], sides["pennon"]
    ours.clone(uri, middle, deep=False)
    official.append(middle, 100, 2)
    ours.create_branch(middle, "dev")
    official.official("delete", uri=str(middle), predicate="x = 101", branch="dev")
    ours.append(middle, 200, 1, branch="dev")
    want = ALL + [100, 200]
    version = ours.clone(middle, to, deep=True, branch="dev")
    assert version == 7
    shutil.rmtree(uri)
    shutil.rmtree(middle)
    assert official.values(to) == ours.values(to) == want
    assert official.official("values", uri=str(to), where="x = 4") == [4]
    assert official.official("indices", uri=str(to)) == ["by_x"]
    assert official.official("validate", uri=str(to)) and pennon.findings(to) == ""
    m = lance_bytes.latest(to)
    assert m.manifest.get("base_paths") is None and m.manifest.get("branch") is None
    assert m.transaction["clone"]["ref_name"] == "dev" and not m.transaction["clone"].get("is_shallow")
    official.append(to, 300, 1)
    ours.append(to, 301, 1)
    official.official("compact", uri=str(to))
    assert official.values(to) == ours.values(to) == want + [300, 301]
    assert refused("clone", to, to)[0] == 3


def test_deep_clone_manifest(sides, source, tmp_path):
    """The newest release has deep clones, too."""
    uri = source("new", index=True)
    sides["new"].clone(uri, tmp_path / "theirs", deep=True, version=4)
    sides["pennon"].clone(uri, tmp_path / "ours", deep=True, version=4)
    compare_manifests(*(lance_bytes.latest(tmp_path / name) for name in ("ours", "theirs")), names=False)
    folders = [sorted({os.path.dirname(f) for f in files(tmp_path / name)}) for name in ("ours", "theirs")]
    assert folders[0] == folders[1]
    index_files = [[f for f in files(tmp_path / name) if f.startswith("_indices")] for name in ("ours", "theirs")]
    assert index_files[0] == index_files[1] != []
    assert len(files(tmp_path / "ours")) == len(files(tmp_path / "theirs"))
    sides["pennon"].append(tmp_path / "theirs", 100, 1)
    assert sides["new"].values(tmp_path / "theirs") == sides["pennon"].values(tmp_path / "theirs") == ALL + [100]


def test_deep_clone_of_blobs(sides, tmp_path, oracles):
    """Blob files go with their data files (8.0.0 forgets them), external blobs stay where they are."""
    from test_blobs import blob_field, payloads, save, value
    source, to, base = tmp_path / "b.lance", tmp_path / "c.lance", tmp_path / "outside"
    base.mkdir()
    (base / "one.bin").write_bytes(b"external")
    sizes = {"lance-encoding:blob-inline-size-threshold": "64", "lance-encoding:blob-dedicated-size-threshold": "256"}
    data = save(tmp_path / "in", [value(0, 10), value(1, 100), None, value(3, 5000)], blob_field(metadata=sizes))
    oracles.get("v8").write(uri=str(source), ipc=data, storage="2.2", bases=[str(base)])
    more = save(tmp_path / "more", [f"file://{base}/one.bin", value(5, 300)], blob_field(metadata=sizes))
    pennon.write(source, more, mode="append")
    want = payloads(str(source))
    pennon.run("clone", source, to)
    shutil.rmtree(source)
    assert payloads(str(to)) == want
    assert want[4] == b"external" and want[3] == value(3, 5000)
    assert pennon.findings(to) == ""
    for who in oracle.NAMES:
        found = oracles.get(who).blobs(uri=str(to), column="b", rows=[0, 1, 3, 5])
        assert [bytes.fromhex(one) for one in found] == [want[i] for i in (0, 1, 3, 5)]


def test_clone_of_old_branch_files_and_moved_tables(sides, source, tmp_path):
    """The bases of a branch go stale when the table is moved: a clone of the branch notes where they are now."""
    uri = source("v8")
    sides["v8"].create_branch(uri, "dev", version=1)
    moved = tmp_path / "moved.lance"
    os.rename(uri, moved)
    sides["pennon"].clone(moved, tmp_path / "c.lance", deep=False, branch="dev")
    sides["pennon"].clone(moved, tmp_path / "d.lance", deep=True, branch="dev")
    for name in ("c.lance", "d.lance"):
        assert sides["v8"].values(tmp_path / name) == sides["new"].values(tmp_path / name) == list(range(N))


def test_log(tmp_path):
    """The listing of versions says what was done, by whom, and with which message."""
    import pyarrow.csv
    uri, data = tmp_path / "t.lance", tmp_path / "a.csv"
    data.write_text("x\n1\n2\n")
    pennon.run("write", uri, data, "--message", "first\nlines")
    pennon.run("write", uri, data, "--mode", "append")
    rows = lines("log", str(uri))
    assert rows == lines("versions", str(uri))
    assert [(r["version"], r["operation"], r["rows"], r["data_files"], r["message"]) for r in rows] == [
        (1, "Overwrite", 2, 1, "first\nlines"), (2, "Append", 4, 2, None)]
    assert all(r["writer"].startswith("pennon ") for r in rows)


def test_usage(tmp_path):
    data, uri = tmp_path / "a.csv", tmp_path / "t.lance"
    data.write_text("x\n1\n")
    pennon.run("write", uri, data)
    for args in (("tag", "creat", uri, "x"), ("tag", "create", uri), ("tag", "list", uri, "x"), ("branch", "update", uri, "x"),
                 ("tag", "delete", uri, "x", "--version", "1"), ("branch", "list", uri, "--force"), ("clone", uri),
                 ("clone", uri, tmp_path / "c", "--deep", "--shallow"), ("tag",), ("branch", "create", uri, "x", "--tag", "a", "--version", "1")):
        assert refused(*args)[0] == 2, args
    assert not (tmp_path / "c").exists()
    assert refused("clone", tmp_path / "nothing", tmp_path / "c")[0] == 3
    for command in ("tag", "branch", "clone", "log"):
        assert command in pennon.run(command, "--help").decode()
