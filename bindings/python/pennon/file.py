# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Single data files: read, inspect, write."""
from __future__ import annotations

import builtins
import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _pennon
from ._data import NONE, pyarrow, refuse, text_of, to_table

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    import pyarrow as pa


_FOOTER_BYTES = 40
_TABLE_ENTRY_BYTES = 16
_COPY_BYTES = 16 << 20


def stable_version() -> str:
    """Version of the file format that is written where none is asked for."""
    return "2.1"


@dataclass
class LanceBufferDescriptor:
    """Where a buffer lies."""

    position: int
    size: int


@dataclass
class LancePageMetadata:
    """A page of a column."""

    buffers: list[LanceBufferDescriptor]
    encoding: str


@dataclass
class LanceColumnMetadata:
    """A column of a file."""

    column_buffers: list[LanceBufferDescriptor]
    pages: list[LancePageMetadata]


@dataclass
class LanceColumnStatistics:
    """Numbers of a column."""

    num_pages: int
    size_bytes: int


@dataclass
class LanceFileStatistics:
    """Numbers of all columns."""

    columns: list[LanceColumnStatistics]


@dataclass
class LanceFileMetadata:
    """What a file holds."""

    schema: Any
    num_rows: int
    num_data_bytes: int
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[LanceBufferDescriptor]
    columns: list[LanceColumnMetadata]
    major_version: int
    minor_version: int


class ReaderResults:
    """Rows of a file: Arrow data, once."""

    def __init__(self, reader: _pennon.Stream):
        self._stream = reader

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._stream.__arrow_c_stream__(requested_schema)

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a pyarrow RecordBatchReader."""
        return pyarrow("to_batches").RecordBatchReader.from_stream(self._stream)

    def to_table(self) -> pa.Table:
        """The rows as a pyarrow Table."""
        return to_table(self._stream)


def _buffers(tree: list[dict[str, int]]) -> list[LanceBufferDescriptor]:
    return [LanceBufferDescriptor(buffer["offset"], buffer["size"]) for buffer in tree]


class LanceFileReader:
    """A data file.

    Parameters
    ----------
    path : str or Path
    columns : list of str, optional
        Only these, in this order.
    """

    def __init__(
        self,
        path: str | Path,
        storage_options: dict[str, str] | None = None,
        columns: list[str] | None = None,
        *,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        _inner_reader: Any = None,
    ):
        refuse(storage_options=storage_options or None, namespace_client=namespace_client, table_id=table_id)
        self._columns = None if columns is None else tuple(columns)
        self._file: _pennon.File = _open(text_of(path)) if _inner_reader is None else _inner_reader

    def read_all(self, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """All rows."""
        return ReaderResults(self._file.read(0, NONE, {"columns": self._columns, "batch_rows": batch_size}))

    def read_range(self, start: int, num_rows: int, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """So many rows from a place on."""
        return ReaderResults(self._file.read(start, start + num_rows, {"columns": self._columns, "batch_rows": batch_size}))

    def take_rows(self, indices: Any, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Rows by number, in the order asked for."""
        return ReaderResults(self._file.take(indices, {"columns": self._columns, "batch_rows": batch_size}))

    def metadata(self) -> LanceFileMetadata:
        """What the file holds."""
        info = json.loads(self._file.info_json())
        columns = [
            LanceColumnMetadata([], [LancePageMetadata(_buffers(page["buffers"]), page["encoding"]) for page in column["pages"]])
            for column in info["columns"]
        ]
        buffers = _buffers(info["global_buffers"])
        # Behind the pages lie the global buffers, the metadata of the columns, a table of the buffers, and the footer.
        end = max((buffer.position + buffer.size for buffer in buffers), default=0)
        held = sum(buffer.size for buffer in buffers)
        rest = max(info["size"] - end - _TABLE_ENTRY_BYTES * len(buffers) - _FOOTER_BYTES, 0)
        schema = pyarrow("metadata").schema(self._file.schema())
        # As the footer has it.
        major, minor = (0, 3) if info["version"] == "2.0" else (int(part) for part in str(info["version"]).split("."))
        return LanceFileMetadata(schema, info["rows"], max(end - held, 0), rest, held, buffers, columns, major, minor)

    def file_statistics(self) -> LanceFileStatistics:
        """Pages and bytes of each column."""
        columns = json.loads(self._file.info_json())["columns"]
        return LanceFileStatistics([LanceColumnStatistics(len(column["pages"]), column["bytes"]) for column in columns])

    def read_global_buffer(self, index: int) -> bytes:
        """Bytes of a global buffer."""
        return self._file.global_buffer(index)

    def num_rows(self) -> int:
        """Rows of the file."""
        return self._file.rows()

    def __repr__(self) -> str:
        return f"LanceFileReader(rows={self._file.rows()}, columns={self._columns})"


def _open(path: str) -> _pennon.File:
    try:
        return _pennon.file_open(path)
    except ValueError as error:
        if getattr(error, "detail", None) is None or error.detail.code != "NOT_FOUND":  # type: ignore[attr-defined]
            raise
        told = FileNotFoundError(str(error))
        told.detail = error.detail  # type: ignore[attr-defined]
        raise told from None


class LanceFileWriter:
    """A data file that is being written; it appears when it is closed.

    Parameters
    ----------
    path : str or Path
    schema : pyarrow.Schema, optional
        That of the first batch where it is None.
    version : str, optional
        "2.0", "2.1" or "2.2".
    max_page_bytes : int, optional
        Buffered bytes of a column that make a page.
    """

    def __init__(
        self,
        path: str | Path,
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        storage_options: dict[str, str] | None = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        max_page_bytes: int | None = None,
        _inner_writer: Any = None,
        **kwargs: Any,
    ):
        refuse(storage_options=storage_options or None, namespace_client=namespace_client, table_id=table_id)
        refuse(_inner_writer=_inner_writer)
        self._path = text_of(path)
        self._options = {"version": version, "page_bytes": max_page_bytes}
        self._lock = threading.Lock()  # the library's writer is for one thread
        self._writer: _pennon.FileWriter | None = None
        self._rows: int | None = None
        if schema is not None:
            self._begin(schema)

    def _begin(self, schema: Any) -> _pennon.FileWriter:
        capsule = schema.__arrow_c_schema__() if hasattr(schema, "__arrow_c_schema__") else schema.schema.__arrow_c_schema__()
        self._writer = _pennon.file_writer(self._path, capsule, self._options)
        return self._writer

    def _need(self) -> _pennon.FileWriter:
        if self._writer is None:
            raise ValueError("Schema is unknown and file cannot be created")
        return self._writer

    def write_batch(self, batch: Any) -> None:
        """Write a batch or table, of any Arrow library."""
        with self._lock:
            (self._writer or self._begin(batch)).write(batch)

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Metadata of the schema."""
        with self._lock:
            self._need().add_metadata(key, value)

    def add_global_buffer(self, data: bytes) -> int:
        """Bytes beside the columns; gives their number."""
        with self._lock:
            return self._need().add_buffer(data)

    def close(self) -> int | None:
        """End the file; gives its rows. A second call does nothing."""
        with self._lock:
            if self._rows is not None:
                return None
            self._rows = self._need().finish()
            return self._rows

    def __repr__(self) -> str:
        state = "open" if self._rows is None else f"{self._rows} rows"
        return f"LanceFileWriter({self._path!r}, {state})"

    def __enter__(self) -> LanceFileWriter:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        if exc_type is None:
            self.close()
        elif self._writer is not None:
            self._writer.abort()


class LanceFileSession:
    """Data files below a folder.

    Parameters
    ----------
    base_path : str or Path
        Made where it is missing.
    """

    def __init__(
        self,
        base_path: str | Path,
        storage_options: dict[str, str] | None = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
    ):
        refuse(storage_options=storage_options or None, namespace_client=namespace_client, table_id=table_id)
        self._base = text_of(base_path).rstrip("/")
        self._store = _pennon.store_open(self._base)

    def __repr__(self) -> str:
        return f"LanceFileSession({self._base!r})"

    def open_reader(self, path: str, columns: list[str] | None = None) -> LanceFileReader:
        """A file, to be read."""
        return LanceFileReader(f"{self._base}/{path}", columns=columns)

    def open_writer(
        self,
        path: str,
        *,
        schema: pa.Schema | None = None,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        keep_original_array: bool | None = None,
        max_page_bytes: int | None = None,
    ) -> LanceFileWriter:
        """A file, to be written; see `LanceFileWriter`."""
        return LanceFileWriter(f"{self._base}/{path}", schema, version=version, max_page_bytes=max_page_bytes)

    def contains(self, path: str) -> bool:
        """Is there such a file?"""
        return self._store.size(path) is not None

    def list(self, path: str | None = None) -> builtins.list[str]:
        """Paths of all files, or of those below a folder."""
        return self._store.list((path or "").strip("/"))

    def upload_file(self, local_path: str | Path, remote_path: str) -> None:
        """Copy a local file into the session."""
        with open(local_path, "rb") as file:
            self._store.put(remote_path, file.read())

    def download_file(self, remote_path: str, local_path: str | Path) -> None:
        """Copy a file of the session to a local one."""
        size = self._store.size(remote_path)
        if size is None:
            raise FileNotFoundError(f"Not found: {self._base}/{remote_path}")
        with open(local_path, "wb") as file:
            for start in range(0, size, _COPY_BYTES):
                file.write(self._store.read(remote_path, start, min(_COPY_BYTES, size - start)))


__all__ = [
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceColumnStatistics",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileStatistics",
    "LanceFileWriter",
    "LancePageMetadata",
    "ReaderResults",
    "stable_version",
]
