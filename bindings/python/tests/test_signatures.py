# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The surface beside pylance 8.0.0: names, parameters, defaults. Every difference stands in docs/compatibility.md, in the table between its markers, which
this test compares; run as a program it writes the table: `python test_signatures.py` with the package on the path."""
import importlib
import inspect
import sys
from pathlib import Path

import conftest  # noqa: F401  (puts tests/interop on the path)
import oracle
import python_ops

PAGE = Path(__file__).resolve().parents[3] / "docs" / "compatibility.md"
BEGIN, END = "<!-- python surface: begin -->\n", "<!-- python surface: end -->\n"

MODULES = (
    "", "blob", "commit", "dataset", "debug", "file", "fragment", "indices", "log", "mem_wal", "optimize", "progress", "query", "sampler", "schema",
    "torch.data", "types", "udf",
)

# What is meant: (module or "*", the beginning of the name): why.
INTENDED = {
    ("", "set_logger"): "the logger's name is that of this package",
    ("log", "set_logger"): "the logger's name is that of this package",
    ("*", "LanceScanner"): "made by `LanceDataset.scanner`, not by programs",
    ("blob", "LanceBlobFile"): "a detail of pylance",
    ("dataset", "PySearchFilter"): "a detail of pylance",
    ("query", "PyFullTextQuery"): "a detail of pylance",
    ("sampler", "PrioritizedItem"): "a detail of pylance",
    ("torch.data", "concat_batches"): "a detail of pylance",
}


def lookup(module, name):
    try:
        return getattr(importlib.import_module(f"pennon.{module}" if module else "pennon"), name)
    except (ModuleNotFoundError, AttributeError):
        return None


def shown(parameters):
    """Parameters as one reads them."""
    texts, star = [], False
    for name, kind, default in parameters:
        if kind == "KEYWORD_ONLY" and not star:
            texts.append("*")
            star = True
        star = star or kind == "VAR_POSITIONAL"
        mark = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(kind, "")
        texts.append(mark + name + ("" if default is None else f"={default}"))
    return "(" + ", ".join(texts) + ")"


def same_default(theirs, ours):
    """None = there is none: then ours may have one."""
    return theirs in (None, ours)


def missing_parameters(theirs, ours):
    """What a call that official takes would not find; more parameters with defaults are no difference."""
    mine = {name: (kind, default) for name, kind, default in ours}
    anything = any(kind == "VAR_KEYWORD" for _, kind, _ in ours)
    positions = [name for name, kind, _ in ours if kind in ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")]
    found = []
    place = 0
    for name, kind, default in theirs:
        if kind in ("VAR_POSITIONAL", "VAR_KEYWORD"):
            if not any(other == kind for _, other, _ in ours):
                found.append(f"no `{'*' if kind == 'VAR_POSITIONAL' else '**'}{name}`")
            continue
        if name not in mine:
            if not anything:
                found.append(f"no `{name}`")
        elif not same_default(default, mine[name][1]):
            found.append(f"`{name}={'(needed)' if mine[name][1] is None else mine[name][1]}`, official `{default}`")
        if kind in ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD"):
            if place >= len(positions) or positions[place] != name:
                found.append(f"`{name}` is not at place {place + 1}")
            place += 1
    names = {name for name, _, _ in theirs}
    for name, kind, default in ours:
        if name not in names and default is None and kind in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"):
            found.append(f"`{name}` is needed")
    return found


def compare(name, theirs, ours, found):
    """Differences of one name and what is inside of it."""
    if isinstance(theirs, dict) != isinstance(ours, dict):
        found.append((name, f"official has {kind_of(theirs)}, here it is {kind_of(ours)}"))
    elif isinstance(theirs, dict):
        mine = ours["class"]
        for member, described in theirs["class"].items():
            if member == "fields":
                lost = [field for field in described if field not in mine.get("fields", ())]
                if lost:
                    found.append((name, "no fields " + ", ".join(f"`{field}`" for field in lost)))
            elif member == "()":
                if described is not None and mine.get("()") is not None:
                    found.extend((name, text) for text in missing_parameters(described, mine["()"]))
            elif member not in mine:
                if member not in mine.get("fields", ()):
                    found.append((f"{name}.{member}", "not there"))
            else:
                compare(f"{name}.{member}", described, mine[member], found)
    elif isinstance(theirs, list) and isinstance(ours, list):
        found.extend((name, text) for text in missing_parameters(theirs, ours))
    elif theirs is not None and ours is not None and theirs != ours and "value" not in (theirs, ours):
        found.append((name, f"official has {kind_of(theirs)}, here it is {kind_of(ours)}"))


def kind_of(described):
    if isinstance(described, dict):
        return "a class"
    return "a function" if isinstance(described, list) else f"a {described}"


def differences(theirs):
    """[(module, name, text)]"""
    all_found = []
    for module, names in theirs.items():
        for name, described in sorted(names.items()):
            value, found = lookup(module, name), []
            elsewhere = module == "" and any(name in others for other, others in theirs.items() if other)
            if value is None:
                found.append((name, "not there"))
            elif not elsewhere:
                compare(name, described, python_ops.describe(value), found)
            all_found.extend((module, where, text) for where, text in found)
    return all_found


def members_of(name, value):
    """[(name, function)] of a function, or of the public methods of a class and what makes it."""
    if not inspect.isclass(value):
        return [(name, value)]
    found = [(f"{name}.{key}", getattr(value, key)) for key in dir(value) if not key.startswith("_")]
    return [(name, value.__init__), *found]


def is_refused(function):
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function) or function.__code__.co_filename == "<string>":
        return False
    return inspect.getsource(function).strip().split("\n")[-1].strip().startswith("raise not_yet(")


def refused():
    """{module: [names]} of the calls that raise NotImplementedError; a class that cannot be made stands for its methods."""
    found = {}
    for module in MODULES:
        if module.startswith("torch"):
            continue  # needs torch to be imported, and refuses nothing
        own = f"pennon.{module}" if module else "pennon"
        names = set()
        for name in getattr(importlib.import_module(own), "__all__", ()):
            value = getattr(importlib.import_module(own), name)
            if getattr(value, "__module__", None) != own:
                continue
            here = [key for key, function in members_of(name, value) if is_refused(function)]
            names.update([name] if name in here else here)
        if names:
            found[own] = names
    return found


def table(theirs):
    lines = [
        "| module | name | difference | |\n",
        "|---|---|---|---|\n",
    ]
    rows = {}
    for module, name, text in differences(theirs):
        why = next((reason for (where, start), reason in INTENDED.items() if where in (module, "*") and name.startswith(start)), None)
        rows.setdefault((f"lance.{module}" if module else "lance", name, f"meant: {why}" if why else "still to come"), []).append(text)
    for (module, name, state), texts in rows.items():
        lines.append(f"| `{module}` | `{name}` | {'; '.join(texts)} | {state} |\n")
    lines.append("\nThere, and refused by name with `NotImplementedError`:\n\n")
    for module, names in sorted(refused().items()):
        lines.append(f"- `{module}`: {', '.join(f'`{name}`' for name in sorted(names))}\n")
    return "".join(lines)


def test_the_page_lists_every_difference(official):
    python_ops.stand_in_torch()
    wanted = table(official.call("python_ops.signatures", modules=list(MODULES)))
    text = PAGE.read_text(encoding="utf-8")
    there = text.split(BEGIN)[1].split(END)[0]
    assert there == wanted, "docs/compatibility.md is behind: run this file as a program"


def test_nothing_of_the_datasets_is_missing(official):
    """Gaps that no reason stands for would stop a program that moves by its import."""
    theirs = official.call("python_ops.signatures", modules=["", "dataset", "fragment", "file", "schema", "udf", "progress", "sampler", "optimize", "commit"])
    gaps = [
        (module, name, text)
        for module, name, text in differences(theirs)
        if not any(where in (module, "*") and name.startswith(start) for where, start in INTENDED)
    ]
    assert gaps == []


def main():
    python_ops.stand_in_torch()
    official = oracle.Oracle("v8")
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + BEGIN + table(official.call("python_ops.signatures", modules=list(MODULES))) + END + after, encoding="utf-8")
    official.close()


if __name__ == "__main__":
    sys.exit(main())
