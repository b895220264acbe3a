#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pennon and official Lance on changes of a table: deletes, updates, merges, columns that are added or get another type, compaction.

Official writes the table: numbers, texts, dates and vectors of 32 floats, in fragments of a quarter million rows, and for compaction in a
hundred fragments of which a tenth of the rows is deleted. Each round is a process of its own on a fresh copy of
the table, the two sides in turn; the figure is the median of ROUNDS processes, from opening to the end of the commit, and both sides must tell the
same rows. Memory is what the work adds to the process at its peak; bytes are those of its reads and writes.

Usage: mutations_beside_official.py FOLDER_OF_PROGRAMS FOLDER [--rows N] [--rounds N] [--only delete,update,merge] [--cpus N]   (program: bench/mutate_table.c)
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
import queries_beside_official  # noqa: E402

ROUNDS = 5
FRAGMENT_ROWS = 250_000
VECTOR = 32
KEY = "id"
# name, work, arguments of both sides
WORKS = [("delete 0.01 %", "delete", ["v < 100"]), ("delete 1 %", "delete", ["v < 10000"]), ("delete 50 %", "delete", ["v < 500000"]),
         ("delete by text", "delete", ["k = 'river'"]),
         ("update 1 %", "update", ["v=v + 1", "v < 10000"]), ("update 50 %", "update", ["f=f * 2", "v < 500000"]),
         ("update all", "update", ["k='fox'", "true"]),
         ("add v + 1", "add", ["w=v + 1"]), ("add a text", "add", ["w=concat(k, '!')"]), ("add 128 floats", "vectors", ["ROWS"]),
         ("int64 to int32", "cast", ["id", "int32"]), ("vectors to double", "cast", ["vec", "fixed_size_list<item: double>[32]"]),
         ("merge 10,000, 1 %", "merge", ["few.arrow", KEY]), ("merge 500,000, 50 %", "merge", ["many.arrow", KEY]),
         ("merge 500,000, 50 %, part", "merge", ["part.arrow", KEY]),
         ("compact 100 fragments", "compact", ["1000000"])]
# Rows to merge: name, rows, how many of them match, columns (None = all).
SOURCES = [("few.arrow", 10_000, 100, None), ("many.arrow", 500_000, 250_000, None), ("part.arrow", 500_000, 250_000, 2)]


def make_table(folder, rows):
    import lance
    import numpy as np
    import pyarrow as pa
    table = os.path.join(folder, "changes.lance")
    shutil.rmtree(table, ignore_errors=True)
    data = queries_beside_official.mixed_table(rows)
    vectors = pa.array(np.random.default_rng(3).random(rows * VECTOR, dtype="float32"))
    data = data.append_column("vec", pa.FixedSizeListArray.from_arrays(vectors, VECTOR))
    lance.write_dataset(data, table, max_rows_per_file=FRAGMENT_ROWS)
    parts = os.path.join(folder, "fragments.lance")
    shutil.rmtree(parts, ignore_errors=True)
    lance.write_dataset(data, parts, max_rows_per_file=rows // 100)
    lance.dataset(parts).delete("v % 10 = 3")
    return table, parts


def official_columns(dataset, work, args):
    import pyarrow as pa
    if work == "add":
        dataset.add_columns(dict([args[0].split("=", 1)]))
    elif work == "cast":
        types = {"int32": pa.int32(), "fixed_size_list<item: double>[32]": pa.list_(pa.float64(), VECTOR)}
        dataset.alter_columns({"path": args[0], "data_type": types[args[1]]})
    else:
        import numpy as np
        values = pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(7).random(8192 * 128, dtype="float32")), 128)
        schema = pa.schema([pa.field("vectors", values.type)])
        rows = int(args[0])
        batches = (pa.record_batch([values.slice(0, min(8192, rows - at))], schema) for at in range(0, rows, 8192))
        dataset.add_columns(pa.RecordBatchReader.from_batches(schema, batches))
    return dataset.count_rows()
def make_sources(folder, rows):
    """Rows of the table's kind: some have its keys, the others new ones, mixed."""
    import numpy as np
    import pyarrow as pa
    for name, n, matching, columns in SOURCES:
        rng = np.random.default_rng(n)
        ids = np.concatenate([rng.choice(rows, matching, replace=False), rows + np.arange(n - matching)])
        rng.shuffle(ids)
        data = queries_beside_official.mixed_table(n).set_column(0, KEY, pa.array(ids, "int64"))
        data = data.append_column("vec", pa.FixedSizeListArray.from_arrays(pa.array(rng.random(n * VECTOR, dtype="float32")), VECTOR))
        data = data.select(data.column_names[:columns]).combine_chunks()
        with pa.ipc.new_stream(os.path.join(folder, name), data.schema) as sink:
            sink.write_table(data, max_chunksize=100_000)


def official(work, table, args):
    """What bench/mutate_table.c does, with pylance."""
    import lance
    if work == "merge":
        import pyarrow as pa
        source = pa.ipc.open_stream(args[0]).read_all()
    before, allocated = beside_official.status("VmRSS"), beside_official.allocations()
    read, written = beside_official.bytes_read(), beside_official.bytes_written()
    start = time.perf_counter()
    dataset = lance.dataset(table)
    if work in ("add", "vectors", "cast"):
        rows = official_columns(dataset, work, args)
    elif work == "delete":
        rows = dataset.delete(args[0])["num_deleted_rows"]
    elif work == "merge":
        done = dataset.merge_insert(args[1]).when_matched_update_all().when_not_matched_insert_all().execute(source)
        rows = done["num_inserted_rows"] + done["num_updated_rows"]
    elif work == "compact":
        rows = dataset.optimize.compact_files(target_rows_per_fragment=int(args[0])).fragments_removed
    else:
        column, value = args[0].split("=", 1)
        rows = dataset.update({column: value}, where=args[1])["num_rows_updated"]
    seconds = time.perf_counter() - start
    print(seconds, rows, beside_official.bytes_read() - read, beside_official.bytes_written() - written, beside_official.status("VmHWM") - before,
          beside_official.allocations() - allocated)


def run(command, args, work, table, extra, counter=None):
    copy = table + ".copy"
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["cp", "-al", table, copy], check=True)  # files are never changed, only made
    argv = ["taskset", "-c", f"0-{args.cpus - 1}", *command, work, copy, *extra]
    env = dict(os.environ, LD_PRELOAD=counter) if counter else None
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, env=env, check=True)
    shutil.rmtree(copy)
    return [float(part) for part in done.stdout.split()]


def compare(args, commands, counter, name, work, table, extra):
    runs = {side: [] for side in commands}
    for _ in range(args.rounds):
        for side, command in commands.items():
            runs[side].append(run(command, args, work, table, extra))
    if len({r[1] for side in runs.values() for r in side}) != 1:
        sys.exit(f"{name}: the sides tell different numbers of rows: {runs}")
    synced = statistics.median(r[0] for r in runs["synced"]) * 1e3
    calls = [run(commands[side], args, work, table, extra, counter)[5] for side in ("pennon", "official")]
    seconds, _, read, written, peak, _ = ([statistics.median(r[part] for r in runs[side]) for side in ("pennon", "official")] for part in range(6))
    print(f"{name:<24} {seconds[0] * 1e3:10.1f} {synced:10.1f} {seconds[1] * 1e3:10.1f} {seconds[1] / seconds[0]:7.2f}   {peak[0] / 1e6:8.1f} {peak[1] / 1e6:8.1f} "
          f"{peak[1] / peak[0]:7.2f}   {read[0] / 1e6:8.1f} {read[1] / 1e6:8.1f}   {written[0] / 1e6:8.1f} {written[1] / 1e6:8.1f}   "
          f"{calls[0]:9.0f} {calls[1]:9.0f}", flush=True)


def main():
    if sys.argv[1:2] == ["--official"]:
        return official(sys.argv[2], sys.argv[3], sys.argv[4:])
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("programs")
    options.add_argument("folder")
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--only", type=lambda text: text.split(","))
    options.add_argument("--cpus", type=int, default=os.cpu_count())
    args = options.parse_args()
    import lance
    os.makedirs(args.folder, exist_ok=True)
    program = os.path.join(args.programs, "mutate_table")
    commands = {"pennon": [program, "none"], "synced": [program, "full"], "official": [sys.executable, os.path.abspath(__file__), "--official"]}
    counter = os.path.join(os.path.abspath(args.programs), "count_allocations.so")
    print(f"official {lance.__version__}, {args.rows} rows, {args.cpus} cpus; median of {args.rounds}")
    print(f"{'':<24} {'time, ms':^32} {'':>7}   {'peak, MB':^17} {'':>7}   {'read, MB':^17}   {'written, MB':^17}   {'calls for memory':^19}")
    print(f"{'work':<24} {'pennon':>10} {'synced':>10} {'official':>10} {'ratio':>7}   {'pennon':>8} {'official':>8} {'ratio':>7}   {'pennon':>8} {'official':>8}   "
          f"{'pennon':>8} {'official':>8}   {'pennon':>9} {'official':>9}")
    table, parts = make_table(args.folder, args.rows)
    make_sources(args.folder, args.rows)
    for name, work, extra in WORKS:
        if args.only is None or work in args.only:
            places = {"ROWS": str(args.rows), **{name: os.path.join(args.folder, name) for name, *_ in SOURCES}}
            compare(args, commands, counter, name, work, parts if work == "compact" else table, [places.get(part, part) for part in extra])
    for name, *_ in SOURCES:
        os.remove(os.path.join(args.folder, name))
    shutil.rmtree(table)
    shutil.rmtree(parts)


if __name__ == "__main__":
    main()
