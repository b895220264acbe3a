# Licensed under the Apache License, Version 2.0; see LICENSE.
"""CSV, JSON lines and IPC of the library against pyarrow, in both directions, over the C stream interface."""
import ctypes
import datetime
import decimal
import json
import math
import os
import random

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json
import pytest

LIB = ctypes.CDLL(os.environ["PENNON_LIB"])


class Source(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("path", ctypes.c_char_p), ("read", ctypes.c_void_p), ("close", ctypes.c_void_p), ("ctx", ctypes.c_void_p)]


class Sink(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("path", ctypes.c_char_p), ("write", ctypes.c_void_p), ("ctx", ctypes.c_void_p)]


class Error(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("code", ctypes.c_int32), ("kind", ctypes.c_char_p), ("message", ctypes.c_char_p), ("uri", ctypes.c_char_p),
        ("version", ctypes.c_uint64), ("file", ctypes.c_char_p), ("column", ctypes.c_int64), ("page", ctypes.c_int64), ("offset", ctypes.c_int64),
        ("os_errno", ctypes.c_int32)]


class Stream(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


class CsvOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("call", ctypes.c_void_p), ("delimiter", ctypes.c_char), ("quote", ctypes.c_char), ("header", ctypes.c_bool),
        ("infer", ctypes.c_bool), ("skip_lines", ctypes.c_uint64), ("types", ctypes.c_char_p), ("nulls", ctypes.c_void_p), ("n_nulls", ctypes.c_size_t),
        ("infer_rows", ctypes.c_uint64), ("batch_rows", ctypes.c_uint64), ("max_row_bytes", ctypes.c_uint64)]


class JsonOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("call", ctypes.c_void_p), ("types", ctypes.c_char_p), ("ignore_unknown", ctypes.c_bool),
        ("infer_rows", ctypes.c_uint64), ("batch_rows", ctypes.c_uint64), ("max_row_bytes", ctypes.c_uint64)]


class IpcWriteOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("call", ctypes.c_void_p), ("file", ctypes.c_bool), ("compression", ctypes.c_int32), ("level", ctypes.c_int32)]


def check(status, error):
    if status != 0:
        message = (error.message or b"").decode(errors="replace")
        LIB.pennon_error_clear(ctypes.byref(error))
        raise OSError(f"status {status}: {message}")


def new_error():
    error = Error()
    LIB.pennon_error_init(ctypes.byref(error))
    return error


def read(function, path, options=None):
    """The table that the library reads from a file."""
    error, stream = new_error(), Stream()
    source = Source(ctypes.sizeof(Source), os.fsencode(path), None, None, None)
    pointer = ctypes.byref(options) if options is not None else None
    check(getattr(LIB, function)(ctypes.byref(source), pointer, ctypes.byref(stream), ctypes.byref(error)), error)
    with pa.RecordBatchReader._import_from_c(ctypes.addressof(stream)) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


def write(function, table, path, options=None):
    error, stream = new_error(), Stream()
    sink = Sink(ctypes.sizeof(Sink), os.fsencode(path), None, None)
    table.to_reader()._export_to_c(ctypes.addressof(stream))
    pointer = ctypes.byref(options) if options is not None else None
    check(getattr(LIB, function)(ctypes.byref(stream), ctypes.byref(sink), pointer, ctypes.byref(error)), error)
    assert stream.release is None


def options(cls, init, **values):
    made = cls()
    getattr(LIB, init)(ctypes.byref(made))
    assert made.struct_size == ctypes.sizeof(cls)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def types_of(schema):
    return ",".join(f"`{f.name}`={f.type}" for f in schema).encode()


def plain_table(rows=1000, seed=1):
    """Columns of every type that CSV can hold."""
    rng = random.Random(seed)

    def column(make):
        return [None if rng.random() < 0.1 else make() for _ in range(rows)]

    when = lambda: datetime.datetime(1900 + rng.randrange(200), 1 + rng.randrange(12), 1 + rng.randrange(28), rng.randrange(24), rng.randrange(60),
                                     rng.randrange(60), rng.randrange(1000000))
    text = lambda: "".join(rng.choice('ab,"\n\r é漢 ;') for _ in range(rng.randrange(8)))
    return pa.table({
        "i8": pa.array(column(lambda: rng.randrange(-128, 128)), pa.int8()),
        "u64": pa.array(column(lambda: rng.randrange(1 << 64)), pa.uint64()),
        "i64": pa.array(column(lambda: rng.randrange(-(1 << 63), 1 << 63)), pa.int64()),
        "f64": pa.array(column(lambda: rng.choice([rng.gauss(0, 1), rng.gauss(0, 1e300), float(rng.randrange(100)), rng.randrange(1000) / 100])), pa.float64()),
        "f32": pa.array(column(lambda: rng.gauss(0, 1)), pa.float32()),
        "b": pa.array(column(lambda: rng.random() < 0.5), pa.bool_()),
        "s": pa.array(column(text), pa.string()),
        "S": pa.array(column(text), pa.large_string()),
        "v": pa.array(column(text), pa.string_view()),
        "bin": pa.array(column(lambda: rng.randbytes(rng.randrange(6))), pa.binary()),
        "fix": pa.array(column(lambda: rng.randbytes(4)), pa.binary(4)),
        "d32": pa.array(column(lambda: when().date()), pa.date32()),
        "d64": pa.array(column(lambda: when().date()), pa.date64()),
        "t32": pa.array(column(lambda: when().time().replace(microsecond=0)), pa.time32("s")),
        "t64": pa.array(column(lambda: when().time()), pa.time64("us")),
        "us": pa.array(column(when), pa.timestamp("us")),
        "utc": pa.array(column(when), pa.timestamp("us", "UTC")),
        "ms": pa.array(column(lambda: when().replace(microsecond=0)), pa.timestamp("ms")),
        "dec": pa.array(column(lambda: decimal.Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-3)), pa.decimal128(12, 3)),
        "big": pa.array(column(lambda: decimal.Decimal(rng.randrange(10**50))), pa.decimal256(55, 0)),
        "dur": pa.array(column(lambda: datetime.timedelta(microseconds=rng.randrange(10**12))), pa.duration("us")),
    })


def nested_table():
    return pa.table({
        "list": pa.array([[1, None], [], None, [3]], pa.list_(pa.int32())),
        "fsl": pa.array([[1.5, 2], None, [0, -1], [3, 4]], pa.list_(pa.float32(), 2)),
        "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "\u2028"}, {"x": 4, "y": None}], pa.struct([("x", pa.int8()), ("y", pa.string())])),
        "map": pa.array([[("k", 1)], [], None, [("a", None), ("b", 2)]], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array([[[{"a": [1]}], []], None, [], [[None]]], pa.list_(pa.list_(pa.struct([("a", pa.list_(pa.int64()))])))),
    })


def test_csv_round_trip(tmp_path):
    table = plain_table()
    write("pennon_csv_write", table, tmp_path / "t.csv")
    back = read("pennon_csv_open", tmp_path / "t.csv", options(CsvOptions, "pennon_csv_options_init", types=types_of(table.schema), batch_rows=77))
    assert back.schema.equals(table.schema)
    assert back.equals(table)


def test_csv_that_pyarrow_reads(tmp_path):
    table = plain_table().select(["i8", "i64", "b", "s", "d32", "us"])
    write("pennon_csv_write", table, tmp_path / "t.csv")
    convert = pa.csv.ConvertOptions(column_types=table.schema, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""])
    back = pa.csv.read_csv(tmp_path / "t.csv", parse_options=pa.csv.ParseOptions(newlines_in_values=True), convert_options=convert)
    assert back.equals(table)


def test_csv_that_pyarrow_wrote(tmp_path):
    table = plain_table().select(["i64", "f64", "b", "s", "d32", "us"])
    pa.csv.write_csv(table, tmp_path / "t.csv")
    back = read("pennon_csv_open", tmp_path / "t.csv")
    assert back.schema.equals(table.schema)
    assert back.equals(table)


def test_json_lines_round_trip(tmp_path):
    for table in (plain_table(), nested_table()):
        write("pennon_json_lines_write", table, tmp_path / "t.jsonl")
        back = read("pennon_json_lines_open", tmp_path / "t.jsonl",
                    options(JsonOptions, "pennon_json_lines_options_init", types=types_of(table.schema), batch_rows=100))
        assert back.schema.equals(table.schema)
        assert back.equals(table)


def test_json_lines_are_json(tmp_path):
    table = nested_table()
    write("pennon_json_lines_write", table, tmp_path / "t.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().split("\n")[:-1]]
    want = table.to_pylist()
    for row in want:
        row["map"] = None if row["map"] is None else dict(row["map"])
    assert rows == want


def test_json_lines_inferred_like_pyarrow(tmp_path):
    rng = random.Random(7)
    rows = [{"a": rng.randrange(100), "b": {"c": [rng.random() for _ in range(3)], "d": rng.choice(["x", None])}, "e": [[True], []]} for _ in range(500)]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    mine, theirs = read("pennon_json_lines_open", tmp_path / "t.jsonl"), pa.json.read_json(tmp_path / "t.jsonl")
    assert mine.schema.equals(theirs.schema)
    assert mine.equals(theirs)


@pytest.mark.parametrize("file", [False, True])
@pytest.mark.parametrize("compression", [0, 1])
def test_ipc_that_pyarrow_reads(tmp_path, file, compression):
    dictionary = pa.array(["a", None, "b", "a"]).dictionary_encode()
    for table in (plain_table(), nested_table(), pa.table({"d": dictionary}, metadata={"k": "v"}).slice(1)):
        write("pennon_ipc_write", table, tmp_path / "t.arrow",
              options(IpcWriteOptions, "pennon_ipc_write_options_init", file=file, compression=compression))
        opened = pa.ipc.open_file(tmp_path / "t.arrow") if file else pa.ipc.open_stream(tmp_path / "t.arrow")
        back = opened.read_all()
        back.validate(full=True)
        assert back.schema.equals(table.schema, check_metadata=True)
        assert back.equals(table)


@pytest.mark.parametrize("file", [False, True])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5])
def test_ipc_that_pyarrow_wrote(tmp_path, file, compression, version):
    union = pa.UnionArray.from_dense(pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32()), [pa.array([1, None]), pa.array(["q", "r"])])
    tables = (plain_table(), nested_table(), pa.table({"u": union, "r": pa.RunEndEncodedArray.from_arrays([1, 4], ["x", None])}))
    for table in tables:
        make = pa.ipc.new_file if file else pa.ipc.new_stream
        with make(tmp_path / "t.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression=compression, metadata_version=version)) as writer:
            writer.write_table(table, max_chunksize=300)
        back = read("pennon_ipc_open", tmp_path / "t.arrow")
        assert back.schema.equals(table.schema, check_metadata=True)
        assert back.equals(table)


def test_ipc_dictionary_deltas_and_replacements(tmp_path):
    schema = pa.schema([("d", pa.dictionary(pa.int8(), pa.string())), ("l", pa.list_(pa.dictionary(pa.int32(), pa.int64())))])

    def batch(words, numbers):
        words = pa.DictionaryArray.from_arrays(pa.array([0, None, len(words) - 1], pa.int8()), words)
        numbers = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(numbers, pa.int64()))
        return pa.record_batch([words, pa.ListArray.from_arrays(pa.array([0, 1, 1, 2], pa.int32()), numbers)], schema=schema)

    batches = [batch(["a", "b"], [1, 2]), batch(["a", "b", "c"], [1, 2, 3]), batch(["z"], [9, 8])]
    with pa.ipc.new_stream(tmp_path / "t.arrows", schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        for b in batches:
            writer.write_batch(b)
        assert writer.stats.num_dictionary_deltas > 0 and writer.stats.num_replaced_dictionaries > 0
    back = read("pennon_ipc_open", tmp_path / "t.arrows")
    assert back.to_pylist() == pa.Table.from_batches(batches).to_pylist()
    # And again, written by the library: replacements in a stream.
    write("pennon_ipc_write", back, tmp_path / "again.arrows")
    assert pa.ipc.open_stream(tmp_path / "again.arrows").read_all().to_pylist() == back.to_pylist()


def test_doubles_are_shortest(tmp_path):
    rng = random.Random(3)
    values = [0.1, 1 / 3, 1e22, 1e-7, 5e-324, 1.7976931348623157e308, 123456789012345680.0, 0.30000000000000004, 100.0, -0.0]
    values += [float.fromhex(f"0x1.{rng.getrandbits(52):013x}p{rng.randrange(-1022, 1023)}") for _ in range(2000)]
    write("pennon_csv_write", pa.table({"x": values}), tmp_path / "t.csv")
    lines = (tmp_path / "t.csv").read_text().splitlines()[1:]
    for line, value in zip(lines, values, strict=True):
        assert float(line) == value and math.copysign(1, float(line)) == math.copysign(1, value)
        digits = lambda text: len(text.lower().split("e")[0].replace("-", "").replace(".", "").strip("0"))
        assert digits(line) <= digits(repr(value)), line


def test_errors_cross_the_interface(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n" + "2\n" * 20000 + "x\n")
    with pytest.raises(Exception, match="line 20003: column 1 .'a'.: 'x' is no value of type int64"):
        read("pennon_csv_open", tmp_path / "t.csv")
