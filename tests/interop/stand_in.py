# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Stands in for the command, with official Lance behind the same arguments: it tests the harness, not Pennon.

    PENNON="python tests/interop/stand_in.py" pytest tests/interop

Official is loaded once, in a server that the first call starts (build/interop/stand-in-*.sock); STAND_IN picks the
release (v8 or new, default new). STAND_IN_BREAK=value|row|null|order makes it lie, so that tests can be seen to fail.
"""
import array
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = os.environ.get("STAND_IN", "new")
BREAK = os.environ.get("STAND_IN_BREAK", "")
SOCKET = ROOT / "build" / "interop" / f"stand-in-{RELEASE}-{BREAK}.sock"
IDLE_SECONDS = 60


def arguments(argv):
    """([positional], {option: value})."""
    plain, options, flags = [], {}, {"--with-row-id", "--with-row-address", "--stable-row-ids", "--json", "--file"}
    words = iter(argv)
    for word in words:
        if word in flags:
            options[word[2:]] = True
        elif word.startswith("--") or word == "-o":
            options[word.lstrip("-")] = next(words)
        else:
            plain.append(word)
    return plain, options


def numbers(text):
    if text.startswith("@"):
        text = Path(text[1:]).read_text()
    return [int(part) for part in text.replace("\n", ",").split(",") if part]


def opened(lance, uri, options):
    if "as-of" in options:
        from datetime import datetime
        return lance.dataset(uri, asof=datetime.fromisoformat(options["as-of"]))
    if "branch" in options:
        return lance.dataset(uri).checkout_version((options["branch"], None))
    version = int(options["version"]) if "version" in options else options.get("tag")
    return lance.dataset(uri, version=version)


def stream(pa, table):
    if BREAK and table.num_rows:
        if BREAK == "row":
            table = table.slice(1)
        elif BREAK == "order":
            table = table.take(list(range(table.num_rows))[::-1])
        else:
            table = pa.concat_tables([table.slice(1), table.slice(0, 1)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def perform(argv):
    import lance
    import pyarrow as pa
    plain, options = arguments(argv)
    verb, uri = plain[0], plain[1]
    columns = options["columns"].split(",") if "columns" in options else None
    if verb == "scan" and "file" in options:
        from lance.file import LanceFileReader
        return stream(pa, LanceFileReader(uri).read_all().to_table())
    if verb == "scan":
        more = {k: int(options[k]) for k in ("limit", "offset") if k in options}
        if "batch-size" in options:
            more["batch_size"] = int(options["batch-size"])
        return stream(pa, opened(lance, uri, options).to_table(
            columns=columns, with_row_id="with-row-id" in options, with_row_address="with-row-address" in options, **more))
    if verb == "take" and "file" in options:
        from lance.file import LanceFileReader
        rows = numbers(options["rows"])
        table = LanceFileReader(uri).take_rows(sorted(set(rows))).to_table()
        order = sorted(set(rows))
        return stream(pa, table.take([order.index(r) for r in rows]))
    if verb == "take":
        dataset = opened(lance, uri, options)
        if "range" in options:
            low, high = options["range"].split(":")
            return stream(pa, dataset.take(list(range(int(low), int(high))), columns=columns))
        if "rows" in options:
            return stream(pa, dataset.take(numbers(options["rows"]), columns=columns))
        return stream(pa, dataset._take_rows(numbers(options.get("row-ids") or options["addresses"]), columns=columns))
    if verb == "count":
        return str(lance.dataset(uri).count_rows()).encode()
    if verb == "versions":
        return json.dumps([{"version": v["version"]} for v in lance.dataset(uri).versions()]).encode()
    if verb == "verify":
        lance.dataset(uri).validate()
        return b"{}"
    if verb == "write":
        options_ipc = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
        batches, schema = [], None
        for path in plain[2:]:
            with pa.ipc.open_stream(pa.OSFile(path), options=options_ipc) as reader:
                schema = schema or reader.schema
                batches += list(reader)
        more = {}
        if "data-storage-version" in options:
            more["data_storage_version"] = options["data-storage-version"]
        if "max-rows-per-file" in options:
            more["max_rows_per_file"] = int(options["max-rows-per-file"])
        if "stable-row-ids" in options:
            more["enable_stable_row_ids"] = True
        lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches), uri, mode=options["mode"], **more)
        return b""
    raise ValueError(f"unknown verb {verb}")


def serve():
    import threading
    SOCKET.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(SOCKET))
    listener.listen(16)
    listener.settimeout(IDLE_SECONDS)

    def answer(connection):
        with connection:
            request = connection.makefile("rb").readline()
            try:
                body, code = perform(json.loads(request)), 0
            except BaseException as error:  # panics included
                body, code = f"{type(error).__name__}: {error}".encode(), 1
            connection.sendall(bytes([code]) + body)

    while True:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            SOCKET.unlink(missing_ok=True)
            return
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def connect():
    for attempt in range(400):
        channel = socket.socket(socket.AF_UNIX)
        try:
            channel.connect(str(SOCKET))
            return channel
        except OSError:
            channel.close()
            if attempt == 0:
                try:
                    os.close(os.open(f"{SOCKET}.lock", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    name, folder = {"v8": ("PENNON_VENV8", "venv8"), "new": ("PENNON_VENVNEW", "venvnew")}[RELEASE]
                    python = os.environ.get(name, str(ROOT / "build" / folder / "bin" / "python"))
                    with open(f"{SOCKET}.log", "ab") as log:
                        subprocess.Popen([python, __file__, "--serve"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         start_new_session=True)
            time.sleep(0.05)
    sys.exit("the stand-in's server did not start")


def main():
    if sys.argv[1:] == ["--serve"]:
        try:
            serve()
        finally:
            Path(f"{SOCKET}.lock").unlink(missing_ok=True)
        return
    SOCKET.parent.mkdir(parents=True, exist_ok=True)
    channel = connect()
    channel.sendall(json.dumps(sys.argv[1:]).encode() + b"\n")
    channel.shutdown(socket.SHUT_WR)
    answer = array.array("B")
    while chunk := channel.recv(1 << 20):
        answer.frombytes(chunk)
    data = answer.tobytes()
    out = sys.stderr if data[:1] != b"\0" else sys.stdout
    out.buffer.write(data[1:])
    sys.exit(data[0] if data else 134)


if __name__ == "__main__":
    main()
