# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Programs of world.py on three tables in lock step: one that Pennon writes, one that official writes, and one on which they take turns. After
each step all three are read by both, and must be what the model is.

Usage: lockstep.py PYTHON_WITH_PENNON [--steps N] [--programs N] [--seed N] [--keep FOLDER]   (run by a Python with pylance)
A program that fails is shrunk; it is printed, and kept in FOLDER."""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
READS = ("old", "tag")


class Difference(AssertionError):
    pass


class Process:
    def __init__(self, python, module):
        env = dict(os.environ, LANCE_LOG="error", PYTHONWARNINGS="ignore")
        self.p = subprocess.Popen([python, os.path.join(HERE, "engine.py"), module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, op):
        try:
            self.p.stdin.write(json.dumps(op) + "\n")
            self.p.stdin.flush()
            line = self.p.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Difference(f"the process is gone at {op}")
        return json.loads(line)

    def close(self):
        self.p.stdin.close()
        self.p.wait()


class Engines:
    def __init__(self, pennon_python):
        self.by_name = {"pennon": Process(pennon_python, "pennon"), "lance": Process(sys.executable, "lance")}

    def close(self):
        for process in self.by_name.values():
            process.close()


def brief(value):
    text = json.dumps(value)
    return text if len(text) < 600 else text[:600] + " …"


def first_difference(got, want):
    if isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
        for i, (x, y) in enumerate(zip(got, want)):
            if x != y:
                return f"at {i}: {brief(x)}", brief(y)
    return brief(got), brief(want)


def check(what, got, want):
    if got != want:
        got, want = first_difference(got, want)
        raise Difference(f"{what}: {got}\n    expected: {want}")


class Run:
    """A program on its three tables."""

    def __init__(self, engines, program, folder, log=None):
        self.engines, self.program, self.folder, self.log = engines.by_name, program, folder, log
        self.world = world.World(program)
        self.turns = random.Random(program["seed"])
        self.tables = {name: os.path.join(folder, name) for name in ("pennon", "lance", "turns")}
        self.row_ids = {name: {} for name in self.tables}
        self.counts = {}

    def carry_out(self, op, expect):
        answers = {}
        for table, path in self.tables.items():
            engine = self.turns.choice(["pennon", "lance"]) if table == "turns" else table
            answers[table] = self.engines[engine].ask({**op, "path": path})
            if "error" in answers[table] and not expect.get("error"):
                raise Difference(f"{engine} on table '{table}': {answers[table]['error']}")
            if "error" not in answers[table] and expect.get("error"):
                raise Difference(f"{engine} on table '{table}' took what must fail: {brief(answers[table])}")
            if "answer" in expect:
                check(f"what {engine} tells on table '{table}'", answers[table]["ok"], expect["answer"])
        if "answer" not in expect and "error" not in expect:
            check("what Pennon tells", answers["pennon"], answers["lance"])

    def compare(self, version=None):
        """All tables, read by both, with the model; the version that they are at."""
        columns, rows, ordered = self.world.history[version] if version else self.world.state()
        names = [c["name"] for c in columns]
        states = {}
        for table, path in self.tables.items():
            for reader, process in self.engines.items():
                answer = process.ask({"op": "state", "path": path, "stable": self.program["stable"], "version": version})
                what = f"table '{table}' read by {reader}"
                if "error" in answer:
                    raise Difference(f"{what}: {answer['error']}")
                state = states[table, reader] = answer["ok"]
                check(f"{what}, schema", state["schema"], [[c["name"], world.TYPE_TEXT[c["type"]], c["nullable"]] for c in columns])
                at = names.index("uid")
                got = state["rows"] if ordered else sorted(state["rows"], key=lambda row: row[at])
                check(f"{what}, rows", got, rows if ordered else sorted(rows, key=lambda row: row[at]))
                check(f"{what}, version", state["version"], states["pennon", "pennon"]["version"])
                self.check_numbers(table, what, state, at)
        for table in self.tables:
            check(f"table '{table}' read by lance and by Pennon", states[table, "lance"], states[table, "pennon"])
        check("rows of fragments", states["pennon", "pennon"]["fragments"], states["lance", "pennon"]["fragments"])
        return states["pennon", "pennon"]["version"]

    def check_numbers(self, table, what, state, at):
        """Stable row ids stay; versions of rows are the same on all tables."""
        if not self.program["stable"]:
            return
        stamps = {}
        for row, (row_id, created, updated) in zip(state["rows"], state["numbers"]):
            known = self.row_ids[table].setdefault(row[at], row_id)
            check(f"{what}, row id of uid {row[at]}", row_id, known)
            stamps[row[at]] = [created, updated]
        key = (state["version"], "stamps")
        check(f"{what}, versions of rows", stamps, self.counts.setdefault(key, stamps))

    def take_order(self):
        answer = self.engines["pennon"].ask({"op": "state", "path": self.tables["pennon"], "stable": self.program["stable"]})
        if "ok" in answer and self.world.ordered:
            at = self.world.names().index("uid")
            self.world.take_order([row[at] for row in answer["ok"]["rows"]])

    def listings(self):
        got = [process.ask({"op": "versions", "path": path}) for path in self.tables.values() for process in self.engines.values()]
        for one in got:
            check("versions and tags", one, got[0])
        check("tags", got[0]["ok"]["tags"], self.world.tags)

    def step(self, kind, number):
        before = self.world.state()
        resolved = self.world.resolve(kind, number)
        if resolved is None:
            self.world.columns, self.world.rows, self.world.ordered = before
            return
        op, expect = resolved
        if self.log:
            self.log(f"{kind} {number}: {brief(op)}")
        if expect.get("error"):
            self.world.columns, self.world.rows, self.world.ordered = before
        if kind != "old":
            self.carry_out(op, expect)
        if kind in ("old", "tag"):
            self.compare(op["version"])
        else:
            if expect.get("reorders"):
                self.take_order()
            self.counts = {key: stamps for key, stamps in self.counts.items() if key[0] in self.world.history}
            self.world.note(self.compare())
        if kind in ("tag", "cleanup", "restore", "compact"):
            self.listings()

    def run(self):
        for i, (kind, number) in enumerate(self.program["steps"]):
            try:
                self.step(kind, number)
            except Difference as difference:
                raise Difference(f"step {i}, {kind} {number}: {difference}") from None


def failure_of(engines, program, log=None):
    """The text of the difference, or None."""
    with tempfile.TemporaryDirectory(prefix="pennon-model-") as folder:
        try:
            Run(engines, program, folder, log).run()
        except Difference as difference:
            return str(difference)
    return None


def shrink(engines, program, seconds=120):
    """Fewer steps that still make a difference."""
    end, steps, size = time.monotonic() + seconds, program["steps"], max(len(program["steps"]) // 2, 1)
    while size and time.monotonic() < end:
        at = 1
        while at < len(steps) and time.monotonic() < end:
            fewer = steps[:at] + steps[at + size:]
            if failure_of(engines, {**program, "steps": fewer}):
                steps = fewer
            else:
                at += size
        size //= 2
    return {**program, "steps": steps}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("python")
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--programs", type=int, default=20)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keep")
    options.add_argument("--replay", help="a program in a file")
    args = options.parse_args()
    engines, failed = Engines(args.python), 0
    if args.replay:
        with open(args.replay, encoding="utf-8") as f:
            program = json.load(f)
        text = failure_of(engines, program, print)
        print(text or "no difference")
        sys.exit(1 if text else 0)
    begun = time.monotonic()
    for seed in range(args.seed, args.seed + args.programs):
        if sys.stderr.isatty():
            done, spent = seed - args.seed, time.monotonic() - begun
            left = f", {spent / done * (args.programs - done):.0f} s left" if done else ""
            print(f"\r{done} of {args.programs} programs, {failed} failed{left}   ", end="", file=sys.stderr, flush=True)
        program = world.random_program(seed, args.steps)
        text = failure_of(engines, program)
        if text is None:
            continue
        failed += 1
        print(f"program {seed}: {text}", flush=True)
        engines.close()
        engines = Engines(args.python)
        small = shrink(engines, program)
        print(f"    shrunk to {len(small['steps'])} steps: {failure_of(engines, small)}\n    {json.dumps(small)}", flush=True)
        if args.keep:
            os.makedirs(args.keep, exist_ok=True)
            with open(os.path.join(args.keep, f"program-{seed}.json"), "w", encoding="utf-8") as f:
                json.dump(small, f, indent=1)
    engines.close()
    print(f"{args.programs * args.steps} steps in {args.programs} programs: {args.programs - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
