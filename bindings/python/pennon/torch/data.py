# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Datasets as PyTorch loads them: batches of tensors, over all workers of a training."""
from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa
import torch
import torch.distributed
import torch.utils.data

from ..dataset import dataset as open_dataset
from ..sampler import FullScanSampler, Sampler, ShardedBatchSampler, ShardedFragmentSampler, maybe_sample

if TYPE_CHECKING:
    import numpy as np


class ToTensorFn(Protocol):
    """What makes tensors of a batch."""

    def __call__(
        self,
        batch: pa.RecordBatch | dict[str, Any],
        *,
        hf_converter: dict[str, Any] | None = None,
        use_blob_api: bool = False,
        **kwargs: Any,
    ) -> dict[str, torch.Tensor] | torch.Tensor:
        """The tensors, by name, or the one of a single column."""
        ...


def _is_bfloat16(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "lance.bfloat16"


def _bfloat16(array: Any) -> torch.Tensor:
    """Values of two bytes as they are; null is NaN."""
    storage = array.storage if isinstance(array.type, pa.BaseExtensionType) else array
    bytes_ = bytearray(storage.buffers()[1])
    tensor = torch.frombuffer(bytes_, dtype=torch.int16, count=len(storage), offset=storage.offset * 2).view(torch.bfloat16)
    if array.null_count > 0:
        tensor[torch.from_numpy(array.is_null().to_numpy(zero_copy_only=False))] = float("nan")
    return tensor


def _numbers(array: Any, uint64_as_int64: bool) -> torch.Tensor:
    values = array.to_numpy(zero_copy_only=False)
    if uint64_as_int64 and values.dtype.name == "uint64":
        values = values.astype("int64")
    with warnings.catch_warnings():
        # The tensor shares the array's memory and nobody writes to it.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ", category=UserWarning)
        return torch.from_numpy(values)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _column_to_tensor(name: str, array: Any, uint64_as_int64: bool, hf_converter: Any) -> torch.Tensor:
    if isinstance(array.type, pa.FixedShapeTensorType):
        array = array.storage
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        width = kind.list_size
        items = array.values.slice(array.offset * width, len(array) * width)
        if _is_bfloat16(kind.value_type):
            return _bfloat16(items).view(-1, width)
        if _is_number(kind.value_type):
            return _numbers(items, uint64_as_int64).view(-1, width)
    if _is_bfloat16(kind):
        return _bfloat16(array)
    if _is_number(kind):
        return _numbers(array, uint64_as_int64)
    if hf_converter is not None:
        return hf_converter.to_pytorch(name, array)
    raise ValueError(f"Only numbers, bfloat16 and fixed size lists of them become tensors, got: {kind}")


def _to_tensor(
    batch: pa.RecordBatch | dict[str, Any],
    *,
    uint64_as_int64: bool = True,
    hf_converter: Any = None,
    use_blob_api: bool = False,
    **kwargs: Any,
) -> dict[str, torch.Tensor] | torch.Tensor:
    """The columns of a batch as tensors; a single one alone."""
    names = batch.column_names if isinstance(batch, pa.RecordBatch) else list(batch)
    tensors: dict[str, torch.Tensor] = {}
    for name in names:
        if use_blob_api and isinstance(batch[name], list):
            raise NotImplementedError('Need user-provided "to_tensor_fn" for Blob files')
        tensors[name] = _column_to_tensor(name, batch[name], uint64_as_int64, hf_converter)
    return tensors[names[0]] if len(names) == 1 else tensors


class TensorDataset(torch.utils.data.Dataset):
    """Rows of a tensor in batches.

    Parameters
    ----------
    data : torch.Tensor or numpy.ndarray
    batch_size : int
    """

    def __init__(self, data: torch.Tensor | np.ndarray[Any, Any], batch_size: int, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._data: torch.Tensor = data if isinstance(data, torch.Tensor) else torch.from_numpy(data)
        self._batch_size = batch_size

    def __repr__(self) -> str:
        return f"TensorDataset(shape={tuple(self._data.shape)}, batch_size={self._batch_size})"

    def __len__(self) -> int:
        return math.ceil(self._data.shape[0] / self._batch_size)

    def __getitem__(self, idx: int) -> torch.Tensor:
        if idx >= len(self):
            raise IndexError(idx)
        return self._data[idx * self._batch_size : (idx + 1) * self._batch_size]


def concat_batches(bs: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches as one."""
    return bs[0] if len(bs) == 1 else pa.Table.from_batches(bs).combine_chunks().to_batches()[0]


def _joined(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Small batches put together, up to `rows`."""
    kept: list[pa.RecordBatch] = []
    n = 0
    for batch in batches:
        if kept and n + batch.num_rows > rows:
            yield concat_batches(kept)
            kept, n = [], 0
        kept.append(batch)
        n += batch.num_rows
    if kept:
        yield concat_batches(kept)


class _Cache:
    """Batches that are written to a file while they are read for the first time."""

    def __init__(self, stream: Iterable[pa.RecordBatch], cache: str | Path | bool):
        self._stream: Iterable[pa.RecordBatch] | None = stream
        self._folder = tempfile.TemporaryDirectory(prefix="pennon-torch-", dir=None if cache is True else str(cache))
        self._file = os.path.join(self._folder.name, "batches.arrow")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._stream is None:
            if os.path.exists(self._file):
                yield from pa.ipc.open_stream(self._file)
            return
        stream, self._stream = self._stream, None
        writer = None
        try:
            for batch in stream:
                if writer is None:
                    writer = pa.ipc.new_stream(self._file + ".part", batch.schema)
                writer.write(batch)
                yield batch
        finally:
            if writer is not None:
                writer.close()
        if writer is not None:
            os.rename(self._file + ".part", self._file)


def _dist(what: str, otherwise: int) -> int:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(getattr(torch.distributed, what)())
    return otherwise


def _place() -> tuple[int, int]:
    """Number of this loader among those of all processes, and how many there are."""
    worker = torch.utils.data.get_worker_info()
    workers, number = (1, 0) if worker is None else (worker.num_workers, worker.id)
    return _dist("get_rank", 0) * workers + number, _dist("get_world_size", 1) * workers


class LanceDataset(torch.utils.data.IterableDataset):
    """A dataset as tensors, a batch at a time.

    Parameters
    ----------
    dataset : pennon.LanceDataset, str or Path
    batch_size : int
    dataset_options : dict, optional
        Arguments of `pennon.dataset`.
    columns : list of str, or dict of str to str, optional
    filter : str, optional
    samples : int, optional
        So many rows at random.
    cache : str or bool, optional
        Keep the batches on disk for the next iterations, in a temporary folder (below this one).
    with_row_id : bool, default False
    rank, world_size : int, optional
        Deprecated: number of the worker, and how many there are.
    shard_granularity : {"fragment", "batch"}, optional
        What workers share out among each other.
    batch_readahead : int, default 16
    to_tensor_fn : callable, optional
        Makes tensors of a batch; None gives the batches.
    sampler : Sampler, optional
    auto_detect_rank : bool, default True
        Ask torch which worker this is.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *args: Any,
        dataset_options: dict[str, Any] | None = None,
        columns: list[str] | dict[str, str] | None = None,
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
        if isinstance(dataset, (str, Path)):
            dataset = open_dataset(dataset, **(dataset_options or {}))
        if shard_granularity not in (None, "fragment", "batch"):
            raise ValueError(f"Invalid shard_granularity: {shard_granularity}")
        if rank is not None and world_size is not None:
            warnings.warn("rank and world_size are deprecated", DeprecationWarning, stacklevel=2)
        self.dataset = dataset
        self.columns = columns
        self.batch_size = batch_size
        self.samples = samples
        self.filter = filter
        self.with_row_id = with_row_id
        self.batch_readahead = batch_readahead
        self.shard_granularity = shard_granularity
        self.rank = rank
        self.world_size = world_size
        self.sampler = sampler
        self.cache = cache
        self.cached_ds: _Cache | None = None
        self._to_tensor_fn = to_tensor_fn
        self._auto_detect_rank = auto_detect_rank

    def __repr__(self) -> str:
        return f"pennon.torch.data.LanceDataset({self.dataset.uri}, batch_size={self.batch_size})"

    @property
    def schema(self) -> pa.Schema:
        """Schema of the columns."""
        return self.dataset.scanner(columns=self.columns).projected_schema

    def _sampler(self) -> Sampler:
        rank, world_size = self.rank, self.world_size
        if self._auto_detect_rank:
            found = _place()
            rank = found[0] if rank is None else rank
            world_size = found[1] if world_size is None else world_size
        if self.shard_granularity is None and (rank is None or world_size is None):
            return FullScanSampler()
        if rank is None or world_size is None:
            raise ValueError("shard_granularity needs rank and world_size where auto_detect_rank is off")
        return ShardedBatchSampler(rank, world_size) if self.shard_granularity == "batch" else ShardedFragmentSampler(rank, world_size)

    def _batches(self) -> Iterable[pa.RecordBatch]:
        if self.cached_ds is not None:
            return self.cached_ds
        columns: Any = self.columns or self.dataset.schema.names
        if self.samples:
            raw = maybe_sample(self.dataset, self.samples, columns, batch_size=self.batch_size, filt=self.filter)
        else:
            raw = (self.sampler or self._sampler())(
                self.dataset,
                columns=columns,
                filter=self.filter,
                batch_size=self.batch_size,
                with_row_id=self.with_row_id,
                batch_readahead=self.batch_readahead,
            )
        batches = _joined(raw, self.batch_size)
        if not self.cache:
            return batches
        self.cached_ds = _Cache(batches, self.cache)
        return self.cached_ds

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches():
            yield batch if self._to_tensor_fn is None else self._to_tensor_fn(batch, hf_converter=None, use_blob_api=False)


class SafeLanceDataset(torch.utils.data.Dataset):
    """Rows of a dataset by number, for loaders with several processes: each opens the dataset itself.

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
        self._len = open_dataset(uri, **self.dataset_options).count_rows()
        self._ds: Any = None

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, idx: int) -> dict[str, Any]:
        return self.__getitems__([idx])[0]

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        """Several rows at once, as dictionaries."""
        if self._ds is None:
            self._ds = open_dataset(self.uri, **self.dataset_options)
        rows: list[dict[str, Any]] = self._ds.take(indices).to_pylist()
        return rows


def get_safe_loader(dataset: Any, batch_size: int = 32, num_workers: int = 4, **kwargs: Any) -> Any:
    """A DataLoader whose workers are processes that are spawned.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
    batch_size, num_workers : int
    **kwargs
        More arguments of `torch.utils.data.DataLoader`.
    """
    options = {"multiprocessing_context": torch.multiprocessing.get_context("spawn"), "persistent_workers": True, **kwargs}
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, **options)


__all__ = ["LanceDataset", "SafeLanceDataset", "get_safe_loader"]
