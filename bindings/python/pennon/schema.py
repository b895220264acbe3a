# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Lance schemas: fields with ids."""
from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _pennon
from ._data import pyarrow

if TYPE_CHECKING:
    import pyarrow as pa


_PRIMARY = "unenforced-primary-key"
_CLUSTERING = "unenforced-clustering-key"


class LanceField:
    """A field of a Lance schema."""

    def __init__(self, message: dict[str, Any], children: list[LanceField]):
        self._message = message
        self._children = children

    def name(self) -> str:
        """Name of the field."""
        return str(self._message.get("name", ""))

    def id(self) -> int:
        """Number of the field, which no other one of the dataset ever gets."""
        return int(self._message.get("id", 0))

    def nullable(self) -> bool:
        """May it be null?"""
        return bool(self._message.get("nullable", False))

    def metadata(self) -> dict[str, str]:
        """Metadata of the field."""
        return {key: str(value) for key, value in self._message.get("metadata", {}).items()}

    def to_arrow(self) -> pa.Field:
        """The field as pyarrow has it."""
        return LanceSchema(_flat(self, -1), {}).to_pyarrow().field(0)

    def _position(self, what: str) -> int | None:
        text = self.metadata().get(f"lance-schema:{what}:position")
        return None if text is None else int(text)

    def is_unenforced_primary_key(self) -> bool:
        """Is it part of the primary key that the metadata tells?"""
        return self.unenforced_primary_key_position() is not None or self.metadata().get(f"lance-schema:{_PRIMARY}") == "true"

    def unenforced_primary_key_position(self) -> int | None:
        """Its place in that key, or None."""
        return self._position(_PRIMARY)

    def is_unenforced_clustering_key(self) -> bool:
        """Is it part of the clustering key that the metadata tells?"""
        return (
            self.unenforced_clustering_key_position() is not None or self.metadata().get(f"lance-schema:{_CLUSTERING}") == "true"
        )

    def unenforced_clustering_key_position(self) -> int | None:
        """Its place in that key, or None."""
        return self._position(_CLUSTERING)

    def children(self) -> list[LanceField]:
        """The fields inside of this one."""
        return list(self._children)

    def __repr__(self) -> str:
        kind = self._message.get("logical_type", "")
        return f"LanceField(name={self.name()!r}, id={self.id()}, logical_type={kind!r}, nullable={self.nullable()})"


def _flat(field: LanceField, parent: int) -> list[dict[str, Any]]:
    messages = [{**field._message, "parent_id": parent}]
    for child in field.children():
        messages.extend(_flat(child, field.id()))
    return messages


class LanceSchema:
    """A schema whose fields have ids."""

    def __init__(self, messages: list[dict[str, Any]], metadata: dict[str, Any]):
        # Fields as the message of a transaction has them: flat, parents first.
        self._messages = messages
        self._metadata = metadata

    @staticmethod
    def from_pyarrow(schema: pa.Schema) -> LanceSchema:
        """The Lance schema of a pyarrow Schema; ids count from 0."""
        return _schema_from(schema.__arrow_c_schema__())

    def to_pyarrow(self) -> pa.Schema:
        """The pyarrow Schema."""
        tree: dict[str, Any] = {"type": "Overwrite", "fragments": [], "schema": self._messages}
        if self._metadata:
            tree["schema_metadata"] = self._metadata
        made = _pennon.transaction_from_json(json.dumps({"read_version": 0, "operation": tree}))
        return pyarrow("to_pyarrow").schema(made.schema())

    def fields(self) -> list[LanceField]:
        """The top-level fields."""
        made: dict[int, LanceField] = {}
        top: list[LanceField] = []
        for message in self._messages:
            field = LanceField(message, [])
            made[field.id()] = field
            parent = made.get(message.get("parent_id", 0)) if message.get("parent_id", 0) >= 0 else None
            (top if parent is None else parent._children).append(field)
        return top

    def field(self, name: str) -> LanceField | None:
        """The field of a dotted path, or None."""
        return self._find(name, lambda part: part)

    def field_case_insensitive(self, name: str) -> LanceField | None:
        """The same, whatever the case of the names; an exact one goes first."""
        return self.field(name) or self._find(name, str.lower)

    def _find(self, path: str, fold: Callable[[str], str]) -> LanceField | None:
        found: LanceField | None = None
        fields = self.fields()
        for part in path.split("."):
            found = next((field for field in fields if fold(field.name()) == fold(part)), None)
            if found is None:
                return None
            fields = found.children()
        return found

    def _all(self) -> list[LanceField]:
        return [LanceField(message, []) for message in self._messages]

    def unenforced_primary_key(self) -> list[LanceField]:
        """Fields of the primary key that the metadata tells, in their order."""
        fields = [field for field in self._all() if field.is_unenforced_primary_key()]
        return sorted(fields, key=lambda field: field.unenforced_primary_key_position() or 0)

    def unenforced_clustering_key(self) -> list[LanceField]:
        """Fields of the clustering key that the metadata tells, in their order."""
        fields = [field for field in self._all() if field.is_unenforced_clustering_key()]
        return sorted(fields, key=lambda field: field.unenforced_clustering_key_position() or 0)

    def __reduce__(self) -> tuple[Any, ...]:
        return LanceSchema, (self._messages, self._metadata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LanceSchema) and self._messages == other._messages and self._metadata == other._metadata

    def __repr__(self) -> str:
        return f"LanceSchema({self.fields()!r})"


def _schema_from(source: Any) -> LanceSchema:
    """Of the capsule of an Arrow schema, or of a dataset of the extension."""
    operation = json.loads(_pennon.transaction_from_schema(source).to_json())["operation"]
    return LanceSchema(operation.get("schema", []), operation.get("schema_metadata", {}))


def _schema_of(ds: _pennon.Dataset) -> LanceSchema:
    """The schema of a version."""
    return _schema_from(ds)


# ---- schemas as JSON ----

#: Types without parts: the name in JSON, and that of the function in pyarrow.
_PLAIN = {
    "null": "null",
    "bool": "bool_",
    **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "large_string": "large_string",
    "binary": "binary",
    "large_binary": "large_binary",
    "date32:day": "date32",
    "date64:ms": "date64",
}


def _type_text(kind: Any) -> str | None:
    """The name of a type without children, or None."""
    types = pyarrow("schema_to_json").types
    for name, function in _PLAIN.items():
        if kind == getattr(pyarrow("schema_to_json"), function)():
            return name
    if types.is_timestamp(kind):
        return f"timestamp:{kind.unit}:{kind.tz or '-'}"
    if types.is_time32(kind) or types.is_time64(kind):
        return f"time{kind.bit_width}:{kind.unit}"
    if types.is_duration(kind):
        return f"duration:{kind.unit}"
    if types.is_decimal128(kind) or types.is_decimal256(kind):
        return f"decimal:{kind.bit_width}:{kind.precision}:{kind.scale}"
    if types.is_dictionary(kind):
        value, index = _type_text(kind.value_type), _type_text(kind.index_type)
        return None if value is None or index is None else f"dict:{value}:{index}:{str(kind.ordered).lower()}"
    return None


def _type_tree(kind: Any) -> dict[str, Any]:
    types = pyarrow("schema_to_json").types
    text = _type_text(kind)
    if text is not None:
        return {"type": text}
    if types.is_struct(kind):
        return {"type": "struct", "fields": [_field_tree(kind.field(i)) for i in range(kind.num_fields)]}
    if types.is_list(kind):
        return {"type": "list", "fields": [_field_tree(kind.value_field)]}
    if types.is_large_list(kind):
        return {"type": "large_list", "fields": [_field_tree(kind.value_field)]}
    if types.is_fixed_size_list(kind):
        return {"type": "fixed_size_list", "fields": [_field_tree(kind.value_field)], "length": kind.list_size}
    if types.is_fixed_size_binary(kind):
        return {"type": "fixed_size_binary", "length": kind.byte_width}
    raise ValueError(f"Failed to convert schema to json: Unsupported type: {kind}")


def _text_pairs(pairs: Any) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in pairs.items()}


def _field_tree(field: Any) -> dict[str, Any]:
    tree = {"name": field.name, "type": _type_tree(field.type), "nullable": field.nullable}
    if field.metadata:
        tree["metadata"] = _text_pairs(field.metadata)
    return tree


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """A schema as a tree that can be written as JSON.

    Parameters
    ----------
    schema : pyarrow.Schema
    """
    tree: dict[str, Any] = {"fields": [_field_tree(field) for field in schema]}
    if schema.metadata:
        tree["metadata"] = _text_pairs(schema.metadata)
    return tree


def _type_named(name: str) -> Any:
    pa = pyarrow("json_to_schema")
    kind, *parts = name.split(":")
    if name in _PLAIN:
        return getattr(pa, _PLAIN[name])()
    if kind == "timestamp" and len(parts) >= 2:
        zone = ":".join(parts[1:])
        return pa.timestamp(parts[0], None if zone == "-" else zone)
    if kind in ("time32", "time64", "duration") and len(parts) == 1:
        return getattr(pa, kind)(parts[0])
    if kind == "decimal" and len(parts) == 3 and parts[0] in ("128", "256"):
        return getattr(pa, f"decimal{parts[0]}")(int(parts[1]), int(parts[2]))
    if kind == "dict" and len(parts) >= 3:
        value = _type_named(":".join(parts[:-2]))
        return pa.dictionary(_type_named(parts[-2]), value, parts[-1] == "true")
    raise ValueError(f"Failed to convert json to schema: Unsupported type: {name}")


def _type_of(tree: dict[str, Any]) -> Any:
    pa = pyarrow("json_to_schema")
    name = tree["type"]
    children = [_field_of(child) for child in tree.get("fields") or ()]
    if name == "struct":
        return pa.struct(children)
    if name in ("list", "large_list") and len(children) == 1:
        return pa.list_(children[0]) if name == "list" else pa.large_list(children[0])
    if name == "fixed_size_list" and len(children) == 1:
        return pa.list_(children[0], tree["length"])
    if name == "fixed_size_binary":
        return pa.binary(tree["length"])
    return _type_named(name)


def _field_of(tree: dict[str, Any]) -> Any:
    return pyarrow("json_to_schema").field(
        tree["name"], _type_of(tree["type"]), tree.get("nullable", True), tree.get("metadata") or None
    )


def json_to_schema(schema_json: dict[str, Any]) -> pa.Schema:
    """The opposite of `schema_to_json`.

    Parameters
    ----------
    schema_json : dict
    """
    fields = [_field_of(tree) for tree in schema_json["fields"]]
    return pyarrow("json_to_schema").schema(fields, metadata=schema_json.get("metadata") or None)


__all__ = ["LanceField", "LanceSchema", "json_to_schema", "schema_to_json"]
