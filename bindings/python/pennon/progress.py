# Licensed under the Apache License, Version 2.0; see LICENSE.
"""How far long work has come: hooks of writes and of index builds."""
from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ._data import pyarrow

if TYPE_CHECKING:
    from .fragment import FragmentMetadata


@dataclass(frozen=True)
class IndexProgress:
    """A step of an index build.

    Attributes
    ----------
    event : {"start", "progress", "complete"}
    stage : str
    completed, total : int, optional
        In `unit`.
    unit : str
    """

    event: Literal["start", "progress", "complete"]
    stage: str
    completed: int | None = None
    total: int | None = None
    unit: str = ""

    @property
    def fraction(self) -> float | None:
        """Part that is done, from 0 to 1, or None where it is not known."""
        if self.completed is None or not self.total:
            return None
        return self.completed / self.total


class FragmentWriteProgress(ABC):
    """Told about each fragment that a write makes. An exception makes the write fail."""

    def _do_begin(self, fragment_json: str, **kwargs: Any) -> None:
        from .fragment import FragmentMetadata

        self.begin(FragmentMetadata.from_json(fragment_json), **kwargs)

    def _do_complete(self, fragment_json: str, **kwargs: Any) -> None:
        from .fragment import FragmentMetadata

        self.complete(FragmentMetadata.from_json(fragment_json), **kwargs)

    @abstractmethod
    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """A fragment is begun; its id may not be known yet."""

    @abstractmethod
    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """A fragment is written."""


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """Does nothing."""

    def begin(self, fragment: FragmentMetadata, **kargs: Any) -> None:
        """Nothing."""

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Nothing."""


class FileSystemFragmentWriteProgress(FragmentWriteProgress):
    """Keeps a JSON file of each fragment, and beside it another one while the fragment is in work.

    Parameters
    ----------
    base_uri : str
        Folder of the files, as pyarrow.fs takes it.
    metadata : dict, optional
        Put into the file of a fragment in work.
    """

    PROGRESS_EXT: str = ".in_progress"

    def __init__(self, base_uri: str, metadata: dict[str, str] | None = None):
        pyarrow("FileSystemFragmentWriteProgress")
        from pyarrow.fs import FileSystem

        self._fs, self._base_path = FileSystem.from_uri(base_uri)
        self._metadata = metadata or {}

    def _path(self, fragment: FragmentMetadata, end: str) -> str:
        return os.path.join(self._base_path, f"fragment_{fragment.id}{end}")

    def _write(self, path: str, tree: dict[str, Any]) -> None:
        with self._fs.open_output_stream(path) as out:
            out.write(json.dumps(tree).encode())

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Write both files."""
        self._fs.create_dir(self._base_path, recursive=True)
        self._write(self._path(fragment, self.PROGRESS_EXT), {"fragment_id": fragment.id, "metadata": self._metadata})
        self._write(self._path(fragment, ".json"), fragment.to_json())

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Remove the one that says that the fragment is in work."""
        self._fs.delete_file(self._path(fragment, self.PROGRESS_EXT))


__all__ = ["FileSystemFragmentWriteProgress", "FragmentWriteProgress", "IndexProgress", "NoopFragmentWriteProgress"]
