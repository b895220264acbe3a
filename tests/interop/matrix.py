# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Runs the groups of the matrix in both directions and keeps a verdict for each case.

Reading (official writes, Pennon reads): scan, takes and file-level scan equal what the writing release returns.
Writing (Pennon writes, official reads): both releases validate the table and return what was written.
"Hard" cases, those with which some release has trouble (official_refusals.json), are written alone by Pennon:
either it refuses them cleanly, or every release that does not refuse the type returns exactly what was written.
A group that fails as a whole is tried again column by column, so that one bad column does not hide the others.

What official wrote and returned is kept under build/interop/cache, by a digest of the cases and of this code.
"""
import hashlib
import json
import os
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import cases
import lance_bytes
import oracle
import pennon
import refusals
from arrow_diff import diff_array, diff_column, diff_schema, one

ROOT = oracle.ROOT / "build" / "interop"
CACHE = "cache"
MAX_LINES = 4


def load(path):
    # Read, not mapped: some of these files are written again while their tables are still in use.
    with pa.ipc.open_stream(pa.OSFile(str(path))) as reader:
        return reader.read_all()


def _digest():
    here = Path(__file__).parent
    text = b"".join((here / name).read_bytes() for name in ("cases.py", "official_ops.py", "official_refusals.json"))
    return hashlib.sha256(text).hexdigest()[:12]


def column_bytes(table):
    """{top-level column: bytes of its page buffers, levels and dictionaries included} of a table's latest version."""
    manifest = lance_bytes.latest(table).manifest
    top, names = {}, {}
    for field in manifest.get("fields", []):
        parent = field.get("parent_id", 0)
        top[field.get("id", 0)] = field.get("id", 0) if parent == -1 else top[parent]
        if parent == -1:
            names[field.get("id", 0)] = field["name"]
    out, layouts = {name: 0 for name in names.values()}, {name: [] for name in names.values()}
    for fragment in manifest.get("fragments", []):
        for entry in fragment.get("files", []):
            file = lance_bytes.DataFile(os.path.join(table, "data", entry["path"]))
            for field_id, column in zip(entry.get("fields", []), entry.get("column_indices", [])):
                name = names[top[field_id]]
                pages = file.columns[column]["pages"]
                out[name] += sum(size for page in pages for _, size in page["buffers"])
                layouts[name] += file.layouts(column)
    return out, layouts


def row_sets(n, seed):
    """Lists of rows to take: borders of chunks, random, repeated and reversed, and many at once."""
    rng = np.random.default_rng(seed)
    border = [i for i in (0, 1, 63, 64, 255, 256, 1022, 1023, 1024, 1025, 4095, 4096, n // 2, n - 2, n - 1) if 0 <= i < n]
    some = [int(i) for i in rng.integers(0, n, min(n, 37))]
    out = [border, some[::-1] + some[:3] + [n - 1, 0, n - 1]]
    if n > 1000:
        out.append(sorted({int(i) for i in rng.integers(0, n, 500)}))
    return out


class Run:
    """One group, both directions. verdicts: {case id: {"read": [...], "write": [...], "size": (...)}}."""

    def __init__(self, group, oracles, strict):
        self.group, self.oracles, self.strict = group, oracles, strict
        self.by_name = dict(zip(group.names, group.cases))
        self.verdicts = {case.id: {"read": [], "write": [], "size": None} for case in group.cases}
        digest = hashlib.sha256("\n".join(case.id for case in group.cases).encode()).hexdigest()[:12]
        self.folder = ROOT / CACHE / _digest() / f"{group.id}-{digest}"
        self.work = ROOT / "work" / f"{group.id}-{digest}-{os.getpid()}"
        self.official = {}

    def say(self, name, direction, text):
        lines = self.verdicts[self.by_name[name].id][direction]
        if len(lines) < MAX_LINES:
            lines.append(text)

    def run(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        try:
            self.prepare()
            if cases.pennon_refuses(self.group.cases[0]) and self.group.cases[0].kind in cases.ALONE:
                if self.group.rows:
                    name = self.group.names[0]
                    self.refused_by_rule(name, lambda: self.pennon_writes([name], str(self.work / "refused")))
                return self.verdicts
            for who in oracle.NAMES:
                self.read(who)
            for name, case in self.by_name.items():
                self.verdicts[case.id]["refused"] = any(name not in self.official[who]["readable"] for who in oracle.NAMES)
            self.write_easy()
            self.write_hard()
            for name, case in self.by_name.items():
                if cases.pennon_refuses(case) and self.group.rows:
                    self.refused_by_rule(name, lambda name=name: self.pennon_writes([name], str(self.work / "refused")))
        except Exception as error:  # a fault of the harness or of official: every case of the group tells it
            text = f"the group {self.group.id} could not be run: {type(error).__name__}: {error}"[:800]
            for case in self.group.cases:
                self.verdicts[case.id]["read"].append(text)
                self.verdicts[case.id]["write"].append(text)
        finally:
            if not os.environ.get("PENNON_KEEP"):
                shutil.rmtree(self.work, ignore_errors=True)
        return self.verdicts

    # -- official's side ---------------------------------------------------------------------------------------

    def prepare(self):
        """in.arrow, and per release a dataset, the table it returns, and what it refused."""
        self.input = self.folder / "in.arrow"
        if not self.input.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            temporary = self.folder / f"in.{threading.get_ident()}"
            self.group.save(temporary)
            temporary.rename(self.input)
        self.source = cases.plain(load(self.input))
        for who in oracle.NAMES:
            note = self.folder / f"{who}.json"
            if not note.exists():
                note.write_text(json.dumps(self.official_writes(who)))
            self.official[who] = json.loads(note.read_text())
            for name, reason in self.official[who]["surprises"].items():
                self.say(name, "read", f"{who} differs from official_refusals.json: {reason}")

    def official_writes(self, who):
        stages = {name: refusals.stage(case.id, who) for name, case in self.by_name.items()}
        written = [name for name in self.group.names if stages[name] != "write"]
        surprises, uri, official = {}, str(self.folder / who), self.oracles.get(who)

        def attempt(names, where):
            shutil.rmtree(where, ignore_errors=True)
            official.write(uri=where, ipc=str(self.input), columns=names, storage=self.group.version,
                           **self.group.write_options(len(names)))

        try:
            attempt(written, uri)
        except oracle.Refused:
            good = []
            for name in written:
                try:
                    attempt([name], str(self.work / "alone"))
                    good.append(name)
                except oracle.Refused as error:
                    if self.strict:
                        surprises[name] = f"refuses to write: {error}"
            written = good
            if written:
                attempt(written, uri)
        if not written:
            return {"written": [], "readable": [], "surprises": surprises}
        readable = [name for name in written if stages[name] not in ("read", "invalid")]
        out = str(self.folder / f"{who}.arrow")
        try:
            official.scan(uri=uri, out=out, columns=readable)
        except oracle.Refused:
            good = []
            for name in readable:
                try:
                    official.scan(uri=uri, out=out, columns=[name])
                    good.append(name)
                except oracle.Refused as error:
                    if self.strict:
                        surprises[name] = f"cannot read its own file: {error}"
            readable = good
            if readable:
                official.scan(uri=uri, out=out, columns=readable)
        if not readable:
            return {"written": written, "readable": [], "surprises": surprises}
        got = load(out)
        changed = []
        for name in readable:  # official itself must agree with the input where the table does not say otherwise
            if stages[name] is None and not cases.own_text(self.by_name[name].kind):
                found = diff_column(self.source, got, name)
                if found and self.strict:
                    surprises[name] = f"returns other values than were written: {found}"
                elif found:
                    changed.append(name)
        return {"written": written, "readable": readable, "changed": changed, "surprises": surprises}

    # -- official writes, Pennon reads -------------------------------------------------------------------------

    def read(self, who):
        state, uri = self.official[who], str(self.folder / who)
        names = state["readable"]
        for name in set(state["written"]) - set(names):
            self.read_hard(who, name)
        names = [name for name in names if name not in state.get("changed", []) or self.can_be_read(who, name)]
        if not names:
            return
        want = self.nulls_of_blobs(who, load(self.folder / f"{who}.arrow")).select(names)
        # Where official does not read back what was written, that may stand there as well.
        other = pa.table({name: one(self.source.column(name)) for name in state.get("changed", [])})
        whole = names == state["written"]
        got = self.each("read", f"scan of {who}", names, lambda some: pennon.scan(uri, columns=None if some is names and whole else some))
        self.compare("read", f"scan of {who}", want, got, other=other)
        if isinstance(got, pa.Table) and whole and got.num_columns == want.num_columns:
            found = diff_schema(want.schema, got.schema)
            if found:
                self.say(names[0], "read", f"schema of {who}: {found}")
        columns = {name: one(want.column(name)) for name in names}
        for i, rows in enumerate(row_sets(self.group.rows, len(names)) if self.group.rows else []):
            some = pa.table({name: array.take(pa.array(rows)) for name, array in columns.items()})
            got = self.each("read", f"take of {who}", names, lambda part, rows=rows: pennon.take(
                uri, rows=rows, columns=None if part is names and whole else part), retry=i == 0)
            self.compare("read", f"take {rows[:6]}… of {who}", some, got, fields=False, other=other.take(pa.array(rows)) if other.num_columns else other)
        self.bytes_of_blobs("read", who, uri, names)
        self.read_file(who)

    def bytes_of_blobs(self, direction, whose, uri, names):
        """Blob columns as bytes, by scan and by take, against what was written."""
        names = [n for n in names if "blob" in self.by_name[n].kind]
        if not names:
            return
        columns = {n: cases.payloads(self.by_name[n].kind, one(self.source.column(n))) for n in names}
        got = self.each(direction, f"bytes of {whose}", names, lambda some: pennon.scan(uri, columns=some, blobs="bytes"))
        self.compare(direction, f"bytes of {whose}", pa.table(columns), got, fields=False)
        for rows in row_sets(self.group.rows, 3)[:2] if self.group.rows else []:
            some = pa.table({n: array.take(pa.array(rows)) for n, array in columns.items()})
            got = self.each(direction, f"bytes of {whose}, taken", names, lambda part, rows=rows: pennon.take(uri, columns=part, blobs="bytes", rows=rows))
            self.compare(direction, f"bytes of {whose}, taken", some, got, fields=False)

    def nulls_of_blobs(self, who, table):
        """Pennon shows a null blob as null. 8.0.0 shows a null blob v2 as a struct of zeros, and 2.0 files give {1, 0} for a null blob."""
        for i, name in enumerate(table.schema.names):
            kind = self.by_name[name].kind
            if kind == "blob" and self.group.version == "2.0":
                here = one(table.column(name))
                fixed = pc.if_else(one(self.source.column(name)).is_valid(), here, pa.scalar(None, here.type))
                table = table.set_column(i, table.schema.field(name), fixed)
            elif kind in cases.BLOBS_V2 and who == "v8":
                here, there = one(table.column(name)), one(self.source.column(name))
                if kind == "blobv2":
                    fixed = pc.if_else(there.is_valid(), here, pa.scalar(None, here.type))
                else:
                    inner = pc.if_else(there.field("b").is_valid(), here.field("b"), pa.scalar(None, here.type.field("b").type))
                    fixed = pa.StructArray.from_arrays([here.field("id"), inner], fields=list(here.type), mask=here.is_null())
                table = table.set_column(i, table.schema.field(name), fixed)
        return table

    def read_file(self, who):
        """One data file alone against official's file reader."""
        if self.group.rows == 0 or self.group.batches != "one":
            return
        state, uri = self.official[who], self.folder / who
        if state["readable"] != state["written"] or state.get("changed"):
            return
        files = list((uri / "data").glob("*.lance"))
        out = str(self.folder / f"{who}-file.arrow")
        if not os.path.exists(out):
            try:
                self.oracles.get(who).file_scan(path=str(files[0]), out=out)
            except oracle.Refused:
                return  # official's file reader is poorer than its table reader
        want = load(out)
        got = self.each("read", f"file scan of {who}", want.schema.names, lambda some: pennon.scan(str(files[0]), file=True), retry=False)
        names = [n for n in want.schema.names if "blob" not in self.by_name[n].kind]  # places in one file are no values
        other = pa.table({name: one(self.source.column(name)) for name in state.get("changed", [])})
        self.compare("read", f"file scan of {who}", want.select(names), got, fields=False, other=other)

    def can_be_read(self, who, name):
        """A column that official does not read back as it was written: its pages may be broken, and refused."""
        try:
            pennon.scan(str(self.folder / who), columns=[name])
            return True
        except pennon.Failed as error:
            if error.crashed:
                self.say(name, "read", f"scan of {who}: {error}")
            return False

    def read_hard(self, who, name):
        """A column that official cannot read back from its own file: the right values or a clean refusal."""
        if refusals.stage(self.by_name[name].id, who) == "invalid":
            return  # the file holds wrong values
        try:
            got = pennon.scan(str(self.folder / who), columns=[name])
        except pennon.Failed as error:
            if error.crashed:
                self.say(name, "read", f"scan of {who}: {error}")
            return
        found = diff_array(one(self.source.column(name)), one(got.column(name)), name)
        if found:
            self.say(name, "read", f"scan of {who} (official cannot read this): {found}")

    def refused_by_rule(self, name, action):
        """A clean refusal that leaves nothing behind is wanted."""
        try:
            action()
            self.say(name, "write", "Pennon's rule is to refuse this kind, but it was accepted")
        except pennon.Failed as error:
            if error.crashed:
                self.say(name, "write", f"does not refuse cleanly: {error}")
            elif os.path.isdir(str(self.work / "refused" / "_versions")):
                self.say(name, "write", "refused, but left a version behind")

    def each(self, direction, what, names, call, retry=True):
        """call(names), or if that fails {name: table} of the columns that work alone."""
        try:
            return call(names)
        except (pennon.Failed, pa.ArrowException, OSError) as error:
            if not retry or len(names) == 1:
                for name in names:
                    self.say(name, direction, f"{what}: {error}")
                return {}
        out = {}
        for name in names:
            try:
                out[name] = call([name])
            except (pennon.Failed, pa.ArrowException, OSError) as error:
                self.say(name, direction, f"{what}: {error}")
        if len(out) == len(names):
            self.say(names[0], direction, f"{what}: fails for all columns together, works for each alone")
        return out

    def compare(self, direction, what, want, got, fields=True, other=None):
        for name in want.schema.names:
            table = got if isinstance(got, pa.Table) else got.get(name)
            if table is None:
                continue
            if name not in table.schema.names:
                self.say(name, direction, f"{what}: column is missing")
                continue
            try:
                found = diff_column(want, table, name) if fields else diff_array(one(want.column(name)), one(table.column(name)), name)
            except pa.ArrowException as error:
                found = f"{name}: cannot be compared: {error}"
            if found and other is not None and name in other.schema.names:
                found = diff_array(one(other.column(name)), one(table.column(name)), name) and found
            if found:
                self.say(name, direction, f"{what}: {found}")

    # -- Pennon writes, official reads -------------------------------------------------------------------------

    def hard(self, name):
        case = self.by_name[name]
        if case.rows == 0 and case.version < "2.2" and case.kind.startswith(("map", "fsl_struct")):
            return True  # without rows there is no data file, so official accepts a type that the version cannot hold
        return any(refusals.stage(case.id, who) or name not in self.official[who]["readable"] or name in self.official[who].get("changed", [])
                   for who in oracle.NAMES)

    def part(self, names):
        """An IPC stream file with some of the columns, in the batches of the group."""
        path = self.work / f"part-{abs(hash(tuple(names))):x}.arrow"
        if not path.exists():
            with pa.ipc.open_stream(pa.memory_map(str(self.input))) as reader, pa.OSFile(str(path), "wb") as sink:
                schema = pa.schema([reader.schema.field(n) for n in names], reader.schema.metadata)
                with pa.ipc.new_stream(sink, schema) as writer:
                    for batch in reader:
                        writer.write_batch(batch.select(names))
        return path

    def pennon_writes(self, names, where):
        shutil.rmtree(where, ignore_errors=True)
        limit = self.group.write_options().get("max_rows_per_file")
        whole = list(names) == list(self.group.names)
        pennon.write(where, self.input if whole else self.part(names), data_storage_version=self.group.version,
                     max_rows_per_file=limit)

    def write_easy(self):
        names = [name for name in self.group.names if not self.hard(name) and not cases.pennon_refuses(self.by_name[name])]
        uri = str(self.work / "pennon")
        if not names:
            return
        try:
            self.pennon_writes(names, uri)
        except pennon.Failed:
            good = []
            for name in names:
                try:
                    self.pennon_writes([name], str(self.work / "alone"))
                    good.append(name)
                except pennon.Failed as error:
                    self.say(name, "write", str(error))
            if not good:
                return
            try:
                self.pennon_writes(good, uri)
            except pennon.Failed as error:
                for name in good:
                    self.say(name, "write", f"works alone, fails together: {error}")
                return
            names = good
        for who in oracle.NAMES:
            self.official_reads(who, uri, names)
        got = self.each("write", "own scan", names, lambda some: pennon.scan(uri, columns=None if some is names else some))
        self.compare("write", "own scan", self.wanted(oracle.NAMES[0], names), got, fields=False)
        self.bytes_of_blobs("write", "its own", uri, names)
        self.sizes(uri, names)

    def wanted(self, who, names):
        """The input as official returns it; official's own rendering where that is not the input."""
        own = load(self.folder / f"{who}.arrow")
        names = [n for n in names if "blob" not in self.by_name[n].kind]
        picked = [own if cases.own_text(self.by_name[n].kind) else self.source for n in names]
        schema = pa.schema([table.schema.field(n) for table, n in zip(picked, names)])
        return pa.Table.from_arrays([table.column(n) for table, n in zip(picked, names)], schema=schema)

    def official_reads(self, who, uri, names):
        official, out = self.oracles.get(who), str(self.work / "back.arrow")
        try:
            official.validate(uri=uri)
        except oracle.Refused as error:
            self.say(names[0], "write", f"{who}.validate: {error}")

        def scan(some):
            official.scan(uri=uri, out=out, columns=some)
            return load(out)

        want = self.wanted(who, names)
        got = self.tolerant(f"{who} scan", names, scan)
        self.compare("write", f"{who} scan", want, got)
        if self.group.rows and isinstance(got, pa.Table):
            rows = sorted(set(row_sets(self.group.rows, 7)[0]))
            part = pa.table({n: one(want.column(n)).take(pa.array(rows)) for n in want.schema.names})

            def take(some):
                official.take(uri=uri, rows=rows, out=out, columns=some)
                return load(out)

            self.compare("write", f"{who} take", part, self.tolerant(f"{who} take", names, take), fields=False)
        for name in names:
            if "blob" in self.by_name[name].kind and self.group.rows:
                self.same_blobs(who, uri, name)

    def tolerant(self, what, names, call):
        try:
            return call(names)
        except oracle.Refused:
            out = {}
            for name in names:
                try:
                    out[name] = call([name])
                except oracle.Refused as error:
                    self.say(name, "write", f"{what}: {error}")
            return out

    def same_blobs(self, who, uri, name):
        official, n = self.oracles.get(who), self.group.rows
        rows = sorted(set(range(min(n, 24))) | set(range(max(0, n - 8), n)))
        kind = self.by_name[name].kind
        try:
            if kind == "blob":
                want = official.blobs(uri=str(self.folder / who), column=name, rows=rows)
            else:
                values = cases.payloads(kind, one(self.source.column(name)))
                values = pc.struct_field(values, "b") if kind == "struct_blobv2" else values
                want = [None if v is None else v.hex() for v in values.take(pa.array(rows)).to_pylist()]
                want = [v for v in want if v is not None or who != "v8"]  # 8.0.0 leaves nulls out
            got = official.blobs(uri=uri, column=f"{name}.b" if kind == "struct_blobv2" else name, rows=rows)
        except oracle.Refused as error:
            self.say(name, "write", f"{who} take_blobs: {error}")
            return
        if want != got:
            bad = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
            self.say(name, "write", f"{who} take_blobs: {len(got)} payloads, want {len(want)}; first difference at {bad}")

    def sizes(self, uri, names):
        if self.group.rows < 1000:
            return
        mine, layouts = column_bytes(uri)
        peers = {who: column_bytes(str(self.folder / who)) for who in oracle.NAMES
                 if not (who == "new" and self.group.batches == "pages")}
        for name in names:
            # Items that are all null in a list of fixed size: official writes a constant of no bits, which 8.0.0 cannot read
            # back everywhere. Pennon writes them with their bits, so such a file is no measure.
            # Nor where official drops the unused items of the dictionaries that it puts together: Pennon keeps what it was given.
            # Nor where it writes full zipped values below a nullable layer outside a list, which it misreads.
            merged = self.by_name[name].kind.startswith("dict_") and self.group.batches != "one"
            bad = re.compile(r"(zip|mini)\[.*constant|zip\[.*list.*\+null-item")
            fair = [who for who in peers if not merged and not any(bad.search(text) for text in peers[who][1][name])]
            if not fair:
                self.verdicts[self.by_name[name].id]["size"] = (0, 0, "nobody", [], [])
                continue
            best = min(fair, key=lambda who: peers[who][0][name])
            self.verdicts[self.by_name[name].id]["size"] = (
                mine[name], peers[best][0][name], best, sorted(set(layouts[name])), sorted(set(peers[best][1][name])))

    def write_hard(self):
        for name in self.group.names:
            if not self.hard(name) or cases.pennon_refuses(self.by_name[name]):
                continue
            case, uri = self.by_name[name], str(self.work / "hard")
            try:
                self.pennon_writes([name], uri)
            except pennon.Failed as error:
                if error.crashed:
                    self.say(name, "write", f"does not refuse cleanly: {error}")
                elif os.path.isdir(os.path.join(uri, "_versions")):
                    self.say(name, "write", "refused, but left a version behind")
                continue
            readers = 0
            for who in oracle.NAMES:
                out = str(self.work / "back.arrow")
                try:
                    self.oracles.get(who).scan(uri=uri, out=out)
                    readers += 1
                    if not cases.own_text(case.kind):
                        found = diff_column(self.source, load(out), name)
                        if found and name not in self.official[who].get("changed", []):
                            self.say(name, "write", f"hard case, {who}: {found}")
                except oracle.Refused as error:
                    known = refusals.stage(case.id, who) == "write" or (not self.strict and name not in self.official[who]["readable"])
                    if not known:
                        self.say(name, "write", f"hard case, {who}: {error}")
            if not readers:
                self.say(name, "write", "written, but no release reads it: refuse it")


class Matrix:
    """Verdicts of many cases, worked out by two threads in the background."""

    def __init__(self, chosen, strict=True):
        self.oracles, self.futures = oracle.Pool(), {}
        self.workers = ThreadPoolExecutor(int(os.environ.get("PENNON_WORKERS", "2")))
        for group in cases.groups(chosen):
            future = self.workers.submit(self._run, group, strict)
            self.futures.update({case.id: future for case in group.cases})

    def _run(self, group, strict):
        return Run(group, self.oracles, strict).run()

    def verdict(self, case):
        return self.futures[case.id].result()[case.id]

    def close(self):
        self.workers.shutdown(wait=True, cancel_futures=True)
        self.oracles.close()
