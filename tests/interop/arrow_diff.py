# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Exact equality of Arrow data, NaN bits included, with a message that names the first difference."""
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FLOAT_BITS = {pa.float16(): pa.uint16(), pa.float32(): pa.uint32(), pa.float64(): pa.uint64()}
MAX_SHOWN = 120


def has_float(kind):
    if isinstance(kind, pa.BaseExtensionType):
        return has_float(kind.storage_type)
    if pa.types.is_floating(kind):
        return True
    if pa.types.is_dictionary(kind):
        return has_float(kind.value_type)
    return any(has_float(kind.field(i).type) for i in range(kind.num_fields))


def has_dictionary(kind):
    if isinstance(kind, pa.BaseExtensionType):
        return has_dictionary(kind.storage_type)
    return pa.types.is_dictionary(kind) or any(has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


def decoded(array):
    """The array with every dictionary in it replaced by plain values (pyarrow cannot join dictionaries that hold nulls)."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return decoded(array.storage) if has_dictionary(kind) else array
    if not has_dictionary(kind):
        return array
    if pa.types.is_dictionary(kind):
        return array.dictionary_decode()
    if pa.types.is_struct(kind):
        children = [decoded(array.field(i)) for i in range(kind.num_fields)]
        fields = [kind.field(i).with_type(child.type) for i, child in enumerate(children)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    child = decoded(array.values)
    item = kind.field(0).with_type(child.type)
    if pa.types.is_fixed_size_list(kind):
        made = pa.list_(item, kind.list_size)
        return pa.Array.from_buffers(made, len(array), array.buffers()[:1], children=[child], offset=array.offset)
    made = (pa.large_list if pa.types.is_large_list(kind) else pa.list_)(item)
    return pa.Array.from_buffers(made, len(array), array.buffers()[:2], children=[child], offset=array.offset)


def one(array):
    """A ChunkedArray as one Array, dictionaries decoded."""
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks == 1:
            return decoded(array.chunk(0))
        if isinstance(array.type, pa.BaseExtensionType):
            storage = one(pa.chunked_array([c.storage for c in array.chunks], array.type.storage_type))
            return pa.ExtensionArray.from_storage(array.type, storage)
        if has_dictionary(array.type):
            return pa.concat_arrays([decoded(c) for c in array.chunks]) if array.num_chunks else decoded(pa.array([], array.type))
        return pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return decoded(array)


def _short(value):
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"


def _shown(array, i):
    try:
        return _short(array[i].as_py())
    except Exception as error:  # values that Python cannot hold: nanoseconds, broken UTF-8
        return f"<{array.type} not shown: {error}>"


def _first(left, right):
    """Index of the first differing element of two equally long primitive arrays."""
    step = max(1, min(1024, len(left)))
    for start in range(0, len(left), step):
        if not left.slice(start, step).equals(right.slice(start, step)):
            for i in range(start, min(start + step, len(left))):
                if not left.slice(i, 1).equals(right.slice(i, 1)):
                    return i
    return 0


def _rows_of(lengths, flat_index):
    ends = np.cumsum(lengths)
    return int(np.searchsorted(ends, flat_index, side="right"))


def diff_array(want, got, path=""):
    """None when equal, else one line that says where and what. Both are plain Arrays."""
    where = path or "value"
    if want.type != got.type:
        return f"{where}: type {got.type}, want {want.type}"
    if len(want) != len(got):
        return f"{where}: {len(got)} rows, want {len(want)}"
    if isinstance(want.type, pa.BaseExtensionType):
        return diff_array(want.storage, got.storage, path)
    if not has_float(want.type) and want.equals(got):
        return None
    nulls_want, nulls_got = want.is_null(), got.is_null()
    if not nulls_want.equals(nulls_got):
        i = _first(nulls_want, nulls_got)
        count = pc.sum(pc.xor(nulls_want, nulls_got)).as_py()
        return f"{where}[{i}]: {_shown(got, i)}, want {_shown(want, i)} ({count} rows differ in nullness)"
    kind = want.type
    if pa.types.is_floating(kind):
        left, right = want.view(FLOAT_BITS[kind]), got.view(FLOAT_BITS[kind])
        if left.equals(right):
            return None
        i = _first(left, right)
        return f"{where}[{i}]: {_shown(got, i)}, want {_shown(want, i)} (bits {right[i]} and {left[i]})"
    if pa.types.is_dictionary(kind):
        return diff_array(want.dictionary_decode(), got.dictionary_decode(), f"{where}.decoded")
    if pa.types.is_struct(kind):
        for i, (left, right) in enumerate(zip(want.flatten(), got.flatten())):
            found = diff_array(left, right, f"{path}.{kind.field(i).name}")
            if found:
                return found
        return None
    if pa.types.is_map(kind):
        plain = pa.list_(pa.struct([pa.field("key", kind.key_type, False), pa.field("value", kind.item_type)]))
        return diff_array(want.cast(plain), got.cast(plain), path)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        left, right = pc.list_value_length(want), pc.list_value_length(got)
        if not left.equals(right):
            i = _first(left, right)
            return f"{where}[{i}]: list of {right[i]}, want {left[i]}"
        found = diff_array(want.flatten(), got.flatten(), f"{where}.item")
        return found and f"{found} (flattened over {len(want)} lists)"
    if want.equals(got):
        return None
    i = _first(want, got)
    return f"{where}[{i}]: {_shown(got, i)}, want {_shown(want, i)}"


def metadata(items):
    return {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, v in (items or {}).items()}


def diff_field(want, got, path="", keys=True):
    where = path or want.name
    if want.name != got.name:
        return f"{where}: name {got.name!r}, want {want.name!r}"
    if want.nullable != got.nullable:
        return f"{where}: nullable {got.nullable}, want {want.nullable}"
    if keys and metadata(want.metadata) != metadata(got.metadata):
        return f"{where}: metadata {metadata(got.metadata)}, want {metadata(want.metadata)}"
    if want.type.id != got.type.id or want.type.num_fields != got.type.num_fields:
        return f"{where}: type {got.type}, want {want.type}"
    for i in range(want.type.num_fields if not isinstance(want.type, pa.BaseExtensionType) else 0):
        found = diff_field(want.type.field(i), got.type.field(i), f"{where}.{want.type.field(i).name}", keys)
        if found:
            return found
    return None if want.type == got.type else f"{where}: type {got.type}, want {want.type}"


def diff_schema(want, got, keys=True):
    if want.names != got.names:
        return f"columns {got.names}, want {want.names}"
    for left, right in zip(want, got):
        found = diff_field(left, right, keys=keys)
        if found:
            return found
    if keys and metadata(want.metadata) != metadata(got.metadata):
        return f"schema metadata {metadata(got.metadata)}, want {metadata(want.metadata)}"
    return None


def diff_column(want, got, name):
    """Field and data of one column of two tables."""
    found = diff_field(want.schema.field(name), got.schema.field(name))
    return found or diff_array(one(want.column(name)), one(got.column(name)), name)


def diff_table(want, got, keys=True):
    found = diff_schema(want.schema, got.schema, keys)
    if found:
        return found
    for i, name in enumerate(want.schema.names):
        found = diff_array(one(want.column(i)), one(got.column(i)), name)
        if found:
            return found
    return None
