# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The Lance lakehouse format: read and write datasets.

    import pennon

    ds = pennon.write_dataset({"id": [1, 2], "name": ["a", "b"]}, "people.lance")
    ds.to_table(columns=["name"], filter="id > 1")

Names and arguments are those of pylance. Data goes in and out by the Arrow PyCapsule protocol; pyarrow is needed for what gives or
takes its objects, and imported only then. Log records go to `logging`, under the name "pennon".
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _pennon, io
from ._pennon import ErrorDetail
from .dataset import (
    DatasetBasePath,
    DataStatistics,
    FieldStatistics,
    Index,
    IndexFile,
    LanceOperation,
    MergeInsertBuilder,
    ScanStatistics,
    Session,
    Transaction,
    dataset,
    write_dataset,
)
from .fragment import FragmentMetadata
from .progress import IndexProgress
from .schema import json_to_schema, schema_to_json

if TYPE_CHECKING:
    import logging

    from .blob import Blob, BlobArray, BlobColumn, BlobFile, blob_array, blob_field
    from .dataset import LanceDataset
    from .fragment import LanceFragment
    from .mem_wal import (
        ExecutionPlan,
        LsmPointLookupPlanner,
        LsmScanner,
        LsmVectorSearchPlanner,
        MergedGeneration,
        ShardingField,
        ShardingSpec,
        ShardSnapshot,
        ShardWriter,
        evaluate_sharding_spec,
    )
    from .scanner import LanceScanner
    from .udf import batch_udf

__version__ = _pennon.version()

# Modules whose import takes long, and classes that are pyarrow's too: imported, or made, when they are asked for.
_LATER = {
    **dict.fromkeys(("Blob", "BlobArray", "BlobColumn", "BlobFile", "blob_array", "blob_field"), "blob"),
    **dict.fromkeys(("ExecutionPlan", "LsmPointLookupPlanner", "LsmScanner", "LsmVectorSearchPlanner"), "mem_wal"),
    **dict.fromkeys(("MergedGeneration", "ShardSnapshot", "ShardWriter", "ShardingField", "ShardingSpec"), "mem_wal"),
    "evaluate_sharding_spec": "mem_wal",
    "LanceDataset": "dataset",
    "LanceFragment": "fragment",
    "LanceScanner": "scanner",
    "batch_udf": "udf",
}
_MODULES = ("blob", "commit", "debug", "file", "indices", "log", "optimize", "query", "sampler", "types", "udf")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _LATER:
        # The function `dataset` hides the module.
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def set_logger(
    file_path: str | None = "pylance.log",
    name: str = "pennon",
    level: int = 20,
    format_string: str | None = None,
    log_handler: logging.Handler | None = None,
) -> None:
    """Write log records to a file, or to a handler; see `pennon.log.set_logger`."""
    from . import log

    log.set_logger(file_path, name, level, format_string, log_handler)


def iops_counter() -> int:
    """Reads begun by the process. Not supported yet."""
    from ._data import not_yet

    raise not_yet("iops_counter")


def bytes_read_counter() -> int:
    """Bytes read by the process. Not supported yet."""
    from ._data import not_yet

    raise not_yet("bytes_read_counter")


class FFILanceTableProvider:
    """A dataset as a table of DataFusion. Not supported: DataFusion reads a dataset as Arrow data.

    Parameters
    ----------
    dataset : LanceDataset
    with_row_id, with_row_addr : bool, default False
    """

    def __init__(self, dataset: LanceDataset, *, with_row_id: bool = False, with_row_addr: bool = False):
        from ._data import not_yet

        raise not_yet("FFILanceTableProvider")


__all__ = [
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobFile",
    "DataStatistics",
    "DatasetBasePath",
    "ErrorDetail",
    "ExecutionPlan",
    "FFILanceTableProvider",
    "FieldStatistics",
    "FragmentMetadata",
    "Index",
    "IndexFile",
    "IndexProgress",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LsmPointLookupPlanner",
    "LsmScanner",
    "LsmVectorSearchPlanner",
    "MergeInsertBuilder",
    "MergedGeneration",
    "ScanStatistics",
    "Session",
    "ShardSnapshot",
    "ShardWriter",
    "ShardingField",
    "ShardingSpec",
    "Transaction",
    "__version__",
    "batch_udf",
    "blob_array",
    "blob_field",
    "bytes_read_counter",
    "dataset",
    "evaluate_sharding_spec",
    "io",
    "iops_counter",
    "json_to_schema",
    "schema_to_json",
    "set_logger",
    "write_dataset",
]
