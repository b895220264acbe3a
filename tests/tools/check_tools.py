#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The checkers checked: every rule of tools/lint.py finds its own kind of fault in a small tree made for it, and the test
runner counts what the tools really print. Ends with "N passed, N failed"."""
import importlib.util
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LICENCE = "/* Licensed under the Apache License, Version 2.0; see LICENSE. */\n"
LONG = "int f(int a)\n{\n" + "    a++;\n" * 150 + "    return a;\n}\n"
BRANCHY = "int f(int a)\n{\n" + "".join("    if (a == %d) return %d;\n" % (i, i) for i in range(26)) + "    return a;\n}\n"

# rule, files of the tree, whether the rule must find something. "" holds the exceptions.
CASES = [
    ("format", {"src/base/a.c": LICENCE + "int  x;\n"}, True),
    ("format", {"src/base/a.c": LICENCE + "int x;\n"}, False),
    ("licence", {"src/base/a.c": "int x;\n"}, True),
    ("licence", {"src/base/a.c": LICENCE}, False),
    ("layering", {"src/base/a.c": '#include "table/table.h"\n', "src/table/table.h": LICENCE}, True),
    ("layering", {"src/table/a.c": '#include "base/b.h"\n', "src/base/b.h": LICENCE}, False),
    ("layering", {"src/table/a.c": '#include "wire/cursor.h"\n', "src/wire/cursor.h": LICENCE}, True),
    ("layering", {"src/wire/a.c": '#include "wire/cursor.h"\n', "src/wire/cursor.h": LICENCE}, False),
    ("layering", {"cli/a.c": '#include "base/b.h"\n', "src/base/b.h": LICENCE}, True),
    ("layering", {"cli/a.c": '#include "pennon/b.h"\n', "include/pennon/b.h": LICENCE}, False),
    ("layering", {"include/pennon/a.h": '#include "base/b.h"\n', "src/base/b.h": LICENCE}, True),
    ("layering", {"src/wire/a.c": '#include "missing.h"\n'}, True),
    ("banned", {"src/wire/a.c": "void f(char *a) { strcpy(a, a); }\n"}, True),
    ("banned", {"src/wire/a.c": "void f(void) { free(0); }\n"}, True),
    ("banned", {"src/base/mem.c": "void f(void) { free(0); }\n"}, False),
    ("banned", {"src/wire/a.c": "/* free(x) */ void f(struct a *x) { x->free(x); g(\"strcpy(\"); my_free(x); }\n"}, False),
    ("unfinished", {"src/wire/a.c": "/* " + "TO" + "DO */\n"}, True),
    ("unfinished", {"src/wire/a.c": "/* done */\n"}, False),
    ("sizes", {"src/wire/a.c": LONG}, True),
    ("sizes", {"src/wire/a.c": LONG, "": "lines | src/wire/a.c:f | 154 | a table\n"}, False),
    ("sizes", {"src/wire/a.c": LONG, "": "lines | src/wire/a.c:f | 151 | grew since\n"}, True),
    ("sizes", {"src/wire/a.c": "int x;\n", "": "lines | src/wire/a.c:f | 154 | gone\n"}, True),
    ("sizes", {"src/wire/a.c": BRANCHY}, True),
    ("sizes", {"src/wire/a.c": "int x;\n" * 2001}, True),
    ("headers", {"include/pennon/a.h": "size_t f(void);\n"}, True),
    ("headers", {"include/pennon/a.h": "#ifndef A\n#define A\n#include <stddef.h>\nsize_t f(void);\n#endif\n"}, False),
    ("names", {"src/wire/a.c": "", "src/base/a.c": ""}, True),
    ("names", {"src/wire/a.h": "", "include/pennon/a.h": ""}, False),
    ("scripts", {"tools/a.py": "def f(:\n"}, True),
    ("scripts", {"tools/a.sh": "#!/bin/bash\nif\n"}, True),
]

CTEST_OUTPUT = """
1: [==========] Running 2 test(s).
1: [       OK ] a
1: [  FAILED  ] b
1: [  FAILED  ] tests: 1 test(s), listed below:
1/4 Test #1: unit.test_a ......................***Failed    0.01 sec
2: [       OK ] a
2: [       OK ] b
2/4 Test #2: unit.test_b ......................   Passed    0.01 sec
3: [       OK ] a
3/4 Test #3: unit.test_c ......................***Exception: SegFault  0.10 sec
4: 17 inputs
4/4 Test #4: fuzz.footer ......................   Passed    0.02 sec
"""


def load(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), os.path.join(ROOT, "tools", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lint_finds(rule, files):
    with tempfile.TemporaryDirectory() as tree:
        for name, text in {"tools/lint-exceptions.txt": files.get("", ""), **files}.items():
            if name:
                os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
                with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
                    file.write(text)
        with open(os.path.join(ROOT, ".clang-format"), encoding="utf-8") as style:
            text = style.read()
        with open(os.path.join(tree, ".clang-format"), "w", encoding="utf-8") as file:
            file.write(text)
        out = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "lint.py"), "--root", tree, rule],
                             capture_output=True, text=True, check=False)
        if out.returncode not in (0, 1) or "passed," not in out.stdout:
            return "broken: " + out.stdout + out.stderr
        return out.returncode == 1


def runner_counts():
    runner = load("run-tests")
    yield "ctest", runner.count_ctest(None, 8, CTEST_OUTPUT)[:2], (5, 2)
    yield "ctest, nothing ran", runner.count_ctest(None, 0, "No tests were found!!!")[:2], (0, 1)
    yield "closing", runner.count_closing(None, 0, "x\n12 passed, 3 failed\n")[:2], (12, 3)
    yield "no closing", runner.count_closing(None, 0, "x\n")[:2], (0, 1)
    with tempfile.TemporaryDirectory() as folder:
        class Stage:
            junit = os.path.join(folder, "a.xml")
        yield "pytest without a result", runner.count_pytest(Stage, 0, "")[:2], (0, 1)
        with open(Stage.junit, "w", encoding="utf-8") as file:
            file.write('<testsuites><testsuite tests="9" failures="1" errors="1" skipped="2"/></testsuites>')
        yield "pytest", runner.count_pytest(Stage, 1, "")[:2], (5, 4)


def main():
    passed = failed = 0
    checks = [("lint %s %s" % (rule, sorted(files)), lint_finds(rule, files), wanted) for rule, files, wanted in CASES]
    checks += list(runner_counts())
    for name, got, wanted in checks:
        if got == wanted:
            passed += 1
        else:
            failed += 1
            print("tools: %s: wanted %s, got %s" % (name, wanted, got))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
