#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The rules of the house that a machine can check. One line a finding, "lint: PATH:LINE: RULE: TEXT"; then the numbers that
are published but do not fail; then "N passed, N failed", which counts rules.

Usage: lint.py [--root TREE] [--build build/release] [RULE...]
"""
import collections
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LICENCE = "Licensed under the Apache License, Version 2.0; see LICENSE."
EXCEPTIONS = "tools/lint-exceptions.txt"
MAX_FILE_LINES = 2000
MAX_FUNCTION_LINES = 150
MAX_COMPLEXITY = 25

# One direction of dependency: a folder includes only from folders that stand above it.
LAYERS = [
    "base", "wire", "arrow", "store", "schema", "encoding", "file", "table", "expr", "index", "index/scalar", "index/fts",
    "index/vector", "exec", "dataset", "ingest", "catalog", "server",
]
# What a folder offers to others: FOLDER/NAME.h with the folder's own name. Folders that offer more:
OFFERS = {
    "base": None,  # every header
    "wire": ("wire.h", "messages.h"),
    "exec": ("exec.h", "join.h", "operators.h", "plan.h", "query.h", "row_store.h"),
    "table": ("table.h", "transaction.h", "message_json.h", "cleanup.h", "refs.h", "row_removal.h", "row_carry.h", "id_set.h", "reuse_index.h"),
    "encoding": ("encoding.h", "codec.h", "page_read.h", "page_write.h", "array20.h", "array20_write.h", "jsonb.h"),
}
# These see public headers only.
OUTSIDE = ("cli/", "examples/", "bindings/", "tests/install/")

BANNED = ["strcpy", "strcat", "sprintf", "vsprintf", "gets", "atoi", "atol", "strtok", "alloca"]
HEAP = ["malloc", "calloc", "realloc", "free", "strdup", "strndup", "aligned_alloc", "posix_memalign", "reallocarray"]
HEAP_HOME = "src/base/mem.c"
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


class Lint:
    def __init__(self, build):
        self.build = build
        self.passed = collections.Counter()
        self.failed = collections.Counter()
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                                check=False)
        names = listed.stdout.split("\n") if listed.returncode == 0 else walk()
        self.files = sorted(name for name in names if name and os.path.isfile(os.path.join(ROOT, name)))
        self.c = [name for name in self.files if name.endswith((".c", ".h"))]
        self.text = {name: read(name) for name in self.c}
        self.code = {name: strip(text) for name, text in self.text.items()}
        self.functions = self.list_functions()

    def ok(self, rule, n=1):
        self.passed[rule] += n

    def bad(self, rule, where, text):
        self.failed[rule] += 1
        print("lint: %s: %s: %s" % (where, rule, text))

    def check(self, rule, good, where, text):
        if good:
            self.ok(rule)
        else:
            self.bad(rule, where, text)

    def list_functions(self):
        """(path, name, first line, lines, complexity) of every function, as pmccabe counts: a switch is one decision."""
        sources = [name for name in self.c if not name.startswith("tests/")]
        if not sources:
            return []
        out = run(["pmccabe", *sources])
        found = []
        for line in out.stdout.splitlines():
            fields = line.split("\t")
            match = re.match(r"(.*)\((\d+)\): (.*)", fields[5]) if len(fields) == 6 else None
            if match:
                found.append((match.group(1), match.group(3), int(match.group(2)), int(fields[4]), int(fields[0])))
        return found

    # ---- rules ----

    def rule_format(self):
        tool = shutil.which("clang-format-14")
        if not tool:
            return self.bad("format", "clang-format-14", "is not installed")
        for name in self.c:
            out = run([tool, "--dry-run", "-Werror", name])
            first = out.stderr.split("\n", 1)[0]
            self.check("format", out.returncode == 0, first.split(": ")[0] if first else name, "run `make format`")

    def rule_licence(self):
        kinds = (".c", ".h", ".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile", ".ci/run")
        for name in self.files:
            if name.endswith(kinds):
                head = read(name).split("\n", 3)[:2]
                self.check("licence", any(LICENCE in line for line in head), name + ":1", "no licence line at the top")

    def rule_layering(self):
        headers = set(self.c)
        for name in self.c:
            for number, line in enumerate(self.text[name].split("\n"), 1):
                match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                if match:
                    problem = self.include_problem(name, match.group(1), headers)
                    self.check("layering", not problem, "%s:%d" % (name, number), problem)
                elif re.match(r"\s*#\s*include\s*<pennon/", line) and not name.startswith(OUTSIDE):
                    self.bad("layering", "%s:%d" % (name, number), 'public headers are included as "pennon/x.h"')

    @staticmethod
    def include_problem(name, target, headers):
        public = target.startswith("pennon/")
        if public:
            return "" if "include/" + target in headers else "no such public header: " + target
        if name.startswith("include/"):
            return "a public header includes an internal one: " + target
        if name.startswith(OUTSIDE):
            beside = os.path.normpath(os.path.join(os.path.dirname(name), target))
            return "" if beside in headers else "only public headers here, not " + target
        if name.startswith(("tests/", "bench/")):
            return ""
        if not name.startswith("src/"):
            return ""
        if "src/" + target not in headers:
            return "not relative to src/: " + target
        own, other = os.path.dirname(name)[4:], os.path.dirname(target)
        if own == other:
            return ""
        if own not in LAYERS or other not in LAYERS:
            return "folder not in the list of layers: %s" % (own if own not in LAYERS else other)
        if LAYERS.index(other) > LAYERS.index(own):
            return "%s stands above %s and may not include %s" % (own, other, target)
        offers = OFFERS.get(other, (os.path.basename(other) + ".h",))
        if offers is not None and os.path.basename(target) not in offers:
            return "%s is private to %s" % (target, other)
        return ""

    def rule_banned(self):
        banned = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(BANNED))
        heap = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(HEAP))
        for name in self.c:
            clean = True
            for number, line in enumerate(self.code[name].split("\n"), 1):
                match = banned.search(line)
                if not match and name.startswith("src/") and name != HEAP_HOME:
                    match = heap.search(line)
                if match:
                    clean = False
                    self.bad("banned", "%s:%d" % (name, number), match.group(1) + " is not used here")
            if clean:
                self.ok("banned")

    def rule_unfinished(self):
        for name in self.files:
            if not name.endswith((".c", ".h", ".py", ".sh", ".cmake", ".md", ".scd")) or name == "tools/lint.py":
                continue
            hits = [number for number, line in enumerate(read(name).split("\n"), 1) if UNFINISHED.search(line)]
            self.check("unfinished", not hits, "%s:%d" % (name, hits[0] if hits else 0), "finish it, or refuse it by name")

    def rule_sizes(self):
        exceptions = self.read_exceptions()
        used = set()

        def within(rule, key, where, value, limit):
            allowed = exceptions.get((rule, key))
            if value > limit and allowed is not None:
                used.add((rule, key))
                self.check(rule, value <= allowed, where, "%d is past its exception of %d" % (value, allowed))
            else:
                self.check(rule, value <= limit, where, "%s: %d is past the limit of %d" % (key.split(":")[-1], value, limit))

        for name in self.c:
            within("file-lines", name, name, self.text[name].count("\n"), MAX_FILE_LINES)
        for name, function, line, lines, complexity in self.functions:
            key, where = "%s:%s" % (name, function), "%s:%d" % (name, line)
            within("lines", key, where, lines, MAX_FUNCTION_LINES)
            within("complexity", key, where, complexity, MAX_COMPLEXITY)
        for entry in exceptions:
            self.check("exceptions", entry in used, EXCEPTIONS, "no longer needed, remove it: %s %s" % entry)

    def read_exceptions(self):
        exceptions = {}
        for line in read(EXCEPTIONS).split("\n"):
            fields = [field.strip() for field in line.split("|")]
            if not line.strip() or line.startswith("#"):
                continue
            if len(fields) != 4 or not fields[2].isdigit() or not fields[3]:
                self.bad("exceptions", EXCEPTIONS, "not `rule | place | value | reason`: " + line)
                continue
            exceptions[(fields[0], fields[1])] = int(fields[2])
        return exceptions

    def rule_headers(self):
        """Every public header alone, as strict C11 and C++11."""
        flags = ["-fsyntax-only", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-Iinclude"]
        compilers = [("gcc", "c11", "c"), ("g++", "c++11", "c++"), ("clang-14", "c11", "c"), ("clang-14", "c++11", "c++")]
        for name in self.c:
            if not name.startswith("include/"):
                continue
            for compiler, standard, language in compilers:
                if not shutil.which(compiler):
                    self.bad("headers", compiler, "is not installed")
                    continue
                with tempfile.NamedTemporaryFile("w", suffix=".c" if language == "c" else ".cc") as unit:
                    # Twice: the guard must hold.
                    unit.write('#include "%s"\n' % name[len("include/"):] * 2)
                    unit.flush()
                    out = run([compiler, "-x", language, "-std=" + standard, *flags, unit.name])
                self.check("headers", out.returncode == 0, name, "%s -std=%s: %s" % (compiler, standard, out.stderr.strip()))

    def rule_exports(self):
        libraries = [("libpennon.so", ["nm", "-D", "--defined-only"]), ("libpennon.a", ["nm", "-g", "--defined-only"])]
        for library, command in libraries:
            path = os.path.join(self.build, library)
            if not os.path.exists(os.path.join(ROOT, path)):
                self.bad("exports", path, "is not built: run `make build`")
                continue
            out = run([*command, path])
            names = [line.split()[-1] for line in out.stdout.split("\n") if len(line.split()) == 3]
            if not names:
                self.bad("exports", path, "exports nothing")
            for symbol in names:
                self.check("exports", symbol.startswith("pennon_"), path, "exports " + symbol)

    def rule_names(self):
        """No two C files share a name. A public header may be called as the internal one that stands behind it."""
        seen = {}
        for name in self.c:
            key = (name.startswith("include/"), os.path.basename(name))
            self.check("names", key not in seen, name, "has the name of %s" % seen.get(key))
            seen.setdefault(key, name)

    def rule_scripts(self):
        for name in self.files:
            first = read(name).split("\n", 1)[0] if name.endswith((".sh", ".py")) or name == ".ci/run" else ""
            if name.endswith(".py"):
                try:
                    compile(read(name), name, "exec")
                    self.ok("scripts")
                except SyntaxError as error:
                    self.bad("scripts", "%s:%s" % (name, error.lineno), error.msg)
            elif "bash" in first:
                out = run(["bash", "-n", name])
                self.check("scripts", out.returncode == 0, name, out.stderr.strip())
                self.check("scripts", os.access(os.path.join(ROOT, name), os.X_OK), name, "is not executable")

    # ---- published, not enforced ----

    def report(self):
        inside = [entry for entry in self.functions if entry[0].startswith("src/") and entry[0].endswith(".c")]
        if not inside:
            return
        lines = sorted(entry[3] for entry in inside)
        p90 = lines[min(len(lines) - 1, int(len(lines) * 0.9))]
        static = sum(self.is_static(name, line) for name, _, line, _, _ in inside)
        print("functions        %d; lines median %d, p90 %d, max %d (wanted 20, 60, 150)" %
              (len(lines), statistics.median(lines), p90, lines[-1]))
        print("complexity       max %d (wanted 25)" % max(entry[4] for entry in inside))
        print("static           %d %% of functions (wanted >= 60)" % round(100 * static / len(inside)))
        files = sorted((self.text[name].count("\n"), name) for name in self.c if name.startswith("src/") and name.endswith(".c"))
        print("files            %d .c files in src; lines median %d, max %d (%s)" %
              (len(files), statistics.median(n for n, _ in files), *files[-1]))
        share = comment_share([self.text[name] for name in self.c if name.startswith(("src/", "include/"))])
        print("comments         %d %% of lines that are not blank (wanted 22-30)" % round(share))
        folders = collections.defaultdict(lambda: [0, 0, 0])
        for name in self.c:
            if name.startswith("src/") and name.endswith(".c"):
                row = folders[os.path.dirname(name)[4:]]
                row[0] += sum(1 for line in self.code[name].split("\n") if line.strip())
                row[1] += len(re.findall(r"\bASSERT\s*\(", self.code[name]))
                row[2] += len(re.findall(r"\bCHECK_FILE(?:_RETURN)?\s*\(", self.code[name]))
        for folder in sorted(folders, key=lambda f: LAYERS.index(f) if f in LAYERS else 99):
            code, asserts, checks = folders[folder]
            print("  %-14s %6d lines of code, %5.1f asserts a kloc, %5.1f checks of outside bytes a kloc" %
                  (folder, code, 1000 * asserts / code, 1000 * checks / code))

    def is_static(self, name, line):
        lines = self.text[name].split("\n")
        return any(re.match(r"static\b", text) for text in lines[max(0, line - 2):line])


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def walk():
    """Without git: everything but the build folders."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in (".git", "build")]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), ROOT)


def run(command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def strip(text):
    """Comments and literals become spaces; line numbers stay."""
    return TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def comment_share(texts):
    comments = total = 0
    for text in texts:
        marked = TOKEN.sub(
            lambda match: re.sub(r"[^\n]", "\1", match.group(0)) if match.group(0).startswith("/") else match.group(0), text)
        for line in marked.split("\n"):
            total += bool(line.strip())
            comments += "\1" in line
    return 100 * comments / total if total else 0


RULES = ["format", "licence", "layering", "banned", "unfinished", "sizes", "headers", "exports", "names", "scripts"]


def main(arguments):
    global ROOT
    build = "build/release"
    if arguments[:1] == ["--root"]:
        ROOT, arguments = os.path.abspath(arguments[1]), arguments[2:]
    if arguments[:1] == ["--build"]:
        build, arguments = arguments[1], arguments[2:]
    unknown = [rule for rule in arguments if rule not in RULES]
    if unknown:
        sys.exit("lint: no rule %s (%s)" % (unknown[0], " ".join(RULES)))
    if not shutil.which("pmccabe"):
        sys.exit("lint: pmccabe is not installed")
    lint = Lint(build)
    for rule in arguments or RULES:
        getattr(lint, "rule_" + rule)()
    if not arguments:
        lint.report()
    rules = sorted(set(lint.passed) | set(lint.failed))
    for rule in rules:
        print("%-16s %5d looked at, %d findings" % (rule, lint.passed[rule] + lint.failed[rule], lint.failed[rule]))
    print("%d passed, %d failed" % (len(rules) - len(lint.failed), len(lint.failed)))
    return 1 if lint.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
