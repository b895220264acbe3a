# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Runs official Lance for the tests: one JSON request a line on stdin, one JSON answer a line on stdout.

Started by oracle.py with the Python of the venv that holds the wanted pylance. A request is
{"call": name of a function in official_ops.py, or "module.function" of another module here, "args": {...}}; the
answer {"ok": value} or {"error": text}.
Panics of official arrive as BaseException and are answered as errors; an abort ends this process, which the
client sees and reports.
"""
import importlib
import json
import os
import sys

import official_ops


def function(name):
    module, _, name = name.rpartition(".")
    return getattr(importlib.import_module(module) if module else official_ops, name)


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print must not mix with the answers
    for line in sys.stdin:
        request = json.loads(line)
        try:
            value = function(request["call"])(**request["args"])
            answer = {"ok": value}
        except KeyboardInterrupt:
            return
        except BaseException as error:  # PanicException derives from BaseException
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
