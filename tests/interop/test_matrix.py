# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Every type, shape and version, in both directions. Pick with -k: `pytest -k "list_utf8 and 2.1 and official_writes"`."""
import pytest

import cases
import refusals

CHOSEN = [case for group in cases.groups(cases.select()) for case in group.cases]
each_case = pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.id)


def test_table_of_refusals_is_of_this_matrix():
    assert refusals.matrix() == cases.fingerprint(cases.select()), "run probe_official.py"


@each_case
def test_official_writes_pennon_reads(case, verdict):
    found = verdict(case)["read"]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@each_case
def test_pennon_writes_official_reads(case, verdict):
    found = verdict(case)["write"]
    if found:
        pytest.fail("\n".join(found), pytrace=False)
