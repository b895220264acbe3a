# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Tables of old releases (tests/interop/history, made by tools/make_history.py): Pennon reads every version as the newest official does."""
import json
import shutil
import tarfile
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

import arrow_diff
import oracle
import pennon

HERE = Path(__file__).resolve().parent / "history"
MADE_AT = b"/tmp/pennon-history-00000000"  # where the tables were made; manifests of branches and clones hold it

# What neither of the two official releases reads: (release, table) -> what Pennon's refusal says, None where Pennon reads it.
PACKED, PLAIN = "encoding of packed rows", "hold bytes"
ODD = {
    **{(release, "columns"): None for release in ("0.4.21", "0.5.9", "0.6.5", "0.7.5")},
    ("0.10.5", "columns"): "no column for the field",
    **{(release, "blobs"): PLAIN for release in ("0.7.5", "0.8.0", "0.8.14", "0.10.5", "0.12.3", "0.15.0", "0.16.0", "0.16.1", "0.17.0")},
    ("0.18.2", "blobs"): PACKED,
    # 2.1 was a name for the layouts of 2.0 then.
    **{(release, "storage-2.1"): "ArrayEncoding" for release in ("0.16.0", "0.16.1", "0.17.0", "0.18.2")},
}


def _load():
    """release -> answers.json of its archive."""
    found = {}
    for path in sorted(HERE.glob("*.tar.xz"), key=lambda p: [int(n) for n in p.name.split(".")[:3]]):
        with tarfile.open(path) as archive:
            answers = json.load(archive.extractfile("expected/answers.json"))
        found[answers["release"]] = answers
    return found


ANSWERS = _load()


def _number(release):
    return [int(part) for part in release.split(".")]


def is_legacy(release, table):
    """Are its data files of 0.1?"""
    return table == "storage-legacy" or (_number(release) <= [0, 17, 0] and table not in ("storage-2.0", "storage-2.1"))


TABLES = [(release, table) for release, answers in ANSWERS.items() for table in answers["tables"]]


def each(tables):
    return pytest.mark.parametrize("release,table", tables, ids=[f"{r}-{t}" for r, t in tables])


class Place:
    """An unpacked archive."""

    def __init__(self, release):
        # Eight random characters: the same length as where the tables were made, so that the bytes of manifests can be changed in place.
        self.root = Path(tempfile.mkdtemp(prefix="pennon-history-", dir="/tmp"))
        self.release = release
        assert len(bytes(self.root)) == len(MADE_AT)
        with tarfile.open(HERE / f"{release}.tar.xz") as archive:
            for member in archive:
                if member.isfile():
                    folder, _, name = member.name.partition("/")
                    path = self.root / (name if folder == "tables" else member.name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.extractfile(member).read().replace(MADE_AT, bytes(self.root)))

    def uri(self, table):
        return str(self.root / table)

    def expected(self, table, label):
        made = pennon.table((self.root / "expected" / table / (label.replace("/", "%2F") + ".arrow")).read_bytes())
        return blobs_with_nulls(made)


@pytest.fixture(scope="module")
def places():
    made = {}

    def get(release):
        if release not in made:
            made[release] = Place(release)
        return made[release]

    yield get
    for place in made.values():
        shutil.rmtree(place.root)


def blobs_with_nulls(rows):
    """Null blobs of 2.0 are descriptors of position 1 and size 0 to official."""
    place = rows.schema.get_field_index("b")
    if place < 0 or not pa.types.is_struct(rows.schema.field(place).type):
        return rows
    values = [None if v == {"position": 1, "size": 0} else v for v in rows.column(place).to_pylist()]
    return rows.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type))


def where(label):
    """The options that open a version."""
    branch, _, version = label.rpartition("@")
    return {"branch": branch or None, "version": int(version)}


def labels(release, table):
    """(label, answer) of the versions that one of the two official releases reads, the newest first."""
    found = []
    for label, answer in ANSWERS[release]["tables"][table].items():
        for one in (answer["new"], answer["v8"]):
            if "rows" in one:
                found.append((label, one))
                break
    return found


def last(release, table):
    return max(labels(release, table), key=lambda pair: (("@" not in pair[0]), int(pair[0].rpartition("@")[2])), default=None)


def scan(place, table, label, answer, **options):
    ids = "ids" not in answer
    return pennon.scan(place.uri(table), with_row_id=ids, with_row_address=ids, **where(label), **options)


@each(TABLES)
def test_every_version(places, release, table):
    place, wrong = places(release), []
    for label, answer in labels(release, table):
        try:
            found = arrow_diff.diff_table(place.expected(table, label), scan(place, table, label, answer))
        except pennon.Failed as error:
            found = str(error).partition("\n")[0]
        if found:
            wrong.append(f"{label}: {found}")
    assert not wrong, "\n".join(wrong)


@each(list(ODD))
def test_what_official_does_not_read(places, release, table):
    """The versions that both refuse: Pennon says why, or reads them."""
    place, read = places(release), {label for label, _ in labels(release, table)}
    asked = [label for label in ANSWERS[release]["tables"][table] if label and label not in read]
    assert asked
    for label in asked:
        if ODD[release, table] is None:
            pennon.scan(place.uri(table), **where(label))
            continue
        with pytest.raises(pennon.Failed, match=ODD[release, table]) as caught:
            pennon.scan(place.uri(table), **where(label))
        assert caught.value.code in (1, 4) and not caught.value.crashed


def test_everything_odd_is_listed():
    """A version that neither release reads stands in ODD, and nothing else does."""
    found = {(release, table) for release, table in TABLES
             if {label for label, _ in labels(release, table)} != {label for label in ANSWERS[release]["tables"][table] if label}}
    assert found == set(ODD)


@each([pair for pair in TABLES if last(*pair)])
def test_takes_and_counts(places, release, table):
    place, uri = places(release), places(release).uri(table)
    label, answer = last(release, table)
    want, options = place.expected(table, label), where(label)
    at = [flag for name, value in options.items() if value is not None for flag in ("--" + name, str(value))]
    assert int(pennon.run("count", uri, *at)) == want.num_rows
    assert pennon.scan(uri, columns=["_rowoffset"], **options).column(0).to_pylist() == list(range(want.num_rows))
    rows = sorted({0, want.num_rows // 2, want.num_rows - 1} & set(range(want.num_rows)), reverse=True)
    rows += rows[:1]
    data = [name for name in want.column_names if name not in ("_rowid", "_rowaddr")]
    taken = pennon.table(pennon.run("take", uri, "--format", "arrow", *at, "--rows", ",".join(map(str, rows)))) if rows else None
    assert taken is None or arrow_diff.diff_table(want.select(data).take(rows), taken) is None
    if "ids" in answer or not rows:
        return
    for flag, column in (("--row-ids", "_rowid"), ("--addresses", "_rowaddr")):
        values = want.column(column).to_pylist()
        firsts = [values.index(values[row]) for row in rows]  # of doubled fragment ids the first one is found
        asked = ",".join(str(values[row]) for row in rows)
        got = pennon.table(pennon.run("take", uri, "--format", "arrow", "--with-row-id", "--with-row-address", *at, flag, asked))
        found = arrow_diff.diff_table(want.take(firsts), got)
        assert found is None, f"{flag} {asked}: {found}"


def is_found(release, table, label):
    """What verify names in tables that can be read all the same; official's own check refuses them too."""
    if table == "twice" and release not in ("0.7.5", "0.8.0"):  # those two numbered the fragments themselves
        return "two fragments have the same id"
    if table == "falling" and release == "0.8.14":
        return "not in the order of their ids"
    if table == "stable" and _number(release) <= [0, 31, 1] and int(label) >= 4:
        return "deleted rows where the manifest says" if int(label) < 7 else "row ids: 10 of them for 12 rows"
    return None


@each(TABLES)
def test_verify(places, release, table):
    place, wrong = places(release), []
    newest = last(release, table)
    for label, _ in labels(release, table):
        if label != newest[0] and not is_found(release, table, label):
            continue
        at = [flag for name, value in where(label).items() if value is not None for flag in ("--" + name, str(value))]
        text, named = pennon.findings(place.uri(table), *at), is_found(release, table, label)
        if (named not in text) if named else text:
            wrong.append(f"{label}: {text}")
    assert not wrong, "\n".join(wrong)


def save(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


def some_rows(want):
    """Two rows that fit the table: its first ones, or made of nothing but nulls and zeros."""
    data = want.select([name for name in want.column_names if name not in ("_rowid", "_rowaddr")])
    place = data.schema.get_field_index("b")
    if place >= 0 and pa.types.is_struct(data.schema.field(place).type):  # a blob column gives descriptors and takes bytes
        field = pa.field("b", pa.large_binary(), metadata=data.schema.field(place).metadata)
        data = data.set_column(place, field, pa.array([b"bytes"] * data.num_rows, pa.large_binary()))
    return data.slice(0, 2)


@each([pair for pair in TABLES if last(*pair) and not is_legacy(*pair)])
def test_append(places, oracles, tmp_path, release, table):
    """Rows of Pennon on top of the newest version, which both releases then read; what they had is as it was."""
    label, answer = newest_of_main(release, table)
    want, uri = places(release).expected(table, label), str(tmp_path / "t.lance")
    shutil.copytree(places(release).uri(table), uri)
    rows = some_rows(want)
    source = save(rows, tmp_path / "rows.arrow")
    if is_found(release, table, label) == "two fragments have the same id":
        with pytest.raises(pennon.Failed, match="two fragments have the same id"):
            pennon.write(uri, source, mode="append")
        return
    pennon.write(uri, source, mode="append")
    got = pennon.scan(uri, with_row_id="ids" not in answer, with_row_address=True)
    assert got.num_rows == want.num_rows + rows.num_rows
    assert arrow_diff.diff_table(want, got.slice(0, want.num_rows).select(want.column_names)) is None
    for name in oracle.NAMES:
        if "rows" not in (ANSWERS[release]["tables"][table][label][name] if name == "new" else answer):
            continue
        asked = oracles.get(name)
        asked.scan(uri=uri, out=str(tmp_path / name), with_row_id="ids" not in answer, with_row_address=True)
        theirs = blobs_with_nulls(pennon.table((tmp_path / name).read_bytes()))
        assert arrow_diff.diff_table(theirs, got) is None, name
        if not is_found(release, table, label):
            asked.validate(uri=uri)


def newest_of_main(release, table):
    return max(((label, answer) for label, answer in labels(release, table) if "@" not in label), key=lambda pair: int(pair[0]))


def has_row_ids(release, table):
    """Row ids that mean something, and that are not told to be wrong."""
    label, answer = newest_of_main(release, table)
    return "ids" not in answer and not is_found(release, table, label)


@each([pair for pair in TABLES if last(*pair) and not is_legacy(*pair) and has_row_ids(*pair)])
def test_delete(places, oracles, tmp_path, release, table):
    """Every third row id of the newest version goes, and nothing else; both releases see it so."""
    label, answer = newest_of_main(release, table)
    want, uri = places(release).expected(table, label), str(tmp_path / "t.lance")
    shutil.copytree(places(release).uri(table), uri)
    stay = [row for row, name in enumerate(want.column("_rowid").to_pylist()) if name % 3 != 1]
    assert pennon.as_json("delete", uri, "--where", "_rowid % 3 = 1")["rows_deleted"] == want.num_rows - len(stay)
    want = want.take(pa.array(stay, pa.int64()))
    got = pennon.scan(uri, with_row_id=True, with_row_address=True)
    assert arrow_diff.diff_table(want, got) is None
    assert not pennon.findings(uri, "--version", pennon.as_json("info", uri)["version"])
    for name in oracle.NAMES:
        if "rows" in (ANSWERS[release]["tables"][table][label][name] if name == "new" else answer):
            oracles.get(name).scan(uri=uri, out=str(tmp_path / name), with_row_id=True, with_row_address=True)
            assert arrow_diff.diff_table(blobs_with_nulls(pennon.table((tmp_path / name).read_bytes())), got) is None, name


@pytest.mark.parametrize("name", oracle.NAMES)
@pytest.mark.parametrize("release", ANSWERS)
def test_official_reads_the_same_today(places, oracles, tmp_path, release, name):
    """The first and the last version of every table, by both releases: what was recorded is still so."""
    place, asked = places(release), oracles.get(name)
    for table, answers in ANSWERS[release]["tables"].items():
        if "" in answers:
            continue  # the newest release refuses to open the table at all
        out = tmp_path / table
        out.mkdir()
        for label, answer in asked.history(uri=place.uri(table), out=str(out), ends=True).items():
            recorded = answers[label]["new"] if answers[label]["v8"] == "same" else answers[label][name]
            assert ("refused" in answer) == ("refused" in recorded), (table, label, answer)
            if "refused" in answer:
                continue
            rows = pennon.table((out / (label.replace("/", "%2F") + ".arrow")).read_bytes())
            found = arrow_diff.diff_table(place.expected(table, label), blobs_with_nulls(rows))
            assert found is None, (table, label, found)


@each([(r, "versions") for r, answers in ANSWERS.items() if "tag" in answers["made"].get("versions", [])])
def test_tags(places, release, table):
    place = places(release)
    tags = {"second": 2, "last.one": max(int(label) for label in ANSWERS[release]["tables"][table])}
    for tag, version in tags.items():
        assert arrow_diff.diff_table(place.expected(table, str(version)),
                                     pennon.scan(place.uri(table), tag=tag, with_row_id=True, with_row_address=True)) is None
