# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Samples of a dataset, and its parts for the workers of a training."""
from __future__ import annotations

import math
import os
import random
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ._data import pyarrow

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from .dataset import LanceDataset
    from .fragment import LanceFragment

T = TypeVar("T")

#: Batches that are shuffled among each other where a stream comes in the order of the table.
_RESERVOIR = 256


@dataclass(order=True)
class PrioritizedItem(Generic[T]):
    """An item of a heap."""

    priority: int
    item: T = field(compare=False)


def _one_batch(table: Any) -> Any:
    return table.combine_chunks().to_batches()[0]


def _cut(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Batches of exactly `rows`, but for the last."""
    pa = pyarrow("sampler")
    kept: list[Any] = []
    n = 0
    for batch in batches:
        kept.append(batch)
        n += batch.num_rows
        if n <= rows:
            continue
        whole = _one_batch(pa.Table.from_batches(kept))
        while whole.num_rows > rows:
            yield whole.slice(0, rows)
            whole = whole.slice(rows)
        kept, n = [whole], whole.num_rows
    if n > 0:
        yield _one_batch(pa.Table.from_batches(kept))


def _runs(ds: LanceDataset, n: int, columns: Any, max_takes: int) -> Iterator[Any]:
    """`n` rows as `max_takes` runs of neighbours, spread over the table: few reads, random enough."""
    rows = len(ds)
    bounds = [rows * i // max_takes for i in range(max_takes + 1)]
    shares = [n * (i + 1) // max_takes - n * i // max_takes for i in range(max_takes)]
    for start, end, share in zip(bounds[:-1], bounds[1:], shares, strict=True):
        share = min(share, end - start)
        first = start + random.randrange(end - start - share + 1)
        if share > 0:
            yield from ds.take(range(first, first + share), columns=columns).to_batches()


def _filtered(ds: LanceDataset, n: int, columns: Any, max_takes: int, filt: str) -> Iterator[Any]:
    """Rows that pass the filter out of runs in random order, until there are `n`."""
    rows = len(ds)
    size = max(math.ceil(n / max_takes), 1)
    starts = list(range(0, rows, size))
    random.shuffle(starts)
    for start in starts:
        end = min(start + size, rows)
        for batch in ds.to_batches(columns=columns, filter=f"_rowoffset >= {start} AND _rowoffset < {end} AND ({filt})"):
            if batch.num_rows > n:
                batch = batch.slice(0, n)
            n -= batch.num_rows
            if batch.num_rows > 0:
                yield batch
            if n == 0:
                return


def maybe_sample(
    dataset: str | Path | LanceDataset,
    n: int,
    columns: list[str] | str,
    batch_size: int = 10240,
    max_takes: int = 2048,
    filt: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """`n` rows at random, or all where there are not more.

    Parameters
    ----------
    dataset : str, Path or LanceDataset
    n : int
    columns : list of str, or str
    batch_size : int
        Rows of a batch at most.
    max_takes : int
        Places that are read at most: above it rows come in runs of neighbours.
    filt : str, optional
        SQL that is true for the rows wanted.
    """
    ds = _dataset_of(dataset)
    names = [columns] if isinstance(columns, str) else columns
    if n >= len(ds):
        yield from ds.to_batches(columns=names, batch_size=batch_size, filter=filt)
    elif filt is not None:
        yield from _cut(_filtered(ds, n, names, max_takes, filt), batch_size)
    elif n > max_takes:
        yield from _cut(_runs(ds, n, names, max_takes), batch_size)
    else:
        rows = random.sample(range(len(ds)), n)
        for start in range(0, n, batch_size):
            yield _one_batch(ds.take(rows[start : start + batch_size], columns=names))


def _dataset_of(dataset: Any) -> LanceDataset:
    if isinstance(dataset, (str, os.PathLike)):
        from .dataset import dataset as open_dataset

        return open_dataset(os.fspath(dataset))
    opened: LanceDataset = dataset
    return opened


def reservoir_sampling(stream: Iterable[T], k: int) -> list[T]:
    """`k` items of a stream of unknown length (all, where there are fewer), each as likely as any other."""
    kept: list[T] = []
    for i, item in enumerate(stream):
        if i < k:
            kept.append(item)
        else:
            place = random.randrange(i + 1)
            if place < k:
                kept[place] = item
    return kept


class Sampler(ABC):
    """Gives batches of a dataset to a loader."""

    @abstractmethod
    def __call__(
        self,
        ds: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The batches."""


class FragmentSampler(Sampler):
    """Gives whole fragments, in an order of its own."""

    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The batches of its fragments."""
        yield from dataset.scanner(
            batch_size=batch_size,
            columns=columns,
            filter=filter,
            batch_readahead=batch_readahead,
            with_row_id=with_row_id,
            fragments=list(self.iter_fragments(dataset, *args, **kwargs)),
        ).to_batches()

    @abstractmethod
    def iter_fragments(self, ds: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """The fragments."""


class FullScanSampler(FragmentSampler):
    """Gives all fragments."""

    def iter_fragments(self, dataset: LanceDataset, **kwargs: Any) -> Iterator[LanceFragment]:  # type: ignore[override]
        """All fragments."""
        yield from dataset.get_fragments()


def _torch_rank() -> tuple[int, int]:
    import torch.distributed

    return torch.distributed.get_rank(), torch.distributed.get_world_size()


class ShardedFragmentSampler(FragmentSampler):
    """Gives each worker every n-th fragment.

    Parameters
    ----------
    rank, world_size : int
        Number of the worker, and how many there are.
    randomize : bool, default False
        In random order.
    seed : int
    """

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0):
        self._rank = rank
        self._world_size = world_size
        self._randomize = randomize
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Another order for each epoch."""
        self._epoch = epoch

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedFragmentSampler:
        """For the worker that torch.distributed says this is."""
        return ShardedFragmentSampler(*_torch_rank(), randomize=randomize, seed=seed)

    def iter_fragments(self, dataset: LanceDataset, **kwargs: Any) -> Iterator[LanceFragment]:  # type: ignore[override]
        """The fragments of this worker."""
        fragments = dataset.get_fragments()
        if self._randomize:
            random.Random(self._seed + self._epoch).shuffle(fragments)
        yield from fragments[self._rank :: self._world_size]


class ShardedBatchSampler(Sampler):
    """Gives each worker every n-th batch; with a filter every n-th row that passes.

    Parameters
    ----------
    rank, world_size : int
        Number of the worker, and how many there are.
    randomize : bool, default False
        In random order.
    seed : int
    """

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0):
        self._rank = rank
        self._world_size = world_size
        self._randomize = randomize
        self._seed = seed
        self._epoch = 0
        self._len = 0

    def __len__(self) -> int:
        return self._len

    def set_epoch(self, epoch: int) -> None:
        """Another order for each epoch."""
        self._epoch = epoch

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedBatchSampler:
        """For the worker that torch.distributed says this is."""
        return ShardedBatchSampler(*_torch_rank(), randomize=randomize, seed=seed)

    def _random(self) -> random.Random:
        return random.Random(self._seed + self._epoch)

    def _ranges(self, ds: LanceDataset, batch_size: int, columns: Any) -> Iterator[Any]:
        rows = ds.count_rows()
        starts = list(range(self._rank * batch_size, rows, self._world_size * batch_size))
        if self._randomize:
            self._random().shuffle(starts)
        for start in starts:
            yield _one_batch(ds.take(range(start, min(start + batch_size, rows)), columns=columns))

    def _own_rows(self, batches: Iterable[Any]) -> Iterator[Any]:
        skip = self._rank
        for batch in batches:
            mine = list(range(skip, batch.num_rows, self._world_size))
            skip = (skip - batch.num_rows) % self._world_size
            if mine:
                yield batch.take(mine)

    def _shuffled(self, batches: Iterable[Any]) -> Iterator[Any]:
        chance = self._random()
        heap: list[PrioritizedItem[Any]] = []
        for batch in batches:
            entry = PrioritizedItem(chance.randrange(_RESERVOIR * 2), batch)
            if len(heap) < _RESERVOIR:
                heappush(heap, entry)
            else:
                yield heappushpop(heap, entry).item
        for entry in heap:
            yield entry.item

    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: list[str] | dict[str, str] | None = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The batches of this worker."""
        if filter is None:
            if with_row_id:
                warnings.warn("with_row_id is not supported for ShardedBatchSampler", stacklevel=2)
            return self._ranges(dataset, batch_size, columns)
        found = dataset.to_batches(columns=columns, filter=filter, batch_readahead=batch_readahead, scan_in_order=True)
        mine = _cut(self._own_rows(found), batch_size)
        return self._shuffled(mine) if self._randomize else mine


class ShardedFixedBatchSampler(ShardedBatchSampler):
    """Gives each worker the numbers of neighbouring rows, in batches: a sampler of batches for a torch DataLoader.

    Parameters
    ----------
    rank, world_size : int
        Number of the worker, and how many there are.
    randomize : bool, default False
        In random order.
    seed : int
    batch_size : int
        Rows of a batch at most.
    total_num_rows : int
        Rows of the table.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        randomize: bool = False,
        seed: int = 0,
        batch_size: int = 0,
        total_num_rows: int = 0,
    ):
        super().__init__(rank, world_size, randomize, seed)
        self._rows = total_num_rows
        self._batch_size = batch_size
        self._share = math.ceil(total_num_rows / world_size)
        self._len = math.ceil(self._share / batch_size) if batch_size else 0

    def __len__(self) -> int:
        return self._len

    def __iter__(self) -> Iterator[list[int]]:
        start = self._rank * self._share
        end = min(start + self._share, self._rows)
        batches = [list(range(at, min(at + self._batch_size, end))) for at in range(start, end, self._batch_size or 1)]
        if self._randomize:
            self._random().shuffle(batches)
        yield from batches

    @staticmethod
    def from_torch(  # type: ignore[override]
        batch_size: int, total_num_rows: int, randomize: bool = False, seed: int = 0
    ) -> ShardedFixedBatchSampler:
        """For the worker that torch.distributed says this is."""
        return ShardedFixedBatchSampler(*_torch_rank(), randomize, seed, batch_size, total_num_rows)


__all__ = [
    "FragmentSampler",
    "FullScanSampler",
    "Sampler",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "ShardedFragmentSampler",
    "maybe_sample",
    "reservoir_sampling",
]
