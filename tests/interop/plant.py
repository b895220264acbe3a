# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Writes Lance's bytes with a fault in them: messages encoded by the tables of lance_bytes, manifests and data files put together again.

    edit_manifest(table, lambda m: m.update(max_fragment_id=0))     the newest manifest, or another by version=
    with edited(path) as file:                                      a data file of 2.x: descriptor, columns and their pages as dicts
        file.columns[0]["pages"][0]["length"] = 5
What is not touched keeps its place: the sections of a manifest, and the bytes of pages.
"""
import contextlib
import os
import struct

import lance_bytes

SCALARS = lance_bytes.SCALARS


# ---- wire ----

def varint(value):
    out = bytearray()
    value &= 2**64 - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(tag, wire_type, value):
    key = varint(tag << 3 | wire_type)
    if wire_type == 0:
        return key + varint(value)
    return key + (varint(len(value)) if wire_type == 2 else b"") + value


def _one(tag, kind, value):
    if kind == "double":
        return field(tag, 1, struct.pack("<d", value))
    if kind == "str":
        return field(tag, 2, value.encode())
    if kind == "bytes":
        return field(tag, 2, value)
    if kind in SCALARS:
        return field(tag, 0, int(value))
    return field(tag, 2, encode(kind, value))


def encode(name, message):
    """The reverse of lance_bytes.decode; maps and repeated numbers included. Values that are 0 are written."""
    out = b""
    for tag, (key, kind) in lance_bytes.TABLES[name].items():
        if key not in message:
            continue
        value = message[key]
        if kind.startswith("map:"):
            _, key_kind, value_kind = kind.split(":")
            for k, v in value.items():
                out += field(tag, 2, _one(1, key_kind, k) + _one(2, value_kind, v))
        elif kind.startswith("*") and kind[1:] in SCALARS - {"str", "bytes", "double"}:
            out += field(tag, 2, b"".join(varint(int(v)) for v in value))
        elif kind.startswith("*"):
            out += b"".join(_one(tag, kind[1:], v) for v in value)
        else:
            out += _one(tag, kind, value)
    for tag, wire_type, raw in message.get("?", ()):
        out += field(tag, wire_type, raw)
    return out


# ---- manifests ----

def manifest_path(table, version=None):
    names = lance_bytes.manifest_names(str(table))
    return names[max(names) if version is None else version]


def edit_manifest(table, edit, version=None):
    """`edit` changes the decoded message, or returns bytes to be put behind it."""
    path = manifest_path(table, version)
    file = lance_bytes.ManifestFile(path)
    more = edit(file.manifest)
    message = encode("Manifest", file.manifest) + (more if isinstance(more, bytes) else b"")
    with open(path, "wb") as out:
        out.write(file.data[:file.position] + struct.pack("<I", len(message)) + message + file.data[-16:])


def sizes_as_they_are(table, version=None):
    """What a data file's new length makes wrong in the manifest is made right: one fault at a time."""
    def edit(manifest):
        for fragment in manifest.get("fragments", []):
            for file in fragment["files"]:
                file["file_size_bytes"] = os.path.getsize(os.path.join(str(table), "data", file["path"]))
    edit_manifest(table, edit, version)


# ---- data files ----

class Parts:
    """A data file apart: the bytes in front of the column metadata, the descriptor, the decoded metadata of each column."""

    def __init__(self, path):
        file = lance_bytes.DataFile(str(path))
        self.path, self.file = path, file
        self.front = bytearray(file.data[:file.column_meta_start])
        self.descriptor = file.descriptor
        self.columns, self.globals = [], list(file.globals)
        for i in range(file.num_columns):
            at, size = struct.unpack_from("<QQ", file.data, file.cmo + 16 * i)
            self.columns.append(lance_bytes.decode("ColumnMetadata", file.data[at:at + size]))

    def layout(self, column, page=0):
        """(type, decoded) of a page's encoding."""
        encoding = self.columns[column]["pages"][page]["encoding"]["direct"]["encoding"]
        any_message = encoding if isinstance(encoding, dict) else lance_bytes.decode("Any", encoding)
        name = any_message["type_url"].rsplit(".", 1)[1]
        return name, lance_bytes.decode(name, any_message["value"])

    def set_layout(self, column, page, message):
        encoding = self.columns[column]["pages"][page]["encoding"]["direct"]["encoding"]
        encoding["value"] = encode(encoding["type_url"].rsplit(".", 1)[1], message)

    def buffer(self, column, page, index):
        """(offset, size) of a page's buffer."""
        p = self.columns[column]["pages"][page]
        return p["buffer_offsets"][index], p["buffer_sizes"][index]

    def write(self):
        descriptor = encode("FileDescriptor", self.descriptor)
        out = self.front + b"\0" * (-len(self.front) % 64)
        self.globals[0] = (len(out), len(descriptor))
        out += descriptor
        start, places = len(out), []
        for column in self.columns:
            raw = encode("ColumnMetadata", column)
            places.append((len(out), len(raw)))
            out += raw
        cmo = len(out)
        for place in places:
            out += struct.pack("<QQ", *place)
        gbo = len(out)
        for place in self.globals:
            out += struct.pack("<QQ", *place)
        out += struct.pack("<QQQIIHH", start, cmo, gbo, len(self.globals), len(self.columns), self.file.major, self.file.minor) + b"LANC"
        with open(self.path, "wb") as file:
            file.write(out)


@contextlib.contextmanager
def edited(path):
    parts = Parts(path)
    yield parts
    parts.write()
