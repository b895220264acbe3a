# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Data on its way in and out: pyarrow where it is needed and there, the PyCapsule protocol everywhere."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from . import _pennon

if TYPE_CHECKING:
    import pyarrow as pa

#: "Not set" for numbers of 64 bits.
NONE = 2**64 - 1

T = TypeVar("T")


def pyarrow(what: str) -> Any:
    """The module pyarrow, which `what` cannot do without."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{what} needs pyarrow: pip install 'pennon[arrow]'") from error
    return pyarrow


def text_of(uri: object) -> str:
    """A URI or path as the library takes it."""
    if isinstance(uri, (str, os.PathLike)):
        text = str(os.fspath(uri))
        return os.path.expanduser(text) if text.startswith("~") else text
    raise TypeError(f"uri must be a str or a Path, not {type(uri)}")


def not_yet(what: str) -> NotImplementedError:
    """What a call raises whose name is there already."""
    return NotImplementedError(f"{what} is not supported yet")


def refuse(**arguments: object) -> None:
    """NotImplementedError for the first of the arguments that is set."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise not_yet(name)


def arrow_class(scope: dict[str, Any], own: type, base: str) -> type:
    """The public class over `own`, which is also the class `base` of pyarrow.dataset where pyarrow is installed.

    Made on first use and put into `scope`, the namespace of its module: importing pyarrow takes longer than all else. DuckDB, Polars
    and others tell by the class of pyarrow that they may push projections, filters and limits into a scan.
    """
    name = own.__name__.removeprefix("_")
    if name not in scope:
        bases: tuple[type, ...] = (own,)
        try:
            import pyarrow.dataset

            bases = (own, getattr(pyarrow.dataset, base))
        except ImportError:
            pass
        scope[name] = type(name, bases, {"__module__": scope["__name__"], "__doc__": own.__doc__})
    made: type = scope[name]
    return made


def cast_capsule(stream: _pennon.Stream, requested_schema: object) -> object:
    """The stream as a capsule; as a consumer wants its columns where it says so, and pyarrow can cast them."""
    if requested_schema is None:
        return stream.__arrow_c_stream__()
    try:
        pa = pyarrow("requested_schema")
    except ImportError:
        return stream.__arrow_c_stream__()
    return pa.RecordBatchReader.from_stream(stream).__arrow_c_stream__(requested_schema)


def own_errors(stream: _pennon.Stream, consume: Callable[[], T]) -> T:
    """What a consumer raises about a failed stream becomes the stream's own error, with its detail."""
    try:
        return consume()
    except Exception:
        stream.check()
        raise


def to_table(stream: _pennon.Stream) -> pa.Table:
    """All batches as a pyarrow Table."""
    pa = pyarrow("to_table")
    return own_errors(stream, lambda: pa.RecordBatchReader.from_stream(stream).read_all())


def to_batches(stream: _pennon.Stream) -> Iterator[pa.RecordBatch]:
    """The batches as pyarrow RecordBatches."""
    pa = pyarrow("to_batches")
    reader = own_errors(stream, lambda: pa.RecordBatchReader.from_stream(stream))
    while True:
        try:
            batch = own_errors(stream, reader.read_next_batch)
        except StopIteration:
            return
        yield batch


def rows_of(stream: _pennon.Stream) -> list[dict[str, Any]]:
    """A listing as dictionaries."""
    table = to_table(stream)
    # As numbers: the nanoseconds of a time need pandas else.
    types = [pyarrow("a listing").int64() if "timestamp" in str(field.type) else field.type for field in table.schema]
    for i, kind in enumerate(types):
        table = table.set_column(i, table.schema.names[i], table.column(i).cast(kind))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _is_from(data: object, module: str, *names: str) -> bool:
    """Is it of a class of that package? Without importing it."""
    return any(cls.__module__.split(".")[0] == module and cls.__name__ in names for cls in type(data).__mro__)


def _cast(batches: Iterable[Any], schema: Any) -> Iterator[Any]:
    pa = pyarrow("an iterable of batches")
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"Expected RecordBatch, got {type(batch)}")
        if batch.schema != schema:
            try:
                batch = pa.Table.from_batches([batch]).cast(schema).combine_chunks().to_batches()[0]
            except pa.ArrowInvalid:
                raise ValueError(
                    "Input RecordBatch iterator yielded a batch with schema that does not match the expected schema.\n"
                    f"Expected:\n{schema}\nGot:\n{batch.schema}"
                ) from None
        yield batch


def reader_of(data: Any, schema: pa.Schema | None = None) -> Any:
    """Anything that is data as an object with `__arrow_c_stream__` or `__arrow_c_array__`.

    Parameters
    ----------
    data : object
        Arrow data of any library, a pandas or Polars DataFrame, a pyarrow Dataset or Scanner, a dict of lists or arrays, a list of
        dicts, or an iterable of pyarrow RecordBatches, which needs `schema`.
    schema : pyarrow.Schema, optional
        Schema of what has none of its own.
    """
    if _is_from(data, "pandas", "DataFrame"):
        return pyarrow("a pandas DataFrame").Table.from_pandas(data, schema=schema)
    if _is_from(data, "polars", "DataFrame"):
        # The format has no form for the view types of Polars.
        return data.to_arrow(compat_level=sys.modules["polars"].CompatLevel.oldest())
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return data
    if _is_from(data, "pyarrow", "Dataset"):
        return data.scanner().to_reader()
    if _is_from(data, "pyarrow", "Scanner"):
        return data.to_reader()
    if isinstance(data, dict):
        return pyarrow("a dict of columns").RecordBatch.from_pydict(data, schema=schema)
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return pyarrow("a list of dicts").RecordBatch.from_pylist(data, schema=schema)
    if not isinstance(data, Iterable) or isinstance(data, (str, bytes)):
        raise TypeError(f"Unknown data type {type(data)}: give Arrow data (with __arrow_c_stream__), or rows as dicts")
    if schema is None:
        raise ValueError("Must provide schema to write dataset from RecordBatch iterable")
    return pyarrow("an iterable of batches").RecordBatchReader.from_batches(schema, _cast(data, schema))
