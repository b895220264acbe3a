# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Fixtures of the package's tests: a table, and official Lance in a process of its own."""
import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Behind everything else: in there is another pennon.py.
sys.path.append(str(ROOT / "tests" / "interop"))

import oracle  # noqa: E402
import pyarrow as pa  # noqa: E402

ROWS = 1000


def pytest_configure(config):
    import pennon

    config.addinivalue_line("markers", "measured: compares memory, which a build with sanitizers keeps for itself")
    wanted = os.environ.get("PENNON_PACKAGE")
    if wanted and not pennon.__file__.startswith(wanted):
        raise pytest.UsageError(f"the package under test is {pennon.__file__}, not that in {wanted}")


# A shell that runs the tests in the background lets them ignore SIGINT, and Python then leaves it so.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def official():
    """pylance 8.0.0, as in tests/interop."""
    one = oracle.Oracle("v8")
    yield one
    one.close()


@pytest.fixture
def table():
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "half": pa.array([i / 2 if i % 7 else None for i in range(ROWS)], pa.float64()),
            "name": [f"name {i % 13}" for i in range(ROWS)],
            "list": pa.array([[i, None] if i % 3 else None for i in range(ROWS)], pa.list_(pa.int32())),
            "point": pa.array([{"x": i, "y": -i} for i in range(ROWS)], pa.struct([("x", pa.int16()), ("y", pa.int64())])),
        }
    )


@pytest.fixture
def ds(table, tmp_path):
    import pennon

    return pennon.write_dataset(table, tmp_path / "table.lance", max_rows_per_file=300)
