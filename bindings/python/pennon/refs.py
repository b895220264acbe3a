# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Tags and branches of a dataset."""
from __future__ import annotations

import builtins
import json
from datetime import datetime, timezone
from typing import Any, TypedDict

from . import _pennon
from ._data import rows_of

#: A version, a tag, or (branch or None for main, version or None for the latest).
Reference = int | str | tuple[str | None, int | None]


class Tag(TypedDict):
    """A tag, as `Tags.list` gives it."""

    branch: str | None
    version: int
    created_at: datetime | None
    updated_at: datetime | None
    manifest_size: int
    metadata: dict[str, str]


class Branch(TypedDict):
    """A branch, as `Branches.list` gives it."""

    parent_branch: str | None
    branch_identifier: list[tuple[int, str]]
    parent_version: int
    create_at: int
    manifest_size: int
    metadata: dict[str, str]


def ref_of(reference: Reference | None) -> dict[str, Any] | None:
    """A reference as an option of the library."""
    if reference is None:
        return None
    if isinstance(reference, str):
        return {"ref": (None, reference, None)}
    if isinstance(reference, tuple):
        branch, version = reference
        return {"ref": (version, None, branch or "main")}
    return {"ref": (reference, None, None)}


def time_of(nanoseconds: int | None) -> datetime | None:
    """Of nanoseconds since 1970."""
    if nanoseconds is None:
        return None
    return datetime.fromtimestamp(nanoseconds // 10**9, timezone.utc).replace(microsecond=nanoseconds % 10**9 // 1000)


def _in_order(rows: builtins.list[tuple[str, Any]], key: str, order: str | None) -> builtins.list[tuple[str, Any]]:
    """By a number, and by name where it is the same, whatever the order of the numbers."""
    if order not in (None, "asc", "desc"):
        raise ValueError(f"Invalid sort order '{order}'. Expected 'asc' or 'desc'")
    sign = 1 if order == "asc" else -1
    return sorted(rows, key=lambda row: (sign * row[1][key], row[0]))


class Tags:
    """Names for versions."""

    def __init__(self, dataset: _pennon.Dataset):
        self._ds = dataset

    def list(self) -> dict[str, Tag]:
        """All tags, by name."""
        return {
            row["tag"]: {
                "branch": row["branch"],
                "version": row["version"],
                "created_at": time_of(row["created"]),
                "updated_at": time_of(row["updated"]),
                "manifest_size": row["manifest_size"],
                "metadata": json.loads(row["metadata"] or "{}"),
            }
            for row in rows_of(self._ds.listing("tags"))
        }

    def get_version(self, tag: str) -> int | None:
        """The version that the tag names."""
        tags = self.list()
        if tag not in tags:
            raise ValueError(f"Ref not found error: tag {tag} does not exist")
        return tags[tag]["version"]

    def list_ordered(self, order: str | None = None) -> builtins.list[tuple[str, Tag]]:
        """All tags by version and name, "desc" (the default) or "asc"."""
        return _in_order([*self.list().items()], "version", order)

    def create(self, tag: str, reference: Reference | None = None) -> None:
        """Name a version.

        Parameters
        ----------
        tag : str
        reference : int, str or tuple, optional
            A version of this branch, another tag, or (branch, version); this version where there is none.
        """
        self._ds.tag("create", tag, ref_of(reference), None)

    def delete(self, tag: str) -> None:
        """Remove the tag; the version stays."""
        self._ds.tag("delete", tag, None, None)

    def update(self, tag: str, reference: Reference | None = None) -> None:
        """Move the tag to another version."""
        self._ds.tag("update", tag, ref_of(reference), None)

    def replace_metadata(self, tag: str, metadata: dict[str, str]) -> None:
        """Set the whole metadata of the tag."""
        self._ds.tag("metadata", tag, None, {"metadata": metadata})


class Branches:
    """Lines of versions."""

    def __init__(self, dataset: _pennon.Dataset):
        self._ds = dataset

    def list(self) -> dict[str, Branch]:
        """All branches but main, by name."""
        branches: dict[str, Branch] = {}
        for row in rows_of(self._ds.listing("branches")):
            steps = (row["identifier"] or "").split(":")
            branches[row["branch"]] = {
                "parent_branch": row["parent"],
                "branch_identifier": [(int(version), name) for version, name in zip(steps[::2], steps[1::2])],
                "parent_version": row["version"],
                "create_at": (row["created"] or 0) // 10**9,
                "manifest_size": row["manifest_size"],
                "metadata": json.loads(row["metadata"] or "{}"),
            }
        return branches

    def list_ordered(self, order: str | None = None) -> builtins.list[tuple[str, Branch]]:
        """All branches by the version they start at and name, "desc" (the default) or "asc"."""
        return _in_order([*self.list().items()], "parent_version", order)

    def delete(self, branch: str) -> None:
        """Remove the branch and its versions."""
        self._ds.branch("delete", branch, None, None)

    def replace_metadata(self, branch: str, metadata: dict[str, str]) -> None:
        """Set the whole metadata of the branch."""
        self._ds.branch("metadata", branch, None, {"metadata": metadata})


__all__ = ["Branch", "Branches", "Reference", "Tag", "Tags"]
