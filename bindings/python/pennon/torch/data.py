# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Datasets as PyTorch reads them: batches as tensors, or single rows for a loader that shuffles."""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
import torch.utils.data

from .. import dataset as _open
from .._data import pyarrow, refuse
from ..sampler import (
    Columns,
    FullScanSampler,
    Sampler,
    ShardedBatchSampler,
    ShardedFragmentSampler,
    _in_batches,
    maybe_sample,
)
from .dist import get_global_rank, get_global_world_size

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from ..dataset import LanceDataset as _Dataset


class ToTensorFn(Protocol):
    """Makes tensors of a batch."""

    def __call__(
        self, batch: Any, *, hf_converter: dict[str, Any] | None = None, use_blob_api: bool = False, **kwargs: Any
    ) -> Any:
        """The tensors."""


def _array_to_tensor(array: pa.Array) -> Any:
    # A copy: the memory of Arrow may not be written to, which a tensor allows.
    return torch.from_numpy(array.to_numpy(zero_copy_only=False).copy())


def _is_number(kind: pa.DataType) -> bool:
    types = pyarrow("a tensor").types
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _column_to_tensor(name: str, array: Any, uint64_as_int64: bool) -> Any:
    pa = pyarrow("a tensor")
    if isinstance(array.type, pa.FixedShapeTensorType):
        array = array.storage
    if pa.types.is_fixed_size_list(array.type) and _is_number(array.type.value_type):
        size = array.type.list_size
        return _array_to_tensor(array.values.slice(array.offset * size, len(array) * size)).reshape(-1, size)
    if not (_is_number(array.type) or pa.types.is_boolean(array.type)):
        raise ValueError(f"column {name}: only numbers and fixed size lists of numbers become tensors, not {array.type}")
    if pa.types.is_uint64(array.type) and uint64_as_int64:
        array = array.cast(pa.int64(), safe=False)
    return _array_to_tensor(array)


def _to_tensor(
    batch: pa.RecordBatch,
    *,
    uint64_as_int64: bool = True,
    hf_converter: dict[str, Any] | None = None,
    use_blob_api: bool = False,
    **kwargs: Any,
) -> Any:
    """{column: tensor}, or the tensor where there is one column."""
    tensors = {name: _column_to_tensor(name, batch.column(i), uint64_as_int64) for i, name in enumerate(batch.schema.names)}
    return next(iter(tensors.values())) if len(tensors) == 1 else tensors


class TensorDataset(torch.utils.data.Dataset):
    """The rows of a tensor or array in batches.

    Parameters
    ----------
    data : torch.Tensor or numpy.ndarray
    batch_size : int
    """

    def __init__(self, data: Any, batch_size: int, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._data = data if isinstance(data, torch.Tensor) else torch.from_numpy(data)
        self._batch_size = batch_size

    def __repr__(self) -> str:
        return "LanceTensorDataset"

    def __len__(self) -> int:
        return int(math.ceil(self._data.shape[0] / self._batch_size))

    def __getitem__(self, idx: int) -> Any:
        if idx >= len(self):
            raise StopIteration
        return self._data[idx * self._batch_size : (idx + 1) * self._batch_size]


class LanceDataset(torch.utils.data.IterableDataset):
    """Batches of a dataset as tensors, for a `DataLoader` with ``batch_size=None``; its workers and processes share the rows.

    Parameters
    ----------
    dataset : LanceDataset, str or Path
    batch_size : int
        Rows of a batch.
    dataset_options : dict, optional
        Arguments of `pennon.dataset` where `dataset` is a path.
    columns : list of str, or dict of str to str, optional
    filter : str, optional
    samples : int, optional
        So many rows at random instead of all.
    with_row_id : bool, default False
    rank, world_size : int, optional
        Number of this process among so many; found out where they are None and `auto_detect_rank` is true.
    shard_granularity : {"fragment", "batch"}, optional
        What the processes share.
    batch_readahead : int, default 16
    to_tensor_fn : callable, optional
        What makes tensors of a pyarrow RecordBatch; None gives the batches.
    sampler : Sampler, optional
    cache
        Not supported yet.
    """

    def __init__(
        self,
        dataset: _Dataset | str | Path,
        batch_size: int,
        *args: Any,
        dataset_options: dict[str, Any] | None = None,
        columns: Columns = None,
        filter: str | None = None,
        samples: int | None = 0,
        cache: str | bool | None = None,
        with_row_id: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        shard_granularity: Literal["fragment", "batch"] | None = None,
        batch_readahead: int = 16,
        to_tensor_fn: ToTensorFn | None = _to_tensor,
        sampler: Sampler | None = None,
        auto_detect_rank: bool = True,
        **kwargs: Any,
    ):
        super().__init__()
        refuse(cache=cache)
        if shard_granularity not in (None, "fragment", "batch"):
            raise ValueError(f"Invalid shard_granularity: {shard_granularity}")
        self.dataset: Any = _open(dataset, **(dataset_options or {})) if not hasattr(dataset, "scanner") else dataset
        self.batch_size, self.columns, self.filter, self.samples = batch_size, columns, filter, samples
        self.with_row_id, self.rank, self.world_size = with_row_id, rank, world_size
        self.shard_granularity, self.batch_readahead, self.sampler = shard_granularity, batch_readahead, sampler
        self._to_tensor_fn, self._auto_detect_rank = to_tensor_fn, auto_detect_rank

    def __repr__(self) -> str:
        return f"LanceTorchDataset({self.dataset.uri}, size={self.samples})"

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches before they are tensors."""
        return self.dataset.scanner(columns=self.columns).projected_schema

    def _sampler(self) -> Sampler:
        if self.sampler is not None:
            return self.sampler
        auto = self._auto_detect_rank
        rank = get_global_rank() if self.rank is None and auto else self.rank
        world_size = get_global_world_size() if self.world_size is None and auto else self.world_size
        if self.shard_granularity is None and (rank is None or world_size is None):
            return FullScanSampler()
        if rank is None or world_size is None:
            raise ValueError("shard_granularity needs rank and world_size, or auto_detect_rank")
        return (ShardedBatchSampler if self.shard_granularity == "batch" else ShardedFragmentSampler)(rank, world_size)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        columns = self.columns or self.dataset.schema.names
        if self.samples:
            return maybe_sample(self.dataset, self.samples, columns, self.batch_size, filt=self.filter)
        return self._sampler()(
            self.dataset,
            columns=columns,
            filter=self.filter,
            batch_size=self.batch_size,
            with_row_id=self.with_row_id,
            batch_readahead=self.batch_readahead,
        )

    def __iter__(self) -> Iterator[Any]:
        pa = pyarrow("torch.data")
        for batch in _in_batches((pa.Table.from_batches([batch]) for batch in self._batches()), self.batch_size):
            yield batch if self._to_tensor_fn is None else self._to_tensor_fn(batch)


class SafeLanceDataset(torch.utils.data.Dataset):
    """Single rows as dictionaries, for loaders that shuffle. Each worker opens the dataset itself.

    Parameters
    ----------
    uri : str or Path
    dataset_options : dict, optional
        Arguments of `pennon.dataset`.
    """

    def __init__(self, uri: str | Path, *, dataset_options: dict[str, Any] | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.uri = uri
        self.dataset_options = dataset_options or {}
        self._ds: _Dataset | None = None
        self._len = _open(uri, **self.dataset_options).count_rows()

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, idx: int) -> dict[str, Any]:
        return self.__getitems__([idx])[0]

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        if self._ds is None:
            self._ds = _open(self.uri, **self.dataset_options)
        rows: list[dict[str, Any]] = self._ds.take(indices).to_pylist()
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ds": None}


def get_safe_loader(dataset: Any, batch_size: int = 32, num_workers: int = 4, **kwargs: Any) -> Any:
    """A `DataLoader` whose workers are started anew and live on between epochs.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
    batch_size : int, default 32
    num_workers : int, default 4
    **kwargs
        Other arguments of the `DataLoader`; they count before what is set here.
    """
    options: dict[str, Any] = {
        "batch_size": batch_size,
        "num_workers": num_workers,
        "persistent_workers": num_workers > 0,
        "multiprocessing_context": torch.multiprocessing.get_context("spawn") if num_workers > 0 else None,
    }
    return torch.utils.data.DataLoader(dataset, **{**options, **kwargs})


__all__ = ["LanceDataset", "SafeLanceDataset", "TensorDataset", "ToTensorFn", "get_safe_loader"]
