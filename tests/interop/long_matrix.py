# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The full product of the matrix: every kind, null pattern, shape, list shape, metadata, batching, version and number of rows, both directions.

Millions of cases, days of work; so they are gone through in a scattered order that is always the same, and a run goes on where the one before
stopped (build/interop/long.json). What stands between two runs is a fair sample of the whole. SECONDS in the environment ends a run
(0 = never, the default); START=n begins at case n. What official refuses or cannot read back is told apart from what fails: only the selection
of CI has a table of it.

Usage: long_matrix.py   Closing line: N passed, N failed
"""
import itertools
import json
import math
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import cases    # noqa: E402
import matrix   # noqa: E402
import oracle   # noqa: E402
import pennon   # noqa: E402

STATE = matrix.ROOT / "long.json"
SLICE = 3000  # cases that are grouped into datasets together


class Product:
    """The full product by number, without making it."""

    def __init__(self):
        self.parts, self.total = [], 0
        for kind in cases.KINDS.values():
            axes = [kind.versions, cases.ROWS, *cases._options(kind)]
            size = math.prod(len(axis) for axis in axes)
            self.parts.append((self.total, size, kind, axes))
            self.total += size

    def __getitem__(self, number):
        for first, size, kind, axes in self.parts:
            if number < first + size:
                number -= first
                picks = []
                for axis in reversed(axes):
                    number, at = divmod(number, len(axis))
                    picks.append(axis[at])
                version, rows, nulls, shape, lists, meta, batches = reversed(picks)
                return cases.Case(kind.name, nulls, shape, lists, meta, version, cases.rows_for(kind, rows), batches)
        raise IndexError(number)

    def scattered(self, place):
        """A permutation: steps of a number that has no divisor in common with the total."""
        step = int(self.total * 0.6180339887) | 1
        while math.gcd(step, self.total) != 1:
            step += 2
        return self[place * step % self.total]


def tell(text):
    if sys.stderr.isatty():
        print(f"\r{text:<100}", end="", file=sys.stderr, flush=True)


def run_slice(chosen, counts):
    running = matrix.Matrix(chosen, strict=False)
    try:
        for case in chosen:
            verdict = running.verdict(case)
            lines = [f"{way}: {line}" for way in ("read", "write") for line in verdict[way]]
            counts["failed" if lines else "passed"] += 1
            counts["refused by official"] += bool(verdict.get("refused"))
            if lines:
                print(f"\n{case.id}\n  " + "\n  ".join(lines), flush=True)
    finally:
        running.close()
    shutil.rmtree(matrix.ROOT / "cache-long", ignore_errors=True)


def main():
    product, limit, begun = Product(), float(os.environ.get("SECONDS", "0")), time.monotonic()
    matrix.CACHE = "cache-long"
    pennon.command()
    for name in oracle.NAMES:
        oracle.python_of(name)
    state = json.loads(STATE.read_text()) if STATE.exists() else {"place": 0}
    place = int(os.environ.get("START", state["place"]))
    first, counts = place, {"passed": 0, "failed": 0, "refused by official": 0}
    print(f"{product.total} cases in the full product; from number {place} on", flush=True)
    while place < product.total and (not limit or time.monotonic() - begun < limit):
        end = min(place + SLICE, product.total)
        chosen = list({case.id: case for case in map(product.scattered, range(place, end))}.values())
        run_slice(chosen, counts)
        place = end
        STATE.parent.mkdir(parents=True, exist_ok=True)
        STATE.write_text(json.dumps({"place": place}))
        rate = (place - first) / (time.monotonic() - begun)
        tell(f"{place} of {product.total}, {rate:.0f} cases/s, {(product.total - place) / rate / 3600:.0f} h left, {counts['failed']} failed")
    print(f"cases {first} to {place} of {product.total}; official refuses {counts['refused by official']} of them")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] or place == first else 0


if __name__ == "__main__":
    sys.exit(main())
