# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Blobs one by one, beside official: bytes and parts of every kind and version, rows by all selectors, other bases; updates that move blobs; deltas."""
import json

import pyarrow as pa
import pytest

import oracle
import pennon
from test_blobs import LARGE, SIZES, SMALL, blob_field, outside, releases, save, values

__all__ = ["outside"]
RANGES = [(0, 1), (3, 60), (62, 5), (0, 10**7), (10**6, 3), (50, 10**6)]
V1 = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})


def save_v1(path, found):
    table = pa.table([pa.array(range(len(found)), pa.int64()), pa.array(found, pa.large_binary())],
                     schema=pa.schema([pa.field("a", pa.int64()), V1]))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


def get(uri, *args, column="b", code=0):
    """Bytes that `blob get` gives; None for a null."""
    try:
        return pennon.run("blob", "get", uri, "--column", column, *args)
    except pennon.Failed as failure:
        assert not failure.crashed and failure.code == 3 and "null" in failure.stderr, failure.stderr
        return None


def refused(code, *args, text=""):
    with pytest.raises(pennon.Failed) as failure:
        pennon.run("blob", *args)
    assert not failure.value.crashed and failure.value.code == code and text in failure.value.stderr, failure.value.stderr


def listing(uri, *args, column="b"):
    return [json.loads(line) for line in pennon.run("blob", "list", uri, "--column", column, "--json", *args).splitlines()]


def check(uri, found, who, oracles, start=0):
    """Each value by its position: whole, in parts, and as official reads it."""
    for i, value in enumerate(found):
        assert get(uri, "--row", start + i) == value
        for offset, length in RANGES if value is not None and len(value) < 10**6 else []:
            if offset > len(value):
                refused(2, "get", uri, "--column", "b", "--row", start + i, "--offset", offset, text="past the end")
            else:
                assert get(uri, "--row", start + i, "--offset", offset, "--length", length) == value[offset:offset + length]
    theirs = oracles.get(who).call("blob_ops.read", uri=str(uri), column="b", indices=list(range(start, start + len(found))), ranges=RANGES)
    want = [None if v is None else [len(v), v.hex(), [v[o:o + n].hex() for o, n in RANGES]] for v in found]
    if who == "v8":  # its nulls of v1 are empty blobs, and of v2 it leaves nulls and some empty blobs out
        theirs, want = ([v for v in each if v and v[0]] for each in (theirs, want))
    assert theirs == want


@releases
@pytest.mark.parametrize("storage", ["2.0", "2.1", "2.2"])
def test_values_of_both_writers(who, storage, tmp_path, oracles):
    found = values(SIZES)
    source = save(tmp_path / "in", found, blob_field(metadata=SMALL)) if storage == "2.2" else save_v1(tmp_path / "in", found)
    mine, theirs = tmp_path / "mine.lance", tmp_path / "theirs.lance"
    for mode in ("create", "append"):
        pennon.write(mine, source, mode=mode, data_storage_version=storage)
        oracles.get(who).write(uri=str(theirs), ipc=source, mode=mode, storage=storage)
    for uri in (mine, theirs):
        check(uri, found + found, who, oracles)
        rows = listing(uri)
        assert [row["size"] for row in rows] == [None if v is None else len(v) for v in found + found]
        assert [row["row_address"] for row in rows] == [f << 32 | i for f in (0, 1) for i in range(len(found))]
        kinds = ["inline" if storage != "2.2" or n <= 64 else "packed" if n <= 256 else "dedicated" for n in (len(v or b"") for v in found)]
        assert [row["kind"] for row in rows] == [None if v is None else kind for v, kind in zip(found, kinds)] * 2
        assert [row["index"] for row in listing(uri, "--offset", 3, "--limit", 2)] == [0, 1]


def test_values_over_the_thresholds(tmp_path, oracles):
    found = values(LARGE)
    uri = tmp_path / "t.lance"
    pennon.write(uri, save(tmp_path / "in", found), data_storage_version="2.2")
    for i, value in enumerate(found):
        assert get(uri, "--row", i) == value
        if value:
            half = len(value) // 2
            assert get(uri, "--row", i, "--offset", half, "--length", 1000) == value[half:half + 1000]


@releases
@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
def test_rows_by_every_selector(who, stable, tmp_path, oracles):
    found = values(SIZES)
    uri = tmp_path / "t.lance"
    source = save(tmp_path / "in", found, blob_field(metadata=SMALL))
    oracles.get(who).write(uri=str(uri), ipc=source, storage="2.2", **({"enable_stable_row_ids": True} if stable else {}))
    oracles.get(who).write(uri=str(uri), ipc=source, mode="append")
    oracles.get(who).call("blob_ops.delete", uri=str(uri), where="a IN (4, 7)")
    n = len(found)
    live = [(f, i) for f in (0, 1) for i in range(n) if i not in (4, 7)]
    for at, (fragment, i) in enumerate(live):
        ids = fragment * n + i if stable else fragment << 32 | i
        assert get(uri, "--row", at) == get(uri, "--address", fragment << 32 | i) == get(uri, "--row-id", ids) == found[i]
    assert [row["row_address"] for row in listing(uri)] == [f << 32 | i for f, i in live]
    refused(1, "get", uri, "--column", "b", "--address", 4, text="must not target deleted rows")
    refused(2 if stable else 1, "get", uri, "--column", "b", "--row-id", 4, text="deleted")
    refused(2, "get", uri, "--column", "b", "--address", 9 << 32, text="non-existent fragment: 9")
    refused(2, "get", uri, "--column", "b", "--row", len(live), text="past the end")
    refused(2, "get", uri, "--column", "a", "--row", 0, text="the column 'a' is not a blob column")
    refused(2, "get", uri, "--column", "b", text="exactly one of --row")
    assert get(uri, "--row", 4, "--version", 2) == found[4]


@releases
def test_bases_branches_and_clones(who, tmp_path, outside, oracles):
    """Files of other bases, of a parent branch and of a clone's source; external blobs by the rule of scans."""
    uri, clone, found = tmp_path / "t.lance", tmp_path / "c.lance", values(SIZES)
    source = save(tmp_path / "in", found, blob_field(metadata=SMALL))
    oracles.get(who).write(uri=str(uri), ipc=source, storage="2.2", bases=[f"file://{outside}"])
    links = [f"file://{outside}/a.bin", (f"file://{outside}/a.bin", 5, 7), None]
    pennon.write(uri, save(tmp_path / "2", links, blob_field(metadata=SMALL)), mode="append")
    pennon.run("branch", "create", uri, "side")
    pennon.run("clone", uri, clone, "--shallow")
    n = len(found)
    want = [(outside / "a.bin").read_bytes(), b"5678901", None]
    for at, args in ((uri, []), (uri, ["--branch", "side"]), (clone, [])):
        for i in (1, 6, 8, 11, 12):
            assert get(at, "--row", i, *args) == found[i]
        assert [get(at, "--row", n + i, *args) for i in range(3)] == want
        rows = listing(at, "--offset", n, *args)
        assert [(row["kind"], row["size"], row["position"], row["uri"]) for row in rows] == [
            ("external", None, 0, "a.bin"), ("external", 7, 5, "a.bin"), (None, None, None, None)]
    refused(2, "get", uri, "--column", "b", "--row", n, "--external-paths", "none", text="outside of it")
    (outside / "a.bin").write_bytes(b"short")
    refused(4, "get", uri, "--column", "b", "--row", n + 1, text="'a.bin', which has 5")
    assert get(uri, "--row", n) == b"short"
    (outside / "a.bin").unlink()
    refused(3, "get", uri, "--column", "b", "--row", n, text="a.bin")


def test_nested_and_renamed(tmp_path):
    struct = pa.field("s", pa.struct([pa.field("n", pa.int32()), blob_field("b", SMALL)]))
    rows = [{"n": 1, "b": {"data": b"x" * 100, "uri": None, "position": None, "size": None}}, None, {"n": 3, "b": None}]
    table = pa.table([pa.array(rows, struct.type)], schema=pa.schema([struct]))
    with pa.OSFile(str(tmp_path / "in"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    uri = tmp_path / "t.lance"
    pennon.write(uri, tmp_path / "in", data_storage_version="2.2")
    assert [get(uri, "--row", i, column="s.b") for i in range(3)] == [b"x" * 100, None, None]
    refused(2, "get", uri, "--column", "s", "--row", 0, text="the column 's' is not a blob column")


def test_files_are_put_in_place(tmp_path):
    uri, to = tmp_path / "t.lance", tmp_path / "out.bin"
    pennon.write(uri, save(tmp_path / "in", [b"x" * 5_000_000, b"", None]), data_storage_version="2.2")
    pennon.run("blob", "get", uri, "--column", "b", "--row", 0, "-o", to)
    assert to.read_bytes() == b"x" * 5_000_000 and to.stat().st_mode & 0o777 == 0o644
    [sidecar] = (uri / "data").glob("*/*.blob")
    sidecar.write_bytes(b"short")
    refused(4, "get", uri, "--column", "b", "--row", 0, "-o", to, text="which has 5")
    refused(3, "get", uri, "--column", "b", "--row", 2, "-o", to, text="null")
    assert to.stat().st_size == 5_000_000
    pennon.run("blob", "get", uri, "--column", "b", "--row", 1, "-o", to)
    assert to.read_bytes() == b""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.bin", "t.lance"]


def test_a_part_of_a_gibibyte_needs_little_memory(tmp_path):
    """A file with a hole of 1 GiB, that a descriptor names: a part is read, and nothing else."""
    uri = tmp_path / "t.lance"
    big = tmp_path / "big.bin"
    with open(big, "wb") as file:
        file.truncate(1 << 30)
        file.seek((1 << 30) - 5)
        file.write(b"tail!")
    pennon.write(uri, save(tmp_path / "in", [f"file://{big}"]), data_storage_version="2.2", external_blobs="anywhere")
    allow = ["--external-paths", "all", "--memory", "4M"]
    assert get(uri, "--row", 0, "--offset", (1 << 30) - 7, *allow) == b"\0\0tail!"
    assert get(uri, "--row", 0, "--offset", 12345, "--length", 3, *allow) == b"\0\0\0"
    # The same as a blob of the table's own, and all of it in pieces.
    own = tmp_path / "own.lance"
    with open(big, "r+b") as file:
        file.truncate(1 << 28)
        file.seek((1 << 28) - 5)
        file.write(b"tail!")
    pennon.write(own, save(tmp_path / "in", [f"file://{big}"]), data_storage_version="2.2", external_blobs="copy", sync="none")
    assert get(own, "--row", 0, "--offset", (1 << 28) - 7, "--memory", "4M") == b"\0\0tail!"
    pennon.run("blob", "get", own, "--column", "b", "--row", 0, "-o", tmp_path / "out", "--memory", "4M")
    with open(tmp_path / "out", "rb") as file:
        assert file.seek(0, 2) == 1 << 28 and file.seek(-5, 2) and file.read() == b"tail!"


# ---- updates ----


def update(uri, sets, where):
    return pennon.as_json("update", uri, *[arg for pair in sets.items() for arg in ("--set", "=".join(pair))], "--where", where)["rows_updated"]


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
@pytest.mark.parametrize("storage", ["2.0", "2.1", "2.2"])
def test_updates_move_blobs(storage, stable, tmp_path, outside, oracles):
    """Ours and, where it can, official's, on one table by turns; each reads the other's, and official checks, compacts and goes on."""
    who = "new" if "new" in oracle.NAMES else oracle.NAMES[-1]
    official = oracles.get(who)
    call = lambda function, **args: official.call("blob_ops." + function, uri=str(uri), **args)
    uri, found = tmp_path / "t.lance", values(SIZES)
    v2 = storage == "2.2"
    source = save(tmp_path / "in", found, blob_field(metadata=SMALL)) if v2 else save_v1(tmp_path / "in", found)
    pennon.write(uri, source, data_storage_version=storage, **({"stable_row_ids": True} if stable else {}))
    pennon.write(uri, source, mode="append")
    n = len(found)

    def same():
        order = pennon.scan(uri, columns=["a"]).column(0).to_pylist()
        payloads = pennon.scan(uri, columns=["b"], blobs="bytes").column(0).to_pylist()
        assert payloads == [found[a % 1000 % n] for a in order]
        theirs = call("read", column="b", indices=list(range(len(order))))
        assert [v and v[1] for v in theirs] == [None if v is None else v.hex() for v in payloads]
        assert not pennon.findings(uri)
        official.validate(uri=str(uri))
        return order

    assert update(uri, {"a": "a + 3000"}, "a % 3 = 1") == call("update", sets={"a": "a + 3000"}, where="a % 3 = 2")
    assert sorted(same()) == sorted(2 * [a if a % 3 == 0 else a + 3000 for a in range(n)])
    call("delete", where="a = 3 OR a = 3004")
    assert update(uri, {"a": "a + 3000"}, "a < 3010 AND a > 2") > 0
    same()
    call("compact")
    same()
    update(uri, {"a": "a"}, "true")
    assert len(same()) == 2 * n - 4
    refused_update(uri, "b")


def refused_update(uri, column):
    with pytest.raises(pennon.Failed) as failure:
        update(uri, {column: "NULL"}, "true")
    assert "which holds blobs" in failure.value.stderr


@pytest.mark.parametrize("who", ["v8"])
def test_updates_keep_references(who, tmp_path, outside, oracles):
    uri = tmp_path / "t.lance"
    oracles.get(who).write(uri=str(uri), ipc=save(tmp_path / "1", [b"first"]), storage="2.2", bases=[f"file://{outside}"])
    inside = f"file://{outside}/a.bin"
    pennon.write(uri, save(tmp_path / "2", [inside, (inside, 5, 7)]), mode="append")
    pennon.write(uri, save(tmp_path / "3", [f"file://{tmp_path}/1"]), mode="append", external_blobs="anywhere")
    before = pennon.scan(uri, columns=["b"]).column(0).to_pylist()
    assert update(uri, {"a": "a + 1"}, "true") == 4
    after = pennon.scan(uri, columns=["b"]).column(0).to_pylist()
    assert after == before
    assert [get(uri, "--row", i) for i in range(3)] == [b"first", (outside / "a.bin").read_bytes(), b"5678901"]


def test_blobs_in_lists_do_not_move(tmp_path):
    field = pa.field("l", pa.list_(blob_field("item", SMALL)))
    rows = [[{"data": b"x" * 100, "uri": None, "position": None, "size": None}], None]
    table = pa.table([pa.array([1, 2]), pa.array(rows, field.type)], schema=pa.schema([pa.field("a", pa.int64()), field]))
    with pa.OSFile(str(tmp_path / "in"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    uri = tmp_path / "t.lance"
    pennon.write(uri, tmp_path / "in", data_storage_version="2.2")
    with pytest.raises(pennon.Failed, match="column 'l', which holds blobs in lists"):
        update(uri, {"a": "a + 1"}, "true")


def test_failed_updates_leave_no_files(tmp_path):
    uri = tmp_path / "t.lance"
    pennon.write(uri, save(tmp_path / "in", values(SIZES), blob_field(metadata=SMALL)), data_storage_version="2.2")
    files = sorted(p for p in uri.rglob("*"))
    with pytest.raises(pennon.Failed):
        update(uri, {"a": "1 / (14 - a)"}, "true")
    assert sorted(p for p in uri.rglob("*")) == files


def test_updates_of_large_blobs_need_little_memory(tmp_path):
    uri = tmp_path / "t.lance"
    big = [bytes([i]) * (40 << 20) for i in range(3)] + [b"s" * 70_000] * 50
    pennon.write(uri, save(tmp_path / "in", big), data_storage_version="2.2")
    pennon.run("update", uri, "--set", "a=a+1", "--memory", "24M")
    assert [get(uri, "--row", i) == big[i] for i in (0, 2, 52)] == [True] * 3


# ---- deltas ----


def delta(uri, *args):
    return [json.loads(line) for line in pennon.run("delta", uri, *map(str, args), "--json").splitlines()]


@releases
@pytest.mark.parametrize("storage", ["2.0", "2.1", "2.2"])
def test_deltas_are_the_same(who, storage, tmp_path, oracles):
    """Every range of a history by both, with the dataset at its end: rows, their system columns, transactions."""
    official = oracles.get(who)
    uri = tmp_path / "t.lance"
    call = lambda function, **args: official.call("mutation_ops." + function, uri=str(uri), **args)
    call("make", storage=storage, stable=True)
    call("update", sets={"a": "7"}, where="id % 5 = 0")
    pennon.as_json("update", uri, "--set", "a=a+1", "--where", "id % 7 = 0")
    pennon.as_json("delete", uri, "--where", "id IN (7, 8, 25)")
    call("append", first=30, n=12)
    call("compact")
    pennon.as_json("update", uri, "--set", "s='new'", "--where", "id > 28")
    last = len(pennon.run("versions", uri, "--json").splitlines())
    rows_at = {v: {row["_rowid"]: row for row in pennon.scan(uri, columns=["id", "a", "_rowid"], version=v).to_pylist()} for v in range(1, last + 1)}
    for end in range(1, last + 1):
        for begin in range(1, end + 1):
            inserted, updated, transactions = official.call("blob_ops.delta", uri=str(uri), version=end, begin=begin, end=end)
            bounds = ["--from", begin, "--to", end]
            names = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
            for kind, want in (("inserted", inserted), ("updated", updated)):
                assert delta(uri, *bounds, "--kind", kind, "--columns", "id") == [{name: row[name] for name in names} for row in want]
            key = lambda row: row["_rowid"]
            assert sorted(delta(uri, *bounds, "--kind", "upserted", "--columns", "id"), key=key) == sorted(inserted + updated, key=key)
            assert [[t["read_version"], t["uuid"], t["operation"]] for t in delta(uri, *bounds, "--kind", "transactions")] == [
                [read, uuid, "ReserveFragments" if operation == "BaseOperation" else operation] for read, uuid, operation in transactions]
            gone = [row for id, row in rows_at[begin].items() if id not in rows_at[end]]
            deleted = delta(uri, *bounds, "--kind", "deleted", "--columns", "id,a")
            assert [{name: row[name] for name in ("id", "a", "_rowid")} for row in deleted] == gone
            [counts] = delta(uri, *bounds)
            assert counts == {"begin": begin, "end": end, "inserted": len(inserted), "updated": len(updated), "deleted": len(gone)}


def test_deltas_that_are_refused(tmp_path, oracles):
    uri = tmp_path / "t.lance"
    oracles.get("v8").call("mutation_ops.make", uri=str(uri), storage="2.1", stable=False)

    def fails(code, *args, text):
        with pytest.raises(pennon.Failed) as failure:
            pennon.run("delta", uri, *args)
        assert not failure.value.crashed and failure.value.code == code and text in failure.value.stderr, failure.value.stderr

    fails(1, "--from", "1", text="without stable row ids")
    fails(1, "--from", "1", "--kind", "deleted", text="without stable row ids")
    fails(2, text="--from says")
    fails(2, "--from", "1", "--kind", "updatd", text="did you mean updated?")
    fails(2, "--from", "soon", text="a version or a time")
    fails(2, "--from", "1", "--to", "2026-01-01", text="both versions or both times")
    fails(3, "--from", "1", "--to", "9", text="9")
    fails(2, "--from", "3", "--to", "2", text="--from 3 is behind 2")
    assert [t["version"] for t in delta(uri, "--from", "1", "--kind", "transactions")] == [2, 3]
    assert [t["version"] for t in delta(uri, "--from", "2020-01-01", "--kind", "transactions")] == [1, 2, 3]
