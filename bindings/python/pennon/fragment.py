# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Fragments: their metadata, reading them, and writing them without a commit."""
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from . import _pennon
from ._data import arrow_class, not_yet, pyarrow, reader_of, refuse, rows_of, text_of, to_table
from ._progress import shown

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.compute as pc

    from .dataset import DatasetBasePath
    from .dataset import _LanceDataset as LanceDataset
    from .operation import Transaction
    from .progress import FragmentWriteProgress
    from .scanner import ColumnOrdering, LanceScanner
    from .schema import LanceSchema
    from .types import ReaderLike
    from .udf import BatchUDF

DEFAULT_MAX_BYTES_PER_FILE = 90 * 1024 * 1024 * 1024


@dataclass
class DataFile:
    """A data file of a fragment.

    Attributes
    ----------
    path : str
        Below the dataset's `data` folder.
    fields : list of int
        Ids of the fields that it holds.
    column_indices : list of int
        The column of each of them in the file.
    file_major_version, file_minor_version : int
        Version of the file format.
    file_size_bytes : int, optional
    base_id : int, optional
        Of the base path that it lies under.
    """

    _path: str
    fields: list[int]
    column_indices: list[int] = field(default_factory=list)
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None

    def __init__(
        self,
        path: str,
        fields: list[int],
        column_indices: list[int] | None = None,
        file_major_version: int = 0,
        file_minor_version: int = 0,
        file_size_bytes: int | None = None,
        base_id: int | None = None,
    ):
        self._path = path
        self.fields = fields
        self.column_indices = column_indices or []
        self.file_major_version = file_major_version
        self.file_minor_version = file_minor_version
        self.file_size_bytes = file_size_bytes
        self.base_id = base_id

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._tree().items() if name != "base_id" or value is not None)
        return f"DataFile({shown})"

    @property
    def path(self) -> str:
        """Below the dataset's `data` folder."""
        return self._path

    def field_ids(self) -> list[int]:
        """Ids of the fields that it holds."""
        return self.fields

    def _tree(self) -> dict[str, Any]:
        return {name.removeprefix("_"): value for name, value in self.__dict__.items()}

    @classmethod
    def create(cls, dataset: LanceDataset, path: str, *, base_id: int | None = None) -> DataFile:
        """Of a file that lies in the dataset's `data` folder, for `LanceOperation.DataReplacement`; its columns are found by name."""
        return _data_file(dataset, path, base_id)[0]


def _leaf_ids(tree: dict[str, Any]) -> Iterator[int]:
    """Ids of a field and of those in it, parents first."""
    yield tree["id"]
    for child in tree["fields"]:
        yield from _leaf_ids(child)


def _has_column(tree: dict[str, Any], version: str) -> bool:
    """2.0 has a column for every field, later versions only for those that hold values."""
    return version == "2.0" or not tree["fields"] or "lance-encoding:packed" in tree.get("metadata", {})


def _column_ids(tree: dict[str, Any], version: str) -> Iterator[int]:
    if _has_column(tree, version):
        yield tree["id"]
    if version == "2.0" or not _has_column(tree, version):
        for child in tree["fields"]:
            yield from _column_ids(child, version)


def _data_file(dataset: LanceDataset, path: str, base_id: int | None) -> tuple[DataFile, int]:
    """The file, and its rows."""
    info = dataset._info()
    if base_id is None:
        folder = f"{info['uri']}/data"
    else:
        base = next((one for one in info["base_paths"] if one["id"] == base_id), None)
        if base is None:
            raise ValueError(f"the dataset has no base path {base_id}")
        folder = f"{base['path']}/data" if base["is_dataset_root"] else base["path"]
    file = _pennon.file_open(f"{folder}/{path}")
    version = str(json.loads(file.info_json())["version"])
    own = {tree["name"]: tree for tree in json.loads(dataset._ds.schema_json())}
    ids: list[int] = []
    for arrow in pyarrow("DataFile.create").schema(file.schema()):
        if arrow.name not in own:
            raise ValueError(f"{path}: the dataset has no column {arrow.name!r}")
        ids.extend(_column_ids(own[arrow.name], version))
    major, minor = (int(part) for part in version.split("."))
    size = _pennon.store_open(folder).size(path)
    return DataFile(path, ids, list(range(len(ids))), major, minor, size, base_id), file.rows()


@dataclass
class DeletionFile:
    """The file that tells which rows of a fragment are deleted."""

    read_version: int
    id: int
    file_type: str
    num_deleted_rows: int
    base_id: int | None = None

    def asdict(self) -> dict[str, Any]:
        """The members as a dictionary."""
        return dict(self.__dict__)

    def json(self) -> str:
        """The members as JSON."""
        return json.dumps(self.asdict())

    def path(self, fragment_id: int, base_uri: str | None = None) -> str:
        """Where it lies: below the dataset, or below `base_uri`."""
        end = "bin" if self.file_type == "bitmap" else "arrow"
        path = f"_deletions/{fragment_id}-{self.read_version}-{self.id}.{end}"
        return path if base_uri is None else f"{base_uri}/{path}"

    @staticmethod
    def from_json(json: str) -> DeletionFile:
        """The opposite of json."""
        from json import loads

        return DeletionFile(**loads(json))


@dataclass
class RowIdMeta:
    """Where the row ids of a fragment are."""

    _json: str

    def json(self) -> str:
        """As JSON."""
        return self._json

    @staticmethod
    def from_json(json: str) -> RowIdMeta:
        """The opposite of json."""
        return RowIdMeta(json)

    def asdict(self) -> dict[str, Any]:
        """As a dictionary."""
        tree: dict[str, Any] = json.loads(self._json)
        return tree

    @classmethod
    def from_dict(cls, dict: dict[str, Any]) -> RowIdMeta:
        """The opposite of asdict."""
        return cls(json.dumps(dict))


class RowDatasetVersionMeta(RowIdMeta):
    """Where it is told in which versions the rows of a fragment were made or changed."""

    @staticmethod
    def from_json(json: str) -> RowDatasetVersionMeta:
        """The opposite of json."""
        return RowDatasetVersionMeta(json)


def _meta(kind: type[RowIdMeta], tree: Any) -> Any:
    return None if tree is None else kind(json.dumps(tree))


def _meta_tree(meta: Any) -> Any:
    return meta.asdict() if isinstance(meta, RowIdMeta) else meta


@dataclass
class FragmentMetadata:
    """Metadata of a fragment, which a transaction commits.

    Attributes
    ----------
    id : int
    files : list of DataFile
    physical_rows : int
        Rows of the data files, deleted ones too.
    deletion_file : DeletionFile, optional
    row_id_meta, created_at_version_meta, last_updated_at_version_meta : object, optional
        As the JSON form has them.
    """

    id: int
    files: list[DataFile]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_id_meta: RowIdMeta | None = None
    created_at_version_meta: RowDatasetVersionMeta | None = None
    last_updated_at_version_meta: RowDatasetVersionMeta | None = None

    @property
    def num_deletions(self) -> int:
        """Rows that are deleted."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int:
        """Rows that are not deleted."""
        return self.physical_rows - self.num_deletions

    def data_files(self) -> list[DataFile]:
        """The data files."""
        return self.files

    def to_json(self) -> dict[str, Any]:
        """A dictionary that can be written as JSON."""
        return {
            "id": self.id,
            "files": [file._tree() for file in self.files],
            "physical_rows": self.physical_rows,
            "deletion_file": None if self.deletion_file is None else self.deletion_file.asdict(),
            "row_id_meta": _meta_tree(self.row_id_meta),
            "created_at_version_meta": _meta_tree(self.created_at_version_meta),
            "last_updated_at_version_meta": _meta_tree(self.last_updated_at_version_meta),
        }

    @staticmethod
    def from_json(json_data: str) -> FragmentMetadata:
        """Of the JSON text of such a dictionary."""
        return FragmentMetadata._of(json.loads(json_data))

    @staticmethod
    def _of(tree: dict[str, Any]) -> FragmentMetadata:
        deletion = tree.get("deletion_file")
        return FragmentMetadata(
            id=tree["id"],
            files=[DataFile(**file) for file in tree["files"]],
            physical_rows=tree["physical_rows"],
            deletion_file=None if deletion is None else DeletionFile(**deletion),
            row_id_meta=_meta(RowIdMeta, tree.get("row_id_meta")),
            created_at_version_meta=_meta(RowDatasetVersionMeta, tree.get("created_at_version_meta")),
            last_updated_at_version_meta=_meta(RowDatasetVersionMeta, tree.get("last_updated_at_version_meta")),
        )


class FragmentSession:
    """Takes of a fragment with the same columns.

    Parameters
    ----------
    session : callable
        What takes.
    """

    def __init__(self, session: Any):
        self._session = session

    def take(self, indices: Any) -> pa.RecordBatch:
        """Rows by their position among the live rows of the fragment."""
        table = self._session(indices)
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pyarrow("take").RecordBatch.from_pylist([], schema=table.schema)


class _LanceFragment:
    """A fragment of a version of a dataset.

    Parameters
    ----------
    dataset : LanceDataset
    fragment_id : int, optional
    fragment : FragmentMetadata, optional
        What `dataset` says of it.
    """

    def __init__(self, dataset: LanceDataset, fragment_id: int | None, *, fragment: FragmentMetadata | None = None):
        if fragment is None:
            if fragment_id is None:
                raise ValueError("Either fragment or fragment_id must be specified")
            found = dataset.get_fragment(fragment_id)
            if found is None:
                raise ValueError(f"Fragment id does not exist: {fragment_id}")
            fragment = found._fragment
        self._ds = dataset
        self._fragment: FragmentMetadata = fragment
        self._numbers: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"LanceFragment(id={self.fragment_id}, data_files={[file.path for file in self._fragment.files]})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _refind, (self._ds, self.fragment_id)

    def _number(self, name: str) -> int:
        """A number that old manifests do not have, and the library finds."""
        if self._numbers is None:
            rows = rows_of(self._ds._ds.listing("fragments"))
            self._numbers = next(row for row in rows if row["fragment"] == self.fragment_id)
        return int(self._numbers[name])

    @property
    def fragment_id(self) -> int:
        """Number of the fragment."""
        return self._fragment.id

    @property
    def num_deletions(self) -> int:
        """Rows that are deleted."""
        if self._fragment.deletion_file is None:
            return 0
        return self._fragment.deletion_file.num_deleted_rows or self._number("deleted_rows")

    @property
    def physical_rows(self) -> int:
        """Rows of its files, deleted ones too."""
        return self._fragment.physical_rows or self._number("physical_rows")

    @property
    def metadata(self) -> FragmentMetadata:
        """What the version says of it."""
        return self._fragment

    def data_files(self) -> list[DataFile]:
        """The data files."""
        return self._fragment.files

    def deletion_file(self) -> str | None:
        """Path of the file that tells which rows are deleted, below the dataset; None where none is."""
        file = self._fragment.deletion_file
        return None if file is None else file.path(self.fragment_id)

    @property
    def physical_schema(self) -> pa.Schema:
        """Schema of what its files hold."""
        held = {number for file in self._fragment.files for number in file.fields}
        own = json.loads(self._ds._ds.schema_json())
        names = [tree["name"] for tree in own if held & set(_leaf_ids(tree))]
        schema = self._ds._own_schema
        return pyarrow("physical_schema").schema([schema.field(name) for name in names], metadata=schema.metadata)

    @property
    def partition_expression(self) -> Any:
        """Not offered, as in pylance."""
        raise not_yet("partition_expression")

    @property
    def schema(self) -> pa.Schema:
        """The dataset's schema."""
        return self._ds.schema

    def count_rows(self, filter: str | pc.Expression | None = None) -> int:
        """Rows that are not deleted and pass the filter."""
        if filter is None:
            return self.physical_rows - self.num_deletions
        return self._ds._count({"fragments": (self.fragment_id,)}, filter)

    def head(self, num_rows: int) -> pa.Table:
        """The first rows."""
        return self.scanner(limit=num_rows).to_table()

    def scanner(
        self,
        *,
        columns: list[str] | dict[str, str] | None = None,
        batch_size: int | None = None,
        filter: str | pc.Expression | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_readahead: int = 16,
        blob_handling: Literal["all_binary", "blobs_descriptions", "all_descriptions"] | None = None,
        order_by: list[ColumnOrdering] | None = None,
    ) -> LanceScanner:
        """A scanner of this fragment; see `LanceDataset.scanner`."""
        return self._ds.scanner(
            columns=columns,
            batch_size=batch_size,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            batch_readahead=batch_readahead,
            blob_handling=blob_handling,
            order_by=None if order_by is None else [*order_by],
            fragments=[cast("LanceFragment", self)],
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.scanner().__arrow_c_stream__(requested_schema)

    def to_table(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | pc.Expression | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_handling: Literal["all_binary", "blobs_descriptions", "all_descriptions"] | None = None,
        order_by: list[ColumnOrdering] | None = None,
    ) -> pa.Table:
        """The rows as a pyarrow Table."""
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
            order_by=order_by,
        ).to_table()

    def to_batches(
        self,
        *,
        columns: list[str] | dict[str, str] | None = None,
        batch_size: int | None = None,
        filter: str | pc.Expression | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_readahead: int = 16,
        blob_handling: Literal["all_binary", "blobs_descriptions", "all_descriptions"] | None = None,
        order_by: list[ColumnOrdering] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as pyarrow RecordBatches."""
        return self.scanner(
            columns=columns,
            batch_size=batch_size,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            batch_readahead=batch_readahead,
            blob_handling=blob_handling,
            order_by=order_by,
        ).to_batches()

    def to_pandas(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | pc.Expression | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_mode: str = "lazy",
        order_by: list[ColumnOrdering] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The rows as a pandas DataFrame; see `LanceDataset.to_pandas`."""
        scanner = self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            batch_size=batch_size,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            order_by=order_by,
        )
        return scanner.to_pandas(blob_mode=blob_mode, **kwargs)

    def open_session(
        self, columns: list[str] | dict[str, str] | None = None, with_row_address: bool | None = None
    ) -> FragmentSession:
        """Takes with the same columns, one after the other."""
        return FragmentSession(lambda indices: self._take(indices, columns, bool(with_row_address)))

    def take(self, indices: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Rows by their position among the live rows of the fragment, in the order asked for.

        Parameters
        ----------
        indices : list, array or pyarrow.Array of int
        columns : list of str, or dict of str to str, optional
            As in `scanner`.
        """
        return self._take(indices, columns, False)

    def _take(self, indices: Any, columns: Any, with_row_address: bool) -> pa.Table:
        from .scanner import column_options

        before = 0
        for fragment in self._ds.get_fragments():
            if fragment.fragment_id == self.fragment_id:
                break
            before += fragment.count_rows()
        wanted = [int(i) for i in (indices.to_pylist() if hasattr(indices, "to_pylist") else indices)]
        if any(i >= self.count_rows() or i < 0 for i in wanted):
            raise ValueError(f"row {max(wanted)} of a fragment of {self.count_rows()} rows")
        options = {**column_options(columns), "with_row_address": with_row_address}
        return to_table(self._ds._ds.take(0, [before + i for i in wanted], options))

    @staticmethod
    def create_from_file(filename: str, dataset: LanceDataset, fragment_id: int) -> FragmentMetadata:
        """A fragment of a data file that lies in the dataset's `data` folder; its columns are found by name.

        Parameters
        ----------
        filename : str
        dataset : LanceDataset
        fragment_id : int
        """
        file, rows = _data_file(dataset, filename, None)
        return FragmentMetadata(fragment_id, [file], rows)

    @staticmethod
    def create(
        dataset_uri: str | Path,
        data: Any,
        fragment_id: int | None = None,
        schema: pa.Schema | None = None,
        max_rows_per_group: int = 1024,
        progress: FragmentWriteProgress | None = None,
        mode: str = "append",
        *,
        data_storage_version: str | None = None,
        use_legacy_format: bool | None = None,
        storage_options: dict[str, str] | None = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
    ) -> FragmentMetadata:
        """Write data as one fragment, without a commit; see `write_fragments`."""
        made = write_fragments(
            data,
            dataset_uri,
            schema,
            mode=mode,
            max_rows_per_file=2**32 - 1,
            max_bytes_per_file=2**63,
            progress=progress,
            data_storage_version=data_storage_version,
            use_legacy_format=use_legacy_format,
            storage_options=storage_options,
            namespace_client=namespace_client,
            table_id=table_id,
        )
        assert isinstance(made, list)
        one = made[0] if made else FragmentMetadata(0, [], 0)
        one.id = fragment_id or 0
        return one

    def _made(self, made: _pennon.Transaction | None) -> tuple[FragmentMetadata, LanceSchema]:
        from .operation import _of_schema

        assert made is not None
        tree = json.loads(made.to_json())["operation"]
        return FragmentMetadata._of(tree["fragments"][0]), _of_schema(tree)

    def merge(
        self, data_obj: ReaderLike, left_on: str, right_on: str | None = None, schema: Any = None
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Add the columns of other data to the rows with the same key, without a commit; see `LanceDataset.merge`.

        Returns
        -------
        tuple of FragmentMetadata and LanceSchema
            For `LanceOperation.Merge`, together with all other fragments.
        """
        right = left_on if right_on is None else right_on
        return self._made(self._ds._ds.join_columns(reader_of(data_obj, schema), left_on, right, {"fragments": [self.fragment_id]}))

    def merge_columns(
        self,
        value_func: dict[str, str] | BatchUDF | ReaderLike,
        columns: list[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Add columns, without a commit; see `LanceDataset.add_columns`.

        Returns
        -------
        tuple of FragmentMetadata and LanceSchema
            For `LanceOperation.Merge`, together with all other fragments.
        """
        from .udf import BatchUDF, _add, normalize_transform

        made = normalize_transform(value_func, self, columns, reader_schema)
        if isinstance(made, BatchUDF) and made.cache is not None:
            raise ValueError(
                "A checkpoint file cannot be used when applying a UDF with LanceFragment.merge_columns.  You must apply your own "
                "checkpointing for fragment-level operations."
            )
        options = {"fragments": [self.fragment_id], "batch_rows": batch_size}
        return self._made(_add(self._ds._ds, made, columns, options))

    def update_columns(
        self, data_obj: ReaderLike, left_on: str = "_rowid", right_on: str | None = None, schema: Any = None
    ) -> tuple[FragmentMetadata, list[int]]:
        """New values of columns for the rows that the data has, without a commit; the others keep theirs.

        Parameters
        ----------
        data_obj : object
            The key, and columns of the dataset.
        left_on : str
            The key: a column of the dataset, `_rowid` or `_rowaddr`.
        right_on : str, optional
            The key in the data, where it has another name there.
        schema : pyarrow.Schema, optional
            Of an iterable of batches.

        Returns
        -------
        tuple of FragmentMetadata and list of int
            For `LanceOperation.Update`: the fragment, and the ids of the fields that changed.
        """
        right = left_on if right_on is None else right_on
        made = self._ds._ds.update_columns(reader_of(data_obj, schema), left_on, right, {"fragments": [self.fragment_id]})
        assert made is not None
        tree = json.loads(made.to_json())["operation"]
        return FragmentMetadata._of(tree["updated_fragments"][0]), tree.get("fields_modified", [])

    def delete(self, predicate: str) -> FragmentMetadata | None:
        """Delete the rows for which an expression is true, without a commit.

        Parameters
        ----------
        predicate : str

        Returns
        -------
        FragmentMetadata or None
            The fragment with its deletion file, for `LanceOperation.Delete`; None where no row is left.
        """
        made = self._ds._ds.fragment_delete(self.fragment_id, predicate)
        tree = json.loads(made.to_json())["operation"]
        if "deleted_fragment_ids" in tree:
            return None
        changed = tree.get("updated_fragments")
        return FragmentMetadata._of(changed[0]) if changed else self.metadata


if TYPE_CHECKING:

    class LanceFragment(_LanceFragment):
        """The public class."""


def _fragment_class() -> type[LanceFragment]:
    return arrow_class(globals(), _LanceFragment, "Fragment")


def __getattr__(name: str) -> Any:
    if name == "LanceFragment":
        return _fragment_class()
    if name == "LanceDataset":
        from importlib import import_module

        return import_module(".dataset", __package__).LanceDataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _refind(dataset: LanceDataset, fragment_id: int) -> LanceFragment:
    """The opposite of pickling."""
    return _fragment_class()(dataset, fragment_id)


def _tell(progress: FragmentWriteProgress | None, made: _pennon.Transaction) -> None:
    """Tell the hook of the fragments, when all are written."""
    if progress is None:
        return
    for tree in json.loads(made.fragments_json()):
        text = json.dumps(tree)
        progress._do_begin(text)
        progress._do_complete(text)


def write_fragments(
    data: Any,
    dataset_uri: str | Path | LanceDataset,
    schema: pa.Schema | None = None,
    *,
    return_transaction: bool = False,
    mode: str = "append",
    max_rows_per_file: int = 1024 * 1024,
    max_rows_per_group: int = 1024,
    max_bytes_per_file: int = DEFAULT_MAX_BYTES_PER_FILE,
    progress: FragmentWriteProgress | None = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    storage_options: dict[str, str] | None = None,
    enable_stable_row_ids: bool = False,
    target_bases: list[str] | None = None,
    initial_bases: list[DatasetBasePath] | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    external_blob_mode: Literal["reference", "ingest"] = "reference",
    allow_external_blob_outside_bases: bool = False,
    namespace_client: Any = None,
    table_id: list[str] | None = None,
) -> list[FragmentMetadata] | Transaction:
    """Write data files without committing them.

    Parameters
    ----------
    data : object
        As `pennon.write_dataset` takes it.
    dataset_uri : str, Path or LanceDataset
        Where the files go. The schema and field ids of a dataset that is there count in mode "append".
    return_transaction : bool, default False
        Give a `Transaction` for `LanceDataset.commit` instead of the fragments.
    mode : {"append", "create", "overwrite"}

    Returns
    -------
    list of FragmentMetadata, or Transaction
    """
    from .dataset import _LanceDataset, _write_options
    from .operation import Transaction

    refuse(namespace_client=namespace_client, table_id=table_id, base_store_params=base_store_params)
    uri = dataset_uri.uri if isinstance(dataset_uri, _LanceDataset) else text_of(dataset_uri)
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
    with shown("writing", "rows") as counter:
        made = _pennon.write_fragments(uri, reader_of(data, schema), options, counter)
    _tell(progress, made)
    if return_transaction:
        return Transaction._of(json.loads(made.to_json()))
    return [FragmentMetadata._of(tree) for tree in json.loads(made.fragments_json())]


__all__ = [
    "DEFAULT_MAX_BYTES_PER_FILE",
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "FragmentSession",
    "LanceFragment",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "write_fragments",
]
