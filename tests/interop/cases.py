# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The matrix: what columns the interop tests write, as deterministic data.

A Case is one column: a kind (type), a null pattern, a shape of values, a shape of lists, encoding metadata, a
storage version, a row count and a batching. Cases that share version, rows and batching form one dataset, so
that few processes are started. select() takes about 3000 of them (every kind with every version and row count;
the other parameters so that pairs with the kind are covered); full() is the whole product.
"""
import hashlib
import itertools
import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

VERSIONS = ("2.0", "2.1", "2.2")
ROWS = (0, 1, 1023, 1024, 1025, 100003)
SMALLER = (20011, 4099)          # what replaces 100003 for wide columns
COLUMN_BYTES = 3 << 20
NULLS = ("required", "none", "some", "sparse", "runs", "first", "last", "all")
FIXED_SHAPES = ("random", "constant", "low", "runs", "sorted", "small", "negative", "steps")
VAR_SHAPES = ("random", "constant", "low", "runs", "sorted", "small", "huge", "empty", "long", "repetitive")
BOOL_SHAPES = ("random", "constant", "runs")
LIST_SHAPES = ("mixed", "plain", "nulls", "empties", "allempty", "allnull", "nullitem", "long", "garbage")
LEAST_CASES = 20                 # a kind
BATCHES = ("one", "chunks", "pages", "frags")


@dataclass(frozen=True)
class Kind:
    name: str
    tree: tuple
    width: int                       # bytes a row, roughly
    metas: tuple = ("-",)
    versions: tuple = VERSIONS
    shapes: tuple = ("random",)
    lists: tuple = ("-",)
    nulls: tuple = NULLS


@dataclass(frozen=True)
class Case:
    kind: str
    nulls: str
    shape: str
    lists: str
    meta: str
    version: str
    rows: int
    batches: str

    @property
    def id(self):
        return f"{self.kind}-{self.nulls}-{self.shape}-{self.lists}-{self.meta}-{self.version}-{self.rows}-{self.batches}"

    @property
    def seed(self):
        # The version is left out: the same data at every version makes files comparable.
        text = f"{self.kind}-{self.nulls}-{self.shape}-{self.lists}-{self.rows}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


# ---- kinds -----------------------------------------------------------------------------------------------------

META = {
    "-": {},
    "cnone": {"lance-encoding:compression": "none"},
    "lz4": {"lance-encoding:compression": "lz4"},
    "zstd": {"lance-encoding:compression": "zstd"},
    "zstd9": {"lance-encoding:compression": "zstd", "lance-encoding:compression-level": "9"},
    "fsst": {"lance-encoding:compression": "fsst"},
    "bss": {"lance-encoding:compression": "lz4", "lance-encoding:bss": "on"},
    "bssauto": {"lance-encoding:compression": "zstd", "lance-encoding:bss": "auto"},
    "rle": {"lance-encoding:rle-threshold": "1.0"},
    "norle": {"lance-encoding:rle-threshold": "0.0"},
    "mini": {"lance-encoding:structural-encoding": "miniblock"},
    "zip": {"lance-encoding:structural-encoding": "fullzip"},
    "zipzstd": {"lance-encoding:structural-encoding": "fullzip", "lance-encoding:compression": "zstd"},
    "minichunk": {"lance-encoding:minichunk-size": "16384"},
    "nodict": {"lance-encoding:dict-divisor": "100000"},
    "dictzstd": {"lance-encoding:dict-values-compression": "zstd"},
    "dictnone": {"lance-encoding:dict-values-compression": "none"},
    "packed": {"lance-encoding:packed": "true"},
    "oldpacked": {"packed": "true"},
    "blob": {"lance-encoding:blob": "true"},
    "blobv2": {"ARROW:extension:name": "lance.blob.v2"},
    "blobv2small": {"ARROW:extension:name": "lance.blob.v2", "lance-encoding:blob-inline-size-threshold": "64",
                    "lance-encoding:blob-dedicated-size-threshold": "256"},
    "user": {"unit": "m/s", "größe": "½"},
    "ext": {"ARROW:extension:name": "pennon.test", "ARROW:extension:metadata": "{\"a\": 1}"},
    "uuid": {"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""},
    "bf16": {"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""},
    "json": {"ARROW:extension:name": "arrow.json", "ARROW:extension:metadata": ""},
}

FIXED_METAS = ("-", "-", "cnone", "lz4", "zstd", "rle", "norle", "zip", "user")
BSS_METAS = FIXED_METAS + ("bss", "bssauto")
VAR_METAS = ("-", "-", "cnone", "lz4", "zstd", "zstd9", "fsst", "mini", "zip", "zipzstd", "minichunk", "nodict",
             "dictzstd", "dictnone", "user")
FSL_METAS = ("-", "-", "mini", "zip", "lz4", "zstd")
NEST_METAS = ("-", "-", "mini", "zip", "lz4", "zstd", "user")

INTS = {"i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(),
        "u8": pa.uint8(), "u16": pa.uint16(), "u32": pa.uint32(), "u64": pa.uint64()}


def _leaf_types():
    out = dict(INTS)
    out.update({"f16": pa.float16(), "f32": pa.float32(), "f64": pa.float64(),
                "dec5": pa.decimal128(5, 2), "dec38": pa.decimal128(38, 10), "dec50": pa.decimal256(50, 5),
                "dec76": pa.decimal256(76, 0), "date32": pa.date32(), "date64": pa.date64()})
    for unit in ("s", "ms"):
        out[f"time32{unit}"] = pa.time32(unit)
    for unit in ("us", "ns"):
        out[f"time64{unit}"] = pa.time64(unit)
    for unit in ("s", "ms", "us", "ns"):
        out[f"ts{unit}"] = pa.timestamp(unit)
        out[f"dur{unit}"] = pa.duration(unit)
    out.update({"tsutc": pa.timestamp("us", "UTC"), "tsberlin": pa.timestamp("ns", "Europe/Berlin"),
                "tsplus": pa.timestamp("ms", "+05:30")})
    for width in (1, 2, 4, 8, 15, 16, 33, 255, 256, 300):
        out[f"fsb{width}"] = pa.binary(width)
    return out


LEAVES = _leaf_types()
VARS = {"utf8": pa.utf8(), "large_utf8": pa.large_utf8(), "binary": pa.binary(), "large_binary": pa.large_binary(),
        "utf8_view": pa.string_view(), "binary_view": pa.binary_view()}


def _width(kind):
    return max(1, kind.bit_width // 8)


def leaf(name):
    return ("leaf", LEAVES.get(name) or VARS.get(name) or {"bool": pa.bool_(), "null": pa.null()}[name])


def _kinds():
    out = []

    def add(name, tree, width, **more):
        out.append(Kind(name, tree, width, **more))

    add("null", leaf("null"), 1, nulls=("none",))
    add("bool", leaf("bool"), 1, shapes=BOOL_SHAPES, metas=("-", "-", "cnone", "lz4", "zstd", "zip"))
    for name, kind in LEAVES.items():
        wide = BSS_METAS if kind.bit_width in (32, 64) else FIXED_METAS
        add(name, leaf(name), _width(kind), shapes=FIXED_SHAPES, metas=wide)
    for name in VARS:
        add(name, leaf(name), 40, shapes=VAR_SHAPES, metas=VAR_METAS)
    for key, kind in INTS.items():
        add(f"dict_{key}_utf8", ("dict", kind, pa.utf8()), 8, shapes=("low", "constant", "runs"), metas=("-", "zstd"))
        add(f"dict_{key}_i32", ("dict", kind, pa.int32()), 8, shapes=("low", "constant", "runs"))
    for name, kind in (("large_utf8", pa.large_utf8()), ("binary", pa.binary()), ("f64", pa.float64()),
                       ("bool", pa.bool_()), ("tsus", pa.timestamp("us")), ("dec5", pa.decimal128(5, 2))):
        add(f"dict_i16_{name}", ("dict", pa.int16(), kind), 8, shapes=("low",))
    for item, dim in (("f32", 8), ("f32", 63), ("f32", 64), ("f32", 768), ("f16", 64), ("f64", 16), ("u8", 4), ("i8", 300),
                      ("i64", 1), ("tsus", 3), ("dec38", 2), ("fsb4", 3), ("date32", 5)):
        add(f"fsl_{item}_{dim}", ("fsl", leaf(item), dim), _width(LEAVES[item]) * dim, metas=FSL_METAS,
            shapes=("random", "constant", "small"))
    for dim in (1, 8, 12, 16, 33, 2400):
        add(f"fsl_bool_{dim}", ("fsl", leaf("bool"), dim), dim // 8 + 1, metas=("-", "-", "mini", "zip"), shapes=BOOL_SHAPES)
    add("fsl_utf8_3", ("fsl", leaf("utf8"), 3), 60)
    add("fsl_bf16_16", ("fsl", ("meta", "bf16", leaf("fsb2")), 16), 32, metas=("-", "mini", "zip"))
    add("fsl_fsl_f32", ("fsl", ("fsl", leaf("f32"), 4), 8), 128, metas=FSL_METAS)
    add("fsl_fsl_u8", ("fsl", ("fsl", leaf("u8"), 64), 16), 1024, metas=FSL_METAS)
    add("fsl_fsl_bool", ("fsl", ("fsl", leaf("bool"), 3), 5), 2, metas=("-", "mini"))
    add("fsl_struct", ("fsl", ("struct", (("x", leaf("f32")), ("n", leaf("i16")))), 3), 18, versions=("2.1", "2.2"))
    add("fsl_struct_utf8", ("fsl", ("struct", (("k", leaf("utf8")), ("v", leaf("i64")))), 2), 60, versions=("2.2",))
    add("fsl_list", ("fsl", ("list", leaf("i32")), 2), 40)
    for item in ("i32", "u8", "bool", "f64", "utf8", "binary", "dec38", "fsb300", "tsus"):
        shapes = VAR_SHAPES if item in VARS else BOOL_SHAPES if item == "bool" else FIXED_SHAPES
        width = 100 if item in VARS else 900 if item == "fsb300" else 3 * max(1, getattr(LEAVES.get(item), "bit_width", 8) // 8)
        add(f"list_{item}", ("list", leaf(item)), width, shapes=shapes, lists=LIST_SHAPES, metas=NEST_METAS)
    for item in ("i16", "utf8", "large_binary", "f32"):
        add(f"large_list_{item}", ("large_list", leaf(item)), 30 if item not in VARS else 120, lists=LIST_SHAPES,
            shapes=VAR_SHAPES if item in VARS else FIXED_SHAPES, metas=NEST_METAS)
    add("list_dict", ("list", ("dict", pa.int8(), pa.utf8())), 12, lists=LIST_SHAPES, shapes=("low",))
    add("list_fsl", ("list", ("fsl", leaf("f32"), 4)), 48, lists=LIST_SHAPES, metas=NEST_METAS)
    add("list_fsl_wide", ("list", ("fsl", leaf("f32"), 128)), 1500, lists=LIST_SHAPES, metas=NEST_METAS)
    add("list_list_i32", ("list", ("list", leaf("i32"))), 40, lists=LIST_SHAPES, shapes=FIXED_SHAPES, metas=NEST_METAS)
    add("list_large_list_utf8", ("list", ("large_list", leaf("utf8"))), 300, lists=LIST_SHAPES, shapes=VAR_SHAPES, metas=NEST_METAS)
    add("list_list_list_u16", ("list", ("list", ("list", leaf("u16")))), 60, lists=LIST_SHAPES, metas=NEST_METAS)
    add("list_struct", ("list", ("struct", (("a", leaf("i32")), ("b", leaf("utf8"))))), 120, lists=LIST_SHAPES,
        shapes=("random", "low", "runs"), metas=NEST_METAS)
    add("list_struct_list", ("list", ("struct", (("q", ("list", leaf("i16"))), ("s", ("struct", (("t", leaf("f32")),)))))), 60,
        lists=LIST_SHAPES, metas=NEST_METAS)
    add("list_null", ("list", leaf("null")), 4, lists=LIST_SHAPES)
    add("struct1", ("struct", (("a", leaf("i32")), ("b", leaf("utf8")))), 40, shapes=("random", "low", "runs", "small"), metas=NEST_METAS)
    add("struct2", ("struct", (("s", ("struct", (("a", leaf("f64")), ("b", leaf("bool"))))), ("c", leaf("i16")))), 12, metas=NEST_METAS)
    add("struct4", ("struct", (("s", ("struct", (("s", ("struct", (("s", ("struct", (("v", leaf("i64")),))),
                                                              ("w", leaf("utf8"))))),))),)), 48, metas=NEST_METAS)
    add("struct_wide", ("struct", tuple((f"f{i}", leaf(n)) for i, n in enumerate(
        ("u8", "i64", "f32", "utf8", "binary", "bool", "tsus", "dec38", "date32", "large_utf8")))), 160, metas=NEST_METAS)
    add("struct_zipstr", ("struct", (("t", leaf("large_utf8")), ("v", ("fsl", leaf("f32"), 128)))), 800, metas=NEST_METAS,
        shapes=("random", "long"))
    add("struct_list", ("struct", (("l", ("list", leaf("i32"))), ("n", leaf("utf8")))), 60, lists=LIST_SHAPES, metas=NEST_METAS)
    add("struct_list_struct", ("struct", (("l", ("list", ("struct", (("a", leaf("i64")), ("b", ("list", leaf("utf8"))))))),)), 300,
        lists=LIST_SHAPES, metas=NEST_METAS)
    add("struct_list_wide", ("struct", (("l", ("list", ("fsl", leaf("f32"), 80))), ("n", leaf("i32")))), 960, lists=LIST_SHAPES,
        metas=("-", "zip"))
    add("struct_list_long", ("struct", (("l", ("list", leaf("large_utf8"))),)), 900, lists=LIST_SHAPES, shapes=("long", "huge"),
        metas=("-", "zip", "zstd"))
    add("list_list_long", ("list", ("struct", (("m", ("list", leaf("binary"))),))), 2000, lists=LIST_SHAPES, shapes=("long", "huge"),
        metas=("-", "zip"))
    add("struct_empty", ("struct", ()), 1)
    add("struct_dict", ("struct", (("d", ("dict", pa.int8(), pa.utf8())), ("n", leaf("null")))), 4, shapes=("low",))
    packed = (("a", leaf("i32")), ("b", leaf("f64")), ("c", leaf("u8")))
    add("packed", ("packed", packed), 13, metas=("packed", "oldpacked"), nulls=("required", "none"))
    add("packed_null", ("packed", packed), 13, metas=("packed",), nulls=("some", "first", "all"))
    add("packed_fsl", ("packed", (("v", ("fsl", leaf("f32"), 4)), ("n", leaf("i16")))), 18, metas=("packed",), nulls=("required", "none"))
    add("packed_var", ("packed", (("s", leaf("utf8")), ("n", leaf("i64")), ("b", leaf("binary")))), 80, metas=("packed",),
        nulls=("required", "none", "some"))
    add("map_utf8_i32", ("map", leaf("utf8"), leaf("i32")), 80, versions=("2.1", "2.2"), lists=LIST_SHAPES, metas=NEST_METAS)
    add("map_i64_struct", ("map", leaf("i64"), ("struct", (("x", leaf("f32")), ("y", leaf("utf8"))))), 120, versions=("2.2",),
        lists=LIST_SHAPES)
    add("map_utf8_list", ("map", leaf("utf8"), ("list", leaf("i16"))), 100, versions=("2.2",), lists=LIST_SHAPES)
    add("list_map", ("list", ("map", leaf("utf8"), leaf("f64"))), 200, versions=("2.2",), lists=LIST_SHAPES)
    add("json", ("json", pa.utf8()), 60, metas=("json",), shapes=("random", "low"))
    add("json_large", ("json", pa.large_utf8()), 60, metas=("json",), shapes=("random",))
    add("blob", ("leaf", pa.large_binary()), 2000, metas=("blob",), shapes=("random", "empty", "long"), versions=VERSIONS)
    add("blobv2", ("blob2",), 2000, metas=("blobv2", "blobv2small"), shapes=("random",), versions=("2.1", "2.2"))
    add("struct_blobv2", ("struct", (("id", leaf("i32")), ("b", ("meta", "blobv2", ("blob2",))))), 2000, versions=("2.2",))
    add("ext_fsb16", leaf("fsb16"), 16, metas=("ext",), shapes=("random",))
    add("ext_utf8", leaf("utf8"), 40, metas=("ext",), shapes=("random", "low"))
    add("ext_uuid", leaf("fsb16"), 16, metas=("uuid",), shapes=("random", "low"))
    add("ext_bf16", leaf("fsb2"), 2, metas=("bf16",), shapes=("random",))
    return {kind.name: kind for kind in out}


KINDS = _kinds()


# ---- values ----------------------------------------------------------------------------------------------------

def null_mask(pattern, n, rng):
    """numpy mask with True for null, or None."""
    if pattern in ("required", "none") or n == 0:
        return None
    mask = np.zeros(n, bool)
    if pattern == "some":
        mask = rng.random(n) < 0.2
    elif pattern == "sparse":
        mask[rng.integers(0, n, max(1, n // 997))] = True
    elif pattern == "runs":
        mask = _runs(rng.integers(0, 2, n), n, rng).astype(bool)
    elif pattern == "first":
        mask[0] = True
    elif pattern == "last":
        mask[-1] = True
    elif pattern == "all":
        mask[:] = True
    return mask


def _runs(values, n, rng):
    """The values repeated in runs of 1 to about 600 until n."""
    if n == 0:
        return values[:0]
    lengths = np.maximum(1, rng.geometric(1 / 120, max(4, n // 20 + 4)))
    lengths = np.append(lengths, n)
    return np.repeat(values[np.arange(len(lengths)) % len(values)], lengths)[:n]


def _validity(mask):
    return None if mask is None else pa.py_buffer(np.packbits(~mask, bitorder="little"))


LIMITS = {  # exclusive bounds where Arrow restricts the values
    "time32[s]": 86400, "time32[ms]": 86400_000, "time64[us]": 86400_000_000, "time64[ns]": 86400_000_000_000,
}


def _integers(shape, n, bits, signed, rng):
    """n integers as int64 or uint64 in range of the type."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    kind = np.int64 if signed else np.uint64

    def uniform(a, b, count):
        return rng.integers(max(a, low), min(b, high), count, dtype=kind, endpoint=True)

    if shape == "constant":
        return np.repeat(uniform(low, high, 1), n)
    if shape == "low":
        return uniform(low, high, 10)[rng.integers(0, 10, n)]
    if shape == "runs":
        return _runs(uniform(low, high, 50), n, rng)
    if shape == "sorted":
        if bits == 8:
            return np.sort(uniform(low, high, n))
        start, steps = np.asarray(uniform(0, high // 8, 1)), rng.integers(0, 4, n).astype(kind)
        return np.minimum(start + np.cumsum(steps, dtype=kind), np.array(high, kind))
    if shape == "small":
        return uniform(0, 100, n)
    if shape == "negative":
        return uniform(-50, 50, n) if signed else uniform(high - 50, high, n)
    if shape == "steps":
        widths = rng.integers(0, bits, n // 700 + 1)
        tops = (np.uint64(1) << widths.astype(np.uint64)) - np.uint64(1)
        return (rng.integers(0, 1 << 62, n, dtype=np.uint64) & np.repeat(tops, 700)[:n]).astype(kind)
    return uniform(low, high, n)


def _floats(shape, n, kind, rng):
    width = np.dtype(kind).itemsize * 8
    if shape == "constant":
        return np.repeat(rng.normal(0, 10, 1), n).astype(kind)
    if shape == "low":
        return rng.normal(0, 10, 10).astype(kind)[rng.integers(0, 10, n)]
    if shape == "runs":
        return _runs(rng.normal(0, 10, 50).astype(kind), n, rng)
    if shape == "sorted":
        return np.sort(rng.normal(0, 10, n)).astype(kind)
    if shape == "small":
        return rng.integers(0, 100, n).astype(kind)
    if shape == "negative":
        return -np.abs(rng.normal(0, 10, n)).astype(kind)
    if shape == "steps":  # any bits: NaN payloads, infinities, subnormals
        return rng.integers(0, (1 << width) - 1, n, dtype=f"u{width // 8}", endpoint=True).view(kind)
    out = rng.normal(0, 1000, n).astype(kind)
    if n:
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0], kind)
        out[rng.integers(0, n, n // 50 + 1)] = special[rng.integers(0, 5, n // 50 + 1)]
    return out


def _decimals(shape, n, kind, rng):
    """Little-endian two's complement bytes, within the precision."""
    width = kind.bit_width // 8
    digits = {"small": 2, "negative": 2}.get(shape, min(kind.precision, 18))
    small = _integers("random" if shape in ("random", "steps") else shape, n, 60, True, rng) % (10 ** digits - 1)
    words = np.zeros((n, width // 8), np.int64)
    words[:, 0] = small if shape in ("small",) else np.where(rng.random(n) < 0.5, small, -small) if shape in (
        "random", "negative", "steps") else small
    words[:, 1:] = (words[:, :1] >> 63)
    if kind.precision > 30 and shape in ("random", "steps") and n:
        big = rng.integers(0, n, n // 3 + 1)  # some values that need more than 64 bits
        words[big, 1] = rng.integers(0, 1 << 40, len(big)) if kind.precision < 38 else rng.integers(0, 1 << 60, len(big))
        if width > 16:
            words[big, 2:] = 0
    return words.tobytes()


def fixed_values(kind, shape, n, mask, rng):
    if pa.types.is_boolean(kind):
        bits = rng.integers(0, 2, n).astype(bool)
        if shape == "constant":
            bits[:] = True
        elif shape == "runs":
            bits = _runs(bits if n else bits, n, rng).astype(bool) if n else bits
        data = np.packbits(bits, bitorder="little").tobytes()
    elif pa.types.is_floating(kind):
        data = _floats(shape, n, f"f{kind.bit_width // 8}", rng).tobytes()
    elif pa.types.is_decimal(kind):
        data = _decimals(shape, n, kind, rng)
    elif pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        rows = 1 if shape == "constant" else 10 if shape == "low" else n
        raw = rng.integers(0, 256, (max(rows, 1), width)).astype(np.uint8)
        if shape in ("small", "sorted", "negative", "steps"):
            raw[:, 1:] = 0
        pick = np.zeros(n, int) if shape == "constant" else rng.integers(0, 10, n) if shape == "low" else np.arange(n)
        if shape == "runs":
            pick = _runs(np.arange(n), n, rng) if n else pick
        data = raw[pick].tobytes()
    else:
        signed = not str(kind).startswith("uint")
        values = _integers(shape, n, kind.bit_width, signed, rng)
        limit = LIMITS.get(str(kind))
        if limit:
            values = np.abs(values % limit)
        if pa.types.is_date64(kind):
            values = (values % 1_000_000) * 86400_000
        data = values.astype(f"{'i' if signed else 'u'}{kind.bit_width // 8}").tobytes()
    return pa.Array.from_buffers(kind, n, [_validity(mask), pa.py_buffer(data)])


WORDS = ("lance", "fragment", "größe", "数据", "row", "a", "", "page-layout", "ß", "\U0001f600", "value", "0123456789")


def _var_lengths_data(shape, n, rng, text):
    """(lengths, bytes) of n values."""
    alphabet = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789 _-/", np.uint8) if text else np.arange(256, dtype=np.uint8)

    def letters(count):
        return alphabet[rng.integers(0, len(alphabet), count)]

    if shape == "empty":
        return np.zeros(n, np.int64), b""
    if shape == "small":
        return np.ones(n, np.int64), letters(n).tobytes()
    if shape == "huge":
        lengths = rng.integers(0, 12, n)
        if n:
            lengths[rng.integers(0, n, min(n, 4))] = rng.integers(33_000, 70_000, min(n, 4))
        return lengths, letters(int(lengths.sum())).tobytes()
    if shape == "long":
        lengths = rng.integers(200, 420, n) if n <= 5000 else rng.integers(0, 60, n)
        if n:
            lengths[0] = 300
        return lengths, letters(int(lengths.sum())).tobytes()
    if shape == "random":
        lengths = rng.integers(0, 24, n)
        return lengths, letters(int(lengths.sum())).tobytes()
    return None


def var_values(kind, shape, n, mask, rng):
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    made = _var_lengths_data(shape, n, rng, text)
    if made is None:
        if shape == "sorted":
            pool = [f"key-{i // 3:08d}" for i in range(n)]
            pick = np.arange(n)
        elif shape == "repetitive":
            pool = [f"https://example.org/{WORDS[i % len(WORDS)]}/{i * 37 % 1009}/index.html" for i in range(997)]
            pick = rng.integers(0, len(pool), n)
        else:
            count = 1 if shape == "constant" else 10 if shape == "low" else 60
            pool = [" ".join(WORDS[j] for j in rng.integers(0, len(WORDS), int(rng.integers(1, 5)))) for _ in range(count)]
            pick = _runs(np.arange(count), n, rng) if shape == "runs" and n else rng.integers(0, count, n)
        raw = [p.encode() for p in pool] or [b""]
        base = pa.array(raw, pa.binary()).take(pa.array(pick.astype(np.int64)[:n])) if n else pa.array([], pa.binary())
    else:
        lengths, data = made
        if mask is not None:  # nothing hides under nulls here; "garbage" lists cover that
            keep = np.repeat(~mask, lengths)
            data, lengths = np.frombuffer(data, np.uint8)[keep].tobytes(), np.where(mask, 0, lengths)
        offsets = np.zeros(n + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        base = pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)])
    if mask is not None:
        import pyarrow.compute as pc
        base = pc.if_else(pa.array(~mask), base, pa.scalar(None, pa.binary()))
    if text:
        base = base.cast(pa.utf8())
    return base if base.type == kind else base.cast(kind)


def list_lengths(shape, n, rng):
    """(lengths, null mask or None) of n lists."""
    lengths, mask = rng.integers(1, 6, n), None
    if shape in ("mixed", "nullitem", "garbage", "-"):
        lengths = rng.integers(0, 6, n)
        mask = rng.random(n) < 0.15
    elif shape == "nulls":
        mask = rng.random(n) < 0.15
    elif shape == "empties":
        lengths = rng.integers(0, 4, n)
    elif shape == "allempty":
        lengths[:] = 0
    elif shape == "allnull":
        mask = np.ones(n, bool)
    elif shape == "long":
        lengths = (rng.random(n) < 0.3).astype(np.int64)
        if n:
            lengths[rng.integers(0, n, 2)] = min(9001, 40 * n + 7)
    if mask is not None and shape != "garbage":
        lengths = np.where(mask, 0, lengths)
    return lengths, mask


class Build:
    """Makes the array of one case; inner null patterns follow from the case's seed."""

    def __init__(self, case):
        self.case, self.rng = case, np.random.default_rng(case.seed)
        self.required = case.nulls == "required"
        self.leaf_meta = META[case.meta] if case.meta not in ("packed", "oldpacked", "user", "mini", "zip") else {}

    def inner(self):
        if self.required:
            return "none"
        return ("some", "some", "none", "sparse", "some", "all", "none", "runs", "none", "some")[int(self.rng.integers(0, 10))]

    def field(self, name, tree, kind):
        meta = META[tree[1]] if tree[0] == "meta" else self.leaf_meta if tree[0] == "leaf" else {}
        return pa.field(name, kind, not self.required or pa.types.is_null(kind), meta or None)

    def make(self, tree, n, nulls, lists):
        kind, rng = tree[0], self.rng
        if kind == "meta":
            return self.make(tree[2], n, nulls, lists)
        mask = null_mask(nulls, n, rng)
        if kind == "leaf":
            if pa.types.is_null(tree[1]):
                return pa.nulls(n)
            values = var_values if tree[1] in VARS.values() else fixed_values
            return values(tree[1], self.case.shape, n, mask, rng)
        if kind == "dict":
            return self.dictionary(tree, n, mask)
        if kind == "json":
            return self.json(tree[1], n, mask)
        if kind == "blob2":
            return self.blob2(n, mask)
        if kind == "fsl":
            child = self.make(tree[1], n * tree[2], self.inner(), lists)
            item = self.field("item", tree[1], child.type)
            return pa.FixedSizeListArray.from_arrays(child, type=pa.list_(item, tree[2]), mask=None if mask is None else pa.array(mask))
        if kind in ("struct", "packed"):
            return self.struct(tree, n, mask, lists, kind == "packed")
        return self.lists(tree, n, nulls, mask, lists)

    def struct(self, tree, n, mask, lists, packed):
        if not tree[1]:
            return pa.Array.from_buffers(pa.struct([]), n, [_validity(mask)])
        children = [self.make(child, n, "none" if packed else self.inner(), lists) for _, child in tree[1]]
        fields = [self.field(name, child, made.type) for (name, child), made in zip(tree[1], children)]
        if packed:
            fields = [f.with_metadata(None) for f in fields]
        return pa.StructArray.from_arrays(children, fields=fields, mask=None if mask is None else pa.array(mask))

    def lists(self, tree, n, nulls, mask, lists):
        kind, rng = tree[0], self.rng
        lengths, list_mask = list_lengths(lists, n, rng)
        if self.required:
            list_mask, mask = None, None
        if mask is None and list_mask is not None and nulls != "none":
            mask = list_mask
        if mask is not None and lists != "garbage":
            lengths = np.where(mask, 0, lengths)
        total = int(lengths.sum())
        width = np.int64 if kind == "large_list" else np.int32
        offsets = np.zeros(n + 1, width)
        np.cumsum(lengths, out=offsets[1:])
        buffers = [_validity(mask), pa.py_buffer(offsets.tobytes())]
        inner = "all" if lists == "nullitem" and not self.required else self.inner()
        deeper = {"allempty": "mixed", "allnull": "mixed", "long": "plain", "garbage": "mixed"}.get(lists, lists)
        if kind == "map":
            keys = self.make(tree[1], total, "none", deeper)
            values = self.make(tree[2], total, inner, deeper)
            entries = pa.StructArray.from_arrays([keys, values], fields=[
                pa.field("key", keys.type, False), self.field("value", tree[2], values.type)])
            wanted = pa.map_(pa.field("key", keys.type, False), self.field("value", tree[2], values.type))
            return pa.Array.from_buffers(wanted, n, buffers, children=[entries])
        child = self.make(tree[1], total, inner, deeper)
        make = pa.large_list if kind == "large_list" else pa.list_
        return pa.Array.from_buffers(make(self.field("item", tree[1], child.type)), n, buffers, children=[child])

    def dictionary(self, tree, n, mask):
        key, value = tree[1], tree[2]
        # Official joins the dictionaries of the batches of a page without looking at their values: 8-bit keys must
        # have room for one dictionary a batch.
        count = {"constant": 1}.get(self.case.shape, 20 if key.bit_width == 8 else 300)
        if pa.types.is_boolean(value):
            count = 2
        pool = {"string": [f"word {i}" for i in range(count)], "large_string": [f"w{i}" for i in range(count)],
                "binary": [bytes([i % 256, i // 256]) for i in range(count)]}.get(str(value))
        if pool is None:
            base = pa.array(range(count), pa.int64())
            values = pa.array([False, True][:count]) if pa.types.is_boolean(value) else base.cast(pa.decimal128(19, 0)).cast(
                value, safe=False) if pa.types.is_decimal(value) else base.cast(value)
        else:
            values = pa.array(pool, value)
        pick = _runs(self.rng.integers(0, count, 40), n, self.rng) if self.case.shape == "runs" else self.rng.integers(0, count, n)
        indices = pa.Array.from_buffers(key, n, [_validity(mask), pa.py_buffer(
            pick.astype(f"{'u' if str(key).startswith('u') else 'i'}{key.bit_width // 8}").tobytes())])
        return pa.DictionaryArray.from_arrays(indices, values)

    def json(self, kind, n, mask):
        rng = self.rng
        pool = []
        for i in range(10 if self.case.shape == "low" else min(n, 300) or 1):
            value = [None, True, False, i, -i, i * 10 ** 6, 2 ** 53 + i, i / 7, "text", "", "ü\"\\\n", [], {}, [1, [2, [None]]],
                     {"k": i, "a": {"b": [i, "x"]}, "ü": 1.5}, {"z": 1, "a": 2, "": None}, -2 ** 40 - i, 1e300][int(rng.integers(0, 18))]
            pool.append(json.dumps(value if i % 3 else {"id": i, "v": value}, ensure_ascii=False))
        values = pa.array(pool, pa.utf8()).take(pa.array(rng.integers(0, len(pool), n))) if n else pa.array([], pa.utf8())
        if mask is not None:
            values = pc.if_else(pa.array(~mask), values, pa.scalar(None, pa.utf8()))
        return values.cast(kind)

    def blob2(self, n, mask):
        rng = self.rng
        lengths = rng.integers(0, 200, n)
        if n:
            lengths[rng.integers(0, n, min(n, 3))] = rng.integers(66_000, 90_000, min(n, 3))
        if mask is not None:
            lengths = np.where(mask, 0, lengths)
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        data = rng.integers(0, 256, int(lengths.sum())).astype(np.uint8)
        values = pa.Array.from_buffers(pa.large_binary(), n, [_validity(mask), pa.py_buffer(offsets.tobytes()), pa.py_buffer(data.tobytes())])
        children = [values, pa.nulls(n, pa.utf8()), pa.nulls(n, pa.uint64()), pa.nulls(n, pa.uint64())]
        return pa.StructArray.from_arrays(children, fields=[
            pa.field("data", pa.large_binary()), pa.field("uri", pa.utf8()), pa.field("position", pa.uint64()),
            pa.field("size", pa.uint64())], mask=None if mask is None else pa.array(mask))


def payloads(kind, array):
    """The column with the bytes of its blobs: what a scan with blobs as bytes gives."""
    if isinstance(array, pa.ExtensionArray):  # where official is loaded beside the tests it registers its types
        array = array.storage
    if kind == "blob":
        return array
    if kind == "blobv2":
        here = pc.if_else(array.is_valid(), array.field("data"), pa.scalar(None, pa.large_binary()))
        return here
    fields = [array.type.field("id"), pa.field("b", pa.large_binary(), array.type.field("b").nullable)]
    return pa.StructArray.from_arrays([array.field("id"), payloads("blobv2", array.field("b"))], fields=fields, mask=array.is_null())


def own_text(kind):
    """Kinds that official returns in a form of its own: JSON text is rendered anew, blobs are descriptors."""
    return kind.startswith("json") or "blob" in kind


def plain_type(kind):
    """The type official returns for a type it was given: views are plain, list items of fixed size lose their field."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.json_(pa.utf8()) if kind.extension_name == "arrow.json" else kind
    if kind == pa.string_view():
        return pa.utf8()
    if kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_fixed_size_list(kind) and not pa.types.is_struct(kind.value_type):
        keys = (kind.value_field.metadata or {}).get(b"ARROW:extension:name") == b"lance.bfloat16"
        item = pa.field("item", plain_type(kind.value_type), True, kind.value_field.metadata if keys else None)
        return pa.list_(item, kind.list_size)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(plain_field(kind.value_field), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(kind.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(plain_field(kind.key_field), plain_field(kind.item_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(plain_field(kind.value_field))
    return pa.list_(plain_field(kind.value_field)) if pa.types.is_list(kind) else kind


def plain_field(field):
    return field.with_type(plain_type(field.type))


def retype(array, kind):
    """The same buffers under the type of plain_type()."""
    if array.type == kind and not pa.types.is_nested(kind):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return array if array.type == kind else pa.ExtensionArray.from_storage(kind, array.storage.cast(kind.storage_type))
    if not pa.types.is_nested(kind):
        return array.cast(kind)
    if pa.types.is_struct(kind):
        children = [retype(array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:1], children=children)
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([retype(array.keys, kind.key_type), retype(array.items, kind.item_type)],
                                             fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], children=[entries])
    count = 1 if pa.types.is_fixed_size_list(kind) else 2
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:count], children=[retype(array.values, kind.value_type)])


def plain(table):
    """What official is expected to return for a table it stored without loss (not for JSON text and blobs)."""
    fields = [plain_field(f) for f in table.schema]
    arrays = [pa.chunked_array([retype(part, f.type) for part in c.chunks], f.type) for c, f in zip(table.columns, fields)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, table.schema.metadata))


def column(case):
    """(field without its final name, array) of one case."""
    kind, build = KINDS[case.kind], Build(case)
    array = build.make(kind.tree, case.rows, case.nulls, case.lists)
    return pa.field("x", array.type, case.nulls != "required", META[case.meta] or None), array


# ---- datasets ---------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Group:
    """Cases that share one dataset; the name of column i is names[i]."""
    version: str
    rows: int
    batches: str
    part: int
    cases: tuple

    @property
    def id(self):
        return f"{self.version}-{self.rows}-{self.batches}-{self.part}"

    @property
    def names(self):
        return tuple(f"{case.kind}_{i}" for i, case in enumerate(self.cases))

    def table(self):
        fields, arrays = [], []
        for name, case in zip(self.names, self.cases):
            field, array = column(case)
            fields.append(field.with_name(name))
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields, {"purpose": "interop"}))

    def batch_rows(self):
        """Lengths of the record batches that carry the rows."""
        n = self.rows
        if self.batches in ("one", "frags") or n < 2:
            return [n]
        if self.batches == "pages":
            step = max(1, -(-n // 5))
            return [min(step, n - i) for i in range(0, n, step)]
        out, left = [1, 0], n - 1
        while left:
            step = min(left, max(1, n // 3 + len(out)))
            out.append(step)
            left -= step
        return out

    def save(self, path):
        table, start = self.table(), 0
        options = pa.ipc.IpcWriteOptions(compression={"chunks": "zstd", "pages": "lz4"}.get(self.batches))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            for rows in self.batch_rows():
                writer.write_batch(pa.RecordBatch.from_arrays([c.chunk(0).slice(start, rows) for c in table.columns], schema=table.schema))
                start += rows
        return table

    def write_options(self, columns=1):
        """Options for official's write that go with the batching."""
        if self.batches == "frags":
            return {"max_rows_per_file": max(1, -(-self.rows // 3))}
        # 14.0.2 divides its buffer among the columns; the pages of a column must not depend on its company.
        return {"data_cache_bytes": (1 << 12) * max(1, columns)} if self.batches == "pages" else {}


MAX_COLUMNS = 64
# Official reads wrong columns behind an empty struct; 14.0.2 does not read a list of structs of fixed size beside
# other columns (it takes the child rows of its pages for rows).
ALONE = ("struct_empty", "fsl_struct", "fsl_struct_utf8", "fsl_utf8_3")


def pennon_refuses(case):
    """What Pennon refuses to write by rule, although official may accept it: kinds on which official's readers break more often
    than not."""
    return case.kind == "fsl_utf8_3" or (case.kind == "struct_empty" and case.version >= "2.1")


BLOBS_V2 = ("blobv2", "struct_blobv2")


def groups(cases):
    by_key = {}
    for case in cases:
        key = (case.version, case.rows, case.batches) + ((case.id,) if case.kind in ALONE else ())
        by_key.setdefault(key, []).append(case)
    out = []
    for key, found in sorted(by_key.items()):
        key, alone = key[:3], len(key) > 3
        # A huge column is the same bytes in any company, but wide groups would need much memory at once.
        room = MAX_COLUMNS if key[1] <= 5000 else 32
        for part in range(0, len(found), room):
            out.append(Group(*key, len(out) if alone else part // room, tuple(found[part:part + room])))
    return out


# ---- selection --------------------------------------------------------------------------------------------------

def rows_for(kind, rows):
    if rows != ROWS[-1]:
        return rows
    for count in (ROWS[-1],) + SMALLER:
        if count * kind.width <= COLUMN_BYTES:
            return count
    return SMALLER[-1]


def _options(kind):
    return [kind.nulls, kind.shapes, kind.lists, tuple(dict.fromkeys(kind.metas)), BATCHES]


def select(extra=40):
    """The cases of CI, always the same."""
    out, seen = [], set()
    for kind in KINDS.values():
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(kind.name.encode()).digest()[:8], "little"))
        options = _options(kind)
        missing = {(i, v) for i, values in enumerate(options) for v in values}
        missing |= {(i, a, j, b) for i, j in itertools.combinations(range(len(options)), 2)
                    for a in options[i] for b in options[j]}
        plan = [(version, rows) for version in kind.versions for rows in ROWS]
        more = [(version, rows) for rows in (1025, 1023, ROWS[-1]) for version in kind.versions][::-1]
        for step in range(len(plan) + extra):
            version, rows = plan[step] if step < len(plan) else more[step % len(more)]
            single = {m for m in missing if len(m) == 2}
            if step >= max(len(plan), LEAST_CASES) and not single:
                break

            def gain(pick):
                score = sum(3 for i, v in enumerate(pick) if (i, v) in missing)
                return score + sum(1 for (i, a), (j, b) in itertools.combinations(enumerate(pick), 2) if (i, a, j, b) in missing)

            picks = [tuple(values[int(rng.integers(0, len(values)))] for values in options) for _ in range(24)]
            best = max(picks, key=gain)
            if rows > 0:  # an empty column exercises no value parameter
                missing -= set(enumerate(best))
                missing -= {(i, a, j, b) for (i, a), (j, b) in itertools.combinations(enumerate(best), 2)}
            nulls, shape, lists, meta, batches = best
            case = Case(kind.name, nulls, shape, lists, meta, version, rows_for(kind, rows), batches)
            if case.id not in seen:
                seen.add(case.id)
                out.append(case)
    return out


def fingerprint(chosen):
    return hashlib.sha256("\n".join(c.id for c in chosen).encode()).hexdigest()[:16]


def full():
    """Every combination. Hours, and many gigabytes if kept."""
    for kind in KINDS.values():
        for version, rows in itertools.product(kind.versions, ROWS):
            for nulls, shape, lists, meta, batches in itertools.product(*_options(kind)):
                yield Case(kind.name, nulls, shape, lists, meta, version, rows_for(kind, rows), batches)


if __name__ == "__main__":
    chosen = select()
    print(len(KINDS), "kinds,", len(chosen), "cases,", len(groups(chosen)), "datasets,", sum(1 for _ in full()), "in the full product")
