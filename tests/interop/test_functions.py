# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Functions of expressions: official answers anew, ours are held against the answers (tests/unit/test_expr_functions.c does)."""
import os
import subprocess
from pathlib import Path

import oracle
import pennon

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "unit" / "data" / "functions"


def program():
    path = Path(pennon.command()[0]).parent / "tests" / "test_expr_functions"
    assert path.exists(), f"{path} is not built"
    return path


def test_answers_of_official(tmp_path):
    made = subprocess.run([oracle.python_of("v8"), HERE / "function_answers.py", tmp_path], capture_output=True, text=True, timeout=300,
                          check=False)
    assert made.returncode == 0, made.stderr
    answers, errors = (int(word) for word in made.stdout.split() if word.isdigit())
    assert answers > 1000 and errors > 200
    ours = subprocess.run([program()], env={**os.environ, "PENNON_FUNCTIONS_DATA": str(tmp_path)}, capture_output=True, text=True,
                          timeout=300, check=False)
    assert ours.returncode == 0, ours.stdout + ours.stderr


def test_kept_answers_are_official(tmp_path):
    """What official refuses has not changed since the answers of the unit test were made."""
    subprocess.run([oracle.python_of("v8"), HERE / "function_answers.py", tmp_path], capture_output=True, timeout=300, check=True)
    assert (tmp_path / "errors.txt").read_text() == (DATA / "errors.txt").read_text()
