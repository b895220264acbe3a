# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Random tables and queries over them, the same to official and to Pennon: filters by the rows they keep, values of expressions, order, aggregates.

A case is made of a seed alone, so that a failure is repeated by its numbers. Both sides may refuse; then they agree. What one refuses and the other
answers is a failure, and so is any difference in the rows or values. Left out are forms in which Pennon takes more than official on purpose (CASE,
EXTRACT and the like outside of a function call; docs/compatibility.md).
"""
import random
import string
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import arrow_diff
import pennon

ROWS = 240
CASES_A_TABLE = 100
WORDS = ["", "a", "b", "ab", "abc", "Fox", "fox", "the quick", "brown_fox", "50%", "straße", "ÄÖ", "漢字", "x" * 40, "a\\b", "O'Neill", "12", "-7", "true"]
INTS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
UNITS = ["s", "ms", "us", "ns"]
DAY0 = date(1970, 1, 1)
# Where official refuses, or panics, and Pennon may answer (docs/compatibility.md).
WIDER = ["PanicException", "Scans must request at least one column", "concat requires input of at least one array", "for logical boolean operation",
         "List(Utf8) IS DISTINCT FROM Boolean", "List(Utf8View) IS DISTINCT FROM Boolean", "List(LargeUtf8) IS DISTINCT FROM Boolean",
         "Only intervals with the same data type are"]
# Faults of values: which terms are evaluated when others have decided a row is each side's own matter.
FAULTS = ["overflow of abs", "Can't cast value", "Cannot cast string"]


@dataclass
class Column:
    name: str
    kind: str  # key of MAKERS
    type: pa.DataType
    sql: str = ""  # as an expression writes it
    fields: list = field(default_factory=list)  # of structs


def bounds(kind):
    bits = INTS[kind]
    return (0, 2 ** bits - 1) if kind[0] == "u" else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)


class World:
    """One table: its columns, and values of each kind."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.columns = self._columns()

    def _columns(self):
        r, out = self.r, []
        kinds = ["bool", "int32", "int64", "float64", "string"] + r.sample(
            ["int8", "int16", "uint8", "uint16", "uint32", "uint64", "float32", "large_string", "binary", "date32", "timestamp", "timestamp_tz",
             "decimal", "list_int", "list_string", "struct", "string", "bool", "int32"], 7)
        for i, kind in enumerate(kinds):
            name = r.choice(["c", "Col", "x y", "sel"]) + str(i)
            quoted = f"`{name}`" if " " in name or r.random() < 0.2 else name
            out.append(Column(name, kind, self._type(kind), quoted))
        for c in out:
            if c.kind == "struct":
                c.fields = [Column("n", "int32", pa.int32(), f"{c.sql}.n"), Column("t", "string", pa.string(), f"{c.sql}.t")]
        return out

    def _type(self, kind):
        r = self.r
        simple = {"bool": pa.bool_(), "float32": pa.float32(), "float64": pa.float64(), "string": pa.string(), "large_string": pa.large_string(),
                  "binary": pa.binary(), "date32": pa.date32(), "list_int": pa.list_(pa.int64()), "list_string": pa.list_(pa.string()),
                  "struct": pa.struct([("n", pa.int32()), ("t", pa.string())])}
        if kind in simple:
            return simple[kind]
        if kind in INTS:
            return getattr(pa, kind)()
        if kind == "timestamp":
            return pa.timestamp(r.choice(UNITS))
        if kind == "timestamp_tz":
            return pa.timestamp(r.choice(UNITS), r.choice(["UTC", "Europe/Paris"]))
        return pa.decimal128(r.choice([5, 10, 20]), r.choice([0, 2, 4]))

    # ---- values ----

    def value(self, kind, type_):
        r = self.r
        if r.random() < 0.15:
            return None
        if kind == "bool":
            return r.random() < 0.5
        if kind in INTS:
            low, high = bounds(kind)
            return r.choice([r.randint(max(low, -5), 5), r.randint(max(low, -5), 5), r.randint(max(low, -100), min(high, 100)), low, high,
                             r.randint(low, high)])
        if kind in ("float32", "float64"):
            return r.choice([0.0, -0.0, 1.0, -1.5, 2.5, float("nan"), float("inf"), float("-inf"), round(r.uniform(-5, 5), 1), r.uniform(-1e3, 1e3), 1e300
                             if kind == "float64" else 1e30])
        if kind in ("string", "large_string"):
            return r.choice(WORDS) if r.random() < 0.8 else "".join(r.choice(string.ascii_lowercase) for _ in range(r.randint(0, 6)))
        if kind == "binary":
            return r.choice([b"", b"a", b"ab", b"\x00\xff", bytes(r.randrange(256) for _ in range(3))])
        if kind == "date32":
            return DAY0 + timedelta(days=r.choice([0, -1, 18262, 18628, r.randint(-3000, 22000)]))
        if kind.startswith("timestamp"):
            seconds = r.choice([0, -1, 1577836800, 1609459200, r.randint(-10 ** 8, 2 * 10 ** 9)])
            per = {"s": 1, "ms": 10 ** 3, "us": 10 ** 6, "ns": 10 ** 9}[type_.unit]
            return seconds * per + (r.choice([0, 0, per // 2]))
        if kind == "decimal":
            digits = min(type_.precision - type_.scale, 4)
            return Decimal(r.randint(-10 ** digits + 1, 10 ** digits - 1)).scaleb(0) + Decimal(r.randint(0, 10 ** type_.scale - 1)).scaleb(-type_.scale) \
                if type_.scale else Decimal(r.randint(-10 ** digits + 1, 10 ** digits - 1))
        if kind == "list_int":
            return [None if r.random() < 0.1 else r.randint(-3, 5) for _ in range(r.randint(0, 4))]
        if kind == "list_string":
            return [None if r.random() < 0.1 else r.choice(WORDS[:8]) for _ in range(r.randint(0, 3))]
        return {"n": self.value("int32", pa.int32()), "t": self.value("string", pa.string())}

    def table(self):
        arrays = []
        for c in self.columns:
            values = [self.value(c.kind, c.type) for _ in range(ROWS)]
            if c.kind.startswith("timestamp"):
                arrays.append(pa.array(values, pa.int64()).cast(c.type))
            elif c.kind == "decimal":
                arrays.append(pa.array([None if v is None or abs(v) >= Decimal(10) ** (c.type.precision - c.type.scale) else v for v in values], c.type))
            else:
                arrays.append(pa.array(values, c.type))
        return pa.table(arrays, names=[c.name for c in self.columns])


class Queries:
    """Expressions over the columns of a world."""

    def __init__(self, world, seed):
        self.w, self.r, self.alone = world, random.Random(seed), False
        self.leaves = [c for c in world.columns if c.kind != "struct"] + [f for c in world.columns for f in c.fields]

    def of(self, *kinds):
        return [c for c in self.leaves if c.kind in kinds]

    def pick(self, *kinds):
        found = self.of(*kinds)
        return self.r.choice(found) if found else None

    # ---- literals ----

    def text(self, value=None):
        value = self.r.choice(WORDS) if value is None else value
        return "'" + value.replace("'", "''") + "'"

    def literal(self, c, wrong=0.03):
        """A literal that official takes for the column in most cases, and not in some."""
        r = self.r
        if r.random() < wrong:
            return r.choice(["NULL", "1", "2.0", "'2'", "true", "date '2020-01-01'", "x'61'"])
        if c.kind in INTS:
            return str(r.choice([0, 1, 2, -1, 3, 5, 100, r.randint(-5, 5)] + ([300, 2 ** 31] if r.random() < 0.1 else [])))
        if c.kind in ("float32", "float64"):
            return r.choice(["0.0", "-0.0", "1.0", "2.5", "-1.5", "1e300", "3", "0.1", "-1e-3"])
        if c.kind in ("string", "large_string"):
            return self.text()
        if c.kind == "bool":
            return r.choice(["true", "false"])
        if c.kind == "binary":
            return r.choice(["x''", "x'61'", "x'6162'", "x'00ff'"])
        if c.kind == "date32":
            return r.choice(["date '2020-01-01'", "date '1969-12-31'", "cast('2021-01-01' as date)", "timestamp '2020-01-01 00:00:00'"])
        if c.kind.startswith("timestamp"):
            return r.choice(["timestamp '2020-01-01 00:00:00'", "timestamp '1970-01-01T00:00:00.5'", "date '2021-01-01'",
                             "timestamp(3) '2020-01-01 00:00:00.5'", "timestamp(0) '2021-01-01 00:00:00'"])
        if c.kind == "decimal":
            return r.choice(["0", "1", "-5", f"decimal({c.type.precision},{c.type.scale}) '1'", "decimal(10,2) '1.50'"])
        if c.kind == "list_int":
            return r.choice(["[1, 2]", "[]", "[-1]"])
        return r.choice(["['a', 'b']", "['ab']"])

    # ---- values ----

    def number(self, depth):
        r = self.r
        c = self.pick(*INTS, "float32", "float64", "decimal") if r.random() < 0.9 else None
        if c is None:
            return r.choice(["1", "2", "0.5", "-3"])
        if depth == 0 or r.random() < 0.4:
            return c.sql
        form = r.randrange(9)
        if form < 4:
            return f"({self.number(depth - 1)} {r.choice(['+', '-', '*'])} {self.number(depth - 1)})"
        if form == 4:
            return f"({self.number(depth - 1)} {r.choice(['/', '%'])} {r.choice(['2', '3', '-7', '2.5'])})"
        if form == 5:
            return f"abs({self.number(depth - 1)})"
        if form == 6:
            return f"length({self.string(depth - 1)})"
        if form == 7:
            return f"coalesce({self.number(depth - 1)}, {r.choice(['0', '1'])})"
        return f"(- {c.sql})" if c.kind[0] != "u" else c.sql  # official drops terms before it sees that they have no type

    def string(self, depth):
        r = self.r
        c = self.pick("string", "large_string")
        if depth == 0 or r.random() < 0.5:
            return c.sql if r.random() < 0.9 else self.text()
        form = r.randrange(8)
        inner = self.string(depth - 1)
        return [f"upper({inner})", f"lower({inner})", f"substr({inner}, {r.randint(-1, 4)}, {r.randint(0, 4)})", f"concat({inner}, {self.text()})",
                f"({inner} || {self.text()})", f"btrim({inner})", f"replace({inner}, 'a', 'zz')", f"left({inner}, {r.randint(-2, 4)})"][form] \
            if form != 2 else f"left(reverse({inner}), {r.randint(0, 4)})"

    def moment(self):
        c = self.pick("timestamp", "date32")
        return c.sql if c else "timestamp '2020-01-01 00:00:00'"

    # ---- booleans ----

    def comparison(self, depth):
        r = self.r
        op = r.choice(["=", "!=", "<>", "<", "<=", ">", ">=", "="])
        c = r.choice(self.leaves)
        form = r.randrange(10)
        if form < 5:
            literal = self.literal(c)
            if c.kind.startswith("list") and op not in ("=", "!="):
                op = "="
            return f"{c.sql} {op} {literal}" if r.random() < 0.85 else f"{literal} {op} {c.sql}"
        if form == 5:
            other = r.choice([x for x in self.leaves if x.type == c.type])
            return f"{c.sql} {op} {other.sql}"
        if form == 6:
            return f"{self.number(depth)} {op} {self.number(depth)}"
        if form == 7:
            return f"{self.string(depth)} {op} {self.string(depth)}"
        if form == 8:
            part = r.choice(["year", "month", "day", "hour", "dow", "doy", "week", "quarter"])
            return f"date_part('{part}', {self.moment()}) {op} {r.randint(0, 12)}"
        return f"length({self.string(depth)}) {op} {r.randint(0, 5)}"

    def predicate(self, depth):
        r = self.r
        form = r.randrange(13)
        c = r.choice(self.leaves)
        no = r.choice(["", "NOT "])
        if form < 3:
            items = ", ".join(self.literal(c, 0) for _ in range(r.choice([1, 2, 3, 4, 6])))
            if self.alone and r.random() < 0.3:  # official joins lists of one column without a thought for nulls in them
                items += ", NULL"
            return f"{c.sql} {no}IN ({items})"
        if form == 3:
            return f"{c.sql} {no}BETWEEN {self.literal(c, 0)} AND {self.literal(c, 0)}"
        if form in (4, 5):
            pattern = r.choice(["a%", "%x", "%o%", "_", "__", "%", "", "a_", "%\\%", "f%x", "F%", "%ß%", "ab%c%", "%字"])
            return f"{self.string(min(depth, 1))} {no}{r.choice(['LIKE', 'LIKE', 'ILIKE'])} '{pattern}'"
        if form == 6:
            return f"{c.sql} IS {no}NULL"
        if form == 7:
            b = self.pick("bool")
            return r.choice([b.sql, f"{b.sql} IS {no}TRUE", f"{b.sql} IS {no}FALSE", f"NOT {b.sql}", f"{b.sql} = true"])
        if form == 8:
            s = self.string(min(depth, 1))
            return r.choice([f"starts_with({s}, 'a')", f"ends_with({s}, 'x')", f"contains({s}, 'o')", f"regexp_like({s}, '^[a-c]+$')",
                             f"regexp_like({s}, 'FOX', 'i')", f"regexp_match({s}, 'o.$')", f"strpos({s}, 'b') = {r.randint(0, 3)}"])
        if form == 9:
            lists = self.pick("list_int")
            if lists:
                return r.choice([f"array_has({lists.sql}, {r.randint(-3, 5)})", f"array_length({lists.sql}) > {r.randint(0, 3)}",
                                 f"{lists.sql}[{r.choice([1, 2, -1, 0])}] = {r.randint(-3, 5)}", f"array_has_any({lists.sql}, [1, 2])"])
            return f"{c.sql} IS {no}NULL"
        if form == 10:
            return f"cast({self.number(0)} as {r.choice(['double', 'string', 'bigint'])}) IS NOT NULL" if r.random() < 0.3 else \
                f"coalesce({self.comparison(0)}, {r.choice(['true', 'false'])})"
        if form == 11:
            return f"coalesce(CASE WHEN {self.comparison(0)} THEN {self.number(0)} ELSE 0 END, 1) > {r.randint(-1, 2)}"
        return f"coalesce({c.sql} IS {no}DISTINCT FROM {self.literal(c)}, true)"

    def boolean(self, depth):
        r = self.r
        if depth == 0 or r.random() < 0.25:
            return self.comparison(1) if r.random() < 0.5 else self.predicate(1)
        form = r.randrange(6)
        if form < 2:
            return " AND ".join(self._term(depth - 1) for _ in range(r.randint(2, 4)))
        if form < 4:
            return " OR ".join(self._term(depth - 1) for _ in range(r.randint(2, 4)))
        if form == 4:
            return f"NOT ({self.boolean(depth - 1)})"
        return f"({self.boolean(depth - 1)}) IS {r.choice(['', 'NOT '])}{r.choice(['TRUE', 'FALSE'])}" if r.random() < 0.5 else self._term(depth - 1)

    def _term(self, depth):
        return f"({self.boolean(depth)})"

    # ---- cases ----

    def case(self):
        r = self.r
        roll = r.random()
        depth = r.randint(0, 3)
        self.alone = depth == 0
        if roll < 0.6:
            return {"what": "filter", "sql": self.boolean(depth)}
        self.alone = False
        where = self.boolean(1) if r.random() < 0.4 else None
        if roll < 0.8:
            sql = r.choice([self.number, self.string])(r.randint(1, 3)) if r.random() < 0.7 else f"coalesce({self.boolean(1)}, NULL)"
            return {"what": "project", "sql": sql, "filter": where}
        if roll < 0.92:
            names = [c for c in self.w.columns if not c.kind.startswith(("list", "struct"))]
            keys = [(c.name, r.random() < 0.5, r.random() < 0.5) for c in r.sample(names, r.randint(1, 3))]
            limit = r.choice([None, None, 1, 5, 17, 1000])
            return {"what": "order", "keys": keys, "filter": where, "limit": limit, "offset": r.choice([None, 3]) if limit else None}
        return self._aggregate(where)

    def _aggregate(self, where):
        r = self.r
        numbers = [c for c in self.w.columns if c.kind in INTS or c.kind in ("float64", "decimal")]
        ordered = [c for c in self.w.columns if not c.kind.startswith(("list", "struct"))]
        chosen = [("count", None, "a0"), ("count", r.choice(ordered), "a1")]
        for i in range(r.randint(1, 3)):
            f = r.choice(["sum", "avg", "min", "max"])
            # What is least beside NaN depends on the order of the rows in official.
            best = [c for c in ordered if not c.kind.startswith("float")]
            chosen.append((f, r.choice(numbers if f in ("sum", "avg") else best), f"a{i + 2}"))
        group = r.choice([None, *(c for c in ordered if c.kind in ("bool", "int8", "string"))])

        def quoted(c):
            return '"' + c.name + '"'  # as SQL of whole queries has it
        picked = ([f"{quoted(group)} AS g"] if group else []) + [f"{f}({quoted(c) if c else '*'}) AS {name}" for f, c, name in chosen]
        query = f"SELECT {', '.join(picked)} FROM dataset" + (f" GROUP BY {quoted(group)}" if group else "")
        return {"what": "aggregate", "query": query, "group": group.name if group else None, "items": [(f, c.name if c else None, n) for f, c, n in chosen]}


def ask_pennon(uri, case):
    """The same as expression_ops.ask, by the command."""
    base = ["scan", uri, "--format", "arrow"]
    where = ["--filter", case["filter"]] if case.get("filter") else []
    if case["what"] == "filter":
        return pennon.table(pennon.run(*base, "--columns", "", "--with-row-id", "--filter", case["sql"]))
    if case["what"] == "project":
        return pennon.table(pennon.run(*base, "--expr", "x=" + case["sql"], *where))
    if case["what"] == "order":
        names = ",".join(name for name, _, _ in case["keys"])
        order = ",".join(f"{name} {'desc' if down else 'asc'} nulls {'first' if first else 'last'}" for name, down, first in case["keys"])
        more = [x for key in ("limit", "offset") if case.get(key) is not None for x in ("--" + key, case[key])]
        return pennon.table(pennon.run(*base, "--columns", names, "--order-by", order, *where, *more))
    items = ",".join(f"{n}={f}({c})" if c else f"{n}=count" for f, c, n in case["items"])
    group = ["--group-by", case["group"]] if case["group"] else []
    return pennon.table(pennon.run(*base, "--aggregate", items, *group))


def rounded(value):
    """Sums of floats depend on the order of the additions."""
    return float(f"{value:.11g}") + 0.0 if isinstance(value, float) else value


def sorted_rows(table):
    columns = [arrow_diff.one(column) for column in table.columns]
    return sorted(repr(tuple(rounded(c[i].as_py()) for c in columns)) for i in range(table.num_rows))


def plain(table):
    """One column without nullability, which official tells from the expression, and its texts of one type (official gives views here and there)."""
    column = arrow_diff.one(table.column(0))
    if column.type in (pa.string(), pa.large_string(), pa.string_view()):
        column = column.cast(pa.large_string())
    return pa.table([column], names=["x"])


def differ(case, said, out):
    """None, or what is different. `said`: the answer of official; `out`: its file."""
    try:
        mine = ask_pennon(case["uri"], case)
        refusal = None
    except pa.ArrowInvalid as invalid:
        # Products of decimals may have more digits than their type, on both sides.
        if "does not fit in precision" in str(invalid):
            return None
        return f"malformed: {invalid}"
    except pennon.Failed as failed:
        if failed.crashed:
            return f"crashed: {failed}"
        mine, refusal = None, failed.stderr.strip()
    if "error" in said:
        if refusal is None and not any(reason in said["error"] for reason in WIDER):
            return f"official refuses: {said['error'][:300]}"
        return None
    if refusal is not None and any(fault in refusal for fault in FAULTS):
        return None
    if refusal is not None:
        return f"refused: {refusal[:300]}"
    if case["what"] == "filter":
        mine = mine["_rowid"].to_pylist()
        return None if mine == said["ids"] else f"rows {mine[:20]} ({len(mine)}), official has {said['ids'][:20]} ({len(said['ids'])})"
    with pa.ipc.open_stream(pa.memory_map(str(out))) as reader:
        want = reader.read_all()
    if case["what"] == "project":
        return arrow_diff.diff_table(plain(want), plain(mine))
    if case["what"] == "order":
        if [f.type for f in want.schema] != [f.type for f in mine.schema]:
            return f"types {mine.schema.types}, official has {want.schema.types}"
        # Only the keys are compared: ties are each side's own matter.
        return arrow_diff.diff_table(want.cast(mine.schema) if want.schema != mine.schema else want, mine)
    if want.schema.types != mine.schema.types:
        return f"types {mine.schema.types}, official has {want.schema.types}"
    a, b = sorted_rows(want), sorted_rows(mine)
    return None if a == b else f"groups {b[:5]}, official has {a[:5]}"


class Table:
    """Table number `seed` of the run and its cases."""

    def __init__(self, seed, folder, oracle):
        self.seed, self.folder, self.oracle = seed, Path(folder), oracle
        self.world = World(seed)
        self.uri = str(self.folder / f"t{seed}.lance")

    def make(self):
        r = random.Random(self.seed + 1)
        source = self.folder / f"t{self.seed}.arrow"
        data = self.world.table()
        with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_stream(sink, data.schema) as writer:
            writer.write_table(data)
        ints = next(c for c in self.world.columns if c.kind == "int32")
        deletes = r.choice([[], [], [f"{ints.sql} = 1"], [f"{ints.sql} > 50", f"{ints.sql} IS NULL"]])
        self.oracle.call("expression_ops.make", uri=self.uri, ipc=str(source), storage=r.choice(["2.0", "2.1", "2.1", "2.2"]),
                         rows_per_file=r.choice([50, 100, 1000]), deletes=deletes, stable=r.random() < 0.3)
        return self

    def cases(self, n=CASES_A_TABLE):
        queries = Queries(self.world, self.seed * 1000 + 7)
        return [dict(queries.case(), uri=self.uri) for _ in range(n)]

    def run(self, n=CASES_A_TABLE):
        """[(number, case, what is different)] of those that differ."""
        cases, out = self.cases(n), self.folder / f"out{self.seed}"
        said = self.oracle.call("expression_ops.ask", uri=self.uri, cases=cases, out=str(out))
        found = [(i, case, differ(case, answer, out / f"{i}.arrow")) for i, (case, answer) in enumerate(zip(cases, said))]
        return [(i, case, why) for i, case, why in found if why]


def describe(seed, found):
    return "\n".join(f"table {seed} case {i}: {case['what']} {case.get('sql') or case.get('query') or case.get('keys')}"
                     + (f" where {case['filter']}" if case.get("filter") else "") + f"\n    {why}" for i, case, why in found)
