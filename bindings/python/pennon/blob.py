# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Blob columns: their type, values to write, and columns of bytes as files."""
from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

_INLINE_KEY = b"lance-encoding:blob-inline-size-threshold"
_DEDICATED_KEY = b"lance-encoding:blob-dedicated-size-threshold"
_EMPTY_URI = "Blob uri cannot be empty"


@dataclass(frozen=True)
class Blob:
    """A value of a blob column: bytes, or a URI, whole or a part of it.

    Attributes
    ----------
    data : bytes, optional
    uri : str, optional
    position, size : int, optional
        The part; the whole where both are None.
    """

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if self.data is not None and self.uri is not None:
            raise ValueError("Blob cannot have both data and uri")
        if self.uri == "":
            raise ValueError(_EMPTY_URI)
        if self.uri is None and (self.position is not None or self.size is not None):
            raise ValueError("External packed blob must have a uri: position and size are a part of one")
        if (self.position is None) != (self.size is None):
            raise ValueError("External blob must set both position and size, or neither")

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Blob:
        """A blob of bytes."""
        return Blob(data=bytes(data))

    @staticmethod
    def from_uri(uri: str, position: int | None = None, size: int | None = None) -> Blob:
        """A blob that lies elsewhere."""
        if (position is not None and position < 0) or (size is not None and size < 0):
            raise ValueError("External blob position and size must be non-negative")
        return Blob(uri=uri, position=position, size=size)

    @staticmethod
    def empty() -> Blob:
        """A blob of no bytes."""
        return Blob(data=b"")


class BlobType(pa.ExtensionType):  # type: ignore[misc]
    """The type of a blob column of storage version 2.2 and later: the extension lance.blob.v2."""

    def __init__(self) -> None:
        fields = {"data": pa.large_binary(), "uri": pa.utf8(), "position": pa.uint64(), "size": pa.uint64()}
        super().__init__(pa.struct([pa.field(name, kind) for name, kind in fields.items()]), "lance.blob.v2")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> BlobType:
        return cls()

    def __arrow_ext_class__(self) -> type:
        return BlobArray

    def __reduce__(self) -> tuple[Any, ...]:
        return BlobType, ()


try:
    pa.register_extension_type(BlobType())
except pa.ArrowKeyError:
    pass  # pylance is imported too: its type has the same name and storage


def _blob_of(value: Any) -> Blob | None:
    if value is None or isinstance(value, Blob):
        return value
    if isinstance(value, str):
        return Blob(uri=value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Blob(data=bytes(value))
    raise TypeError(f"BlobArray values must be bytes-like, str (URI), Blob, or None; got {type(value)}")


class BlobArray(pa.ExtensionArray):  # type: ignore[misc]
    """An array of blobs to write."""

    @classmethod
    def from_pylist(cls, values: list[Any]) -> BlobArray:
        """Of bytes, URIs as str, `Blob` objects, and None."""
        blobs = [_blob_of(value) for value in values]
        kind = BlobType()
        storage = pa.StructArray.from_arrays(
            [
                pa.array([None if blob is None else getattr(blob, field.name) for blob in blobs], field.type)
                for field in kind.storage_type
            ],
            fields=[*kind.storage_type],
            mask=pa.array([blob is None for blob in blobs], pa.bool_()),
        )
        array: BlobArray = pa.ExtensionArray.from_storage(kind, storage)
        return array


def blob_array(values: list[Any]) -> BlobArray:
    """An array of blobs to write: of bytes, URIs as str, `Blob` objects, and None."""
    return BlobArray.from_pylist(values)


def _checked(name: str, value: int | None, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be {'positive' if least else 'non-negative'}")
    if value >= 2**64:
        raise OverflowError(f"{name} must fit in 64 bits")
    return value


def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
) -> pa.Field:
    """The field of a blob column.

    Parameters
    ----------
    name : str
    nullable : bool, default True
    inline_size_threshold : int, optional
        Blobs up to so many bytes lie in the data file itself; larger ones are packed into a file of many.
    dedicated_size_threshold : int, optional
        Blobs over so many bytes have a file of their own. Looked at first.
    """
    thresholds = {
        _INLINE_KEY: _checked("inline_size_threshold", inline_size_threshold, 0),
        _DEDICATED_KEY: _checked("dedicated_size_threshold", dedicated_size_threshold, 1),
    }
    metadata = {key: str(value).encode() for key, value in thresholds.items() if value is not None}
    return pa.field(name, BlobType(), nullable=nullable, metadata=metadata or None)


class BlobIterator:
    """The rows of a column of bytes, as files."""

    def __init__(self, binary_iter: Iterator[Any]):
        self.binary_iter = binary_iter

    def __iter__(self) -> BlobIterator:
        return self

    def __next__(self) -> IO[bytes] | None:
        value = next(self.binary_iter)
        data = None if value is None else value.as_py()
        return None if data is None else io.BytesIO(data)


class BlobColumn:
    """A pyarrow column of bytes whose rows are read as files.

    Parameters
    ----------
    blob_column : pyarrow.Array or pyarrow.ChunkedArray
        Of type binary or large_binary.
    """

    def __init__(self, blob_column: pa.Array | pa.ChunkedArray):
        if not isinstance(blob_column, (pa.Array, pa.ChunkedArray)):
            raise ValueError(f"Expected a pyarrow.Array or pyarrow.ChunkedArray, got {type(blob_column)}")
        if not pa.types.is_large_binary(blob_column.type) and not pa.types.is_binary(blob_column.type):
            raise ValueError(f"Expected a binary array, got {blob_column.type}")
        self.blob_column: Iterable[Any] = blob_column

    def __iter__(self) -> Iterator[IO[bytes] | None]:
        return BlobIterator(iter(self.blob_column))


class BlobFile(io.RawIOBase):
    """A blob of a dataset as a file that can be read.

    Parameters
    ----------
    inner : object
        What reads: with `close`, `is_closed`, `seek`, `tell`, `size`, `readall`, `read_range`, `read_ranges` and `read_into`.
    """

    def __init__(self, inner: Any):
        self.inner = inner

    def close(self) -> None:
        """Let go what it holds."""
        self.inner.close()

    @property
    def closed(self) -> bool:
        """Is it closed?"""
        return bool(self.inner.is_closed())

    def readable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the cursor; gives the place."""
        starts = {io.SEEK_SET: lambda: 0, io.SEEK_CUR: self.inner.tell, io.SEEK_END: self.inner.size}
        if whence not in starts:
            raise ValueError(f"Invalid whence: {whence}")
        self.inner.seek(starts[whence]() + offset)
        return self.tell()

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Place of the cursor."""
        return int(self.inner.tell())

    def size(self) -> int:
        """Bytes of the blob."""
        return int(self.inner.size())

    def readall(self) -> bytes:
        """Bytes from the cursor to the end."""
        return bytes(self.inner.readall())

    def read_range(self, offset: int, length: int) -> bytes:
        """A part of the blob; the cursor stays."""
        return bytes(self.inner.read_range(offset, length))

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Parts of the blob, each an offset and a length, read together; the cursor stays."""
        return [bytes(part) for part in self.inner.read_ranges(ranges)]

    def readinto(self, b: Any) -> int:
        """Fill a buffer; gives the bytes read."""
        return int(self.inner.read_into(b))

    def __repr__(self) -> str:
        return f"<BlobFile size={self.size()}>"


__all__ = ["Blob", "BlobArray", "BlobColumn", "BlobFile", "BlobIterator", "BlobType", "blob_array", "blob_field"]
