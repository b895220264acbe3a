# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Random programs on Pennon, on official and on plain rows, in lock step; and the programs that once made a difference (programs/*.json)."""
import glob
import json
import os

import pytest

import lockstep
import world

PROGRAMS, STEPS = 15, 40
KEPT = sorted(glob.glob(os.path.join(lockstep.HERE, "programs", "*.json")))


@pytest.fixture(scope="module")
def engines():
    both = lockstep.Engines(os.environ["PENNON_PYTHON"])
    yield both
    both.close()


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_program(seed, engines):
    assert lockstep.failure_of(engines, world.random_program(seed, STEPS)) is None


@pytest.mark.parametrize("path", KEPT, ids=[os.path.basename(path) for path in KEPT])
def test_kept_program(path, engines):
    with open(path, encoding="utf-8") as f:
        assert lockstep.failure_of(engines, json.load(f)) is None


def test_programs_are_kept():
    assert KEPT
