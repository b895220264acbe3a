# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Finds out what official refuses: every selected case alone, written, read back and taken, by both releases.

Writes official_refusals.json, the table that the matrix tests go by: {stage: {reason: {release: [case ids]}}}.
Stages: "write" (official refuses or panics), "read" (it cannot read its own file), "invalid" (it hands out broken
Arrow data), "take" (a take differs from its scan), "differs" (it returns other values than were written: loss).
Run it again after a change of the matrix or of a release; test_matrix.py fails when table and official disagree.
With arguments (parts of case ids) it only prints what it finds.
"""
import json
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

import cases
import oracle
from arrow_diff import diff_column, diff_array, one


TABLE = Path(__file__).with_name("official_refusals.json")


def load(path):
    with pa.ipc.open_stream(pa.OSFile(str(path))) as reader:
        return reader.read_all()


def probe(pool, folder, case):
    out = []
    group = cases.Group(case.version, case.rows, case.batches, 0, (case,))
    name = group.names[0]
    work = Path(tempfile.mkdtemp(dir=folder))
    try:
        group.save(work / "in.arrow")
        source = cases.plain(load(work / "in.arrow"))
        for who in oracle.NAMES:
            official, uri, read = pool.get(who), str(work / who), str(work / f"{who}.arrow")

            def note(stage, reason):
                out.append({"case": case.id, "oracle": who, "stage": stage, "reason": str(reason)[:300]})

            try:
                official.write(uri=uri, ipc=str(work / "in.arrow"), storage=case.version, **group.write_options())
            except oracle.Refused as error:
                note("write", error)
                continue
            try:
                official.scan(uri=uri, out=read)
                got = load(read)
                one(got.column(0)).validate(full=True)
                if not cases.own_text(case.kind):
                    found = diff_column(source, got, name)
                    if found:
                        note("differs", found)
            except oracle.Refused as error:
                note("read", error)
                continue
            except pa.ArrowException as error:
                note("invalid", error)
                continue
            if case.rows:
                rows = sorted({0, case.rows // 2, case.rows - 1})
                try:
                    official.take(uri=uri, rows=rows, out=read)
                    found = diff_array(one(got.column(0)).take(pa.array(rows)), one(load(read).column(0)))
                    if found:
                        note("take", found)
                except oracle.Refused as error:
                    note("take", error)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out


def shortened(reason):
    """Without what changes from run to run: source places, numbers."""
    reason = re.sub(r", location: Location .*", "", reason)
    reason = re.sub(r",? ?/[\w./-]+:\d+:\d+", "", reason)
    reason = re.sub(r"LanceError\((\w+)\)", r"\1", reason.replace("Encountered internal error. Please file a bug report at "
                    "https://github.com/lance-format/lance/issues. ", "Internal: "))
    reason = re.sub(r"^[\w.]+\[\d+\].*", "values differ", reason)
    reason = re.sub(r"struct field `\w+`", "struct field", reason)
    reason = re.sub(r"called `Result::unwrap\(\)` on an `Err` value: (JoinError::Panic\(Id\(\d+\), \"called `Result::unwrap\(\)` on an `Err` value: )?", "", reason)
    return re.sub(r"\d+", "N", reason)[:140].strip(" ,")


def main():
    chosen = [c for c in cases.select() if not sys.argv[1:] or any(a in c.id for a in sys.argv[1:])]
    target = oracle.ROOT / "build" / "interop"
    target.mkdir(parents=True, exist_ok=True)
    pool, table = oracle.Pool(), {}
    with tempfile.TemporaryDirectory(dir=target) as folder, ThreadPoolExecutor(2) as workers:
        for done, found in enumerate(workers.map(lambda c: probe(pool, folder, c), chosen)):
            for line in found:
                if sys.argv[1:]:
                    print(line)
                reasons = table.setdefault(line["stage"], {}).setdefault(shortened(line["reason"]), {})
                reasons.setdefault(line["oracle"], []).append(line["case"])
            if done % 500 == 0:
                print(done, "of", len(chosen), flush=True)
    pool.close()
    if not sys.argv[1:]:
        table["matrix"] = cases.fingerprint(chosen)
        TABLE.write_text(json.dumps(table, indent=0, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
