#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pennon, official Lance and Parquet (pyarrow) on the same rows: scans, filters, counts, order, groups, and a wide table.

Official writes the tables that it and Pennon read; pyarrow writes the Parquet files with its defaults (Snappy, dictionaries). Each round is a
process of its own, the sides in turn; the figure is the median of ROUNDS processes, each the median of its repetitions. `cpus`: the processors that the
process may use. Cold: the page cache is dropped before each process (needs root), which does the work once. Memory is what the work adds to the
process at its peak. `limit`: the time in which memcpy, on one processor, copies the values of the result as Arrow has them.

Usage: queries_beside_official.py QUERY_TABLE FOLDER [--rows N] [--rounds N] [--only scan,filter,count,order,group,wide] [--cpus 1,2]
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import beside_official  # noqa: E402

ROUNDS = 5
REPEATS = 5
# name, SQL
FILTERS = [("0.01 %", "v < 100"), ("1 %", "v < 10000"), ("50 %", "v < 500000"), ("text 8 %", "k = 'river'"), ("like 25 %", "s LIKE '%fox%'"),
           ("three terms", "v < 500000 AND f >= 0.5 AND k IN ('dog', 'fox', 'brown')"), ("IN 1000", "v IN (" + ", ".join(map(str, range(0, 1_000_000, 1000))) + ")")]
WIDE_COLUMNS, WIDE_ROWS = 2000, 20_000


def parquet_filter(sql):
    """The filters of FILTERS for pyarrow."""
    import pyarrow.compute as pc
    v, f, k, s = (pc.field(name) for name in "vfks")
    return {"v < 100": v < 100, "v < 10000": v < 10000, "v < 500000": v < 500000, "k = 'river'": k == "river",
            "s LIKE '%fox%'": pc.match_substring(s, "fox"),
            FILTERS[5][1]: (v < 500000) & (f >= 0.5) & k.isin(["dog", "fox", "brown"]), FILTERS[6][1]: v.isin(list(range(0, 1_000_000, 1000)))}[sql]


def mixed_table(rows):
    import numpy as np
    import pyarrow as pa
    rng = np.random.default_rng(11)
    words = np.array(["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "near", "river", "bank"])
    picks = words[rng.integers(0, len(words), (rows, 3))]
    texts = np.char.add(np.char.add(np.char.add(picks[:, 0], " "), np.char.add(picks[:, 1], " ")), picks[:, 2])
    return pa.table({"id": np.arange(rows, dtype="int64"), "v": rng.integers(0, 1_000_000, rows, dtype="int32"), "f": rng.random(rows),
                     "k": pa.array(words[rng.integers(0, len(words), rows)]), "s": pa.array(texts),
                     "d": pa.array(rng.integers(0, 20000, rows, dtype="int32"), pa.date32())})


def wide_table():
    import numpy as np
    import pyarrow as pa
    rng = np.random.default_rng(12)
    return pa.table({f"c{i}": rng.random(WIDE_ROWS, dtype="float32") for i in range(WIDE_COLUMNS)})


def with_lance(what, dataset, table, text):
    import lance
    if what == "columns":
        return sum(b.num_rows for b in lance.dataset(table).to_batches(columns=text.split(",") if text else None))
    if what == "filter":
        return sum(b.num_rows for b in dataset.to_batches(filter=text))
    if what == "count":
        return dataset.count_rows(filter=text)
    if what == "order":
        return dataset.scanner(order_by=[text], limit=100).to_table().num_rows
    query = dataset.sql(f"SELECT {text}, count(*), sum(v) FROM dataset GROUP BY {text}").build()
    return sum(b.num_rows for b in query.to_batch_records())


def with_parquet(what, table, text):
    import pyarrow.dataset as pads
    dataset = pads.dataset(table, format="parquet")
    if what == "columns":
        return sum(b.num_rows for b in dataset.to_batches(columns=text.split(",") if text else None))
    if what == "filter":
        return sum(b.num_rows for b in dataset.to_batches(filter=parquet_filter(text)))
    if what == "count":
        return dataset.count_rows(filter=parquet_filter(text))
    if what == "order":
        import pyarrow.compute as pc
        whole = dataset.to_table()
        return whole.take(pc.select_k_unstable(whole, 100, [(text, "ascending")])).num_rows
    return dataset.to_table(columns=[text, "v"]).group_by(text).aggregate([([], "count_all"), ("v", "sum")]).num_rows


def other(side, what, table, repeats, text):
    """What bench/query_table.c does, with pylance or pyarrow."""
    if side == "official":
        import lance
        dataset = lance.dataset(table)
    else:
        import pyarrow.dataset  # noqa: F401
    before, read, seconds, rows = beside_official.status("VmRSS"), beside_official.bytes_read(), [], 0
    allocated = beside_official.allocations()
    for _ in range(repeats):
        start = time.perf_counter()
        rows = with_lance(what, dataset, table, text) if side == "official" else with_parquet(what, table, text)
        seconds.append(time.perf_counter() - start)
    print(statistics.median(seconds), rows, (beside_official.bytes_read() - read) // repeats, beside_official.status("VmHWM") - before,
          (beside_official.allocations() - allocated) // repeats)


def run(command, cpus, what, table, repeats, text, counter=None):
    argv = ["taskset", "-c", f"0-{cpus - 1}", *command, what, table, str(repeats), text]
    env = dict(os.environ, LD_PRELOAD=counter) if counter else None
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, check=False)
    if done.returncode != 0:
        return None
    seconds, rows, read, peak, allocated = done.stdout.split()
    return float(seconds), int(rows), int(read), int(peak), int(allocated)


class Comparison:
    def __init__(self, args):
        me = [sys.executable, os.path.abspath(__file__)]
        self.args = args
        self.commands = {"pennon": [args.program], "official": [*me, "--side", "official"], "parquet": [*me, "--side", "parquet"]}
        self.counter = os.path.join(os.path.dirname(os.path.abspath(args.program)), "count_allocations.so")
        self.bandwidth, self.reads = 0.0, 0.0

    def compare(self, name, what, tables, text, cpus, cold=False, limit=0):
        results = {side: [] for side in self.commands}
        for _ in range(self.args.rounds):
            for side, command in self.commands.items():
                if cold:
                    beside_official.drop_cache()
                result = run(command, cpus, what, tables[side], 1 if cold else REPEATS, text)
                if result:
                    results[side].append(result)
        allocated = {side: run(self.commands[side], cpus, what, tables[side], 1, text, self.counter) for side in ("pennon", "official")}
        rows = {side: runs[0][1] for side, runs in results.items() if runs}
        if len(set(rows.values())) != 1:
            sys.exit(f"{name}: the sides have different numbers of rows: {rows}")

        def figure(side, part, scale):
            return statistics.median(r[part] for r in results[side]) * scale if results[side] else None

        def cell(value, form, width):
            return f"{value:{width}{form}}" if value is not None else f"{'-':>{width}}"
        ms = {side: figure(side, 0, 1e3) for side in results}
        peaks = {side: figure(side, 3, 1e-6) for side in results}
        ratios = [ms[side] / ms["pennon"] if ms[side] else None for side in ("official", "parquet")]
        calls = [allocated[side][4] if allocated[side] else None for side in allocated]
        print(f"{name:<24} {cpus:>4} {cell(ms['pennon'], '.3f', 10)} {cell(ms['official'], '.3f', 10)} {cell(ms['parquet'], '.3f', 10)} "
              f"{cell(limit * 1e3 if limit else None, '.3f', 8)} {cell(ratios[0], '.2f', 8)} {cell(ratios[1], '.2f', 8)}   "
              f"{cell(peaks['pennon'], '.1f', 8)} {cell(peaks['official'], '.1f', 8)} {cell(peaks['parquet'], '.1f', 8)}   "
              f"{cell(calls[0], 'd', 8)} {cell(calls[1], 'd', 8)}", flush=True)

    def make(self, name, data):
        import lance
        import pyarrow.parquet as pq
        folder = self.args.folder
        tables = {"official": os.path.join(folder, f"{name}.lance"), "parquet": os.path.join(folder, f"{name}.parquet")}
        tables["pennon"] = tables["official"]
        shutil.rmtree(tables["official"], ignore_errors=True)
        lance.write_dataset(data, tables["official"])
        pq.write_table(data, tables["parquet"])
        return tables

    def scans(self):
        import pyarrow as pa
        for name, make in beside_official.columns(self.args.rows).items():
            data = pa.table({"c": make()})
            tables = self.make("column", data)
            for cpus in self.args.cpus:
                self.compare(f"scan {name}", "columns", tables, "", cpus, limit=data.nbytes / self.bandwidth)
            if beside_official.can_drop():
                self.compare(f"scan {name}, cold", "columns", tables, "", max(self.args.cpus), cold=True)

    def queries(self):
        tables = self.make("mixed", mixed_table(self.args.rows))
        wanted = [w for w in ("filter", "count") if self.args.only is None or w in self.args.only]
        for what in wanted:
            for name, text in FILTERS:
                for cpus in self.args.cpus:
                    self.compare(f"{what} {name}", what, tables, text, cpus)
        for what, text in (("order", "f"), ("order", "s"), ("group", "k")):
            if self.args.only is None or what in self.args.only:
                for cpus in self.args.cpus:
                    self.compare(f"{what} by {text}", what, tables, text, cpus)

    def wide(self):
        tables = self.make("wide", wide_table())
        for cpus in self.args.cpus:
            self.compare(f"3 of {WIDE_COLUMNS} columns", "columns", tables, "c7,c1000,c1999", cpus)


def main():
    if sys.argv[1:2] == ["--side"]:
        return other(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6])
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("folder")
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--only", type=lambda text: text.split(","))
    options.add_argument("--cpus", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    args = options.parse_args()
    import lance
    import pyarrow
    os.makedirs(args.folder, exist_ok=True)
    comparison = Comparison(args)
    limits = subprocess.run([args.program, "limits", args.folder], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    comparison.bandwidth, comparison.reads = float(limits[0]), float(limits[1])
    print(f"official {lance.__version__}, pyarrow {pyarrow.__version__}, {args.rows} rows; medians of {args.rounds} processes; MB of 1e6 bytes\n"
          f"memcpy {comparison.bandwidth / 1e9:.1f} GB/s; the device gives {comparison.reads:.0f} random reads of 4 KiB a second\n")
    print(f"{'':<24} {'':>4} {'time, ms':^41} {'times as fast as':^17}   {'peak, MB':^26}   {'calls for memory':^17}")
    print(f"{'work':<24} {'cpus':>4} {'pennon':>10} {'official':>10} {'parquet':>10} {'limit':>8} {'official':>8} {'parquet':>8}   "
          f"{'pennon':>8} {'official':>8} {'parquet':>8}   {'pennon':>8} {'official':>8}")
    if args.only is None or "scan" in args.only:
        comparison.scans()
    if args.only is None or {"filter", "count", "order", "group"} & set(args.only):
        comparison.queries()
    if args.only is None or "wide" in args.only:
        comparison.wide()


if __name__ == "__main__":
    main()
