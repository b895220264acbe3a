# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The same changes of columns by Pennon and by official on copies of one table: rows, schemas, field ids, files, row ids, versions and lineage are equal
after every step; each side reads, checks and goes on with what the other one made."""
import json
import shutil

import pyarrow as pa
import pytest

import oracle
import pennon
from test_mutations import STORAGE, _plain


@pytest.fixture(scope="module", params=[(s, stable) for s in STORAGE for stable in (False, True)],
                ids=lambda p: p[0] + ("-stable" if p[1] else ""))
def base(request, tmp_path_factory, oracles):
    storage, stable = request.param
    uri = tmp_path_factory.mktemp("evolution") / "base.lance"
    oracles.get("v8").call("evolution_ops.make", uri=str(uri), storage=storage, stable=stable)
    return uri, storage, stable


class Pair:
    """Two copies of a table: one is Pennon's, one is official's. A step is done by each of them to its own."""

    def __init__(self, uri, folder, storage, stable, official):
        self.ours, self.theirs, self.storage, self.stable, self.folder = str(folder / "ours.lance"), str(folder / "theirs.lance"), storage, stable, folder
        self.call = lambda function, **args: official.call("evolution_ops." + function, **args)
        shutil.copytree(uri, self.ours)
        shutil.copytree(uri, self.theirs)

    def turn(self):
        self.ours, self.theirs = self.theirs, self.ours

    def add_sql(self, columns):
        pennon.run("add-column", self.ours, *[f"{name}={sql}" for name, sql in columns.items()])
        self.call("add_sql", uri=self.theirs, columns=columns)

    def add_nulls(self, fields):
        pennon.run("add-column", self.ours, *[part for name, kind, _ in fields for part in ("--nulls", f"{name} {_type_text(kind)}")])
        self.call("add_nulls", uri=self.theirs, fields=fields)

    def add_table(self, fields, values):
        pennon.run("add-column", self.ours, "--values", self._file(fields, values))
        self.call("add_table", uri=self.theirs, fields=fields, values=values)

    def drop(self, *names):
        pennon.run("drop-column", self.ours, *names)
        self.call("drop", uri=self.theirs, names=list(names))

    def alter(self, path, **change):
        """name, nullable, data_type."""
        args = ["--rename", change["name"]] if "name" in change else []
        args += ["--type", _type_text(change["data_type"])] if "data_type" in change else []
        args += ["--nullable", str(change["nullable"]).lower()] if "nullable" in change else []
        pennon.run("alter-column", self.ours, path, *args)
        self.call("alter", uri=self.theirs, changes=[{"path": path, **change}])

    def merge(self, fields, values, left_on, right_on=None):
        args = ["--right-on", right_on] if right_on else []
        pennon.run("join-columns", self.ours, self._file(fields, values), "--on", left_on, *args)
        self.call("merge", uri=self.theirs, fields=fields, values=values, left_on=left_on, right_on=right_on)

    def _file(self, fields, values):
        table = pa.table(values, schema=pa.schema([pa.field(name, _type(kind), nullable) for name, kind, nullable in fields]))
        path = self.folder / "columns.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
        return str(path)


def _type(kind):
    """As evolution_ops has it, which this process must not import."""
    if isinstance(kind, str):
        return getattr(pa, kind)()
    head, *rest = kind
    if head == "struct":
        return pa.struct([(name, _type(inner)) for name, inner in rest])
    if head in ("list", "large_list"):
        return {"list": pa.list_, "large_list": pa.large_list}[head](_type(rest[0]))
    return pa.list_(_type(rest[0]), rest[1]) if head == "fsl" else getattr(pa, head)(*rest)


def _type_text(kind):
    return str(_type(kind))


@pytest.fixture
def pair(base, tmp_path, oracles):
    uri, storage, stable = base
    return Pair(uri, tmp_path, storage, stable, oracles.get("v8"))


def same(pair):
    """Official sees the same in both, and Pennon reads from either what official reads."""
    ours, theirs = (pair.call("state", uri=uri, stable=pair.stable) for uri in (pair.ours, pair.theirs))
    assert ours == theirs
    for uri in (pair.ours, pair.theirs):
        assert not pennon.findings(uri)
        names = list(ours["rows"][0])
        assert _plain(pennon.scan(uri, columns=names).to_pylist()) == [{n: row[n] for n in names} for row in ours["rows"]]


def newest_too(pair, oracles):
    """The newest release reads the same of both."""
    ours, theirs = (oracles.get("new").call("evolution_ops.state", uri=uri, stable=pair.stable) for uri in (pair.ours, pair.theirs))
    assert ours == theirs and ours["rows"] == pair.call("state", uri=pair.ours, stable=pair.stable)["rows"]


ADDED = [
    {"c": "a + 1"}, {"c": "id + 1", "d": "id > 3", "e": "'x'", "g": "1.5"}, {"c": "st.x + 1", "d": "concat(s, '!')"}, {"c": "l", "d": "v", "e": "st"},
    {"c": "CAST(NULL AS int)"}, {"c": "CAST(NULL AS string)", "d": "cast(null as double)"}, {"c": "CAST(NULL AS int)", "d": "id"}, {"A": "a"},
    {"c": "a IS NULL", "d": "NOT b", "e": "id IN (1, 2)", "g": "a IN (1, 2)"},
    {"c": "s LIKE 't1%'", "d": "id BETWEEN 1 AND 5", "e": "CAST(id AS string)", "g": "coalesce(a, 0)"}, {"c": "NULL"}, {"ein Name": "id * 2", "größe": "f / 2"},
    {"c": "-id", "d": "id % 3", "e": "CAST(f AS int)", "g": "upper(s)", "h": "abs(id)"}, {"c": "array_length(l)", "d": "id = id", "e": "a = id AND b"},
]


@pytest.mark.parametrize("columns", ADDED, ids=str)
def test_expressions(pair, columns):
    pair.add_sql(columns)
    same(pair)


def test_nulls(pair):
    pair.add_nulls([["n", "int32", True], ["m", ["list", ["struct", ["x", "string"], ["y", ["fsl", "float32", 4]]]], True]])
    same(pair)
    pair.add_nulls([["d", ["decimal128", 10, 2], True], ["t", ["timestamp", "us", "UTC"], True], ["k", "null", True]])
    same(pair)


def test_streams(pair):
    n = 27
    pair.add_table([["k", "int64", False], ["t", "string", True]], {"k": list(range(n)), "t": [None if i % 4 == 1 else f"v{i}" for i in range(n)]})
    same(pair)
    pair.add_table([["v2", ["fsl", "float32", 3], True], ["l2", ["list", "string"], True]],
                   {"v2": [[i, 1, 2] for i in range(n)], "l2": [None if i % 5 == 2 else ["a"] * (i % 3) for i in range(n)]})
    same(pair)
    for wrong in (n - 1, n + 1):
        with pytest.raises(pennon.Failed, match="Stream ended before|more values than expected"):
            pair.add_table([["w", "int8", True]], {"w": [1] * wrong})
        with pytest.raises(oracle.Refused, match="Stream ended before|more values than expected"):
            pair.call("add_table", uri=pair.theirs, fields=[["w", "int8", True]], values={"w": [1] * wrong})
    same(pair)


def test_parts_of_structs(pair):
    fields = [["st", ["struct", ["z", "int32"]], True]]
    if pair.storage != "2.2":
        with pytest.raises(pennon.Failed, match="add sub column is not supported"):
            pair.add_nulls(fields)
        with pytest.raises(oracle.Refused, match="add sub column is not supported"):
            pair.call("add_nulls", uri=pair.theirs, fields=fields)
        return same(pair)
    pair.add_nulls(fields)
    same(pair)
    pair.add_table([["top", "int8", True], ["st", ["struct", ["w", "string"]], True]], {"top": [1] * 27, "st": [{"w": str(i)} for i in range(27)]})
    same(pair)
    pair.drop("st.z")
    same(pair)
    pair.alter("st.w", name="ww")
    same(pair)
    # Official ends with a panic where a part gets another type; it reads what Pennon makes.
    pennon.run("alter-column", pair.ours, "st.x", "--type", "int32")
    assert not pennon.findings(pair.ours)
    state = pair.call("state", uri=pair.ours, stable=pair.stable)
    assert [row["st"]["x"] for row in state["rows"]] == [row["id"] for row in state["rows"]]


def test_drops(pair):
    pair.drop("s")
    same(pair)
    pair.drop("st.x", "v")
    same(pair)
    pair.drop("st.y")
    same(pair)
    pair.drop("l.item")
    same(pair)
    pair.add_sql({"s": "id"})
    same(pair)
    pair.drop("s")
    pair.drop("a", "b", "f")
    same(pair)
    with pytest.raises(pennon.Failed, match="Cannot drop all columns"):
        pair.drop("id")
    with pytest.raises(oracle.Refused, match="Cannot drop all columns"):
        pair.call("drop", uri=pair.theirs, names=["id"])


def test_alterations(pair, oracles):
    pair.alter("a", name="A")
    same(pair)
    pair.alter("st.y", name="y y")
    same(pair)
    pair.alter("id", nullable=True)
    same(pair)
    pair.alter("id", nullable=False)
    same(pair)
    pair.alter("id", data_type="int16", name="key")
    same(pair)
    pair.alter("A", data_type="int64")
    same(pair)
    pair.alter("v", data_type=["list", "float64"])
    same(pair)
    pair.alter("f", data_type="float32")
    same(pair)
    pair.alter("s", data_type="large_string")
    same(pair)
    pair.alter("key", data_type="int64")
    same(pair)
    newest_too(pair, oracles)


REFUSED = [
    ("a", {"nullable": False}, "contains NULL values"), ("a", {"data_type": "int8"}, "Can't cast value"), ("a", {"data_type": "string"}, "Cannot cast column"),
    ("s", {"data_type": "int32"}, "Cannot cast column"), ("f", {"data_type": "int32"}, "Cannot cast column"), ("b", {"data_type": "int8"}, "Cannot cast column"),
    ("a", {"name": "f"}, "Duplicate field name"), ("a", {"name": "x.y"}, ""), ("q", {"name": "r"}, "does not exist"), ("v", {"data_type": ["fsl", "float32", 3]}, ""),
]


@pytest.mark.parametrize("path, change, why", REFUSED, ids=lambda v: str(v))
def test_refused_alterations(pair, path, change, why):
    with pytest.raises(pennon.Failed, match=why):
        pair.alter(path, **change)
    with pytest.raises(oracle.Refused, match=why):
        pair.call("alter", uri=pair.theirs, changes=[{"path": path, **change}])
    same(pair)


def test_joins(pair):
    pair.merge([["id", "int64", True], ["j", "string", True], ["w", ["fsl", "float32", 2], True]],
               {"id": [1, 15, 3, 29, 99], "j": ["a", "b", "c", None, "e"], "w": [[1, 2], [3, 4], None, [5, 6], [7, 8]]}, "id")
    same(pair)
    pair.merge([["key", "string", True], ["j2", "int64", True]], {"key": ["t1", "t7", None], "j2": [1, 2, 3]}, "s", "key")
    same(pair)
    pair.merge([["_rowid", "uint64", True], ["j3", "int8", True]], {"_rowid": [0, 5, 7], "j3": [1, 2, 3]}, "_rowid")
    same(pair)
    pair.merge([["a", "uint64", True], ["j4", "bool_", True]], {"a": [1 << 32, (1 << 32) + 5], "j4": [True, False]}, "_rowaddr", "a")
    same(pair)


def test_indices(pair):
    """What official built stays with a column that is renamed, goes with one that is dropped, and is in the way of another type."""
    for column in ("id", "a"):
        for uri in (pair.ours, pair.theirs):
            pair.call("scalar_index", uri=uri, column=column)
    with pytest.raises(pennon.Failed, match="index"):
        pair.alter("a", data_type="int64")
    with pytest.raises(oracle.Refused, match="index"):
        pair.call("alter", uri=pair.theirs, changes=[{"path": "a", "data_type": "int64"}])
    pair.alter("id", name="key")
    pair.add_sql({"c": "a + 1"})
    pair.drop("a")
    assert pair.call("state", uri=pair.ours, stable=pair.stable)["indices"] == ["id_idx"]
    same(pair)


def test_each_goes_on_with_the_other(pair, oracles):
    """Changes by turns on both tables, with appends, deletes and compactions in between."""
    pair.add_sql({"c": "a + 1"})
    for uri in (pair.ours, pair.theirs):
        pair.call("delete", uri=uri, where="id % 7 = 1")
    pair.turn()
    pair.drop("f")
    pair.add_table([["k", "int32", True]], {"k": list(range(len(pair.call("state", uri=pair.ours, stable=False)["rows"])))})
    same(pair)
    for uri in (pair.ours, pair.theirs):
        pair.call("compact", uri=uri)
    pair.turn()
    pair.alter("k", data_type="int64")
    pair.alter("c", name="C")
    same(pair)
    pair.add_sql({"z": "C * 2"})
    pair.turn()
    pair.drop("z", "st.x")
    same(pair)
    newest_too(pair, oracles)
    for uri in (pair.ours, pair.theirs):
        pair.call("compact", uri=uri)
    same(pair)


def test_the_transactions_are_the_same(pair):
    def transactions():
        made = [json.loads(pennon.run("transaction", uri)) for uri in (pair.ours, pair.theirs)]
        for t in made:
            t.pop("uuid")
            t["operation"].pop("preserves_nullability", None)  # newer releases go by it
            for f in t["operation"].get("fragments", []):
                for part in f["files"]:
                    part.pop("path")
                    part.pop("file_size_bytes")
        return made

    pair.add_sql({"c": "a + 1", "d": "id"})
    ours, theirs = transactions()
    assert ours == theirs
    pair.alter("c", data_type="int64")
    ours, theirs = transactions()
    assert ours == theirs
    pair.drop("d")
    ours, theirs = transactions()
    assert ours == theirs
    pair.add_nulls([["n", "int8", True]])
    ours, theirs = transactions()
    assert ours == theirs


# ---- casts ----

FAMILIES = [
    (["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"], [1, 2, 100, 0, None]),
    (["float16", "float32", "float64"], [1.5, -2.25, None, 1000.0]),
    ([["decimal128", 10, 2], ["decimal128", 20, 4], ["decimal256", 50, 10]], ["1.25", "-3.50", None]),
    (["string", "large_string"], ["a", None, "größe"]),
    (["binary", "large_binary"], ["a", None, "b"]),
    (["date32", "date64", ["timestamp", "s"], ["timestamp", "ms"], ["timestamp", "us"], ["timestamp", "ns"], ["timestamp", "us", "UTC"],
      ["time32", "s"], ["time32", "ms"], ["time64", "us"], ["time64", "ns"], ["duration", "s"], ["duration", "ms"], ["duration", "ns"]], [1, 3600, None, 86000]),
    ([["list", "int32"], ["large_list", "int32"], ["fsl", "int32", 2], ["list", "int64"], ["fsl", "int8", 2]], [[1, 2], None, [3, 4]]),
    (["bool_"], [True, None, False]),
    ([["struct", ["x", "int32"]]], [{"x": 1}, None]),
]
KINDS = [(kind, values) for kinds, values in FAMILIES for kind in kinds]


@pytest.mark.parametrize("number", range(len(KINDS)), ids=[str(kind) for kind, _ in KINDS])
def test_casts(tmp_path, oracles, number):
    """Every type to every other one: allowed or refused as official does, with the same values."""
    kind, values = KINDS[number]
    official = oracles.get("v8")
    source = tmp_path / "source.lance"
    official.call("evolution_ops.make_cast", uri=str(source), kind=kind, values=values, storage="2.1")
    wrong = []
    for to, _ in KINDS:
        ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
        for uri in (ours, theirs):
            shutil.rmtree(uri, ignore_errors=True)
            shutil.copytree(source, uri)
        try:
            official.call("evolution_ops.alter", uri=str(theirs), changes=[{"path": "c", "data_type": to}])
            want = official.call("evolution_ops.cast_state", uri=str(theirs))
        except oracle.Refused:
            want = None
        try:
            pennon.run("alter-column", str(ours), "c", "--type", _type_text(to))
            got = official.call("evolution_ops.cast_state", uri=str(ours))
        except pennon.Failed as failed:
            assert failed.code in (1, 2), failed
            got = None
        if got != want:
            wrong.append((to, got, want))
    assert not wrong
