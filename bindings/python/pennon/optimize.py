# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Compaction in parts that engines run where they like: the names, which the engine refuses yet."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ._data import not_yet
from .fragment import FragmentMetadata

if TYPE_CHECKING:
    from .dataset import LanceDataset


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


def _trees(fragments: list[FragmentMetadata]) -> list[dict[str, Any]]:
    return [fragment.to_json() for fragment in fragments]


def _fragments(trees: list[dict[str, Any]]) -> list[FragmentMetadata]:
    return [FragmentMetadata._of(tree) for tree in trees]


@dataclass
class RewriteResult:
    """What a task did, which `Compaction.commit` commits."""

    read_version: int
    metrics: CompactionMetrics
    old_fragments: list[FragmentMetadata] = field(default_factory=list)
    new_fragments: list[FragmentMetadata] = field(default_factory=list)

    @property
    def original_fragments(self) -> list[FragmentMetadata]:
        """The old fragments."""
        return self.old_fragments

    def json(self) -> str:
        """As JSON."""
        return json.dumps(
            {
                "read_version": self.read_version,
                "metrics": self.metrics.__dict__,
                "old_fragments": _trees(self.old_fragments),
                "new_fragments": _trees(self.new_fragments),
            }
        )

    @staticmethod
    def from_json(json: str) -> RewriteResult:
        """The opposite of json."""
        tree = _read(json)
        metrics = CompactionMetrics(**tree["metrics"])
        return RewriteResult(
            tree["read_version"], metrics, _fragments(tree["old_fragments"]), _fragments(tree["new_fragments"])
        )


def _read(text: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(text)
    return tree


@dataclass
class CompactionTask:
    """Fragments that become others."""

    read_version: int
    fragments: list[FragmentMetadata] = field(default_factory=list)

    def json(self) -> str:
        """As JSON."""
        return json.dumps({"read_version": self.read_version, "fragments": _trees(self.fragments)})

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """The opposite of json."""
        tree = _read(json)
        return CompactionTask(tree["read_version"], _fragments(tree["fragments"]))

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

    def json(self) -> str:
        """As JSON."""
        return json.dumps({"read_version": self.read_version, "tasks": [json.loads(task.json()) for task in self.tasks]})

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """The opposite of json."""
        tree = _read(json)
        return CompactionPlan(
            tree["read_version"],
            [CompactionTask(task["read_version"], _fragments(task["fragments"])) for task in tree["tasks"]],
        )


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
