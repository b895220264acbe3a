# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pennon's columns are as small as official's: at most 1.01 times the smaller of the two releases, and a constant."""
import pytest

import cases
import oracle
import refusals

# Hard cases are left out: there is no size of official's to compare with.
CHOSEN = [case for group in cases.groups(cases.select()) for case in group.cases
          if case.rows >= 1000 and not cases.pennon_refuses(case) and not any(refusals.listed(case.id, who) for who in oracle.NAMES)]
RATIO, CONSTANT = 1.01, 512
FSST_RATIO = 1.03  # official trains its symbols on a random sample, so its own sizes vary


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.id)
def test_column_is_no_larger_than_officials(case, verdict):
    size = verdict(case)["size"]
    if size is None:
        pytest.fail("not written; test_matrix.py says why", pytrace=False)
    mine, theirs, who, my_layouts, their_layouts = size
    ratio = FSST_RATIO if any("fsst" in text for text in their_layouts) else RATIO
    if mine > theirs * ratio + CONSTANT:
        pytest.fail(f"{mine} bytes, {who} needs {theirs} ({mine / max(1, theirs):.3f})\n"
                    f"  mine   {my_layouts}\n  theirs {their_layouts}", pytrace=False)
