# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The code of docs/python-tutorial.md and of the README runs and shows what the page says."""
import ast
import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def steps(code):
    """Statements with the line that the page shows below them, or None."""
    lines = code.split("\n")
    for statement in ast.parse(code).body:
        below = lines[statement.end_lineno] if statement.end_lineno < len(lines) else ""
        yield statement, below.removeprefix("# > ") if below.startswith("# > ") else None


def run(code, scope):
    compared = 0
    for statement, wanted in steps(code):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), "page", "eval"), scope)
                if value is not None:
                    print(repr(value))
            else:
                exec(compile(ast.Module([statement], []), "page", "exec"), scope)
        if wanted is not None:
            assert said.getvalue().strip() == wanted, ast.unparse(statement)
            compared += 1
    return compared


@pytest.mark.parametrize("page, least", [("docs/python-tutorial.md", 20), ("README.md", 1), ("bindings/python/README.md", 0)])
def test_the_page_is_true(page, least, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    scope = {}
    assert sum(run(code, scope) for code in blocks) >= least


def test_a_wrong_page_is_seen():
    with pytest.raises(AssertionError, match="1 \\+ 1"):
        run("1 + 1\n# > 3\n", {})
