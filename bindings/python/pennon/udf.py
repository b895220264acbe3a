# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Functions over batches that make columns, and the file that keeps their results until they are committed."""
from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ._data import pyarrow, reader_of

if TYPE_CHECKING:
    from pathlib import Path

    from . import _pennon

    import pyarrow as pa

    from .types import ReaderLike


def _batch_of(result: Any) -> Any:
    """What a function gave, as a RecordBatch."""
    if type(result).__name__ == "DataFrame":
        return pyarrow("a batch of a function").RecordBatch.from_pandas(result)
    return result


class BatchUDF:
    """A function from a RecordBatch to one with the same rows, which has the new columns.

    Parameters
    ----------
    func : callable
    output_schema : pyarrow.Schema, optional
        Of what it gives; that of its first batch where it is None.
    checkpoint_file : str or Path, optional
        Where results are kept, so that a run that failed goes on where it was.
    """

    def __init__(
        self, func: Callable[[Any], Any], output_schema: pa.Schema | None = None, checkpoint_file: str | Path | None = None
    ):
        self.func = func
        self.output_schema = output_schema
        self.cache = None if checkpoint_file is None else BatchUDFCheckpoint(checkpoint_file)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        return self.func(batch)

    def __repr__(self) -> str:
        return f"BatchUDF({getattr(self.func, '__name__', self.func)})"

    def _call(self, batch: pa.RecordBatch) -> Any:
        if self.output_schema is None:
            raise ValueError("a function that gives RecordBatches needs output_schema")
        result = _batch_of(self.func(batch))
        if result.schema != self.output_schema:
            raise AssertionError(
                f"Output schema of function does not match the expected schema. Expected:\n{self.output_schema}\nGot:\n{result.schema}"
            )
        return result


def batch_udf(
    output_schema: pa.Schema | None = None, checkpoint_file: str | Path | None = None
) -> Callable[[Callable[[Any], Any]], BatchUDF]:
    """Make a function over batches one that `LanceDataset.add_columns` takes.

    Parameters
    ----------
    output_schema : pyarrow.Schema, optional
        Of what the function gives; that of its first batch where it is None.
    checkpoint_file : str or Path, optional
        Where results are kept until they are committed. It may become large.
    """

    def decorate(func: Callable[[Any], Any]) -> BatchUDF:
        return BatchUDF(func, output_schema, checkpoint_file)

    return decorate


class BatchUDFCheckpoint:
    """Results of a function in an SQLite file: of single batches, and of fragments that are written and not committed.

    Parameters
    ----------
    path : str or Path
    """

    class BatchInfo(NamedTuple):
        """Which batch."""

        fragment_id: int
        batch_index: int

    def __init__(self, path: str | Path):
        self.path = path
        with self._connected() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS batches (fragment_id INT, batch_index INT, result BLOB)")
            connection.execute("CREATE TABLE IF NOT EXISTS fragments (fragment_id INT, data BLOB)")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        # One for each call: a connection belongs to its thread.
        with closing(sqlite3.connect(self.path)) as connection, connection:
            yield connection

    def _one(self, sql: str, values: tuple[int, ...]) -> Any:
        with self._connected() as connection:
            row = connection.execute(sql, values).fetchone()
        return None if row is None else row[0]

    def cleanup(self) -> None:
        """Remove the file."""
        os.remove(self.path)

    def get_batch(self, info: BatchInfo) -> pa.RecordBatch | None:
        """The result for a batch, or None."""
        result = self._one("SELECT result FROM batches WHERE fragment_id = ? AND batch_index = ?", tuple(info))
        return None if result is None else pickle.loads(result)

    def insert_batch(self, info: BatchInfo, batch: pa.RecordBatch) -> None:
        """Keep the result for a batch."""
        with self._connected() as connection:
            connection.execute("INSERT INTO batches VALUES (?, ?, ?)", (*info, pickle.dumps(batch)))

    def get_fragment(self, fragment_id: int) -> str | None:
        """The fragment as JSON, or None."""
        data: str | None = self._one("SELECT data FROM fragments WHERE fragment_id = ?", (fragment_id,))
        return data

    def insert_fragment(self, fragment_id: int, fragment: str) -> None:
        """Keep a fragment; its batches are needed no longer."""
        with self._connected() as connection:
            connection.execute("INSERT INTO fragments VALUES (?, ?)", (fragment_id, fragment))
            connection.execute("DELETE FROM batches WHERE fragment_id = ?", (fragment_id,))


class _Kept:
    """A checkpoint as the extension asks for it."""

    def __init__(self, cache: BatchUDFCheckpoint, schema: pa.Schema):
        self._cache = cache
        self._schema = schema

    def get_batch(self, fragment: int, batch: int) -> pa.RecordBatch | None:
        kept = self._cache.get_batch(BatchUDFCheckpoint.BatchInfo(fragment, batch))
        return kept if kept is not None and kept.schema == self._schema else None

    def put_batch(self, fragment: int, batch: int, values: _pennon.Batch) -> None:
        self._cache.insert_batch(BatchUDFCheckpoint.BatchInfo(fragment, batch), pyarrow("add_columns").record_batch(values))

    def get_fragment(self, fragment: int) -> str | None:
        return self._cache.get_fragment(fragment)

    def put_fragment(self, fragment: int, text: str) -> None:
        self._cache.insert_fragment(fragment, text)


def _add(
    ds: _pennon.Dataset, made: Any, read_columns: list[str] | None, options: dict[str, Any], progress: _pennon.Progress | None = None
) -> _pennon.Transaction | None:
    """Add columns of what `normalize_transform` gave."""
    if isinstance(made, dict):
        return ds.add_sql(tuple(made), tuple(made.values()), options, progress)
    if not isinstance(made, BatchUDF):
        return ds.add_data(made, options, progress)
    record_batch = pyarrow("add_columns").record_batch
    names = None if read_columns is None else tuple(read_columns)
    assert made.output_schema is not None
    kept = None if made.cache is None else _Kept(made.cache, made.output_schema)
    return ds.add_function(
        made.output_schema.__arrow_c_schema__(), lambda batch: made._call(record_batch(batch)), names, kept, options, progress
    )


def normalize_transform(
    udf_like: dict[str, str] | BatchUDF | ReaderLike,
    data_source: Any,
    read_columns: list[str] | None = None,
    reader_schema: pa.Schema | None = None,
) -> Any:
    """What makes columns in one of three forms: a dict of SQL, a BatchUDF with its schema, or Arrow data.

    Parameters
    ----------
    udf_like : dict, BatchUDF, callable or Arrow data
    data_source : LanceDataset or LanceFragment
        Whose first row a function is asked about, for its schema.
    read_columns : list of str, optional
        What the function reads; `_rowid` and `_rowaddr` may be among them.
    reader_schema : pyarrow.Schema, optional
        Of an iterable of batches.
    """
    if isinstance(udf_like, dict):
        for name, sql in udf_like.items():
            if not isinstance(name, str) or not isinstance(sql, str):
                raise TypeError(f"names and expressions of columns must be str, got {type(name)} and {type(sql)}")
        return udf_like
    if isinstance(udf_like, BatchUDF):
        if udf_like.output_schema is None:
            udf_like.output_schema = _first(udf_like, data_source, read_columns).schema
        return udf_like
    if callable(udf_like):
        try:
            return BatchUDF(udf_like, _first(udf_like, data_source, read_columns).schema)
        except Exception as error:
            raise TypeError(f"{type(udf_like)} is called with a batch of the dataset, and failed: {error}") from error
    return reader_of(udf_like, reader_schema)


def _first(function: Callable[[Any], Any], source: Any, read_columns: Iterable[str] | None) -> Any:
    names = None if read_columns is None else [*read_columns]
    columns = None if names is None else [name for name in names if name not in ("_rowid", "_rowaddr")]
    batches = source.to_batches(
        limit=1,
        columns=columns,
        with_row_id="_rowid" in (names or ()),
        with_row_address="_rowaddr" in (names or ()),
    )
    return _batch_of(function(next(iter(batches))))


__all__ = ["BatchUDF", "BatchUDFCheckpoint", "batch_udf", "normalize_transform"]
