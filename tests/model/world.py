# Licensed under the Apache License, Version 2.0; see LICENSE.
"""A table as plain lists, and random operations on it.

A program is {"storage", "stable", "seed", "steps": [[kind, number], ...]}. A step is resolved against the table as it stands, by a generator that its
number seeds, into an operation of engine.py and into what must come of it. So steps can be taken out of a program, and the others still mean
something. Column `uid` names a row for good: no operation changes it, and no two rows have the same."""
import copy
import random

NAMES = ["a", "b", "c", "d", "e", "f", "g", "h"]
TYPE_TEXT = {"int32": "int32", "int64": "int64", "float64": "double", "string": "string", "bool": "bool", "date": "date32[day]",
             "list": "list<item: int32>", "point": "struct<x: int32, y: string>", "vector": "fixed_size_list<item: float>[2]"}
INTS = ("int32", "int64")
# kind of step: how often
KINDS = {"append": 5, "overwrite": 1, "delete": 4, "update": 4, "merge": 5, "merge_key": 2, "add_sql": 2, "add_nulls": 1, "add_values": 1, "join": 1, "drop": 1,
         "alter": 2, "compact": 3, "restore": 1, "tag": 1, "cleanup": 1, "old": 1}
ROWS_MAX = 400


def random_value(rng, c, structs_null=True):
    if c["nullable"] and rng.random() < 0.15 and (structs_null or c["type"] != "point"):
        return None
    kind = c["type"]
    if kind in INTS:
        return rng.randint(-5, 20)
    if kind == "float64":
        return rng.randint(-8, 8) / 2
    if kind == "string":
        return rng.choice(["", "s0", "s1", "s2", "s3", "Größe", "x" * 40])
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "date":
        return rng.randint(0, 60)
    if kind == "list":
        return [rng.choice([None, 1, 2, 3]) for _ in range(rng.randint(0, 3))]
    if kind == "point":
        return {"x": rng.choice([None, rng.randint(0, 9)]), "y": rng.choice(["", "p", "q"])}
    return [rng.randint(0, 8) / 4, rng.randint(0, 8) / 4]


# ---- conditions: SQL, and a function of a row that gives True, False or None ----

def compare(left, op, right):
    if left is None or right is None:
        return None
    return {"<": left < right, ">=": left >= right, "=": left == right, "<>": left != right}[op]


def both(x, y):
    if x is False or y is False:
        return False
    return None if x is None or y is None else True


def negated(x):
    return None if x is None else not x


def random_term(rng, columns):
    # Structs apart: where official rewrites a struct column that no file has, its nulls become structs of nulls.
    c = rng.choice([c for c in columns if c["type"] != "point"])
    name, kind = c["name"], c["type"]
    if rng.random() < 0.2:
        return (f"{name} IS NULL", lambda row: row[name] is None) if rng.random() < 0.5 else (f"{name} IS NOT NULL", lambda row: row[name] is not None)
    if kind in INTS:
        op, n = rng.choice(["<", ">=", "=", "<>"]), rng.randint(-3, 18)
        if name == "uid":
            op, n = "<", rng.randint(0, 4000)
        return f"{name} {op} {n}", lambda row: compare(row[name], op, n)
    if kind == "float64":
        op, n = rng.choice(["<", ">="]), rng.randint(-6, 6) / 2
        return f"{name} {op} {n}", lambda row: compare(row[name], op, n)
    if kind == "string":
        op, text = rng.choice(["=", "<>", "<"]), rng.choice(["s1", "s2", "Größe"])
        return f"{name} {op} '{text}'", lambda row: compare(row[name] if row[name] is None else row[name].encode(), op, text.encode())
    if kind == "bool":
        return name, lambda row: row[name]
    if kind == "date":
        day = rng.randint(1, 28)
        return f"{name} < DATE '1970-01-{day:02}'", lambda row: compare(row[name], "<", day - 1)
    return f"{name} IS NOT NULL", lambda row: row[name] is not None


def random_condition(rng, columns, depth=0):
    shape = rng.random()
    if depth < 2 and shape < 0.2:
        (x, f), (y, g) = (random_condition(rng, columns, depth + 1) for _ in range(2))
        return f"({x} AND {y})", lambda row: both(f(row), g(row))
    if depth < 2 and shape < 0.4:
        (x, f), (y, g) = (random_condition(rng, columns, depth + 1) for _ in range(2))
        return f"({x} OR {y})", lambda row: negated(both(negated(f(row)), negated(g(row))))
    if depth < 2 and shape < 0.5:
        x, f = random_condition(rng, columns, depth + 1)
        return f"NOT ({x})", lambda row: negated(f(row))
    if depth == 0 and shape < 0.55:
        return "true", lambda row: True
    return random_term(rng, columns)


class World:
    """What a table holds. `expect` of an operation: {"error": True}, or {"answer": what the verb tells}."""

    def __init__(self, program):
        self.storage, self.stable = program["storage"], program["stable"]
        self.columns, self.rows, self.ordered = [], [], True
        self.history, self.tags, self.step = {}, {}, 0

    # ---- what is there ----

    def names(self):
        return [c["name"] for c in self.columns]

    def as_dict(self, row):
        return dict(zip(self.names(), row))

    def state(self):
        return copy.deepcopy((self.columns, self.rows, self.ordered))

    def note(self, version):
        self.history[version] = self.state()

    def schema(self):
        return [[c["name"], TYPE_TEXT[c["type"]], c["nullable"]] for c in self.columns]

    def make_rows(self, rng, columns, n, first):
        structs_null = self.storage != "2.0"  # it holds none, and official writes what lies below
        return [[first + i if c["name"] == "uid" else random_value(rng, c, structs_null) for c in columns] for i in range(n)]

    def fresh_name(self, rng):
        free = [name for name in NAMES if name not in self.names()]
        return rng.choice(free) if free else None

    # ---- steps ----

    def resolve(self, kind, number):
        """The operation and what must come of it; None where it means nothing on this table. The table is changed."""
        self.step += 1
        rng = random.Random(f"{number}/{kind}")
        return getattr(self, "do_" + kind)(rng)

    def random_columns(self, rng):
        kinds = [k for k in TYPE_TEXT]
        names = rng.sample(NAMES, rng.randint(2, 5))
        return [{"name": "uid", "type": "int64", "nullable": False}] + [
            {"name": name, "type": rng.choice(["int32", *kinds]), "nullable": rng.random() < 0.85} for name in names]

    def write(self, rng, mode):
        if mode != "append":
            self.columns = self.random_columns(rng)
            self.rows, self.ordered = [], True
        n = rng.choice([1, 3, 20, 60])
        if len(self.rows) + n > ROWS_MAX:
            return None
        rows = self.make_rows(rng, self.columns, n, self.step * 100)
        order = list(range(len(self.columns)))
        if mode == "append":
            rng.shuffle(order)
        self.rows = self.rows + rows
        return ({"op": "write", "mode": mode, "columns": [self.columns[i] for i in order], "rows": [[row[i] for i in order] for row in rows],
                 "file_rows": rng.choice([7, 1000]), "storage": self.storage, "stable": self.stable}, {"answer": None})

    def do_create(self, rng):
        return self.write(rng, "create")

    def do_append(self, rng):
        return self.write(rng, "append")

    def do_overwrite(self, rng):
        return self.write(rng, "overwrite")

    def do_delete(self, rng):
        sql, test = random_condition(rng, self.columns)
        before = len(self.rows)
        self.rows = [row for row in self.rows if test(self.as_dict(row)) is not True]
        return {"op": "delete", "where": sql}, {"answer": before - len(self.rows)}

    def random_assignment(self, rng, c, assigned):
        name, kind = c["name"], c["type"]
        if c["nullable"] and rng.random() < 0.15 and kind not in ("list", "point", "vector"):
            return "NULL", lambda row: None
        # Official assigns one column after the other, in any order, and a later one sees the new value: no expression names another column that is set.
        same = [o["name"] for o in self.columns if o["type"] == kind and o["name"] not in assigned and (c["nullable"] or not o["nullable"])]
        if same and rng.random() < 0.3:
            other = rng.choice(same)
            return other, lambda row: row[other]
        if kind in INTS:
            n = rng.randint(1, 3)
            return f"{name} + {n}", lambda row: None if row[name] is None else row[name] + n
        if kind == "float64":
            return f"{name} * 2", lambda row: None if row[name] is None else row[name] * 2
        if kind == "string":
            return "'set'", lambda row: "set"
        if kind == "bool":
            return f"NOT {name}", lambda row: negated(row[name])
        if kind == "date":
            return "DATE '1970-02-01'", lambda row: 31
        return None

    def do_update(self, rng):
        targets = [c for c in self.columns if c["name"] != "uid"]
        chosen = rng.sample(targets, min(len(targets), rng.randint(1, 2)))
        assigned = [c["name"] for c in chosen]
        assignments = {c["name"]: self.random_assignment(rng, c, assigned) for c in chosen}
        assignments = {name: a for name, a in assignments.items() if a}
        if not assignments:
            return None
        sql, test = random_condition(rng, self.columns)
        kept, changed = [], []
        for row in self.rows:
            seen = self.as_dict(row)
            if test(seen) is not True:
                kept.append(row)
                continue
            changed.append([assignments[name][1](seen) if name in assignments else seen[name] for name in self.names()])
        self.rows = kept + changed
        return {"op": "update", "set": {name: a[0] for name, a in assignments.items()}, "where": sql}, {"answer": len(changed)}

    # ---- merges ----

    def merged(self, on, columns, source, how):
        """What a merge makes of the rows. `how`: matched, test (of a source and a target row), insert, by_source (test or None)."""
        at = [c["name"] for c in columns].index(on)
        by_key = {row[at]: dict(zip([c["name"] for c in columns], row)) for row in source if row[at] is not None}
        kept, changed, used, deleted = [], [], set(), 0
        for row in self.rows:
            seen = self.as_dict(row)
            match = by_key.get(seen[on]) if seen[on] is not None else None
            if match is None:
                if how["by_source"] and how["by_source"](seen) is True:
                    deleted += 1
                else:
                    kept.append(row)
                continue
            used.add(seen[on])
            if how["matched"] == "delete":
                deleted += 1
            elif how["matched"] == "update" or (how["matched"] == "update_if" and how["test"](match, seen) is True):
                changed.append([match.get(name, seen[name]) for name in self.names()])
            else:
                kept.append(row)
        new = [dict(zip([c["name"] for c in columns], row)) for row in source if row[at] is None or row[at] not in used] if how["insert"] else []
        inserted = [[row.get(name) for name in self.names()] for row in new]
        return kept + changed + inserted, [len(inserted), len(changed), deleted], bool(used)

    def run_merge(self, rng, on, columns, source, insert):
        how = {"matched": rng.choice(["update", "update", "update_if", "fail", "delete", None]), "insert": insert, "by_source": None, "test": None}
        op = {"op": "merge", "on": on, "columns": columns, "rows": source, "matched": how["matched"], "insert": insert, "by_source": None, "condition": None}
        if how["matched"] == "update_if":
            usable = [c["name"] for c in columns if c["type"] in INTS and c["name"] != on]
            if usable:
                name = rng.choice(usable)
                op["condition"], how["test"] = f"source.{name} >= target.{name}", lambda s, t: compare(s[name], ">=", t[name])
            else:
                op["matched"] = how["matched"] = "update"
        # Official 8.0.0 fails ("a logical plan pruning bug") where rows only go.
        if rng.random() < 0.25 and (how["matched"] in ("update", "update_if") or insert):
            op["by_source"], how["by_source"] = ("", lambda row: True) if rng.random() < 0.3 else random_condition(rng, self.columns)
        if how["matched"] is None and not insert and how["by_source"] is None:
            return None
        rows, counts, matches = self.merged(on, columns, source, how)
        if how["matched"] == "fail" and matches:
            return op, {"error": True}
        keys = [row[[c["name"] for c in columns].index(on)] for row in source]
        present = {self.as_dict(row)[on] for row in self.rows}
        if how["matched"] in ("update", "update_if", "delete") and any(k is not None and k in present and keys.count(k) > 1 for k in keys):
            return None
        self.rows, self.ordered = rows, False
        return op, {"answer": counts}

    def do_merge(self, rng):
        live = sorted(self.as_dict(row)["uid"] for row in self.rows)
        keys = rng.sample(live, min(len(live), rng.choice([0, 1, 5, 40])))
        keys += [self.step * 100 + i for i in range(rng.choice([0, 0, 1, 8]))]
        rng.shuffle(keys)
        columns = list(self.columns)
        if rng.random() < 0.4:
            columns = [c for c in columns if c["name"] == "uid" or rng.random() < 0.5]
        rng.shuffle(columns)
        missing = [c for c in self.columns if c not in columns]
        insert = rng.random() < 0.6 and all(c["nullable"] and (self.storage != "2.0" or c["type"] != "point") for c in missing)
        source = self.make_rows(rng, columns, len(keys), 0)
        at = [c["name"] for c in columns].index("uid")
        for row, key in zip(source, keys):
            row[at] = key
        return self.run_merge(rng, "uid", columns, source, insert)

    def do_merge_key(self, rng):
        """By a column that repeats and has nulls; the rows keep their uid, so nothing is inserted."""
        usable = [c for c in self.columns if c["type"] in ("int32", "int64", "string", "date") and c["name"] != "uid"]
        others = [c for c in self.columns if c["name"] != "uid"]
        if not usable:
            return None
        on = rng.choice(usable)
        columns = [c for c in others if c is on or rng.random() < 0.7]
        source = self.make_rows(rng, columns, rng.choice([1, 4, 10]), 0)
        at, seen, distinct = columns.index(on), set(), []
        for row in source:
            if row[at] is None or row[at] not in seen:
                distinct.append(row)
                seen.add(row[at])
        return self.run_merge(rng, on["name"], columns, distinct, False)

    # ---- columns ----

    def add_column(self, c, values):
        self.columns = self.columns + [c]
        self.rows = [row + [value] for row, value in zip(self.rows, values)]

    def do_add_sql(self, rng):
        name, c = self.fresh_name(rng), rng.choice(self.columns)
        if name is None:
            return None
        old = c["name"]
        if c["type"] in INTS and rng.random() < 0.6:
            sql, new, test = f"{old} + 1", {"type": c["type"], "nullable": c["nullable"]}, lambda v: None if v is None else v + 1
        elif c["type"] == "string" and rng.random() < 0.6:
            sql, new, test = f"upper({old})", {"type": "string", "nullable": True}, lambda v: None if v is None else v.upper()
        elif rng.random() < 0.3:
            sql, new, test = "CAST(NULL AS INT)", {"type": "int32", "nullable": True}, lambda v: None
        else:
            sql, new, test = f"{old} IS NULL", {"type": "bool", "nullable": False}, lambda v: v is None
        at = self.columns.index(c)
        self.add_column({"name": name, **new}, [test(row[at]) for row in self.rows])
        return {"op": "add_sql", "name": name, "sql": sql}, {"answer": None}

    def do_add_nulls(self, rng):
        name = self.fresh_name(rng)
        kind = rng.choice([k for k in TYPE_TEXT if self.storage != "2.0" or k != "point"])
        if name is None:
            return None
        self.add_column({"name": name, "type": kind, "nullable": True}, [None] * len(self.rows))
        return {"op": "add_nulls", "name": name, "type": kind}, {"answer": None}

    def do_add_values(self, rng):
        name = self.fresh_name(rng)
        if name is None or not self.ordered or not self.rows:
            return None
        c = {"name": name, "type": rng.choice(list(TYPE_TEXT)), "nullable": True}
        values = self.make_rows(rng, [c], len(self.rows), 0)
        self.add_column(c, [row[0] for row in values])
        return {"op": "add_values", "columns": [c], "rows": values, "chunk": rng.choice([3, 1000])}, {"answer": None}

    def do_join(self, rng):
        name = self.fresh_name(rng)
        if name is None:
            return None
        c = {"name": name, "type": rng.choice(["int32", "string", "float64"]), "nullable": True}
        uids = [self.as_dict(row)["uid"] for row in self.rows]
        keys = sorted(rng.sample(uids, len(uids) // 2)) + [99_999_999]
        values = {key: random_value(rng, c) for key in keys}
        self.add_column(c, [values.get(uid) for uid in uids])
        return {"op": "join", "columns": [{"name": "uid", "type": "int64", "nullable": False}, c], "rows": [[k, v] for k, v in values.items()]}, {"answer": None}

    def do_drop(self, rng):
        if len(self.columns) < 3:
            return None
        at = rng.randrange(1, len(self.columns))
        name = self.columns[at]["name"]
        if name == "uid":
            return None
        self.columns = self.columns[:at] + self.columns[at + 1:]
        self.rows = [row[:at] + row[at + 1:] for row in self.rows]
        return {"op": "drop", "name": name}, {"answer": None}

    def do_alter(self, rng):
        c = rng.choice([c for c in self.columns if c["name"] != "uid"])
        new, change = dict(c), {}
        how = rng.choice(["rename", "cast", "nullable"])
        if how == "rename":
            fresh = self.fresh_name(rng)
            if fresh is None:
                return None
            new["name"] = change["name"] = fresh
        elif how == "cast" and c["type"] in INTS:
            new["type"] = change["data_type"] = "int64" if c["type"] == "int32" else "int32"
        elif how == "nullable" and not c["nullable"]:
            new["nullable"] = change["nullable"] = True
        else:
            return None
        self.columns = [new if o is c else o for o in self.columns]
        return {"op": "alter", "name": c["name"], "change": change}, {"answer": None}

    # ---- upkeep ----

    def do_compact(self, rng):
        return {"op": "compact", "target": rng.choice([5, 20, 100, 1000]), "threshold": rng.choice([0.0, 0.1, 0.5])}, {"reorders": True}

    def take_order(self, uids):
        """Rows of a table with its fragments in another order."""
        at = self.names().index("uid")
        place = {uid: i for i, uid in enumerate(uids)}
        if sorted(place) == sorted(row[at] for row in self.rows):
            self.rows = sorted(self.rows, key=lambda row: place[row[at]])

    def do_restore(self, rng):
        version = rng.choice(sorted(self.history))
        self.columns, self.rows, self.ordered = copy.deepcopy(self.history[version])
        return {"op": "restore", "version": version}, {"answer": None}

    def do_old(self, rng):
        version = rng.choice(sorted(self.history))
        return {"op": "old", "version": version}, {}

    def do_tag(self, rng):
        name, version = rng.choice(["x", "y"]), rng.choice(sorted(self.history))
        how = rng.choice(["update", "delete"]) if name in self.tags else "create"
        if how == "delete":
            del self.tags[name]
        else:
            self.tags[name] = version
        return {"op": "tag", "how": how, "name": name, "version": version}, {"answer": None}

    def do_cleanup(self, rng):  # pylint: disable=unused-argument
        keep = {max(self.history), *self.tags.values()}
        self.history = {version: state for version, state in self.history.items() if version in keep}
        return {"op": "cleanup"}, {"answer": None}


def random_program(seed, steps):
    rng = random.Random(seed)
    kinds, often = list(KINDS), list(KINDS.values())
    return {"seed": seed, "storage": rng.choice(["2.0", "2.1", "2.2"]), "stable": rng.random() < 0.5,
            "steps": [["create", rng.randrange(1 << 30)]] + [[rng.choices(kinds, often)[0], rng.randrange(1 << 30)] for _ in range(steps - 1)]}
