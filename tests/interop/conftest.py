# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Fixtures of the interop tests. A missing command or oracle ends the run: nothing is skipped."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import cases    # noqa: E402
import features  # noqa: E402
import matrix   # noqa: E402
import oracle   # noqa: E402
import pennon   # noqa: E402

MATRIX = pytest.StashKey()


def pytest_configure(config):
    pennon.command()
    for name in oracle.NAMES:
        oracle.python_of(name)


def pytest_collection_finish(session):
    """Starts the matrix for exactly the cases that were selected, in the background."""
    if "lance" in sys.modules:  # it registers types with pyarrow, and the tests would see other arrays than without it
        raise pytest.UsageError("a test module imports lance: official runs in processes of its own (oracle.py)")
    chosen = {}
    for item in session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if isinstance(case, cases.Case):
            chosen[case.id] = case
    if chosen and not session.config.option.collectonly:
        session.stash[MATRIX] = matrix.Matrix(list(chosen.values()))


def pytest_sessionfinish(session):
    if os.environ.get("PENNON_PYTHON"):
        print(f"\n{pennon.Package.served} calls by the Python package")
    if os.environ.get("PENNON_PYTHON") and not pennon.Package.served:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED  # nothing went through the package
    running = session.stash.get(MATRIX, None)
    if running:
        running.close()


@pytest.fixture
def verdict(request):
    return request.session.stash[MATRIX].verdict


@pytest.fixture(scope="session")
def oracles():
    pool = oracle.Pool()
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def tables(tmp_path_factory, oracles):
    """The table of a case of features.py, made when it is first asked for."""
    made = {}

    def get(case):
        if case not in made:
            made[case] = features.Made(case, tmp_path_factory.mktemp(str(case)), oracles)
        return made[case]

    return get
