# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The Lance lakehouse format: read and write datasets.

    import pennon

    ds = pennon.write_dataset({"id": [1, 2], "name": ["a", "b"]}, "people.lance")
    ds.to_table(columns=["name"], filter="id > 1")

Names and arguments are those of pylance. Data goes in and out by the Arrow PyCapsule protocol; pyarrow is needed for what gives or
takes its objects, and imported only then. Log records go to `logging`, under the name "pennon".
"""
from __future__ import annotations

from . import _pennon
from ._pennon import ErrorDetail
from .dataset import (
    DatasetBasePath,
    DataStatistics,
    FieldStatistics,
    LanceDataset,
    dataset,
    write_dataset,
)
from .fragment import FragmentMetadata, LanceFragment
from .operation import LanceOperation, Transaction
from .scanner import LanceScanner, ScanStatistics

__version__ = _pennon.version()

__all__ = [
    "DataStatistics",
    "DatasetBasePath",
    "ErrorDetail",
    "FieldStatistics",
    "FragmentMetadata",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "ScanStatistics",
    "Transaction",
    "__version__",
    "dataset",
    "write_dataset",
]
