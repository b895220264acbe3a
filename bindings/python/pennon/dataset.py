# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Datasets: open, read, write, and the verbs of their versions."""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from . import _pennon
from ._changes import (
    AlterColumn,
    AutoCleanupConfig,
    DatasetChanges,
    DatasetDelta,
    DatasetOptimizer,
    DeleteResult,
    ExecuteResult,
    IOStats,
    MemWal,
    MergeInsertBuilder,
    SqlQuery,
    SqlQueryBuilder,
    UpdateResult,
)
from ._data import arrow_class, not_yet, pyarrow, reader_of, refuse, rows_of, text_of, to_table
from ._progress import shown
from ._session import Session
from .fragment import DEFAULT_MAX_BYTES_PER_FILE, FragmentMetadata, _fragment_class
from .indices import DatasetIndices, Index, IndexFile, IndexInformation, VectorIndexReader, VectorSearchQuery
from .operation import BulkCommitResult, LanceOperation, Transaction
from .refs import Branch, Branches, Reference, Tag, Tags, ref_of, time_of
from .scanner import (
    ColumnOrdering,
    ScannerBuilder,
    ScanStatistics,
    _scanner_class,
    column_options,
    filter_options,
    scan_options,
)
from .schema import LanceSchema, _schema_of

if TYPE_CHECKING:
    from pathlib import Path

    from .file import LanceFileSession
    from .fragment import LanceFragment
    from .scanner import LanceScanner

    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

_BlobHandling = Literal["all_binary", "blobs_descriptions", "all_descriptions"]

LANCE_COMMIT_MESSAGE_KEY = "__lance_commit_message"
_CONFIG, _TABLE, _SCHEMA, _FIELD = range(4)
_MODES = {"create": 0, "append": 1, "overwrite": 2}
_STORAGE_VERSIONS = ("legacy", "0.1", "stable", "next", "2.0", "2.1", "2.2", "2.3")
_COMMIT_TIMEOUT = timedelta(minutes=30)


class Version(TypedDict):
    """A version, as `LanceDataset.versions` gives it."""

    version: int
    timestamp: int | datetime
    metadata: dict[str, str]


@dataclass
class CleanupStats:
    """What a cleanup removed."""

    bytes_removed: int
    old_versions: int
    data_files_removed: int
    transaction_files_removed: int
    index_files_removed: int
    deletion_files_removed: int


@dataclass
class DatasetBasePath:
    """A place beside the dataset's folder that its files may lie in."""

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int | None = None


@dataclass
class FieldStatistics:
    """Bytes of a field."""

    id: int
    bytes_on_disk: int


@dataclass
class DataStatistics:
    """Bytes of all fields."""

    fields: list[FieldStatistics]


class DatasetStats(TypedDict):
    """Numbers of a dataset."""

    num_deleted_rows: int
    num_fragments: int
    num_small_files: int


class LanceStats:
    """Statistics of a dataset."""

    def __init__(self, dataset: _pennon.Dataset):
        self._ds = dataset

    def dataset_stats(self, max_rows_per_group: int = 1024) -> DatasetStats:
        """Deleted rows, fragments, and those of them with fewer rows than `max_rows_per_group`."""
        fragments = rows_of(self._ds.listing("fragments"))
        return {
            "num_deleted_rows": sum(fragment["deleted_rows"] for fragment in fragments),
            "num_fragments": len(fragments),
            "num_small_files": sum(fragment["physical_rows"] < max_rows_per_group for fragment in fragments),
        }

    def index_stats(self, index_name: str) -> dict[str, Any]:
        """Numbers of an index. Not supported yet."""
        if index_name not in [index["name"] for index in json.loads(self._ds.info_json())["indices"]]:
            raise KeyError(f'Index "{index_name}" not found')
        raise not_yet("index_stats")

    def data_stats(self) -> DataStatistics:
        """Bytes of the pages of each field; none of those that hold only others."""
        held = {row["field"]: row["bytes"] for row in rows_of(self._ds.listing("data_stats"))}
        ids = sorted(_ids_of(json.loads(self._ds.schema_json())))
        return DataStatistics([FieldStatistics(number, held.get(number, 0)) for number in ids])


def _timestamp_ns(time: Any) -> int:
    """Nanoseconds since 1970 of a datetime (local where it is naive), a pandas Timestamp, or a text."""
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if not isinstance(time, datetime):
        raise TypeError(f"Unrecognized version timestamp {time} of type {type(time)}")
    whole = int(time.replace(microsecond=0).timestamp())
    return whole * 10**9 + time.microsecond * 1000 + int(getattr(time, "nanosecond", 0))


def _root(info: dict[str, Any]) -> str:
    """The dataset that a branch belongs to."""
    uri = str(info["uri"])
    return uri.removesuffix(f"/tree/{info['branch']}") if info["branch"] else uri


@cache
def _nothing_below(arrow: Any) -> tuple[Any, Any, Any]:
    """A file that is not there: what reads a dataset below Python, as pyarrow's own scanner does, fails and says why."""
    from pyarrow.fs import LocalFileSystem

    form, files = arrow.IpcFileFormat(), LocalFileSystem()
    return form, files, form.make_fragment("/a Lance dataset is read by its own methods, not by those of pyarrow", files)


def _init_beside(ds: _LanceDataset) -> None:
    """Fill the part that is pyarrow's, where there is one."""
    arrow = sys.modules.get("pyarrow.dataset")
    if arrow is not None and isinstance(ds, arrow.UnionDataset):
        form, files, fragment = _nothing_below(arrow)
        schema = ds._own_schema
        arrow.UnionDataset.__init__(ds, schema, [arrow.FileSystemDataset([fragment], schema, form, files)])


def _refuse_stores(storage_options: Any, **more: Any) -> None:
    if storage_options:
        raise NotImplementedError("storage_options: object stores are not supported yet")
    refuse(**more)


class _LanceDataset(DatasetChanges, DatasetIndices, MemWal):
    """A dataset at one of its versions.

    It is Arrow data itself: pandas, Polars, DuckDB and pyarrow read it by `__arrow_c_stream__`. It can be pickled; forked processes may
    use it.
    """

    def __init__(
        self,
        uri: str | Path,
        version: int | str | None = None,
        block_size: int | None = None,
        index_cache_size: int | None = None,
        metadata_cache_size: int | None = None,
        commit_lock: Any = None,
        storage_options: dict[str, str] | None = None,
        serialized_manifest: bytes | None = None,
        default_scan_options: dict[str, Any] | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_size_bytes: int | None = None,
        read_params: dict[str, Any] | None = None,
        session: Any = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: dict[str, dict[str, str]] | None = None,
    ):
        # Sizes of blocks and caches, and what to cache, are hints that this engine has no use for.
        _refuse_stores(
            storage_options,
            commit_lock=commit_lock,
            serialized_manifest=serialized_manifest,
            namespace_client=namespace_client,
            table_id=table_id,
            base_store_params=base_store_params,
        )
        options = {"tag": version} if isinstance(version, str) else {"version": version}
        self._set(_pennon.open(text_of(uri), options, False), default_scan_options, session)

    def _set(self, ds: _pennon.Dataset, default_scan_options: dict[str, Any] | None, session: Session | None) -> None:
        self._ds = ds
        self._default_scan_options = default_scan_options
        self._session = session
        _init_beside(self)
        for key in default_scan_options or {}:
            if key not in _SCANNER_KEYWORDS:
                raise ValueError(f"Unknown option {key}")

    @staticmethod
    def _of(
        ds: _pennon.Dataset, default_scan_options: dict[str, Any] | None = None, session: Session | None = None
    ) -> LanceDataset:
        made = _dataset_class().__new__(_dataset_class())
        made._set(ds, default_scan_options, session)
        return made

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = json.loads(self._ds.info_json())
        return info

    # ---- the object ----

    def __reduce__(self) -> tuple[Any, ...]:
        info = self._info()
        return _reopen, (_root(info), info["branch"], info["version"], self._default_scan_options)

    def __copy__(self) -> LanceDataset:
        return _LanceDataset._of(self._ds.snapshot(), self._default_scan_options, self._session)

    def __len__(self) -> int:
        return self.count_rows()

    def __repr__(self) -> str:
        info = self._info()
        columns = [field["name"] for field in json.loads(self._ds.schema_json())]
        shown = ", ".join(columns[:8]) + (", …" if len(columns) > 8 else "")
        branch = f", branch={info['branch']!r}" if info["branch"] else ""
        return f"LanceDataset(uri={info['uri']!r}{branch}, version={info['version']}, rows={info['rows']}, columns=[{shown}])"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.scanner().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.scanner().__arrow_c_schema__()

    # ---- facts ----

    @property
    def uri(self) -> str:
        """Where the dataset is."""
        return str(self._info()["uri"])

    @property
    def tags(self) -> Tags:
        """The tags."""
        return Tags(self._ds)

    @property
    def branches(self) -> Branches:
        """The branches."""
        return Branches(self._ds)

    @property
    def stats(self) -> LanceStats:
        """Statistics."""
        return LanceStats(self._ds)

    @property
    def _own_schema(self) -> pa.Schema:
        return pyarrow("schema").schema(self._ds.schema())

    @property
    def schema(self) -> pa.Schema:
        """The schema as pyarrow has it; with the row id where the default scan options ask for it."""
        if self._default_scan_options is None:
            return self._own_schema
        return self.scanner().projected_schema

    @property
    def lance_schema(self) -> LanceSchema:
        """The schema with its field ids."""
        return _schema_of(self._ds)

    @property
    def data_storage_version(self) -> str:
        """Version of the data files, "2.1"."""
        return str(self._info()["storage_version"])

    @property
    def has_stable_row_ids(self) -> bool:
        """Do row ids stay when rows move?"""
        return bool(self._info()["stable_row_ids"])

    @property
    def version(self) -> int:
        """Number of the version."""
        return self._ds.version()

    @property
    def latest_version(self) -> int:
        """Number of the newest version of its branch."""
        return self._ds.latest_version()

    @property
    def initial_storage_options(self) -> dict[str, str] | None:
        """Options of the store: none."""
        return None

    def latest_storage_options(self) -> dict[str, str] | None:
        """Options of the store, renewed: none."""
        return None

    @property
    def storage_options_accessor(self) -> Any:
        """What renews the options of the store: nothing."""
        return None

    @property
    def max_field_id(self) -> int:
        """The highest number that a field has, or had in one of the data files."""
        ids = [field for fragment in self._metadata() for file in fragment.files for field in file.fields]
        return max([*ids, *_ids_of(json.loads(self._ds.schema_json()))], default=-1)

    @property
    def partition_expression(self) -> Any:
        """Not offered, as in pylance."""
        raise not_yet("partition_expression")

    def session(self) -> Session:
        """The session that the dataset was opened with, or one of its own."""
        if self._session is None:
            self._session = Session()
        return self._session

    def _indices(self) -> int:
        return len(self._info()["indices"])

    def _metadata(self) -> list[FragmentMetadata]:
        return [FragmentMetadata._of(tree) for tree in json.loads(self._ds.fragments_json())]

    def new_file_session(self) -> LanceFileSession:
        """A session over the files of the dataset."""
        from .file import LanceFileSession

        return LanceFileSession(self.uri)

    def versions(self) -> list[Version]:
        """All versions of the branch, oldest first."""
        versions: list[Version] = []
        for row in rows_of(self._ds.listing("versions")):
            time = time_of(row["timestamp"])
            assert time is not None
            numbers = {
                "total_data_file_rows": row["physical_rows"],
                "total_data_files": row["data_files"],
                "total_deletion_file_rows": row["deleted_rows"],
                "total_deletion_files": row["deletion_files"],
                "total_files_size": row["bytes"],
                "total_fragments": row["fragments"],
                "total_rows": row["rows"],
            }
            versions.append(
                {
                    "version": row["version"],
                    "timestamp": time.astimezone().replace(tzinfo=None),
                    "metadata": {name: str(number) for name, number in numbers.items()},
                }
            )
        return versions

    # ---- reading ----

    def scanner(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | pc.Expression | dict[str, Any] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        fragments: Iterable[LanceFragment] | None = None,
        index_segments: Iterable[Any] | None = None,
        full_text_query: Any = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: _BlobHandling | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        scan_stats_callback: Callable[[ScanStatistics], None] | None = None,
        strict_batch_size: bool | None = None,
        order_by: list[ColumnOrdering | str] | None = None,
        disable_scoring_autoprojection: bool | None = None,
    ) -> LanceScanner:
        """A scan of this version.

        Parameters
        ----------
        columns : list of str, or dict of str to str, optional
            Names, or names with the SQL that computes them. All columns where it is None.
        filter : str or pyarrow.compute.Expression, optional
            SQL that is true for the rows wanted: ``"distance > 500 AND carrier = 'AA'"``.
        limit, offset : int, optional
            Rows at most; rows to skip first.
        batch_size : int, optional
            Rows of a batch at most.
        batch_size_bytes : int, optional
            Bytes of a batch, about.
        batch_readahead : int, optional
            Batches that may be in work at once.
        scan_in_order : bool, default True
        fragments : iterable of LanceFragment, optional
            Only these, in this order.
        with_row_id, with_row_address : bool, default False
            Append `_rowid`, `_rowaddr`.
        late_materialization : bool or list of str, optional
            Columns that are read for the rows only that pass the filter: all, none, or these.
        blob_handling : {"blobs_descriptions", "all_binary"}, optional
        include_deleted_rows : bool, default False
            Deleted rows too, with a null `_rowid`; needs `with_row_id`.
        scan_stats_callback : callable, optional
            Called with a `ScanStatistics` when the last batch has been read.
        strict_batch_size : bool, default False
            Every batch but the last has exactly `batch_size` rows.
        order_by : list of ColumnOrdering or str, optional
        nearest, full_text_query, index_segments, fast_search
            Not supported yet.
        prefilter, use_stats, use_scalar_index, io_buffer_size, fragment_readahead, disable_scoring_autoprojection
            Change nothing here.
        """
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}
        if fragment_readahead is not None and fragment_readahead < 0:
            raise ValueError("fragment_readahead must be non-negative")
        options, stats = scan_options(self, {**(self._default_scan_options or {}), **given})
        return _scanner_class()(self, options, stats)

    def to_table(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | pc.Expression | dict[str, Any] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: _BlobHandling | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: list[ColumnOrdering | str] | None = None,
        disable_scoring_autoprojection: bool | None = None,
    ) -> pa.Table:
        """The rows as a pyarrow Table; the arguments are those of `scanner`."""
        given = {name: value for name, value in locals().items() if name != "self"}
        return self.scanner(**given).to_table()

    def to_pandas(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | pc.Expression | None = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_mode: str = "lazy",
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: list[ColumnOrdering | str] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        **kwargs: Any,
    ) -> pd.DataFrame:
        """The rows as a pandas DataFrame.

        Parameters
        ----------
        blob_mode : {"lazy", "bytes", "descriptions"}
            What becomes of blob columns: files (`BlobFile`), bytes, or where they lie.
        **kwargs
            Arguments of `pyarrow.Table.to_pandas`; the others are those of `scanner`.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "kwargs", "blob_mode")}
        return self.scanner(**given).to_pandas(blob_mode=blob_mode, **kwargs)

    def to_batches(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | pc.Expression | dict[str, Any] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: _BlobHandling | None = None,
        use_scalar_index: bool | None = None,
        strict_batch_size: bool | None = None,
        order_by: list[ColumnOrdering | str] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as pyarrow RecordBatches; the arguments are those of `scanner`."""
        given = {name: value for name, value in locals().items() if name not in ("self", "kwargs")}
        return self.scanner(**given, **kwargs).to_batches()

    def head(self, num_rows: int, **kwargs: Any) -> pa.Table:
        """The first rows; the arguments are those of `scanner`."""
        kwargs["limit"] = num_rows
        return self.scanner(**kwargs).to_table()

    def _count(self, options: dict[str, Any], filter: Any) -> int:
        filter_options(options, filter, lambda: self._own_schema)
        try:
            return self._ds.scan_count(options)
        except ValueError as error:
            # Here, and here only, pylance says so.
            told = OSError(*error.args)
            told.detail = getattr(error, "detail", None)  # type: ignore[attr-defined]
            raise told from None

    def count_rows(self, filter: str | pc.Expression | None = None, **kwargs: Any) -> int:
        """Rows that are not deleted and pass the filter."""
        refuse(**kwargs)
        return self._ds.count_rows() if filter is None else self._count({}, filter)

    def take(self, indices: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Rows by their position among those that are not deleted, in the order asked for, duplicates included.

        Parameters
        ----------
        indices : list, array or pyarrow.Array of int
        columns : list of str, or dict of str to str, optional
            As in `scanner`.
        """
        return to_table(self._ds.take(0, _numbers(indices), column_options(columns)))

    def _take_rows(self, row_ids: Any, columns: list[str] | dict[str, str] | None = None, **kargs: Any) -> pa.Table:
        """Rows by their row ids; those that are not there are left out."""
        refuse(**kargs)
        return to_table(self._ds.take(1, _numbers(row_ids), column_options(columns)))

    def sample(
        self,
        num_rows: int,
        columns: list[str] | dict[str, str] | None = None,
        randomize_order: bool = True,
        **kwargs: Any,
    ) -> pa.Table:
        """So many different rows, chosen at random.

        Raises
        ------
        ValueError
            Where there are fewer rows.
        """
        import random

        indices = random.sample(range(self.count_rows()), num_rows)
        return self.take(indices if randomize_order else sorted(indices), columns, **kwargs)

    # ---- fragments ----

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:
        """The fragments, in the order of the version; `filter` is not looked at, as in pylance."""
        made = _fragment_class()
        return [made(self, None, fragment=metadata) for metadata in self._metadata()]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """The fragment of that number, or None."""
        return next((fragment for fragment in self.get_fragments() if fragment.fragment_id == fragment_id), None)

    # ---- what pyarrow's class has beside ----

    def filter(self, expression: Any) -> Any:
        """Not offered: give the filter to `scanner`."""
        raise not_yet("filter")

    def sort_by(self, sorting: Any, **kwargs: Any) -> Any:
        """Not offered: give the order to `scanner`."""
        raise not_yet("sort_by")

    def join_asof(self, *args: Any, **kwargs: Any) -> Any:
        """Not offered."""
        raise not_yet("join_asof")

    def replace_schema(self, schema: Any) -> Any:
        """Not offered, as in pylance."""
        raise not_yet("replace_schema")

    # ---- versions ----

    def checkout_version(self, version: int | str | tuple[str | None, int | None]) -> LanceDataset:
        """The dataset at another version.

        Parameters
        ----------
        version : int, str or tuple
            A number in this branch, a tag, or (branch or None for main, number or None for the latest).
        """
        info = self._info()
        options: dict[str, Any]
        if isinstance(version, str):
            options = {"tag": version}
        elif isinstance(version, tuple):
            options = {"branch": version[0], "version": version[1]}
        else:
            options = {"branch": info["branch"], "version": version}
        return _LanceDataset._of(_pennon.open(_root(info), options, True), self._default_scan_options, self._session)

    def checkout_latest(self) -> None:
        """Move to the newest version of the branch."""
        self._ds.refresh()

    def restore(self) -> None:
        """Commit the content of this version as a new one."""
        self._ds.restore()

    def create_branch(
        self, branch: str, reference: Reference | None = None, storage_options: dict[str, str] | None = None
    ) -> LanceDataset:
        """A branch that begins as this version, or as `reference`: a number, a tag, or (branch, number)."""
        _refuse_stores(storage_options)
        made = self._ds.branch("create", branch, ref_of(reference), None)
        assert made is not None
        return _LanceDataset._of(made, self._default_scan_options)

    def shallow_clone(
        self, target_path: str | Path, reference: Reference, storage_options: dict[str, str] | None = None, **kwargs: Any
    ) -> LanceDataset:
        """A dataset that refers to the files of this one."""
        _refuse_stores(storage_options, **kwargs)
        with shown("cloning", "bytes") as progress:
            return _LanceDataset._of(self._ds.clone(text_of(target_path), ref_of(reference), True, progress))

    def deep_clone(self, target_path: str | Path, reference: Reference | None = None) -> LanceDataset:
        """A dataset that has copies of the files of this one."""
        with shown("cloning", "bytes") as progress:
            return _LanceDataset._of(self._ds.clone(text_of(target_path), ref_of(reference), False, progress))

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
    ) -> CleanupStats:
        """Remove old versions and the files that no other one needs.

        Parameters
        ----------
        older_than : timedelta, optional
            Two weeks where neither this nor `retain_versions` is given.
        retain_versions : int, optional
            The newest so many stay.
        delete_unverified : bool, default False
            Young files that no version refers to, too: safe only when nobody writes.
        error_if_tagged_old_versions : bool, default True
            Fail before anything is removed when a tag stands on an old version; else it stays.
        delete_rate_limit : int, optional
            Removals a second.
        """
        if older_than is None and retain_versions is None:
            older_than = timedelta(days=14)
        options = {
            "older_than_ns": None if older_than is None else older_than // timedelta(microseconds=1) * 1000,
            "keep_versions": retain_versions,
            "delete_unverified": delete_unverified,
            "error_if_tagged": error_if_tagged_old_versions,
            "delete_rate": delete_rate_limit,
        }
        return CleanupStats(*self._ds.cleanup(options))

    def validate(self) -> None:
        """Read every byte of this version.

        Raises
        ------
        OSError
            With the first fault as its detail.
        """
        with shown("validating", "bytes") as progress:
            faults = self._ds.verify(0, progress)
        if faults:
            error = OSError(f"{len(faults)} faults; the first: {faults[0].message}")
            error.detail = faults[0]  # type: ignore[attr-defined]
            raise error

    # ---- writing ----

    def insert(self, data: Any, *, mode: str = "append", **kwargs: Any) -> None:
        """Write rows into this dataset, which moves to the new version; the arguments are those of `write_dataset`."""
        self._ds = write_dataset(data, self, mode=mode, **kwargs)._ds

    def truncate_table(self) -> None:
        """Delete all rows; the schema stays."""
        self.delete("true")

    @staticmethod
    def drop(
        base_uri: str | Path, storage_options: dict[str, str] | None = None, ignore_not_found: bool | None = None
    ) -> None:
        """Remove a dataset with all its versions and files.

        Parameters
        ----------
        base_uri : str or Path
        ignore_not_found : bool, optional
            Say nothing where there is none.

        Raises
        ------
        OSError
            There is no such dataset.
        """
        import shutil

        _refuse_stores(storage_options)
        path = text_of(base_uri).removeprefix("file://")
        if "://" in path:
            raise not_yet(f"drop of {path}")
        if os.path.isdir(os.path.join(path, "_versions")):
            shutil.rmtree(path)
        elif not ignore_not_found:
            raise FileNotFoundError(f"Not found: {path} is no dataset")

    @staticmethod
    def commit(
        base_uri: str | Path | LanceDataset,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: Any = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: dict[str, dict[str, str]] | None = None,
        commit_timeout: timedelta | None = _COMMIT_TIMEOUT,
    ) -> LanceDataset:
        """Commit a change whose files are written.

        Parameters
        ----------
        base_uri : str, Path or LanceDataset
        operation : LanceOperation.BaseOperation or Transaction
        read_version : int, optional
            The version that the change was made on; not needed for Overwrite and Restore, and for a Transaction.
        detached : bool, default False
            A version that is in no listing.
        max_retries : int, default 20
        commit_message : str, optional
        commit_timeout : timedelta, optional
            For all tries together; None = no limit.

        Returns
        -------
        LanceDataset
            At the new version.
        """
        _refuse_stores(
            storage_options,
            commit_lock=commit_lock,
            namespace_client=namespace_client,
            table_id=table_id,
            base_store_params=base_store_params,
        )
        if isinstance(operation, Transaction):
            if commit_message is not None:
                raise ValueError(
                    "commit_message is not supported when calling commit with a Transaction.  Set the message on the transaction "
                    "properties instead."
                )
            transaction = operation
        elif isinstance(operation, LanceOperation.BaseOperation):
            if read_version is None and not isinstance(operation, (LanceOperation.Overwrite, LanceOperation.Restore)):
                raise ValueError("read_version is required for all operations except Overwrite and Restore")
            transaction = Transaction(read_version or 0, operation)
            if commit_message is not None:
                transaction.transaction_properties = {LANCE_COMMIT_MESSAGE_KEY: commit_message}
        else:
            raise TypeError(f"operation must be a LanceOperation.BaseOperation or Transaction, got {type(operation)}")
        options = _commit_options(enable_v2_manifest_paths, detached, max_retries, enable_stable_row_ids)
        native = _pennon.transaction_from_json(json.dumps(transaction._tree()))
        uri = base_uri.uri if isinstance(base_uri, _LanceDataset) else text_of(base_uri)
        return _LanceDataset._of(_pennon.commit(uri, native, options, _milliseconds(commit_timeout)))

    @staticmethod
    def commit_batch(
        dest: str | Path | LanceDataset,
        transactions: Sequence[Transaction],
        commit_lock: Any = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        base_store_params: dict[str, dict[str, str]] | None = None,
        commit_timeout: timedelta | None = _COMMIT_TIMEOUT,
    ) -> BulkCommitResult:
        """Commit several Appends as one version; the arguments are those of `commit`."""
        _refuse_stores(storage_options, commit_lock=commit_lock, base_store_params=base_store_params)
        uri = dest.uri if isinstance(dest, _LanceDataset) else text_of(dest)
        options = _commit_options(enable_v2_manifest_paths, detached, max_retries, None)
        natives = tuple(_pennon.transaction_from_json(json.dumps(each._tree())) for each in transactions)
        ds, merged = _pennon.commit_batch(uri, natives, options, _milliseconds(commit_timeout))
        return {"dataset": _LanceDataset._of(ds), "merged": Transaction._of(json.loads(merged.to_json()))}

    def read_transaction(self, version: int) -> Transaction | None:
        """The transaction that made a version, or None where it has none."""
        made = self._ds.transaction(version)
        return None if made is None else Transaction._of(json.loads(made.to_json()))

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """The newest transactions, the newest first."""
        numbers = [version["version"] for version in self.versions() if version["version"] <= self.version]
        return [self.read_transaction(number) for number in reversed(numbers[-recent_transactions:])]

    def add_bases(
        self, new_bases: list[DatasetBasePath], transaction_properties: dict[str, str] | None = None
    ) -> LanceDataset:
        """Register more base paths."""
        self._ds.add_bases({"bases": _bases(new_bases)}, {"properties": transaction_properties})
        return cast("LanceDataset", self)

    # ---- config and metadata ----

    def _map(self, which: int, field: str | None = None) -> dict[str, str]:
        values: dict[str, str] = json.loads(self._ds.metadata_json(which, field))
        return values

    def _update(self, which: int, values: dict[str, str | None], replace: bool) -> dict[str, str]:
        self._ds.update_metadata(({"which": which, "pairs": values, "replace": replace},), None)
        return self._map(which)

    def config(self) -> dict[str, str]:
        """Settings of the engine."""
        return self._map(_CONFIG)

    def update_config(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Set settings; None removes one. Gives all of them afterwards."""
        return self._update(_CONFIG, values, replace)

    def delete_config_keys(self, keys: list[str]) -> None:
        """Remove settings."""
        self._update(_CONFIG, dict.fromkeys(keys), False)

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the table."""
        return self._map(_TABLE)

    def update_metadata(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Set metadata of the table; None removes a key. Gives all of it afterwards."""
        return self._update(_TABLE, values, replace)

    @property
    def schema_metadata(self) -> dict[str, str]:
        """Metadata of the schema."""
        return self._map(_SCHEMA)

    def update_schema_metadata(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Set metadata of the schema; None removes a key. Gives all of it afterwards."""
        return self._update(_SCHEMA, values, replace)

    def update_field_metadata(self, field_updates: dict[str, dict[str, str | None]], *, replace: bool = False) -> None:
        """Set metadata of fields, by their paths; None removes a key.

        Parameters
        ----------
        field_updates : dict of str to dict
        replace : bool, default False
            Exactly these afterwards.
        """
        updates = tuple(
            {"which": _FIELD, "field": path, "pairs": values, "replace": replace} for path, values in field_updates.items()
        )
        self._ds.update_metadata(updates, None)

    def replace_schema_metadata(self, new_metadata: dict[str, str]) -> None:
        """Set the whole metadata of the schema."""
        self._update(_SCHEMA, dict(new_metadata), True)

    def replace_field_metadata(self, field_name: str, new_metadata: dict[str, str]) -> None:
        """Set the whole metadata of a field."""
        self._ds.update_metadata(({"which": _FIELD, "field": field_name, "pairs": new_metadata, "replace": True},), None)


if TYPE_CHECKING:

    class LanceDataset(_LanceDataset):
        """The public class."""


def _dataset_class() -> type[LanceDataset]:
    return arrow_class(globals(), _LanceDataset, "UnionDataset")


#: What pylance has in this module, and where it is here.
_ELSEWHERE = {
    **dict.fromkeys(("BlobFile", "Blob"), "blob"),
    **dict.fromkeys(("Compaction", "CompactionMetrics"), "optimize"),
    **dict.fromkeys(("DataFile", "LanceFragment", "write_fragments"), "fragment"),
    **dict.fromkeys(("BatchUDF", "BatchUDFCheckpoint", "batch_udf", "normalize_transform"), "udf"),
    **dict.fromkeys(("CommitLock",), "commit"),
    **dict.fromkeys(("LanceScanner",), "scanner"),
}


def __getattr__(name: str) -> Any:
    if name == "LanceDataset":
        return _dataset_class()
    if name in _ELSEWHERE:
        from importlib import import_module

        return getattr(import_module(f".{_ELSEWHERE[name]}", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _reopen(uri: str, branch: str | None, version: int, default_scan_options: dict[str, Any] | None) -> LanceDataset:
    """The opposite of pickling."""
    ds = _pennon.open(uri, {"branch": branch, "version": version}, False)
    return _LanceDataset._of(ds, default_scan_options)


#: Keywords of `LanceDataset.scanner`.
_SCANNER_KEYWORDS = _LanceDataset.scanner.__code__.co_varnames[
    1 : _LanceDataset.scanner.__code__.co_argcount + _LanceDataset.scanner.__code__.co_kwonlyargcount
]


def _ids_of(fields: list[dict[str, Any]]) -> Iterator[int]:
    for field in fields:
        yield field["id"]
        yield from _ids_of(field["fields"])


def _numbers(indices: Any) -> Any:
    """What the extension reads: a sequence, or a buffer of 64-bit integers."""
    if hasattr(indices, "to_numpy") and hasattr(indices, "null_count"):
        return indices.to_pylist()
    return indices


def _milliseconds(timeout: timedelta | None) -> int:
    if timeout is None:
        return -1
    if timeout <= timedelta(0):
        raise ValueError("commit_timeout must be a positive duration")
    return max(timeout // timedelta(milliseconds=1), 1)


def _commit_options(
    v2_names: bool | None, detached: bool | None, max_retries: int, stable_row_ids: bool | None
) -> dict[str, Any]:
    return {
        "v1_manifest_names": v2_names is False,
        "detached": detached,
        "max_retries": max_retries,
        "stable_row_ids": stable_row_ids,
    }


def _bases(bases: list[DatasetBasePath] | None) -> tuple[tuple[int | None, str | None, str, bool], ...] | None:
    if bases is None:
        return None
    return tuple((base.id, base.name, base.path, base.is_dataset_root) for base in bases)


def _write_options(
    *,
    mode: str,
    max_rows_per_file: int,
    max_bytes_per_file: int,
    data_storage_version: str | None,
    use_legacy_format: bool | None,
    storage_options: dict[str, str] | None,
    enable_stable_row_ids: bool,
    target_bases: list[str] | None,
    initial_bases: list[DatasetBasePath] | None,
    external_blob_mode: str,
    allow_external_blob_outside_bases: bool,
) -> dict[str, Any]:
    """The part of the options that writes and fragments share."""
    _refuse_stores(storage_options)
    mode = mode.lower()
    if mode not in _MODES:
        raise ValueError(f"Invalid mode {mode}")
    if use_legacy_format is not None:
        data_storage_version = "legacy" if use_legacy_format else "stable"
    if data_storage_version is not None and data_storage_version not in _STORAGE_VERSIONS:
        raise ValueError(f"Unknown Lance storage version: {data_storage_version}")
    if data_storage_version in ("legacy", "0.1", "next", "2.3"):
        raise NotImplementedError(f"writing data_storage_version {data_storage_version!r}")
    if external_blob_mode not in ("reference", "ingest"):
        raise ValueError(f"Invalid external_blob_mode: {external_blob_mode}. Expected 'reference' or 'ingest'")
    if external_blob_mode == "ingest" and allow_external_blob_outside_bases:
        raise ValueError("allow_external_blob_outside_bases has a meaning only with external_blob_mode='reference'")
    return {
        "mode": _MODES[mode],
        "max_rows_per_file": max_rows_per_file,
        "max_bytes_per_file": max_bytes_per_file,
        "storage_version": data_storage_version,
        "stable_row_ids": enable_stable_row_ids,
        "initial_bases": _bases(initial_bases),
        "target_bases": None if target_bases is None else tuple(target_bases),
        "external_blobs": 2 if external_blob_mode == "ingest" else int(allow_external_blob_outside_bases),
    }


def _duration_text(seconds: float) -> str:
    """As the dataset's config has it: "14days", "1h 30m"."""
    if seconds <= 0:
        return "0s"
    rest, parts = int(seconds), []
    for unit, size in (("year", 31_557_600), ("month", 2_630_016), ("day", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        n, rest = divmod(rest, size)
        if n:
            parts.append(f"{n}{unit}{'s' if n > 1 and len(unit) > 1 else ''}")
    return " ".join(parts) or f"{int(seconds * 1000)}ms"


def _existing(uri: str, branch: str | None) -> _pennon.Dataset | None:
    try:
        return _pennon.open(uri, {"branch": branch}, False)
    except ValueError as error:
        if getattr(error, "detail", None) is not None and error.detail.kind == "DatasetNotFound":  # type: ignore[attr-defined]
            return None
        raise


def _check_place(uri: Any, namespace_client: Any, table_id: list[str] | None) -> None:
    """A dataset is named by its URI, or by a catalog and an id in it."""
    if uri is not None and (namespace_client is not None or table_id is not None):
        raise ValueError("Cannot specify both 'uri' and 'namespace_client/table_id'.")
    if (namespace_client is None) != (table_id is None):
        raise ValueError("Both 'namespace_client' and 'table_id' must be provided together.")
    if uri is None and namespace_client is None:
        raise ValueError("Must specify either 'uri' or both 'namespace_client' and 'table_id'.")


def write_dataset(
    data_obj: Any,
    uri: str | Path | _LanceDataset | None = None,
    schema: pa.Schema | None = None,
    mode: str = "create",
    *,
    max_rows_per_file: int = 1024 * 1024,
    max_rows_per_group: int = 1024,
    max_bytes_per_file: int = DEFAULT_MAX_BYTES_PER_FILE,
    commit_lock: Any = None,
    progress: Any = None,
    storage_options: dict[str, str] | None = None,
    data_storage_version: Literal["stable", "2.0", "2.1", "2.2", "2.3", "next", "legacy", "0.1"] | None = None,
    use_legacy_format: bool | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    auto_cleanup_options: AutoCleanupConfig | None = None,
    commit_message: str | None = None,
    transaction_properties: dict[str, str] | None = None,
    initial_bases: list[DatasetBasePath] | None = None,
    target_bases: list[str] | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    external_blob_mode: Literal["reference", "ingest"] = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    namespace_client: Any = None,
    table_id: list[str] | None = None,
) -> LanceDataset:
    """Write data as a dataset.

    Parameters
    ----------
    data_obj : object
        Arrow data of any library (what has `__arrow_c_stream__` or `__arrow_c_array__`), a pandas or Polars DataFrame, a dict of
        lists or NumPy arrays, a list of dicts, or an iterable of pyarrow RecordBatches, which needs `schema`.
    uri : str, Path or LanceDataset
        Where to write.
    schema : pyarrow.Schema, optional
        Of data that has none of its own.
    mode : {"create", "append", "overwrite"}
        "create" fails where there is a dataset; the others make one where there is none.
    max_rows_per_file : int
    max_bytes_per_file : int
        Checked after each batch.
    data_storage_version : {"stable", "2.0", "2.1", "2.2"}, optional
        2.1 for a new dataset, else the dataset's.
    enable_v2_manifest_paths, enable_stable_row_ids : bool
        Of a new dataset.
    auto_cleanup_options : dict, optional
        Of a new dataset: "interval" (versions) and "older_than_seconds".
    commit_message : str, optional
    transaction_properties : dict, optional
    initial_bases : list of DatasetBasePath, optional
        Base paths of a new dataset.
    target_bases : list of str, optional
        Names or paths of the base paths that the files go to.
    external_blob_mode : {"reference", "ingest"}
        What becomes of URIs in a blob column.
    allow_external_blob_outside_bases : bool
    blob_pack_file_size_threshold : int, optional

    Returns
    -------
    LanceDataset
        At the new version.

    Raises
    ------
    OSError
        There is a dataset already, the data does not fit its schema, the store failed.
    """
    _check_place(uri, namespace_client, table_id)
    mode = mode.lower()
    refuse(commit_lock=commit_lock, progress=progress, base_store_params=base_store_params)
    refuse(namespace_client=namespace_client, table_id=table_id)
    options = _write_options(
        mode=mode,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        data_storage_version=data_storage_version,
        use_legacy_format=use_legacy_format,
        storage_options=storage_options,
        enable_stable_row_ids=enable_stable_row_ids,
        target_bases=target_bases,
        initial_bases=initial_bases,
        external_blob_mode=external_blob_mode,
        allow_external_blob_outside_bases=allow_external_blob_outside_bases,
    )
    properties = dict(transaction_properties or {})
    if commit_message is not None:
        properties[LANCE_COMMIT_MESSAGE_KEY] = commit_message
    options["properties"] = properties or None
    options["v1_manifest_names"] = not enable_v2_manifest_paths
    options["blob_pack_bytes"] = blob_pack_file_size_threshold
    if isinstance(uri, _LanceDataset):
        info = uri._info()
        target, options["branch"] = _root(info), info["branch"]
    else:
        target = text_of(uri)
    if mode == "append":
        # An append takes what the dataset has.
        options["storage_version"] = options["storage_version"] if _existing(target, options.get("branch")) is None else None
    elif mode == "create" and auto_cleanup_options is not None:
        options["config"] = {
            "lance.auto_cleanup.interval": str(auto_cleanup_options["interval"]),
            "lance.auto_cleanup.older_than": _duration_text(auto_cleanup_options["older_than_seconds"]),
        }
    with shown("writing", "rows") as counter:
        return _LanceDataset._of(_pennon.write(target, reader_of(data_obj, schema), options, counter))


def dataset(
    uri: str | Path | None = None,
    version: int | str | None = None,
    asof: datetime | str | None = None,
    block_size: int | None = None,
    commit_lock: Any = None,
    index_cache_size: int | None = None,
    storage_options: dict[str, str] | None = None,
    default_scan_options: dict[str, Any] | None = None,
    metadata_cache_size_bytes: int | None = None,
    index_cache_size_bytes: int | None = None,
    read_params: dict[str, Any] | None = None,
    session: Any = None,
    namespace_client: Any = None,
    table_id: list[str] | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
) -> LanceDataset:
    """Open a dataset.

    Parameters
    ----------
    uri : str or Path
    version : int or str, optional
        A number or a tag; the latest version where it is None.
    asof : datetime or str, optional
        The newest version from before this time, which is local where it has no zone. Not looked at beside `version`.
    default_scan_options : dict, optional
        Arguments of `LanceDataset.scanner` that count for every scan.
    block_size, index_cache_size, metadata_cache_size_bytes, index_cache_size_bytes, read_params
        Change nothing here.
    commit_lock, storage_options, session, namespace_client, table_id, base_store_params
        Not supported yet.

    Raises
    ------
    ValueError
        There is no such dataset, version or tag.
    """
    _check_place(uri, namespace_client, table_id)
    refuse(namespace_client=namespace_client, table_id=table_id)
    if asof is not None and version is None:
        _refuse_stores(storage_options, commit_lock=commit_lock, base_store_params=base_store_params)
        try:
            ds = _pennon.open(text_of(uri), {"as_of_ns": _timestamp_ns(asof)}, False)
        except ValueError as error:
            if getattr(error, "detail", None) is None or error.detail.kind != "VersionNotFound":  # type: ignore[attr-defined]
                raise
            raise ValueError(f"{asof} is earlier than the first version of this dataset") from error
        return _LanceDataset._of(ds, default_scan_options, session)
    return _dataset_class()(
        os.fspath(uri) if uri is not None else "",
        version,
        commit_lock=commit_lock,
        storage_options=storage_options,
        default_scan_options=default_scan_options,
        session=session,
        base_store_params=base_store_params,
    )


__all__ = [
    "AlterColumn",
    "AutoCleanupConfig",
    "Branch",
    "Branches",
    "BulkCommitResult",
    "CleanupStats",
    "ColumnOrdering",
    "DataStatistics",
    "DatasetBasePath",
    "DatasetDelta",
    "DatasetOptimizer",
    "DatasetStats",
    "DeleteResult",
    "ExecuteResult",
    "FieldStatistics",
    "IOStats",
    "Index",
    "IndexFile",
    "IndexInformation",
    "LANCE_COMMIT_MESSAGE_KEY",
    "LanceDataset",
    "LanceOperation",
    "LanceSchema",
    "LanceStats",
    "MergeInsertBuilder",
    "ScanStatistics",
    "ScannerBuilder",
    "Session",
    "SqlQuery",
    "SqlQueryBuilder",
    "Tag",
    "Tags",
    "Transaction",
    "UpdateResult",
    "VectorIndexReader",
    "VectorSearchQuery",
    "Version",
    "dataset",
    "write_dataset",
]
