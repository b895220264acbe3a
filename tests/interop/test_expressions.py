# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Queries of expressions.py: official 8.0.0 and Pennon give the same rows, values, order and aggregates, or both refuse."""
import pytest

import expressions

TABLES = 20  # of expressions.CASES_A_TABLE cases


@pytest.mark.parametrize("seed", range(TABLES))
def test_same_answers(seed, tmp_path, oracles):
    found = expressions.Table(seed, tmp_path, oracles.get("v8")).make().run()
    assert not found, expressions.describe(seed, found)
