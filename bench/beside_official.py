#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pennon and official Lance on the same tables: open, scan, take and write, a column of one kind a table.

Official writes the tables that both read. Each round is a process of its own, the two sides in turn; the figure is the median of ROUNDS
processes, each of which repeats short work and gives its own median. Cold: the page cache of the machine is dropped before each
process (needs root), which does the work once. Memory is what the work adds to the process at its peak; bytes read and calls for memory are
those of one repetition; both sides are counted by bench/count_allocations.c. The rows that are taken are the same on both sides.

Usage: beside_official.py BESIDE_TABLE FOLDER [--rows N] [--only NAME,...] [--rounds N]   (BESIDE_TABLE: the program of bench/beside_table.c)
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

ROUNDS = 7
REPEATS = {"open": 11, "scan": 3, "take": 7, "write": 1, "write-synced": 1}
PLANS = [("open", ""), ("scan", ""), ("scan cold", ""), ("take", "1"), ("take", "100"), ("take cold", "100"), ("take", "10000"), ("write", ""),
         ("write-synced", "")]
FRAGMENTS = [1, 1000, 10000]


def columns(n):
    """{name: Arrow array of about n * 8 bytes or more}; seeds are fixed."""
    import numpy as np
    import pyarrow as pa
    rng = np.random.default_rng(7)
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "near", "river", "bank"]

    def text(count, few, many):
        picks = rng.integers(0, len(words), (count, many))
        sizes = rng.integers(few, many + 1, count)
        return pa.array([" ".join(words[w] for w in row[:size]) + f" {i}" for i, (row, size) in enumerate(zip(picks, sizes))])

    long, wide = n // 10, n // 100
    return {
        "int64": lambda: pa.array(rng.integers(0, 1 << 40, n)),
        "int32, nulls": lambda: pa.array(rng.integers(0, 1000, n, dtype="int32"), mask=rng.random(n) < 0.1),
        "float64": lambda: pa.array(rng.random(n)),
        "date": lambda: pa.array(rng.integers(0, 20000, n, dtype="int32"), pa.date32()),
        "timestamp": lambda: pa.array(np.cumsum(rng.integers(0, 1000, n)), pa.timestamp("us")),
        "short text": lambda: text(n, 1, 3),
        "few texts": lambda: pa.array(rng.choice(words, n)),
        "long text": lambda: text(long, 40, 60),
        "list of int32": lambda: pa.ListArray.from_arrays(np.arange(0, n + 1, 5, dtype="int32"),
                                                          rng.integers(0, 1000, n, dtype="int32")),
        "nested lists": lambda: pa.ListArray.from_arrays(
            np.arange(0, n // 4 + 1, 4, dtype="int32"),
            pa.ListArray.from_arrays(np.arange(0, n + 1, 4, dtype="int32"), rng.integers(0, 1000, n, dtype="int32"))),
        "vector 768": lambda: pa.FixedSizeListArray.from_arrays(rng.random(wide * 768, dtype="float32"), 768),
        "binary 20 KiB": lambda: pa.array([rng.bytes(20480) for _ in range(n // 1000)], pa.binary()),
    }


def status(key):
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024


def bytes_moved(key):
    with open("/proc/self/io", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key))


def bytes_read():
    return bytes_moved("rchar")


def bytes_written():
    return bytes_moved("wchar")


def allocations():
    import ctypes
    count = getattr(ctypes.CDLL(None), "bench_allocations", None)
    if not count:
        return 0
    count.restype = ctypes.c_uint64
    return count()


def official(what, table, repeats, more):
    """What bench/beside_table.c does, with pylance."""
    import lance
    import pyarrow as pa
    before, read, seconds, state, rows = status("VmRSS"), bytes_read(), [], 1, 0
    allocated = allocations()
    dataset = lance.dataset(table) if what in ("scan", "take") else None
    live = dataset.count_rows() if dataset else 0
    for _ in range(repeats):
        wanted = []
        for _ in range(int(more) if what == "take" else 0):
            state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
            wanted.append((state >> 32) % live)
        start = time.perf_counter()
        if what == "open":
            lance.dataset(table)
        elif what == "scan":
            rows = sum(batch.num_rows for batch in dataset.to_batches())
        elif what == "take":
            rows = dataset.take(wanted).num_rows
        else:
            with pa.ipc.open_stream(pa.OSFile(more)) as reader:
                rows = lance.write_dataset(reader, table, mode="overwrite").count_rows()
        seconds.append(time.perf_counter() - start)
    print(statistics.median(seconds), rows, (bytes_read() - read) // repeats, status("VmHWM") - before,
          (allocations() - allocated) // repeats)


class Side:
    """One of the two: how it is run, and what its runs of one plan gave."""

    def __init__(self, command, counter):
        self.command, self.counter, self.runs, self.size = command, counter, [], 0

    def run(self, what, table, repeats, more, counted=False):
        argv = [*self.command, what, table, str(repeats)] + ([more] if more else [])
        env = dict(os.environ, LD_PRELOAD=self.counter) if counted else None
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True, env=env)
        seconds, rows, read, peak, allocated = done.stdout.split()
        return float(seconds), int(rows), int(read), int(peak), int(allocated)

    def median(self, part):
        return statistics.median(run[part] for run in self.runs)


def drop_cache():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as f:
        f.write("3")


def can_drop():
    try:
        drop_cache()
        return True
    except OSError:
        return False


def mega(n):
    return f"{n / 1e6:8.1f}"


def data_bytes(table):
    return sum(e.stat().st_size for e in os.scandir(os.path.join(table, "data")))


def compare(sides, name, plan, table, source, rounds):
    what, more = plan
    verb, cold, writes = what.split()[0], what.endswith("cold"), what.startswith("write")
    if cold and not can_drop():
        print(f"{name:<15} {what + ' ' + more:<15} not run: the page cache can only be dropped by root")
        return
    repeats = 1 if cold else REPEATS[verb]
    for side in sides.values():
        side.runs = []
    for _ in range(rounds):
        for key, side in sides.items():
            where, extra = (f"{table}.{key}", source) if writes else (table, more)
            if cold:
                drop_cache()
            side.runs.append(side.run("write" if writes and key == "official" else verb, where, repeats, extra))
    for key, side in sides.items():
        where, extra = (f"{table}.{key}", source) if writes else (table, more)
        if writes:
            shutil.rmtree(where)  # of the runs, which wrote over one table
        side.allocated = side.run("write" if writes and key == "official" else verb, where, 1, extra, counted=True)[4]
        side.size = data_bytes(where) if writes else 0
        if writes:
            shutil.rmtree(where)
    mine, theirs = sides["pennon"], sides["official"]
    if mine.runs[0][1] != theirs.runs[0][1]:
        sys.exit(f"{name}, {what}: {mine.runs[0][1]} rows, official has {theirs.runs[0][1]}")
    sizes = f"   {mega(mine.size)} {mega(theirs.size)}" if writes else f"   {mega(mine.median(2))} {mega(theirs.median(2))}"
    print(f"{name:<15} {what + ' ' + more:<15} {mine.median(0) * 1e3:9.3f} {theirs.median(0) * 1e3:9.3f} {theirs.median(0) / mine.median(0):6.2f}   "
          f"{mega(mine.median(3))} {mega(theirs.median(3))}{sizes}   {mine.allocated:9} {theirs.allocated:9}", flush=True)


def header():
    print(f"{'':<15} {'':<15} {'time, ms':^19} {'':>6}   {'peak, MB':^17}   {'read or file, MB':^17}   {'calls for memory':^19}")
    print(f"{'column':<15} {'work':<15} {'pennon':>9} {'official':>9} {'ratio':>6}   {'pennon':>8} {'official':>8}   {'pennon':>8} {'official':>8}"
          f"   {'pennon':>9} {'official':>9}")


def compare_columns(sides, args):
    import lance
    import pyarrow as pa
    chosen = args.only.split(",") if args.only else None
    for name, make in columns(args.rows).items():
        array = make()  # made even when not chosen: the next columns take from the same seed
        if chosen and name not in chosen:
            continue
        source, table = os.path.join(args.folder, "input.arrow"), os.path.join(args.folder, "table.lance")
        data = pa.table({"c": array})
        with pa.ipc.new_stream(source, data.schema) as writer:
            writer.write_table(data, max_chunksize=65536)
        shutil.rmtree(table, ignore_errors=True)
        with pa.ipc.open_stream(source) as reader:
            lance.write_dataset(reader, table)
        for plan in PLANS:
            if not args.work or plan[0].split()[0] in args.work.split(","):
                compare(sides, name, plan, table, source, args.rounds)


def compare_fragments(sides, args):
    """Opening of tables of many fragments: one commit, a file of one row for each."""
    import lance
    import pyarrow as pa
    for n in FRAGMENTS:
        table = os.path.join(args.folder, f"fragments-{n}.lance")
        shutil.rmtree(table, ignore_errors=True)
        lance.write_dataset(pa.table({"c": pa.array(range(n), pa.int64())}), table, max_rows_per_file=1, max_rows_per_group=1)
        compare(sides, f"{n} fragments", ("open", ""), table, "", args.rounds)
        shutil.rmtree(table)


def main():
    if sys.argv[1:2] == ["--official"]:
        return official(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else "")
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("folder")
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--only", help="columns")
    options.add_argument("--work", help="open, scan, take, write, write-synced")
    args = options.parse_args()
    import lance
    os.makedirs(args.folder, exist_ok=True)
    counter = os.path.join(os.path.dirname(os.path.abspath(args.program)), "count_allocations.so")
    sides = {"pennon": Side([args.program], counter),
             "official": Side([sys.executable, os.path.abspath(__file__), "--official"], counter)}
    print(f"official {lance.__version__}, {os.cpu_count()} cores, {args.rows} values of 8 bytes a table; median of {args.rounds}; MB of 1e6 bytes;\n"
          "ratio: how much faster Pennon is; write: nothing is synced; write-synced: Pennon syncs all, official never does")
    header()
    compare_columns(sides, args)
    if not args.only and not args.work:
        compare_fragments(sides, args)


if __name__ == "__main__":
    main()
