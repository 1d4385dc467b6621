# Two commands on a fresh machine: `make bench` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CLANG_FORMAT = find examples fib_rmsnorm solutions tests experiments -regex '.*\.\(cpp\|cuh?\|h\|inl\|js\)' -print0 | xargs -0 $(BIN)/clang-format

# Where it is set, as in images of containers, each of the hundreds of processes of the tests would compile Python again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: bench test thorough nightly gpu check fix site release setup clean

bench: $(READY)
	$(BIN)/fib-rmsnorm define
	$(BIN)/fib-rmsnorm solve --languages triton,cuda
	$(BIN)/fib-rmsnorm bench --output traces.json

# A file's tests share what they set up, so one process runs them all. Three, because tests wait for processes of theirs.
# All runs share the builds in .cache, which are found by their content.
PYTEST = $(BIN)/python -m pytest -q -n 3 --dist loadfile

test: $(READY)
	$(PYTEST)

# What takes minutes and must hold: kernels are compiled, commands run in processes of their own.
thorough: $(READY)
	$(PYTEST) -m '(compile or process) and not (fuzz or endurance)'

# All tests with their coverage, and the optional packages that some need. It takes an hour or more.
nightly: $(READY)
	$(BIN)/python -m pip install -q -e '.[ray,models,site]'
	$(PYTEST) -m '' --cov
	$(BIN)/python -m pip install -q --upgrade --target build/openenv 'openenv>=0.10,<0.11' # apart: it needs another mcp
	PYTHONPATH=build/openenv $(PYTEST) -m '' tests/serving/test_kernel_environment.py

# On a machine with one: tests share it, except with those that are marked `alone`.
gpu: $(READY)
	$(BIN)/python -m pytest -q -n 6 --dist loadfile -m 'gpu and not (fuzz or endurance)'

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(CLANG_FORMAT) --dry-run --Werror
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_words.py
	$(BIN)/python tools/generate_docs.py --check
	$(BIN)/fib-rmsnorm validate --published

fix: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(CLANG_FORMAT) -i
	$(BIN)/fib-rmsnorm solve --definitions '*'
	$(BIN)/fib-rmsnorm deploy
	$(BIN)/python tools/generate_docs.py

# The docs with search, the API and charts of all published Traces, for a browser: python -m http.server -d site
site: $(READY)
	$(BIN)/python -m pip install -q -e '.[site]'
	$(BIN)/python tools/make_site.py
	$(BIN)/mkdocs build --quiet

# Checks the wheel, and writes CHANGELOG.md from changes/. What it changes is left to commit and to tag.
release: $(READY)
	$(BIN)/python -m pip install -q 'towncrier>=24.8'
	$(BIN)/python tools/release.py

setup: $(READY)

# A torch that is there (a GPU machine's) is used as it is; without one, constraints.txt chooses.
$(READY): pyproject.toml constraints.txt
	@if $(PYTHON) -c 'import torch' 2>/dev/null; then \
	  $(PYTHON) -m venv --system-site-packages .venv && \
	  $(BIN)/python -m pip install -q -e '.[dev,mcp,tilelang,cutedsl,cupti]'; \
	else \
	  $(PYTHON) -m venv .venv && \
	  $(BIN)/python -m pip install -q -c constraints.txt -e '.[dev,mcp,tilelang]'; \
	fi
	@touch $@

clean:
	rm -rf .cache .coverage build site .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache traces.json
