#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Runs the stages of `make test` and its smaller brothers, one progress line a stage, and ends with one line that sums
what every stage counted: "N passed, N failed". Exit code 0 only when nothing failed.

How a stage is counted:
  build    0 when it succeeds, 1 failed when it does not
  ctest    the cases that cmocka prints; a program without cmocka (a corpus replay, an example) is one case; a program that
           dies before it reports a failure is one failed case; a stage in which nothing ran is one failed case
  pytest   the cases of its junit file; skipped cases count as failed, for nothing here may be skipped
  closing  the "N passed, N failed" line that the tool ends with
A stage that exits non-zero has at least one failed case. A skipped stage does not exist.

Usage: run-tests.py all|check|lint|asan|ubsan|tsan|memcheck|STAGE...
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build", "logs")
JOBS = os.environ.get("JOBS") or str(os.cpu_count() or 2)
TAIL_LINES = 60


def path(*parts):
    return os.path.join(ROOT, *parts)


def environment(preset="release", **more):
    """What the Python tests know about the build they test."""
    env = dict(os.environ)
    env.update(
        PENNON=path("build", preset, "pennon"),
        PENNON_LIB=path("build", preset, "libpennon.so.0"),
        PENNON_BUILD=path("build", preset),
        PENNON_SOURCE=ROOT,
        PYTHONDONTWRITEBYTECODE="1",
    )
    env.update(more)
    return env


# ---- counting ----

CTEST_LINE = re.compile(r"^\s*\d+/\d+ Test\s+#(\d+): (\S+) [. ]*(\*\*\*)?(\S.*?)\s+[\d.]+ sec")
CMOCKA_OK = re.compile(r"\[       OK \] ")
CMOCKA_FAILED = re.compile(r"\[  FAILED  \] [^:]*: (\d+) test\(s\), listed below")
CMOCKA_SKIPPED = re.compile(r"\[  SKIPPED \] [^:]*: (\d+) test\(s\)")
REPLAYED = re.compile(r"^\d+: (\d+) inputs$")
CLOSING = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed$")


def count_build(stage, code, text):
    return 0, 0, ""


def count_ctest(stage, code, text):
    ok, bad, died, finished, inputs = {}, {}, set(), set(), 0
    for line in text.splitlines():
        end = CTEST_LINE.match(line)
        if end:
            finished.add(end.group(1))
            if end.group(4) != "Passed":
                died.add(end.group(1))
            continue
        number = line.split(":", 1)[0].strip()
        if CMOCKA_OK.search(line):
            ok[number] = ok.get(number, 0) + 1
        found = CMOCKA_FAILED.search(line) or CMOCKA_SKIPPED.search(line)
        if found:
            bad[number] = bad.get(number, 0) + int(found.group(1))
        replayed = REPLAYED.match(line)
        if replayed:
            inputs += int(replayed.group(1))
    passed = failed = 0
    for number in finished:
        reported_ok, reported_bad = ok.get(number, 0), bad.get(number, 0)
        if number in died and reported_bad == 0:
            reported_bad = 1
        if number not in died and reported_ok + reported_bad == 0:
            reported_ok = 1
        passed += reported_ok
        failed += reported_bad
    note = "%d programs" % len(finished)
    if inputs:
        note += ", %d fuzz inputs" % inputs
    if not finished:
        failed = max(failed, 1)
        note = "no test ran"
    return passed, failed, note


def count_pytest(stage, code, text):
    try:
        suites = xml.etree.ElementTree.parse(stage.junit).getroot().iter("testsuite")
        tests = failures = skipped = 0
        for suite in suites:
            tests += int(suite.get("tests", 0))
            failures += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0))
    except (OSError, ValueError, xml.etree.ElementTree.ParseError):
        return 0, 1, "no result file"
    if tests == 0:
        return 0, 1, "no test ran"
    return tests - failures - skipped, failures + skipped, "%d skipped" % skipped if skipped else ""


def count_closing(stage, code, text):
    for line in reversed(text.splitlines()):
        found = CLOSING.match(line.strip())
        if found:
            return int(found.group(1)), int(found.group(2)), ""
    return 0, 1, "no closing line"


class Stage:
    def __init__(self, name, count, commands, timeout, env=None):
        self.name, self.count, self.commands, self.timeout = name, count, commands, timeout
        self.env = env or environment()
        self.log = os.path.join(LOGS, name + ".log")
        self.junit = os.path.join(LOGS, name + ".xml")
        self.passed = self.failed = 0
        self.note = ""
        self.seconds = 0.0

    def run(self):
        """Runs the commands in turn until one fails; everything they say goes to the log."""
        started = time.monotonic()
        code = 0
        try:
            os.remove(self.junit)
        except FileNotFoundError:
            pass
        with open(self.log, "wb") as log:
            for command in self.commands:
                log.write(("$ " + " ".join(command) + "\n").encode())
                log.flush()
                code = self.run_one(command, log, self.timeout - (time.monotonic() - started))
                if code != 0:
                    break
        with open(self.log, encoding="utf-8", errors="replace") as log:
            self.passed, self.failed, self.note = self.count(self, code, log.read())
        if code != 0 and self.failed == 0:
            self.failed = 1
            self.note = (self.note + ", " if self.note else "") + "exit code %d" % code
        self.seconds = time.monotonic() - started

    def run_one(self, command, log, seconds):
        try:
            child = subprocess.Popen(command, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            log.write(("cannot start: %s\n" % error).encode())
            return 127
        try:
            return child.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            log.write(("stopped: the stage may take %d s\n" % self.timeout).encode())
            return 124

    def report(self):
        line = "%-18s %6d passed, %d failed  %6.1f s" % (self.name, self.passed, self.failed, self.seconds)
        print(line + ("  (%s)" % self.note if self.note else ""), flush=True)
        if self.failed:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                lines = log.read().splitlines()
            for line in interesting(lines):
                print("    | " + line)
            print("    whole log: %s" % os.path.relpath(self.log, ROOT), flush=True)


def interesting(lines):
    """The lines that say what failed, and the tail."""
    bad = re.compile(r"FAILED|ERROR|error:|\*\*\*|Sanitizer|Assertion|^lint: |^E  ")
    head = lines[:-TAIL_LINES]
    return [line for line in head if bad.search(line)][:40] + lines[-TAIL_LINES:]


# ---- the stages ----

def build(preset, *more):
    return Stage("build-" + preset, count_build, [
        ["cmake", "--preset", preset, "-DPENNON_TESTS=ON", *more],
        ["cmake", "--build", path("build", preset), "-j", JOBS],
    ], 1200)


def ctest(name, preset, labels, timeout, prefix=(), **env):
    return Stage(name, count_ctest, [
        [*prefix, "ctest", "--test-dir", path("build", preset), "-L", "^(%s)$" % labels, "-V", "-j", JOBS],
    ], timeout, environment(preset, **env))


def pytest(name, venv, folder, timeout, **env):
    stage = Stage(name, count_pytest, [], timeout, environment(**env))
    stage.commands = [[path("build", venv, "bin", "python"), "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider",
                       "--junitxml", stage.junit, path(folder)]]
    return stage


def fixed_addresses():
    """Some kernels place mappings where ThreadSanitizer cannot follow; switch that off where it is allowed."""
    command = ["setarch", os.uname().machine, "-R"]
    if shutil.which("setarch") and subprocess.run([*command, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return command
    return []


def has_tests(folder, prefix, suffix):
    return os.path.isdir(path(folder)) and any(
        name.startswith(prefix) and name.endswith(suffix) for name in os.listdir(path(folder)))


def crash_stages():
    stages = []
    if has_tests("tests/crash", "test_", ".c"):
        stages.append(ctest("crash", "release", "crash", 600))
    if has_tests("tests/crash", "test_", ".py"):
        stages.append(pytest("crash-py", "venv8", "tests/crash", 600))
    return stages or [ctest("crash", "release", "crash", 600)]


def venvs():
    return Stage("venvs", count_build, [[path("tools", "venv.sh")]], 900)


def lint():
    return Stage("lint", count_closing, [[sys.executable, path("tools", "lint.py")]], 600)


def tools():
    return Stage("tools", count_closing, [[sys.executable, path("tests", "tools", "check_tools.py")]], 300)


def install():
    return Stage("install", count_closing, [[path("tests", "install", "run.sh")]], 600)


def python_wheels():
    """Makes the wheels and installs them."""
    install = [path("build", "venvpy", "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps",
               "--force-reinstall", "--find-links", path("build", "wheel"), "pennon", "pennon-lance"]
    return Stage("python-wheels", count_build, [[path("tools", "wheel.sh")], install], 900)


def python_package():
    """The package as it is installed, alone and with everything that reads its data; then official's tables through it."""
    tests = pytest("python", "venvpy", "bindings/python/tests", 900)
    through = pytest("interop-python", "venv8", "tests/interop/test_matrix.py", 1200, PENNON_PYTHON=path("build", "venvpy", "bin", "python"))
    through.commands[0] += [path("tests", "interop", "test_%s.py" % name) for name in (
        "legacy", "blobs", "blob_verbs", "features", "features_write", "history", "refs", "transactions", "expressions", "expression_traps", "mutations",
        "cleanup", "mapped", "row_bounds", "verify")]
    clean = Stage("python-clean", count_closing, [[sys.executable, path("tests", "install", "wheels.py")]], 600)
    model = pytest("model", "venv8", "tests/model", 900, PENNON_PYTHON=path("build", "venvpy", "bin", "python"))
    return [[python_wheels()], [clean], [tests], [through], [model]]


def python_sanitized():
    """The package's tests with the library and the extension built for ASan and UBSan, in a Python that is not."""
    # libstdc++ too: exceptions of C++ libraries that Python loads later are looked for when ASan starts.
    found = [subprocess.run(["gcc", "-print-file-name=" + name], capture_output=True, text=True, check=False).stdout.strip()
             for name in ("libasan.so", "libstdc++.so")]
    package = path("build", "asan", "python")
    stage = pytest("python-asan", "venvpy", "bindings/python/tests", 1800, PYTHONPATH=package, PENNON_PACKAGE=package, LD_PRELOAD=" ".join(found),
                   PYTHONMALLOC="malloc",
                   ASAN_OPTIONS="detect_leaks=0:alloc_dealloc_mismatch=0:abort_on_error=1:allocator_may_return_null=1:handle_segv=0",
                   UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
    stage.commands[0] += ["-m", "not measured"]
    made = build("asan", "-DPENNON_PYTHON=ON")
    made.commands[1] += ["--target", "_pennon", "python_package"]
    return [[made], [stage]]


def python_torch():
    venv = Stage("venv-torch", count_build, [
        [path("tools", "install-deps.sh"), "torch"], [path("tools", "venv.sh"), "venvpy", "venvtorch"],
        [path("build", "venvpy", "bin", "python"), "-m", "pip", "--python", path("build", "venvtorch", "bin", "python"), "install", "--quiet",
         "--disable-pip-version-check", "--no-index", "--no-deps", "--force-reinstall", "--find-links", path("build", "wheel"), "pennon"]], 1800)
    return [[python_wheels()], [venv], [pytest("python-torch", "venvtorch", "bindings/python/tests-long", 900)]]


def interop():
    # The tests drive both releases themselves, each from its own environment.
    return [pytest("interop", "venv8", "tests/interop", 900)]


def other_build(preset, labels):
    """Another build, and its tests."""
    prefix = fixed_addresses() if preset == "tsan" else ()
    return [[build(preset)], [ctest("tests-" + preset, preset, labels, 900, prefix)]]


def memcheck():
    valgrind = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]
    stage = Stage("memcheck", count_closing, [[sys.executable, os.path.abspath(__file__), "memcheck-programs", *valgrind]],
                  3600)
    return [[build("debug")], [stage]]


def memcheck_programs(valgrind):
    """Every unit test under valgrind, which does not know AVX-512."""
    folder = path("build", "debug", "tests")
    passed = failed = 0
    for name in sorted(os.listdir(folder)):
        program = os.path.join(folder, name)
        if not name.startswith("test_") or not os.access(program, os.X_OK):
            continue
        print("== " + name, flush=True)
        code = subprocess.run([*valgrind, program], env=environment("debug", PENNON_CPU="avx2"), check=False).returncode
        passed, failed = passed + (code == 0), failed + (code != 0)
    print("%d passed, %d failed" % (passed, failed), flush=True)
    return 0 if failed == 0 and passed > 0 else 1


def plan(what):
    """Groups of stages; the stages of one group run side by side."""
    if what == "all":
        return [[build("release")], [ctest("unit", "release", "unit", 600, PENNON_LONG="1")],
                [ctest("unit-portable", "release", "unit", 600, PENNON_CPU="portable")], [ctest("examples", "release", "example", 300)],
                *other_build("clang", "unit"), [lint()], [tools()], [install()], [venvs()], interop(), *[[stage] for stage in crash_stages()],
                *python_package(), *other_build("asan", "unit|fuzz|crash"), *other_build("tsan", "unit")]
    if what == "check":
        return [[build("release")], [ctest("unit", "release", "unit", 120), lint()],
                [ctest("fuzz-replay", "release", "fuzz", 120)], [ctest("examples", "release", "example", 120)]]
    if what == "lint":
        return [[build("release")], [lint()], [tools()]]
    if what == "clang":
        return other_build(what, "unit|fuzz")
    if what == "asan" or what == "ubsan":
        return other_build(what, "unit|fuzz|crash|example")
    if what == "tsan":
        return other_build("tsan", "unit|example")
    if what == "memcheck":
        return memcheck()
    if what == "interop":
        return [[build("release")], [venvs()], interop()]
    if what == "python-wheels":
        return [[venvs()], [python_wheels()]]
    if what == "python":
        return [[build("release")], [venvs()], *python_package()]
    if what == "python-asan":
        return [[venvs()], *python_sanitized()]
    if what == "python-torch":
        return [[build("release")], [venvs()], *python_torch()]
    if what == "install":
        return [[build("release")], [install()]]
    if what == "crash":
        return [[build("release")], [venvs()], *[[stage] for stage in crash_stages()]]
    sys.exit(__doc__)


def main(arguments):
    if arguments[:1] == ["memcheck-programs"]:
        return memcheck_programs(arguments[1:])
    if not arguments:
        sys.exit(__doc__)
    os.makedirs(LOGS, exist_ok=True)
    started = time.monotonic()
    done = []
    broken = set()
    for what in arguments:
        for group in plan(what):
            # What needs a build that failed would only test leftovers.
            runnable = [stage for stage in group if not broken & needs(stage)]
            for stage in group:
                if stage not in runnable:
                    stage.failed, stage.note = 1, "not run: its build failed"
                    print("%-18s      0 passed, 1 failed  (%s)" % (stage.name, stage.note), flush=True)
            threads = [threading.Thread(target=stage.run) for stage in runnable]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for stage in runnable:
                stage.report()
                if stage.failed and stage.count is count_build:
                    broken.add(stage.name)
            done += group
    passed = sum(stage.passed for stage in done)
    failed = sum(stage.failed for stage in done)
    names = [stage.name for stage in done if stage.failed]
    print("%d stages in %.0f s%s" % (len(done), time.monotonic() - started,
                                     "; failed: " + " ".join(names) if names else ""))
    print("%d passed, %d failed" % (passed, failed), flush=True)
    return 0 if failed == 0 and passed > 0 else 1


def needs(stage):
    """Names of the build stages that the stage stands on."""
    text = " ".join(" ".join(command) for command in stage.commands)
    names = {"build-" + preset for preset in ("release", "asan", "ubsan", "tsan", "debug", "clang")
             if path("build", preset) + " " in text + " "}
    if (stage.count is count_pytest and stage.name != "python-asan") or stage.name == "install":
        names.add("build-release")
    if stage.count is count_pytest or stage.name.startswith("python-"):
        names.add("venvs")
    if stage.name in ("python", "python-clean", "interop-python", "model"):
        names.add("python-wheels")
    if stage.name == "python-torch":
        names |= {"python-wheels", "venv-torch"}
    if stage.name == "python-asan":
        names.add("build-asan")
    return names - {stage.name}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
