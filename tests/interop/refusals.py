# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The table of what official refuses (official_refusals.json, made by probe_official.py), by case and release."""
import json
from functools import cache
from pathlib import Path


@cache
def _table():
    table = json.loads(Path(__file__).with_name("official_refusals.json").read_text())
    out = {}
    for stage, reasons in table.items():
        if stage != "matrix":
            for reason, releases in reasons.items():
                for who, ids in releases.items():
                    out.update({(who, case): (stage, reason) for case in ids})
    return out, table["matrix"]


def listed(case_id, who):
    """(stage, reason) or None."""
    return _table()[0].get((who, case_id))


def stage(case_id, who):
    found = listed(case_id, who)
    return found and found[0]


def matrix():
    """Fingerprint of the selection that the table was made for."""
    return _table()[1]
