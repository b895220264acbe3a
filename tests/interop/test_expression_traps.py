# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Filters that have gone wrong in engines before, each by name: the rows that official keeps, or for what official cannot do, those that SQL says."""
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

import expressions
import pennon

# Rows 0 to 7; row 3 is deleted afterwards.
TABLE = pa.table({
    "i": pa.array([1, 2, 3, 4, None, 6, -7, 2147483647], pa.int32()),
    "i8": pa.array([1, 2, None, 4, 5, 127, -128, 0], pa.int8()),
    "u64": pa.array([0, 1, 2, 3, None, 2 ** 64 - 1, 9, 10], pa.uint64()),
    "f": pa.array([0.0, -0.0, float("nan"), 1.5, None, float("inf"), -2.5, 2.0], pa.float64()),
    "f32": pa.array([0.1, 1.1, None, 2.5, 16777217.0, -0.0, 0.0, 3.0], pa.float32()),
    "b": pa.array([True, False, None, True, False, None, True, False]),
    "s": pa.array(["abc", "ABC", None, "a_c", "", "50%", "straße", "a\\c"]),
    "MixedCase": pa.array(range(8), pa.int64()),
    "with space": pa.array(range(0, 80, 10), pa.int64()),
    "d": pa.array([date(2020, 1, 1), date(2021, 6, 1), None, date(1969, 12, 31), date(1970, 1, 1), date(2020, 2, 29), date(1900, 1, 1), date(2100, 1, 1)]),
    "ts_s": pa.array([1577836800, 1577836801, None, -1, 0, 1600000000, 1577836800, 1], pa.int64()).cast(pa.timestamp("s")),
    "ts_ns": pa.array([1577836800 * 10 ** 9 + 1, 1577836800 * 10 ** 9, None, -1, 0, 10 ** 18, 5, 1], pa.int64()).cast(pa.timestamp("ns")),
    "tz": pa.array([1577836800000, 1577833200000, None, -1, 0, 10 ** 12, 5, 1], pa.int64()).cast(pa.timestamp("ms", "Europe/Paris")),
    "dec": pa.array([Decimal("1.50"), Decimal("-1.50"), None, Decimal("0.00"), Decimal("2.00"), Decimal("99999999.99"), Decimal("1.49"), Decimal("1.51")],
                    pa.decimal128(10, 2)),
    "l": pa.array([[1, 2, 3], [], None, [None], [2], [3, 3], [1], [-1]], pa.list_(pa.int64())),
    "st": pa.array([{"x": 1, "Y": "a"}, {"x": None, "Y": "b"}, None, {"x": 4, "Y": None}, {"x": 5, "Y": "a"}, {"x": 1, "Y": "c"}, {"x": 0, "Y": "a"},
                    {"x": 9, "Y": ""}], pa.struct([("x", pa.int32()), ("Y", pa.string())])),
})

SAME = {
    "not of null": "NOT (i > 2)",
    "or with null": "i > 2 OR b",
    "and with null": "i > 0 AND b",
    "not or with null": "NOT (i > 2 OR b)",
    "not of and of in": "NOT (i IN (1, 2, 3, 6) AND i IN (2, 3, 4, -7))",
    "or of in": "i IN (1, 2) OR i IN (6, 7, 8, 9)",
    "not in with null": "i NOT IN (1, 2, NULL)",
    "in with null": "i IN (1, 2, NULL)",
    "is not true": "b IS NOT TRUE",
    "is true of a comparison": "(i > 2) IS TRUE",
    "is not false of null": "(i > 2) IS NOT FALSE",
    "compare with null": "i = NULL",
    "float literal on int column": "i = 2.0",
    "float literal on int column inside a function": "coalesce(i = 2.0, false)",
    "int literal on float column": "f = 2",
    "int literal that does not fit": "i8 < 300",
    "negative on unsigned": "u64 > -1",
    "largest unsigned": "u64 > 9223372036854775807",
    "text on int column": "i = '2'",
    "text on date column": "d > '2021-01-01'",
    "text on date column under not": "NOT (d > '2021-01-01')",
    "number on bool": "b = 1",
    "float zero": "f = 0.0",
    "float negative zero": "f = -0.0",
    "float below zero": "f < 0",
    "float above all": "f > 1e300",
    "float nan by isnan": "isnan(f)",
    "float32 literal": "f32 = 0.1",
    "float32 of many digits": "f32 = 16777217",
    "float between": "f BETWEEN -0.0 AND 0.0",
    "timestamp seconds, fraction cut": "ts_s = timestamp '2020-01-01 00:00:00.5'",
    "timestamp nanoseconds": "ts_ns > timestamp '2020-01-01 00:00:00'",
    "timestamp of other precision": "ts_ns >= timestamp(3) '2020-01-01 00:00:00.000'",
    "timestamp against number": "ts_s > 1577836800",
    "timestamp with zone": "tz = timestamp '2020-01-01 00:00:00'",
    "date against timestamp": "d >= timestamp '2020-01-01 00:00:00'",
    "timestamp against date": "ts_s >= date '2020-01-01'",
    "date cast": "d = cast('2020-02-29' as date)",
    "dates before 1970": "d < date '1970-01-01'",
    "decimal": "dec = 1.50",
    "decimal typed": "dec = decimal(10,2) '1.50'",
    "decimal with other scale": "dec > decimal(5,1) '1.5'",
    "decimal int": "dec = 2",
    "mixed case, exact": "MixedCase = 3",
    "mixed case, folded": "mixedcase > 3",
    "back ticks": "`with space` >= 40",
    "back ticks are exact": "`mixedcase` > 3",
    "double quotes are texts": '"s" = "abc"',
    "double quoted literal": 's = "abc"',
    "nested": "st.x = 1",
    "nested, mixed case": "st.Y = 'a'",
    "nested, wrong case": "st.y = 'a'",
    "nested by brackets": "st['x'] > 1",
    "nested null": "st.x IS NULL",
    "struct null": "st IS NULL",
    "list element": "l[1] = 1",
    "list element from the end": "l[-1] = 3",
    "list element zero": "l[0] = 1",
    "list has": "array_has(l, 3)",
    "list equals": "l = [1, 2, 3]",
    "list length": "array_length(l) > 1",
    "like": "s LIKE 'a_c'",
    "like escaped": "s LIKE 'a\\_c'",
    "like percent": "s LIKE '50\\%'",
    "like empty": "s LIKE ''",
    "not like and null": "s NOT LIKE 'a%'",
    "ilike": "s ILIKE 'abc'",
    "ilike sharp s": "s ILIKE 'STRASSE'",
    "like backslash": "s LIKE 'a\\\\c'",
    "starts with a wildcard": "starts_with(s, 'a_')",
    "regexp": "regexp_like(s, '^[aA]')",
    "not regexp match and null": "NOT regexp_match(s, 'a')",
    "division": "i / 2 = 1",
    "modulo of negatives": "i % 4 = -3",
    "division by zero": "i / 0 = 1",
    "division by zero behind and": "false AND i / 0 = 1",
    "modulo by zero": "i % i8 = 0 AND i8 = 0",
    "overflow wraps": "i + 1 < 0",
    "overflow of the product": "i * 2 = -2",
    "unary minus": "-i = 7",
    "precedence": "i = 1 OR i = 2 AND b",
    "not binds loosely": "NOT i = 1",
    "between": "i BETWEEN 2 AND 4 AND b",
    "not between": "i NOT BETWEEN 2 AND 4",
    "chain of equals": "1 = 1 = true",
    "double equals": "i == 2",
    "row id": "_rowid > 2",
    "row address": "_rowaddr IN (1, 2, 3)",
    "constant true": "true",
    "constant false": "1 = 2",
    "null is no boolean": "NULL",
    "number is no boolean": "i + 1",
    "unknown column": "nothing = 1",
    "unknown function": "nothing(i) = 1",
    "empty": "",
    "open parenthesis": "(i = 1",
    "bad cast": "cast(s as int) = 1",
    "try cast": "try_cast(s as int) IS NULL",
    "odd hex": "s = 'a' OR x'6' = x'06'",
    "coalesce": "coalesce(i, -1) = -1",
    "coalesce that is decided": "coalesce(MixedCase, cast(s as bigint)) > 2",
    "coalesce that comes to a fault": "coalesce(i, cast(s as bigint)) > 2",
    "coalesce whose first argument fails": "coalesce(i / 0, 1) > 0",
    "coalesce of three": "coalesce(i, MixedCase, i / 0) > 2",
    "nvl that is decided": "nvl(MixedCase, i / 0) > 2",
    "nvl2 that is decided": "nvl2(MixedCase, i, i / 0) > 2",
    "nvl2 with a fault that is left out": "nvl2(i, cast(s as bigint), 3) > 2",
    "nullif has no order": "nullif(MixedCase, cast(s as bigint)) > 2",
    "greatest has no order": "greatest(MixedCase, cast(s as bigint)) > 2",
    "case in a function": "coalesce(CASE WHEN i > 2 THEN 'big' WHEN i > 1 THEN 'two' END, 'none') = 'none'",
    "is distinct from in a function": "coalesce(i IS DISTINCT FROM 2, false)",
}

# What official refuses or gets wrong, and what is right: rows by MixedCase, without the deleted one.
OURS = {
    "case on top": ("CASE WHEN i > 2 THEN true ELSE false END", [2, 5, 7]),
    "is distinct from": ("i IS NOT DISTINCT FROM NULL", [4]),
    "is unknown": ("b IS UNKNOWN", [2, 5]),
    "extract": ("EXTRACT(year FROM d) = 2020", [0, 5]),
    "trim": ("TRIM(BOTH 'a' FROM s) = 'bc'", [0]),
    "substring": ("SUBSTRING(s FROM 2 FOR 1) = 'b'", [0]),
    "floor": ("FLOOR(f) = 1", []),
    "five hundred conditions and more": (" OR ".join(f"(i = {n} AND MixedCase >= 0)" for n in range(1200)), [0, 1, 2, 5]),
    "ten thousand conditions": (" OR ".join(f"i + {n} = 0" for n in range(10_000)), [6]),
    "deep parentheses": ("(" * 60 + "i = 1" + ")" * 60, [0]),
}
REFUSED = {
    "text behind the filter": ("i > 0 LIMIT 1", "LIMIT"),
    "two statements": ("i > 0; DROP TABLE t", ";"),
    "order by": ("i > 0 ORDER BY i", "ORDER"),
    "too deep": ("(" * 5000 + "i = 1" + ")" * 5000, "deep"),
    "placeholder": ("i = $1", "$"),
}


# The first and last values of each type, and the first and last days of official's calendar with their neighbours.
LEAST, MOST = -2 ** 63, 2 ** 63 - 1
DAYS = [0, -1, -2 ** 31, 2 ** 31 - 1, -96465292, -96465293, 95026236, 95026237]
SECONDS = [LEAST, MOST, LEAST + 1, None] + [day * 86400 for day in DAYS[4:]]
EXTREMES = pa.table({
    "MixedCase": pa.array(range(8), pa.int64()),
    "d": pa.array(DAYS, pa.int32()).cast(pa.date32()),
    "ts_s": pa.array(SECONDS, pa.int64()).cast(pa.timestamp("s")),
    "ts_ns": pa.array([LEAST, MOST, LEAST + 1, None, 0, -1, 1, 10 ** 18], pa.int64()).cast(pa.timestamp("ns")),
    "tz": pa.array([LEAST, 10 ** 18, LEAST + 1, None, 0, -1, 1, 10 ** 18], pa.int64()).cast(pa.timestamp("ns", "America/New_York")),
    "f": pa.array([0.5, -0.5, 2.0, -2.0, float("inf"), float("-inf"), float("nan"), 0.0], pa.float64()),
    "f32": pa.array([0.5, -0.5, 2.0, -2.0, float("inf"), float("-inf"), float("nan"), 0.0], pa.float32()),
})
OF_EXTREMES = [f"date_part('{part}', {column}) IS NULL" for part in ("year", "week", "doy", "hour") for column in ("d", "ts_s", "ts_ns", "tz")] + [
    f"date_part('{part}', {column}) > 10" for part in ("month", "day", "hour", "microsecond") for column in ("d", "ts_s", "ts_ns")] + [
    "cast(tz as date) < date '1970-01-01'", "cast(tz as date) = date '1677-09-20'", "cast(ts_ns as date) > date '2262-01-01'",
    "date_part('epoch', ts_s) < 0"] + [
    # NaN has a sign, which total order sees.
    f"{f}({column}) {sign} 0" for f in ("ln", "log", "log2", "log10", "sqrt", "atanh", "acosh", "acos", "asin") for column in ("f", "f32") for sign in "<>"] + [
    "log(2, f) > 0", "log(f, 2) > 0", "log(f, f32) > 0", "power(f, 0.5) > 0", "f % 0 > 0", "f - f > 0"]


def make(folder, name, table, oracles, **more):
    source, at = folder / f"{name}.arrow", str(folder / f"{name}.lance")
    with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    oracles.get("v8").call("expression_ops.make", uri=at, ipc=str(source), storage="2.1", rows_per_file=3, stable=False, **more)
    return at


@pytest.fixture(scope="module")
def extremes(tmp_path_factory, oracles):
    return make(tmp_path_factory.mktemp("extremes"), "extremes", EXTREMES, oracles, deletes=[])


@pytest.mark.parametrize("sql", OF_EXTREMES)
def test_extremes_same_as_official(sql, extremes, tmp_path, oracles):
    case = {"what": "filter", "sql": sql, "uri": extremes}
    said = oracles.get("v8").call("expression_ops.ask", uri=extremes, cases=[case], out=str(tmp_path))
    assert "error" not in said[0]
    assert expressions.differ(case, said[0], tmp_path / "0.arrow") is None


NESTED = pa.table({
    "id": pa.array(range(9), pa.int64()),
    "l": pa.array([[1, 2], [None], None, [], [None, 1], [3], [1], [1, None], None], pa.list_(pa.int32())),
    "ll": pa.array([[["p"]], [[None], ["q"]], [None], None, [], [[]], [["p", None]], [["q"]], [[None]]], pa.list_(pa.list_(pa.string()))),
    "st": pa.array([{"x": 1, "y": {"z": None}}, {"x": None, "y": {"z": "k"}}, None, {"x": 1, "y": None}, {"x": 1, "y": {"z": "l"}}, {"x": 2, "y": None},
                    {"x": None, "y": None}, {"x": 0, "y": {"z": ""}}, None], pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))])),
    "nothing": pa.nulls(9),
    "d": pa.array(["b", None, "a", "b", None, "a", "c", "b", "a"]).dictionary_encode(),
    "g": pa.array([0, 1, 0, 1, 0, 1, 0, 1, 2], pa.int32()),
    "du": pa.array([5, -7, None, 10 ** 12, 3, 1, 10 ** 12, -1, None], pa.int64()).cast(pa.duration("ms")),
})


@pytest.fixture(scope="module")
def nested(tmp_path_factory, oracles):
    return make(tmp_path_factory.mktemp("nested"), "nested", NESTED, oracles, deletes=[])


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("name", ["l", "ll", "st"])
def test_nulls_within_values_stand_where_those_of_rows_do(name, down, first, nested, tmp_path, oracles):
    case = {"what": "order", "keys": [[name, down, first], ["id", False, False]], "uri": nested}
    said = oracles.get("v8").call("expression_ops.ask", uri=nested, cases=[case], out=str(tmp_path))
    assert "error" not in said[0]
    assert expressions.differ(case, said[0], tmp_path / "0.arrow") is None
    # With a limit official leaves rows out that belong there.
    whole = expressions.ask_pennon(nested, case)
    for limit in range(1, 9):
        assert expressions.ask_pennon(nested, {**case, "limit": limit}).equals(whole.slice(0, limit))


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("aggregate", [("count", "nothing"), ("count", "d"), ("count", "st"), ("sum", "du"), ("avg", "du"), ("min", "du"), ("max", "du")])
def test_aggregates_of_odd_types(aggregate, group, nested, tmp_path, oracles):
    function, column = aggregate
    query = f"SELECT {'g AS g, ' if group else ''}{function}({column}) AS a FROM dataset{' GROUP BY g' if group else ''}"
    case = {"what": "aggregate", "query": query, "group": group, "items": [[function, column, "a"]], "uri": nested}
    said = oracles.get("v8").call("expression_ops.ask", uri=nested, cases=[case], out=str(tmp_path))
    assert "error" not in said[0]
    assert expressions.differ(case, said[0], tmp_path / "0.arrow") is None


@pytest.fixture(scope="module")
def uri(tmp_path_factory, oracles):
    return make(tmp_path_factory.mktemp("traps"), "traps", TABLE, oracles, deletes=["MixedCase = 3"])


@pytest.mark.parametrize("name", SAME)
def test_same_as_official(name, uri, tmp_path, oracles):
    case = {"what": "filter", "sql": SAME[name], "uri": uri}
    said = oracles.get("v8").call("expression_ops.ask", uri=uri, cases=[case], out=str(tmp_path))
    assert expressions.differ(case, said[0], tmp_path / "0.arrow") is None


def rows(uri, sql, folder=None):
    if len(sql) > 100_000:  # more than an argument may have
        (folder / "filter.sql").write_text(sql)
        sql = f"@{folder / 'filter.sql'}"
    return pennon.table(pennon.run("scan", uri, "--columns", "MixedCase", "--filter", sql, "--format", "arrow"))["MixedCase"].to_pylist()


@pytest.mark.parametrize("name", OURS)
def test_wider_than_official(name, uri, tmp_path):
    sql, expected = OURS[name]
    assert rows(uri, sql, tmp_path) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, uri):
    sql, part = REFUSED[name]
    with pytest.raises(pennon.Failed) as failed:
        rows(uri, sql)
    assert not failed.value.crashed and part in failed.value.stderr


def test_a_million_values(uri, tmp_path):
    """An IN list that official cannot take, from a file: command lines are shorter than that."""
    assert rows(uri, "i IN (" + ",".join(str(n) for n in range(-1_000_000, 7)) + ")", tmp_path) == [0, 1, 2, 5, 6]


@pytest.mark.parametrize("limit", [0, 1, 3, 100])
def test_limit_with_a_filter(uri, limit):
    got = pennon.table(pennon.run("scan", uri, "--columns", "MixedCase", "--filter", "i8 > 0", "--limit", limit, "--format", "arrow"))
    assert got["MixedCase"].to_pylist() == [0, 1, 4, 5][:limit]


def test_count(uri):
    assert pennon.run("count", uri, "--filter", "i8 > 0").split() == [b"4"]
    assert pennon.run("count", uri).split() == [b"7"]
