# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Indices and search for vectors: the names, which the engine refuses yet."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ._data import not_yet

if TYPE_CHECKING:
    import pyarrow as pa

    from .dataset import LanceDataset
    from .progress import IndexProgress
    from .types import QueryVectorLike

_BUILD = "building an index"


class IndexFileVersion(str, Enum):
    """Versions of index files."""

    LEGACY = "Legacy"
    V3 = "V3"


class SupportedDistributedIndices(str, Enum):
    """Indices that can be built in parts."""

    BTREE = "BTREE"
    INVERTED = "INVERTED"
    IVF_FLAT = "IVF_FLAT"
    IVF_PQ = "IVF_PQ"
    IVF_SQ = "IVF_SQ"
    VECTOR = "VECTOR"


@dataclass
class IndexConfig:
    """A kind of index with its settings.

    Attributes
    ----------
    index_type : str
    parameters : dict
    """

    index_type: str
    parameters: dict[str, Any]


@dataclass
class IndexFile:
    """A file of an index."""

    path: str
    size_bytes: int


@dataclass
class Index:
    """A part of an index, which `LanceOperation.CreateIndex` commits."""

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: set[int]
    index_version: int
    created_at: datetime | None = None
    base_id: int | None = None
    files: list[IndexFile] | None = None
    index_details: tuple[str, bytes] | None = None


class IndexInformation(TypedDict):
    """A part of an index, as `LanceDataset.list_indices` gives it."""

    name: str
    type: str
    uuid: str
    fields: list[str]
    version: int
    fragment_ids: set[int]
    base_id: int | None


class VectorSearchQuery:
    """A search for near vectors, as a filter of a scan.

    Parameters
    ----------
    column : str
    q : vector
    k : int, optional
        How many.
    metric : str, optional
    nprobes, minimum_nprobes, maximum_nprobes, refine_factor, ef, query_parallelism : int, optional
    use_index : bool, default True
    approx_mode : {"fast", "normal", "accurate"}
    """

    def __init__(
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
    ):
        if k is not None and k <= 0:
            raise ValueError(f"Nearest-K must be > 0 but got {k}")
        if nprobes is not None and (minimum_nprobes is not None or maximum_nprobes is not None):
            raise ValueError("nprobes cannot be given beside minimum_nprobes and maximum_nprobes")
        self._inner: dict[str, Any] = {name: value for name, value in locals().items() if name != "self"}

    def inner(self) -> dict[str, Any]:
        """The query as a dictionary."""
        return self._inner


@dataclass
class IndexSegmentDescription:
    """A part of an index, as `LanceDataset.describe_indices` will give it."""

    uuid: str
    fragment_ids: set[int]
    dataset_version_at_last_update: int
    index_version: int
    created_at: datetime | None = None
    size_bytes: int | None = None
    base_id: int | None = None


@dataclass
class IndexSegment:
    """A part of an index, for `LanceDataset.commit_existing_index_segments`."""

    uuid: str
    fragment_ids: set[int]
    index_version: int


class IvfModel:
    """Centroids that vectors are shared out by.

    Parameters
    ----------
    centroids : pyarrow.FixedSizeListArray
    distance_type : str
    """

    def __init__(self, centroids: pa.Array, distance_type: str):
        self.centroids = centroids
        self.distance_type = distance_type

    @property
    def num_partitions(self) -> int:
        """How many centroids there are."""
        return len(self.centroids)

    def save(self, uri: str, *, storage_options: dict[str, str] | None = None) -> None:
        """Write it to a file. Not supported yet."""
        raise not_yet("IvfModel.save")

    @classmethod
    def load(cls, uri: str, *, storage_options: dict[str, str] | None = None) -> IvfModel:
        """The opposite of save. Not supported yet."""
        raise not_yet("IvfModel.load")


class PqModel:
    """A codebook that vectors are made short by.

    Parameters
    ----------
    num_subvectors : int
    codebook : pyarrow.FixedSizeListArray
    """

    def __init__(self, num_subvectors: int, codebook: pa.FixedSizeListArray):
        self.num_subvectors = num_subvectors
        self.codebook = codebook

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return int(self.codebook.type.list_size) * self.num_subvectors

    def save(self, uri: str, *, storage_options: dict[str, str] | None = None) -> None:
        """Write it to a file. Not supported yet."""
        raise not_yet("PqModel.save")

    @classmethod
    def load(cls, uri: str, *, storage_options: dict[str, str] | None = None) -> PqModel:
        """The opposite of save. Not supported yet."""
        raise not_yet("PqModel.load")


class IndicesBuilder:
    """Builds an index over vectors step by step. Not supported yet.

    Parameters
    ----------
    dataset : LanceDataset
    column : str
    """

    def __init__(self, dataset: LanceDataset, column: str):
        raise not_yet(_BUILD)

    def train_ivf(
        self,
        num_partitions: int | None = None,
        *,
        distance_type: str = "l2",
        accelerator: Any = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        fragment_ids: list[int] | None = None,
    ) -> IvfModel:
        """Centroids."""
        raise not_yet(_BUILD)

    def train_pq(
        self,
        ivf_model: IvfModel,
        num_subvectors: int | None = None,
        *,
        sample_rate: int = 256,
        max_iters: int = 50,
        fragment_ids: list[int] | None = None,
    ) -> PqModel:
        """A codebook."""
        raise not_yet(_BUILD)

    def prepare_global_ivf_pq(
        self,
        num_partitions: int | None,
        num_subvectors: int | None,
        *,
        distance_type: str = "l2",
        accelerator: Any = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        fragment_ids: list[int] | None = None,
    ) -> dict[str, Any]:
        """Both."""
        raise not_yet(_BUILD)

    def assign_ivf_partitions(self, ivf_model: IvfModel, accelerator: Any, *, output_uri: str | None = None) -> str:
        """The partition of each row."""
        raise not_yet(_BUILD)

    def transform_vectors(
        self,
        ivf: IvfModel,
        pq: PqModel,
        dest_uri: str,
        fragments: list[Any] | None = None,
        partition_ds_uri: str | None = None,
    ) -> None:
        """Codes of the vectors."""
        raise not_yet(_BUILD)

    def shuffle_transformed_vectors(
        self,
        unsorted_filenames: list[str],
        dir_path: str,
        ivf: IvfModel,
        shuffle_output_root_filename: str | None = "sorted",
    ) -> list[str]:
        """Codes by partition."""
        raise not_yet(_BUILD)

    def load_shuffled_vectors(
        self, filenames: list[str], dir_path: str, ivf: IvfModel, pq: PqModel, index_name: str | None = None
    ) -> None:
        """The index of those."""
        raise not_yet(_BUILD)


class VectorIndexReader:
    """Reads partitions of an index over vectors. Not supported yet."""

    def __init__(self, dataset: LanceDataset, index_name: str):
        raise not_yet("reading the partitions of an index")

    def num_partitions(self) -> int:
        """How many partitions there are."""
        raise not_yet("reading the partitions of an index")

    def read_partition(self, partition_id: int, *, with_vector: bool = False) -> pa.Table:
        """Rows of a partition."""
        raise not_yet("reading the partitions of an index")


class DatasetIndices:
    """The part of LanceDataset that is about indices."""

    def _indices(self) -> int:
        raise NotImplementedError

    @property
    def has_index(self) -> bool:
        """Has the version an index?"""
        return self._indices() > 0

    def list_indices(self) -> list[IndexInformation]:
        """Parts of the indices. Not supported yet where there is one."""
        if not self.has_index:
            return []
        raise not_yet("list_indices")

    def describe_indices(self) -> list[Any]:
        """The indices. Not supported yet where there is one."""
        if not self.has_index:
            return []
        raise not_yet("describe_indices")

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """Numbers of an index. Not supported yet."""
        if not self.has_index:
            raise KeyError(f'Index "{index_name}" not found')
        raise not_yet("index_statistics")

    def create_scalar_index(
        self,
        column: str,
        index_type: str | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        **kwargs: Any,
    ) -> None:
        """Build an index over values. Not supported yet."""
        raise not_yet(_BUILD)

    def create_index(
        self,
        column: str | list[str],
        index_type: str,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        num_partitions: int | None = None,
        ivf_centroids: Any = None,
        pq_codebook: Any = None,
        num_sub_vectors: int | None = None,
        accelerator: Any = None,
        index_cache_size: int | None = None,
        shuffle_partition_batches: int | None = None,
        shuffle_partition_concurrency: int | None = None,
        ivf_centroids_file: str | None = None,
        precomputed_partition_dataset: str | None = None,
        storage_options: dict[str, str] | None = None,
        filter_nan: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        *,
        target_partition_size: int | None = None,
        streaming_sample_rate: int | None = None,
        streaming_coreset_rate: int | None = None,
        streaming_refine_passes: int | None = None,
        skip_transpose: bool = False,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        **kwargs: Any,
    ) -> LanceDataset:
        """Build an index over vectors. Not supported yet."""
        raise not_yet(_BUILD)

    def create_index_uncommitted(
        self,
        column: str | list[str],
        index_type: str,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        num_partitions: int | None = None,
        ivf_centroids: Any = None,
        pq_codebook: Any = None,
        num_sub_vectors: int | None = None,
        accelerator: Any = None,
        index_cache_size: int | None = None,
        shuffle_partition_batches: int | None = None,
        shuffle_partition_concurrency: int | None = None,
        ivf_centroids_file: str | None = None,
        precomputed_partition_dataset: str | None = None,
        storage_options: dict[str, str] | None = None,
        filter_nan: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        *,
        target_partition_size: int | None = None,
        streaming_sample_rate: int | None = None,
        streaming_coreset_rate: int | None = None,
        streaming_refine_passes: int | None = None,
        skip_transpose: bool = False,
        rabitq_model: str | None = None,
        **kwargs: Any,
    ) -> Index:
        """Build a part of an index. Not supported yet."""
        raise not_yet(_BUILD)

    def drop_index(self, name: str) -> None:
        """Remove an index. Not supported yet."""
        raise not_yet("drop_index")

    def prewarm_index(self, name: str, *, with_position: bool = False) -> None:
        """Load an index into memory. Not supported yet."""
        raise not_yet("prewarm_index")

    def merge_index_metadata(
        self,
        index_uuid: str,
        index_type: str,
        batch_readhead: int | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
    ) -> None:
        """Join parts of an index. Not supported yet."""
        raise not_yet(_BUILD)

    def merge_existing_index_segments(self, segments: list[Index]) -> Index:
        """Join parts of an index. Not supported yet."""
        raise not_yet(_BUILD)

    def commit_existing_index_segments(self, index_name: str, column: str, segments: list[Any]) -> LanceDataset:
        """Commit parts of an index. Not supported yet."""
        raise not_yet(_BUILD)

    def get_ivf_model(self, index_name: str) -> Any:
        """The centroids of an index. Not supported yet."""
        raise not_yet("get_ivf_model")

    def centroids(self, *, index_name: str | None = None, column: str | None = None) -> Any:
        """The centroids of an index. Not supported yet."""
        raise not_yet("centroids")


__all__ = [
    "Index",
    "IndexConfig",
    "IndexFile",
    "IndexFileVersion",
    "IndexInformation",
    "IndexSegment",
    "IndexSegmentDescription",
    "IndicesBuilder",
    "IvfModel",
    "PqModel",
    "SupportedDistributedIndices",
    "VectorIndexReader",
    "VectorSearchQuery",
]
