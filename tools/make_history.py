#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Makes the tables of old releases of official Lance that tests/interop/test_history.py reads: tests/interop/history/RELEASE.tar.xz.

One archive a release, at least one release for every group of format changes:
  tables/TABLE/...            as tests/interop/history_tables.py made it with that release
  expected/TABLE/LABEL.arrow  rows of a version as the newest official release reads them, or 8.0.0 where only that one does, with _rowid
                              and _rowaddr where it can; LABEL is the version, or BRANCH@VERSION with "/" as "%2F"
  expected/answers.json       {"release", "made": {table: [steps]}, "tables": {table: {label: {"new": answer, "v8": answer}}}}; an answer
                              is {"rows": n}, the same with "ids": why its row ids cannot be read, {"refused": text}; for 8.0.0 also "same",
                              or {"differs": text}

Usage: make_history.py [--envs FOLDER] [--expect-only] [RELEASE...]      all releases by default
Environments are made with pip below FOLDER (default /tmp/pennon-history-envs) and kept. The tables are made at a path of fixed length, which
the manifests of branches and clones hold: the test puts its own path of that length there.
"""
import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INTEROP = ROOT / "tests" / "interop"
sys.path.insert(0, str(INTEROP))

import oracle  # noqa: E402

PLACE = Path("/tmp/pennon-history-00000000")
OLD, MIDDLE, LATE = ["pyarrow==12.0.1", "numpy<2"], ["pyarrow==15.0.0", "numpy<2"], ["pyarrow==19.0.1", "numpy<3"]

# release: (what to install beside it, the change that it stands for)
RELEASES = {
    "0.3.19": (OLD + ["pandas<2.1", "duckdb<0.10"], "no deletions"),
    "0.4.21": (OLD + ["pandas<2.1"], "feature flags"),
    "0.5.9": (OLD + ["pandas<2.1"], "deletions; no max_fragment_id"),
    "0.6.5": (OLD, "transaction files, max_fragment_id, field metadata"),
    "0.7.5": (OLD, "the last without physical_rows"),
    "0.8.0": (OLD, "physical_rows, fragment_bitmap; no writer_version"),
    "0.8.14": (OLD, "writer_version; bitmaps of indices not to be trusted"),
    "0.10.5": (OLD, "duplicate field ids; columns come and go"),
    "0.12.3": (MIDDLE, "2.0 files on request"),
    "0.15.0": (MIDDLE, "the last without data_format"),
    "0.16.0": (MIDDLE, "data_format 0.1 on tables of 2.0 files; tags"),
    "0.16.1": (MIDDLE, "data_format right"),
    "0.17.0": (MIDDLE, "V2 names on request, no _latest.manifest"),
    "0.18.2": (MIDDLE, "2.0 by default; config"),
    "0.19.2": (MIDDLE, "the last without index_details; detached versions"),
    "0.20.0": (MIDDLE, "storage_class, side tables for blobs"),
    "0.21.0": (MIDDLE, "the last whose index bitmaps overlap; stable row ids"),
    "0.23.2": (LATE, "between"),
    "0.27.2": (LATE, "file_size_bytes"),
    "0.29.0": (LATE, "index_version"),
    "0.30.0": (LATE, "the last with a plain max_fragment_id"),
    "0.31.1": (LATE, "max_fragment_id optional, created_at of indices"),
    "0.33.0": (LATE, "shallow clones in the format"),
    "0.36.0": (LATE, "table_metadata"),
    "0.37.0": (LATE, "names of data files in binary and hex"),
    "0.38.0": (LATE, "flag 16, row version sequences"),
    "0.38.3": (LATE, "prerelease of writer_version; branches and clones in Python"),
    "0.39.0": (LATE, "the last with transaction files only"),
    "1.0.1": (LATE + ["lance-namespace==0.2.1", "lance-namespace-urllib3-client==0.2.1"], "inline transactions"),
    "2.0.1": (LATE + ["lance-namespace==0.4.5"], "2.1 by default"),
    "4.0.1": (LATE, "file lists of indices"),
    "6.0.1": (LATE, "the last with empty details of vector indices"),
    "7.1.0": (LATE, "version hint"),
}


def environment(folder, release):
    """The Python that has the release; made with pip when it is not there."""
    place = folder / release
    python = place / "bin" / "python"
    if not (place / "whole").exists():
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--only-binary", ":all:",
                        "pylance==" + release, *RELEASES[release][0]], check=True)
        (place / "whole").touch()
    return python


def make(python, release):
    """The tables at PLACE; what was made of each."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    log = ROOT / "build" / "history" / (release + ".log")
    made = log.with_suffix(".json")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as say:
        code = subprocess.run([python, INTEROP / "history_tables.py", PLACE, made], stdout=say, stderr=say, cwd="/", timeout=300,
                              check=False).returncode
    if code:
        sys.exit("%s: the tables were not made, see %s" % (release, log))
    return json.loads(made.read_text())


def ask(asked, uri, out):
    """Every version as one release reads it: label -> answer, rows in out."""
    out.mkdir(parents=True)
    try:
        return asked.history(uri=str(uri), out=str(out))
    except oracle.Refused as error:
        return {"": {"refused": str(error)}}


def expect(oracles, table, work):
    """label -> {"new", "v8"}; leaves the rows that the newest reads below work/new."""
    new, v8 = (ask(oracles.get(name), PLACE / table, work / name / table) for name in ("new", "v8"))
    answers = {}
    for label in sorted(set(new) | set(v8)):
        if "rows" in v8.get(label, {}) and "rows" not in new.get(label, {}):
            shutil.copy(file_of(label, "v8", work, table), file_of(label, "new", work, table))
        answers[label] = {"new": short(new.get(label, {"refused": "no such version"})),
                          "v8": compare(label, new.get(label), v8.get(label), work, table)}
    return answers


def file_of(label, name, work, table):
    return work / name / table / (label.replace("/", "%2F") + ".arrow")


def short(answer):
    return {key: value[:200] if isinstance(value, str) else value for key, value in answer.items()}


def compare(label, new, v8, work, table):
    if v8 is None:
        return {"refused": "no such version"}
    if new is None or "refused" in v8 or "refused" in new:
        return short(v8)
    found = difference(*(file_of(label, name, work, table) for name in ("new", "v8")))
    return {"differs": found} if found else "same"


def difference(new, v8):
    """By the diff of the tests; equal bytes need none."""
    if new.read_bytes() == v8.read_bytes():
        return ""
    code = ("import sys, arrow_diff, pyarrow as pa\n"
            "print(arrow_diff.diff_table(*(pa.ipc.open_stream(p).read_all() for p in sys.argv[1:])) or '')")
    done = subprocess.run([oracle.python_of("new"), "-c", code, new, v8], env=dict(os.environ, PYTHONPATH=str(INTEROP)),
                          stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def pack(release, made, answers, work):
    def plain(info):
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        info.mode = 0o755 if info.isdir() else 0o644
        return info

    path = INTEROP / "history" / (release + ".tar.xz")
    path.parent.mkdir(exist_ok=True)
    text = json.dumps({"release": release, "made": made, "tables": answers}, indent=1, sort_keys=True).encode()
    with tarfile.open(path, "w:xz", preset=9, dereference=True) as archive:  # some releases wrote hard links
        archive.add(PLACE, "tables", filter=plain)
        if (work / "new").is_dir():
            archive.add(work / "new", "expected", filter=plain)
        info = plain(tarfile.TarInfo("expected/answers.json"))
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return path.stat().st_size


def unpack(release):
    """The tables of the archive at PLACE again; what was made of each."""
    with tarfile.open(INTEROP / "history" / (release + ".tar.xz")) as archive:
        shutil.rmtree(PLACE, ignore_errors=True)
        made = json.load(archive.extractfile("expected/answers.json"))["made"]
        for member in archive:
            if member.name.startswith("tables"):
                member.name = "." + member.name[len("tables"):]
                archive.extract(member, PLACE)
    return made


def main():
    arguments = argparse.ArgumentParser(description="Makes tests/interop/history")
    arguments.add_argument("--envs", type=Path, default=Path("/tmp/pennon-history-envs"))
    arguments.add_argument("--expect-only", action="store_true", help="keep the tables, ask the two releases anew")
    arguments.add_argument("releases", nargs="*", default=list(RELEASES))
    chosen = arguments.parse_args()
    work, oracles = ROOT / "build" / "history" / "work", oracle.Pool()
    for release in chosen.releases:
        made = unpack(release) if chosen.expect_only else make(environment(chosen.envs, release), release)
        shutil.rmtree(work, ignore_errors=True)
        answers = {table: expect(oracles, table, work) for table in sorted(made)}
        size = pack(release, made, answers, work)
        odd = sum(answer["v8"] != "same" for table in answers.values() for answer in table.values())
        print("%-8s %3d tables, %4d versions, %3d not read alike, %7d bytes" %
              (release, len(made), sum(map(len, answers.values())), odd, size), flush=True)
    shutil.rmtree(PLACE, ignore_errors=True)
    oracles.close()


if __name__ == "__main__":
    main()
