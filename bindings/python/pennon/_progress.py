# Licensed under the Apache License, Version 2.0; see LICENSE.
"""A line that tells how far long work has come: on a terminal and in a notebook, once it has taken a second. PENNON_PROGRESS=0 turns it off."""
from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from . import _pennon

if TYPE_CHECKING:
    import threading

_FIRST_SECONDS = 1.0
_STEP_SECONDS = 0.25
_WIDTH = 24


def _wanted() -> bool:
    if os.environ.get("PENNON_PROGRESS") == "0" or sys.stderr is None:
        return False
    return "ipykernel" in sys.modules or sys.stderr.isatty()


def line_of(what: str, unit: str, done: int, total: int, seconds: float) -> str:
    """The text of the line.

    Parameters
    ----------
    what : str
        "writing"
    unit : str
    done, total : int
        A total of 0 is not known.
    seconds : float
        Since the start.
    """
    rate = f"{done / seconds:,.0f} {unit}/s" if seconds > 0 else ""
    if total <= 0:
        return f"{what}: {done:,} {unit}, {seconds:.0f} s, {rate}"
    part = min(done / total, 1.0)
    bar = ("#" * int(part * _WIDTH)).ljust(_WIDTH, ".")
    return f"{what}: [{bar}] {part:4.0%} of {total:,} {unit}, {seconds:.0f} s, {rate}"


def _draw(what: str, unit: str, counter: _pennon.Progress, stop: threading.Event) -> None:
    import time

    start = time.monotonic()
    width = 0
    wait = _FIRST_SECONDS
    while not stop.wait(wait):
        wait = _STEP_SECONDS
        line = line_of(what, unit, *counter.numbers(), time.monotonic() - start)
        print("\r" + line.ljust(width), end="", file=sys.stderr, flush=True)
        width = len(line)
    if width:
        print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)


@contextmanager
def shown(what: str, unit: str) -> Iterator[_pennon.Progress | None]:
    """Show how far a call has come while the block runs: the counter is for the extension, None = nobody looks."""
    if not _wanted():
        yield None
        return
    import threading

    counter, stop = _pennon.Progress(), threading.Event()
    thread = threading.Thread(target=_draw, args=(what, unit, counter, stop), daemon=True)
    thread.start()
    try:
        yield counter
    finally:
        stop.set()
        thread.join()
