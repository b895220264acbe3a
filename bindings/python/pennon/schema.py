# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Lance schemas: fields with ids."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import _pennon
from ._data import pyarrow

if TYPE_CHECKING:
    import pyarrow as pa


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

    def children(self) -> list[LanceField]:
        """The fields inside of this one."""
        return list(self._children)

    def __repr__(self) -> str:
        kind = self._message.get("logical_type", "")
        return f"LanceField(name={self.name()!r}, id={self.id()}, logical_type={kind!r}, nullable={self.nullable()})"


class LanceSchema:
    """A schema whose fields have ids."""

    def __init__(self, messages: list[dict[str, Any]], metadata: dict[str, Any], arrow: Any):
        # Fields as the message of a transaction has them: flat, parents first.
        self._messages = messages
        self._metadata = metadata
        self._arrow = arrow

    @staticmethod
    def from_pyarrow(schema: pa.Schema) -> LanceSchema:
        """The Lance schema of a pyarrow Schema; ids count from 0."""
        messages, metadata = _messages_of(lambda: pyarrow("LanceSchema").Table.from_batches([], schema))
        return LanceSchema(messages, metadata, schema)

    def to_pyarrow(self) -> pa.Schema:
        """The pyarrow Schema."""
        if self._arrow is None:
            raise NotImplementedError("the Arrow schema of a schema that was read out of a transaction")
        return pyarrow("to_pyarrow").schema(self._arrow)

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LanceSchema) and self._messages == other._messages and self._metadata == other._metadata

    def __reduce__(self) -> tuple[Any, ...]:
        return LanceSchema, (self._messages, self._metadata, None if self._arrow is None else self.to_pyarrow())

    def __repr__(self) -> str:
        return f"LanceSchema({self.fields()!r})"


def _messages_of(make: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The fields as the library would write them: those of an overwrite in memory that has no rows."""
    try:
        made = _pennon.write_fragments("memory://schema", make(), {"mode": 2})
    except OSError:
        made = _pennon.write_fragments("memory://schema", make(), {"mode": 2, "storage_version": "2.2"})
    operation = json.loads(made.to_json())["operation"]
    return operation.get("schema", []), operation.get("schema_metadata", {})


def _flat(fields: list[dict[str, Any]]) -> list[int]:
    ids: list[int] = []
    for field in fields:
        ids.append(field["id"])
        ids.extend(_flat(field["fields"]))
    return ids


def _schema_of(ds: _pennon.Dataset) -> LanceSchema:
    """The schema of a version: its own ids in the messages of its Arrow schema."""
    messages, metadata = _messages_of(lambda: ds.scan({"limit": 0}))
    ids = _flat(json.loads(ds.schema_json()))
    if len(ids) != len(messages):
        raise NotImplementedError("the Lance schema of a dataset with fields that have no Arrow form of their own")
    own = {message.get("id", 0): number for message, number in zip(messages, ids, strict=True)}
    for message, number in zip(messages, ids, strict=True):
        message["id"] = number
        message["parent_id"] = own.get(message.get("parent_id", 0), -1)
    return LanceSchema(messages, metadata, ds.schema())
