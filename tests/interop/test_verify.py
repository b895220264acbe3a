# Licensed under the Apache License, Version 2.0; see LICENSE.
"""`verify`: a fault of every kind is planted, and is named with its place, once; whole tables have no findings; the work goes with the bytes."""
import json
import shutil
import struct
import subprocess
import time

import pyarrow as pa
import pytest

import lance_bytes
import pennon
import plant
import test_blobs

FOOTER = 16  # of a manifest: u64 position, u16 major, u16 minor, "LANC"
HUGE = 1_900_000_000


def verify(table, *args):
    """(exit code, findings, the rest): JSON lines, and what was said on the standard error."""
    done = subprocess.run(pennon.command() + ["verify", str(table), "--json", *args], stdin=subprocess.DEVNULL, timeout=60, capture_output=True)
    assert done.returncode in (0, 1, 2, 3, 4) and b"Sanitizer" not in done.stderr, done
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    found = [line for line in lines if "finding" in line]
    assert len(found) == len(lines) - (done.returncode in (0, 1)), lines
    return done.returncode, found, lines[-1] if done.returncode in (0, 1) else done.stderr.decode()


def fine(table, *args):
    code, found, counts = verify(table, *args)
    assert (code, found, counts["findings"]) == (0, [], 0), (found, counts)
    return counts


def save(path, table):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def words(n):
    return [f"name {i}" for i in range(n)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Tables by name, each made once and found whole; tests get copies."""
    folder, kept = tmp_path_factory.mktemp("verify"), {}

    def make(name):
        if name not in kept:
            MAKERS[name](folder / f"{name}.lance", folder / f"{name}.arrow")
            fine(folder / f"{name}.lance")
            kept[name] = folder / f"{name}.lance"
        return kept[name]
    return make


def plain(uri, source, n=3000, **options):
    pennon.write(uri, save(source, pa.table({"id": pa.array(range(n), pa.int64()), "name": words(n)})), **options)


def two(uri, source, **options):
    plain(uri, source, **options)
    pennon.write(uri, source, mode="append")


def deleted(uri, source):
    """Five rows of 100 are deleted, by an Arrow file as official writes it."""
    plain(uri, source, n=100)
    put_deletions(uri, [3, 1, 4, 15, 9])
    plant.edit_manifest(uri, lambda m: (m.update(reader_feature_flags=1, writer_feature_flags=m.get("writer_feature_flags", 0) | 1),
                                        m["fragments"][0].update(deletion_file={"file_type": 0, "read_version": 1, "id": 5, "num_deleted_rows": 5})))


def put_deletions(uri, rows):
    (uri / "_deletions").mkdir(exist_ok=True)
    batch = pa.table([pa.array(rows, pa.uint32())], schema=pa.schema([pa.field("row_id", pa.uint32(), False)]))
    with pa.OSFile(str(uri / "_deletions" / "0-1-5.arrow"), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_table(batch)


def blobs(uri, source):
    pennon.write(uri, test_blobs.save(source, test_blobs.values(test_blobs.SIZES), test_blobs.blob_field(metadata=test_blobs.SMALL)), data_storage_version="2.2")


def dictionary(uri, source):
    values = pa.DictionaryArray.from_arrays(pa.array([i % 3 for i in range(1000)], pa.int8()), pa.array(["a", "b", "c"]))
    pennon.write(uri, save(source, pa.table({"d": values})), data_storage_version="2.0")


def dictionary21(uri, source):
    values = pa.DictionaryArray.from_arrays(pa.array([i % 3 for i in range(1000)], pa.int8()), pa.array(["a", "b", "c"]))
    pennon.write(uri, save(source, pa.table({"d": values})), data_storage_version="2.1")


def lists(uri, source):
    rows = [[i] * (i % 4) for i in range(1000)]
    pennon.write(uri, save(source, pa.table({"l": pa.array(rows, pa.list_(pa.int64()))})), data_storage_version="2.0")


MAKERS = {
    "plain": plain,
    "2.0": lambda uri, source: plain(uri, source, data_storage_version="2.0"),
    "2.2": lambda uri, source: plain(uri, source, data_storage_version="2.2"),
    "short": lambda uri, source: plain(uri, source, n=10),
    "two": two,
    "stable": lambda uri, source: two(uri, source, stable_row_ids=True),
    "deleted": deleted,
    "blobs": blobs,
    "dictionary": dictionary,
    "dictionary21": dictionary21,
    "lists": lists,
}


# ---- planting ----

def change(path, edit):
    path.write_bytes(edit(path.read_bytes()))


def manifest(table):
    """The newest."""
    return plant.manifest_path(table)


def say(**fields):
    """A plant: fields of the newest manifest."""
    return lambda t: plant.edit_manifest(t, lambda m: m.update(fields))


def say_fragment(index=0, **fields):
    return lambda t: plant.edit_manifest(t, lambda m: m["fragments"][index].update(fields))


def say_file(**fields):
    return lambda t: plant.edit_manifest(t, lambda m: m["fragments"][0]["files"][0].update(fields))


def change_manifest(edit):
    return lambda t: change_path(manifest(t), edit)


def change_path(path, edit):
    with open(path, "rb") as file:
        data = edit(file.read())
    with open(path, "wb") as file:
        file.write(data)


def data_file(table):
    return sorted((table / "data").glob("*.lance"))[0]


def change_data(edit):
    return lambda t: change(data_file(t), edit)


def change_parts(edit):
    """A plant: the first data file taken apart; what is then wrong in the manifest is made right."""
    def planted(table):
        with plant.edited(data_file(table)) as parts:
            edit(parts)
        plant.sizes_as_they_are(table)
    return planted


def move_buffer(to):
    """The first buffer of column 1 begins where `to` says."""
    def edit(parts):
        parts.columns[1]["pages"][0]["buffer_offsets"][0] = to(parts)
    return change_parts(edit)


def put_ref(name, text):
    def planted(table):
        path = table / "_refs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return planted


def fill_buffer(parts, column, index, byte):
    offset, size = parts.buffer(column, 0, index)
    parts.front[offset:offset + size] = bytes([byte]) * size


def break_keys(parts):
    """Indices of a dictionary of 2.0: 255 of 3."""
    kind, tree = parts.layout(0)
    keys = tree["dictionary"]["indices"]
    while "flat" not in keys:
        keys = keys["nullable"]["no_nulls"]["values"] if "no_nulls" in keys["nullable"] else keys["nullable"]["some_nulls"]["values"]
    fill_buffer(parts, 0, keys["flat"]["buffer"].get("buffer_index", 0), 0x7f)


def shrink_dictionary(parts):
    """Of 2.1: the page says that it has fewer items than its indices use."""
    _, layout = parts.layout(0)
    layout["mini_block"]["num_dictionary_items"] = 2
    parts.set_layout(0, 0, layout)


def turn_offsets(parts):
    """End offsets of lists of 2.0 that go backwards."""
    _, tree = parts.layout(0)
    offsets = tree["list"]["offsets"]
    while "flat" not in offsets:
        offsets = offsets["nullable"]["no_nulls"]["values"]
    at, _ = parts.buffer(0, 0, offsets["flat"]["buffer"].get("buffer_index", 0))
    parts.front[at + 80:at + 88], parts.front[at + 88:at + 96] = parts.front[at + 88:at + 96], parts.front[at + 80:at + 88]


def break_text(b):
    at = b.index(b"name 7")
    return b[:at] + b"n\xffme" + b[at + 4:]


def turn_ends(parts):
    """Offsets of text in a page of 2.0."""
    _, tree = parts.layout(1)
    while "binary" not in tree:
        tree = tree["nullable"]["no_nulls"]["values"]
    ends = tree["binary"]["indices"]
    while "flat" not in ends:
        ends = ends["nullable"]["no_nulls"]["values"]
    at, _ = parts.buffer(1, 0, ends["flat"]["buffer"].get("buffer_index", 0))
    parts.front[at + 80:at + 88] = struct.pack("<Q", 5)


def break_transaction(table):
    path = manifest(table)
    file = lance_bytes.ManifestFile(path)
    at = file.manifest.get("transaction_section", file.manifest.get("old_transaction_section"))
    change_path(path, lambda b: b[:at + 4] + b"\xff" * len(file.transaction_raw) + b[at + 4 + len(file.transaction_raw):])


def spoil(pattern, edit):
    def planted(table):
        for path in table.glob(pattern):
            change(path, edit)
    return planted


def drop(pattern):
    def planted(table):
        paths = sorted(table.glob(pattern))
        assert paths
        paths[0].unlink()
    return planted


def row_ids(start, end):
    return {"inline_row_ids": {"segments": [{"range": {"start": start, "end": end}}]}}


# name: table, plant, exit code, words of the finding, place (the beginning of `file`, and what else is known of it)
FAULTS = {
    # tags and branches
    "tag of no version": ("two", put_ref("tags/gone.json", '{"version": 99, "manifestSize": 1}'), 1,
                          "tag 'gone' names version 99 of main, which is not there", "_refs/tags/gone.json", {}),
    "tag of no branch": ("two", put_ref("tags/gone.json", '{"version": 1, "manifestSize": 1, "branch": "b"}'), 1,
                         "tag 'gone' names version 1 of branch 'b', a branch that is not there", "_refs/tags/gone.json", {}),
    "tag that is no JSON": ("two", put_ref("tags/odd.json", "{"), 1, "it is no JSON", "_refs/tags/odd.json", {}),
    "branch file without keys": ("two", put_ref("branches/odd.json", "{}"), 1, "parentVersion is missing", "_refs/branches/odd.json", {}),
    "branch from no version": ("two", put_ref("branches/b.json", '{"parentVersion": 9, "createAt": 1, "manifestSize": 1}'), 1,
                               "branch 'b' begins at version 9 of main, which is not there", "_refs/branches/b.json", {}),
    "branch without versions": ("two", put_ref("branches/b.json", '{"parentVersion": 2, "createAt": 1, "manifestSize": 1}'), 1,
                                "and has no version of its own", "_refs/branches/b.json", {}),
    # counters of the manifest
    "highest fragment id": ("two", say(max_fragment_id=0), 1, "fragment 1 is above the highest fragment id", "_versions/", {"version": 2}),
    "impossible fragment id": ("two", say(max_fragment_id=2**32 - 1), 1, "no fragment can follow", "_versions/", {"version": 2}),
    "highest field id": ("two", say(max_allocated_field_id=0), 1, "a field has the id 1, above the highest field id", "_versions/", {"version": 2}),
    "next row id": ("stable", say(next_row_id=3005), 1, "fragment 1 has the row id 5999, and the next row id of the manifest is 3005", "_versions/",
                    {"version": 2}),
    "row ids twice": ("stable", say_fragment(1, **row_ids(2999, 5999)), 1, "row id 2999 is live in fragment 0 row 2999 and in fragment 1 row 0",
                      "_versions/", {"version": 2}),
    "too few row ids": ("stable", say_fragment(1, **row_ids(3000, 5000)), 1, "row ids: 2000 of them for 3000 rows", "_versions/", {"version": 2}),
    "the same fragment twice": ("two", say_fragment(1, id=0), 1, "two fragments have the same id", "_versions/", {"version": 2}),
    # manifests
    "manifest magic": ("two", change_manifest(lambda b: b[:-4] + b"LANX"), 4, "the magic number at its end is wrong", "_versions/", {}),
    "manifest short": ("two", change_manifest(lambda b: b[:len(b) // 2]), 4, "the magic number at its end is wrong", "_versions/", {}),
    "manifest length": ("two", change_manifest(lambda b: b[:-16] + struct.pack("<Q", len(b)) + b[-8:]), 4, "of its message in a file of", "_versions/", {}),
    "an old manifest": ("two", lambda t: change_path(plant.manifest_path(t, 1), lambda b: b[:-4] + b"LANX"), 1,
                        "the magic number at its end is wrong", "_versions/", {"version": 1}),
    "an old manifest of another version": ("two", lambda t: plant.edit_manifest(t, lambda m: m.update(version=7), 1), 1,
                                           "the manifest of version 1 says that it is version 7", "_versions/", {"version": 1}),
    "transaction section": ("two", break_transaction, 1, "the transaction in the manifest", "_versions/", {"version": 2}),
    "place of the transaction": ("two", say(old_transaction_section=1 << 40), 1, "does not lie in the manifest", "_versions/", {"version": 2}),
    "transaction file": ("plain", spoil("_transactions/*.txn", lambda b: b"\xff" * 9), 1, "the transaction file", "_transactions/", {"version": 1}),
    "name of the transaction file": ("plain", say(transaction_file="../x"), 1, "'../x', is no name", "_versions/", {"version": 1}),
    # data files against the manifest
    "physical rows": ("plain", say_fragment(physical_rows=2999), 1, "fragment 0: the file has 3000 rows, the manifest says 2999", "data/", {"version": 1}),
    "file size": ("plain", say_file(file_size_bytes=77), 1, "bytes, the manifest says 77", "data/", {}),
    "file version": ("plain", say_file(file_minor_version=2), 1, "the file is of version 2.1, the manifest says 2.2", "data/", {}),
    "column that is not there": ("plain", say_file(column_indices=[0, 9]), 1, "in column 9 of 2", "data/", {}),
    "data missing": ("two", drop("data/*.lance"), 1, "cannot be opened", "data/", {"version": 2}),
    "data magic": ("plain", change_data(lambda b: b[:-4] + b"LANX"), 1, "the last four bytes are not LANC", "data/", {}),
    "data short": ("plain", change_data(lambda b: b[:len(b) // 2]), 1, "the last four bytes are not LANC", "data/", {}),
    "data longer": ("plain", change_data(lambda b: b"\0" * 64 + b), 1, "of an offset table", "data/", {}),
    # deletion files
    "deletions missing": ("deleted", drop("_deletions/*"), 1, "No such file", "_deletions/0-1-5.arrow", {}),
    "deletions of another number": ("deleted", lambda t: put_deletions(t, [3, 1, 4]), 1, "holds 3 rows, the manifest says 5", "_deletions/0-1-5.arrow", {}),
    "deletions outside": ("deleted", lambda t: put_deletions(t, [3, 1, 4, 15, 100]), 1, "has 100 rows, and row 100 is deleted", "_deletions/0-1-5.arrow", {}),
    "deletions that are none": ("deleted", spoil("_deletions/*", lambda b: b"ARROW1" + b"\1" * 50), 1, "fragment 0", "_deletions/0-1-5.arrow", {}),
    # blobs
    "blob file missing": ("blobs", drop("data/*/*.blob"), 1, "is missing", "data/", {}),
    "blob file short": ("blobs", lambda t: change(sorted(t.glob("data/*/*.blob"))[0], lambda b: b[:-1]), 1, "which has", "data/", {}),
    # pages
    "page behind the file": ("plain", move_buffer(lambda p: 1 << 40), 1, f"bytes at {1 << 40}", "data/", {"column": 1, "page": 0}),
    "pages overlap": ("plain", move_buffer(lambda p: p.buffer(0, 0, 1)[0] + 64), 1, "overlaps buffer 1 of page 0 of column 0", "data/", {"column": 1, "page": 0}),
    "page in the metadata": ("plain", move_buffer(lambda p: (len(p.front) + 63) // 64 * 64), 1, "overlaps", "data/", {"column": 1, "page": 0}),
    "page not aligned": ("plain", move_buffer(lambda p: p.buffer(1, 0, 0)[0] + 8), 1, "which is no multiple of 64", "data/", {"column": 1, "page": 0}),
    "rows of pages": ("plain", change_parts(lambda p: p.columns[1]["pages"][0].update(length=2999)), 1, "pages of 2999 rows in a file of 3000", "data/",
                      {"column": 1}),
    "rows of the file": ("plain", change_parts(lambda p: p.descriptor.update(length=2000)), 1, "the file has 2000 rows, the manifest says 3000", "data/", {}),
    "page of an unknown kind": ("plain", change_parts(lambda p: p.set_layout(1, 0, {})), 1, "field 'name'", "data/", {"column": 1, "page": 0}),
    # values
    "text that is none": ("short", change_data(break_text), 1, "UTF-8", "data/", {}),
    "text that is none, 2.0": ("2.0", change_data(break_text), 1, "UTF-8", "data/", {}),
    "text offsets": ("2.0", change_parts(turn_ends), 1, "field 'name'", "data/", {"column": 1, "page": 0}),
    "dictionary indices": ("dictionary", change_parts(break_keys), 1, "field 'd'", "data/", {"column": 0, "page": 0}),
    "dictionary items": ("dictionary21", change_parts(shrink_dictionary), 1, "field 'd'", "data/", {"column": 0, "page": 0}),
    "list offsets": ("lists", change_parts(turn_offsets), 1, "field 'l'", "data/", {"column": 0, "page": 0}),
}
# What one plant makes wrong in more than one way: the other findings begin so.
MORE = {
    "branch from no version": ["branch 'b'"],
    "blob file short": ["column 'b'", "the blob file"],
    "pages overlap": ["buffer", "field 'name'"],
    "page in the metadata": ["buffer", "field 'name'"],
    "page not aligned": ["buffer", "field 'name'"],
    "rows of the file": ["pages of 3000"],
    "data longer": [],
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(made, tmp_path, name):
    source, planted, want, text, place, known = FAULTS[name]
    table = tmp_path / "t.lance"
    shutil.copytree(made(source), table)
    planted(table)
    code, found, rest = verify(table)
    assert code == want, (code, found, rest)
    if code == 4:
        assert text in rest and place in rest, rest
        return
    named = [f for f in found if text in f["finding"]]
    assert len(named) == 1, found
    assert named[0]["file"].startswith(place), named
    assert {key: named[0][key] for key in known} == known, named
    others = [f["finding"] for f in found if f is not named[0]]
    assert all(any(o.startswith(begin) for begin in MORE.get(name, [])) for o in others), others


# ---- faults that only official's tables have a place for ----

@pytest.fixture(scope="module")
def official(oracles, tmp_path_factory):
    folder, kept = tmp_path_factory.mktemp("official"), {}

    def make(name, who="v8"):
        if (name, who) not in kept:
            uri = folder / f"{name}-{who}.lance"
            oracles.get(who).call(f"feature_tables.{name}", uri=str(uri))
            fine(uri)
            kept[name, who] = uri
        return kept[name, who]
    return make


def test_a_fault_in_a_branch(official, tmp_path):
    table = tmp_path / "t.lance"
    shutil.copytree(official("branches"), table)
    assert fine(table)["branches"] > 2
    path = next((table / "tree" / "exp" / "one" / "data").glob("*.lance"))
    path.unlink()
    code, found, _ = verify(table)
    assert code == 1 and [f["file"] for f in found] == [f"tree/exp/one/data/{path.name}"], found
    assert found[0]["uri"].endswith("t.lance/tree/exp/one")
    code, alone, _ = verify(table, "--branch", "exp/one")
    assert (code, alone) == (1, found)
    fine(table, "--version", "1")


@pytest.mark.parametrize("who", ["v8", "new"])
def test_an_index_without_its_folder(official, tmp_path, who):
    table = tmp_path / "t.lance"
    shutil.copytree(official("indices", who), table)
    indices = lance_bytes.latest(str(table)).indices["indices"]
    gone = next(i for i in indices if i["name"] == "by_a")
    folder = table / "_indices" / __import__("uuid").UUID(bytes=gone["uuid"]["uuid"]).hex
    folder = next(p for p in (table / "_indices").iterdir() if p.name.replace("-", "") == folder.name)
    shutil.rmtree(folder)
    code, found, _ = verify(table)
    assert code == 1 and [(f["finding"], f["file"]) for f in found] == [("the folder of index 'by_a' is not there", f"_indices/{folder.name}")], found


@pytest.mark.parametrize("who", ["v8", "new"])
def test_files_of_an_index(official, tmp_path, who):
    table = tmp_path / "t.lance"
    shutil.copytree(official("indices", who), table)
    zone, lookup = next((table / "_indices").glob("*/zonemap.lance")), next((table / "_indices").glob("*/page_lookup.lance"))
    size = zone.stat().st_size
    change(zone, lambda b: b + b"x")
    lookup.unlink()
    code, found, _ = verify(table)
    want = {(f"the file of index 'zone_a' has {size + 1} bytes, the manifest says {size}", str(zone.relative_to(table))),
            ("a file of index 'by_a' is not there", str(lookup.relative_to(table)))}
    assert code == 1 and {(f["finding"], f["file"]) for f in found} == want, found


# ---- the answers ----

def test_answers_of_a_whole_table(made):
    counts = fine(made("two"))
    files = sorted(p.stat().st_size for p in (made("two") / "data").glob("*.lance"))
    want = {"findings": 0, "branches": 1, "tags": 0, "versions": 2, "fragments": 2, "data_files": 2, "deletion_files": 0, "pages": 4, "rows": 6000,
            "bytes": sum(files)}
    assert counts == want
    assert pennon.run("verify", made("two")).decode().startswith("no findings: 1 branch, 0 tags, 2 versions, 2 fragments, 2 data files, ")
    assert fine(made("two"), "--version", "1")["versions"] == 1
    assert fine(data_file(made("two")), "--file") == {"findings": 0, "data_files": 1, "pages": 2, "rows": 3000, "bytes": files[0]}


# ---- the work goes with the bytes ----

def huge(parts, keep):
    """All columns but those of one value go, and those have as many rows as a fragment can have."""
    fields = parts.descriptor["schema"]["fields"]
    parts.descriptor["schema"]["fields"] = [fields[i] for i in keep]
    parts.columns = [parts.columns[i] for i in keep]
    parts.descriptor["length"] = HUGE
    for column in parts.columns:
        column["pages"][0]["length"] = HUGE


@pytest.mark.parametrize("version,keep", [("2.0", [0]), ("2.1", [0]), ("2.2", [0]), ("2.2", [1]), ("2.2", [0, 1])])
def test_a_small_file_of_many_rows_takes_no_time(tmp_path, version, keep):
    uri = tmp_path / "t.lance"
    rows = pa.table({"none": pa.array([None] * 100, pa.int64()), "seven": pa.array([7] * 100, pa.int64())})
    pennon.write(uri, save(tmp_path / "in", rows), data_storage_version=version, stable_row_ids=True)
    with plant.edited(data_file(uri)) as parts:
        huge(parts, keep)

    def edit(m):
        m["fields"] = [m["fields"][i] for i in keep]
        m["next_row_id"] = HUGE
        fragment = m["fragments"][0]
        fragment["physical_rows"] = HUGE
        fragment["files"][0].update(fields=[m["fields"][i].get("id", 0) for i in range(len(keep))], column_indices=list(range(len(keep))))
        fragment.update(row_ids(0, HUGE))
        for key in ("inline_created_at_versions", "inline_last_updated_at_versions"):
            fragment[key] = {"runs": [{"span": {"range": {"start": 0, "end": HUGE}}, "version": 1}]}
    plant.edit_manifest(uri, edit)
    plant.sizes_as_they_are(uri)
    began = time.monotonic()
    assert fine(uri)["rows"] == HUGE
    assert fine(data_file(uri), "--file")["rows"] == HUGE
    assert time.monotonic() - began < 2
    plant.edit_manifest(uri, lambda m: m["fragments"][0].update(inline_row_ids={"segments": [
        {"range_with_holes": {"start": 0, "end": HUGE + 1, "holes": {"u64_array": {"values": struct.pack("<Q", 17)}}}}]}) or m.update(next_row_id=HUGE + 1))
    began = time.monotonic()
    fine(uri)
    assert time.monotonic() - began < 2
