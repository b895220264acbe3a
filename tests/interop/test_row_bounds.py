# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Filters over row ids, addresses and offsets of tables whose rows were deleted, moved and rewritten by official: they are reads of the rows that
can match, and give the rows that official's own full read has for them, with and without stable row ids."""
import re

import pyarrow as pa

import arrow_diff
import pennon
from features import SYSTEM, at, only, scanned

TABLES = only("updates", "compaction", "deletes_array", "deletes_bitmap", "versions", "shallow")


def forms(column, values):
    """Filters over a column of unsigned integers, and what each of them means."""
    values = sorted(values)
    n = len(values)
    some, low, high = values[:: max(n // 9, 1)], values[n // 3], values[2 * n // 3]
    for value in (values[0], low, values[-1], values[-1] + 1, 1 << 45):
        yield f"{column} = {value}", lambda v, value=value: v == value
    listed = [*reversed(some), some[0], 1 << 45]
    yield f"{column} IN ({', '.join(map(str, listed))})", lambda v: v in listed
    yield f"{column} BETWEEN {low} AND {high}", lambda v: low <= v <= high
    yield f"{column} < {low} OR {column} >= {high}", lambda v: v < low or v >= high
    yield f"{column} > {high} OR {column} = {low}", lambda v: v > high or v == low
    yield f"{column} != {low}", lambda v: v != low


@TABLES
def test_rows_that_match(tables, case):
    made, wrong = tables(case), []
    for label in {made.newest(), list(made.answers)[len(made.answers) // 2]}:
        want = made.expected(label)
        for column in SYSTEM[:3]:
            values = want.column(column).to_pylist()
            if not values:
                continue
            for sql, holds in forms(column, values):
                rows = [i for i, v in enumerate(values) if holds(v)]
                got = scanned(made.uri, *at(label), "--filter", sql, columns=want.column_names)
                found = arrow_diff.diff_table(want.take(pa.array(rows, pa.int64())), got)
                if found:
                    wrong.append(f"{label} {sql}: {found}")
    assert not wrong, "\n".join(wrong)


@only("updates", "compaction")
def test_joined_with_a_column(tables, case):
    made = tables(case)
    want = made.expected(made.newest())
    ids, rest = want.column("_rowid").to_pylist(), want.column("a").to_pylist()
    low, high = sorted(ids)[len(ids) // 4], sorted(ids)[len(ids) // 2]
    rows = [i for i, (v, a) in enumerate(zip(ids, rest)) if low <= v <= high and a % 2 == 0]
    sql = f"a % 2 = 0 AND _rowid BETWEEN {low} AND {high}"
    assert arrow_diff.diff_table(want.take(pa.array(rows, pa.int64())), scanned(made.uri, "--filter", sql, columns=want.column_names)) is None
    got = scanned(made.uri, "--filter", sql, "--offset", 1, "--limit", 3, columns=want.column_names)
    assert arrow_diff.diff_table(want.take(pa.array(rows[1:4], pa.int64())), got) is None
    assert int(pennon.run("count", made.uri, "--filter", sql)) == len(rows)


@TABLES
def test_a_point_is_read_with_little(tables, case):
    made = tables(case)
    want = made.expected(made.newest())
    for column in SYSTEM[:2]:
        value = want.column(column).to_pylist()[want.num_rows // 2]
        text = pennon.run("scan", made.uri, "--analyze", "--filter", f"{column} = {value}").decode()
        told = {key: int(n) for key, n in re.findall(r"(fragments_scanned|rows_scanned)=(\d+)", text)}
        assert told == {"fragments_scanned": 1, "rows_scanned": 1}, text
