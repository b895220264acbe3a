#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The Python package and pylance on the same work: import, size, open, takes, scans to pyarrow, writes, commits of one row.

Each round is a process of its own, the sides in turn, both with one Python and one pyarrow; a figure is the median of ROUNDS processes, each the median
of its repetitions. Official writes the table that both read. Pennon syncs what it writes before a version counts; official syncs nothing. Memory is what the
work adds to the process at its peak.

`a call alone` is the time of calls that do next to nothing below Python: an upper bound of what the binding adds to a call of the library.

Usage: python_beside_official.py FOLDER [--rows N] [--rounds N]; build/venvpy (tools/venv.sh, with the wheel of tools/wheel.sh) and build/venv8 are the two sides.
"""
import argparse
import glob
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIDES = {"pennon": os.path.join(ROOT, "build", "venvpy", "bin", "python"), "official": os.path.join(ROOT, "build", "venv8", "bin", "python")}
MODULE = {"pennon": "pennon", "official": "lance"}
# name, repetitions
WORK = [("import", 1), ("import, first table", 1), ("open", 200), ("take 1 row", 200), ("take 100 rows", 100), ("scan to a table", 7), ("scan, one column", 15),
        ("filter, 1 %", 15), ("count by a filter", 15), ("write", 7), ("append of 1 row", 30)]


def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def make_table(rows):
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(5)
    words = np.array(["river", "fox", "dog", "brown", "quick", "lazy"])
    return pa.table({"id": np.arange(rows, dtype="int64"), "v": rng.integers(0, 1_000_000, rows, dtype="int32"), "f": rng.random(rows),
                     "k": pa.array(words[rng.integers(0, len(words), rows)]),
                     "vec": pa.FixedSizeListArray.from_arrays(rng.random(rows * 16, dtype="float32"), 16)})


def timed(call, times):
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def call_of(what, module, folder, side, rows):
    """What is timed, ready to be called."""
    table, out = os.path.join(folder, "table.lance"), os.path.join(folder, f"out-{side}.lance")
    ds = module.dataset(table)
    if what == "open":
        return lambda: module.dataset(table).version
    if what.startswith("take"):
        n = int(what.split()[1])
        picked = [(i * 7919) % rows for i in range(n)]
        return lambda: ds.take(picked)
    if what == "scan to a table":
        return ds.to_table
    if what == "scan, one column":
        return lambda: ds.to_table(columns=["f"])
    if what == "filter, 1 %":
        return lambda: ds.to_table(filter="v < 10000")
    if what == "count by a filter":
        return lambda: ds.count_rows(filter="v < 10000 AND k = 'fox'")
    shutil.rmtree(out, ignore_errors=True)
    source = make_table(rows)
    if what == "write":
        return lambda: module.write_dataset(source, out, mode="overwrite")
    module.write_dataset(source.slice(0, 1000), out)
    return lambda: module.write_dataset(source.slice(0, 1), out, mode="append")


def child(side, what, folder, rows, times):
    if what.startswith("import"):
        start = time.perf_counter()
        module = __import__(MODULE[side])
        if what != "import":
            module.dataset(os.path.join(folder, "table.lance")).to_table(columns=["id"], limit=1)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "peak": peak_kib(), "modules": len(sys.modules)}
    import pyarrow as pa

    pa.table({"a": [1]})
    module = __import__(MODULE[side])
    call = call_of(what, module, folder, side, rows)
    before = peak_kib()
    call()
    return {"seconds": timed(call, times), "peak": peak_kib() - before}


def take_by_c(table):
    """A take of one row and its batch by the library itself, through ctypes, which adds about a microsecond."""
    import ctypes

    library = ctypes.CDLL(os.path.join(ROOT, "build", "release", "libpennon.so.0"))
    pointer = ctypes.c_void_p

    class Array(ctypes.Structure):
        _fields_ = [("fields", ctypes.c_int64 * 8), ("release", ctypes.CFUNCTYPE(None, pointer)), ("private", pointer)]

    class Stream(ctypes.Structure):
        _fields_ = [("schema", pointer), ("next", ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)), ("error", pointer), ("release", ctypes.CFUNCTYPE(None, pointer)),
                    ("private", pointer)]

    ds, stream, array, rows = pointer(), Stream(), Array(), (ctypes.c_uint64 * 1)(5)
    library.pennon_dataset_take.argtypes = [pointer, ctypes.c_int, ctypes.c_size_t, pointer, pointer, pointer, pointer]
    if library.pennon_dataset_open(table.encode(), None, ctypes.byref(ds), None) != 0:
        raise OSError(table)
    where, batch = ctypes.addressof(stream), ctypes.addressof(array)

    def take():
        if library.pennon_dataset_take(ds, 0, 1, ctypes.addressof(rows), None, where, None) != 0 or stream.next(where, batch) != 0:
            raise OSError("take")
        array.release(batch)
        stream.release(where)

    return take


def calls_alone(folder):
    """Microseconds of calls of the extension and of the package that find their answer in memory."""
    import timeit

    import pennon

    ds = pennon.dataset(os.path.join(folder, "table.lance"))
    rows = [5]
    found = {}
    for name, call in {"extension: version": ds._ds.version, "extension: count of all rows": ds._ds.count_rows, "LanceDataset.version": lambda: ds.version,
                       "LanceDataset.count_rows": ds.count_rows, "extension: take of one row, its batch": lambda: next(ds._ds.take(0, rows, None)),
                       "the same by the C library": take_by_c(os.path.join(folder, "table.lance"))}.items():
        found[name] = min(timeit.repeat(call, number=2000, repeat=7)) / 2000 * 1e6
    return found


def run(side, *arguments):
    done = subprocess.run([SIDES[side], os.path.abspath(__file__), "--child", side, *map(str, arguments)], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def installed_mb(side):
    """Megabytes of the package's own files, and of its wheel where that is here."""
    text = ("import importlib.metadata as m, os\n"
            f"print(sum(os.path.getsize(f.locate()) for f in m.files({dict(pennon='pennon', official='pylance')[side]!r}) if os.path.exists(f.locate()) and not str(f).endswith('.pyc')))")
    return int(subprocess.run([SIDES[side], "-c", text], stdout=subprocess.PIPE, check=True).stdout) / 1e6


def report(folder, rows, rounds):
    print("Python %s, pyarrow %s; %d rows of int64, int32, float64, text, 16 float32" % (*subprocess.run(
        [SIDES["pennon"], "-c", "import sys, pyarrow; print(sys.version.split()[0], pyarrow.__version__)"], stdout=subprocess.PIPE, text=True, check=True).stdout.split(), rows))
    wheels = glob.glob(os.path.join(ROOT, "build", "wheel", "pennon-*.whl"))
    if wheels:
        print("wheel %.2f MB" % (os.path.getsize(wheels[0]) / 1e6))
    print("installed, MB: pennon %.2f, official %.1f" % (installed_mb("pennon"), installed_mb("official")))
    print("%-22s %12s %12s %7s %14s %10s" % ("", "pennon, ms", "official, ms", "ratio", "peak MB pennon", "official"))
    for what, times in WORK:
        sides = {side: [] for side in SIDES}
        for _ in range(rounds):
            for side in sides:
                sides[side].append(run(side, what, folder, rows, times))
        seconds = {side: statistics.median(one["seconds"] for one in told) for side, told in sides.items()}
        peaks = {side: statistics.median(one["peak"] for one in told) / 1024 for side, told in sides.items()}
        print("%-22s %12.3f %12.3f %7.2f %14.1f %10.1f" % (what, seconds["pennon"] * 1e3, seconds["official"] * 1e3, seconds["official"] / seconds["pennon"],
                                                           peaks["pennon"], peaks["official"]), flush=True)
        if what == "import":
            print("%-22s %12d %12d" % ("  modules loaded", *(told[0]["modules"] for told in sides.values())))
    print("a call alone, microseconds:")
    for name, taken in run("pennon", "alone", folder, rows, 1).items():
        print("  %-40s %8.2f" % (name, taken))


def main():
    if sys.argv[1:2] == ["--child"]:
        side, what, folder, rows, times = sys.argv[2:7]
        told = calls_alone(folder) if what == "alone" else child(side, what, folder, int(rows), int(times))
        print(json.dumps(told))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    table = os.path.join(options.folder, "table.lance")
    shutil.rmtree(table, ignore_errors=True)
    text = f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\nimport python_beside_official as b, lance\nlance.write_dataset(b.make_table({options.rows}), {table!r})"
    subprocess.run([SIDES["official"], "-c", text], check=True)
    report(options.folder, options.rows, options.rounds)


if __name__ == "__main__":
    main()
