# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Compaction in parts that engines run where they like: a plan, its tasks, and a commit of what they did."""
from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from . import _pennon
from ._progress import shown
from .fragment import FragmentMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .dataset import LanceDataset

_PLAN, _TASK, _RESULT = 0, 1, 2


class CompactionOptions(TypedDict, total=False):
    """Options of a compaction; what is not there comes from the dataset's config (`lance.compaction.*`), or has its default."""

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


# ---- options ----

# The bit that says that a member is given; the order of the C struct.
_BITS = {
    name: 1 << i
    for i, name in enumerate(
        (
            "target_rows_per_fragment",
            "max_rows_per_group",
            "max_bytes_per_file",
            "materialize_deletions",
            "materialize_deletions_threshold",
            "num_threads",
            "batch_size",
            "io_buffer_size",
            "defer_index_remap",
            "compaction_mode",
            "binary_copy_read_batch_bytes",
            "max_source_fragments",
        )
    )
}
_NUMBERS = {"target_rows_per_fragment", "max_rows_per_group"}
_BOOLS = {"materialize_deletions", "defer_index_remap"}
_MODES = {"reencode": 1, "try_binary_copy": 2, "force_binary_copy": 3}
_NONE = 2**64 - 1


def _number(value: Any) -> int:
    number = operator.index(value)
    if number < 0:
        raise OverflowError("can't convert negative int to unsigned")
    return number


def _mode(value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, str):
        raise TypeError(f"'{type(value).__name__}' object is not an instance of 'str'")
    if value.lower() not in _MODES:
        names = ", ".join(f'"{name}"' for name in _MODES)
        raise ValueError(f'Invalid user input: Invalid compaction mode "{value}". Valid values: {names}')
    return _MODES[value.lower()]


def _value(name: str, value: Any) -> Any:
    if name in _BOOLS:
        if not isinstance(value, bool):
            kind = "None" if value is None else type(value).__name__
            raise TypeError(f"'{kind}' is not an instance of 'bool'")
        return value
    if name == "materialize_deletions_threshold":
        if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
            raise TypeError(f"must be real number, not {type(value).__name__}")
        return float(value)
    if name == "compaction_mode":
        return _mode(value)
    if value is None and name not in _NUMBERS:
        return _NONE
    return _number(value)


def _settled(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the library takes them."""
    if not isinstance(options, dict):
        kind = "None" if options is None else type(options).__name__
        raise TypeError(f"'{kind}' is not an instance of 'dict'")
    out: dict[str, Any] = {"set": 0}
    for name, value in options.items():
        if name not in _BITS:
            raise ValueError(f"Invalid compaction option: {name}")
        out["set"] |= _BITS[name]
        out[name] = _value(name, value)
    return out


# ---- what goes to and fro ----


@dataclass
class CompactionMetrics:
    """What a compaction did."""

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0


_Own = TypeVar("_Own", bound="_Text")


def _dump(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


class _Text:
    """Something that is a text in JSON, and equal to another of the same text."""

    _kind: int
    _text: str

    def __init__(self) -> None:
        raise TypeError(f"cannot create '{type(self).__qualname__}' instances")

    @classmethod
    def _of(cls: type[_Own], text: str) -> _Own:
        one = object.__new__(cls)
        one._text = text
        return one

    @classmethod
    def _read(cls: type[_Own], text: str) -> _Own:
        if not isinstance(text, str):
            raise TypeError(f"argument 'json': '{type(text).__name__}' object is not an instance of 'str'")
        try:
            return cls._of(_pennon.compact_text(cls._kind, text))
        except ValueError as error:
            raise ValueError(f"Could not load {cls.__name__} due to error: {error}") from error

    def json(self) -> str:
        """As JSON, as pylance has it."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, _Text) and type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._read, (self._text,)

    def _tree(self) -> dict[str, Any]:
        tree: dict[str, Any] = json.loads(self._text)
        return tree

    @property
    def read_version(self) -> int:
        """The version that it was made from."""
        return int(self._tree()["read_version"])

    def _fragments(self, name: str) -> list[FragmentMetadata]:
        return [FragmentMetadata._of(tree) for tree in self._tree()[name]]


class RewriteResult(_Text):
    """What a task did, which `Compaction.commit` commits."""

    _kind = _RESULT

    def __repr__(self) -> str:
        return f"RewriteResult(read_version={self.read_version}, new_fragments={self.new_fragments}, old_fragments={self.old_fragments})"

    @property
    def metrics(self) -> CompactionMetrics:
        """What it would do."""
        return CompactionMetrics(**self._tree()["metrics"])

    @property
    def new_fragments(self) -> list[FragmentMetadata]:
        """Those that were written; they get their ids when they are committed."""
        return self._fragments("new_fragments")

    @property
    def original_fragments(self) -> list[FragmentMetadata]:
        """Those that they stand for."""
        return self._fragments("original_fragments")

    @property
    def old_fragments(self) -> list[FragmentMetadata]:
        """The same as original_fragments."""
        return self.original_fragments

    @staticmethod
    def from_json(json: str) -> RewriteResult:
        """The opposite of json; ValueError when it is none."""
        return RewriteResult._read(json)


class CompactionTask(_Text):
    """Fragments that become others."""

    _kind = _TASK

    def __repr__(self) -> str:
        return f"CompactionTask(read_version={self.read_version}, fragments={self.fragments})"

    @property
    def fragments(self) -> list[FragmentMetadata]:
        """Those that are written anew."""
        return [FragmentMetadata._of(tree) for tree in self._tree()["task"]["fragments"]]

    def execute(self, dataset: LanceDataset) -> RewriteResult:
        """Write the new fragments, which nothing refers to until `Compaction.commit`.

        Parameters
        ----------
        dataset : LanceDataset
            At any version: the one that was planned for is read.
        """
        return RewriteResult._of(dataset._ds.compact_execute(self._text, None))

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """The opposite of json; ValueError when it is none."""
        return CompactionTask._read(json)


class CompactionPlan(_Text):
    """Tasks that can be run apart, on any machine."""

    _kind = _PLAN

    def __repr__(self) -> str:
        return f"CompactionPlan(read_version={self.read_version}, tasks=<{self.num_tasks()} compaction tasks>)"

    @property
    def tasks(self) -> list[CompactionTask]:
        """The tasks, in the order of their fragments."""
        # The rest of a plan is the rest of each task, as it stands there.
        end = self._text[self._text.rindex('],"read_version":') + 1 :]
        return [CompactionTask._of('{"task":' + _dump(task) + end) for task in self._tree()["tasks"]]

    def num_tasks(self) -> int:
        """How many tasks there are."""
        return len(self._tree()["tasks"])

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """The opposite of json; ValueError when it is none."""
        return CompactionPlan._read(json)


class Compaction:
    """Compaction as a plan, tasks, and a commit."""

    @staticmethod
    def execute(dataset: LanceDataset, options: CompactionOptions) -> CompactionMetrics:
        """Plan, run and commit.

        Parameters
        ----------
        dataset : LanceDataset
            It moves to the new version.
        options : dict
            As of `DatasetOptimizer.compact_files`.
        """
        settled = _settled(options)
        with shown("compacting", "rows") as progress:
            return CompactionMetrics(*dataset._ds.compact(settled, progress))

    @staticmethod
    def plan(dataset: LanceDataset, options: CompactionOptions) -> CompactionPlan:
        """The tasks.

        Parameters
        ----------
        dataset : LanceDataset
        options : dict
            As of `DatasetOptimizer.compact_files`.
        """
        return CompactionPlan._of(dataset._ds.compact_plan(_settled(options)))

    @staticmethod
    def commit(dataset: LanceDataset, rewrites: Sequence[RewriteResult], options: CompactionOptions | None = None) -> CompactionMetrics:
        """Commit what tasks did, of all of them or of some.

        Parameters
        ----------
        dataset : LanceDataset
            It moves to the new version.
        rewrites : list of RewriteResult
        options : dict, optional
            Of these, defer_index_remap counts.
        """
        if not isinstance(rewrites, (list, tuple)):
            raise TypeError(f"argument 'rewrites': '{type(rewrites).__name__}' object is not an instance of 'Sequence'")
        for one in rewrites:
            if not isinstance(one, RewriteResult):
                raise TypeError(f"argument 'rewrites': '{type(one).__name__}' object is not an instance of 'RewriteResult'")
        settled = None if options is None else _settled(options)
        return CompactionMetrics(*dataset._ds.compact_commit("[" + ",".join(one._text for one in rewrites) + "]", settled))


__all__ = ["Compaction", "CompactionMetrics", "CompactionOptions", "CompactionPlan", "CompactionTask", "RewriteResult"]
