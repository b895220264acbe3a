# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What arguments may be."""
from __future__ import annotations

from typing import Any, TypeAlias

#: Data to write: Arrow data of any library (what has `__arrow_c_stream__` or `__arrow_c_array__`), a pandas or Polars DataFrame, a pyarrow
#: Dataset or Scanner, a dict of lists or NumPy arrays, a list of dicts, or an iterable of pyarrow RecordBatches.
ReaderLike: TypeAlias = Any

#: A vector to search for: numbers, an array of NumPy or pyarrow, a pandas Series, or several of them.
QueryVectorLike: TypeAlias = Any

__all__ = ["QueryVectorLike", "ReaderLike"]
