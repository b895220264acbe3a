# Licensed under the Apache License, Version 2.0; see LICENSE.
"""How the package behaves in a process: imports, signals, forks, threads, references, logs."""
import gc
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pennon
import pyarrow as pa
import pytest

OWN_MODULES, OTHER_MODULES = 16, 60
CANCEL_MS = 1000  # what is wanted is 100; this is what fails where a call runs to its end


def run(text, *arguments):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)], capture_output=True, text=True, check=False)


def test_import_is_small_and_alone():
    """What an import costs is the modules that it loads: a number that is the same on every machine."""
    text = """
        import sys
        before = set(sys.modules)
        import pennon
        print(*sorted(set(sys.modules) - before))
        """
    # Without what a site of this environment has loaded already.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n" + textwrap.dedent(text)],
                          capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"pyarrow", "numpy", "pandas", "polars", "duckdb", "asyncio", "logging", "multiprocessing"} & loaded == set()
    own = {name for name in loaded if name.split(".")[0] == "pennon"}
    assert len(own) <= OWN_MODULES and len(loaded - own) <= OTHER_MODULES, sorted(loaded)


def test_without_pyarrow(ds):
    done = run(
        """
        import sys
        for name in ("pyarrow", "numpy", "pandas"):
            sys.modules[name] = None
        import pennon
        ds = pennon.dataset(sys.argv[1])
        assert ds.count_rows("id < 10") == 10
        assert sum(batch.num_rows for batch in ds.scanner(filter="id < 10")._stream()) == 10
        assert pennon.write_dataset(ds.scanner(columns=["id"]), sys.argv[1] + "2").count_rows() == 1000
        print(repr(ds))
        try:
            ds.to_table()
        except ImportError as error:
            print(error)
        """,
        ds.uri,
    )
    assert done.stderr == ""
    assert "rows=1000" in done.stdout and "needs pyarrow" in done.stdout


# ---- Ctrl-C ----


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    table = pa.table({"x": np.random.default_rng(1).random(20_000_000)})
    return pennon.write_dataset(table, tmp_path_factory.mktemp("big") / "t")


def interrupted(call):
    """Milliseconds from SIGINT to KeyboardInterrupt."""
    sent = []

    def send():
        time.sleep(0.2)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    end = time.monotonic() + 60
    with pytest.raises(KeyboardInterrupt):
        while time.monotonic() < end:
            call()
    took = (time.perf_counter() - sent[0]) * 1000
    thread.join()
    return took


SLOW = "sin(x) > 0.5 and cos(x) * tan(x) > 0.1 or exp(x) > 2 and ln(x + 1) > 0.2"


@pytest.mark.parametrize(
    "call",
    [
        lambda ds: ds.to_table(filter=SLOW),
        lambda ds: list(ds.scanner(filter=SLOW)._stream()),
        lambda ds: ds.count_rows(SLOW),
        lambda ds: ds.to_table(order_by=["x"], filter="x < 0.3"),
        lambda ds: pennon.write_dataset(ds, ds.uri + "-copy", mode="overwrite"),
        lambda ds: ds.validate(),
    ],
    ids=["to_table", "batches", "count", "order", "write", "validate"],
)
def test_interrupt(big, call):
    # The best of three: the machine of the tests is shared.
    assert min(interrupted(lambda: call(big)) for _ in range(3)) < CANCEL_MS
    # Python's own handler is back in its place.
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    assert big.count_rows() == 20_000_000


def test_a_handler_of_the_program_does_not_cancel(big):
    seen = []
    former = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        assert big.count_rows(SLOW) > 0
        timer.join()
    finally:
        signal.signal(signal.SIGINT, former)
    assert seen == [signal.SIGINT]


def test_other_threads_run_meanwhile(big):
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    big.count_rows(SLOW)
    stop.set()
    thread.join()
    assert len(ticks) > 10


def test_many_threads(ds, table):
    failed = []

    def work():
        try:
            for _ in range(20):
                assert ds.to_table(filter="id < 500").num_rows == 500
                assert ds.take([1, 2]).num_rows == 2
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# ---- processes ----


def rows_of(ds):
    return ds.to_table(filter="id < 500").num_rows


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes(ds, method):
    # The pool of this process is running when the children are made.
    assert rows_of(ds) == 500
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(rows_of, [ds] * 4) == [500] * 4
    assert rows_of(ds) == 500


def test_fork_with_an_open_handle(ds, table):
    assert rows_of(ds) == 500
    child = os.fork()
    if child == 0:
        os._exit(0 if rows_of(ds) == 500 and pennon.write_dataset(ds, ds.uri + "-child").count_rows() == 1000 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert pennon.dataset(ds.uri + "-child").to_table().equals(table)


def test_pickle_keeps_the_version(ds, table):
    sent = pickle.dumps(ds)
    ds.insert(table)
    assert pickle.loads(sent).version == 1


# ---- memory ----


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


CALLS = {
    "open": lambda ds: pennon.dataset(ds.uri),
    "scan": lambda ds: ds.to_table(filter="id < 500"),
    "abandoned": lambda ds: next(iter(ds.scanner(batch_size=10).to_batches())),
    "unused": lambda ds: ds.scanner()._stream(),
    "batches": lambda ds: list(ds.scanner(batch_size=100)._stream()),
    "capsule": lambda ds: ds.__arrow_c_stream__(),
    "schema": lambda ds: (ds.schema, ds.__arrow_c_schema__()),
    "take": lambda ds: ds.take([5, 1, 999]),
    "count": lambda ds: (ds.count_rows(), ds.count_rows("id < 10")),
    "explain": lambda ds: ds.scanner(filter="id < 10").explain_plan(),
    "listings": lambda ds: (ds.versions(), ds.tags.list(), ds.get_fragments()),
    "error": lambda ds: pytest.raises(ValueError, ds.to_table, filter="nonsense >"),
    "stats": lambda ds: ds.scanner(scan_stats_callback=lambda told: None).to_table(),
    "transaction": lambda ds: ds.read_transaction(1),
    "verify": lambda ds: ds.validate(),
}


@pytest.mark.measured
@pytest.mark.parametrize("name", CALLS)
def test_leaks(ds, name):
    call = CALLS[name]
    for _ in range(50):
        call(ds)
    gc.collect()
    blocks, memory = sys.getallocatedblocks(), resident()
    for _ in range(300):
        call(ds)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 200
    assert resident() - memory < 6 << 20


def test_references(ds):
    names = ["id", "name"]
    ids = [3, 1]

    class Callback:
        def __call__(self, told):
            pass

    callback = Callback()
    gone = weakref.ref(callback)
    counts = [sys.getrefcount(each) for each in (names, ids, callback)]
    for _ in range(100):
        ds.scanner(columns=names, scan_stats_callback=callback).to_table()
        ds.take(ids, columns=names)
    gc.collect()
    assert [sys.getrefcount(each) for each in (names, ids, callback)] == counts
    del callback
    gc.collect()
    assert gone() is None


def test_streams_outlive_the_dataset(table, tmp_path):
    ds = pennon.write_dataset(table, tmp_path / "t")
    reader = ds.scanner().to_reader()
    del ds
    gc.collect()
    assert reader.read_all().equals(table)


# ---- log ----


def test_log_records_reach_logging(table, tmp_path, caplog):
    ds = pennon.write_dataset(table, tmp_path / "t")
    ds.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "nonsense"})
    with caplog.at_level(logging.DEBUG, logger="pennon"):
        ds.insert(table)
    assert any("nonsense" in record.getMessage() for record in caplog.records if record.name == "pennon")
