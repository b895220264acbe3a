# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The two official releases as objects: Oracle("v8").write(...). Each runs in a helper process of its own venv.

PENNON_VENV8 and PENNON_VENVNEW name the Pythons; by default build/venv8/bin/python and build/venvnew/bin/python
of the repository. An Oracle is not thread safe: give each worker its own (see pool()).
"""
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
NAMES = ("v8", "new")
VERSIONS = {"v8": "8.0.0", "new": "14.0.2"}
TIMEOUT_SECONDS = 300


class Refused(Exception):
    """Official answered with an error, a panic, or died."""


def python_of(name):
    default = ROOT / "build" / {"v8": "venv8", "new": "venvnew"}[name] / "bin" / "python"
    path = os.environ.get({"v8": "PENNON_VENV8", "new": "PENNON_VENVNEW"}[name], str(default))
    if not Path(path).exists():
        sys.exit(f"no Python with pylance {VERSIONS[name]} at {path}: run tools/venv.sh or set PENNON_VENV8 / PENNON_VENVNEW")
    return path


class Oracle:
    def __init__(self, name):
        self.name, self.process = name, None

    def _start(self):
        log_dir = ROOT / "build" / "interop"
        log_dir.mkdir(parents=True, exist_ok=True)
        self.log = open(log_dir / f"oracle-{self.name}-{os.getpid()}.log", "ab")
        environment = dict(os.environ, RUST_BACKTRACE="0", LANCE_LOG="error", PYTHONPATH=str(HERE))
        self.process = subprocess.Popen([python_of(self.name), str(HERE / "oracle_server.py")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)

    def call(self, function, **args):
        if self.process is None or self.process.poll() is not None:
            self._start()
        # One reader thread a call keeps the time limit honest even if official hangs inside a read.
        answer = queue.Queue()
        process = self.process

        def talk():
            try:
                process.stdin.write(json.dumps({"call": function, "args": args}) + "\n")
                process.stdin.flush()
                answer.put(process.stdout.readline())
            except (OSError, ValueError) as error:
                answer.put(error)

        threading.Thread(target=talk, daemon=True).start()
        try:
            line = answer.get(timeout=TIMEOUT_SECONDS)
        except queue.Empty:
            self.close()
            raise Refused(f"hang: no answer to {function} in {TIMEOUT_SECONDS} s") from None
        if not isinstance(line, str) or not line:
            self.close()
            raise Refused(f"abort: the process died in {function}")
        reply = json.loads(line)
        if "error" in reply:
            raise Refused(reply["error"])
        return reply["ok"]

    def __getattr__(self, function):
        if function.startswith("_"):
            raise AttributeError(function)
        return lambda **args: self.call(function, **args)

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Pool:
    """Both oracles for every worker thread."""

    def __init__(self):
        self.local, self.all, self.lock = threading.local(), [], threading.Lock()

    def get(self, name):
        mine = self.local.__dict__.setdefault("oracles", {})
        if name not in mine:
            mine[name] = Oracle(name)
            with self.lock:
                self.all.append(mine[name])
        return mine[name]

    def close(self):
        for oracle in self.all:
            oracle.close()
