# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Sessions: in pylance the caches that datasets share. The library's caches belong to the process, so a session holds nothing."""
from __future__ import annotations

from typing import Any


class Session:
    """Accepted where pylance takes one; all datasets of a process share what the library keeps.

    Parameters
    ----------
    index_cache_size_bytes, metadata_cache_size_bytes : int, optional
        Change nothing here.
    """

    def __init__(
        self, index_cache_size_bytes: int | None = None, metadata_cache_size_bytes: int | None = None, **kwargs: Any
    ):
        self._sizes = (index_cache_size_bytes, metadata_cache_size_bytes)

    def size_bytes(self) -> int:
        """Bytes that the session's own caches hold: none."""
        return 0

    def is_same_as(self, other: Session) -> bool:
        """Is it this session?"""
        return self is other

    def __repr__(self) -> str:
        return f"Session(index_cache_size_bytes={self._sizes[0]}, metadata_cache_size_bytes={self._sizes[1]})"
