# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Verbs of a dataset that change rows and columns, SQL, blobs, and what came since a version; the engine refuses some yet."""
from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from . import _pennon
from ._data import not_yet, pyarrow, reader_of
from ._progress import shown
from .schema import _schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from .blob import BlobFile
    from .operation import Transaction
    from .optimize import CompactionMetrics
    from .types import ReaderLike
    from .udf import BatchUDF

_CLEANUP_INTERVAL = "lance.auto_cleanup.interval"
_CLEANUP_AGE = "lance.auto_cleanup.older_than"
_MEM_WAL = "the write-ahead log in memory"
_RETRY_TIMEOUT = timedelta(seconds=30)


def _sql(given: Any, name: str) -> str:
    """SQL of text, or of an expression of pyarrow, whose text is SQL."""
    if type(given).__name__ == "Expression":
        return str(given)
    if not isinstance(given, str):
        raise TypeError(f"argument '{name}': '{type(given).__name__}' object is not an instance of 'str'")
    return given


def _retries(conflict_retries: int, retry_timeout: timedelta) -> dict[str, Any]:
    if not isinstance(retry_timeout, timedelta):
        raise TypeError(f"argument 'retry_timeout': '{type(retry_timeout).__name__}' object is not an instance of 'timedelta'")
    if retry_timeout < timedelta(0):
        raise ValueError(f"retry_timeout is negative: {retry_timeout}")
    return {"conflict_retries": conflict_retries, "retry_timeout_ms": round(retry_timeout.total_seconds() * 1000)}


_ALTERATION = ("name", "nullable", "data_type")


def _fields_of(transforms: Any) -> pa.Schema | None:
    """The schema, where fields alone are given."""
    import sys

    arrow = sys.modules.get("pyarrow")
    if arrow is None:
        return None
    if isinstance(transforms, arrow.Field):
        transforms = [transforms]
    if isinstance(transforms, list) and transforms and isinstance(transforms[0], arrow.Field):
        transforms = arrow.schema(transforms)
    return transforms if isinstance(transforms, arrow.Schema) else None


def _alteration(given: Any) -> tuple[str, str | None, bool | None, object]:
    """A dictionary as the extension takes it, with the errors of pylance."""
    if "path" not in given:
        raise ValueError("path is required")
    for key in given:
        if key != "path" and key not in _ALTERATION:
            raise ValueError(f"Unknown key: {key}. Valid keys are name, nullable, and data_type.")
    if not any(key in given for key in _ALTERATION):
        raise ValueError("At least one of name, nullable, or data_type must be specified")
    if "name" in given and not isinstance(given["name"], str):
        raise TypeError(f"'{given['name']}' is not an instance of 'str'")
    if "nullable" in given and not isinstance(given["nullable"], bool):
        raise TypeError(f"'{given['nullable']}' is not an instance of 'bool'")
    kind = given.get("data_type")
    if "data_type" in given and not hasattr(kind, "__arrow_c_schema__"):
        raise TypeError(f"Expected instance of pyarrow.lib.DataType, got {type(kind).__module__}.{type(kind).__name__}")
    return given["path"], given.get("name"), given.get("nullable"), None if kind is None else kind.__arrow_c_schema__()


class UpdateResult(TypedDict):
    """What `LanceDataset.update` did."""

    num_rows_updated: int


class DeleteResult(TypedDict):
    """What `LanceDataset.delete` did."""

    num_deleted_rows: int


class AlterColumn(TypedDict, total=False):
    """A change to a column, for `LanceDataset.alter_columns`."""

    path: str
    name: str | None
    nullable: bool | None
    data_type: pa.DataType | None


class ExecuteResult(TypedDict):
    """What a merge did."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


class AutoCleanupConfig(TypedDict):
    """When commits clean up old versions."""

    interval: int
    older_than_seconds: int


@dataclass
class IOStats:
    """What was read and written, as `LanceDataset.io_stats_snapshot` will give it."""

    read_iops: int = 0
    read_bytes: int = 0
    write_iops: int = 0
    written_bytes: int = 0


# As PENNON_MATCHED_ and PENNON_BY_SOURCE_.
_UPDATE, _UPDATE_IF, _FAIL, _DELETE = 1, 2, 3, 4
_BY_SOURCE_DELETE, _BY_SOURCE_DELETE_IF = 1, 2


class MergeInsertBuilder:
    """A merge of new rows, the source, into a dataset, the target: what is to become of rows that match, and of rows that do not.

    Without a clause nothing happens to a row: `execute` needs one at least.

    Parameters
    ----------
    dataset : LanceDataset
    on : str or list of str, optional
        Columns whose values tell which rows are the same; the primary key of the schema where none is given.
    """

    def __init__(self, dataset: Any, on: str | Iterable[str] | None = None):
        self._dataset = dataset
        self._on = [on] if isinstance(on, str) else [*(on or [])]
        self._options: dict[str, Any] = {"on": self._on} if self._on else {}
        self._explain({"when_matched": _DELETE})

    def _explain(self, more: dict[str, Any], data: Any = None, verbose: bool = False) -> str:
        plan: str = self._dataset._ds.merge_explain(data, {**self._options, **more}, verbose)
        return plan

    def _with(self, **options: Any) -> MergeInsertBuilder:
        self._options.update(options)
        return self

    def __repr__(self) -> str:
        more = "".join(f", {name}={value!r}" for name, value in self._options.items() if name != "on")
        return f"MergeInsertBuilder(on={self._on}{more})"

    def when_matched_update_all(self, condition: str | None = None) -> MergeInsertBuilder:
        """Rows that match get the new values, all of them or where the SQL over `source.x` and `target.x` is true.

        Columns that the new rows lack keep their values.
        """
        if condition is None:
            return self._with(when_matched=_UPDATE, matched_condition=None)
        return self._with(when_matched=_UPDATE_IF, matched_condition=_sql(condition, "condition"))

    def when_matched_delete(self) -> MergeInsertBuilder:
        """Rows that match are deleted."""
        return self._with(when_matched=_DELETE, matched_condition=None)

    def when_matched_fail(self) -> MergeInsertBuilder:
        """The merge fails where a row matches, and changes nothing."""
        return self._with(when_matched=_FAIL, matched_condition=None)

    def when_not_matched_insert_all(self) -> MergeInsertBuilder:
        """New rows that match none are inserted."""
        return self._with(when_not_matched=1)

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> MergeInsertBuilder:
        """Rows that no new row matches are deleted, all of them or where the SQL is true."""
        if expr is None:
            return self._with(by_source=_BY_SOURCE_DELETE, by_source_condition=None)
        condition = _sql(expr, "expr")
        self._explain({"by_source": _BY_SOURCE_DELETE_IF, "by_source_condition": condition, "when_matched": 0, "matched_condition": None})
        return self._with(by_source=_BY_SOURCE_DELETE_IF, by_source_condition=condition)

    def conflict_retries(self, max_retries: int) -> MergeInsertBuilder:
        """How often the merge is done again after a conflict: 10 where nothing is said."""
        return self._with(conflict_retries=max_retries)

    def retry_timeout(self, timeout: timedelta) -> MergeInsertBuilder:
        """For how long it is done again: 30 seconds where nothing is said."""
        return self._with(retry_timeout_ms=_retries(0, timeout)["retry_timeout_ms"])

    def use_index(self, use_index: bool) -> MergeInsertBuilder:
        """May an index on the columns find the matches?"""
        return self._with(use_index=use_index)

    def mark_generations_as_merged(self, generations: list[Any]) -> MergeInsertBuilder:
        """Generations of the write-ahead log that the merge takes in. Not supported yet."""
        raise not_yet(_MEM_WAL)

    def _refuse_nothing(self) -> None:
        if not any(self._options.get(name) for name in ("when_matched", "when_not_matched", "by_source")):
            raise ValueError("Invalid user input: The merge insert job is not configured to change the data in any way")

    def execute(self, data_obj: ReaderLike, *, schema: pa.Schema | None = None) -> ExecuteResult:
        """Merge and commit; the dataset is at the new version then.

        Parameters
        ----------
        data_obj : object
            The new rows: anything that `write_dataset` takes. What can be read only once is kept for attempts after a conflict.
        schema : pyarrow.Schema, optional
            Schema of data that has none.

        Returns
        -------
        dict
            "num_inserted_rows", "num_updated_rows" and "num_deleted_rows".
        """
        self._refuse_nothing()
        done = self._dataset._ds.merge(reader_of(data_obj, schema), self._options)
        return _merged(done)

    def execute_uncommitted(
        self, data_obj: ReaderLike, *, schema: pa.Schema | None = None
    ) -> tuple[Transaction, dict[str, Any]]:
        """Merge, and give the transaction that `LanceDataset.commit` makes visible, with the numbers that `execute` gives."""
        from .operation import Transaction

        self._refuse_nothing()
        made, done = self._dataset._ds.merge_uncommitted(reader_of(data_obj, schema), self._options)
        return Transaction._of(json.loads(made.to_json())), dict(_merged(done))

    def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str:
        """The plan as text, for rows of the schema, or of that of the dataset."""
        self._refuse_nothing()
        return self._explain({}, None if schema is None else schema.empty_table(), verbose)

    def analyze_plan(self, data_obj: ReaderLike, *, schema: pa.Schema | None = None) -> str:
        """Merge without a commit, and tell what each node of the plan did. The files are removed again."""
        self._refuse_nothing()
        done: str = self._dataset._ds.merge_analyze(reader_of(data_obj, schema), self._options)
        return done


def _merged(done: dict[str, int]) -> ExecuteResult:
    return {
        "num_inserted_rows": done["num_inserted_rows"],
        "num_updated_rows": done["num_updated_rows"],
        "num_deleted_rows": done["num_deleted_rows"],
    }


class SqlQuery:
    """A query over a dataset. Not supported yet."""

    def __init__(self, query: Any):
        self._query = query

    def to_batch_records(self) -> list[pa.RecordBatch]:
        """The result as batches."""
        raise not_yet("sql")

    def to_stream_reader(self) -> pa.RecordBatchReader:
        """The result as a reader."""
        raise not_yet("sql")


class SqlQueryBuilder:
    """Options of a query."""

    def __init__(self, builder: Any):
        self._builder = builder

    def table_name(self, table_name: str) -> SqlQueryBuilder:
        """The name of the dataset in the query; "dataset" where none is given."""
        raise not_yet("sql")

    def with_row_id(self, with_row_id: bool = True) -> SqlQueryBuilder:
        """The dataset has a column `_rowid`."""
        raise not_yet("sql")

    def with_row_addr(self, with_row_addr: bool = True) -> SqlQueryBuilder:
        """The dataset has a column `_rowaddr`."""
        raise not_yet("sql")

    def build(self) -> SqlQuery:
        """The query."""
        raise not_yet("sql")


class DatasetDelta:
    """What changed between two versions: rows that came, changed or went, and who did it."""

    def __init__(self, delta: Any):
        self._delta = delta

    def list_transactions(self) -> list[Transaction]:
        """The transactions, oldest first. Versions without one are left out."""
        made: list[Transaction] = self._delta.transactions()
        return made

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Rows that were created in the range: all columns, ``_rowid`` and the version columns."""
        return self._delta.rows(0)

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Rows that are older than the range and were last changed in it."""
        return self._delta.rows(1)

    def get_upserted_rows(self) -> pa.RecordBatchReader:
        """Both. Not in pylance."""
        return self._delta.rows(2)

    def get_deleted_rows(self) -> pa.RecordBatchReader:
        """Rows that the first version has and the last one has not, as they were in the first. Not in pylance."""
        return self._delta.rows(3)

    def count_rows(self) -> dict[str, int]:
        """Numbers of rows: inserted, updated, deleted. Not in pylance."""
        counts: dict[str, int] = self._delta.counts()
        return counts


class _Delta:
    """The range of a delta, on a version of its own of the dataset."""

    def __init__(self, dataset: Any, options: dict[str, int]):
        self._native: _pennon.Dataset = dataset._ds.snapshot()
        self._dataset = dataset
        self._options = options
        self._range: tuple[int, int] = self._native.delta(-1, options)

    def rows(self, kind: int) -> pa.RecordBatchReader:
        stream = self._native.delta(kind, self._options)
        return pyarrow("a delta").RecordBatchReader.from_stream(stream)

    def counts(self) -> dict[str, int]:
        return dict(zip(("inserted", "updated", "deleted"), self._native.delta(-2, self._options)))

    def transactions(self) -> list[Any]:
        begin, end = self._range
        found = []
        for version in range(begin + 1, end + 1):
            try:
                found.append(self._dataset.read_transaction(version))
            except OSError as error:
                if getattr(getattr(error, "detail", None), "kind", None) != "VersionNotFound":
                    raise
                text = f"Version not found error: Can not find version {version}, please check if it has been cleanup."
                raise ValueError(text) from error
        return [transaction for transaction in found if transaction is not None]


class DatasetOptimizer:
    """Compaction, and the settings of automatic cleanup."""

    def __init__(self, dataset: Any):
        self._dataset = dataset

    def compact_files(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        defer_index_remap: bool | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        compaction_mode: Literal["reencode", "try_binary_copy", "force_binary_copy"] | None = None,
        binary_copy_read_batch_bytes: int | None = None,
    ) -> CompactionMetrics:
        """Join small fragments, and drop deleted rows from the files. The dataset moves to the new version.

        What is not given comes from the dataset's config (`lance.compaction.*`), or has its default. Where there is nothing to do no version is made.

        Parameters
        ----------
        target_rows_per_fragment : int, default 1024 * 1024
            Fragments with fewer rows join their neighbours; new ones have so many at most.
        max_rows_per_group : int, default 1024
            Has no meaning in the formats that are written.
        max_bytes_per_file : int, optional
        materialize_deletions : bool, default True
            Write fragments with many deleted rows anew, also alone.
        materialize_deletions_threshold : float, default 0.1
            The share of rows that has to be deleted for that.
        defer_index_remap : bool, default False
            Leave the indices as they are; their readers learn where rows went.
        num_threads : int, optional
            Tasks side by side.
        batch_size : int, optional
            Rows that are read at once.
        compaction_mode : {"reencode", "try_binary_copy", "force_binary_copy"}, optional
        binary_copy_read_batch_bytes : int, optional
        """
        from .optimize import Compaction

        given = {name: value for name, value in locals().items() if name not in ("self", "Compaction") and value is not None}
        return Compaction.execute(self._dataset, given)  # type: ignore[arg-type]

    def optimize_indices(self, **kwargs: Any) -> None:
        """Bring the indices up to date. Not supported yet."""
        raise not_yet("optimize_indices")

    def enable_auto_cleanup(self, auto_cleanup_config: AutoCleanupConfig, **kwargs: Any) -> None:
        """Let commits clean up old versions.

        Parameters
        ----------
        auto_cleanup_config : dict
            "interval": every so many versions; "older_than_seconds": those older than this.
        """
        self._dataset.update_config(
            {
                _CLEANUP_INTERVAL: str(auto_cleanup_config["interval"]),
                _CLEANUP_AGE: f"{auto_cleanup_config['older_than_seconds']}s",
            }
        )

    def disable_auto_cleanup(self, **kwargs: Any) -> None:
        """Let commits no longer clean up."""
        self._dataset.delete_config_keys([_CLEANUP_INTERVAL, _CLEANUP_AGE])


class DatasetChanges:
    """The part of LanceDataset that changes rows and columns."""

    _ds: _pennon.Dataset

    @property
    def optimize(self) -> DatasetOptimizer:
        """Compaction, and the settings of automatic cleanup."""
        return DatasetOptimizer(self)

    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = _RETRY_TIMEOUT,
    ) -> DeleteResult:
        """Delete the rows for which an expression is true, and commit.

        Parameters
        ----------
        predicate : str or pyarrow.compute.Expression
            SQL as in `scanner(filter=...)`. Rows for which it is null stay; "true" is for all rows.
        conflict_retries : int
            How often the work is begun again when another writer changed the same rows meanwhile.
        retry_timeout : timedelta
            What is begun again ends then.

        Returns
        -------
        dict
            "num_deleted_rows".
        """
        where = _sql(predicate, "predicate")
        return {"num_deleted_rows": self._ds.delete(where, _retries(conflict_retries, retry_timeout))}

    def update(
        self,
        updates: dict[str, str],
        where: str | None = None,
        conflict_retries: int = 10,
        retry_timeout: timedelta = _RETRY_TIMEOUT,
    ) -> UpdateResult:
        """Set columns to the values of expressions, and commit.

        The rows are rewritten behind the others; with stable row ids they keep their ids.

        Parameters
        ----------
        updates : dict
            SQL by column. Expressions see the values from before.
        where : str or pyarrow.compute.Expression, optional
            Only the rows for which this is true.
        conflict_retries : int
            How often the work is begun again when another writer changed the same rows meanwhile.
        retry_timeout : timedelta
            What is begun again ends then.

        Returns
        -------
        dict
            "num_rows_updated".
        """
        if not isinstance(updates, dict):
            raise TypeError(f"argument 'updates': '{type(updates).__name__}' object is not an instance of 'dict'")
        for text in (*updates, *updates.values()):
            if not isinstance(text, str):
                raise TypeError(f"'{type(text).__name__}' object is not an instance of 'str'")
        condition = None if where is None else _sql(where, "where")
        options = _retries(conflict_retries, retry_timeout)
        return {"num_rows_updated": self._ds.update(tuple(updates), tuple(updates.values()), condition, options)}

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """A merge of new rows by the values of columns; see `MergeInsertBuilder`, whose methods say what it does."""
        return MergeInsertBuilder(self, on)

    def merge(self, data_obj: ReaderLike, left_on: str, right_on: str | None = None, schema: Any = None) -> None:
        """Add the columns of other data to the rows with the same key, and commit.

        Rows that the data does not have get nulls. Of several rows with one key the last one counts. The data is held in memory.

        Parameters
        ----------
        data_obj : object
            Arrow data, pandas, a dataset: as `pennon.write_dataset` takes it.
        left_on : str
            The key: a column of the dataset, `_rowid` or `_rowaddr`.
        right_on : str, optional
            The key in the data, where it has another name there.
        schema : pyarrow.Schema, optional
            Of an iterable of batches.
        """
        reader = reader_of(data_obj, schema)
        with shown("joining", "rows") as progress:
            self._ds.join_columns(reader, left_on, left_on if right_on is None else right_on, None, progress)

    def add_columns(
        self,
        transforms: dict[str, str] | BatchUDF | ReaderLike | pa.Field | list[pa.Field] | pa.Schema,
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Add columns, and commit.

        Their values go into new files beside those that are there, which are not touched.

        Parameters
        ----------
        transforms : dict, function, object, pyarrow.Field, list of pyarrow.Field or pyarrow.Schema
            SQL by name, over the columns of the dataset. Or a function from a RecordBatch to one with the new columns of the same rows; see
            `pennon.batch_udf`. Or data with a row for each row of the dataset, in their order. Or fields of columns of nulls, which take no file.
        read_columns : list of str, optional
            What a function reads; all columns where it is None. `_rowid` and `_rowaddr` may be among them.
        reader_schema : pyarrow.Schema, optional
            Of an iterable of batches.
        batch_size : int, optional
            Rows at most that are computed at once; 1024 for functions.
        """
        from .udf import BatchUDF, _add, normalize_transform

        nulls = _fields_of(transforms)
        if nulls is not None:
            self._ds.add_nulls(nulls.__arrow_c_schema__(), None)
            return
        made = normalize_transform(transforms, self, read_columns, reader_schema)
        if isinstance(made, dict) and not made:
            self._commit_schema()
            return
        with shown("adding columns", "rows") as progress:
            _add(self._ds, made, read_columns, {"batch_rows": batch_size}, progress)
        if isinstance(made, BatchUDF) and made.cache is not None:
            made.cache.cleanup()

    def alter_columns(self, *alterations: Iterable[AlterColumn]) -> None:
        """Rename columns, change their types, or whether they may be null, and commit.

        For another type the values are written anew, and every one has to fit; types change within one family: integers, floats, dates and
        times, strings, bytes, decimals, lists. Everything else changes nothing in the files.

        Parameters
        ----------
        alterations : dict
            "path" of the column, dotted into structs; and of "name", "nullable", "data_type" what is to be changed.
        """
        changes = tuple(_alteration(one) for one in alterations)
        if not changes:
            self._commit_schema()
            return
        with shown("casting", "rows") as progress:
            self._ds.alter_columns(changes, None, progress)

    def drop_columns(self, columns: list[str]) -> None:
        """Take columns out of the schema, and commit. Their bytes stay in the files until those are rewritten.

        Parameters
        ----------
        columns : list of str
            Dotted paths reach into structs.
        """
        if isinstance(columns, str):
            raise TypeError("argument 'columns': Can't extract `str` to `Vec`")
        names = tuple(columns)
        if not names:
            self._commit_schema()
            return
        self._ds.drop_columns(names, None)

    def _commit_schema(self) -> None:
        """A version with nothing new, as a change of no column makes in pylance."""
        from .operation import LanceOperation, Transaction

        made = Transaction(self._ds.version(), LanceOperation.Project(_schema_of(self._ds)))
        self._ds.commit(_pennon.transaction_from_json(json.dumps(made._tree())), None, -1)

    def join(
        self,
        right_dataset: Any,
        keys: Any,
        right_keys: Any = None,
        join_type: str = "left outer",
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        coalesce_keys: bool = True,
        use_threads: bool = True,
    ) -> Any:
        """Not offered, as in pylance."""
        raise not_yet("join")

    def sql(self, sql: str) -> SqlQueryBuilder:
        """A query. Not supported yet."""
        raise not_yet("sql")

    def delta(
        self, compared_against: int | None = None, *, begin_version: int | None = None, end_version: int | None = None
    ) -> DatasetDelta:
        """What changed between two versions. Rows need a dataset with stable row ids.

        Parameters
        ----------
        compared_against : int, optional
            Another version: the range is from the lower of the two to the higher.
        begin_version, end_version : int, optional
            The range: what happened after `begin_version`, up to `end_version`.
        """
        options: dict[str, int] = {}
        if compared_against is not None:
            options["compared_against"] = compared_against
        else:
            options.update({} if begin_version is None else {"begin_version": begin_version})
            options.update({} if end_version is None else {"end_version": end_version})
        return DatasetDelta(_Delta(self, options))

    def take_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        buffer_size: int | None = None,
    ) -> list[BlobFile | None]:
        """Blobs as files that can be read, in the order asked for. Their bytes are read when the files are.

        Parameters
        ----------
        blob_column : str
            A dotted path reaches into structs.
        ids, addresses, indices : list, array or pyarrow.Array of int
            The rows by row id, by address, or by position: one of the three.
        buffer_size : int, optional
            Not looked at: files read what they are asked for.

        Returns
        -------
        list of BlobFile or None
            None for a null; a blob of no bytes is a file of no bytes.
        """
        from ._blobs import take

        return take(self._ds, blob_column, ids, addresses, indices)

    def read_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """The bytes of blobs, many at once.

        Parameters
        ----------
        blob_column, ids, addresses, indices
            As in `take_blobs`.
        io_buffer_size : int, optional
            Bytes that are read together, about.
        preserve_order : bool, optional
            Not looked at: the order is always that of the request.

        Returns
        -------
        list of (int, bytes or None)
            Row address and bytes, None for a null.
        """
        from ._blobs import read

        return read(self._ds, blob_column, ids, addresses, indices, io_buffer_size)

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Parts of blobs, many at once.

        Parameters
        ----------
        blob_column : str
        requests : sequence of (int, int, int)
            Row, first byte in the blob, and number of bytes, which the blob has to have.
        selector : {"ids", "addresses", "indices"}
            What rows are told by.
        io_buffer_size, preserve_order
            As in `read_blobs`.

        Returns
        -------
        list of (int, int, bytes or None)
            Number of the request, row address and bytes, None for a part of a null.
        """
        from ._blobs import read_ranges

        return read_ranges(self._ds, blob_column, requests, selector, io_buffer_size)

    def migrate_manifest_paths_v2(self) -> None:
        """Rename the manifests. Not supported yet."""
        raise not_yet("migrate_manifest_paths_v2")

    def io_stats_snapshot(self) -> Any:
        """What was read and written. Not supported yet."""
        raise not_yet("io_stats_snapshot")

    def io_stats_incremental(self) -> Any:
        """What was read and written since the last call. Not supported yet."""
        raise not_yet("io_stats_incremental")

    def tracked_files(self, *, min_version: int | None = None, progress: Any = None) -> pa.RecordBatchReader:
        """Files that versions refer to. Not supported yet."""
        raise not_yet("tracked_files")

    def all_files(self) -> pa.RecordBatchReader:
        """All files of the dataset. Not supported yet."""
        raise not_yet("all_files")


class MemWal:
    """The part of LanceDataset that is about the write-ahead log."""

    def initialize_mem_wal(
        self,
        *,
        maintained_indexes: list[str] | None = None,
        bucket_column: str | None = None,
        num_buckets: int | None = None,
        identity_column: str | None = None,
        unsharded: bool = False,
        durable_write: bool | None = None,
        sync_indexed_write: bool | None = None,
        max_wal_buffer_size: int | None = None,
        max_wal_flush_interval_ms: int | None = None,
        max_memtable_size: int | None = None,
        max_memtable_rows: int | None = None,
        max_memtable_batches: int | None = None,
        max_unflushed_memtable_bytes: int | None = None,
        manifest_scan_batch_size: int | None = None,
        async_index_buffer_rows: int | None = None,
        async_index_interval_ms: int | None = None,
        backpressure_log_interval_ms: int | None = None,
        stats_log_interval_ms: int | None = None,
        hnsw_params: dict[str, dict[str, int]] | None = None,
    ) -> None:
        """Set up the log. Not supported."""
        raise not_yet(_MEM_WAL)

    def mem_wal_index_details(self) -> dict[str, Any] | None:
        """Settings of the log. Not supported."""
        raise not_yet(_MEM_WAL)

    def mem_wal_writer(
        self,
        shard_id: str,
        *,
        durable_write: bool | None = None,
        sync_indexed_write: bool | None = None,
        max_wal_buffer_size: int | None = None,
        max_wal_flush_interval_ms: int | None = None,
        max_memtable_size: int | None = None,
        max_memtable_rows: int | None = None,
        max_memtable_batches: int | None = None,
        max_unflushed_memtable_bytes: int | None = None,
        manifest_scan_batch_size: int | None = None,
        async_index_buffer_rows: int | None = None,
        async_index_interval_ms: int | None = None,
        backpressure_log_interval_ms: int | None = None,
        stats_log_interval_ms: int | None = None,
        hnsw_params: dict[str, dict[str, int]] | None = None,
    ) -> Any:
        """A writer to a shard. Not supported."""
        raise not_yet(_MEM_WAL)


__all__ = [
    "AlterColumn",
    "AutoCleanupConfig",
    "DatasetChanges",
    "DatasetDelta",
    "DatasetOptimizer",
    "DeleteResult",
    "ExecuteResult",
    "IOStats",
    "MemWal",
    "MergeInsertBuilder",
    "SqlQuery",
    "SqlQueryBuilder",
    "UpdateResult",
]
