#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Pennon and official Lance on the commits of a table: open by fragments and by versions, appends of one row by one writer, by eight at once, and
through Pennon's appender against as many threads of official.

Tables are made by official; long histories are its manifests under the names of more versions, of which the last is a real one. Each round is
a process of its own, the two sides in turn, each on its own copy of the table; the figure is the median of ROUNDS processes.

Usage: commits_beside_official.py FOLDER_OF_PROGRAMS FOLDER [--rounds N] [--quick]   (program: bench/commit_table.c)
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

ROUNDS = 7
OPENS = [(1, 1), (1000, 1), (10000, 1), (100000, 1), (1, 10000), (1000, 10000)]  # fragments, versions
APPENDS = [(1, 1), (1000, 1), (1000, 10000)]


def status(key):
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024


def official_open(table, repeats):
    import lance
    seconds, before = [], status("VmRSS")
    for _ in range(repeats):
        start = time.perf_counter()
        lance.dataset(table)
        seconds.append(time.perf_counter() - start)
    print(statistics.median(seconds), sum(seconds), 0, status("VmHWM") - before)


def official_append(table, appends, threads):
    """What bench/commit_table.c does, with pylance; every thread has a handle of its own."""
    import threading
    import lance
    import pyarrow as pa
    row, seconds, before = pa.table({"c": pa.array([1], pa.int64())}), [], status("VmRSS")
    version = lance.dataset(table).version

    def work():
        dataset = lance.dataset(table)
        for _ in range(appends):
            start = time.perf_counter()
            dataset = lance.write_dataset(row, dataset, mode="append")
            seconds.append(time.perf_counter() - start)
    workers = [threading.Thread(target=work) for _ in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    total = time.perf_counter() - start
    print(statistics.median(seconds), total, lance.dataset(table).version - version, status("VmHWM") - before)


def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def with_version(manifest, version):
    """The bytes of a manifest file with another version number: a second field 3 at the end of the message counts."""
    size = len(manifest)
    position = int.from_bytes(manifest[size - 16:size - 8], "little")
    message = manifest[position + 4:size - 16] + b"\x18" + varint(version)
    return manifest[:position] + len(message).to_bytes(4, "little") + message + manifest[size - 16:]


def make_table(folder, fragments, versions):
    """A table of one column with so many fragments, all of the same file of ten rows, and so many versions."""
    import lance
    import pyarrow as pa
    table = os.path.join(folder, f"table-{fragments}-{versions}.lance")
    shutil.rmtree(table, ignore_errors=True)
    dataset = lance.write_dataset(pa.table({"c": pa.array(range(10), pa.int64())}), table)
    one = json.loads(json.dumps(dataset.get_fragments()[0].metadata.to_json()))
    if fragments > 1:
        copies = [lance.FragmentMetadata.from_json(json.dumps(dict(one, id=0))) for _ in range(fragments - 1)]
        dataset = lance.LanceDataset.commit(table, lance.LanceOperation.Append(copies), read_version=1)
    name = os.path.join(table, "_versions", f"{(1 << 64) - 1 - dataset.version:020}.manifest")
    with open(name, "rb") as f:
        manifest = f.read()
    for version in range(dataset.version + 1, versions + 1):
        path = os.path.join(table, "_versions", f"{(1 << 64) - 1 - version:020}.manifest")
        with open(path, "wb") as f:
            f.write(with_version(manifest, version) if version == versions else b"not read")
    if versions > dataset.version:
        hint = os.path.join(table, "_versions", "latest_version_hint.json")
        with open(hint + ".tmp", "w", encoding="ascii") as f:
            f.write(f'{{"version":{versions}}}')
        os.rename(hint + ".tmp", hint)
    return table


def run(argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True)
    return [float(x) for x in done.stdout.split()]


def line(name, work, mine, theirs, per):
    """Medians over rounds: seconds of one, versions and peak memory; `per` 0 = seconds of one, 1 = appends a second of all."""
    ms = [statistics.median(r[0] for r in side) * 1e3 for side in (mine, theirs)]
    peak = [statistics.median(r[3] for r in side) / 1e6 for side in (mine, theirs)]
    rate = [statistics.median(per / r[1] for r in side) for side in (mine, theirs)] if per else [0, 0]
    versions = [statistics.median(r[2] for r in side) for side in (mine, theirs)]
    better = rate[0] / rate[1] if per else ms[1] / ms[0]
    print(f"{name:<26} {work:<24} {ms[0]:9.3f} {ms[1]:9.3f} {better:7.2f}   {rate[0]:9.0f} {rate[1]:9.0f}   {versions[0]:8.0f} {versions[1]:8.0f}   "
          f"{peak[0]:8.1f} {peak[1]:8.1f}", flush=True)


def rounds_of(args, table, commands, fresh):
    runs = {key: [] for key in commands}
    for _ in range(args.rounds):
        for key, command in commands.items():
            where = table
            if fresh:
                where = f"{table}.{key}"
                shutil.rmtree(where, ignore_errors=True)
                subprocess.run(["cp", "-a", table, where], check=True)
            runs[key].append(run([part if part != "TABLE" else where for part in command]))
            if fresh:
                shutil.rmtree(where)
    return runs["pennon"], runs["official"]


def eight(args, table, commands, writers):
    """Processes at once on one table; a round gives the slowest loop, in which all had appended."""
    result = {}
    for key, command in commands.items():
        result[key] = []
        for _ in range(args.rounds):
            where = f"{table}.{key}"
            shutil.rmtree(where, ignore_errors=True)
            subprocess.run(["cp", "-a", table, where], check=True)
            argv = [part if part != "TABLE" else where for part in command]
            running = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(writers)]
            out = [[float(x) for x in p.communicate()[0].split()] for p in running]
            if any(p.returncode for p in running):
                sys.exit(f"{key}: a writer failed")
            result[key].append([statistics.median(o[0] for o in out), max(o[1] for o in out), 0, max(o[3] for o in out)])
            shutil.rmtree(where)
    return result["pennon"], result["official"]


def main():
    if sys.argv[1:2] == ["--open"]:
        return official_open(sys.argv[2], int(sys.argv[3]))
    if sys.argv[1:2] == ["--append"]:
        return official_append(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("programs")
    options.add_argument("folder")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--quick", action="store_true", help="small tables and few appends: does it run")
    args = options.parse_args()
    import lance
    os.makedirs(args.folder, exist_ok=True)
    me = [sys.executable, os.path.abspath(__file__)]
    opens, appends = ([(1, 1), (100, 100)], [(1, 1)]) if args.quick else (OPENS, APPENDS)
    count, threads = (3, 4) if args.quick else (20, 32)
    commits = os.path.join(args.programs, "commit_table")
    print(f"official {lance.__version__}, {os.cpu_count()} cores; median of {args.rounds}; ratio: how much faster Pennon is (of the rates where they stand)")
    print(f"{'':<26} {'':<24} {'of one, ms':^19} {'':>7}   {'a second':^19}   {'versions':^17}   {'peak, MB':^17}")
    print(f"{'table':<26} {'work':<24} {'pennon':>9} {'official':>9} {'ratio':>7}   {'pennon':>9} {'official':>9}   {'pennon':>8} {'official':>8}"
          f"   {'pennon':>8} {'official':>8}")
    for fragments, versions in opens:
        table = make_table(args.folder, fragments, versions)
        commands = {"pennon": [os.path.join(args.programs, "commit_table"), "open", "TABLE", "11"], "official": [*me, "--open", "TABLE", "11"]}
        line(f"{fragments} fragments, {versions} v.", "open", *rounds_of(args, table, commands, False), 0)
        if (fragments, versions) in appends:
            for work in ("append", "append-synced"):
                commands = {"pennon": [commits, work, "TABLE", str(count)], "official": [*me, "--append", "TABLE", str(count), "1"]}
                line(f"{fragments} fragments, {versions} v.", f"{work} of 1 row", *rounds_of(args, table, commands, True), 0)
        shutil.rmtree(table)
    table = make_table(args.folder, 1, 1)
    for work in ("append", "append-synced"):
        commands = {"pennon": [commits, work, "TABLE", str(count)], "official": [*me, "--append", "TABLE", str(count), "1"]}
        line("1 fragment", f"{work}, 8 processes", *eight(args, table, commands, 8), 8 * count)
    for work in ("appender", "appender-synced"):
        commands = {"pennon": [commits, work, "TABLE", str(count), str(threads)], "official": [*me, "--append", "TABLE", str(count), "4"]}
        mine, theirs = rounds_of(args, table, commands, True)
        # Official gets four threads: more fail each other's commits until their retries are used up.
        theirs = [[r[0], r[1] * threads / 4, r[2], r[3]] for r in theirs]
        line("1 fragment", f"{work}, {threads} threads", mine, theirs, threads * count)
    shutil.rmtree(table)


if __name__ == "__main__":
    main()
