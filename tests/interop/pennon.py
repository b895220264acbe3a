# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The command under test. PENNON names it (a path or a command line); default build/release/pennon.

PENNON_PYTHON names a Python with the package pennon: what it can do of a call is then done by the package (python_command.py).
"""
import atexit
import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = int(os.environ.get("PENNON_TIMEOUT", "120"))
INLINE_ROWS = 200  # longer row lists go through a file


class Failed(Exception):
    """The command refused (code > 0) or crashed (code < 0: signal)."""

    def __init__(self, argv, code, stderr):
        self.code, self.stderr = code, stderr
        self.crashed = code < 0 or code >= 128 or "Sanitizer" in stderr
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
        super().__init__(f"{how}: {stderr.strip()[-600:] or 'no message'}\n  {shlex.join(map(str, argv))[:400]}")


def command():
    parts = shlex.split(os.environ.get("PENNON", str(ROOT / "build" / "release" / "pennon")))
    if shutil.which(parts[0]) is None:
        sys.exit(f"no command at {parts[0]}: build it or set PENNON")
    return parts


def _start(argv, **options):
    """subprocess.run; tries again where the machine could not start the process at all (seen: EFAULT from fork under load)."""
    for last in (False, False, True):
        try:
            return subprocess.run(argv, **options)
        except OSError as error:
            if last or error.errno not in (errno.EFAULT, errno.EAGAIN):
                raise


class Package:
    """The Python package in a process of its own, one for each thread."""

    served = 0
    threads = threading.local()

    @classmethod
    def run(cls, args):
        """stdout of the call, or None where the package does not do it."""
        one = getattr(cls.threads, "one", None)
        if one is None or one.poll() is not None:
            one = cls.threads.one = cls.start()
        one.stdin.write(json.dumps(args).encode() + b"\n")
        one.stdin.flush()
        told = one.stdout.readline()
        if not told:
            raise Failed(["python", *args], one.wait() or 1, "the process of the package ended; see build/interop/python-*.log")
        told = json.loads(told)
        if told["code"] is None:
            return None
        cls.served += 1
        out = one.stdout.read(told["bytes"])
        if told["code"]:
            raise Failed(["python", *args], told["code"], told["stderr"])
        return out

    @staticmethod
    def start():
        log_dir = ROOT / "build" / "interop"
        log_dir.mkdir(parents=True, exist_ok=True)
        with open(log_dir / f"python-{os.getpid()}.log", "ab") as log:
            # -P: beside the script is this file, which has the package's name.
            one = subprocess.Popen([os.environ["PENNON_PYTHON"], "-P", str(Path(__file__).with_name("python_command.py"))], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=log)
        atexit.register(one.kill)
        return one


def run(*args, stdin=None):
    """stdout of one call, as bytes."""
    if stdin is None and os.environ.get("PENNON_PYTHON"):
        out = Package.run([str(a) for a in args])
        if out is not None:
            return out
    argv = command() + [str(a) for a in args]
    try:
        done = _start(argv, input=stdin, stdin=subprocess.DEVNULL if stdin is None else None,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(argv, 124, f"no end after {TIMEOUT_SECONDS} s") from None
    if done.returncode:
        raise Failed(argv, done.returncode, done.stderr.decode("utf-8", "replace"))
    return done.stdout


def table(data):
    """An Arrow IPC stream as a validated table: what Pennon hands out must be well formed, not only equal."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        out = reader.read_all()
    out.validate(full=True)
    return out


def _columns(columns):
    return [] if columns is None else ["--columns", ",".join(columns)]


def scan(uri, columns=None, file=False, **options):
    """options: limit, offset, version, tag, branch, as_of, with_row_id, with_row_address, batch_size, blobs, external_paths."""
    args = ["scan"] + (["--file"] if file else []) + [uri, "--format", "arrow"] + _columns(columns)
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            args.append(flag)
        elif value not in (None, False):
            args += [flag, value]
    return table(run(*args))


def take(uri, columns=None, file=False, blobs=None, **which):
    """which: one of rows, row_ids, addresses (lists) or range (text)."""
    (name, value), = which.items()
    args = ["take"] + (["--file"] if file else []) + [uri, "--format", "arrow"] + _columns(columns)
    args += ["--blobs", blobs] if blobs else []
    flag = "--" + name.replace("_", "-")
    if isinstance(value, str):
        return table(run(*args, flag, value))
    text = ",".join(str(v) for v in value)
    if len(value) <= INLINE_ROWS:
        return table(run(*args, flag, text))
    with tempfile.NamedTemporaryFile("w", suffix=".rows") as listed:
        listed.write(text.replace(",", "\n"))
        listed.flush()
        return table(run(*args, flag, "@" + listed.name))


def count(uri):
    return int(run("count", uri))


def findings(uri, *args):
    """What verify prints; empty when it finds nothing."""
    argv = command() + ["verify", str(uri), *map(str, args)]
    done = _start(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_SECONDS)
    if done.returncode not in (0, 1) or done.stderr:
        raise Failed(argv, done.returncode, done.stderr.decode("utf-8", "replace"))
    text = done.stdout.decode()
    assert (done.returncode == 0) == text.startswith("no findings: "), (argv, done.returncode, text)
    return text if done.returncode else ""


def as_json(*args):
    return json.loads(run(*args, "--json"))


def write(uri, *inputs, mode="create", **options):
    """inputs: IPC stream files. options: data_storage_version, max_rows_per_file, stable_row_ids, sync."""
    args = ["write", uri, *inputs, "--mode", mode]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            args.append(flag)
        elif value not in (None, False):
            args += [flag, value]
    return run(*args).decode()
