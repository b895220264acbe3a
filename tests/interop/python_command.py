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
FLAGS = {"--file", "--with-row-id", "--with-row-address", "--stable-row-ids", "--json", "--shallow", "--deep"}
REPEATED = {"--set"}
KNOWN = {
    "scan": {"--file", "--format", "--columns", "--limit", "--offset", "--version", "--tag", "--branch", "--with-row-id", "--with-row-address", "--batch-size",
             "--blobs", "--filter", "--expr", "--order-by"},
    "take": {"--file", "--format", "--columns", "--version", "--tag", "--branch", "--rows", "--row-ids", "--addresses", "--range"},
    "count": {"--version", "--tag", "--branch", "--filter"},
    "write": {"--mode", "--data-storage-version", "--max-rows-per-file", "--stable-row-ids"},
    "delete": {"--where", "--branch", "--json"},
    "update": {"--set", "--where", "--branch", "--json"},
    "restore": {"--version", "--tag", "--branch", "--json"},
    "config": set(),
    "blob": {"--column", "--row", "--row-id", "--address", "--offset", "--length", "--version", "--tag", "--branch"},
    "delta": {"--from", "--to", "--kind", "--columns", "--json"},
    "tag": {"--version", "--branch", "--tag", "--json"},
    "branch": {"--version", "--branch", "--tag", "--json"},
    "clone": {"--version", "--branch", "--tag", "--shallow", "--deep", "--json"},
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
        elif arg not in KNOWN[verb] or arg in options and arg not in REPEATED:
            raise NotOurs
        elif arg in REPEATED:
            options.setdefault(arg, []).append(next(rest))
        else:
            value = options[arg] = True if arg in FLAGS else next(rest)
            if arg == "--filter" and value.startswith("@"):
                with open(value[1:], encoding="utf-8") as file:
                    options[arg] = file.read()
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


def orders(text):
    found = []
    for part in text.split(","):
        name, *words = part.split(" ")
        if not name or set(words) - {"asc", "desc", "nulls", "first", "last"}:
            raise NotOurs
        found.append(pennon.scanner.ColumnOrdering(name, "desc" not in words, "first" in words))
    return found


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
    if "--expr" in options:
        if "--columns" in options:
            raise NotOurs
        columns = dict([options["--expr"].split("=", 1)])
    else:
        columns = columns_of(options)
    if "--order-by" in options:
        keywords["order_by"] = orders(options["--order-by"])
    return ipc(opened(names[0], options).scanner(
        columns, options.get("--filter"), with_row_id=options.get("--with-row-id"), with_row_address=options.get("--with-row-address"),
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


# ---- what changes a table ----


class Missing(Exception):
    """What the command ends with code 3 for."""


def changed(names, options, result):
    """JSON has what the package says of it; the text for people is the command's."""
    if "--json" not in options:
        return b""
    return json.dumps(result).encode() + b"\n"


def delete(names, options):
    if len(names) != 1 or "--where" not in options:
        raise NotOurs
    ds = opened(names[0], options)
    return changed(names, options, {"rows_deleted": ds.delete(options["--where"])["num_deleted_rows"], "version": ds.version})


def update(names, options):
    sets = [text.split("=", 1) for text in options.get("--set", [])]
    if len(names) != 1 or not sets or any(len(pair) != 2 or not all(pair) for pair in sets) or len(dict(sets)) != len(sets):
        raise NotOurs
    ds = opened(names[0], options)
    return changed(names, options, {"rows_updated": ds.update(dict(sets), options.get("--where"))["num_rows_updated"], "version": ds.version})


def restore(names, options):
    if len(names) != 1 or not set(options) - {"--json"}:
        raise NotOurs
    ds = opened(names[0], options)
    ds.restore()
    return changed(names, options, {"version": ds.version, "rows": ds.count_rows()})


def reference(options):
    """What a tag or a branch begins at: a version, (branch, version), or a tag's name."""
    version, tag, branch = (options.get(name) for name in ("--version", "--tag", "--branch"))
    if tag is not None and (version is not None or branch is not None):
        raise NotOurs
    if tag is not None:
        return tag
    number = None if version is None else int(version)
    return number if branch is None else (branch, number)


def told(options, what, name, **facts):
    """A tag or branch that was made, or is gone."""
    if "--json" in options:
        return json.dumps({what: name, **facts}).encode() + b"\n"
    return (f"{what} {name}: version {facts['version']}\n" if "version" in facts else f"{what} {name} deleted\n").encode()


def named(names, options):
    if len(names) != 3 or names[0] not in ("create", "delete") or names[0] == "delete" and set(options) - {"--json"}:
        raise NotOurs
    return names


def tag(names, options):
    action, uri, name = named(names, options)
    ds = pennon.dataset(uri)
    if action == "delete":
        ds.tags.delete(name)
        return told(options, "tag", name, deleted=True)
    ds.tags.create(name, reference(options))
    return told(options, "tag", name, version=ds.tags.list()[name]["version"])


def branch(names, options):
    action, uri, name = named(names, options)
    ds = pennon.dataset(uri)
    if action == "delete":
        ds.branches.delete(name)
        return told(options, "branch", name, deleted=True)
    return told(options, "branch", name, version=ds.create_branch(name, reference(options)).version)


def clone(names, options):
    if len(names) != 2 or {"--shallow", "--deep"} <= set(options):
        raise NotOurs
    shallow = "--shallow" in options
    ds, at = pennon.dataset(names[0]), reference(options)
    made = (ds.shallow_clone if shallow else ds.deep_clone)(names[1], ds.version if at is None else at)
    if "--json" in options:
        return json.dumps({"uri": names[1], "version": made.version, "deep": not shallow}).encode() + b"\n"
    return f"{names[1]}: version {made.version}\n".encode()


def config(names, options):
    action, uri, *rest = names
    ds = pennon.dataset(uri)
    if action == "set" and rest and all("=" in pair for pair in rest):
        ds.update_config(dict(pair.split("=", 1) for pair in rest))
    elif action == "unset" and rest:
        ds.delete_config_keys(rest)
    else:
        raise NotOurs
    return b""


# ---- blobs and deltas ----


def blob(names, options):
    chosen = [(how, int(options[name])) for name, how in (("--row", "indices"), ("--row-id", "ids"), ("--address", "addresses")) if name in options]
    if len(names) != 2 or names[0] != "get" or "--column" not in options or len(chosen) != 1:
        raise NotOurs
    how, row = chosen[0]
    [file] = opened(names[1], options).take_blobs(options["--column"], **{how: [row]})
    if file is None:
        raise Missing("blob get: the value is null")
    offset, length = int(options.get("--offset", 0)), int(options.get("--length", -1))
    if offset > file.size():
        raise NotOurs
    file.seek(offset)
    return file.read(length)


def delta(names, options):
    kind = options.get("--kind", "counts")
    if len(names) != 1 or kind == "transactions" or "--json" not in options or not options.get("--from", "").isdigit():
        raise NotOurs
    ds = pennon.dataset(names[0])
    end = int(options.get("--to", ds.version))
    begin = int(options["--from"])
    found = ds.checkout_version(end).delta(begin_version=begin, end_version=end)
    if kind == "counts":
        return json.dumps({"begin": begin, "end": end, **found.count_rows()}).encode() + b"\n"
    rows = getattr(found, f"get_{kind}_rows")().read_all()
    if "--columns" in options:
        rows = rows.select([*columns_of(options), *rows.schema.names[-3:]])
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows.to_pylist())


VERBS = {"scan": scan, "take": take, "count": count, "write": write, "delete": delete, "update": update, "restore": restore, "tag": tag, "branch": branch,
         "clone": clone, "config": config, "blob": blob, "delta": delta}


def answer(args):
    try:
        verb, names, options = parse(args)
        return 0, "", VERBS[verb](names, options)
    except NotOurs:
        return None, "", b""
    except Missing as error:
        return 3, f"pennon: {error}", b""
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
