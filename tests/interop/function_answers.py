#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Asks official for the values of expressions over a small table; tests/unit/test_expr_functions.c holds ours against them.

Usage: function_answers.py FOLDER: reads tests/unit/data/functions/expressions.txt and writes columns.arrow (JSON as text),
answers.arrow and errors.txt.
"""
import datetime
import os
import sys
import tempfile
from decimal import Decimal

import lance
import pyarrow as pa

HERE = os.path.dirname(os.path.abspath(__file__))
EXPRESSIONS = os.path.join(HERE, "..", "unit", "data", "functions", "expressions.txt")
NAN = float("nan")
INF = float("inf")
DOCUMENTS = ['{"a":1,"b":"x","c":[1,2.5,"q",null,true],"d":{"e":"f"}}', '[10,"20",{"k":null}]', "null", '"str"', None,
             '{"a":null,"b":true,"c":1.5}']


# What ours answers otherwise, each for a reason of its own.
DIFFERENT = {
    "concat(li, li)": "lists are not printed into texts",
    "contains_tokens(s, t)": "official looks at the first query only",
    "date_bin('-1 day', timestamp '1960-01-31 12:34:56')": "strides are positive",
    "ifnull(dec, 1)": "decimals stay decimals", "nvl(dec, dec)": "decimals stay decimals", "nvl(dt, ts)": "dates stay dates",
    "nvl(li, [5])": "lists stay lists", "nvl(ts, ts)": "timestamps stay timestamps", "nvl(tss, ts)": "timestamps stay timestamps",
    "nvl2(s, 1, 2.5)": "numbers stay numbers", "power(dec, 2)": "a float64", "log(10, dec)": "digits behind the point count",
    "log(dec)": "digits behind the point count", "log(f, f)": "no rewriting to 1", "nanvl(null, null)": "a float32",
    "regexp_like('abc', '(?R)')": "the flag R is refused", "regexp_like('abc', '(?R)a')": "the flag R is refused",
    "regexp_replace(i, '1', 'b')": "a string", "json_extract(js, '$.c ? (@ > 1)')": "filters are refused",
    "array_append(fl, 9)": "a null list stands for an empty one", "array_concat(ll, [[1]])": "a list of lists is no literal",
    # Official refuses these.
    "json_extract(js, \"$['d']['e']\")": "single quotes too", "nvl2(b, 1, 'x')": "texts", "to_timestamp(dt)": "dates too",
    "to_timestamp_seconds(dt)": "dates too", "trim(s)": "accepted everywhere",
    "array_concat(li, null)": "a null is a null list", "array_has_all(li, null)": "a null is a null list", "array_length(null)": "null",
    "array_max(null)": "null", "array_to_string(null, ',')": "null", "empty(null)": "null", "date_part('year', null)": "null",
    "json_extract(null, '$.a')": "null", "arrow_typeof(arrow_cast(1, 'Time32(ms)'))": "the cast is possible",
    "coalesce(bin, s)": "common type", "nullif(dt, '2020-01-31')": "comparable", "nullif(li, [7])": "comparable", "nullif(ts, dt)": "comparable",
    "nullif(s, 1)": "compared row by row", "nvl(bin, bin)": "bytes stay bytes", "nvl(st, st)": "structs stay structs",
    "i || i": "printed", "li || li": "joined", "to_char(tsz, '%::z %:::z %#z')": "known formats",
    "date_bin('1 month', ts)": "before 1970 too", "date_bin('1 month', ts, timestamp '2001-01-15')": "before 1970 too",
}


def table():
    date = datetime.date
    return pa.table({
        "s": pa.array(["abc", "", "Straße Ünï x", "  pad\t ", None, "a,b,c"], pa.string()),
        "t": pa.array(["b", "x", "e", "pad", "q", None], pa.string()),
        "ls": pa.array(["abc", "", "Straße", "  p ", None, "z"], pa.large_string()),
        "b": pa.array([True, False, None, True, False, True]),
        "i8": pa.array([1, -128, 127, 0, None, 5], pa.int8()),
        "i": pa.array([1, -2, 2147483647, 0, None, -2147483648], pa.int32()),
        "n": pa.array([1, -2, 3, 0, None, 5], pa.int32()),
        "l": pa.array([1, -2, 9223372036854775807, 0, None, -9223372036854775808], pa.int64()),
        "u8": pa.array([1, 2, 255, 0, None, 5], pa.uint8()),
        "ul": pa.array([1, 2, 18446744073709551615, 0, None, 5], pa.uint64()),
        "f": pa.array([1.5, -2.5, NAN, 0, None, INF], pa.float32()),
        "d": pa.array([1.5, -2.5, NAN, -0.0, None, 1e300], pa.float64()),
        "x": pa.array([1.5, -2.25, 0.1, 0.0, None, 123.456], pa.float64()),
        "dec": pa.array([Decimal("1.50"), Decimal("-2.55"), Decimal("99999999.99"), Decimal("0"), None, Decimal("5")], pa.decimal128(10, 2)),
        "dt": pa.array([date(2020, 1, 31), date(1969, 12, 31), date(2024, 2, 29), date(1970, 1, 1), None, date(2200, 12, 31)], pa.date32()),
        "ts": pa.array([1580474096123456, -1, 1709210096000000, 0, None, 7289651999999999], pa.timestamp("us")),
        "tss": pa.array([1580474096, -1, 1709210096, 0, None, 7289651999], pa.timestamp("s")),
        "tsn": pa.array([1580474096123456789, -1, 1709210096000000000, 0, None, 5], pa.timestamp("ns")),
        "tsz": pa.array([1580474096123456, -1, 1709210096000000, 0, None, 5], pa.timestamp("us", tz="UTC")),
        "tny": pa.array([1580474096123456, -1, 1709210096000000, 0, None, 5], pa.timestamp("us", tz="America/New_York")),
        "tm": pa.array([1, 3600000000, 86399999999, 0, None, 5], pa.time64("us")),
        "bin": pa.array([b"abc", b"", b"\xff\x00", b"\x01", None, b"zz"], pa.binary()),
        "li": pa.array([[1, 2, 3], [], [None, 5, 5], [7], None, [3, 1, 2]], pa.list_(pa.int32())),
        "lt": pa.array([["a", "b"], [], [None, "x", "x"], ["q"], None, ["z", ""]], pa.list_(pa.string())),
        "lf": pa.array([[1.0, 2.5], [], [None, NAN], [7.0], None, [3.0, 1.0]], pa.list_(pa.float64())),
        "fl": pa.array([[1, 2], [3, 4], [None, 5], [7, 7], None, [3, 1]], pa.list_(pa.int32(), 2)),
        "ll": pa.array([[[1, 2], [3]], [], [None, [5]], [[7]], None, [[]]], pa.list_(pa.list_(pa.int32()))),
        "st": pa.array([{"x": 1, "y": "a"}, {"x": None, "y": "b"}, None, {"x": 4, "y": None}, None, {"x": 6, "y": "f"}],
                       pa.struct([("x", pa.int32()), ("y", pa.string())])),
        "js": pa.array(DOCUMENTS, pa.json_()),
    })


def without_views(array):
    """(array, whether it had views)"""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.string()), True
    if pa.types.is_list(array.type) and pa.types.is_string_view(array.type.value_type):
        return array.cast(pa.list_(pa.string())), True
    return array, False


def write(path, names, arrays, metadata):
    fields = [pa.field(name, array.type, metadata=meta) for name, array, meta in zip(names, arrays, metadata)]
    schema = pa.schema(fields)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(list(arrays), schema=schema))


def answer(dataset, expression):
    """The values, or None where official refuses or fails."""
    try:
        return dataset.scanner(columns={"v": expression, "i": "i"}).to_table()["v"].combine_chunks()
    except (ValueError, OSError, NotImplementedError):
        return None


def make(folder):
    with tempfile.TemporaryDirectory() as place:
        dataset = lance.write_dataset(table(), os.path.join(place, "t.lance"))
        columns = table().set_column(table().column_names.index("js"), "js", pa.array(DOCUMENTS, pa.string()))
        arrays = [column.combine_chunks() for column in columns.columns]
        write(os.path.join(folder, "columns.arrow"), columns.column_names, arrays, [None] * len(arrays))
        with open(EXPRESSIONS, encoding="utf-8") as file:
            expressions = list(dict.fromkeys(line for line in file.read().split("\n") if line and line not in DIFFERENT))
        good, bad = [], []
        for expression in expressions:
            values = answer(dataset, expression)
            if values is None:
                bad.append(expression)
            else:
                values, view = without_views(values)
                good.append((expression, values, {"view": "yes"} if view else None))
        write(os.path.join(folder, "answers.arrow"), *zip(*good))
        with open(os.path.join(folder, "errors.txt"), "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in bad))
    return len(good), len(bad)


if __name__ == "__main__":
    print("%d answers, %d errors" % make(sys.argv[1]))
