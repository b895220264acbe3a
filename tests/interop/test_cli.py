# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The command under odd hands: exit codes, suggestions, places that cannot be written, closed pipes, control characters."""
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess

import pytest

import pennon

COLUMN = "na\x1b[31mme"


def call(*args, **options):
    """(exit code, stdout, stderr), never by a signal."""
    done = subprocess.run(pennon.command() + [str(a) for a in args], stdin=subprocess.DEVNULL, timeout=60,
                          **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options))
    assert done.returncode in range(6), (args, done.returncode, done.stderr)
    message = done.stderr.decode()
    assert "Sanitizer" not in message and "runtime error" not in message
    return done.returncode, (done.stdout or b"").decode(), message


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "a.csv").write_text("id,name\n" + "".join(f"{i},name {i}\n" for i in range(30000)))
    (folder / "odd.csv").write_text(f'id,{COLUMN},"tab\tx","c1\u009bm"\n1,a,b,c\n')
    for name in ("a", "odd"):
        code, _, message = call("write", folder / f"{name}.lance", folder / f"{name}.csv")
        assert code == 0, message
    return folder


def damaged(table, tmp_path, pattern, change):
    copy = tmp_path / "t.lance"
    shutil.copytree(table / "a.lance", copy)
    (path,) = copy.glob(pattern)
    data = bytearray(path.read_bytes())
    path.write_bytes(change(data))
    return copy


USAGE = [
    (), ("sacn", "T"), ("scan",), ("scan", "T", "more"), ("scan", ""), ("scan", "T", "--colums", "id"), ("scan", "T", "--limit"),
    ("scan", "T", "--limit", "-1"), ("scan", "T", "--limit", "99999999999999999999"), ("scan", "T", "--limit", "1e3"),
    ("scan", "T", "--batch-size", "0"), ("scan", "T", "--memory", "99999999999G"), ("scan", "T", "--threads", "0"),
    ("scan", "T", "--format", "xml"), ("scan", "T", "--columns", ","), ("scan", "T", "--columns", "id,id"),
    ("scan", "T", "--columns", "id."), ("scan", "T", "--columns", "`id"), ("scan", "T", "--version", "0"),
    ("scan", "T", "--tag", "x", "--branch", "y"), ("scan", "T", "--external-paths", "some"), ("scan", "T", "--blobs", "both"),
    ("scan", "T", "--as-of", "2026-13-01"), ("scan", "T", "--as-of", "99999999-01-01"),
    ("scan", "T", "--as-of", "2026-01-01T00:00:00+99999999:00"), ("take", "T"), ("take", "T", "--rows", "x"),
    ("take", "T", "--rows", "-1"), ("take", "T", "--rows", "1,,2"), ("take", "T", "--rows", "1,"), ("take", "T", "--rows", "+1"),
    ("take", "T", "--rows", "30000"), ("take", "T", "--rows", "@/nowhere"), ("take", "T", "--rows", "@/tmp"),
    ("scan", "D", "--file", "--version", "1"), ("scan", "D", "--file", "--with-row-id"), ("take", "D", "--file", "--rows", "1", "--tag", "x"),
    ("verify", "D", "--file", "--branch", "x"), ("help", "sacn"), ("inspect", "M"), ("take", "T", "--range", "5:2"),
    ("take", "T", "--rows", "1", "--range", "0:1"), ("write", "U"), ("write", "U", "A", "--mode", "owerwrite"),
    ("write", "U", "A", "--types", "id=intt"), ("write", "U", "A", "--types", "nope=int32"), ("write", "U", "A", "--delimiter", "ab"),
    ("write", "U", "A", "--data-storage-version", "3.0"), ("export", "T"), ("export", "T", "x.xyz"), ("versions", "T", "--version", "1"), ("versions", "T", "--tag", "x"),
    ("versions", "T", "--as-of", "2026-01-01"), ("scan", "T", "--json", "--format", "csv"), ("take", "T", "--rows", "1", "--json", "--format", "table"),
    ("scan", "D", "--file", "--json", "--format", "arrow"),
    ("cleanup",), ("cleanup", "T", "--older-than", "5"), ("cleanup", "T", "--older-than", "soon"), ("cleanup", "T", "--keep", "0"),
    ("cleanup", "T", "--keep", "many"), ("cleanup", "T", "--before-tag", ""), ("cleanup", "T", "--version", "1"), ("cleanup", "T", "--dry-run=yes"),
    ("tag", "T"), ("tag", "bogus", "T"), ("tag", "create", "T"), ("tag", "create", "T", "a b"), ("branch", "create", "T", "main"), ("clone", "T"),
    ("commit", "T"), ("commit", "T", "A"), ("restore", "T"), ("restore", "T", "--version", "x"), ("config", "set", "T", "novalue"),
    ("add-column", "T"), ("add-column", "T", "x"), ("add-column", "T", "x="), ("add-column", "T", "x=idd"), ("add-column", "T", "id=1"), ("add-column", "T", "--type", "int8"),
    ("add-column", "T", "x", "--type", "intt"), ("add-column", "T", "x=1", "--nulls", "y int8"), ("add-column", "T", "--nulls", "y"), ("add-column", "T", "--values", "A", "x=1"),
    ("add-column", "T", "--values", "A"), ("drop-column", "T"), ("drop-column", "T", "idd"), ("drop-column", "T", "id,name"), ("drop-column", "T", ","), ("alter-column", "T"),
    ("alter-column", "T", "id"), ("alter-column", "T", "idd", "--rename", "x"), ("alter-column", "T", "id", "--rename", "name"), ("alter-column", "T", "id", "--nullable", "no"),
    ("alter-column", "T", "id", "--type", "string"), ("alter-column", "T", "id", "--type", "int8"), ("join-columns", "T", "A"), ("join-columns", "T", "A", "--on", "idd"),
    ("join-columns", "T", "A", "--on", "id"), ("join-columns", "T", "--on", "id"),
    ("merge", "T"), ("merge", "T", "A"), ("merge", "T", "A", "--on", "nope"), ("merge", "T", "A", "--on", "id", "--when-matched", "updatee"), ("merge", "T", "A", "--on", "id", "--when-matched", "update-if"),
    ("merge", "T", "A", "--on", "id", "--when-not-matched", "x"), ("merge", "T", "A", "--on", "id", "--when-not-matched-by-source", "delete-if"), ("merge", "T", "A", "--on", "id", "--duplicates", "last"),
    ("delete", "T"), ("update", "T"), ("update", "T", "--set", "id"), ("update", "T", "--set", "=1"), ("update", "T", "--set", "idd=1"),
    ("update", "T", "--set", "id=1", "--set", "id=2"), ("update", "T", "--set", "id=1", "--where", "idd = 3"), ("delete", "T", "--where", "nope = 1"), ("delete", "T", "--where", ""), ("delete", "T", "--where", "id", "--max-retries", "x"),
]


@pytest.mark.parametrize("args", USAGE, ids=" ".join)
def test_usage_is_2(table, tmp_path, args):
    (data,) = (table / "a.lance").glob("data/*")
    places = {"T": table / "a.lance", "U": tmp_path / "u.lance", "A": table / "a.csv", "D": data,
              "M": next((table / "a.lance").glob("_versions/*.manifest"))}
    code, out, message = call(*(places.get(a, a) for a in args), cwd=tmp_path)
    assert code == 2 and not out and message, (code, message)
    assert not (tmp_path / "u.lance").exists()


@pytest.mark.parametrize("args", [("scan", "nope.lance"), ("scan", "T", "--version", "99"), ("scan", "T", "--tag", "nope"),
                                  ("scan", "T", "--branch", "nope"), ("cleanup", "T", "--branch", "nope"), ("cleanup", "T", "--before-tag", "nope"), ("cleanup", "nope.lance"), ("scan", "T", "--fragments", "7"), ("write", "U", "nope.csv"),
                                  ("commit", "T", "nope.json"), ("restore", "T", "--version", "99"), ("tag", "delete", "T", "nope"), ("branch", "delete", "T", "nope"),
                                  ("transaction", "T", "--version", "99"), ("clone", "T", "T"), ("config", "get", "T", "nope"), ("delete", "nope.lance", "--where", "true"), ("merge", "nope.lance", "A", "--on", "id"), ("add-column", "nope.lance", "x=1"), ("drop-column", "nope.lance", "id"), ("alter-column", "nope.lance", "id", "--rename", "x"), ("join-columns", "T", "nope.csv", "--on", "id"), ("update", "nope.lance", "--set", "id=1"),
                                  ("write", "T", "A"), ("inspect", "nope.lance")], ids=" ".join)
def test_missing_or_there_already_is_3(table, tmp_path, args):
    places = {"T": table / "a.lance", "U": tmp_path / "u.lance", "A": table / "a.csv"}
    code, out, message = call(*(places.get(a, a) for a in args), cwd=tmp_path)
    assert code == 3 and not out and message, (code, message)
    assert all(a in message for a in args if a.startswith("nope")), message
    assert not (tmp_path / "u.lance").exists()


@pytest.mark.parametrize("pattern,change", [
    ("data/*", lambda b: b[:-30] + b"xx" + b[-28:]), ("data/*", lambda b: b[:100]), ("data/*", lambda b: b""),
    ("_versions/*.manifest", lambda b: b[:20]), ("_versions/*.manifest", lambda b: b""), ("_versions/*.manifest", lambda b: b[:-1] + b"x"),
], ids=["footer", "cut data", "empty data", "cut manifest", "empty manifest", "magic"])
def test_corrupt_is_4(table, tmp_path, pattern, change):
    copy = damaged(table, tmp_path, pattern, change)
    code, _, message = call("scan", copy, "--format", "csv")
    assert code == 4 and message, (code, message)
    code, _, _ = call("verify", copy)
    assert code in (1, 4)


def test_a_text_that_is_not_utf8_is_4(table, tmp_path):
    (tmp_path / "s.csv").write_text("s\n" + "an ordinary text\n" * 3)
    assert call("write", tmp_path / "s.lance", tmp_path / "s.csv")[0] == 0
    (path,) = (tmp_path / "s.lance").glob("data/*")
    data = path.read_bytes()
    assert b"ordinary" in data
    path.write_bytes(data.replace(b"ordinary", b"ordi\xffary"))
    code, _, message = call("scan", tmp_path / "s.lance", "--format", "csv")
    assert code == 4 and "UTF-8" in message, (code, message)


def test_unknown_names_bring_suggestions(table):
    assert "did you mean 'name'?" in call("scan", table / "a.lance", "--columns", "nmae")[2]
    assert "did you mean 'scan'?" in call("sacn", table / "a.lance")[2]
    assert "did you mean --columns?" in call("scan", table / "a.lance", "--colums", "id")[2]


@pytest.mark.parametrize("args, part", [
    (("scan", "--where", "id = 1"), "did you mean --filter?"),
    (("scan", "--sort", "id"), "did you mean --order-by?"),
    (("take", "--rows", "0", "--filter", "id = 1"), "--filter is an option of other commands"),
    (("count", "id = 1"), "conditions are given with --filter"),
    (("count", "--filter", "name = Ann"), "no column named 'Ann'; texts stand in single quotes"),
    (("count", "--filter", "id > 5 LIMIT 3"), "LIMIT belongs to statements"),
    (("scan", "--include-deleted"), "--include-deleted needs --with-row-id"),
    (("scan", "--include-deleted", "--with-row-id", "--limit", "1"), "needs --filter"),
    (("scan", "--aggregate", "count(*) AS n"), "total=sum(a)"),
    (("scan", "--aggregate", "count(distinct id)"), "DISTINCT is not supported"),
    (("scan", "--aggregate", "sum(*)"), "sum needs a column"),
    (("scan", "--aggregate", "mean(id)"), "did you mean avg?"),
    (("scan", "--expr", " =id"), "the name is missing"),
])
def test_habits_of_sql_are_answered(table, args, part):
    code, _, message = call(args[0], table / "a.lance", *args[1:])
    assert code == 2 and part in message, message


def test_blanks_around_names_do_not_count(table):
    code, out, message = call("scan", table / "a.lance", "--columns", "name , id", "--expr", "two = id * 2", "--limit", "1", "--format", "csv")
    assert (code, out) == (0, "name,id,two\nname 0,0,0\n"), message
    code, out, message = call("scan", table / "a.lance", "--aggregate", "n = count", "--group-by", "id, name", "--format", "csv")
    assert code == 0 and out.startswith("id,name,n\n0,name 0,1\n"), message


def test_a_plan_ends_with_one_newline(table):
    code, out, message = call("scan", table / "a.lance", "--explain")
    assert code == 0 and out.startswith("LanceRead") and out.endswith("\n") and not out.endswith("\n\n"), (out, message)


def test_the_readme_can_be_followed(tmp_path):
    """Every `pennon` line of its blocks, in order, in one folder."""
    root = pathlib.Path(__file__).resolve().parents[2]
    (tmp_path / "examples").symlink_to(root / "examples")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", (root / "README.md").read_text(), re.S) for line in block.splitlines()
             if line.startswith("pennon ")]
    assert len(lines) > 15
    for line in lines:
        command = " ".join(shlex.quote(str(word)) for word in pennon.command()) + line.removeprefix("pennon")
        done = subprocess.run(command, shell=True, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        assert done.returncode == 0, (line, done.stderr.decode())


def test_an_append_of_other_types_names_the_way(table, tmp_path):
    (tmp_path / "b.csv").write_text("id,name\n1.5,b\n")
    code, _, message = call("write", table / "a.lance", tmp_path / "b.csv", "--mode", "append")
    assert code == 2 and "'id' is int64 in the table and double in the data" in message and "--types" in message, message


FORMS = {"csv": b"id,name\n0,name 0\n", "tsv": b"id\tname\n0\tname 0\n", "jsonl": b'{"id":', "ndjson": b'{"id":', "json": b'{"id":', "arrow": b"ARROW1",
         "feather": b"ARROW1", "arrows": b"\xff\xff\xff\xff", "ipc": b"\xff\xff\xff\xff", "txt": b"id  name"}


@pytest.mark.parametrize("ending", FORMS)
def test_export_knows_the_endings_that_it_names(table, tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    code, out, message = call("export", table / "a.lance", path, "--json")
    assert code == 0 and json.loads(out) == {"rows": 30000, "bytes": path.stat().st_size}, message
    assert path.read_bytes().lstrip(b" ").startswith(FORMS[ending])
    assert "." + ending in call("export", "--help")[1]
    named = call("export", table / "a.lance", tmp_path / "x.xyz")[2].partition("(")[2].partition(")")[0]
    assert "." + ending in named.split(", ")
    if ending == "tsv":  # it comes back as it was
        assert call("write", tmp_path / "again.lance", path)[0] == 0
        assert pennon.scan(tmp_path / "again.lance").equals(pennon.scan(table / "a.lance"))


def test_json_with_its_own_format_is_no_contradiction(table):
    assert call("scan", table / "a.lance", "--json", "--format", "jsonl", "--limit", "2") == call("scan", table / "a.lance", "--json", "--limit", "2")


@pytest.mark.parametrize("place", ["/nonexistent/x.csv", "/proc/x.csv", "."])
def test_output_that_cannot_be_written(table, tmp_path, place):
    code, out, message = call("scan", table / "a.lance", "-o", place, cwd=tmp_path)
    assert code in (1, 2, 3) and not out and message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("args", [("info",), ("schema",), ("versions",), ("count",), ("scan",), ("verify",), ("info", "--json"),
                                  ("scan", "--format", "csv"), ("scan", "--format", "arrow")], ids=" ".join)
def test_a_full_disk_is_told(table, args):
    with open("/dev/full", "wb") as full:
        code, _, message = call(args[0], table / "a.lance", *args[1:], stdout=full)
    assert code == 1 and "cannot write" in message, (code, message)


@pytest.mark.parametrize("args", [("--help",), ("--version",), ("scan", "--help"), ("help", "scan")], ids=" ".join)
def test_help_on_a_full_disk(args):
    with open("/dev/full", "wb") as full:
        code, _, message = call(*args, stdout=full)
    assert code == 1 and "cannot write" in message, (code, message)


def test_help_of_a_command():
    assert call("help", "scan") == call("scan", "--help")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_write_from_a_silent_pipe(tmp_path, number):
    # What the test run itself was told to ignore (by nohup, or as a background job) would stay ignored in the command.
    process = subprocess.Popen(pennon.command() + ["write", str(tmp_path / "t.lance"), "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    process.stdin.write(b"id\n" + b"1\n" * 3000000)
    process.stdin.flush()
    process.send_signal(number)
    assert process.wait(timeout=30) == 1
    assert b"cancelled" in process.stderr.read()
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    process.stdin.close()


def test_a_limit_of_file_sizes_leaves_nothing(table, tmp_path):
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))}
    code, _, message = call("export", table / "a.lance", tmp_path / "x.csv", **limit)
    assert code == 1 and "File too large" in message, (code, message)
    code, _, message = call("write", tmp_path / "t.lance", table / "a.csv", **limit)
    assert code == 1 and "File too large" in message, (code, message)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.parametrize("change", [lambda b: b[:100], lambda b: b"\xff" * 64 + b[64:]], ids=["cut", "page"])
def test_verify_tells_a_fault_once(table, tmp_path, change):
    copy = damaged(table, tmp_path, "data/*", change)
    code, out, _ = call("verify", copy, "--json")
    finding, summary = map(json.loads, out.splitlines())
    assert code == 1 and "finding" in finding and finding["file"].startswith("data/") and summary["findings"] == 1, out


@pytest.mark.parametrize("form", ["table", "csv", "jsonl", "arrow"])
def test_a_closed_pipe_is_quiet(table, form):
    read, write = os.pipe()
    process = subprocess.Popen(pennon.command() + ["scan", str(table / "a.lance"), "--format", form], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    os.read(read, 10)
    os.close(read)
    _, message = process.communicate(timeout=60)
    assert (process.returncode, message) == (0, b"")


def test_control_characters_do_not_reach_the_terminal(table):
    odd = table / "odd.lance"
    (data,) = odd.glob("data/*")
    calls = [("scan", odd), ("schema", odd), ("info", odd), ("schema", odd, "--json"), ("inspect", data),
             ("scan", odd, "--columns", "na\x1b[31mmf"), ("scan", odd, "--columns", "a\u009bb"), ("ev\x1bil",), ("scan", "ev\x1bil"),
             ("scan", odd, "--e\x1bvil"), ("scan", odd, "--limit", "\x1b"), ("verify", odd)]
    for args in calls:
        _, out, message = call(*args)
        for c in out + message:
            assert c == "\n" or (ord(c) >= 32 and ord(c) != 127 and not 128 <= ord(c) < 160) or c == "\t", (args, out, message)
    assert pennon.scan(odd).column_names == ["id", COLUMN, "tab\tx", "c1\u009bm"]


def refused(*args):
    with pytest.raises(pennon.Failed) as failed:
        pennon.run(*args)
    assert failed.value.code == 2 and not failed.value.crashed
    return failed.value.stderr


def test_a_filter_file_is_a_text(table, tmp_path):
    """What stands behind a NUL is not passed over in silence."""
    (tmp_path / "filter.sql").write_bytes(b"true\0 AND false")
    assert "cannot be read" in refused("count", table / "a.lance", "--filter", f"@{tmp_path / 'filter.sql'}")
    (tmp_path / "rows").write_bytes(b"0\0 1")
    assert "cannot be read" in refused("take", table / "a.lance", "--rows", f"@{tmp_path / 'rows'}")


@pytest.mark.parametrize("text", [" 0:1", "-0:1", "+0:1", "0: 1", "0:1 ", "0:", ":1", "1:0", "0:1:2", "0:18446744073709551616", "99999999999999999999:99999999999999999999"])
def test_a_range_is_two_numbers(table, text):
    assert "--range takes START:END" in refused("take", table / "a.lance", "--range", text)


@pytest.mark.parametrize("aggregates", ["count,count", "x=count,x=count", "x=count,x=count(*)"])
def test_aggregates_have_names_of_their_own(table, aggregates):
    assert "two columns" in refused("scan", table / "a.lance", "--aggregate", aggregates)


def test_columns(table, tmp_path):
    """Each subcommand, as text and as JSON."""
    copy = tmp_path / "t.lance"
    shutil.copytree(table / "a.lance", copy)
    code, out, _ = call("add-column", copy, "next=id + 1", "long=concat(name, '!')")
    assert code == 0 and out.startswith("2 fields added, 0 dropped; 30000 rows written to 1 file, ") and out.endswith("; version 2\n")
    code, out, _ = call("add-column", copy, "--nulls", "`a b` list<item: float>", "--nulls", "n int8", "--message", "why not")
    assert (code, out) == (0, "3 fields added, 0 dropped; no data written; version 3\n")
    code, out, _ = call("add-column", copy, "--type", "timestamp[us, tz=UTC]", "when", "--json")
    assert json.loads(out) == {"fields_added": 1, "fields_dropped": 0, "rows_written": 0, "files_written": 0, "bytes_written": 0, "version": 4}
    code, out, _ = call("alter-column", copy, "next", "--type", "int32", "--rename", "after", "--nullable", "false")
    assert code == 0 and out.startswith("1 field added, 1 dropped; 30000 rows written to 1 file")
    (tmp_path / "more.jsonl").write_text('{"key": 7, "word": "seven"}\n{"key": 8, "word": "eight"}\n')
    code, out, _ = call("join-columns", copy, tmp_path / "more.jsonl", "--on", "id", "--right-on", "key")
    assert code == 0 and out.startswith("1 field added")
    (tmp_path / "rows.csv").write_text("row\n" + "".join(f"{i}\n" for i in range(30000)))
    assert call("add-column", copy, "--values", tmp_path / "rows.csv")[0] == 0
    code, out, _ = call("drop-column", copy, "long,`a b`", "n")
    assert (code, out) == (0, "0 fields added, 4 dropped; no data written; version 8\n")
    assert pennon.scan(copy, filter="id = 7").to_pylist() == [{"id": 7, "name": "name 7", "after": 8, "when": None, "word": "seven", "row": 7}]
    assert call("verify", copy)[0] == 0
