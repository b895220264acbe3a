# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The same compactions by Pennon and by official on copies of one table: rows, row ids, lineage, fragments and metrics are equal, and each goes on with what
the other one made. Indices answer right after a compaction that deferred them."""
import json

import pytest

import oracle
import pennon
from test_mutations import Pair, base, same  # noqa: F401

NAMES = ("fragments_removed", "fragments_added", "files_removed", "files_added")


@pytest.fixture
def pair(base, tmp_path, oracles):  # noqa: F811
    uri, storage, stable = base
    return Pair(uri, tmp_path, storage, stable, oracles.get("v8"))


def compact(uri, *args):
    done = pennon.as_json("compact", uri, *args)
    return [done[name] for name in NAMES]


def official(oracles, function, **args):
    return oracles.get("v8").call("compaction_ops." + function, **args)


CASES = [
    ({}, []), ({"target_rows_per_fragment": 15}, ["--target-rows", "15"]), ({"target_rows_per_fragment": 8}, ["--target-rows", "8"]),
    ({"target_rows_per_fragment": 5, "materialize_deletions_threshold": 0.15}, ["--target-rows", "5", "--threshold", "0.15"]),
    ({"target_rows_per_fragment": 5, "materialize_deletions": False}, ["--target-rows", "5", "--no-deletions"]),
    ({"max_source_fragments": 2, "target_rows_per_fragment": 9}, ["--max-source-fragments", "2", "--target-rows", "9"]),
    ({"compaction_mode": "try_binary_copy"}, ["--mode", "try-binary-copy"]),
]


@pytest.mark.parametrize("options, args", CASES, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_compactions_are_the_same(pair, oracles, options, args):
    assert compact(pair.ours, *args) == official(oracles, "compact", uri=pair.theirs, options=options)
    same(pair)
    # Nothing is left to do for the same options, or the same for both.
    assert compact(pair.ours, *args) == official(oracles, "compact", uri=pair.theirs, options=options)
    same(pair)


def test_several_files_dropped_columns_and_missing_ones(pair, oracles):
    for uri in (pair.ours, pair.theirs):
        official(oracles, "evolve", uri=uri)
    assert compact(pair.ours) == official(oracles, "compact", uri=pair.theirs, options={})
    same(pair)


def test_each_goes_on_with_the_other(pair, oracles):
    for step in range(3):
        for uri in (pair.ours, pair.theirs):
            pair.call("append", uri=uri, first=100 + 10 * step, n=4)
            pair.call("delete", uri=uri, where=f"id % 11 = {step}")
        first, second = (pair.ours, pair.theirs) if step % 2 else (pair.theirs, pair.ours)
        assert compact(first) == official(oracles, "compact", uri=second, options={})
        same(pair)


def test_the_transactions_are_the_same(pair, oracles):
    compact(pair.ours)
    official(oracles, "compact", uri=pair.theirs, options={})
    made = [json.loads(pennon.run("transaction", uri)) for uri in (pair.ours, pair.theirs)]
    for t in made:
        t.pop("uuid")
        for group in t["operation"]["groups"]:
            for fragment in group["new_fragments"]:
                fragment["files"] = [{"fields": f["fields"], "column_indices": f["column_indices"]} for f in fragment["files"]]
                for part in ("row_id_meta", "created_at_version_meta", "last_updated_at_version_meta"):
                    fragment.pop(part)  # the same ids and versions may be written in several forms; the rows have been compared
    assert made[0] == made[1]


def test_refused(pair):
    for args, why in ((["--mode", "copy"], "try-binary-copy"), (["--threshold", "2"], "0 to 1"), (["--no-deletions", "--threshold", "0.5"], "different"),
                      (["--target-rows", "x"], "number")):
        with pytest.raises(pennon.Failed) as refused:
            compact(pair.ours, *args)
        assert refused.value.code == 2 and why in refused.value.stderr
    with pytest.raises(pennon.Failed, match="rows are deleted"):
        compact(pair.ours, "--mode", "force-binary-copy")


def test_dry_run(pair):
    text = pennon.run("compact", pair.ours, "--dry-run", "--target-rows", "100").decode()
    assert text.splitlines()[0].split() == ["task", "fragments", "rows", "deleted_rows", "files", "bytes"]
    row = json.loads(pennon.run("compact", pair.ours, "--dry-run", "--json", "--target-rows", "100"))
    assert row["fragments"] == [0, 1, 2] and row["rows"] == 27 and row["deleted_rows"] == 3 and row["files"] == 3
    assert compact(pair.ours, "--target-rows", "100")[0] == 3


# ---- indices ----

def test_deferred_indices_answer_right(tmp_path, oracles):
    uri = str(tmp_path / "t.lance")
    official(oracles, "indexed", uri=uri)
    with pytest.raises(pennon.Failed, match="id_idx.*defer_index_remap"):
        compact(uri, "--target-rows", "1000")
    before = official(oracles, "answers", uri=uri)
    assert not before["wrong"]
    steps = [lambda: compact(uri, "--target-rows", "1000", "--defer-index-remap"), lambda: pennon.run("delete", uri, "--where", "id % 5 = 1"),
             lambda: compact(uri, "--target-rows", "5000", "--defer-index-remap"), lambda: official(oracles, "delete", uri=uri, where="id % 11 = 1"),
             lambda: official(oracles, "compact", uri=uri, options={"defer_index_remap": True, "materialize_deletions_threshold": 0.01}),
             lambda: pennon.run("update", uri, "--set", "s=upper(s)", "--where", "id % 13 = 2"), lambda: compact(uri, "--defer-index-remap")]
    for step in steps:
        step()
        now = official(oracles, "answers", uri=uri)
        assert not now["wrong"] and now["indices"] == ["__lance_frag_reuse", *before["indices"]]
        assert not pennon.findings(uri)


def test_large_content_of_the_reuse_index_is_a_file(tmp_path, oracles):
    """Every other row is gone: the addresses of the others take more than 200 KiB."""
    uri = str(tmp_path / "t.lance")
    oracles.get("v8").call("compaction_ops.wide", uri=uri, n=2_000_000)
    compact(uri, "--defer-index-remap")
    assert list((tmp_path / "t.lance" / "_indices").glob("*/details.binpb"))
    assert official(oracles, "some_by_index", uri=uri) == []
    official(oracles, "delete", uri=uri, where="id = 8")
    compact(uri, "--defer-index-remap", "--threshold", "0")
    assert official(oracles, "some_by_index", uri=uri) == []


def test_stable_ids_keep_indices(tmp_path, oracles):
    uri = str(tmp_path / "t.lance")
    seed = next(s for s in range(1000) if (found := official(oracles, "layout", uri=uri, seed=s))["stable"] and found["indexed"])
    assert seed < 1000
    before = official(oracles, "rows", uri=uri, stable=True)
    compact(uri)
    assert official(oracles, "rows", uri=uri, stable=True) == before
    assert official(oracles, "through_indices", uri=uri) == []


def test_oracle_refuses_what_it_says(pair, oracles):
    with pytest.raises(oracle.Refused):
        official(oracles, "compact", uri=pair.theirs, options={"compaction_mode": "force_binary_copy"})


# ---- blobs ----

@pytest.mark.parametrize("storage", ["2.0", "2.1", "2.2"])
def test_blobs_come_along(storage, tmp_path, oracles):
    """Official's own compaction of these tables empties large values (2.0) or fails (2.1)."""
    uri, outside = str(tmp_path / "t.lance"), tmp_path / "outside.bin"
    outside.write_bytes(b"0123456789" * 100)
    official(oracles, "blobs", uri=uri, storage=storage, outside=f"file://{outside}")
    before = official(oracles, "blob_digests", uri=uri)
    assert compact(uri) == [4, 1, 7, 1]
    assert official(oracles, "blob_digests", uri=uri) == before
    assert not pennon.findings(uri, "--external-paths", "all")
    if storage == "2.2":
        assert before["8"] == [1000, b"0123".hex(), b"6789".hex()] and before["9"] == [17, b"5678".hex(), b"8901".hex()]
        shown = pennon.scan(uri, columns=["id", "b"]).to_pylist()
        assert {row["b"]["blob_uri"] for row in shown if row["id"] % 100 in (8, 9)} == {f"file://{outside}"}
