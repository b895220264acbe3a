# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Transactions: changes as objects that one process makes and another one commits."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from ._data import not_yet
from .fragment import DataFile, FragmentMetadata
from .schema import LanceSchema

if TYPE_CHECKING:
    from .dataset import DatasetBasePath
    from .dataset import _LanceDataset as LanceDataset
    from .indices import Index


def _fragments(fragments: Iterable[FragmentMetadata]) -> list[dict[str, Any]]:
    return [fragment.to_json() for fragment in fragments]


def _of_fragments(tree: dict[str, Any], key: str) -> list[FragmentMetadata]:
    return [FragmentMetadata._of(fragment) for fragment in tree.get(key, [])]


def _check_fragments(fragments: object) -> None:
    if not isinstance(fragments, list):
        raise TypeError(f"fragments must be list[FragmentMetadata], got {type(fragments)}")
    for fragment in fragments:
        if not isinstance(fragment, FragmentMetadata):
            raise TypeError(f"fragments must be list[FragmentMetadata], got {type(fragment)}")


def _schema(schema: Any) -> LanceSchema:
    return schema if isinstance(schema, LanceSchema) else LanceSchema.from_pyarrow(schema)


def _of_schema(tree: dict[str, Any]) -> LanceSchema:
    return LanceSchema(tree.get("schema", []), tree.get("schema_metadata", {}))


def _with_schema(tree: dict[str, Any], schema: LanceSchema) -> dict[str, Any]:
    tree["schema"] = schema._messages
    if schema._metadata:
        tree["schema_metadata"] = schema._metadata
    return tree


class LanceOperation:
    """The operations that a transaction can have."""

    class BaseOperation:
        """What all operations are."""

        def _tree(self) -> dict[str, Any]:
            raise not_yet(f"committing {type(self).__name__}")

    @dataclass
    class Overwrite(BaseOperation):
        """Replace the whole content, or make a dataset.

        Attributes
        ----------
        new_schema : LanceSchema or pyarrow.Schema
        fragments : list of FragmentMetadata
        initial_bases : list of DatasetBasePath, optional
            Base paths to register; new datasets only.
        """

        new_schema: Any
        fragments: Iterable[FragmentMetadata]
        initial_bases: list[DatasetBasePath] | None = None

        def __post_init__(self) -> None:
            self.new_schema = _schema(self.new_schema)
            _check_fragments(self.fragments)

        def _tree(self) -> dict[str, Any]:
            tree = _with_schema({"type": "Overwrite", "fragments": _fragments(self.fragments)}, self.new_schema)
            if self.initial_bases:
                tree["initial_bases"] = [
                    {
                        "id": base.id or number,
                        "name": base.name,
                        "is_dataset_root": base.is_dataset_root,
                        "path": base.path,
                    }
                    for number, base in enumerate(self.initial_bases, 1)
                ]
            return tree

    @dataclass
    class Append(BaseOperation):
        """Add rows.

        Attributes
        ----------
        fragments : list of FragmentMetadata
        """

        fragments: Iterable[FragmentMetadata]

        def __post_init__(self) -> None:
            _check_fragments(self.fragments)

        def _tree(self) -> dict[str, Any]:
            return {"type": "Append", "fragments": _fragments(self.fragments)}

    @dataclass
    class Delete(BaseOperation):
        """Remove rows or whole fragments.

        Attributes
        ----------
        updated_fragments : list of FragmentMetadata
            With new deletion files.
        deleted_fragment_ids : list of int
            Those that are gone.
        predicate : str
            The SQL that chose the rows.
        """

        updated_fragments: Iterable[FragmentMetadata]
        deleted_fragment_ids: Iterable[int]
        predicate: str

        def __post_init__(self) -> None:
            _check_fragments(self.updated_fragments)

        def _tree(self) -> dict[str, Any]:
            return {
                "type": "Delete",
                "updated_fragments": _fragments(self.updated_fragments),
                "deleted_fragment_ids": list(self.deleted_fragment_ids),
                "predicate": self.predicate,
            }

    @dataclass
    class Update(BaseOperation):
        """Change rows: those that were there are deleted and written anew, or get new values of some columns.

        Attributes
        ----------
        removed_fragment_ids : list of int
            Fragments that are gone.
        updated_fragments : list of FragmentMetadata
            With new deletion files, or new files of columns.
        new_fragments : list of FragmentMetadata
            With the rows written anew.
        fields_modified : list of int
            Ids of the fields whose values changed, without those of rows written anew.
        fields_for_preserving_frag_bitmap : list of int
            Ids of the fields whose indices still count for updated fragments.
        update_mode : {"", "rewrite_rows", "rewrite_columns"}
        """

        removed_fragment_ids: list[int] = dataclasses.field(default_factory=list)
        updated_fragments: list[FragmentMetadata] = dataclasses.field(default_factory=list)
        new_fragments: list[FragmentMetadata] = dataclasses.field(default_factory=list)
        fields_modified: list[int] = dataclasses.field(default_factory=list)
        fields_for_preserving_frag_bitmap: list[int] = dataclasses.field(default_factory=list)
        update_mode: str = ""
        # Of a merge: the keys that it inserted, which others must not insert too.
        _inserted_rows: ClassVar[Any] = None

        def __post_init__(self) -> None:
            _check_fragments(self.updated_fragments)
            _check_fragments(self.new_fragments)

        def _tree(self) -> dict[str, Any]:
            tree: dict[str, Any] = {
                "type": "Update",
                "removed_fragment_ids": list(self.removed_fragment_ids),
                "updated_fragments": _fragments(self.updated_fragments),
                "new_fragments": _fragments(self.new_fragments),
                "fields_modified": list(self.fields_modified),
                "fields_for_preserving_frag_bitmap": list(self.fields_for_preserving_frag_bitmap),
            }
            if self.update_mode:
                tree["update_mode"] = self.update_mode.upper()
            if self._inserted_rows is not None:
                tree["inserted_rows"] = self._inserted_rows
            return tree

    @dataclass
    class RewriteGroup:
        """Fragments, and those that hold the same rows in their place."""

        old_fragments: Iterable[FragmentMetadata]
        new_fragments: Iterable[FragmentMetadata]

    @dataclass
    class RewrittenIndex:
        """An index that takes the place of one, for the new fragments."""

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int

    @dataclass
    class Rewrite(BaseOperation):
        """Write fragments anew, with the same rows.

        Attributes
        ----------
        groups : list of LanceOperation.RewriteGroup
        rewritten_indices : list of LanceOperation.RewrittenIndex
            Not supported yet.
        """

        groups: Iterable[LanceOperation.RewriteGroup]
        rewritten_indices: Iterable[LanceOperation.RewrittenIndex]

        def __post_init__(self) -> None:
            for group in self.groups:
                _check_fragments(group.old_fragments)
                _check_fragments(group.new_fragments)

        def _tree(self) -> dict[str, Any]:
            if list(self.rewritten_indices):
                raise not_yet("LanceOperation.Rewrite of indices")
            groups = [
                {"old_fragments": _fragments(group.old_fragments), "new_fragments": _fragments(group.new_fragments)}
                for group in self.groups
            ]
            return {"type": "Rewrite", "groups": groups}

    @dataclass
    class CreateIndex(BaseOperation):
        """Add and remove parts of indices. Committing it is not supported yet.

        Attributes
        ----------
        new_indices, removed_indices : list of Index
        """

        new_indices: list[Index]
        removed_indices: list[Index]

        def _tree(self) -> dict[str, Any]:
            raise not_yet("LanceOperation.CreateIndex")

    @dataclass
    class Merge(BaseOperation):
        """Change the columns; the fragments stay.

        Attributes
        ----------
        fragments : list of FragmentMetadata
        schema : LanceSchema or pyarrow.Schema
        """

        fragments: Iterable[FragmentMetadata]
        schema: Any

        def __post_init__(self) -> None:
            self.schema = _schema(self.schema)
            _check_fragments(self.fragments)

        def _tree(self) -> dict[str, Any]:
            return _with_schema({"type": "Merge", "fragments": _fragments(self.fragments)}, self.schema)

    @dataclass
    class Restore(BaseOperation):
        """A new version with the content of an old one.

        Attributes
        ----------
        version : int
        """

        version: int

        def _tree(self) -> dict[str, Any]:
            return {"type": "Restore", "version": self.version}

    @dataclass
    class DataReplacementGroup:
        """A data file that takes the place of those with the same fields."""

        fragment_id: int
        new_file: DataFile

    @dataclass
    class DataReplacement(BaseOperation):
        """Replace data files of existing fragments.

        Attributes
        ----------
        replacements : list of LanceOperation.DataReplacementGroup
        """

        replacements: list[LanceOperation.DataReplacementGroup]

        def _tree(self) -> dict[str, Any]:
            groups = [{"fragment_id": group.fragment_id, "new_file": group.new_file._tree()} for group in self.replacements]
            return {"type": "DataReplacement", "replacements": groups}

    @dataclass
    class Project(BaseOperation):
        """Drop, rename or swap columns by a new schema.

        Attributes
        ----------
        schema : LanceSchema
        """

        schema: LanceSchema

        def _tree(self) -> dict[str, Any]:
            return {"type": "Project", "schema": self.schema._messages}

    @dataclass
    class UpdateMap:
        """Changes to a map.

        Attributes
        ----------
        updates : dict
            None removes a key.
        replace : bool
            Exactly these afterwards.
        """

        updates: dict[str, str | None]
        replace: bool = False

        def _tree(self) -> dict[str, Any]:
            return {"update_entries": self.updates, "replace": self.replace}

        @staticmethod
        def _of(tree: dict[str, Any] | None) -> LanceOperation.UpdateMap | None:
            if tree is None:
                return None
            return LanceOperation.UpdateMap(tree.get("update_entries", {}), tree.get("replace", False))

    @dataclass
    class UpdateConfig(BaseOperation):
        """Change config and metadata.

        Attributes
        ----------
        config_updates, table_metadata_updates, schema_metadata_updates : LanceOperation.UpdateMap, optional
        field_metadata_updates : dict of int to LanceOperation.UpdateMap, optional
            By field id.
        """

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

        def _tree(self) -> dict[str, Any]:
            tree: dict[str, Any] = {"type": "UpdateConfig"}
            for name in ("config_updates", "table_metadata_updates", "schema_metadata_updates"):
                update = getattr(self, name)
                if update is not None:
                    tree[name] = update._tree()
            if self.field_metadata_updates is not None:
                tree["field_metadata_updates"] = {
                    str(field): update._tree() for field, update in self.field_metadata_updates.items()
                }
            return tree

        @staticmethod
        def _of(tree: dict[str, Any]) -> LanceOperation.UpdateConfig:
            fields = tree.get("field_metadata_updates")
            return LanceOperation.UpdateConfig(
                LanceOperation.UpdateMap._of(tree.get("config_updates")),
                LanceOperation.UpdateMap._of(tree.get("table_metadata_updates")),
                LanceOperation.UpdateMap._of(tree.get("schema_metadata_updates")),
                None
                if fields is None
                else {int(field): LanceOperation.UpdateMap._of(update) or LanceOperation.UpdateMap({}) for field, update in fields.items()},
            )

    class _Other(BaseOperation):
        """An operation that has no class here; it is carried through as it is."""

        def __init__(self, tree: dict[str, Any]):
            self._kept = tree

        def _tree(self) -> dict[str, Any]:
            return self._kept

        def __repr__(self) -> str:
            return f"LanceOperation({self._kept['type']})"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, LanceOperation._Other) and self._kept == other._kept


_UPDATE_KEYS = {
    "type",
    "removed_fragment_ids",
    "updated_fragments",
    "new_fragments",
    "fields_modified",
    "fields_for_preserving_frag_bitmap",
    "update_mode",
    "inserted_rows",
}


def _operation_of(tree: dict[str, Any]) -> LanceOperation.BaseOperation:
    kind = tree["type"]
    if kind == "Append":
        return LanceOperation.Append(_of_fragments(tree, "fragments"))
    if kind == "Overwrite" and not set(tree) - {"type", "fragments", "schema", "schema_metadata"}:
        return LanceOperation.Overwrite(_of_schema(tree), _of_fragments(tree, "fragments"))
    if kind == "Delete":
        return LanceOperation.Delete(
            _of_fragments(tree, "updated_fragments"), tree.get("deleted_fragment_ids", []), tree.get("predicate", "")
        )
    if kind == "Update" and not set(tree) - _UPDATE_KEYS:
        update = LanceOperation.Update(
            tree.get("removed_fragment_ids", []),
            _of_fragments(tree, "updated_fragments"),
            _of_fragments(tree, "new_fragments"),
            tree.get("fields_modified", []),
            tree.get("fields_for_preserving_frag_bitmap", []),
            tree.get("update_mode", "REWRITE_ROWS").lower(),
        )
        vars(update)["_inserted_rows"] = tree.get("inserted_rows")
        return update
    if kind == "Rewrite" and not tree.get("rewritten_indices"):
        groups = [
            LanceOperation.RewriteGroup(_of_fragments(group, "old_fragments"), _of_fragments(group, "new_fragments"))
            for group in tree.get("groups", [])
        ]
        return LanceOperation.Rewrite(groups, [])
    if kind == "Merge":
        return LanceOperation.Merge(_of_fragments(tree, "fragments"), _of_schema(tree))
    if kind == "Restore":
        return LanceOperation.Restore(tree["version"])
    if kind == "Project":
        return LanceOperation.Project(_of_schema(tree))
    if kind == "DataReplacement":
        return LanceOperation.DataReplacement(
            [
                LanceOperation.DataReplacementGroup(group.get("fragment_id", 0), DataFile(**group["new_file"]))
                for group in tree.get("replacements", [])
            ]
        )
    if kind == "UpdateConfig" and "upsert_values" not in tree and "delete_keys" not in tree:
        return LanceOperation.UpdateConfig._of(tree)
    return LanceOperation._Other(tree)


def _new_uuid() -> str:
    import uuid

    return str(uuid.uuid4())


@dataclass
class Transaction:
    """A change to a dataset.

    Attributes
    ----------
    read_version : int
        The version that it was made on.
    operation : LanceOperation.BaseOperation
    uuid : str
    transaction_properties : dict
    """

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = dataclasses.field(default_factory=_new_uuid)
    transaction_properties: dict[str, str] | None = dataclasses.field(default_factory=dict)

    def _tree(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"read_version": self.read_version, "uuid": self.uuid, "operation": self.operation._tree()}
        if self.transaction_properties:
            tree["properties"] = self.transaction_properties
        return tree

    @staticmethod
    def _of(tree: dict[str, Any]) -> Transaction:
        return Transaction(tree["read_version"], _operation_of(tree["operation"]), tree["uuid"], tree.get("properties", {}))


class BulkCommitResult(TypedDict):
    """What `LanceDataset.commit_batch` gives."""

    dataset: LanceDataset
    merged: Transaction


__all__ = ["BulkCommitResult", "LanceOperation", "Transaction"]
