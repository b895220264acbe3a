# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Blobs of a dataset: what stands behind `BlobFile`, and reads of many."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from . import _pennon
from .blob import BlobFile

_SELECTORS = {"indices": 0, "ids": 1, "addresses": 2}
T = TypeVar("T")


def _unsigned(number: int) -> int:
    if number < 0:
        raise OverflowError("can't convert negative int to unsigned")
    return number


class BlobReader:
    """One blob of a list, with a cursor: the `inner` of a BlobFile."""

    __slots__ = ("_blobs", "_i", "_at", "_open")

    def __init__(self, blobs: _pennon.Blobs, i: int):
        self._blobs: _pennon.Blobs = blobs
        self._i = i
        self._at = 0
        self._open = True

    def _check(self) -> None:
        if not self._open:
            raise ValueError("Invalid user input: Blob file is already closed")

    def close(self) -> None:
        """Reads are refused from now on."""
        self._open = False

    def is_closed(self) -> bool:
        """Was it closed?"""
        return not self._open

    def seek(self, place: int) -> None:
        """Move the cursor, also behind the end."""
        if place < 0:
            raise ValueError(f"negative seek value {place}")
        self._check()
        self._at = place

    def tell(self) -> int:
        """Place of the cursor."""
        self._check()
        return self._at

    def size(self) -> int:
        """Bytes of the blob."""
        return self._blobs.size(self._i)

    def readall(self) -> bytes:
        """From the cursor to the end."""
        self._check()
        data = self._blobs.read(self._i, self._at, 2**63 - 1)
        self._at += len(data)
        return data

    def read_into(self, buffer: Any) -> int:
        """Fill the buffer, as far as there are bytes."""
        self._check()
        n = self._blobs.readinto(self._i, self._at, buffer)
        self._at += n
        return n

    def read_range(self, offset: int, length: int) -> bytes:
        """A part of the blob."""
        self._check()
        _inside(self.size(), offset, length)
        return self._blobs.read(self._i, offset, length)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts of the blob, read together."""
        self._check()
        size = self.size()
        for offset, length in ranges:
            _inside(size, offset, length)
        found = self._blobs.read_all([(self._i, offset, length) for offset, length in ranges], 0)
        return [data or b"" for _, _, data in found]


def _inside(size: int, offset: int, length: int) -> None:
    end = _unsigned(offset) + _unsigned(length)
    if end > size:
        raise ValueError(f"Invalid user input: Blob range end {end} exceeds blob size {size}")


def _rows(rows: Any) -> Any:
    from .dataset import _numbers

    return _numbers(rows)


def _named(column: str, call: Callable[[], T]) -> T:
    """A column that is not there is a RuntimeError, as in pylance."""
    try:
        return call()
    except ValueError as error:
        if getattr(getattr(error, "detail", None), "kind", None) != "FieldNotFound":
            raise
        wrong = RuntimeError(f"Field '{column}' not found: {error}")
        wrong.detail = error.detail  # type: ignore[attr-defined]
        raise wrong from None


def _selected(ds: _pennon.Dataset, column: str, ids: Any, addresses: Any, indices: Any) -> _pennon.Blobs:
    given = [(kind, rows) for kind, rows in (("ids", ids), ("addresses", addresses), ("indices", indices)) if rows is not None]
    if len(given) != 1:
        raise ValueError("Exactly one of ids, indices, or addresses must be specified")
    kind, rows = given[0]
    return _named(column, lambda: ds.take_blobs(column, _SELECTORS[kind], _rows(rows)))


def take(ds: _pennon.Dataset, column: str, ids: Any, addresses: Any, indices: Any) -> list[BlobFile | None]:
    """Blobs as files."""
    blobs = _selected(ds, column, ids, addresses, indices)
    return [None if null else BlobFile(BlobReader(blobs, i)) for i, null in enumerate(blobs.nulls())]


def _batch_bytes(io_buffer_size: int | None) -> int:
    if io_buffer_size is None:
        return 0
    if _unsigned(io_buffer_size) == 0:
        raise ValueError("Invalid user input: ReadBlobsBuilder io_buffer_size must be greater than 0")
    return io_buffer_size


def read(
    ds: _pennon.Dataset, column: str, ids: Any, addresses: Any, indices: Any, io_buffer_size: int | None
) -> list[tuple[int, bytes | None]]:
    """Row addresses and bytes."""
    batch_bytes = _batch_bytes(io_buffer_size)
    blobs = _selected(ds, column, ids, addresses, indices)
    return [(address, data) for _, address, data in blobs.read_all(None, batch_bytes)]


def read_ranges(
    ds: _pennon.Dataset, column: str, requests: Sequence[tuple[int, int, int]], selector: str, io_buffer_size: int | None
) -> list[tuple[int, int, bytes | None]]:
    """Numbers of requests, row addresses and bytes."""
    if selector not in _SELECTORS:
        raise ValueError(f"selector must be one of 'ids', 'addresses', 'indices', not {selector!r}")
    batch_bytes = _batch_bytes(io_buffer_size)
    rows = [_unsigned(row) for row, _, _ in requests]
    blobs = _named(column, lambda: ds.take_blobs(column, _SELECTORS[selector], rows))
    return blobs.read_all([(i, _unsigned(offset), _unsigned(n)) for i, (_, offset, n) in enumerate(requests)], batch_bytes)


# ---- blobs in a DataFrame ----


def is_blob(field: Any) -> bool:
    """Is it the field of a blob column?"""
    metadata = field.metadata or {}
    extension = metadata.get(b"ARROW:extension:name", getattr(field.type, "extension_name", ""))
    return metadata.get(b"lance-encoding:blob") == b"true" or extension in (b"lance.blob.v2", "lance.blob.v2")


def paths_of(field: Any) -> list[tuple[str, ...]]:
    """Where blobs lie in a column: () is the column itself, ("a", "b") a field of structs."""
    if is_blob(field):
        return [()]
    inner = [field.type.field(i) for i in range(field.type.num_fields)] if str(field.type).startswith("struct<") else []
    return [(below.name, *path) for below in inner for path in paths_of(below)]


def _quoted(name: str) -> str:
    return name if name.replace("_", "a").isalnum() else f"`{name}`"


def _placed(row: Any, path: tuple[str, ...], value: Any) -> Any:
    """The row, a dictionary or None, with the value at a path of it."""
    if not path:
        return value
    return row if row is None else {**row, path[0]: _placed(row[path[0]], path[1:], value)}


def with_files(ds: _pennon.Dataset, table: Any, sources: dict[str, str], frame: Any) -> Any:
    """The DataFrame of a table that has `_rowaddr` as its last column, blobs as files in place of their descriptions.

    `sources` are the columns of the dataset by columns of the table.
    """
    addresses = table.column(table.num_columns - 1).to_pylist()
    for i, field in enumerate(table.schema):
        for path in paths_of(field):
            source = ".".join((sources.get(field.name, _quoted(field.name)), *map(_quoted, path)))
            files = take(ds, source, None, addresses, None)
            values = frame.iloc[:, i].tolist() if path else files
            column = [_placed(row, path, file) for row, file in zip(values, files)]
            frame.isetitem(i, _objects(column, frame.index))
    return frame


def _objects(values: list[Any], index: Any) -> Any:
    import pandas as pd

    return pd.Series(values, index=index, dtype=object)
