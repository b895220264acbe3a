# Licensed under the Apache License, Version 2.0; see LICENSE.
# The front door. `make build` and `make test` work on a fresh Debian 12: what is missing is installed.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30
FUZZ_LONG_SECONDS ?= 3600
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
VERSION := $(shell sed -n 's/^project.pennon VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
export JOBS

.PHONY: help build demo test check lint format bench fuzz-quick fuzz-long interop-long expressions-long merges race-long model-long python wheel python-long install asan ubsan tsan memcheck \
	coverage dist clean deps deps-test

help:
	@echo "make build         library and command, into build/release"
	@echo "make demo          a table's life on a real data set, explained"
	@echo "make test          everything that CI runs (at most 45 minutes)"
	@echo "make check         the two-minute part of it"
	@echo "make lint          formatting, layering, sizes, banned functions, headers"
	@echo "make format        put every C file into the house's format"
	@echo "make bench         the benchmarks"
	@echo "make fuzz-quick    every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS); fuzz-long for $(FUZZ_LONG_SECONDS)"
	@echo "make interop-long  every case of the interop matrix, on from where it stopped (SECONDS=n ends it)"
	@echo "make expressions-long  random queries, official beside, up to CASES=n (100,000); fuzz-long ends with it"
	@echo "make merges        random merges, official beside: MERGES=n (3,000), from MERGE_SEED=n (1,000)"
	@echo "make race-long     sixteen processes with mixed work on one table for SECONDS=n (600)"
	@echo "make model-long    random programs of table operations on Pennon, official and plain rows, in lock step: PROGRAMS=n (200) of 50 steps from SEED=n (1)"
	@echo "make wheel         the wheels of the Python packages, into build/wheel, and a test of them in a clean environment"
	@echo "make python        the tests of the Python package; python-long adds PyTorch, ASan and UBSan"
	@echo "make asan, ubsan, tsan, memcheck, coverage"
	@echo "make install       PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)"
	@echo "make dist, clean"

deps:
	@tools/install-deps.sh build
deps-test:
	@tools/install-deps.sh build test

build: deps
	@cmake --preset release -DPENNON_TESTS=OFF >/dev/null
	@cmake --build build/release -j $(JOBS)

demo: build
	@examples/demo.sh build/release/pennon

test: deps-test
	@python3 tools/run-tests.py all
check: deps-test
	@python3 tools/run-tests.py check
lint: deps-test
	@python3 tools/run-tests.py lint
asan: deps-test
	@python3 tools/run-tests.py asan
ubsan: deps-test
	@python3 tools/run-tests.py ubsan
tsan: deps-test
	@python3 tools/run-tests.py tsan
memcheck: deps-test
	@python3 tools/run-tests.py memcheck
PROGRAMS ?= 200
SEED ?= 1
model-long: deps-test build
	@tools/venv.sh
	@python3 tools/run-tests.py python-wheels
	@build/venv8/bin/python tests/model/lockstep.py build/venvpy/bin/python --programs $(PROGRAMS) --seed $(SEED) --steps 50 --keep build/model

interop-long: deps-test build
	@tools/venv.sh
	@build/venv8/bin/python tests/interop/long_matrix.py

expressions-long: deps-test build
	@tools/venv.sh
	@build/venv8/bin/python tests/interop/long_expressions.py

merges: deps-test build
	@tools/venv.sh
	@MERGES=$${MERGES:-3000} MERGE_SEED=$${MERGE_SEED:-1000} build/venv8/bin/python -m pytest -q tests/interop/test_merges.py -k same

# The checker reads every version, which takes longer than the writers do.
race-long: deps-test build
	@tools/venv.sh
	@PENNON_RACE_SECONDS=$${SECONDS:-600} build/venv8/bin/python -m pytest -q -s tests/interop/test_race_mixed.py

wheel: deps-test
	@tools/wheel.sh
	@tools/venv.sh venv8
	@python3 tests/install/wheels.py
python: deps-test
	@python3 tools/run-tests.py python
python-long: deps-test
	@python3 tools/run-tests.py python python-asan python-torch

format: deps-test
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format-14 -i

bench: deps-test
	@cmake --preset bench >/dev/null
	@cmake --build build/bench -j $(JOBS)
	@tools/bench.sh build/bench

fuzz-quick: deps-test
	@tools/fuzz.sh $(FUZZ_SECONDS)
fuzz-long: deps-test
	@tools/fuzz.sh $(FUZZ_LONG_SECONDS)
	@$(MAKE) --no-print-directory expressions-long

coverage: deps-test
	@cmake --preset coverage >/dev/null
	@cmake --build build/coverage -j $(JOBS)
	@find build/coverage -name '*.gcda' -delete
	@ctest --test-dir build/coverage -j $(JOBS) -L 'unit|fuzz|crash' --output-on-failure >build/coverage/ctest.log \
		|| { tail -n 40 build/coverage/ctest.log; exit 1; }
	@python3 tools/coverage.py build/coverage

install: build
	@cmake --install build/release --prefix $(PREFIX)

dist:
	@mkdir -p build
	@git archive --prefix=pennon-$(VERSION)/ --format=tar.gz -o build/pennon-$(VERSION).tar.gz HEAD
	@echo build/pennon-$(VERSION).tar.gz

clean:
	@rm -rf build
