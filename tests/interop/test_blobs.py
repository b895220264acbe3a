# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Blob columns beyond the matrix: sizes around the thresholds, several files, appends, lists, external blobs, damage."""
import base64
import shutil

import pyarrow as pa
import pytest

import oracle
import pennon

INLINE, DEDICATED = "lance-encoding:blob-inline-size-threshold", "lance-encoding:blob-dedicated-size-threshold"
KIB, MIB = 1 << 10, 1 << 20
SMALL = {INLINE: "64", DEDICATED: "256"}
SIZES = [0, 1, 63, None, 64, 65, 255, 256, 257, 0, None, 100, 1000, 64, 0]
# Around the thresholds that are in force without metadata.
LARGE = [0, 64 * KIB - 1, None, 64 * KIB, 64 * KIB + 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 1]
releases = pytest.mark.parametrize("who", oracle.NAMES)


def value(i, size):
    return None if size is None else bytes((i * 7 + k) % 251 for k in range(min(size, 500))) + b"x" * (size - min(size, 500))


def values(sizes):
    return [value(i, size) for i, size in enumerate(sizes)]


def blob_field(name="b", metadata=None, nullable=True, ranged=True):
    parts = [pa.field("data", pa.large_binary()), pa.field("uri", pa.utf8())]
    parts += [pa.field("position", pa.uint64()), pa.field("size", pa.uint64())] if ranged else []
    return pa.field(name, pa.struct(parts), nullable, {"ARROW:extension:name": "lance.blob.v2", **(metadata or {})})


def rows_of(found):
    """bytes, a URI, (URI, position, size) or None, as rows of a blob column."""
    out = []
    for one in found:
        row = {"data": None, "uri": None, "position": None, "size": None}
        if isinstance(one, bytes):
            row["data"] = one
        elif isinstance(one, str):
            row["uri"] = one
        elif one is not None:
            row["uri"], row["position"], row["size"] = one
        out.append(None if one is None else row)
    return out


def save(path, found, field=None, batch=None):
    field = field or blob_field()
    rows = [{k: v for k, v in row.items() if field.type.get_field_index(k) >= 0} if row else row for row in rows_of(found)]
    schema = pa.schema([pa.field("a", pa.int64()), field])
    table = pa.table([pa.array(range(len(found)), pa.int64()), pa.array(rows, field.type)], schema=schema)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(table, max_chunksize=batch)
    return str(path)


def payloads(uri, **options):
    return pennon.scan(uri, columns=["b"], blobs="bytes", **options).column(0).to_pylist()


def sidecars(uri):
    """{data file's stem: {sidecar's name: bytes}}"""
    out = {}
    for path in sorted((uri / "data").glob("*/*")):
        out.setdefault(path.parent.name, {})[path.name] = path.stat().st_size
    return out


def hexes(who, found):
    """What take_blobs gives: 8.0.0 leaves nulls out."""
    return [None if v is None else v.hex() for v in found if v is not None or who != "v8"]


def official_payloads(oracles, who, uri):
    return oracles.get(who).blobs(uri=str(uri), column="b")


def refused(call, *words):
    with pytest.raises(pennon.Failed) as failure:
        call()
    assert not failure.value.crashed
    for word in words:
        assert word in failure.value.stderr, failure.value.stderr


@releases
@pytest.mark.parametrize("sizes, metadata", [(SIZES, SMALL), (LARGE, None)], ids=["small", "large"])
def test_sizes_around_the_thresholds(who, sizes, metadata, tmp_path, oracles):
    found = values(sizes)
    source = save(tmp_path / "in.arrows", found, blob_field(metadata=metadata))
    mine, theirs = tmp_path / "mine.lance", tmp_path / "theirs.lance"
    pennon.write(mine, source, data_storage_version="2.2")
    oracles.get(who).write(uri=str(theirs), ipc=source, storage="2.2")
    assert official_payloads(oracles, who, mine) == hexes(who, found)
    assert payloads(mine) == found and payloads(theirs) == found
    assert list(sidecars(mine).values()) == list(sidecars(theirs).values())
    oracles.get(who).validate(uri=str(mine))
    for uri in (mine, theirs):
        assert pennon.run("verify", uri).startswith(b"no findings: ")
        order = [len(found) - 1, 0, 3, 3, 7]
        assert pennon.take(uri, columns=["b"], blobs="bytes", rows=order).column(0).to_pylist() == [found[i] for i in order]
    # The same descriptions, but for the places of empty values: official's first one reads as null.
    here, there = (pennon.scan(uri, columns=["b"]).column(0).to_pylist() for uri in (mine, theirs))
    for size, one, other in zip(sizes, here, there):
        assert (one is None) == (other is None) == (size is None)
        if size == 0:
            assert one["position"] >= 64 and (one["kind"], one["size"]) == (other["kind"], other["size"]) == (0, 0)
        else:
            assert one == other


@releases
def test_official_shows_our_descriptions(who, tmp_path, oracles):
    uri = tmp_path / "t.lance"
    pennon.write(uri, save(tmp_path / "in.arrows", values(SIZES), blob_field(metadata=SMALL)), data_storage_version="2.2")
    oracles.get(who).scan(uri=str(uri), out=str(tmp_path / "out.arrows"))
    with pa.ipc.open_stream(str(tmp_path / "out.arrows")) as reader:
        want = reader.read_all()
    got = pennon.scan(uri)
    assert got.equals(want) and got.schema.equals(want.schema, check_metadata=True)


@releases
def test_files_appends_overwrites(who, tmp_path, oracles):
    first, second, third = values(SIZES), values(SIZES[::-1]), values([70, 300, 5])
    uri = tmp_path / "t.lance"
    pennon.write(uri, save(tmp_path / "1", first, blob_field(metadata=SMALL), batch=4), data_storage_version="2.2", max_rows_per_file=6)
    # Without metadata, and with only two parts: the thresholds are the table's.
    pennon.write(uri, save(tmp_path / "2", second, blob_field(ranged=False)), mode="append")
    oracles.get(who).write(uri=str(uri), ipc=save(tmp_path / "3", third), mode="append")
    assert payloads(uri) == first + second + third
    assert official_payloads(oracles, who, uri) == hexes(who, first + second + third)
    files = sidecars(uri)
    assert len(list((uri / "data").glob("*.lance"))) == 5 and len(files) == 5
    assert all(name.rstrip("0") in ("1", "01", "11", "001", "101") for names in files.values() for name in (n[:-5] for n in names))
    pennon.write(uri, save(tmp_path / "4", third), mode="overwrite")
    assert payloads(uri) == third and payloads(uri, version=3) == first + second + third
    assert official_payloads(oracles, who, uri) == hexes(who, third)


def test_thresholds_are_the_tables(tmp_path):
    uri = tmp_path / "t.lance"
    pennon.write(uri, save(tmp_path / "1", [b"abc"]), data_storage_version="2.2")
    pennon.write(uri, save(tmp_path / "2", [b"def"], blob_field(metadata={INLINE: "65536"})), mode="append")
    refused(lambda: pennon.write(uri, save(tmp_path / "3", [b"def"], blob_field(metadata={INLINE: "1"})), mode="append"), "threshold")
    for bad in ("x", "-1", "", "99999999999999999999"):
        refused(lambda: pennon.write(tmp_path / "n.lance", save(tmp_path / "4", [b""], blob_field(metadata={INLINE: bad})),
                                     data_storage_version="2.2"), INLINE)
    refused(lambda: pennon.write(tmp_path / "n.lance", save(tmp_path / "4", [b""], blob_field(metadata={DEDICATED: "0"})),
                                 data_storage_version="2.2"), DEDICATED)


def test_packs_roll(tmp_path, oracles):
    field = blob_field(metadata={INLINE: "10", "lance-encoding:blob-pack-file-size-threshold": "100"})
    found = values([60, 40, 1, 11, 80, 200, 9, 30])
    uri = tmp_path / "t.lance"
    pennon.write(uri, save(tmp_path / "in", found, field), data_storage_version="2.2")
    assert list(next(iter(sidecars(uri).values())).values()) == [200, 30, 91, 100] or \
        sorted(next(iter(sidecars(uri).values())).values()) == [30, 91, 100, 200]
    assert payloads(uri) == found
    for who in oracle.NAMES:
        assert official_payloads(oracles, who, uri) == hexes(who, found)


def test_wrong_rows_are_named(tmp_path):
    field, uri = blob_field(), tmp_path / "t.lance"
    good = {"data": b"x", "uri": None, "position": None, "size": None}
    wrong = [({"data": b"x", "uri": "file:///x"}, "both data and uri"), ({"data": None, "uri": ""}, "empty uri"),
             ({"data": None, "uri": "file:///x", "position": 1}, "go together"), ({"position": 1, "size": 1}, "without a uri"),
             ({"data": None, "uri": "file:///x", "position": 1, "size": 0}, "no bytes"),
             ({"data": None, "uri": "file:///x", "position": 2 ** 64 - 1, "size": 2}, "past 2^64"),
             ({"data": None, "uri": "file:///x"}, "under no base"), ({"data": None, "uri": "some/where"}, "under no base")]
    for row, text in wrong:
        table = pa.table([pa.array([good, good, good | row | ({"data": None} if "position" in row and "data" not in row else {})], field.type)],
                         schema=pa.schema([field]))
        with pa.OSFile(str(tmp_path / "in"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        refused(lambda: pennon.write(uri, tmp_path / "in", data_storage_version="2.2"), "column 'b', value 2", text)
        assert not list(tmp_path.glob("t.lance/_versions/*"))
    for kind in (pa.struct([("data", pa.binary()), ("uri", pa.utf8())]), pa.struct([("uri", pa.utf8()), ("data", pa.large_binary())]),
                 pa.struct([("data", pa.large_binary())]), pa.large_binary()):
        table = pa.table([pa.nulls(1, kind)], schema=pa.schema([pa.field("b", kind, metadata=field.metadata)]))
        with pa.OSFile(str(tmp_path / "in"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        refused(lambda: pennon.write(uri, tmp_path / "in", data_storage_version="2.2"), "column 'b'", "lance.blob.v2")
    refused(lambda: pennon.write(uri, save(tmp_path / "in", [b"x", None], blob_field(nullable=False)), data_storage_version="2.2"), "not null")
    refused(lambda: pennon.write(uri, save(tmp_path / "in", [b"x"]), data_storage_version="2.1"), "2.2")


def test_a_failed_write_leaves_no_sidecars(tmp_path):
    field, uri = blob_field(metadata=SMALL), tmp_path / "t.lance"
    found = values([100, 300, 500, 70] * 4) + ["file:///nowhere"]
    refused(lambda: pennon.write(uri, save(tmp_path / "in", found, field, batch=2), data_storage_version="2.2", max_rows_per_file=6), "value 0")
    assert not [path for path in uri.rglob("*") if path.is_file()]
    assert not list((uri / "data").iterdir())


def test_large_values_need_little_memory(tmp_path):
    """Values of both versions go through the writer and the reader although all of them would not fit."""
    found = [bytes([i]) * MIB for i in range(96)]
    v1 = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array(found, pa.large_binary())], schema=pa.schema([v1]))
    with pa.OSFile(str(tmp_path / "v1"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    save(tmp_path / "v2", found, blob_field(), batch=4)
    for name, storage in (("v1", "2.0"), ("v1", "2.1"), ("v2", "2.2")):
        uri = tmp_path / f"{storage}.lance"
        pennon.write(uri, tmp_path / name, data_storage_version=storage, memory="48M", sync="none")
        assert payloads(uri, memory="48M") == found
        assert pennon.run("verify", uri, "--memory", "48M").startswith(b"no findings: ")


@pytest.mark.parametrize("storage", ["2.2"])
def test_blobs_in_lists_and_structs(storage, tmp_path, oracles):
    """8.0.0 cannot write blobs in lists, but it shows their descriptions."""
    item = blob_field("item", SMALL)
    found = values([0, 63, None, 65, 300, 5, 70])
    blobs = pa.array(rows_of(found), item.type)
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 5, 7]), blobs, pa.list_(item))
    structs = pa.StructArray.from_arrays([pa.array([1, 2, 3, 4]), blobs.slice(1, 4)], fields=[pa.field("i", pa.int64()), item.with_name("b")],
                                         mask=pa.array([False, False, False, True]))
    table = pa.table([lists, structs], schema=pa.schema([pa.field("l", lists.type), pa.field("s", structs.type)]))
    with pa.OSFile(str(tmp_path / "in"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    want = [[found[0], found[1]], [], found[2:5], found[5:7]]
    below = [{"i": i + 1, "b": found[i + 1]} for i in range(3)] + [None]
    mine, theirs = tmp_path / "mine.lance", tmp_path / "theirs.lance"
    pennon.write(mine, tmp_path / "in", data_storage_version=storage)
    oracles.get("new").write(uri=str(theirs), ipc=str(tmp_path / "in"), storage=storage)
    for uri in (mine, theirs):
        got = pennon.scan(uri, blobs="bytes")
        assert got.column("l").to_pylist() == want and got.column("s").to_pylist() == below
        assert pennon.scan(uri, columns=["s.b"], blobs="bytes").column(0).to_pylist() == [one and one["b"] for one in below]
        assert pennon.run("verify", uri).startswith(b"no findings: ")
        oracles.get("new").scan(uri=str(uri), out=str(tmp_path / "out"), blob_handling="all_binary")
        with pa.ipc.open_stream(str(tmp_path / "out")) as reader:
            back = reader.read_all()
        assert back.column("l").to_pylist() == want and back.column("s").to_pylist() == below
    assert oracles.get("new").blobs(uri=str(mine), column="s.b") == hexes("new", [one and one["b"] for one in below])
    assert oracles.get("v8").blobs(uri=str(mine), column="s.b") == hexes("v8", [one and one["b"] for one in below])
    for who in oracle.NAMES:
        oracles.get(who).scan(uri=str(mine), out=str(tmp_path / "out"))
        with pa.ipc.open_stream(str(tmp_path / "out")) as reader:
            assert reader.read_all().column("l").to_pylist() == pennon.scan(mine).column("l").to_pylist()
    nested = pa.map_(pa.utf8(), item)
    with pa.OSFile(str(tmp_path / "in"), "wb") as sink, pa.ipc.new_stream(sink, pa.schema([pa.field("m", nested)])):
        pass
    refused(lambda: pennon.write(tmp_path / "m.lance", tmp_path / "in", data_storage_version=storage), "inside of a map")


# ---- external blobs ----

@pytest.fixture
def outside(tmp_path):
    """A folder beside the tables with two files."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.bin").write_bytes(b"0123456789" * 30)
    (folder / "sub").mkdir()
    (folder / "sub" / "b c.bin").write_bytes(b"bee")
    return folder


@releases
def test_references_below_bases(who, tmp_path, outside, oracles):
    uri = tmp_path / "t.lance"
    oracles.get(who).write(uri=str(uri), ipc=save(tmp_path / "1", [b"first"]), storage="2.2", bases=[f"file://{outside}"])
    links = [f"file://{outside}/a.bin", (f"file://{outside}/a.bin", 5, 7), None, f"{outside}/sub/b c.bin"]
    pennon.write(uri, save(tmp_path / "2", links), mode="append")
    oracles.get(who).write(uri=str(uri), ipc=save(tmp_path / "3", links), mode="append")
    want = [(outside / "a.bin").read_bytes(), b"5678901", None, b"bee"]
    assert payloads(uri) == [b"first"] + want + want
    assert official_payloads(oracles, who, uri) == hexes(who, [b"first"] + want + want)
    shown = pennon.scan(uri, columns=["b"]).column(0).to_pylist()
    assert shown[1:5] == [*shown[5:7], None, shown[8]] and shown[1]["blob_uri"] == "a.bin" and shown[1]["blob_id"] == 1
    assert pennon.run("verify", uri).startswith(b"no findings: ")
    refused(lambda: payloads(uri, external_paths="none"), "outside of it")
    refused(lambda: pennon.write(uri, save(tmp_path / "4", [f"file://{tmp_path}/1"]), mode="append"), "under no base")
    (outside / "a.bin").unlink()
    refused(lambda: payloads(uri), "a.bin")
    refused(lambda: pennon.run("verify", uri))


@releases
def test_absolute_references_are_asked_for(who, tmp_path, outside, oracles):
    links = [f"file://{outside}/a.bin", (f"file://{outside}/a.bin", 1, 3), b"inside", f"file://{outside}/sub/b c.bin"]
    want = [(outside / "a.bin").read_bytes(), b"123", b"inside", b"bee"]
    source = save(tmp_path / "in", links)
    mine, theirs = tmp_path / "mine.lance", tmp_path / "theirs.lance"
    refused(lambda: pennon.write(mine, source, data_storage_version="2.2"), "under no base")
    pennon.write(mine, source, data_storage_version="2.2", external_blobs="anywhere")
    oracles.get(who).write(uri=str(theirs), ipc=source, storage="2.2", allow_external_blob_outside_bases=True)
    assert pennon.scan(mine, columns=["b"]).equals(pennon.scan(theirs, columns=["b"]))
    assert official_payloads(oracles, who, mine) == hexes(who, want)
    for uri in (mine, theirs):
        refused(lambda: payloads(uri), "outside of it", "a.bin")
        assert payloads(uri, external_paths="all") == want
        code = subprocess_code("verify", uri)
        assert code == 1 and subprocess_code("verify", uri, "--external-paths", "all") == 0


def subprocess_code(*args):
    try:
        pennon.run(*args)
        return 0
    except pennon.Failed as failure:
        assert not failure.crashed
        return failure.code


@releases
def test_copies_of_external_blobs(who, tmp_path, outside, oracles):
    links = [f"file://{outside}/a.bin", (f"file://{outside}/a.bin", 1, 3), (f"file://{outside}/a.bin", 2, 100), b"own", f"{outside}/sub/b c.bin"]
    want = [(outside / "a.bin").read_bytes(), b"123", (b"0123456789" * 30)[2:102], b"own", b"bee"]
    source = save(tmp_path / "in", links, blob_field(metadata=SMALL))
    mine, theirs = tmp_path / "mine.lance", tmp_path / "theirs.lance"
    pennon.write(mine, source, data_storage_version="2.2", external_blobs="copy")
    oracles.get(who).write(uri=str(theirs), ipc=source, storage="2.2", external_blob_mode="ingest")
    assert pennon.scan(mine, columns=["b"]).equals(pennon.scan(theirs, columns=["b"]))
    (outside / "a.bin").unlink()
    assert payloads(mine) == want and payloads(theirs) == want
    assert official_payloads(oracles, who, mine) == hexes(who, want)
    refused(lambda: pennon.write(tmp_path / "n.lance", source, data_storage_version="2.2", external_blobs="copy"), "value 0", "a.bin")


# ---- damage ----

@pytest.fixture
def table(tmp_path):
    uri = tmp_path / "t.lance"
    pennon.write(uri, save(tmp_path / "in", values(SIZES), blob_field(metadata=SMALL)), data_storage_version="2.2")
    return uri


def findings(uri):
    try:
        pennon.run("verify", uri)
    except pennon.Failed as failure:
        assert not failure.crashed and failure.code == 1
    done = pennon._start(pennon.command() + ["verify", str(uri)], stdout=-1, stderr=-1)
    return done.stdout.decode() + done.stderr.decode()


def test_missing_and_short_sidecars_are_named(table):
    names = sorted((table / "data").glob("*/*.blob"))
    assert len(names) == 3  # one pack, two dedicated
    whole = names[-1].read_bytes()
    names[-1].write_bytes(whole[:-1])
    assert names[-1].name in findings(table)
    refused(lambda: payloads(table), names[-1].name)
    names[-1].write_bytes(whole + b"more")
    names[0].unlink()
    told = findings(table)
    assert names[0].name in told and "is missing" in told
    refused(lambda: payloads(table), names[0].name, "is missing")
    assert pennon.scan(table).num_rows == len(SIZES)
    shutil.rmtree(names[0].parent)
    assert findings(table).count("is missing") == 3


@releases
def test_blobs_of_deleted_rows_are_not_read(who, table, oracles):
    want = values(SIZES)
    oracles.get(who).delete(uri=str(table), predicate="a in (1, 8, 12)")
    left = [one for i, one in enumerate(want) if i not in (1, 8, 12)]
    assert payloads(table) == left and official_payloads(oracles, who, table) == hexes(who, left)
    assert pennon.take(table, columns=["b"], blobs="bytes", rows=[8, 0, 1]).column(0).to_pylist() == [left[8], left[0], left[1]]
    lost = [path for path in (table / "data").glob("*/*.blob") if not path.name.startswith("10")]
    assert len(lost) == 2  # the dedicated ones, of rows 8 and 12
    for path in lost:
        path.unlink()
    assert payloads(table) == left


def test_command_shows_blobs(table):
    (path,) = (table / "data").glob("*.lance")
    shown = pennon.as_json("inspect", path)
    assert [column["type"] for column in shown["columns"]] == ["int64", "lance.blob.v2"]
    assert sorted(one["size"] for one in shown["blob_files"]) == sorted(len(one.read_bytes()) for one in path.with_suffix("").iterdir())
    out = path.parent / "out.jsonl"
    pennon.run("export", table, out, "--blobs", "bytes")
    lines = [line for line in out.read_text().splitlines()]
    assert len(lines) == len(SIZES) and '"b":null' in lines[3] and base64.b64encode(value(2, 63)).decode() in lines[2]
    refused(lambda: pennon.scan(table, columns=["b.data"]), "b.data")
    with pytest.raises(pennon.Failed):
        pennon.write(table, path.parent / "out.jsonl", external_blobs="some")
