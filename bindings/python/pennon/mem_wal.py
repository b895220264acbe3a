# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The write-ahead log in memory: the names, which the engine refuses."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._data import not_yet

if TYPE_CHECKING:
    import pyarrow as pa

_WHAT = "the write-ahead log in memory"


@dataclass
class ShardingField:
    """What a shard is told by."""

    field_id: str
    source_ids: list[int]
    transform: str | None = None
    expression: str | None = None
    result_type: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass
class ShardingSpec:
    """How rows are spread over shards."""

    spec_id: int
    fields: list[ShardingField]


@dataclass
class MergedGeneration:
    """A generation of a shard that is merged."""

    shard_id: str
    generation: int


def evaluate_sharding_spec(batch: pa.RecordBatch, spec: ShardingSpec | Mapping[str, object], schema: Any) -> pa.RecordBatch:
    """The shard of each row. Not supported."""
    raise not_yet(_WHAT)


class _Refused:
    """Cannot be made."""

    def __init__(self, *arguments: Any, **keywords: Any):
        raise not_yet(_WHAT)


class ShardSnapshot(_Refused):
    """A state of a shard. Not supported."""


class ShardWriter(_Refused):
    """Writes to a shard. Not supported."""


class LsmScanner(_Refused):
    """Reads a dataset with its shards. Not supported."""


class ExecutionPlan(_Refused):
    """A plan over a dataset with its shards. Not supported."""


class LsmPointLookupPlanner(_Refused):
    """Plans look-ups by key. Not supported."""


class LsmVectorSearchPlanner(_Refused):
    """Plans searches for vectors. Not supported."""


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
        raise not_yet(_WHAT)

    def mem_wal_index_details(self) -> dict[str, Any] | None:
        """Settings of the log. Not supported."""
        raise not_yet(_WHAT)

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
    ) -> ShardWriter:
        """A writer to a shard. Not supported."""
        raise not_yet(_WHAT)


__all__ = [
    "ExecutionPlan",
    "LsmPointLookupPlanner",
    "LsmScanner",
    "LsmVectorSearchPlanner",
    "MergedGeneration",
    "ShardSnapshot",
    "ShardWriter",
    "ShardingField",
    "ShardingSpec",
    "evaluate_sharding_spec",
]
