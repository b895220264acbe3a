# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Compaction in parts that engines run where they like: the names, which the engine refuses yet."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ._data import not_yet

if TYPE_CHECKING:
    from .dataset import LanceDataset
    from .fragment import FragmentMetadata


class CompactionOptions(TypedDict, total=False):
    """Options of a compaction; what is not there has its default."""

    target_rows_per_fragment: int | None
    max_rows_per_group: int | None
    max_bytes_per_file: int | None
    materialize_deletions: bool | None
    materialize_deletions_threadhold: float | None
    num_threads: int | None
    batch_size: int | None
    io_buffer_size: int | None
    compaction_mode: Literal["reencode", "try_binary_copy", "force_binary_copy"] | None
    binary_copy_read_batch_bytes: int | None
    defer_index_remap: bool | None
    max_source_fragments: int | None


@dataclass
class CompactionMetrics:
    """What a compaction did."""

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0


@dataclass
class RewriteResult:
    """What a task did, which `Compaction.commit` commits."""

    read_version: int
    metrics: CompactionMetrics
    old_fragments: list[FragmentMetadata] = field(default_factory=list)
    new_fragments: list[FragmentMetadata] = field(default_factory=list)


@dataclass
class CompactionTask:
    """Fragments that become others."""

    read_version: int
    fragments: list[FragmentMetadata] = field(default_factory=list)

    def execute(self, dataset: LanceDataset) -> RewriteResult:
        """Write the new fragments. Not supported yet."""
        raise not_yet("compaction")


@dataclass
class CompactionPlan:
    """Tasks that can be run apart."""

    read_version: int
    tasks: list[CompactionTask] = field(default_factory=list)

    def num_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)


class Compaction:
    """Compaction as a plan, tasks, and a commit."""

    @staticmethod
    def execute(dataset: LanceDataset, options: CompactionOptions) -> CompactionMetrics:
        """Plan, run and commit. Not supported yet."""
        raise not_yet("compaction")

    @staticmethod
    def plan(dataset: LanceDataset, options: CompactionOptions) -> CompactionPlan:
        """The tasks. Not supported yet."""
        raise not_yet("compaction")

    @staticmethod
    def commit(dataset: LanceDataset, rewrites: list[RewriteResult], options: Any = None) -> CompactionMetrics:
        """Commit what tasks did. Not supported yet."""
        raise not_yet("compaction")


__all__ = ["Compaction", "CompactionMetrics", "CompactionOptions", "CompactionPlan", "CompactionTask", "RewriteResult"]
