# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Many processes with mixed work on one local table, Pennon and official Lance together; then a model of the table checks every version.

A version is what its transaction makes of the one before: an append adds one batch of one writer, which no other version adds; a delete takes away
rows that its predicate names and no others; an update changes the rows it meant by one and no row else; a merge leaves all rows of its writer with one value; compaction and
configuration change no row; a restore gives the rows of the version it names. What a writer was told is true: a success is in the history once, a
refusal is not.

PENNON_RACE_SECONDS says how long the writers run (default 60).
"""
import json
import os
import subprocess
import sys

import pyarrow as pa

import oracle
import pennon

SECONDS = float(os.environ.get("PENNON_RACE_SECONDS", "60"))
ROWS = 7          # of a batch
SPAN = 1 << 20    # ids of a writer: [number * SPAN, ...)

# Each role is a loop of its own process. It prints a line for every call: JSON [what it tried, "ok" | "conflict" | "failed", message].
OURS = """
import json, random, subprocess, sys, time
import pyarrow as pa
command, role, number, uri, folder, seconds, rows = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:6], float(sys.argv[6]), int(sys.argv[7])
span = 1 << 20

def run(what, *args):
    done = subprocess.run(command + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    how = {0: "ok", 5: "conflict"}.get(done.returncode, "failed")
    print(json.dumps([what, how, done.stderr[-400:]]), flush=True)
    return done.stdout

sys.stdin.readline()
end, turn = time.monotonic() + seconds, 0
while time.monotonic() < end:
    if role == "append":
        first = number * span + turn * rows
        path = f"{folder}/batch-{number}.arrow"
        ids = pa.array(range(first, first + rows), pa.int64())
        table = pa.table({"id": ids, "v": pa.array([0] * rows, pa.int64())})
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        run(["append", first], "write", uri, path, "--mode", "append", "--sync", "none")
        time.sleep(random.random() * 0.6)
    elif role == "config":
        run(["config", turn], "config", "set", uri, f"race.{number}={turn}")
    elif role == "delete":
        run(["delete", turn % 97], "delete", uri, "--where", f"id % 97 = {turn % 97}")
        time.sleep(0.2)
    elif role == "update":
        run(["update", turn % 89], "update", uri, "--set", "v=v + 1", "--where", f"id % 89 = {turn % 89}")
        time.sleep(0.2)
    elif role == "compact":
        run(["compact"], "compact", uri)
        time.sleep(0.4)
    elif role == "merge":
        path = f"{folder}/merge-{number}.arrow"
        table = pa.table({"v": pa.array([1000 * turn] * rows, pa.int64()), "id": pa.array(range(number * span, number * span + rows), pa.int64())})
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        run(["merge", turn], "merge", uri, path, "--on", "id", "--sync", "none")
        time.sleep(0.2)
    elif role == "tag":
        run(["tag", turn], "tag", "create", uri, f"t-{number}-{turn}")
        time.sleep(0.05)
    elif role == "restore":
        time.sleep(seconds / 9)
        latest = json.loads(run(["info"], "info", uri, "--json"))["version"]
        run(["restore", max(1, latest - 3)], "restore", uri, "--version", str(max(1, latest - 3)))
    turn += 1
"""

OFFICIAL = """
import json, random, sys, time
import lance, pyarrow as pa
role, number, uri, seconds, rows = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), int(sys.argv[5])
span = 1 << 20

def attempt(what, call):
    try:
        call()
        how, text = "ok", ""
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:400]
        how = "conflict" if any(word in text for word in ("onflict", "ncompatible", "ontention", "preempted", "oo many concurrent")) else "failed"
    print(json.dumps([what, how, text]), flush=True)

sys.stdin.readline()
end, turn = time.monotonic() + seconds, 0
while time.monotonic() < end:
    if role == "append":
        first = number * span + turn * rows
        table = pa.table({"id": pa.array(range(first, first + rows), pa.int64()), "v": pa.array([0] * rows, pa.int64())})
        attempt(["append", first], lambda: lance.write_dataset(table, uri, mode="append"))
        time.sleep(random.random() * 0.6)
    elif role == "delete":
        attempt(["delete", turn % 97], lambda: lance.dataset(uri).delete(f"id % 97 = {turn % 97}"))
        time.sleep(0.2)
    elif role == "update":
        attempt(["update", turn % 89], lambda: lance.dataset(uri).update({"v": "v + 1"}, where=f"id % 89 = {turn % 89}"))
        time.sleep(0.2)
    elif role == "merge":
        table = pa.table({"id": pa.array(range(number * span, number * span + rows), pa.int64()), "v": pa.array([1000 * turn] * rows, pa.int64())})
        attempt(["merge", turn], lambda: lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(table))
        time.sleep(0.2)
    elif role == "compact":
        attempt(["compact"], lambda: lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1 << 20))
        time.sleep(0.5)
    elif role == "config":
        attempt(["config", turn], lambda: lance.dataset(uri).update_config({f"race.{number}": str(turn)}))
        time.sleep(0.1)
    turn += 1
"""

ROLES = [("ours", "append")] * 6 + [("ours", "config"), ("ours", "tag"), ("ours", "restore"), ("ours", "delete"), ("ours", "update"), ("ours", "compact")] + \
    [("ours", "merge")] * 2 + [("official", "merge")] + \
    [("official", "append")] * 3 + [("official", role) for role in ("delete", "update", "compact", "config")]


MERGERS = {number for number, (_, role) in enumerate(ROLES) if role == "merge"}


def start(number, who, role, uri, folder):
    if who == "ours":
        argv = [sys.executable, "-c", OURS, json.dumps(pennon.command()), role, str(number), uri, folder, str(SECONDS), str(ROWS)]
    else:
        argv = [oracle.python_of("v8"), "-c", OFFICIAL, role, str(number), uri, str(SECONDS), str(ROWS)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def race(tmp_path, uri):
    """[(who, role, [calls])] of all writers."""
    processes = [start(n, who, role, uri, str(tmp_path)) for n, (who, role) in enumerate(ROLES)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    out = []
    for (who, role), process in zip(ROLES, processes):
        text, errors = process.communicate(timeout=SECONDS * 4 + 240)
        assert process.returncode == 0, f"{who} {role}: {errors[-2000:]}"
        out.append((who, role, [json.loads(line) for line in text.splitlines()]))
    return out


class Model:
    """Goes through the versions; what does not follow from the version before is a finding."""

    def __init__(self, uri):
        self.uri, self.rows, self.findings, self.appended = uri, {}, [], {}

    def read(self, version):
        table = pennon.scan(self.uri, version=version)
        ids, values = table.column("id").to_pylist(), table.column("v").to_pylist()
        rows = dict(zip(ids, values))
        if len(rows) != len(ids):
            self.say(version, f"{len(ids) - len(rows)} rows are doubled")
        return rows

    def say(self, version, text):
        self.findings.append(f"version {version}: {text}")

    def step(self, version, operation):
        now, before = self.read(version), self.rows[version - 1]
        self.rows[version] = now
        kind = operation["type"]
        if kind == "Append":
            self.append(version, now, before)
        elif kind == "Delete":
            self.delete(version, now, before, operation)
        elif kind == "Update":
            self.update(version, now, before)
        elif kind == "Restore":
            if now != self.rows[operation["version"]]:
                self.say(version, f"is not version {operation['version']}, which it restores")
        elif kind in ("Rewrite", "ReserveFragments", "UpdateConfig"):
            if now != before:
                self.say(version, f"{kind} changed rows")
        else:
            self.say(version, f"nobody makes a {kind}")

    def append(self, version, now, before):
        new = sorted(set(now) - set(before))
        first = new[0] if new else None
        if len(new) != ROWS or new != list(range(first, first + ROWS)) or any(now[i] != 0 for i in new):
            self.say(version, f"an append of {new[:9]}")
        elif first in self.appended:
            self.say(version, f"the batch {first} was appended by version {self.appended[first]} already")
        else:
            self.appended[first] = version
        if any(now.get(i) != v for i, v in before.items()):
            self.say(version, "an append changed other rows")

    def delete(self, version, now, before, operation):
        gone = set(before) - set(now)
        part = int(operation.get("predicate", "").split("=")[-1].strip() or -1)
        if any(i % 97 != part for i in gone):
            self.say(version, f"deleted rows that are not id % 97 = {part}")
        if any(before.get(i) != v for i, v in now.items()):
            self.say(version, "a delete changed other rows")

    def update(self, version, now, before):
        others = {i // SPAN for i in now if now[i] != before.get(i)}
        if len(others) == 1 and others <= MERGERS and set(before) <= set(now):
            first = others.pop() * SPAN
            if len({now.get(i) for i in range(first, first + ROWS)}) == 1:
                return
        if set(now) != set(before):
            self.say(version, f"an update lost {len(set(before) - set(now))} rows and made {len(set(now) - set(before))}")
        changed = {i for i in now if i in before and now[i] != before[i]}
        if len({i % 89 for i in changed}) > 1 or any(now[i] != before[i] + 1 for i in changed):
            self.say(version, f"an update of {sorted(changed)[:9]}")


def transaction(uri, version):
    return pennon.as_json("transaction", uri, "--version", version)


def test_model_of_every_version(tmp_path):
    uri = str(tmp_path / "t.lance")
    table = pa.table({"id": pa.array(range(-ROWS, 0), pa.int64()), "v": pa.array([0] * ROWS, pa.int64())})
    base = tmp_path / "base.arrow"
    with pa.OSFile(str(base), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    pennon.write(uri, base)
    calls = race(tmp_path, uri)
    model = Model(uri)
    model.rows[1] = model.read(1)
    latest = pennon.as_json("info", uri)["version"]
    for version in range(2, latest + 1):
        model.step(version, transaction(uri, version)["operation"])
    failed = [(who, role, call) for who, role, made in calls for call in made if call[1] == "failed"]
    told = {call[0][1]: call[1] for _, role, made in calls if role == "append" for call in made}
    lost = [first for first, how in told.items() if how == "ok" and first not in model.appended]
    ghosts = [first for first, how in told.items() if how == "conflict" and first in model.appended]
    done = {f"{n} {who} {role}": sum(call[1] == "ok" for call in made) for n, (who, role, made) in enumerate(calls)}
    print(f"{latest} versions in {SECONDS:.0f} s; calls that succeeded: {done}")
    assert not model.findings, "\n".join(model.findings[:30])
    assert not failed, failed[:9]
    assert not lost, f"told ok, and not there: {lost[:9]}"
    assert not ghosts, f"told of a conflict, and there: {ghosts[:9]}"
    idle = [name for name, n in done.items() if n == 0]
    assert not idle, f"never succeeded: {idle}"
    pennon.run("verify", uri)
    script = "import sys, lance; d = lance.dataset(sys.argv[1]); d.validate(); print(d.count_rows(), d.version)"
    for who in oracle.NAMES:
        theirs = subprocess.run([oracle.python_of(who), "-c", script, uri], capture_output=True, text=True, check=True).stdout
        assert theirs.split() == [str(len(model.rows[latest])), str(latest)], who
