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


class ShardSnapshot:
    """A state of a shard. Not supported."""

    def __init__(self, shard_id: str):
        raise not_yet(_WHAT)

    @property
    def shard_id(self) -> str:
        """Name of the shard."""
        raise not_yet(_WHAT)

    def with_spec_id(self, spec_id: int) -> ShardSnapshot:
        """Number of the spec."""
        raise not_yet(_WHAT)

    def with_current_generation(self, generation: int) -> ShardSnapshot:
        """The generation in work."""
        raise not_yet(_WHAT)

    def with_flushed_generation(self, generation: int, path: str) -> ShardSnapshot:
        """A generation that is written."""
        raise not_yet(_WHAT)


class ShardWriter:
    """Writes to a shard. Not supported."""

    def __init__(self, _raw: Any):
        raise not_yet(_WHAT)

    @property
    def shard_id(self) -> str:
        """Name of the shard."""
        raise not_yet(_WHAT)

    def put(self, data: Any, *, schema: pa.Schema | None = None) -> None:
        """Write rows."""
        raise not_yet(_WHAT)

    def close(self) -> None:
        """End."""
        raise not_yet(_WHAT)

    def stats(self) -> dict[str, Any]:
        """Numbers."""
        raise not_yet(_WHAT)

    def memtable_stats(self) -> dict[str, Any]:
        """Numbers of what is in memory."""
        raise not_yet(_WHAT)

    def lsm_scanner(self, shard_snapshots: list[ShardSnapshot] | None = None) -> LsmScanner:
        """A scanner of the shards."""
        raise not_yet(_WHAT)


class LsmScanner:
    """Reads a dataset with its shards. Not supported."""

    def __init__(self, _raw: Any):
        raise not_yet(_WHAT)

    @staticmethod
    def from_snapshots(dataset: Any, shard_snapshots: list[ShardSnapshot]) -> LsmScanner:
        """Of states of shards."""
        raise not_yet(_WHAT)

    def project(self, columns: list[str]) -> LsmScanner:
        """Columns."""
        raise not_yet(_WHAT)

    def filter(self, expr: str) -> LsmScanner:
        """Rows for which the SQL is true."""
        raise not_yet(_WHAT)

    def limit(self, n: int, offset: int | None = None) -> LsmScanner:
        """Rows at most."""
        raise not_yet(_WHAT)

    def with_row_address(self) -> LsmScanner:
        """Append `_rowaddr`."""
        raise not_yet(_WHAT)

    def with_memtable_gen(self) -> LsmScanner:
        """Append the generation."""
        raise not_yet(_WHAT)

    def to_batch(self) -> pa.RecordBatch:
        """The rows."""
        raise not_yet(_WHAT)

    def to_batches(self) -> list[pa.RecordBatch]:
        """The rows."""
        raise not_yet(_WHAT)

    def to_table(self) -> pa.Table:
        """The rows."""
        raise not_yet(_WHAT)

    def count_rows(self) -> int:
        """How many rows there are."""
        raise not_yet(_WHAT)


class ExecutionPlan:
    """A plan over a dataset with its shards. Not supported."""

    def __init__(self, _raw: Any):
        raise not_yet(_WHAT)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        raise not_yet(_WHAT)

    @property
    def dataset_schema(self) -> pa.Schema:
        """Schema of the dataset."""
        raise not_yet(_WHAT)

    def explain(self) -> str:
        """The plan as text."""
        raise not_yet(_WHAT)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows."""
        raise not_yet(_WHAT)

    def to_batches(self) -> list[pa.RecordBatch]:
        """The rows."""
        raise not_yet(_WHAT)

    def to_table(self) -> pa.Table:
        """The rows."""
        raise not_yet(_WHAT)


class LsmPointLookupPlanner:
    """Plans look-ups by key. Not supported."""

    def __init__(self, dataset: Any, shard_snapshots: list[ShardSnapshot], pk_columns: list[str] | None = None):
        raise not_yet(_WHAT)

    def plan_lookup(self, pk_value: pa.Array, columns: list[str] | None = None) -> ExecutionPlan:
        """The plan of one."""
        raise not_yet(_WHAT)


class LsmVectorSearchPlanner:
    """Plans searches for vectors. Not supported."""

    def __init__(
        self,
        dataset: Any,
        shard_snapshots: list[ShardSnapshot],
        vector_column: str,
        pk_columns: list[str] | None = None,
        distance_type: str | None = None,
    ):
        raise not_yet(_WHAT)

    def plan_search(
        self,
        query: pa.Array,
        k: int = 10,
        nprobes: int = 20,
        columns: list[str] | None = None,
        refine_base_table: bool = False,
        overfetch_factor: float = 1.0,
    ) -> ExecutionPlan:
        """The plan of one."""
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
