# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Cleanup of tables with a past: what Pennon leaves, both releases open, scan and validate, version by version; and it removes what official's own
cleanup removes of a table with the same past. What official leaves, Pennon verifies."""
import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

import oracle
import pennon

DAY = 86400
COUNTS = ("versions", "data_files", "transaction_files", "index_files", "deletion_files")
POLICIES = {"all": ({"older_seconds": 0}, ["--older-than", "0s"]), "keep two": ({"retain": 2}, ["--keep", "2"]),
            "young": ({}, []), "both": ({"older_seconds": 0, "retain": 3}, ["--older-than", "0s", "--keep", "3"])}
RELEASES = sorted((Path(__file__).parent / "history").glob("*.tar.xz"))
SEEDS = (0, 1, 2, 4, 5, 6, 7, 21)


def clean(uri, *args):
    return json.loads(pennon.run("cleanup", uri, "--json", *args))


def plan(uri, *args):
    """{path: (action, kind, reason)} of a dry run."""
    lines = pennon.run("cleanup", uri, "--dry-run", "--json", *args).decode().splitlines()
    return {row["path"]: (row["action"], row["kind"], row["reason"]) for row in map(json.loads, lines)}


def files(uri):
    return {os.path.relpath(os.path.join(folder, name), uri) for folder, _, names in os.walk(uri) for name in names}


def verified(uri, branches=()):
    """Every version of every line that is listed, read whole."""
    for branch in [None, *branches]:
        at = ["--branch", branch] if branch else []
        for row in map(json.loads, pennon.run("versions", uri, "--json", *at).decode().splitlines()):
            assert pennon.findings(uri, "--version", row["version"], *at) == ""


def age(uri, days):
    """All files become older."""
    then = time.time() - days * DAY
    for name in files(uri):
        os.utime(os.path.join(uri, name), (then, then))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", oracle.NAMES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_past_is_cleaned(oracles, tmp_path, name, seed, policy):
    theirs_options, options = POLICIES[policy]
    official = oracles.get(name)
    uri, twin = str(tmp_path / "t.lance"), str(tmp_path / "twin.lance")
    refs = seed % 2 == 1
    branches = official.call("cleanup_tables.make", uri=uri, seed=seed, steps=12, refs=refs, stable=seed % 3 == 0)
    official.call("cleanup_tables.make", uri=twin, seed=seed, steps=12, refs=refs, stable=seed % 3 == 0)
    removed = 0
    before, tags = official.call("cleanup_tables.look", uri=uri), official.call("cleanup_tables.tags", uri=uri)
    for branch in [None, *branches]:
        at = ["--branch", branch] if branch else []
        left = files(uri)
        planned = plan(uri, *options, *at)
        assert files(uri) == left
        done = clean(uri, *options, *at)
        removed += done["versions"]
        folder = f"tree/{branch}/" if branch else ""
        assert left - files(uri) == {folder + path for path, (action, _, _) in planned.items() if action == "delete"}
        theirs = official.call("cleanup_tables.clean", uri=twin, branch=branch, **theirs_options)
        if not refs:
            assert {key: done[key] for key in COUNTS} == theirs
        else:  # a version that stays among old ones hides from 8.0.0 what is younger, and a base path may be spelled in another way
            assert done["versions"] <= theirs["versions"]
    verified(uri, branches)
    for reader in oracle.NAMES:
        after = oracles.get(reader).call("cleanup_tables.look", uri=uri)
        assert after == {label: before[label] for label in after}
    assert official.call("cleanup_tables.tags", uri=uri) == tags
    assert len(before) - len(after) == removed and (removed > 0 if policy == "all" else removed == 0 if policy == "young" else True)
    for branch in [None, *branches]:
        assert official.call("cleanup_tables.go_on", uri=uri, branch=branch) == 9
    if not refs:  # what official left is as whole
        verified(twin)


@pytest.mark.parametrize("spelled", ["t.lance", "./t.lance", "t.lance/", "{folder}/t.lance/", "{folder}/../{name}/t.lance", "{folder}/link.lance", "file://{folder}/t.lance"])
def test_a_branch_is_known_however_its_base_is_spelled(oracles, tmp_path, spelled):
    uri = str(tmp_path / "t.lance")
    os.symlink("t.lance", tmp_path / "link.lance")
    official = oracles.get("v8")
    text = spelled.format(folder=tmp_path, name=tmp_path.name)
    official.call("cleanup_tables.branch_at", uri=uri, spelled=text, folder=str(tmp_path))
    done = clean(uri, "--older-than", "0s", "--delete-unverified")
    assert done["versions"] == 2 and done["data_files"] == 0 and done["index_files"] == 0 and done["deletion_files"] == 0
    (tmp_path / "away").mkdir()
    moved = shutil.move(uri, str(tmp_path / "away" / "t.lance"))  # and so it is when the table has moved
    done = clean(moved, "--older-than", "0s", "--delete-unverified")
    assert sum(done.values()) == 0
    assert pennon.count(moved) == 5
    assert len(pennon.scan(moved, branch="side")) == 54


@pytest.mark.parametrize("name", oracle.NAMES)
def test_garbage(oracles, tmp_path, name):
    """Files that nobody names: by age, by name; also behind an old version that is tagged, where 8.0.0 does not look."""
    official = oracles.get(name)
    uri = str(tmp_path / "t.lance")
    official.call("cleanup_tables.make", uri=uri, seed=2, steps=8, refs=False)
    age(uri, 30)
    assert subprocess.run([oracle.python_of(name), "-c", "import lance, sys; lance.dataset(sys.argv[1]).tags.create('old', 1)", uri]).returncode == 0
    bits = "01" + "0" * 30
    uuid = "5ac389a3-0c3b-4363-8c4a-458834f3e70d"
    planted = {f"data/{'0' * 24}aa.lance": "data", f"data/{'0' * 24}aa/{bits}.blob": "blob", "_deletions/0-1-77.arrow": "deletion",
               f"_transactions/9-{uuid}.txn": "transaction", f"_indices/{uuid}/index.idx": "index", "_versions/.tmpXyZ": "temporary",
               "data/.tmp_0123456789abcdef": "temporary"}
    foreign = ["data/notes.txt", "data/sub/x.lance", "_versions/1.manifest-" + uuid, "_indices/mine/x", "_transactions/x.txn", "_deletions/x.bin", "x.lance"]
    for path in [*planted, *foreign]:
        os.makedirs(os.path.dirname(os.path.join(uri, path)), exist_ok=True)
        with open(os.path.join(uri, path), "wb") as out:
            out.write(b"x" * 10)
    assert not set(planted) & {path for path, what in plan(uri).items() if what[0] == "delete"}  # they are young
    was = files(uri)
    then = time.time() - 8 * DAY
    for path in [*planted, *foreign]:
        os.utime(os.path.join(uri, path), (then, then))
    planned = plan(uri)
    assert {path: what[1] for path, what in planned.items() if what[0] == "delete"} == planted
    assert all(what[2] for what in planned.values())
    done = clean(uri)
    assert was - files(uri) == set(planted) and done["bytes_removed"] == 10 * len(planted) and done["temporary_files"] == 2
    assert not os.path.exists(os.path.join(uri, "_indices", uuid))
    verified(uri)
    assert official.call("cleanup_tables.go_on", uri=uri) == 9


@pytest.mark.parametrize("name", oracle.NAMES)
def test_official_cleans_what_pennon_wrote(oracles, tmp_path, name):
    official = oracles.get(name)
    (tmp_path / "a.csv").write_text("a,s\n" + "".join(f"{i},row {i}\n" for i in range(200)))
    for table in ("t.lance", "twin.lance"):
        for mode in ("create", "append", "overwrite", "append", "append"):
            pennon.run("write", tmp_path / table, tmp_path / "a.csv", "--mode", mode)
    theirs = official.call("cleanup_tables.clean", uri=str(tmp_path / "t.lance"), older_seconds=0)
    ours = clean(str(tmp_path / "twin.lance"), "--older-than", "0s")
    assert theirs == {key: ours[key] for key in COUNTS} and ours["versions"] == 4
    for table in ("t.lance", "twin.lance"):
        verified(str(tmp_path / table))
        assert pennon.count(tmp_path / table) == 600
        assert list(official.call("cleanup_tables.look", uri=str(tmp_path / table))) == ["main@5"]


def test_tagged_versions(oracles, tmp_path):
    uri = str(tmp_path / "t.lance")
    oracles.get("v8").call("cleanup_tables.make", uri=uri, seed=4, steps=6, refs=False)
    assert subprocess.run([oracle.python_of("v8"), "-c", "import lance, sys; lance.dataset(sys.argv[1]).tags.create('cut', 3)", uri]).returncode == 0
    with pytest.raises(pennon.Failed) as refused:
        clean(uri, "--older-than", "0s", "--error-if-tagged")
    assert refused.value.code == 2 and "1 tagged version(s) are old: 3" in refused.value.stderr
    assert clean(uri, "--before-tag", "cut")["versions"] == 2
    with pytest.raises(pennon.Failed) as missing:
        clean(uri, "--before-tag", "nope")
    assert missing.value.code == 3
    rest = [row["version"] for row in map(json.loads, pennon.run("versions", uri, "--json").decode().splitlines())]
    assert rest[0] == 3
    assert clean(uri, "--older-than", "0s")["versions"] == len(rest) - 2
    assert pennon.scan(uri, tag="cut").num_rows > 0
    verified(uri)


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_tables_of_old_releases(tmp_path, release):
    """Every fourth table: the latest version reads as before, and no file of an old version has a name that is not known."""
    with tarfile.open(release) as archive:
        archive.extractall(tmp_path, filter="data")
    tables = sorted({folder.parent for folder in tmp_path.rglob("_versions") if "tree" not in folder.parts})
    for uri in tables[::4]:
        latest = pennon.as_json("info", uri)["version"]
        before, rows = pennon.findings(uri, "--version", latest), pennon.count(uri)
        clean(uri, "--older-than", "0s", "--delete-unverified")
        assert (pennon.findings(uri, "--version", latest), pennon.count(uri)) == (before, rows)
        left = plan(uri, "--older-than", "0s", "--delete-unverified")
        assert {action for action, _, _ in left.values()} == {"keep"}
        assert [path for path, what in left.items() if what[1] == "unknown" and not path.endswith("_hint.json")] == []


def test_killed_at_any_moment(oracles, tmp_path):
    """The process dies; every version that is listed is whole, and the next run ends where an undisturbed one does."""
    whole = tmp_path / "whole.lance"
    oracles.get("v8").call("cleanup_tables.make", uri=str(whole), seed=5, steps=20, refs=False)
    expected = None
    for turn in range(12):
        uri = tmp_path / f"{turn}.lance"
        shutil.copytree(whole, uri)
        process = subprocess.Popen(pennon.command() + ["cleanup", str(uri), "--older-than", "0s"], stdout=subprocess.DEVNULL)
        if turn > 0:
            time.sleep(turn * 0.001)
            process.kill()
        process.wait()
        verified(str(uri))
        clean(str(uri), "--older-than", "0s", "--delete-unverified")
        expected = expected or files(uri)
        assert files(uri) == expected
