# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The same merges by Pennon and by official on copies of one table, of random tables, rows and options: numbers, rows, row ids, versions, lineage and
fragments are equal; each side reads, checks and goes on with what the other one made.

MERGES names how many there are (default 240), MERGE_SEED the first.
"""
import os
import shutil

import pytest

import pennon

# What official 8.0.0 cannot do where Pennon can: a delete of matched rows beside one by source, null dictionaries.
OFFICIAL_FAILS = ("missing from merge insert input schema", "out of bounds: 0 (should be in [0, -1])")
FIRST = int(os.environ.get("MERGE_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("MERGES", "240")))


def merge(uri, source, options, *more):
    """As merge_ops.merge."""
    what = options["matched"] if options["condition"] is None else f"update-if {options['condition']}"
    by_source = options["by_source"] if options["by_condition"] is None else f"delete-if {options['by_condition']}"
    args = ["--on", ",".join(options["on"]), "--when-matched", "ignore" if what == "nothing" else what, "--when-not-matched",
            "insert" if options["insert"] else "ignore", "--when-not-matched-by-source", by_source]
    try:
        done = pennon.as_json("merge", uri, source, *args, *more)
    except pennon.Failed as failed:
        assert failed.code == 2, failed
        return {"error": failed.stderr}
    return {name: done[f"rows_{name}"] for name in ("inserted", "updated", "deleted")}


@pytest.mark.parametrize("seed", SEEDS)
def test_merges_are_the_same(seed, tmp_path, oracles):
    call = lambda function, **args: oracles.get("v8").call("merge_ops." + function, **args)
    options = call("make_case", folder=str(tmp_path), seed=seed)
    ours, theirs, source = str(tmp_path / "ours.lance"), str(tmp_path / "theirs.lance"), str(tmp_path / "source.arrow")
    base = call("version", uri=str(tmp_path / "base.lance"))
    shutil.copytree(tmp_path / "base.lance", ours)
    shutil.copytree(tmp_path / "base.lance", theirs)
    mine, other = merge(ours, source, options), call("merge", uri=theirs, source=source, options=options)
    if any(text in other.get("error", "") for text in OFFICIAL_FAILS):
        assert "error" not in mine and call("state", uri=ours, base=base)["version"] == base + 1, options
        assert not pennon.findings(ours)
        return
    if "error" in other:
        for text in ("Ambiguous merge inserts are prohibited", "found matching row with key values"):
            assert (text in mine.get("error", "")) == (text in other["error"]), (options, mine, other)
        assert "error" in mine, (options, mine, other)
    else:
        assert mine == other, options
    assert call("state", uri=ours, base=base) == call("state", uri=theirs, base=base), options
    assert not pennon.findings(ours)
    if seed % 4 == 0:
        assert call("write_on", uri=ours) == call("write_on", uri=theirs), options
        assert not pennon.findings(ours)
