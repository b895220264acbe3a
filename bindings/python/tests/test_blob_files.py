# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Blobs as files, many at once, in DataFrames, in threads and after a fork; deltas; beside official."""
import gc
import io
import os
import pickle
import threading

import pennon
import pyarrow as pa
import pytest

V1 = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
V2 = pennon.blob_field("b", inline_size_threshold=64, dedicated_size_threshold=256)
VALUES = [b"abc", None, b"", bytes(range(100)), b"z" * 300, b"inline", None, b"packed" * 20]


def write(path, version, values=VALUES, **options):
    array = pennon.blob_array(values) if version == "2.2" else pa.array(values, pa.large_binary())
    schema = pa.schema([pa.field("id", pa.int64()), V2 if version == "2.2" else V1])
    return pennon.write_dataset(pa.table([pa.array(range(len(values))), array], schema=schema), path, data_storage_version=version, **options)


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def blobs(request, tmp_path):
    write(tmp_path / "t.lance", request.param)
    return write(tmp_path / "t.lance", request.param, mode="append")


def test_files(blobs):
    order = [4, 1, 2, 15, 3, 3, 0]
    found = blobs.take_blobs("b", indices=order)
    assert [None if file is None else file.readall() for file in found] == [(VALUES * 2)[i] for i in order]
    assert blobs.take_blobs("b", indices=[]) == [] and blobs.take_blobs("b", ids=pa.array([], pa.uint64())) == []
    assert [file.read() for file in blobs.take_blobs("b", addresses=pa.array([1 << 32 | 3, 0], pa.uint64()))] == [VALUES[3], b"abc"]
    assert [file.size() for file in blobs.take_blobs("b", ids=[0, 1 << 32])] == [3, 3]


def test_cursor(blobs):
    [file] = blobs.take_blobs("b", indices=[3])
    assert isinstance(file, io.RawIOBase) and isinstance(file, pennon.BlobFile)
    assert file.readable() and file.seekable() and not file.writable() and repr(file) == "<BlobFile size=100>"
    assert (file.read(3), file.tell(), file.read(0)) == (b"\0\1\2", 3, b"")
    assert file.seek(-2, io.SEEK_END) == 98 and file.read() == b"bc" and file.read(5) == b"" and file.readall() == b""
    assert file.seek(1) == 1 and file.seek(4, io.SEEK_CUR) == 5 and file.read(1) == b"\5"
    assert file.seek(1000) == 1000 and file.read() == b"" and file.readinto(bytearray(3)) == 0
    assert file.seek(97) and (buffer := bytearray(5)) and file.readinto(buffer) == 3 and buffer == b"abc\0\0"
    file.seek(10)
    assert file.read_range(98, 2) == b"bc" and file.read_ranges([(0, 2), (50, 0), (1, 2)]) == [b"\0\1", b"", b"\1\2"] and file.tell() == 10
    buffered = io.BufferedReader(file)
    assert buffered.read(4) == bytes(range(10, 14)) and buffered.detach() is file
    for call in (lambda: file.seek(-1), lambda: file.seek(0, 7), lambda: file.read_range(99, 2), lambda: file.read_ranges([(0, 101)])):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(OverflowError):
        file.read_range(-1, 2)
    with pytest.raises(TypeError):
        file.readinto(b"read only")
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(file)


def test_closed(blobs):
    first, second = blobs.take_blobs("b", indices=[0, 3])
    with first:
        assert not first.closed
    assert first.closed and first.size() == 3
    first.close()
    for call in (first.read, first.readall, first.tell, lambda: first.seek(0), lambda: first.read_range(0, 1), lambda: first.readinto(bytearray(1))):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert second.read() == VALUES[3]


def test_text_and_lines(tmp_path):
    ds = write(tmp_path / "t.lance", "2.2", ["zeile eins\nzeile zwei\n".encode() * 50])
    [file] = ds.take_blobs("b", indices=[0])
    assert [*io.TextIOWrapper(io.BufferedReader(file))] == ["zeile eins\n", "zeile zwei\n"] * 50


def test_many(blobs):
    found = blobs.read_blobs("b", indices=[15, 0, 1, 2, 0])
    assert found == [(1 << 32 | 7, VALUES[7]), (0, b"abc"), (1, None), (2, b""), (0, b"abc")]
    assert blobs.read_blobs("b", addresses=[3], io_buffer_size=1, preserve_order=True) == [(3, VALUES[3])]
    requests = [(3, 0, 2), (3, 98, 2), (1, 7, 9), (2, 0, 0), (7, 6, 6)]
    assert blobs.read_blob_ranges("b", requests, selector="indices") == [
        (0, 3, b"\0\1"), (1, 3, b"bc"), (2, 1, None), (3, 2, b""), (4, 7, b"packed")]
    for call, text in [
        (lambda: blobs.read_blobs("b", ids=[0], io_buffer_size=0), "greater than 0"),
        (lambda: blobs.read_blob_ranges("b", [(0, 0, 4)], selector="ids"), "Blob range end 4 exceeds blob size 3"),
        (lambda: blobs.read_blob_ranges("b", [], selector="rows"), "selector"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()


def test_what_is_refused(blobs):
    one = "Exactly one of ids, indices, or addresses must be specified"
    for error, text, call in [
        (ValueError, one, lambda: blobs.take_blobs("b")), (ValueError, one, lambda: blobs.read_blobs("b", ids=[0], indices=[0])),
        (ValueError, "the column 'id' is not a blob column", lambda: blobs.take_blobs("id", indices=[0])),
        (RuntimeError, "Field 'nope' not found", lambda: blobs.take_blobs("nope", indices=[0])),
        (ValueError, "past the end", lambda: blobs.take_blobs("b", indices=[16])),
        (OverflowError, "unsigned", lambda: blobs.take_blobs("b", indices=[-1])),
        (ValueError, "non-existent fragment: 9", lambda: blobs.take_blobs("b", addresses=[9 << 32])),
    ]:
        with pytest.raises(error, match=text):
            call()
    blobs.delete("id = 3")
    with pytest.raises(NotImplementedError, match="must not target deleted rows"):
        blobs.take_blobs("b", ids=[3])


def test_rows_by_stable_ids(tmp_path):
    ds = write(tmp_path / "t.lance", "2.2", enable_stable_row_ids=True)
    ds.update({"id": "id + 100"}, where="id IN (0, 4)")
    assert [file.read() for file in ds.take_blobs("b", ids=[4, 0, 3])] == [VALUES[4], VALUES[0], VALUES[3]]
    ds.delete("id = 3")
    with pytest.raises(ValueError, match="first missing row ID 3 was deleted or not found"):
        ds.take_blobs("b", ids=[0, 3])


def test_they_outlive_their_dataset(blobs):
    files = blobs.take_blobs("b", indices=[3, 4])
    blobs.delete("true")
    del blobs
    gc.collect()
    assert [file.read() for file in files] == [VALUES[3], VALUES[4]]


def test_threads(blobs):
    files = blobs.take_blobs("b", indices=[i for i in range(16) if (VALUES * 2)[i] is not None])
    want, wrong = [v for v in VALUES * 2 if v is not None], []

    def read():
        for _ in range(20):
            wrong.extend(1 for file, value in zip(files, want) if file.read_range(0, len(value)) != value)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_after_a_fork(blobs):
    [file] = blobs.take_blobs("b", indices=[4])
    assert file.read(10) == b"z" * 10
    child = os.fork()
    if child == 0:
        good = file.readall() == b"z" * 290 and blobs.read_blobs("b", indices=[3]) == [(3, VALUES[3])]
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0 and file.readall() == b"z" * 290


def test_frames(blobs):
    frame = blobs.to_pandas()
    assert [None if file is None else file.read() for file in frame["b"]] == VALUES * 2 and list(frame["id"]) == [*range(8)] * 2
    assert list(blobs.to_pandas(["b"], filter="id = 3", blob_mode="bytes")["b"]) == [VALUES[3]] * 2
    aliased = blobs.scanner(columns={"other": "b", "twice": "id * 2"}, limit=1).to_pandas()
    assert list(aliased.columns) == ["other", "twice"] and aliased["other"][0].read() == b"abc"
    assert blobs.to_pandas(["id"], limit=2)["id"].tolist() == [0, 1]
    assert list(blobs.to_pandas(["b", "_rowaddr"], limit=1).columns) == ["b", "_rowaddr"]


def test_frames_of_structs(tmp_path):
    field = pa.field("s", pa.struct([pa.field("n", pa.int32()), V2]))
    blob = lambda data: {"data": data, "uri": None, "position": None, "size": None}
    storage = pa.struct([pa.field("n", pa.int32()), pa.field("b", V2.type.storage_type, metadata={"ARROW:extension:name": "lance.blob.v2"})])
    rows = pa.array([{"n": 1, "b": blob(b"x" * 100)}, None, {"n": 3, "b": None}], storage)
    ds = pennon.write_dataset(pa.table([rows], schema=pa.schema([field.with_type(storage)])), tmp_path / "t.lance", data_storage_version="2.2")
    one, two, three = ds.to_pandas()["s"]
    assert (one["n"], one["b"].read(), two, three) == (1, b"x" * 100, None, {"n": 3, "b": None})
    assert ds.take_blobs("s.b", indices=[0])[0].read() == b"x" * 100


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_beside_official(version, tmp_path, official):
    ds = write(tmp_path / "t.lance", version)
    theirs = official.call("blob_ops.read", uri=str(tmp_path / "t.lance"), column="b", indices=[*range(8)], ranges=[(2, 50)])
    mine = [[file.size(), file.read().hex(), [file.read_range(2, min(50, file.size() - 2)).hex() if file.size() > 2 else ""]]
            for file in ds.take_blobs("b", indices=[*range(8)]) if file]
    assert [v for v in theirs if v and v[0]] == [v for v in mine if v[0]]


# ---- deltas ----


def ids(reader):
    return sorted(reader.read_all().column("id").to_pylist())


def test_deltas(tmp_path):
    path = tmp_path / "t.lance"
    ds = pennon.write_dataset(pa.table({"id": range(10), "v": range(10)}), path, enable_stable_row_ids=True)
    ds.update({"v": "100"}, where="id < 5")
    ds = pennon.write_dataset(pa.table({"id": range(10, 15), "v": range(5)}), path, mode="append")
    ds.delete("id IN (3, 12)")
    delta = ds.delta(compared_against=1)
    assert delta.get_inserted_rows().schema.names == ["id", "v", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    assert ids(delta.get_inserted_rows()) == [10, 11, 13, 14] and ids(delta.get_updated_rows()) == [0, 1, 2, 4]
    assert ids(delta.get_upserted_rows()) == [0, 1, 2, 4, 10, 11, 13, 14] and ids(delta.get_deleted_rows()) == [3]
    assert delta.count_rows() == {"inserted": 4, "updated": 4, "deleted": 1}
    assert [type(t.operation).__name__ for t in delta.list_transactions()] == ["Update", "Append", "Delete"]
    assert ids(ds.delta(begin_version=2, end_version=3).get_inserted_rows()) == [10, 11, 13, 14]
    assert ids(ds.delta(compared_against=4).get_inserted_rows()) == []
    assert ids(ds.delta(begin_version=0, end_version=4).get_inserted_rows()) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14]
    for keywords, text in [({}, "Must specify either"), ({"begin_version": 1}, "Must specify both"), ({"end_version": 1}, "Must specify both")]:
        with pytest.raises(ValueError, match=text):
            ds.delta(**keywords)
    with pytest.raises(ValueError, match="Can not find version 5, please check if it has been cleanup"):
        ds.delta(begin_version=3, end_version=9).list_transactions()


def test_deltas_need_stable_row_ids(ds):
    ds.delete("id = 1")
    delta = ds.delta(compared_against=1)
    assert [t.read_version for t in delta.list_transactions()] == [1]
    for call in (delta.get_inserted_rows, delta.get_updated_rows, delta.get_deleted_rows):
        with pytest.raises(NotImplementedError, match="without stable row ids"):
            call()
