# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Locks around commits, for stores that cannot put an object only if there is none."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

#: Called with the version that is about to be written; the commit happens inside of the context manager.
CommitLock = Callable[[int], AbstractContextManager[Any]]


class CommitConflictError(Exception):
    """Raised by a lock: another process writes this version."""


__all__ = ["CommitConflictError", "CommitLock"]
