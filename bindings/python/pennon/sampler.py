# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Which rows of a dataset a reader gets, and in which order: all, a random part, or the share of one process of many."""
from __future__ import annotations

import heapq
import math
import random
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ._data import pyarrow

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from .dataset import LanceDataset
    from .fragment import LanceFragment

T = TypeVar("T")
Columns = list[str] | dict[str, str] | None

_RESERVOIR = 256  # batches that are kept to pick from


def reservoir_sampling(stream: Iterable[T], k: int) -> list[T]:
    """`k` items of a stream of unknown length, each as likely as any other."""
    kept: list[tuple[float, int, T]] = []
    for number, item in enumerate(stream):
        entry = (random.random(), number, item)
        if len(kept) < k:
            heapq.heappush(kept, entry)
        else:
            heapq.heappushpop(kept, entry)
    return [item for _, _, item in kept]


def _one_batch(tables: list[pa.Table]) -> pa.RecordBatch:
    pa = pyarrow("a sample")
    table = pa.concat_tables(tables).combine_chunks()
    return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], table.schema)


def _in_batches(tables: Iterable[pa.Table], batch_size: int) -> Iterator[pa.RecordBatch]:
    """The rows of many tables in batches of one size; the last has the rest."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows < batch_size:
            continue
        whole = pyarrow("a sample").concat_tables(waiting)
        for start in range(0, rows - rows % batch_size, batch_size):
            yield _one_batch([whole.slice(start, batch_size)])
        rows %= batch_size
        waiting = [whole.slice(whole.num_rows - rows)] if rows else []
    if rows:
        yield _one_batch(waiting)


def maybe_sample(
    dataset: str | Path | LanceDataset,
    n: int,
    columns: list[str] | dict[str, str] | str,
    batch_size: int = 10240,
    max_takes: int = 2048,
    filt: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """`n` rows at random, or all where there are not more.

    Parameters
    ----------
    dataset : str, Path or LanceDataset
    n : int
        Rows wanted.
    columns : list of str, dict of str to str, or str
    batch_size : int, default 10240
        Rows of a batch.
    max_takes : int, default 2048
        Places that are read at most: a larger sample is made of runs of rows.
    filt : str, optional
        SQL that is true for the rows to pick from.
    """
    from .dataset import LanceDataset

    ds = dataset if isinstance(dataset, LanceDataset) else LanceDataset(dataset)
    wanted = [columns] if isinstance(columns, str) else columns
    if filt is not None:
        ids = ds.to_table(columns=[], filter=filt, with_row_id=True)["_rowid"].to_pylist()
        picked = sorted(random.sample(ids, n)) if n < len(ids) else ids
        parts = (picked[i : i + batch_size] for i in range(0, len(picked), batch_size))
        yield from _in_batches((ds._take_rows(part, wanted) for part in parts), batch_size)
        return
    total = ds.count_rows()
    if n >= total:
        yield from ds.to_batches(columns=wanted, batch_size=batch_size)
        return
    run = max(math.ceil(n / max_takes), 1)
    starts = [start * run for start in random.sample(range(math.ceil(total / run)), math.ceil(n / run))]
    if run > 1:
        starts.sort()
    rows = [row for start in starts for row in range(start, min(start + run, total))][:n]
    # The last run of the dataset may be short.
    if len(rows) < n:
        have = set(rows)
        rows += [row for row in range(total) if row not in have][: n - len(rows)]
    for i in range(0, n, batch_size):
        yield _one_batch([ds.take(rows[i : i + batch_size], wanted)])


class Sampler(ABC):
    """Gives the batches of a dataset that a reader is to have."""

    @abstractmethod
    def __call__(
        self,
        ds: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The batches."""


class FragmentSampler(Sampler):
    """A sampler of whole fragments, in the order of `iter_fragments`."""

    def __call__(  # type: ignore[override]
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The batches."""
        fragments = list(self.iter_fragments(dataset, *args, **kwargs))
        if not fragments:
            return
        yield from dataset.scanner(
            columns=columns,
            filter=filter,
            batch_size=batch_size,
            batch_readahead=batch_readahead,
            with_row_id=with_row_id,
            fragments=fragments,
        ).to_batches()

    @abstractmethod
    def iter_fragments(self, ds: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """The fragments."""


class FullScanSampler(FragmentSampler):
    """Everything, in order."""

    def iter_fragments(self, dataset: LanceDataset, **kwargs: Any) -> Iterator[LanceFragment]:  # type: ignore[override]
        """All fragments."""
        yield from dataset.get_fragments()


class ShardedFragmentSampler(FragmentSampler):
    """Every `world_size`-th fragment, from the one with number `rank` on.

    Parameters
    ----------
    rank, world_size : int
        Number of this process among so many.
    randomize : bool, default False
        Shuffle the fragments first, the same way in every process.
    seed : int, default 0
    """

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0):
        self._rank, self._world_size, self._randomize, self._seed, self._epoch = rank, world_size, randomize, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Number of the pass over the data, which changes the order of samplers that use it."""
        self._epoch = epoch

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedFragmentSampler:
        """Rank and world size from `torch.distributed`."""
        return ShardedFragmentSampler(*_torch_place(), randomize, seed)

    def iter_fragments(self, dataset: LanceDataset, **kwargs: Any) -> Iterator[LanceFragment]:  # type: ignore[override]
        """The fragments of this process."""
        fragments = dataset.get_fragments()
        if self._randomize:
            random.Random(self._seed).shuffle(fragments)
        yield from fragments[self._rank :: self._world_size]


def _torch_place() -> tuple[int, int]:
    import torch

    return torch.distributed.get_rank(), torch.distributed.get_world_size()


class ShardedBatchSampler(Sampler):
    """Every `world_size`-th batch, from the one with number `rank` on; with a filter every `world_size`-th row that passes it.

    With a filter each process reads all rows that pass and drops those of the others; `randomize` then mixes batches near each other.

    Parameters
    ----------
    rank, world_size : int
        Number of this process among so many.
    randomize : bool, default False
        Shuffle the batches.
    seed : int, default 0
    """

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0):
        self._rank, self._world_size, self._randomize, self._seed, self._epoch = rank, world_size, randomize, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Number of the pass over the data, which changes the order of a filtered one."""
        self._epoch = epoch

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedBatchSampler:
        """Rank and world size from `torch.distributed`."""
        return ShardedBatchSampler(*_torch_place(), randomize, seed)

    def __call__(  # type: ignore[override]
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The batches."""
        if filter is not None:
            return self._filtered(dataset, batch_size, columns, batch_readahead, filter)
        if with_row_id:
            warnings.warn("with_row_id is not supported for ShardedBatchSampler", stacklevel=2)
        return self._all(dataset, batch_size, columns)

    def _all(self, dataset: LanceDataset, batch_size: int, columns: Columns) -> Iterator[pa.RecordBatch]:
        total = dataset.count_rows()
        starts = list(range(self._rank * batch_size, total, self._world_size * batch_size))
        if self._randomize:
            random.Random(self._seed).shuffle(starts)
        for start in starts:
            yield _one_batch([dataset.take(list(range(start, min(start + batch_size, total))), columns)])

    def _share(self, dataset: LanceDataset, columns: Columns, batch_readahead: int, filter: str) -> Iterator[pa.Table]:
        pa = pyarrow("a sample")
        before = 0
        for batch in dataset.scanner(columns=columns, filter=filter, batch_readahead=batch_readahead).to_batches():
            mine = range((self._rank - before) % self._world_size, batch.num_rows, self._world_size)
            before += batch.num_rows
            yield pa.Table.from_batches([batch]).take(pa.array(mine, pa.int64()))

    def _filtered(
        self, dataset: LanceDataset, batch_size: int, columns: Columns, batch_readahead: int, filter: str
    ) -> Iterator[pa.RecordBatch]:
        batches = _in_batches(self._share(dataset, columns, batch_readahead, filter), batch_size)
        if not self._randomize:
            yield from batches
            return
        pick = random.Random(self._seed + self._epoch)
        kept: list[pa.RecordBatch] = []
        for batch in batches:
            kept.append(batch)
            if len(kept) > _RESERVOIR:
                yield kept.pop(pick.randrange(len(kept)))
        pick.shuffle(kept)
        yield from kept


class ShardedFixedBatchSampler(ShardedBatchSampler):
    """Row numbers in batches, of one process' share of a dataset with so many rows: a run of rows for each process.

    Parameters
    ----------
    rank, world_size : int
        Number of this process among so many.
    randomize : bool, default False
        Shuffle the batches, in each epoch anew.
    seed : int, default 0
    batch_size : int
    total_num_rows : int
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
        self._batch_size, self._total = batch_size, total_num_rows
        self._share_rows = math.ceil(total_num_rows / world_size)

    @staticmethod
    def from_torch(  # type: ignore[override]
        batch_size: int, total_num_rows: int, randomize: bool = False, seed: int = 0
    ) -> ShardedFixedBatchSampler:
        """Rank and world size from `torch.distributed`."""
        return ShardedFixedBatchSampler(*_torch_place(), randomize, seed, batch_size, total_num_rows)

    def __len__(self) -> int:
        return math.ceil(self._share_rows / self._batch_size) if self._batch_size else 0

    def __iter__(self) -> Iterator[list[int]]:
        first = self._rank * self._share_rows
        end = min(first + self._share_rows, self._total)
        batches = [list(range(start, min(start + self._batch_size, end))) for start in range(first, end, self._batch_size)]
        if self._randomize:
            random.Random(self._seed + self._epoch).shuffle(batches)
        yield from batches


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
