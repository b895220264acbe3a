# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What a dataset is made of, as text for people."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dataset import LanceDataset
    from .fragment import FragmentMetadata


def format_schema(dataset: LanceDataset) -> str:
    """The schema, with field ids."""
    return json.dumps(json.loads(dataset._ds.schema_json()), indent=2)


def format_manifest(dataset: LanceDataset) -> str:
    """The manifest: version, schema, fragments, settings."""
    tree = json.loads(dataset._ds.info_json())
    tree["schema"] = json.loads(dataset._ds.schema_json())
    tree["fragments"] = json.loads(dataset._ds.fragments_json())
    return json.dumps(tree, indent=2)


def format_fragment(fragment: FragmentMetadata, dataset: LanceDataset) -> str:
    """A fragment: its files with the names of their fields, deletions, rows."""
    names: dict[int, str] = {}

    def name(fields: list[dict[str, object]], above: str) -> None:
        for field in fields:
            names[int(str(field["id"]))] = above + str(field["name"])
            name(field["fields"], f"{above}{field['name']}.")  # type: ignore[arg-type]

    name(json.loads(dataset._ds.schema_json()), "")
    tree = fragment.to_json()
    for file in tree["files"]:
        file["field_names"] = [names.get(field) for field in file["fields"]]
    return json.dumps(tree, indent=2)


def list_transactions(dataset: LanceDataset, max_transactions: int = 10) -> list[str]:
    """The newest transactions, the newest first."""
    return [
        "(none)" if transaction is None else json.dumps(transaction._tree(), indent=2)
        for transaction in dataset.get_transactions(max_transactions)
    ]


__all__ = ["format_fragment", "format_manifest", "format_schema", "list_transactions"]
