# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The same program over pylance 8.0.0 and over this package: tests/interop/python_cases.py."""
import pennon
import pytest
import python_cases


@pytest.fixture(scope="module")
def theirs(official, tmp_path_factory):
    return official.call("python_ops.run_cases", names=list(python_cases.CASES), folder=str(tmp_path_factory.mktemp("official")))


@pytest.mark.parametrize("name", python_cases.CASES)
def test_the_same(name, theirs, tmp_path):
    ours = python_cases.run(pennon, [name], tmp_path)[name]
    wanted = theirs[name]
    if isinstance(wanted, list) and wanted[:1] == ["raises"]:
        assert isinstance(ours, list) and ours[:1] == ["raises"] and wanted[1][0] in ours[1], (wanted[2], ours)
    else:
        assert ours == wanted
