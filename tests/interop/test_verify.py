# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Planted faults of each kind: `verify` names each with its place, once, and answers 1, or 4 where the table cannot be opened."""
import shutil
import struct
import subprocess

import pytest

import pennon

FOOTER = 16  # u64 position of the manifest, u16 major, u16 minor, "LANC"


def verify(table):
    done = subprocess.run(pennon.command() + ["verify", str(table)], stdin=subprocess.DEVNULL, timeout=60, capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    (folder / "a.csv").write_text("id,name\n" + "".join(f"{i},name {i}\n" for i in range(3000)))
    for mode in ("create", "append"):
        subprocess.run(pennon.command() + ["write", str(folder / "t.lance"), str(folder / "a.csv"), "--mode", mode,
                                           "--stable-row-ids"][:None if mode == "create" else -1], check=True)
    assert verify(folder / "t.lance")[0] == 0
    return folder / "t.lance"


def manifest(table):
    """The newest: names count down."""
    return min((table / "_versions").glob("*.manifest"))


def add_to_manifest(table, field):
    """The last value of a protobuf field counts: one more is put at the end of the message."""
    data = manifest(table).read_bytes()
    at = struct.unpack_from("<Q", data, len(data) - FOOTER)[0]
    size = struct.unpack_from("<I", data, at)[0]
    end = at + 4 + size
    manifest(table).write_bytes(data[:at] + struct.pack("<I", size + len(field)) + data[at + 4:end] + field + data[end:])


def change(path, edit):
    path.write_bytes(edit(path.read_bytes()))


def data_file(table):
    return sorted((table / "data").glob("*.lance"))[0]


FAULTS = {
    "highest fragment id": (lambda t: add_to_manifest(t, b"\x58\x00"), 1, "fragment 1 is above the highest fragment id", ".manifest"),
    "next row id": (lambda t: add_to_manifest(t, b"\x70\x05"), 1, "and the next row id of the manifest is 5", ".manifest"),
    "data magic": (lambda t: change(data_file(t), lambda b: b[:-4] + b"LANX"), 1, "the last four bytes are not LANC", "data/"),
    "data missing": (lambda t: data_file(t).unlink(), 1, "cannot be opened", "data/"),
    "data short": (lambda t: change(data_file(t), lambda b: b[:len(b) // 2]), 1, "the last four bytes are not LANC", "data/"),
    "data longer": (lambda t: change(data_file(t), lambda b: b"\0" * 64 + b), 1, "of an offset table", "data/"),
    "manifest magic": (lambda t: change(manifest(t), lambda b: b[:-4] + b"LANX"), 4, "the magic number at its end is wrong", ".manifest"),
    "manifest short": (lambda t: change(manifest(t), lambda b: b[:len(b) // 2]), 4, "the magic number at its end is wrong", ".manifest"),
    "manifest length": (lambda t: change(manifest(t), lambda b: b[:-16] + struct.pack("<Q", len(b)) + b[-8:]), 4, "of its message in a file of", ".manifest"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(whole, tmp_path, name):
    plant, code, words, place = FAULTS[name]
    table = tmp_path / "t.lance"
    shutil.copytree(whole, table)
    plant(table)
    got, out, message = verify(table)
    text = out + message
    assert (got, words in text, place in text) == (code, True, True), text
    if name in ("data magic", "data missing"):
        assert text.count(words) == 1, text
