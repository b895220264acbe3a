#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""How small and quick Pennon is as a whole: bytes of the stripped shared library and of the command, time of a clean build without a compiler
cache, and the time that `pennon info` takes from start to end, with `import lance` and an open by official Lance beside it.

Usage: small.py PENNON LIBRARY FOLDER   (the command, the shared library, a folder to build in)
"""
import os
import shutil
import statistics
import subprocess
import sys
import time

ROUNDS = 15
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def stripped(path, folder):
    target = os.path.join(folder, "stripped")
    subprocess.run(["strip", "-o", target, path], check=True)
    return os.path.getsize(target)


def clean_build(folder):
    where = os.path.join(folder, "clean")
    shutil.rmtree(where, ignore_errors=True)
    start = time.perf_counter()
    env = dict(os.environ, CCACHE_DISABLE="1")
    for argv in (["cmake", "-S", HERE, "-B", where, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DPENNON_TESTS=OFF"],
                 ["cmake", "--build", where, "-j", str(os.cpu_count())]):
        subprocess.run(argv, check=True, env=env, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    shutil.rmtree(where)
    return seconds


def median_ms(argv):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main():
    command, library, folder = sys.argv[1:]
    import lance
    import pyarrow as pa
    os.makedirs(folder, exist_ok=True)
    table = os.path.join(folder, "info.lance")
    shutil.rmtree(table, ignore_errors=True)
    lance.write_dataset(pa.table({"a": range(1000)}), table)
    official = [sys.executable, "-c", f"import lance; print(lance.dataset({table!r}).schema)"]
    native = next(os.path.join(os.path.dirname(lance.__file__), name) for name in os.listdir(os.path.dirname(lance.__file__))
                  if name.endswith(".so"))
    print(f"{'':<34} {'pennon':>10} {'official':>10}")
    print(f"{'library, stripped, MB':<34} {stripped(library, folder) / 1e6:10.2f} {os.path.getsize(native) / 1e6:10.2f}")
    print(f"{'command, stripped, MB':<34} {stripped(command, folder) / 1e6:10.2f} {'':>10}")
    print(f"{'clean build, no cache, s':<34} {clean_build(folder):10.1f} {'':>10}")
    print(f"{'info of a table, whole process, ms':<34} {median_ms([command, 'info', table]):10.1f} {median_ms(official):10.1f}")


if __name__ == "__main__":
    main()
