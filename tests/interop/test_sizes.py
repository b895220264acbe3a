# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pennon's columns are as small as official's: at most 1.01 times the smaller of the two releases, and a constant."""
import pytest

import cases

CHOSEN = [case for group in cases.groups(cases.select()) for case in group.cases if case.rows >= 1000]
RATIO, CONSTANT = 1.01, 512
FSST_RATIO = 1.03  # official trains its symbols on a random sample, so its own sizes vary


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.id)
def test_column_is_no_larger_than_officials(case, verdict):
    size = verdict(case)["size"]
    if size is None:
        return  # a hard case, or a failed write that test_matrix reports
    mine, theirs, who, my_layouts, their_layouts = size
    ratio = FSST_RATIO if any("fsst" in text for text in their_layouts) else RATIO
    assert mine <= theirs * ratio + CONSTANT, (
        f"{mine} bytes, {who} needs {theirs} ({mine / max(1, theirs):.3f})\n  mine   {my_layouts}\n  theirs {their_layouts}")
