# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What test_features.py and test_features_write.py share: the cases, each made once a run, and short words for the command."""
import dataclasses
import json

import pyarrow as pa
import pytest

import oracle
import pennon

SYSTEM = ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]
FEATURES = ["versions", "tags", "branches", "deletes_array", "deletes_bitmap", "evolution", "missing", "nested", "tombstones", "merged", "encoded",
            "keys", "detached", "updates", "compaction", "restored", "shallow", "bases", "v1_names", "settings", "empty", "indices", "deferred",
            "blobs_v1", "blobs_v2", "json_column", "mixed_files", "as_of"]
# Whose rows lie in several files or fragments of different shape: with every storage version.
BY_STORAGE = ["evolution", "missing", "nested", "tombstones", "merged", "compaction", "updates"]


@dataclasses.dataclass(frozen=True)
class Case:
    maker: str
    feature: str
    stable: bool
    storage: str = None

    def __str__(self):
        parts = [self.maker, self.feature, "stable" if self.stable else "plain", self.storage]
        return "-".join(part for part in parts if part)


CASES = [Case(maker, feature, stable) for maker in oracle.NAMES for feature in FEATURES for stable in (False, True)]
CASES += [Case("new", feature, stable, storage) for feature in BY_STORAGE for stable, storage in ((False, "2.0"), (True, "2.1"))
          if (feature, storage) != ("nested", "2.0")]  # which official no longer reads after the second change
every = pytest.mark.parametrize("case", CASES, ids=str)


def only(*features):
    return pytest.mark.parametrize("case", [case for case in CASES if case.feature in features and not case.storage], ids=str)


class Made:
    """One table, and what both releases say of it."""

    def __init__(self, case, folder, oracles):
        self.case, self.folder, self.uri, self.oracles = case, folder, str(folder / "t.lance"), oracles
        self.more = oracles.get(case.maker).feature(name=case.feature, uri=self.uri, stable=case.stable, storage=case.storage) or {}
        self.said = {}
        for name in oracle.NAMES:
            out = folder / f"read-{name}"
            out.mkdir()
            try:
                self.said[name] = oracles.get(name).survey(uri=self.uri, out=str(out))
            except oracle.Refused:
                assert name != case.maker, "the release that made the table does not read it"
        self.answers = self.said[case.maker]

    def expected(self, label, name=None):
        path = self.folder / f"read-{name or self.case.maker}" / (label.replace("/", "%2F") + ".arrow")
        rows = pennon.table(path.read_bytes())
        return null_blobs(rows) if self.case.feature == "blobs_v2" else rows

    def newest(self, branch=""):
        """Label of the newest version of a branch."""
        return max((label for label in self.answers if label.rpartition("@")[0] == branch), key=lambda label: int(label.rpartition("@")[2]))


def null_blobs(rows):
    """Null blobs of 8.0.0 are zeros to official; no other blob has that descriptor."""
    field = rows.schema.field("b")
    nothing = {"kind": 0, "position": 0, "size": 0, "blob_id": 0, "blob_uri": ""}
    values = [None if v == nothing else v for v in rows.column("b").to_pylist()]
    return rows.set_column(rows.schema.get_field_index("b"), field, pa.array(values, field.type))


def at(label):
    """Command line options that open a version."""
    branch, _, version = label.rpartition("@")
    return (["--branch", branch] if branch else []) + ["--version", version]


def scanned(uri, *options, columns=None):
    return pennon.table(pennon.run("scan", uri, "--format", "arrow", *(["--columns", ",".join(columns)] if columns is not None else []), *options))


def taken(uri, *options, columns):
    return pennon.table(pennon.run("take", uri, "--format", "arrow", "--columns", ",".join(columns), *options))


def lines(*args):
    return [json.loads(line) for line in pennon.run(*args, "--json").decode().splitlines()]


def data_names(rows):
    return [name for name in rows.column_names if name not in SYSTEM]
