# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Fragments: their metadata, reading them, and writing them without a commit."""
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from . import _pennon
from ._data import reader_of, refuse, text_of

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.compute as pc

    from .dataset import ColumnOrdering, DatasetBasePath, LanceDataset, LanceScanner
    from .operation import Transaction

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

    path: str
    fields: list[int]
    column_indices: list[int] = field(default_factory=list)
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None


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

    @staticmethod
    def from_json(json_data: str) -> DeletionFile:
        """The opposite of json."""
        return DeletionFile(**json.loads(json_data))


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
    row_id_meta: Any = None
    created_at_version_meta: Any = None
    last_updated_at_version_meta: Any = None

    @property
    def num_deletions(self) -> int:
        """Rows that are deleted."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int:
        """Rows that are not deleted."""
        return self.physical_rows - self.num_deletions

    def to_json(self) -> dict[str, Any]:
        """A dictionary that can be written as JSON."""
        return {
            "id": self.id,
            "files": [dict(file.__dict__) for file in self.files],
            "physical_rows": self.physical_rows,
            "deletion_file": None if self.deletion_file is None else self.deletion_file.asdict(),
            "row_id_meta": self.row_id_meta,
            "created_at_version_meta": self.created_at_version_meta,
            "last_updated_at_version_meta": self.last_updated_at_version_meta,
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
            row_id_meta=tree.get("row_id_meta"),
            created_at_version_meta=tree.get("created_at_version_meta"),
            last_updated_at_version_meta=tree.get("last_updated_at_version_meta"),
        )


class LanceFragment:
    """A fragment of a version of a dataset."""

    def __init__(self, dataset: LanceDataset, fragment_id: int | None, *, fragment: dict[str, Any] | None = None):
        if fragment is None:
            if fragment_id is None:
                raise ValueError("Either fragment or fragment_id must be specified")
            found = dataset.get_fragment(fragment_id)
            if found is None:
                raise ValueError(f"Fragment id does not exist: {fragment_id}")
            fragment = found._fragment
        self._ds = dataset
        self._fragment: dict[str, Any] = fragment

    def __repr__(self) -> str:
        return f"LanceFragment(id={self.fragment_id}, data_files={self._fragment['paths']})"

    def __reduce__(self) -> tuple[Any, ...]:
        return LanceFragment, (self._ds, self.fragment_id)

    @property
    def fragment_id(self) -> int:
        """Number of the fragment."""
        return int(self._fragment["fragment"])

    @property
    def num_deletions(self) -> int:
        """Rows that are deleted."""
        return int(self._fragment["deleted_rows"])

    @property
    def physical_rows(self) -> int:
        """Rows of its files, deleted ones too."""
        return int(self._fragment["physical_rows"])

    @property
    def schema(self) -> pa.Schema:
        """The dataset's schema."""
        return self._ds.schema

    def count_rows(self, filter: str | pc.Expression | None = None) -> int:
        """Rows that are not deleted and pass the filter."""
        if filter is None:
            return int(self._fragment["rows"])
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
            fragments=[self],
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
        *,
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

    def take(self, indices: list[int] | pa.Array, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Rows by their position among the live rows of the fragment, in the order asked for."""
        before = 0
        for fragment in self._ds.get_fragments():
            if fragment.fragment_id == self.fragment_id:
                break
            before += fragment.count_rows()
        wanted = [int(i) for i in (indices.to_pylist() if hasattr(indices, "to_pylist") else indices)]
        if any(i >= self.count_rows() for i in wanted):
            raise ValueError(f"row {max(wanted)} of a fragment of {self.count_rows()} rows")
        return self._ds.take([before + i for i in wanted], columns)


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
    progress: Any = None,
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
    from .dataset import LanceDataset, _write_options
    from .operation import Transaction

    refuse(progress=progress, namespace_client=namespace_client, table_id=table_id, base_store_params=base_store_params)
    uri = dataset_uri.uri if isinstance(dataset_uri, LanceDataset) else text_of(dataset_uri)
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
    made = _pennon.write_fragments(uri, reader_of(data, schema), options)
    if return_transaction:
        return Transaction._of(json.loads(made.to_json()))
    return [FragmentMetadata._of(tree) for tree in json.loads(made.fragments_json())]


__all__ = ["DataFile", "DeletionFile", "FragmentMetadata", "LanceFragment", "write_fragments"]
