# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Appends and overwrites by Pennon on top of the tables of feature_tables.py: what they had stays, what is new is stamped, and both official
releases read, validate and go on from there."""
import shutil

import pyarrow as pa
import pytest

import arrow_diff
import lance_bytes
import oracle
import pennon
from features import CASES, SYSTEM, Case, data_names, lines, only, scanned

WRITTEN = [case for case in CASES if case.feature != "blobs_v2"]  # which has tests of its own
each = pytest.mark.parametrize("case", WRITTEN, ids=str)
OTHER = pa.table({"z": pa.array([1, None, 3, 4], pa.int64()), "t": ["x", None, "", "größe"]})
BRANCHES = ("exp/one", "two")


def save(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


def input_rows(case, want):
    """Three rows that fit the table: its last ones again (2.0: the first, whose structs are not null), blobs as bytes."""
    rows = want.select(data_names(want))
    rows = rows.slice(0 if case.storage == "2.0" else max(rows.num_rows - 3, 0), 3)
    if case.feature == "blobs_v1":
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        rows = rows.set_column(1, field, pa.array([b"one", None, b""][:rows.num_rows], pa.large_binary()))
    return rows


class Work:
    """A copy of a case's table to write on."""

    def __init__(self, made, folder):
        self.made, self.folder, self.uri = made, folder, str(folder / "t.lance")
        shutil.copytree(made.uri, self.uri)
        self.valid = {name: self.validates(name) for name in made.said}

    def validates(self, name):
        try:
            return self.made.oracles.get(name).validate(uri=self.uri)
        except oracle.Refused:  # dead ids in a data file are an error to it
            return False

    def theirs(self, name, **where):
        out = self.folder / "theirs"
        self.made.oracles.get(name).rows_at(uri=self.uri, out=str(out), **where)
        return pennon.table(out.read_bytes())

    def agree(self, branch=None):
        """Both releases read what Pennon reads, and validate what they did before. The rows."""
        got = scanned(self.uri, *(["--branch", branch] if branch else []), columns=self.theirs(self.made.case.maker, branch=branch).column_names)
        for name in self.made.said:
            found = arrow_diff.diff_table(self.theirs(name, branch=branch), got)
            assert found is None, (name, found)
            assert branch or not self.valid[name] or self.validates(name), name
        return got

    def go_on(self, rows, branch=None):
        """Official appends, deletes and compacts; Pennon reads what it left."""
        case = self.made.case
        # What official cannot compact: blobs (8.0.0), missing structs of 2.0, which would be null.
        compact = (case.maker, case.feature) != ("v8", "blobs_v1") and (case.feature, case.storage) != ("missing", "2.0")
        self.made.oracles.get(case.maker).touch(uri=self.uri, ipc=save(rows, self.folder / "more.arrow"), branch=branch, compact=compact)
        self.agree(branch)


def manifest(uri):
    return lance_bytes.latest(uri)


def check_carried(before, after, overwrite):
    """What a commit must leave as it was."""
    assert after.manifest["version"] == before.manifest["version"] + 1
    assert after.unknown() == []
    if not overwrite:
        assert after.index_entries() == before.index_entries()
        for key in ("fields", "schema_metadata", "data_format"):
            assert after.manifest.get(key) == before.manifest.get(key), key
        assert after.manifest["fragments"][:-1] == before.manifest.get("fragments", [])
    for key in ("config", "table_metadata", "branch", "base_paths"):
        assert after.manifest.get(key) == before.manifest.get(key), key
    for key in ("reader_feature_flags", "writer_feature_flags"):
        kept = before.manifest.get(key, 0) & ~(1 if overwrite else 0)  # deletion files go with the fragments
        assert after.manifest.get(key, 0) & kept == kept, key
    highest = before.manifest.get("max_fragment_id", -1)
    assert after.manifest["fragments"][-1].get("id", 0) > highest
    assert after.manifest["max_fragment_id"] == after.manifest["fragments"][-1].get("id", 0)


def check_stamps(case, before, got, n):
    """System columns of the n rows that Pennon wrote."""
    new, version = got.slice(got.num_rows - n), before.manifest["version"] + 1
    if case.stable:
        first = before.manifest.get("next_row_id", 0)
        assert new.column("_rowid").to_pylist() == list(range(first, first + n))
    else:
        assert new.column("_rowid") == new.column("_rowaddr")
    for column in SYSTEM[3:]:
        assert new.column(column).to_pylist() == [version if case.stable else 1] * n


@each
def test_append(tables, case, tmp_path):
    made = tables(case)
    want, work = made.expected(made.newest()), Work(tables(case), tmp_path)
    rows, before = input_rows(case, want), manifest(made.uri)
    if rows.num_rows == 0:  # of the table whose rows are all gone
        rows = made.expected("2").select(data_names(want)).slice(0, 2)
    pennon.write(work.uri, save(rows, tmp_path / "rows.arrow"), mode="append")
    check_carried(before, manifest(work.uri), False)
    got = work.agree()
    assert arrow_diff.diff_table(want, got.slice(0, want.num_rows)) is None
    if case.feature != "blobs_v1":
        assert arrow_diff.diff_table(rows, got.slice(want.num_rows).select(rows.column_names)) is None
    check_stamps(case, before, got, rows.num_rows)
    assert pennon.findings(work.uri) == ""
    work.go_on(rows)


@each
def test_overwrite(tables, case, tmp_path):
    made = tables(case)
    want, work, before = made.expected(made.newest()), Work(tables(case), tmp_path), manifest(made.uri)
    pennon.write(work.uri, save(OTHER, tmp_path / "rows.arrow"), mode="overwrite")
    check_carried(before, manifest(work.uri), True)
    got = work.agree()
    assert arrow_diff.diff_table(OTHER, got.select(OTHER.column_names)) is None
    assert pennon.as_json("info", work.uri)["indices"] == []
    check_stamps(case, before, got, OTHER.num_rows)
    old = before.manifest["version"]
    assert arrow_diff.diff_table(want, scanned(work.uri, "--version", old, columns=want.column_names)) is None
    assert arrow_diff.diff_table(want, work.theirs(case.maker, version=old)) is None
    assert [row["version"] for row in lines("versions", work.uri)][-2:] == [old, old + 1]
    work.go_on(OTHER)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("branch", BRANCHES)
@only("branches")
def test_write_on_a_branch(tables, case, tmp_path, branch, mode):
    """On the table in its place: a branch names its root by an absolute path."""
    work = tables(Case(case.maker, case.feature, case.stable, "2.1"))
    copy = tmp_path / "kept.lance"
    shutil.copytree(work.uri, copy)
    try:
        on = Work.__new__(Work)
        on.made, on.folder, on.uri, on.valid = work, tmp_path, work.uri, {}
        want, main = work.expected(work.newest(branch)), work.expected(work.newest())
        rows = input_rows(case, want) if mode == "append" else OTHER
        inside = f"{work.uri}/tree/{branch}"
        before = manifest(inside)
        pennon.write(work.uri, save(rows, tmp_path / "rows.arrow"), mode=mode, branch=branch)
        check_carried(before, manifest(inside), mode == "overwrite")
        got = on.agree(branch)
        assert arrow_diff.diff_table(rows, got.slice(got.num_rows - rows.num_rows).select(rows.column_names)) is None
        assert mode == "overwrite" or arrow_diff.diff_table(want, got.slice(0, want.num_rows)) is None
        check_stamps(case, before, got, rows.num_rows)
        assert arrow_diff.diff_table(main, scanned(work.uri, columns=main.column_names)) is None
        on.go_on(rows, branch)
    finally:
        shutil.rmtree(work.uri)
        shutil.move(copy, work.uri)


@pytest.mark.parametrize("case", [Case(maker, "indices", stable) for maker in oracle.NAMES for stable in (False, True)], ids=str)
def test_indices_are_used_after_an_append(tables, case, tmp_path):
    """Official finds old rows through the indices that Pennon carried, and new rows beside them; then it brings them up to date."""
    work = Work(tables(case), tmp_path)
    asked = work.made.oracles.get(case.maker)
    rows = tables(case).expected(tables(case).newest())
    more = rows.select(data_names(rows)).slice(0, 5)
    more = more.set_column(0, "a", pa.array(range(9000, 9005), pa.int64()))
    pennon.write(work.uri, save(more, tmp_path / "rows.arrow"), mode="append")
    for filter_, count in (("a = 17", 1), ("a = 9003", 1), ("a >= 2990", 15), ("low = 2", 600 + more.column("low").to_pylist().count(2)),
                           ("array_has_any(tags, ['t1'])", 1000 + sum("t1" in tags for tags in more.column("tags").to_pylist()))):
        assert asked.scan(uri=work.uri, out=str(tmp_path / "found"), filter=filter_) == count, filter_
    names = asked.optimize_indices(uri=work.uri)
    assert names == tables(case).more["indices"] or sorted(names) == sorted(tables(case).more["indices"])
    if (case.maker, case.stable) != ("v8", True):  # 8.0.0 loses rows to its own zone maps then, whoever wrote them
        assert asked.scan(uri=work.uri, out=str(tmp_path / "found"), filter="a = 9003") == 1
    work.agree()


def shuffle_fragments(uri):
    """The newest manifest with its fragments in the opposite order, as old writers left them."""
    made = manifest(uri)
    parts = [(tag, made.raw[start:end]) for tag, _, _, start, end in lance_bytes.wire(made.raw)]
    turned = iter([part for tag, part in parts if tag == 2][::-1])
    message = b"".join(next(turned) if tag == 2 else part for tag, part in parts)
    assert len(message) == len(made.raw) and message != made.raw
    with open(made.path, "r+b") as file:
        file.seek(made.position + 4)
        file.write(message)


@only("deletes_array", "updates", "indices")
def test_append_to_fragments_out_of_order(tables, case, tmp_path):
    """Rows are read in the order of the manifest; the next version has the fragments by id."""
    work = Work(tables(case), tmp_path)
    want = tables(case).expected(tables(case).newest())
    shuffle_fragments(work.uri)
    work.valid = dict.fromkeys(work.valid, False)
    got = work.agree()
    assert got.num_rows == want.num_rows and not got.equals(want)
    assert arrow_diff.diff_table(want.drop_columns(["_rowoffset"]), got.drop_columns(["_rowoffset"]).sort_by("_rowaddr")) is None
    assert "not in the order of their ids" in pennon.findings(work.uri)
    ids = got.column("_rowaddr").to_pylist()[::17]
    found = pennon.take(work.uri, addresses=ids)
    assert arrow_diff.diff_table(got.select(found.column_names).take(list(range(0, got.num_rows, 17))), found) is None
    pennon.write(work.uri, save(input_rows(case, want), tmp_path / "rows.arrow"), mode="append")
    work.valid = {name: True for name in work.valid}
    assert arrow_diff.diff_table(want, work.agree().slice(0, want.num_rows)) is None
    work.go_on(input_rows(case, want))


@pytest.mark.parametrize("case", [case for case in CASES if case.feature in ("missing", "evolution", "keys") and not case.storage], ids=str)
def test_append_of_some_columns(tables, case, tmp_path):
    """Columns that are left out are null, in any order of the rest; columns that may not be null may not be left out."""
    work = Work(tables(case), tmp_path)
    want = tables(case).expected(tables(case).newest())
    names = [name for name in reversed(data_names(want)) if want.schema.field(name).nullable][:2]
    rows = want.select(names).slice(0, 4)
    if case.feature == "keys":
        with pytest.raises(pennon.Failed, match="id"):
            pennon.write(work.uri, save(rows, tmp_path / "rows.arrow"), mode="append")
        return
    pennon.write(work.uri, save(rows, tmp_path / "rows.arrow"), mode="append")
    got = work.agree().slice(want.num_rows)
    assert arrow_diff.diff_table(rows, got.select(names)) is None
    for name in data_names(want):
        assert name in names or got.column(name).null_count == 4
    work.go_on(want.select(data_names(want)).slice(0, 3))
