# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Reading and writing calls of the command, done by the Python package: a server that pennon.py talks to when PENNON_PYTHON names its Python.

A request is a line: the arguments of the command as JSON. The answer is a line {code, stderr, bytes} and so many bytes of what the command
would have printed; code null says that the call is not one for the package. The answer of the command and of the package must be the same.
"""
import json
import sys

import pennon
import pennon.file
import pyarrow as pa

sys.stdout.reconfigure(line_buffering=False)
CODES = {"INVALID_ARGUMENT": 2, "NOT_FOUND": 3, "ALREADY_EXISTS": 3, "CORRUPT": 4, "CONFLICT": 5}
FLAGS = {"--file", "--with-row-id", "--with-row-address", "--stable-row-ids"}
KNOWN = {
    "scan": {"--file", "--format", "--columns", "--limit", "--offset", "--version", "--tag", "--branch", "--with-row-id", "--with-row-address", "--batch-size",
             "--blobs", "--filter"},
    "take": {"--file", "--format", "--columns", "--version", "--tag", "--branch", "--rows", "--row-ids", "--addresses", "--range"},
    "count": {"--version", "--tag", "--branch", "--filter"},
    "write": {"--mode", "--data-storage-version", "--max-rows-per-file", "--stable-row-ids"},
}


class NotOurs(Exception):
    """The command does it."""


def parse(args):
    verb, names, options = args[0], [], {}
    if verb not in KNOWN:
        raise NotOurs
    rest = iter(args[1:])
    for arg in rest:
        if not arg.startswith("--"):
            names.append(arg)
        elif arg not in KNOWN[verb] or arg in options:
            raise NotOurs
        else:
            options[arg] = True if arg in FLAGS else next(rest)
    return verb, names, options


def columns_of(options):
    text = options.get("--columns")
    return None if text is None else [name for name in text.split(",") if name]


def opened(uri, options):
    ds = pennon.dataset(uri)
    version = options.get("--version")
    if "--tag" in options:
        return ds.checkout_version(options["--tag"])
    if "--branch" in options:
        return ds.checkout_version((options["--branch"], None if version is None else int(version)))
    return ds if version is None else ds.checkout_version(int(version))


def rows_of(text):
    if text.startswith("@"):
        with open(text[1:], encoding="ascii") as file:
            return [int(line) for line in file.read().split()]
    return [int(row) for row in text.split(",")] if text else []


def ipc(stream):
    """As the command gives it: the batches that the stream has."""
    with pa.RecordBatchReader.from_stream(stream) as reader:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def scan(names, options):
    if options.get("--format") != "arrow" or len(names) != 1:
        raise NotOurs
    if "--file" in options:
        if set(options) - {"--file", "--format", "--columns"}:
            raise NotOurs
        return ipc(pennon.file.LanceFileReader(names[0], columns=columns_of(options)).read_all())
    keywords = {name: int(options["--" + name.replace("_", "-")]) for name in ("limit", "offset", "batch_size") if "--" + name.replace("_", "-") in options}
    blobs = {None: None, "bytes": "all_binary"}[options.get("--blobs")]
    return ipc(opened(names[0], options).scanner(
        columns_of(options), options.get("--filter"), with_row_id=options.get("--with-row-id"), with_row_address=options.get("--with-row-address"),
        blob_handling=blobs, **keywords))


def take(names, options):
    if options.get("--format") != "arrow" or len(names) != 1:
        raise NotOurs
    columns = columns_of(options)
    if "--file" in options:
        if set(options) - {"--file", "--format", "--columns", "--rows"}:
            raise NotOurs
        return ipc(pennon.file.LanceFileReader(names[0], columns=columns).take_rows(rows_of(options["--rows"])))
    ds = opened(names[0], options)
    if "--rows" in options:
        return ipc(ds.take(rows_of(options["--rows"]), columns))
    if "--row-ids" in options:
        return ipc(ds._take_rows(rows_of(options["--row-ids"]), columns))
    raise NotOurs


def count(names, options):
    return b"%d\n" % opened(names[0], options).count_rows(options.get("--filter"))


def batches(files):
    for file in files:
        with pa.ipc.open_stream(pa.OSFile(file)) as reader:
            yield from reader


def write(names, options):
    uri, *files = names
    # The command refuses what an option cannot mean for a table; the package, like pylance, lets it be.
    if not files or options.get("--mode") == "append" and len(options) > 1:
        raise NotOurs
    try:
        with pa.ipc.open_stream(pa.OSFile(files[0])) as reader:
            schema = reader.schema
    except (pa.ArrowInvalid, OSError):
        raise NotOurs from None
    limit = options.get("--max-rows-per-file")
    # One at once, as the command does: no thread of ours reads the files ahead.
    pennon.write_dataset(pa.RecordBatchReader.from_batches(schema, batches(files)), uri, mode=options.get("--mode", "create"),
                         data_storage_version=options.get("--data-storage-version"), enable_stable_row_ids="--stable-row-ids" in options,
                         **({} if limit is None else {"max_rows_per_file": int(limit)}))
    return b""


VERBS = {"scan": scan, "take": take, "count": count, "write": write}


def answer(args):
    try:
        verb, names, options = parse(args)
        return 0, "", VERBS[verb](names, options)
    except NotOurs:
        return None, "", b""
    except Exception as error:
        detail = getattr(error, "detail", None)
        return CODES.get(detail.code, 1) if detail else 1, "pennon: %s" % error, b""


def main():
    for line in sys.stdin:
        code, stderr, data = answer(json.loads(line))
        sys.stdout.write(json.dumps({"code": code, "stderr": stderr, "bytes": len(data)}) + "\n")
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
