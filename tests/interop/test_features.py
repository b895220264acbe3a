# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Tables with a history, made by both official releases (feature_tables.py): Pennon reads every version of them as official does, and says the
same of them."""
import datetime
import shutil

import pytest

import arrow_diff
import pennon
from features import SYSTEM, at, data_names, every, lines, only, scanned, taken


# ---- reading ----

@every
def test_rows_and_system_columns(tables, case):
    made, wrong = tables(case), []
    for name, answers in made.said.items():
        for label, answer in answers.items():
            assert "refused" not in answer, (name, label, answer)
            want = made.expected(label, name)
            found = arrow_diff.diff_table(want, scanned(made.uri, *at(label), columns=want.column_names))
            if found:
                wrong.append(f"{name} {label}: {found}")
    assert not wrong, "\n".join(wrong)


@every
def test_all_columns_by_default(tables, case):
    made = tables(case)
    want = made.expected(made.newest())
    names = data_names(want) + SYSTEM[:2]
    assert arrow_diff.diff_table(want.select(names), scanned(made.uri, "--with-row-id", "--with-row-address")) is None


@every
def test_projection_limit_and_batches(tables, case):
    made = tables(case)
    want = made.expected(made.newest())
    names = ["_rowaddr", *reversed(data_names(want)), "_rowoffset"]
    rows = want.num_rows
    for offset, limit in ((0, 1), (rows // 3, rows // 2), (max(rows - 3, 0), 10), (rows + 1, 5)):
        got = scanned(made.uri, "--offset", offset, "--limit", limit, "--batch-size", 7, columns=names)
        assert arrow_diff.diff_table(want.select(names).slice(offset, limit), got) is None, (offset, limit)
    assert scanned(made.uri, columns=["_rowid"]).num_rows == rows


@every
def test_takes(tables, case):
    made, wrong = tables(case), []
    for label in list(made.answers)[::3] + [made.newest()]:
        want = made.expected(label)
        n = want.num_rows
        rows = sorted({0, n // 3, n // 2, n - 2, n - 1} & set(range(n)), reverse=True)
        rows = rows + rows[:2]
        for flag, column in (("--rows", None), ("--row-ids", "_rowid"), ("--addresses", "_rowaddr")):
            values = want.column(column).to_pylist() if column else list(range(n))
            if rows:
                asked = ",".join(str(values[row]) for row in rows)
                found = arrow_diff.diff_table(want.take(rows), taken(made.uri, *at(label), flag, asked, columns=want.column_names))
                if found:
                    wrong.append(f"{label} {flag}: {found}")
    assert not wrong, "\n".join(wrong)


@every
def test_takes_of_what_is_not_there(tables, case, tmp_path):
    """Deleted and unknown ids drop out, as official drops them; an offset past the end is an error."""
    made = tables(case)
    label = made.newest()
    want = made.expected(label)
    alive = set(want.column("_rowid").to_pylist())
    first = sorted({v for other in made.answers if "@" not in other for v in made.expected(other).column("_rowid").to_pylist()})
    # Without stable ids an id is an address, and official fails on one that is outside of every fragment.
    there = {fragment["fragment"]: fragment["physical_rows"] for fragment in made.answers[label]["facts"]["fragments"]}
    gone = [v for v in first if v not in alive and (case.stable or v & 0xffffffff < there.get(v >> 32, 0))]
    ids = gone[:5] + sorted(alive)[:2] + [1 << 60] * case.stable
    names = data_names(want)
    made.oracles.get(case.maker).take_rows(uri=made.uri, ids=ids, out=str(tmp_path / "theirs"), columns=names)
    theirs = pennon.table((tmp_path / "theirs").read_bytes())
    assert arrow_diff.diff_table(theirs, taken(made.uri, "--row-ids", ",".join(map(str, ids)), columns=names)) is None
    assert taken(made.uri, "--addresses", str((1 << 60) + 5), columns=names).num_rows == 0
    with pytest.raises(pennon.Failed, match="past the end"):
        taken(made.uri, "--rows", str(want.num_rows), columns=names)


def shape(fields):
    return [{"name": f["name"], "id": f["id"], "nullable": f["nullable"], "fields": shape(f["fields"])} for f in fields]


@every
def test_facts(tables, case):
    """count, schema, info, fragments and versions, in both forms."""
    made = tables(case)
    for label, answer in made.answers.items():
        facts = answer["facts"]
        assert int(pennon.run("count", made.uri, *at(label))) == facts["count"]
        assert pennon.as_json("count", made.uri, *at(label)) == {"rows": facts["count"]}
        assert shape(pennon.as_json("schema", made.uri, *at(label))) == facts["fields"]
        info = pennon.as_json("info", made.uri, *at(label))
        for key in ("schema_metadata", "storage_version", "stable_row_ids", "config", "table_metadata"):
            assert info[key] == facts[key], (label, key)
        assert sorted({index["name"] for index in info["indices"]}) == facts["indices"], label
        assert (info["rows"], info["version"]) == (facts["count"], int(label.rpartition("@")[2]))
        fragments = lines("fragments", made.uri, *at(label))
        assert [{key: row[key] for key in facts["fragments"][0]} for row in fragments] == facts["fragments"] if fragments else not facts["fragments"]
        for word in ("schema", "info", "fragments") if label == made.newest() else ():
            assert pennon.run(word, made.uri, *at(label)) or not facts["fragments"]


@every
def test_versions_listing(tables, case):
    made = tables(case)
    for branch in {label.rpartition("@")[0] for label in made.answers}:
        options = ["--branch", branch] if branch else []
        want = {int(label.rpartition("@")[2]): answer for label, answer in made.answers.items() if label.rpartition("@")[0] == branch}
        rows = lines("versions", made.uri, *options)
        assert [row["version"] for row in rows] == sorted(want)
        for row in rows:
            answer = want[row["version"]]
            assert (row["rows"], row["fragments"]) == (answer["facts"]["count"], len(answer["facts"]["fragments"]))
            time = datetime.datetime.fromisoformat(row["timestamp"][:26].rstrip("Z")).replace(tzinfo=datetime.timezone.utc)
            apart = time.astimezone().replace(tzinfo=None) - datetime.datetime.fromisoformat(answer["time"])
            assert abs(apart) <= datetime.timedelta(microseconds=1), row  # official rounds to microseconds by way of a double
        assert len(pennon.run("versions", made.uri, *options).splitlines()) >= len(rows)


@every
def test_verify(tables, case):
    made = tables(case)
    found = [f"{label}: {text}" for label in made.answers for text in [pennon.findings(made.uri, *at(label))] if text]
    found += [text for text in [pennon.findings(made.uri)] if text]
    assert not found, "\n".join(found)


@every
def test_json_lines(tables, case):
    made = tables(case)
    want = made.expected(made.newest())
    first = data_names(want)[0]
    rows = lines("scan", made.uri, "--columns", first + ",_rowid")
    assert rows == want.select([first, "_rowid"]).to_pylist()


# ---- tags, branches, times, versions outside the chain ----

@only("tags")
def test_tags(tables, case):
    made = tables(case)
    for tag, count in made.more.items():
        assert pennon.scan(made.uri, tag=tag).num_rows == count
        assert int(pennon.run("count", made.uri, "--tag", tag)) == count
        assert len(lines("fragments", made.uri, "--tag", tag)) == len(made.answers[str(pennon.as_json("info", made.uri, "--tag", tag)["version"])]["facts"]["fragments"])
    with pytest.raises(pennon.Failed, match="nope"):
        pennon.scan(made.uri, tag="nope")


@only("branches")
def test_branches(tables, case):
    made = tables(case)
    for branch, count in made.more.items():
        want = made.expected(made.newest(branch))
        assert want.num_rows == count == int(pennon.run("count", made.uri, "--branch", branch))
        assert arrow_diff.diff_table(want, scanned(made.uri, "--branch", branch, columns=want.column_names)) is None
        inside = f"{made.uri}/tree/{branch}"
        assert arrow_diff.diff_table(want, scanned(inside, columns=want.column_names)) is None
        assert pennon.as_json("info", inside)["branch"] == branch


@only("branches")
def test_branches_of_a_moved_table(tables, case, tmp_path):
    """The manifests of branches hold the place where the table was made. Official no longer finds them."""
    made, there = tables(case), tmp_path / "moved.lance"
    shutil.copytree(made.uri, there)
    hidden = made.folder / "hidden"
    shutil.move(made.uri, hidden)
    try:
        for branch in made.more:
            want = made.expected(made.newest(branch))
            assert arrow_diff.diff_table(want, scanned(there, "--branch", branch, columns=want.column_names)) is None
    finally:
        shutil.move(hidden, made.uri)


@only("as_of", "versions")
def test_as_of(tables, case):
    """Official's and ours: the newest version at or before the time."""
    made = tables(case)
    if "time" in made.more:
        assert pennon.scan(made.uri, as_of=made.more["time"]).num_rows == 1000
        assert made.oracles.get(case.maker).scan(uri=made.uri, out=str(made.folder / "as-of"), as_of=made.more["time"]) == 1000
    rows = lines("versions", made.uri)
    for row, later in zip(rows, [*rows[1:], None]):
        stamp = datetime.datetime.fromisoformat(row["timestamp"][:26]) + datetime.timedelta(microseconds=1)
        asked = stamp.isoformat() + "Z"
        assert later is None or asked < later["timestamp"], "two versions within a microsecond"
        assert pennon.as_json("info", made.uri, "--as-of", asked)["version"] == row["version"]
    with pytest.raises(pennon.Failed) as caught:
        pennon.scan(made.uri, as_of="2001-01-01")
    assert caught.value.code == 3


@only("detached")
def test_detached(tables, case, tmp_path):
    made = tables(case)
    for version in made.more.values():
        made.oracles.get(case.maker).scan(uri=made.uri, out=str(tmp_path / "theirs"), version=version, with_row_id=True)
        theirs = pennon.table((tmp_path / "theirs").read_bytes())
        assert arrow_diff.diff_table(theirs, pennon.scan(made.uri, version=version, with_row_id=True)) is None
        assert version not in [row["version"] for row in lines("versions", made.uri)]


@only("shallow")
def test_clone_of_a_clone(tables, case, tmp_path):
    made = tables(case)
    again = made.more["again"]
    made.oracles.get(case.maker).scan(uri=again, out=str(tmp_path / "theirs"), with_row_id=True, with_row_address=True)
    theirs = pennon.table((tmp_path / "theirs").read_bytes())
    assert arrow_diff.diff_table(theirs, pennon.scan(again, with_row_id=True, with_row_address=True)) is None
    with pytest.raises(pennon.Failed, match="outside of it"):
        pennon.run("scan", again, "--external-paths", "none")
    assert [base["path"] for base in pennon.as_json("info", again)["base_paths"]]


@only("blobs_v1", "settings", "versions")
def test_blobs_as_bytes(tables, case):
    made = tables(case)
    if case.feature == "blobs_v1":
        got = scanned(made.uri, "--blobs", "bytes", columns=["b"]).column("b").to_pylist()
        assert [None if v is None else v.hex() for v in got] == made.more["values"]
    else:  # tables without blobs do not care
        assert scanned(made.uri, "--blobs", "bytes").equals(scanned(made.uri))


@pytest.mark.parametrize("feature,stable,text", [("spilled", True, "2048"), ("unstable_file", False, "PlanarLayout")])
def test_refused_by_name(tmp_path, oracles, feature, stable, text):
    uri = str(tmp_path / "t.lance")
    oracles.get("new").feature(name=feature, uri=uri, stable=stable)
    with pytest.raises(pennon.Failed) as caught:
        pennon.scan(uri)
    assert caught.value.code == 1 and text in caught.value.stderr, caught.value.stderr
