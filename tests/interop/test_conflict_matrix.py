# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Two writers that read the same version, for every ordered pair of operations: what becomes of the second one, and the table afterwards, are as
official has it, whoever writes first and whoever second."""
import pytest

from transaction_files import Workshop
from transaction_names import CRAFTED, OFFICIAL

# Where ours answers otherwise than official 8.0.0, on purpose: (mine, theirs): (official, ours, what official does). docs/compatibility.md names them.
DEVIATIONS = {
    ("Merge", "UpdateConfig(field)"): ("ok", "RT", "loses the metadata: the schema of the Merge is older"),
    ("Project", "UpdateConfig(field)"): ("ok", "RT", "loses the metadata: the schema of the Project is older"),
    ("DataReplacement@0", "DeleteAll@0"): ("INVALID", "IN", "fails while it builds the manifest: the fragment is gone"),
    ("DataReplacement@0", "Update@0"): ("ok", "RT", "puts the file over a fragment whose rows have moved"),
    ("DataReplacement@0", "Merge"): ("ok", "RT", "puts the file over a fragment that was rewritten meanwhile"),
    ("DataReplacement@0", "Project"): ("ok", "RT", "puts a file there that was made for another schema"),
}

# Rows of operations that official's API cannot build, out of the published rules: theirs -> outcome; everything else is ok.
CRAFTED_ROWS = {
    "ReserveFragments": {"Overwrite": "IN", "Restore": "IN"},
    "UpdateMemWalState": {name: "IN" for name in ("Append", "Delete@0", "Delete@1", "DeleteAll@0", "Overwrite", "Merge", "Project",
                                                  "Restore", "DataReplacement@0")},
}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory, oracles):
    return Workshop(tmp_path_factory.mktemp("matrix"), oracles.get("v8"))


def _same_state(ours, official, *operations):
    """Rows and metadata are the same, and so is the layout: every writer numbers fragments the same way.

    Two things differ on purpose: ours never uses a fragment id again after an overwrite, and keeps schema metadata where official loses them, since
    they are no part of the transaction of a Merge, Project or Overwrite.
    """
    if "Overwrite" in operations:
        ours, official = ({**s, "fragments": [f[1:] for f in s["fragments"]]} for s in (ours, official))
    if {"Merge", "Project"} & set(operations) and "UpdateConfig(schema)" in operations:
        assert ours["schema_metadata"] in ({"s": "1"}, official["schema_metadata"])
        ours = {**ours, "schema_metadata": official["schema_metadata"]}
    return {k: (ours[k], official[k]) for k in official if ours[k] != official[k]}


def _compare(workshop, mine, theirs, wrong):
    def note(who, got, want):
        if got != want:
            wrong.append(f"{mine} after {theirs}, {who}: {got}, official alone: {want}")

    uri = str(workshop.folder / f"official-{workshop.n}")
    first, want, state = workshop.official.call("transaction_ops.pair", folder=str(workshop.folder), uri=uri, mine=mine,
                                                theirs=theirs, versions=workshop.versions)
    workshop.drop(uri)
    assert first == "ok", (theirs, first)
    writers = {"ours": workshop.ours, "official": workshop.theirs}
    for a, b in (("ours", "ours"), ("official", "ours"), ("ours", "official")):
        trial = workshop.fresh()
        note(f"{a} then {b}, first", writers[a](trial, theirs), "ok")
        deviates = b == "ours" and (mine, theirs) in DEVIATIONS
        if deviates:
            note("alone, as listed", want, DEVIATIONS[mine, theirs][0])
        note(f"{a} then {b}", writers[b](trial, mine), DEVIATIONS[mine, theirs][1] if deviates else want)
        if not deviates:
            difference = _same_state(workshop.state(trial), state, mine, theirs)
            if difference:
                wrong.append(f"{mine} after {theirs}, {a} then {b}: the tables differ: {difference}")
        workshop.drop(trial)


@pytest.mark.parametrize("mine", OFFICIAL)
def test_second_writer(workshop, mine):
    wrong = []
    for theirs in OFFICIAL:
        _compare(workshop, mine, theirs, wrong)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("theirs", sorted(CRAFTED))
def test_after_one_that_official_cannot_build(workshop, theirs):
    """Ours writes it; then official and ours answer the same, and make the same table."""
    wrong = []
    for mine in OFFICIAL:
        a, b = workshop.fresh(), workshop.fresh()
        assert workshop.ours(a, theirs) == "ok" and workshop.ours(b, theirs) == "ok"
        want, got = workshop.theirs(a, mine), workshop.ours(b, mine)
        if got != want:
            wrong.append(f"{mine} after {theirs}: {got}, official {want}")
        difference = _same_state(workshop.state(b), workshop.state(a), mine)
        if difference:
            wrong.append(f"{mine} after {theirs}: the tables differ: {difference}")
        workshop.drop(a)
        workshop.drop(b)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mine", sorted(CRAFTED_ROWS))
@pytest.mark.parametrize("writer", ["ours", "official"])
def test_one_that_official_cannot_build(workshop, mine, writer):
    wrong = []
    for theirs in OFFICIAL:
        uri = workshop.fresh()
        first = workshop.ours(uri, theirs) if writer == "ours" else workshop.theirs(uri, theirs)
        assert first == "ok", (theirs, first)
        before = workshop.state(uri)
        got, want = workshop.ours(uri, mine), CRAFTED_ROWS[mine].get(theirs, "ok")
        if got != want:
            wrong.append(f"{mine} after {theirs}: {got} instead of {want}")
        after = workshop.state(uri)
        if {**before, "version": 0, "indices": 0} != {**after, "version": 0, "indices": 0}:
            wrong.append(f"{mine} after {theirs} changed the table")
        workshop.drop(uri)
    assert not wrong, "\n".join(wrong)
