#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The wheels in build/wheel, as a user gets them: what is in them, what they need of the system, and that they work in an environment with nothing
else. Ends with "N passed, N failed". Usage: wheels.py (after tools/wheel.sh)"""
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WHEELS = os.path.join(ROOT, "build", "wheel")
VENVPY = os.path.join(ROOT, "build", "venvpy", "bin", "python")
VENV8 = os.path.join(ROOT, "build", "venv8", "bin", "python")
MAX_BYTES = 4 << 20
# What manylinux_2_x may take from the system.
SYSTEM = re.compile(r"^(lib(c|m|dl|rt|pthread)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+)$")

counts = {True: 0, False: 0}


def check(name, good, told=""):
    counts[bool(good)] += 1
    print("ok  " if good else "FAIL", name, "" if good else "\n     " + str(told)[-3000:].replace("\n", "\n     "), flush=True)
    return bool(good)


def output(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    return done.stdout if done.returncode == 0 else "exit code %d\n%s" % (done.returncode, done.stdout)


def works(name, wanted, *command, **options):
    """The program says exactly this."""
    got = output(*command, **options).strip()
    return check(name, got == wanted, "wanted %r, got:\n%s" % (wanted, got))


def one(pattern):
    found = glob.glob(os.path.join(WHEELS, pattern))
    if not check("one wheel " + pattern, len(found) == 1, found):
        finish()
    return found[0]


def finish():
    print("%d passed, %d failed" % (counts[True], counts[False]))
    sys.exit(counts[False] != 0 or counts[True] == 0)


def check_objects(folder, wheel):
    objects = glob.glob(os.path.join(folder, "**", "*.so*"), recursive=True)
    names = {os.path.basename(path) for path in objects}
    extension = [path for path in objects if path.endswith("_pennon.abi3.so")]
    check("one extension", len(extension) == 1, names)
    exported = {line.split()[-1] for line in output("nm", "-D", "--defined-only", *extension).splitlines() if line.split()[1:2] != ["A"]}
    check("it exports its entry alone", exported == {"PyInit__pennon"}, exported)
    tag = re.search(r"manylinux_2_(\d+)", wheel)
    for path in objects:
        shown = output("objdump", "-p", path)
        needed = set(re.findall(r"NEEDED\s+(\S+)", shown))
        check("needs nothing from outside: " + os.path.basename(path), all(name in names or SYSTEM.match(name) for name in needed), needed)
        minors = {int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", output("objdump", "-T", path))}
        check("its tag is true: " + os.path.basename(path), tag and minors and max(minors) <= int(tag.group(1)), (wheel, sorted(minors)))
    strings = b"".join(open(path, "rb").read() for path in objects)
    check("no path of the build", ROOT.encode() not in strings)


def check_content(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        folder = os.path.join(WHEELS, "unpacked")
        shutil.rmtree(folder, ignore_errors=True)
        archive.extractall(folder)
    check("at most %d bytes" % MAX_BYTES, os.path.getsize(wheel) <= MAX_BYTES, os.path.getsize(wheel))
    for wanted in ("pennon/__init__.py", "pennon/py.typed", "pennon/_pennon.pyi", "pennon/_pennon.abi3.so"):
        check("has " + wanted, wanted in names, names)
    source = os.path.join(ROOT, "bindings", "python", "pennon")
    modules = {os.path.relpath(path, os.path.dirname(source)) for path in glob.glob(os.path.join(source, "**", "*.py"), recursive=True)}
    check("has every module", modules == {name for name in names if name.startswith("pennon/") and name.endswith(".py")}, modules ^ set(names))
    licences = {os.path.basename(name) for name in names if "/licenses/" in name}
    check("has its licence", "LICENSE" in licences, names)
    if os.path.exists("/usr/share/doc/libzstd-dev/copyright"):
        check("has the licences of what is inside", {"libzstd-dev.txt", "libpcre2-dev.txt", "libroaring-dev.txt"} <= licences, licences)
    check("abi3 of 3.11", "-cp311-abi3-" in wheel, wheel)
    if sys.platform == "linux":
        check_objects(folder, wheel)


# A reader of Arrow streams that needs nothing but Python: rows of the batches behind a capsule.
READER = r"""
import ctypes, sys
for name in ("pyarrow", "numpy", "pandas", "polars", "duckdb"):
    try:
        __import__(name)
    except ImportError:
        continue
    sys.exit(name + " is there")
import pennon

class Array(ctypes.Structure):
    _fields_ = [("length", ctypes.c_int64), ("rest", ctypes.c_int64 * 4), ("pointers", ctypes.c_void_p * 3), ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
                ("private", ctypes.c_void_p)]

class Stream(ctypes.Structure):
    _fields_ = [("schema", ctypes.c_void_p), ("next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Array))), ("error", ctypes.c_void_p),
                ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("private", ctypes.c_void_p)]

pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

def rows_of(data):
    capsule = data.__arrow_c_stream__()
    address = pointer_of(capsule, b"arrow_array_stream")
    stream, rows = Stream.from_address(address), 0
    while True:
        array = Array()
        if stream.next(address, ctypes.byref(array)) != 0:
            sys.exit("next failed")
        if not array.release:
            return rows
        rows += array.length
        array.release(ctypes.addressof(array))

ds = pennon.dataset(sys.argv[1])
again = pennon.write_dataset(ds.scanner(columns=["id"]), sys.argv[1] + "-again")
print(rows_of(ds), rows_of(ds.scanner(filter="id < 10")), ds.count_rows("id >= 90"), rows_of(again), again.count_rows())
try:
    ds.to_table()
except ImportError as error:
    print(error)
"""


def check_clean(pennon, lance):
    venv = os.path.join(WHEELS, "clean")
    python = os.path.join(venv, "bin", "python")
    shutil.rmtree(venv, ignore_errors=True)
    table = os.path.join(WHEELS, "clean.lance")
    for path in (table, table + "-again"):
        shutil.rmtree(path, ignore_errors=True)
    check("an environment", os.path.exists(VENVPY) and not subprocess.call([VENVPY, "-m", "venv", venv]))
    told = output(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", pennon)
    check("installs with nothing else", told == "", told)
    works("writes from Arrow of another library", "100", VENVPY, "-c", "import sys; sys.path.insert(0, sys.argv[2])\nimport pennon, pyarrow as pa\n"
          "print(pennon.write_dataset(pa.table({'id': range(100), 'x': ['y'] * 100}), sys.argv[1]).count_rows())", table,
          glob.glob(os.path.join(venv, "lib", "*", "site-packages"))[0])
    works("reads and writes without pyarrow", "100 10 10 100 100\nto_table needs pyarrow: pip install 'pennon[arrow]'", python, "-c", READER, table)
    check_shim(venv, python, lance)
    for name in ("python3.12", "python3.13", "python3.14"):
        other = shutil.which(name)
        # A name without an interpreter behind it happens: pyenv's.
        if other and subprocess.run([other, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            site = glob.glob(os.path.join(venv, "lib", "*", "site-packages"))[0]
            works("the same binary in " + name, "100", other, "-c", "import sys; sys.path.insert(0, sys.argv[1])\nimport pennon\n"
                  "print(pennon.dataset(sys.argv[2]).count_rows())", site, table)


SHIM = """
import lance, lance.fragment, pennon.fragment, pickle, sys
from lance.file import LanceFileReader
from lance.dataset import write_dataset
import importlib
assert lance.fragment is pennon.fragment and pennon.fragment.__spec__.name == "pennon.fragment"
assert lance.LanceDataset is pennon.LanceDataset is pickle.loads(pickle.dumps(lance.LanceDataset))
assert lance.dataset is pennon.dataset and callable(lance.dataset) and lance.__version__ == pennon.__version__
assert set(pennon.__all__) <= set(dir(lance))
try:
    import lance.nothing
except ModuleNotFoundError as error:
    assert error.name == "lance.nothing"
try:
    lance.nothing
except AttributeError as error:
    print(error)
"""


def check_shim(venv, python, lance):
    told = output(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", lance)
    check("pennon-lance installs", told == "", told)
    works("import lance is pennon", "module 'lance' has no attribute 'nothing'", python, "-c", SHIM)
    site = glob.glob(os.path.join(venv, "lib", "*", "site-packages"))[0]
    beside = output(VENV8, "-c", "import lance", env=dict(os.environ, PYTHONPATH=site))
    check("import lance beside pylance says so", beside.startswith("exit code 1") and "ImportError: pylance and pennon-lance are both installed" in beside, beside)
    works("import pennon works beside pylance", "100", VENV8, "-c", "import pennon, sys; print(pennon.dataset(sys.argv[1]).count_rows())",
          os.path.join(WHEELS, "clean.lance"), env=dict(os.environ, PYTHONPATH=site))


def check_from_source():
    """As the README says it, with what pip brings itself."""
    venv = os.path.join(WHEELS, "source")
    python = os.path.join(venv, "bin", "python")
    shutil.rmtree(venv, ignore_errors=True)
    check("an environment", not subprocess.call([VENVPY, "-m", "venv", venv]))
    told = output(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "./bindings/python", "./bindings/pennon-lance", cwd=ROOT)
    check("pip install of the folders", told == "", told)
    works("works", "True 10", python, "-c", "import lance, sys; print(lance.__version__ > '', lance.dataset(sys.argv[1]).count_rows('id < 10'))",
          os.path.join(WHEELS, "clean.lance"))
    left = output("git", "status", "--porcelain", "--ignored", "bindings", cwd=ROOT)
    check("nothing is left in the folders", not any("build" in line or "dist" in line or "egg" in line for line in left.splitlines()), left)


def main():
    pennon, lance = one("pennon-*.whl"), one("pennon_lance-*.whl")
    check_content(pennon)
    check("pennon-lance is for every Python and machine", lance.endswith("-py3-none-any.whl"), lance)
    check_clean(pennon, lance)
    check_from_source()
    finish()


if __name__ == "__main__":
    main()
