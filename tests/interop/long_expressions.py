# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Queries of expressions.py by the hundred thousand, on from where the run before stopped (build/interop/expressions.json).

SECONDS in the environment ends a run (0 = when CASES are done, the default); CASES (100,000) is how many there shall be in all; START=n
begins at table n. Usage: long_expressions.py   Closing line: N passed, N failed
"""
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import expressions  # noqa: E402
import matrix       # noqa: E402
import oracle       # noqa: E402

STATE = matrix.ROOT / "expressions.json"
FIRST = 1000  # tables below are those of the tests


def main():
    state = json.loads(STATE.read_text()) if STATE.exists() else {"next": FIRST, "cases": 0}
    if "START" in os.environ:
        state["next"] = int(os.environ["START"])
    seconds, wanted = float(os.environ.get("SECONDS", 0)), int(os.environ.get("CASES", 100_000))
    official, start, passed, failed = oracle.Oracle("v8"), time.monotonic(), 0, 0
    while state["cases"] < wanted and (not seconds or time.monotonic() - start < seconds):
        folder = tempfile.mkdtemp(prefix="expressions-")
        try:
            table = expressions.Table(state["next"], folder, official).make()
            found = table.run()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        failed += len(found)
        passed += expressions.CASES_A_TABLE - len(found)
        if found:
            print(expressions.describe(state["next"], found), flush=True)
        state["next"] += 1
        state["cases"] += expressions.CASES_A_TABLE
        STATE.parent.mkdir(parents=True, exist_ok=True)
        STATE.write_text(json.dumps(state))
        if sys.stderr.isatty():
            rate = (passed + failed) / (time.monotonic() - start)
            print(f"\r{state['cases']} of {wanted} cases, {rate:.0f} a second, {failed} failed", end="", file=sys.stderr, flush=True)
    official.close()
    print(f"{state['cases']} cases so far, next table {state['next']}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
