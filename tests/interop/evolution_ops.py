# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What test_evolution.py asks of official Lance. Runs inside oracle_server.py, under either pylance."""
import lance
import pyarrow as pa

import mutation_ops
from mutation_ops import append, compact, delete, make, rows  # noqa: F401, asked for by name


def _schema(text):
    """Fields of a schema text as test_evolution.py has them: [name, type, nullable]."""
    return pa.schema([pa.field(name, _type(kind), nullable) for name, kind, nullable in text])


def _type(kind):
    """A type of a list: ["struct", [name, type], …], ["list", type], ["large_list", type], ["fsl", type, n], ["decimal128", p, s], ["timestamp", unit, zone]."""
    if isinstance(kind, str):
        return getattr(pa, kind)()
    head, *rest = kind
    if head == "struct":
        return pa.struct([(name, _type(inner)) for name, inner in rest])
    if head == "list":
        return pa.list_(_type(rest[0]))
    if head == "large_list":
        return pa.large_list(_type(rest[0]))
    if head == "fsl":
        return pa.list_(_type(rest[0]), rest[1])
    return getattr(pa, head)(*rest)


def add_sql(uri, columns):
    lance.dataset(uri).add_columns(columns)


def add_nulls(uri, fields):
    lance.dataset(uri).add_columns(_schema(fields))


def add_table(uri, fields, values):
    table = pa.table(values, schema=_schema(fields))
    lance.dataset(uri).add_columns(table.to_reader(max_chunksize=3))


def drop(uri, names):
    lance.dataset(uri).drop_columns(names)


def alter(uri, changes):
    for change in changes:
        if "data_type" in change:
            change["data_type"] = _type(change["data_type"])
    lance.dataset(uri).alter_columns(*changes)


def merge(uri, fields, values, left_on, right_on=None):
    lance.dataset(uri).merge(pa.table(values, schema=_schema(fields)), left_on, right_on)


def update_columns(uri, fields, values, left_on):
    """Every fragment, and one commit."""
    dataset = lance.dataset(uri)
    made = [f.update_columns(pa.table(values, schema=_schema(fields)), left_on) for f in dataset.get_fragments()]
    operation = lance.LanceOperation.Update(updated_fragments=[m for m, _ in made], fields_modified=made[0][1] if made else [],
                                            update_mode="rewrite_columns")
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)


def scalar_index(uri, column):
    lance.dataset(uri).create_scalar_index(column, "BTREE", replace=True)
    return lance.dataset(uri).version


def _values(kind, values):
    import decimal
    to = _type(kind)
    if pa.types.is_decimal(to):
        return pa.array([None if v is None else decimal.Decimal(v) for v in values], to)
    if pa.types.is_temporal(to):
        return pa.array(values, pa.int32() if to.bit_width == 32 else pa.int64()).view(to)
    if pa.types.is_floating(to):
        return pa.array(values, pa.float32()).cast(to)
    return pa.array(values, to)


def make_cast(uri, kind, values, storage):
    """Two fragments of a column "c" of this type."""
    lance.write_dataset(pa.table({"c": _values(kind, values)}), uri, data_storage_version=storage, max_rows_per_file=2)


def _field(field):
    return [field.name(), field.id(), [_field(child) for child in field.children()]]


def state(uri, stable):
    """As mutation_ops.state, and schemas, field ids, and what the files have."""
    dataset = lance.dataset(uri)
    made = mutation_ops.state(uri, stable)
    made["schema"] = dataset.schema.to_string(show_field_metadata=True)
    made["fields"] = [_field(f) for f in dataset.lance_schema.fields()]
    made["files"] = [[[list(d.fields), list(d.column_indices), d.file_major_version, d.file_minor_version] for d in f.metadata.files]
                     for f in dataset.get_fragments()]
    made["indices"] = sorted(i["name"] for i in dataset.list_indices())
    return made


def cast_state(uri):
    dataset = lance.dataset(uri)
    dataset.validate()
    column = dataset.to_table()["c"].combine_chunks()
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return {"schema": dataset.schema.to_string(), "values": [repr(v) for v in column.to_pylist()]}
