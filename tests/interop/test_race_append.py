# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Sixteen processes append to one local table at once, four of them official Lance: every row is there once at the end, the versions have no gap."""
import json
import subprocess

import pyarrow as pa
import pytest

import oracle
import pennon

OURS, OFFICIAL, ROUNDS, ROWS = 12, 4, 4, 25

OFFICIAL_WRITER = """
import sys, lance, pyarrow as pa
uri, first, rounds, rows = sys.argv[1], *map(int, sys.argv[2:])
sys.stdin.readline()
for r in range(rounds):
    at = first + r * rows
    lance.write_dataset(pa.table({"id": pa.array(range(at, at + rows), pa.int64())}), uri, mode="append")
"""

# A shell loop: each append is a process of its own.
OUR_WRITER = 'read go; uri=$1; shift; for f in "$@"; do %s write "$uri" "$f" --mode append || exit $?; done'


def _save(path, first):
    table = pa.table({"id": pa.array(range(first, first + ROWS), pa.int64())})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


@pytest.mark.parametrize("storage", ["2.0", "2.1"])
def test_every_row_of_every_writer_is_there_once(tmp_path, storage):
    uri = str(tmp_path / "t.lance")
    pennon.write(uri, _save(tmp_path / "base", -ROWS), data_storage_version=storage)
    command = " ".join(pennon.command())
    started = []
    for writer in range(OURS + OFFICIAL):
        first = writer * ROUNDS * ROWS
        if writer < OURS:
            inputs = [_save(tmp_path / f"in-{writer}-{r}", first + r * ROWS) for r in range(ROUNDS)]
            argv = ["sh", "-c", OUR_WRITER % command, "sh", uri, *inputs]
        else:
            argv = [oracle.python_of("v8"), "-c", OFFICIAL_WRITER, uri, str(first), str(ROUNDS), str(ROWS)]
        started.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    failures = []
    for number, process in enumerate(started):
        _, message = process.communicate(timeout=300)
        if process.returncode:
            failures.append(f"writer {number} ({'ours' if number < OURS else 'official'}): {process.returncode} {message[-500:]}")
    assert not failures, "\n".join(failures)
    total = (OURS + OFFICIAL) * ROUNDS
    ids = sorted(pennon.scan(uri).column("id").to_pylist())
    assert ids == list(range(-ROWS, total * ROWS))
    versions = [json.loads(line)["version"] for line in pennon.run("versions", uri, "--json").decode().splitlines()]
    assert versions == list(range(1, total + 2))
    pennon.run("verify", uri)  # exits with 1 when it finds something
    theirs = subprocess.run([oracle.python_of("v8"), "-c", "import sys, lance; d = lance.dataset(sys.argv[1]); print(d.count_rows(), d.version)", uri],
                            capture_output=True, text=True, check=True).stdout
    assert theirs.split() == [str((total + 1) * ROWS), str(total + 1)]
