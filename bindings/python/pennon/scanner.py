# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Scans of a dataset."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _pennon
from ._data import pyarrow, refuse, to_batches, to_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from .dataset import LanceDataset

_BLOBS = {None: 0, "blobs_descriptions": 0, "all_binary": 1}


@dataclass
class ColumnOrdering:
    """A column of the order of a scan.

    Attributes
    ----------
    column_name : str
    ascending : bool
    nulls_first : bool
        Whatever the direction.
    """

    column_name: str
    ascending: bool = True
    nulls_first: bool = False


class ScanStatistics(NamedTuple):
    """What a scan did."""

    bytes_read: int
    requests: int
    rows_scanned: int
    rows: int
    batches: int
    nanoseconds: int

    @property
    def iops(self) -> int:
        """Reads begun."""
        return self.requests


def substrait_of(expression: Any, schema: pa.Schema) -> bytes:
    """A pyarrow Expression as Substrait, over the columns of `schema`."""
    pa = pyarrow("a pyarrow expression")
    from pyarrow.substrait import serialize_expressions

    # What Substrait has no form for is replaced: fields are numbered, so the places have to stay.
    fields = [pa.field(f"__placeholder_{i}", pa.int8()) if _unknown(field.type) else field for i, field in enumerate(schema)]
    return bytes(serialize_expressions([expression], ["filter"], pa.schema(fields)))


def _unknown(kind: Any) -> bool:
    pa = pyarrow("a pyarrow expression")
    if pa.types.is_fixed_size_list(kind) or isinstance(kind, pa.BaseExtensionType):
        return True
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return any(field.metadata is not None or _unknown(field.type) for field in fields)
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _unknown(kind.value_type)


def filter_options(options: dict[str, Any], filter: Any, schema: Callable[[], Any]) -> None:
    """Put a filter into the options of a scan: SQL text, or a pyarrow Expression."""
    if filter is None:
        return
    if isinstance(filter, str):
        options["filter"] = filter
    elif type(filter).__name__ == "Expression":
        options["substrait_filter"] = substrait_of(filter, schema())
    elif isinstance(filter, dict):
        refuse(search_filter=filter.get("search_filter"))
        filter_options(options, filter.get("expr_filter"), schema)
    else:
        raise NotImplementedError(f"a filter of {type(filter)} is not supported yet")


def column_options(columns: Any) -> dict[str, Any]:
    """Names, or names with their SQL."""
    if columns is None:
        return {}
    if isinstance(columns, dict):
        return {"expressions": tuple(columns.items())}
    if isinstance(columns, list):
        return {"columns": tuple(columns)}
    raise TypeError(f"columns must be a list or dict[name, expression], got {type(columns)}")


def _not_negative(name: str, value: int | None) -> int | None:
    if value is not None and int(value) < 0:
        raise ValueError(f"{name} must be non-negative")
    return value


def scan_options(ds: LanceDataset, given: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The keywords of `LanceDataset.scanner` as options of the library, and the callback for statistics."""
    refuse(
        nearest=given.get("nearest"),
        full_text_query=given.get("full_text_query"),
        index_segments=given.get("index_segments"),
        fast_search=given.get("fast_search"),
    )
    options: dict[str, Any] = column_options(given.get("columns"))
    filter_options(options, given.get("filter"), lambda: ds._own_schema)
    options["limit"] = _not_negative("Limit", given.get("limit"))
    options["offset"] = _not_negative("Offset", given.get("offset"))
    options["batch_rows"] = given.get("batch_size")
    options["batch_bytes"] = given.get("batch_size_bytes")
    options["readahead"] = _not_negative("batch_readahead", given.get("batch_readahead"))
    options["unordered"] = given.get("scan_in_order") is False
    options["strict_batches"] = given.get("strict_batch_size")
    options["with_row_id"] = given.get("with_row_id")
    options["with_row_address"] = given.get("with_row_address")
    options["include_deleted_rows"] = given.get("include_deleted_rows")
    if given.get("fragments") is not None:
        options["fragments"] = tuple(_fragment_id(fragment) for fragment in given["fragments"])
    blobs = given.get("blob_handling")
    if blobs == "all_descriptions":
        raise NotImplementedError("blob_handling='all_descriptions' is not supported yet")
    if blobs not in _BLOBS:
        raise ValueError(
            f"Invalid blob_handling: {blobs}. Expected one of: all_binary, all_descriptions, blobs_descriptions"
        )
    options["blobs"] = _BLOBS[blobs]
    if given.get("order_by") is not None:
        options["order_by"] = tuple(_order(order) for order in given["order_by"])
    late = given.get("late_materialization")
    if isinstance(late, bool):
        options["materialize"] = 2 if late else 1
    elif late is not None:
        options["materialize"] = 3
        options["late_columns"] = tuple(late)
    return options, given.get("scan_stats_callback")


def _fragment_id(fragment: Any) -> int:
    from .fragment import LanceFragment

    if not isinstance(fragment, LanceFragment):
        raise TypeError(f"fragments must be an iterable of LanceFragment. Got {type(fragment)} instead.")
    return fragment.fragment_id


def _order(order: Any) -> tuple[str, bool, bool]:
    if isinstance(order, str):
        order = ColumnOrdering(order)
    if not isinstance(order, ColumnOrdering):
        raise TypeError(f"orderings must be a list of ColumnOrdering. Got {type(order)} instead.")
    return order.column_name, not order.ascending, order.nulls_first


class LanceScanner:
    """A scan that can be run, any number of times: each consumer starts it anew.

    It is Arrow data: pandas, Polars, DuckDB and pyarrow take it as it is, by `__arrow_c_stream__`.
    """

    def __init__(self, dataset: LanceDataset, options: dict[str, Any], stats: Any = None):
        self._ds = dataset
        self._options = options
        self._stats = stats

    def _stream(self, **changed: Any) -> _pennon.Stream:
        callback = None if self._stats is None else lambda *numbers: self._stats(ScanStatistics(*numbers))
        return self._ds._ds.scan({**self._options, **changed}, callback)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._stream().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._ds._ds.scan({**self._options, "limit": 0, "offset": None}).__arrow_c_schema__()

    @property
    def projected_schema(self) -> pa.Schema:
        """Schema of the result."""
        return pyarrow("projected_schema").schema(self)

    @property
    def dataset_schema(self) -> pa.Schema:
        """Schema of the dataset."""
        return self._ds.schema

    def to_table(self) -> pa.Table:
        """The rows as a pyarrow Table."""
        return to_table(self._stream())

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a pyarrow RecordBatchReader."""
        return pyarrow("to_reader").RecordBatchReader.from_stream(self._stream())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as pyarrow RecordBatches."""
        return to_batches(self._stream())

    def to_pandas(self, **kwargs: Any) -> pd.DataFrame:
        """The rows as a pandas DataFrame; the arguments are those of `pyarrow.Table.to_pandas`."""
        return self.to_table().to_pandas(**kwargs)

    def head(self, num_rows: int) -> pa.Table:
        """The first rows."""
        limit = self._options.get("limit")
        return to_table(self._stream(limit=num_rows if limit is None else min(limit, num_rows)))

    def count_rows(self) -> int:
        """Rows of the result."""
        options = {**self._options, "order_by": None}
        limit, offset = options.pop("limit", None), options.pop("offset", None)
        rows = max(self._ds._ds.scan_count(options) - (offset or 0), 0)
        return rows if limit is None else min(rows, limit)

    def explain_plan(self, verbose: bool = False) -> str:
        """The plan as text; its form is not stable."""
        return self._ds._ds.scan_explain(self._options, False)

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Run the scan, and give the plan with what each node did."""
        refuse(count_rows=count_rows)
        return self._ds._ds.scan_explain(self._options, True)

    def take(self, indices: object) -> pa.Table:
        """Not offered, as in pylance."""
        raise NotImplementedError("take")

    def scan_batches(self) -> Any:
        """Not offered, as in pylance."""
        raise NotImplementedError("scan_batches")


__all__ = ["ColumnOrdering", "LanceScanner", "ScanStatistics"]
