#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pennon and official Lance on the same tables: open, scan, take and write, a column of one kind a table.

Official writes the tables that both read. Every figure comes from a process of its own, the two sides in turn, after a first round that
warms the page cache. Time is the median of the rounds; memory is what the work adds to the process at its peak; bytes read are those of
a round. The rows that are taken are the same on both sides.

Usage: beside_official.py BESIDE_TABLE FOLDER [--rows N] [--only NAME,...]   (BESIDE_TABLE: the program of bench/beside_table.c)
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

ROUNDS = {"open": 31, "scan": 5, "take": 15, "write": 3}
PLANS = [("open", ""), ("scan", ""), ("take", "100"), ("take", "10000"), ("write", "")]


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
        "int64": pa.array(rng.integers(0, 1 << 40, n)),
        "int32, nulls": pa.array(rng.integers(0, 1000, n, dtype="int32"), mask=rng.random(n) < 0.1),
        "float64": pa.array(rng.random(n)),
        "timestamp": pa.array(np.cumsum(rng.integers(0, 1000, n)), pa.timestamp("us")),
        "short text": text(n, 1, 3),
        "few texts": pa.array(rng.choice(words, n)),
        "long text": text(long, 40, 60),
        "list of int32": pa.ListArray.from_arrays(np.arange(0, n + 1, 5, dtype="int32"), rng.integers(0, 1000, n, dtype="int32")),
        "vector 768": pa.FixedSizeListArray.from_arrays(rng.random(wide * 768, dtype="float32"), 768),
        "binary 20 KiB": pa.array([rng.bytes(20480) for _ in range(n // 1000)], pa.binary()),
    }


def status(key):
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024


def bytes_read():
    with open("/proc/self/io", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("rchar"))


def official(what, table, rounds, more):
    """What bench/beside_table.c does, with pylance."""
    import lance
    import pyarrow as pa
    before, read, seconds, state, rows = status("VmRSS"), bytes_read(), [], 1, 0
    dataset = lance.dataset(table) if what in ("scan", "take") else None
    live = dataset.count_rows() if dataset else 0
    for _ in range(rounds):
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
    print(statistics.median(seconds), rows, (bytes_read() - read) // rounds, status("VmHWM") - before)


def measure(command, what, table, more):
    argv = [*command, what, table, str(ROUNDS[what])] + ([more] if more else [])
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True)
    seconds, rows, read, peak = done.stdout.split()
    return float(seconds), int(rows), int(read), int(peak)


def mega(n):
    return f"{n / 1e6:8.1f}"


def main():
    if sys.argv[1:2] == ["--official"]:
        return official(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else "")
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("folder")
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--only")
    args = options.parse_args()
    import lance
    import pyarrow as pa
    os.makedirs(args.folder, exist_ok=True)
    sides = {"pennon": [args.program], "official": [sys.executable, os.path.abspath(__file__), "--official"]}
    print(f"official {lance.__version__}, {os.cpu_count()} cores, {args.rows} values of 8 bytes a table; times in ms, MB of 1e6 bytes")
    print(f"{'column':<15} {'work':<11} {'pennon':>10} {'official':>10} {'ratio':>6}   {'peak MB':>17}   {'read MB':>17}")
    chosen = args.only.split(",") if args.only else None
    for name, array in columns(args.rows).items():
        if chosen and name not in chosen:
            continue
        source, table = os.path.join(args.folder, "input.arrow"), os.path.join(args.folder, "table.lance")
        data = pa.table({"c": array})
        with pa.ipc.new_stream(source, data.schema) as writer:
            writer.write_table(data, max_chunksize=65536)
        shutil.rmtree(table, ignore_errors=True)
        with pa.ipc.open_stream(source) as reader:
            lance.write_dataset(reader, table)
        for what, more in PLANS:
            found = {}
            for side, command in sides.items():
                where, extra = (f"{table}.{side}", source) if what == "write" else (table, more)
                found[side] = measure(command, what, where, extra)
                shutil.rmtree(f"{table}.{side}", ignore_errors=True)
            (mine, rows, my_read, my_peak), (theirs, their_rows, their_read, their_peak) = found["pennon"], found["official"]
            if rows != their_rows:
                sys.exit(f"{name}, {what}: {rows} rows, official has {their_rows}")
            print(f"{name:<15} {what + ' ' + more:<11} {mine * 1e3:10.3f} {theirs * 1e3:10.3f} {theirs / mine:6.2f}   "
                  f"{mega(my_peak)} {mega(their_peak)}   {mega(my_read)} {mega(their_read)}", flush=True)


if __name__ == "__main__":
    main()
