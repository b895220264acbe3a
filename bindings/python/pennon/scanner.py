# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Scans of a dataset."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import _pennon
from ._data import arrow_class, cast_capsule, not_yet, pyarrow, refuse, to_batches, to_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from .dataset import _LanceDataset as LanceDataset
    from .fragment import LanceFragment
    from .types import QueryVectorLike

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

    @property
    def indices_loaded(self) -> int:
        """Indices that were opened: none yet."""
        return 0

    @property
    def parts_loaded(self) -> int:
        """Parts of indices that were read: none yet."""
        return 0

    @property
    def index_comparisons(self) -> int:
        """Comparisons in indices: none yet."""
        return 0

    @property
    def all_counts(self) -> dict[str, int]:
        """All numbers, by name."""
        return {name: int(getattr(self, name)) for name in self._fields}


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
        raise not_yet(f"a filter of {type(filter)}")


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
        raise not_yet("blob_handling='all_descriptions'")
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
    from .fragment import _LanceFragment

    if not isinstance(fragment, _LanceFragment):
        raise TypeError(f"fragments must be an iterable of LanceFragment. Got {type(fragment)} instead.")
    return fragment.fragment_id


def _order(order: Any) -> tuple[str, bool, bool]:
    if isinstance(order, str):
        order = ColumnOrdering(order)
    if not isinstance(order, ColumnOrdering):
        raise TypeError(f"orderings must be a list of ColumnOrdering. Got {type(order)} instead.")
    return order.column_name, not order.ascending, order.nulls_first


class _LanceScanner:
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
        return cast_capsule(self._stream(), requested_schema)

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

    def to_pandas(self, *, blob_mode: str = "lazy", **kwargs: Any) -> pd.DataFrame:
        """The rows as a pandas DataFrame.

        Parameters
        ----------
        blob_mode : {"lazy", "bytes", "descriptions"}
            What becomes of blob columns: files (`BlobFile`), bytes, or where they lie.
        **kwargs
            Arguments of `pyarrow.Table.to_pandas`.
        """
        if blob_mode not in ("lazy", "bytes", "descriptions"):
            raise ValueError("blob_mode must be one of: 'lazy', 'bytes', 'descriptions'")
        if blob_mode == "descriptions" or not self._has_blobs():
            return self.to_table().to_pandas(**kwargs)
        if blob_mode == "bytes":
            return to_table(self._stream(blobs=_BLOBS["all_binary"])).to_pandas(**kwargs)
        return self._with_files(**kwargs)

    def _with_files(self, **kwargs: Any) -> pd.DataFrame:
        from ._blobs import with_files

        wanted = self.projected_schema.names
        # The same version for the rows and for their blobs.
        native = self._ds._ds.snapshot()
        table = to_table(native.scan({**self._options, "with_row_address": True, "blobs": _BLOBS["blobs_descriptions"]}))
        addressed = table.select(wanted).append_column("_rowaddr", table.column("_rowaddr"))
        sources = dict(self._options.get("expressions") or ())
        sources.update({name: name for name in self._options.get("columns") or ()})
        return with_files(native, addressed, sources, table.select(wanted).to_pandas(**kwargs))

    def _has_blobs(self) -> bool:
        from ._blobs import paths_of

        return any(paths_of(field) for field in self.projected_schema)

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
        raise not_yet("take of a scanner")

    def scan_batches(self) -> Any:
        """Not offered, as in pylance."""
        raise not_yet("scan_batches")

    @staticmethod
    def from_dataset(*args: Any, **kwargs: Any) -> Any:
        """Not offered, as in pylance."""
        raise not_yet("from_dataset")

    @staticmethod
    def from_fragment(*args: Any, **kwargs: Any) -> Any:
        """Not offered, as in pylance."""
        raise not_yet("from_fragment")

    @staticmethod
    def from_batches(*args: Any, **kwargs: Any) -> Any:
        """Not offered, as in pylance."""
        raise not_yet("from_batches")


if TYPE_CHECKING:

    class LanceScanner(_LanceScanner):
        """The public class."""


def _scanner_class() -> type[LanceScanner]:
    return arrow_class(globals(), _LanceScanner, "Scanner")


def __getattr__(name: str) -> Any:
    if name == "LanceScanner":
        return _scanner_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class ScannerBuilder:
    """The arguments of `LanceDataset.scanner`, one call each.

    Parameters
    ----------
    ds : LanceDataset
    """

    def __init__(self, ds: LanceDataset):
        self.ds = ds
        self._given: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"ScannerBuilder({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    def _with(self, name: str, value: Any) -> ScannerBuilder:
        self._given[name] = value
        return self

    def apply_defaults(self, default_opts: dict[str, Any]) -> ScannerBuilder:
        """Several at once, by their names."""
        for name, value in default_opts.items():
            setter = getattr(self, _SETTERS.get(name, name), None)
            if name.startswith("_") or setter is None:
                raise ValueError(f"Unknown option {name}")
            if name == "nearest":
                setter(**value)
            else:
                setter(value)
        return self

    def batch_size(self, batch_size: int) -> ScannerBuilder:
        """Rows of a batch at most."""
        return self._with("batch_size", batch_size)

    def batch_size_bytes(self, batch_size_bytes: int) -> ScannerBuilder:
        """Bytes of a batch, about."""
        return self._with("batch_size_bytes", batch_size_bytes)

    def io_buffer_size(self, io_buffer_size: int) -> ScannerBuilder:
        """Changes nothing here."""
        return self._with("io_buffer_size", io_buffer_size)

    def batch_readahead(self, nbatches: int | None = None) -> ScannerBuilder:
        """Batches that may be in work at once."""
        return self._with("batch_readahead", _not_negative("batch_readahead", nbatches))

    def fragment_readahead(self, nfragments: int | None = None) -> ScannerBuilder:
        """Changes nothing here."""
        return self._with("fragment_readahead", _not_negative("fragment_readahead", nfragments))

    def scan_in_order(self, scan_in_order: bool = True) -> ScannerBuilder:
        """Rows come in the order of the table."""
        return self._with("scan_in_order", scan_in_order)

    def limit(self, n: int | None = None) -> ScannerBuilder:
        """Rows at most."""
        return self._with("limit", _not_negative("Limit", n))

    def offset(self, n: int | None = None) -> ScannerBuilder:
        """Rows to skip first."""
        return self._with("offset", _not_negative("Offset", n))

    def columns(self, cols: list[str] | dict[str, str] | None = None) -> ScannerBuilder:
        """Names, or names with the SQL that computes them."""
        column_options(cols)
        return self._with("columns", cols)

    def filter(self, filter: Any) -> ScannerBuilder:
        """SQL, or a pyarrow Expression."""
        return self._with("filter", filter)

    def prefilter(self, prefilter: bool) -> ScannerBuilder:
        """Changes nothing here: searches are not supported yet."""
        return self._with("prefilter", prefilter)

    def with_row_id(self, with_row_id: bool = True) -> ScannerBuilder:
        """Append `_rowid`."""
        return self._with("with_row_id", with_row_id)

    def with_row_address(self, with_row_address: bool = True) -> ScannerBuilder:
        """Append `_rowaddr`."""
        return self._with("with_row_address", with_row_address)

    def late_materialization(self, late_materialization: bool | list[str]) -> ScannerBuilder:
        """Columns that are read for the rows only that pass the filter."""
        return self._with("late_materialization", late_materialization)

    def blob_handling(self, blob_handling: str | None) -> ScannerBuilder:
        """How blob columns are given."""
        return self._with("blob_handling", blob_handling)

    def use_stats(self, use_stats: bool = True) -> ScannerBuilder:
        """Changes nothing here."""
        return self._with("use_stats", use_stats)

    def use_scalar_index(self, use_scalar_index: bool = True) -> ScannerBuilder:
        """Changes nothing here: indices are not used yet."""
        return self._with("use_scalar_index", use_scalar_index)

    def with_fragments(self, fragments: Iterable[LanceFragment] | None) -> ScannerBuilder:
        """Only these fragments, in this order."""
        kept = None if fragments is None else list(fragments)
        for fragment in kept or ():
            _fragment_id(fragment)
        return self._with("fragments", kept)

    def with_index_segments(self, index_segments: Iterable[Any] | None) -> ScannerBuilder:
        """Only these parts of an index. Not supported yet."""
        return self._with("index_segments", index_segments)

    def nearest(
        self,
        column: str,
        q: QueryVectorLike,
        k: int | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        use_index: bool = True,
        ef: int | None = None,
        query_parallelism: int | None = None,
        approx_mode: Literal["fast", "normal", "accurate"] = "normal",
        distance_range: tuple[float | None, float | None] | None = None,
    ) -> ScannerBuilder:
        """Search for near vectors. Not supported yet."""
        return self._with("nearest", {name: value for name, value in locals().items() if name != "self"})

    def fast_search(self, flag: bool) -> ScannerBuilder:
        """Search indexed rows only. Not supported yet."""
        return self._with("fast_search", flag)

    def include_deleted_rows(self, flag: bool) -> ScannerBuilder:
        """Deleted rows too."""
        return self._with("include_deleted_rows", flag)

    def full_text_search(self, query: Any, columns: list[str] | None = None) -> ScannerBuilder:
        """Search texts. Not supported yet."""
        return self._with("full_text_query", query if columns is None else {"query": query, "columns": columns})

    def scan_stats_callback(self, callback: Callable[[ScanStatistics], None]) -> ScannerBuilder:
        """Called when the last batch has been read."""
        return self._with("scan_stats_callback", callback)

    def strict_batch_size(self, strict_batch_size: bool = False) -> ScannerBuilder:
        """Every batch but the last is full."""
        return self._with("strict_batch_size", strict_batch_size)

    def order_by(self, orderings: list[ColumnOrdering] | None) -> ScannerBuilder:
        """The order of the rows."""
        for order in orderings or ():
            _order(order)
        return self._with("order_by", orderings)

    def disable_scoring_autoprojection(self, disable: bool = True) -> ScannerBuilder:
        """Changes nothing here: searches are not supported yet."""
        return self._with("disable_scoring_autoprojection", disable)

    def substrait_aggregate(self, aggregate: bytes) -> ScannerBuilder:
        """A sum of the rows, as Substrait. Not supported yet."""
        raise not_yet("substrait_aggregate")

    def to_scanner(self) -> LanceScanner:
        """The scanner."""
        return self.ds.scanner(**self._given)


#: Setters of the builder whose names are not those of the keywords.
_SETTERS = {"fragments": "with_fragments", "index_segments": "with_index_segments", "full_text_query": "full_text_search"}

__all__ = ["ColumnOrdering", "LanceScanner", "ScanStatistics", "ScannerBuilder"]
