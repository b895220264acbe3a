#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Line and branch coverage by folder and file, from the counts that gcov reads out of a build folder.

Usage: coverage.py BUILD_FOLDER [--lines]      --lines also lists the lines of src/ that never ran
"""
import collections
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def counts(build):
    """{file: {line: runs}} and {file: {(line, branch): runs}}, summed over all programs, for files below src/."""
    lines = collections.defaultdict(collections.Counter)
    branches = collections.defaultdict(collections.Counter)
    # The notes, not the data: a file that no program ran counts with all its lines.
    found = []
    for folder, _, names in os.walk(build):
        found += [os.path.join(folder, name) for name in names if name.endswith(".gcno")]
    for data in found:
        out = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", data], cwd=build,
                             capture_output=True, text=True, check=False)
        for document in filter(None, out.stdout.split("\n")):
            for file in json.loads(document)["files"]:
                name = os.path.relpath(os.path.join(build, file["file"]), ROOT)
                if not name.startswith("src/"):
                    continue
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[name][number] += line["count"]
                    for index, branch in enumerate(line["branches"]):
                        branches[name][(number, index)] += branch["count"]
    return lines, branches


def share(counter):
    return 100 * sum(1 for runs in counter.values() if runs) / len(counter) if counter else 100.0


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    lines, branches = counts(os.path.abspath(arguments[0]))
    if not lines:
        sys.exit("coverage: no counts in %s: run `make coverage`" % arguments[0])
    folders = collections.defaultdict(lambda: (collections.Counter(), collections.Counter()))
    for name in lines:
        for place in (os.path.dirname(name), "all"):
            folders[place][0].update({(name, line): runs for line, runs in lines[name].items()})
            folders[place][1].update({(name, branch): runs for branch, runs in branches[name].items()})
    for name in sorted(lines):
        print("%-44s lines %5.1f %%  branches %5.1f %%" % (name, share(lines[name]), share(branches[name])))
        if "--lines" in arguments:
            missed = sorted(line for line, runs in lines[name].items() if not runs)
            if missed:
                print("    never ran: " + " ".join(map(str, missed)))
    print()
    for place in sorted(folders):
        print("%-44s lines %5.1f %%  branches %5.1f %%" % (place, share(folders[place][0]), share(folders[place][1])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
