# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The annotations of the package, by mypy --strict, and that a program of a user checks against them."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "bindings" / "python"
PROGRAM = """
import pennon

ds: pennon.LanceDataset = pennon.dataset("t", version=3)
rows: int = ds.count_rows("id > 5")
for fragment in ds.get_fragments():
    name: int = fragment.fragment_id
pennon.write_dataset(ds, "u", mode="append")
"""


def mypy(*arguments, folder=PACKAGE, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / "build" / "mypy"), "--config-file", str(PACKAGE / "pyproject.toml"), *arguments],
        cwd=folder, env=dict(os.environ, **environment), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_strict():
    code, told = mypy("--strict", "-p", "pennon")
    assert code == 0 and "Success" in told, told


def test_the_module_lance():
    code, told = mypy("--strict", "-p", "lance", folder=PACKAGE.parent / "pennon-lance", MYPYPATH=str(PACKAGE))
    assert code == 0 and "Success" in told, told


def test_a_program(tmp_path):
    (tmp_path / "good.py").write_text(PROGRAM)
    code, told = mypy("--strict", str(tmp_path / "good.py"))
    assert code == 0, told
    (tmp_path / "bad.py").write_text(PROGRAM + "ds.count_rows(5, 6)\nds.nothing()\nds.take([1]).nothing\n")
    code, told = mypy("--strict", str(tmp_path / "bad.py"))
    assert code == 1 and 'has no attribute "nothing"' in told and "Too many arguments" in told, told
