# Every target installs what it needs; a second run skips that.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# Byte-compile the installed packages: it halves the startup time of every command.
export UV_COMPILE_BYTECODE := 1
# Keep the bytecode of our own modules, too: tests start thousands of processes.
unexport PYTHONDONTWRITEBYTECODE
export UV_PYTHON_DOWNLOADS := never

# Browser tests check accessibility with axe-core from npm; without a browser they are skipped anyway.
AXE := $(if $(and $(shell command -v npm),$(shell command -v chromium)),web/node_modules/.ready)
# The official conformance suite of MCP, from npm; without npm its test is skipped.
CONFORMANCE := $(if $(shell command -v npm),tests/conformance/node_modules/.ready)

.PHONY: help demo test test-all collect flaky bench walks chaos clients e2e soak check web docs schema screenshots site format lock clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

demo: $(READY) ## Show one sentence become a tested branch, with agents that a script plays; `demo/main.py --all` shows the rest.
	@$(BIN)/python -P demo/main.py

# Tests write many small files: in memory, if there is enough, they take half the time. `make test-all` uses the disk.
MEMORY := $(shell [ "$$(df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 { print $$4 }')" -ge 6000 ] 2>/dev/null && echo /dev/shm)

PYTEST := $(BIN)/python -m pytest -n 6 --dist loadfile --no-loadscope-reorder

ifneq ($(MEMORY),)
test: export TMPDIR := $(MEMORY)
test: export PYTEST_ADDOPTS := -o tmp_path_retention_policy=failed
endif
test: $(READY) $(AXE) $(CONFORMANCE) ## Run the tests: all behaviour on SQLite, and on a real PostgreSQL what differs there.
	@$(PYTEST) -m "not thorough" $(ARGS)

test-all: $(READY) $(AXE) $(CONFORMANCE) ## Run every test, also those marked `thorough`: twins on PostgreSQL, long chaos, all widths.
	@$(PYTEST) $(ARGS)

collect: $(READY) $(AXE) $(CONFORMANCE) ## Only find the tests: compiles them, so that the workers of `make test-all` need not do it.
	@$(BIN)/python -m pytest --collect-only -q --no-header >/dev/null || $(BIN)/python -m pytest --collect-only -qq

flaky: $(READY) $(AXE) $(CONFORMANCE) ## Run every test three times under varied conditions, to find those that depend on chance.
	@$(BIN)/python -P scripts/find_flaky.py $(ARGS)

bench: $(READY) ## Measure speed relative to floors in the same run; ARGS="--only calls" for some, --strict, --save.
	@$(BIN)/python -m benchmarks.run $(ARGS)

walks: $(READY) ## Count the modules and git programs that work for the most common requests; ARGS="land" for some.
	@$(BIN)/python -P scripts/walks.py $(ARGS)

chaos: $(READY) ## Kill, restart, crowd and fuzz at full size, in recorded batches; ARGS="--only claims-sqlite --minutes 10" for some.
	@$(BIN)/python -P tests/reliability/run.py $(ARGS)

check: $(READY) ## Run the static checks: style, types, architecture.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

e2e: $(READY) web/node_modules/.ready ## Run only the dashboard tests in a real browser; needs chromium.
	@$(BIN)/python -m pytest tests/e2e $(ARGS)

clients: $(READY) build/clients/.ready ## Let real clients connect, and work for `deepwork run` with a scripted model; needs npm.
	@DEEPWORK_CLIENT_TESTS=build/clients $(BIN)/python -m pytest tests/clients $(ARGS)

# Newer versions of npm do not run the install scripts of packages; these two scripts download the programs.
build/clients/.ready:
	@mkdir -p build/clients
	@cd build/clients && npm install --no-save --no-audit --no-fund --prefix . \
		@anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai
	@cd build/clients/node_modules/@anthropic-ai/claude-code && node install.cjs
	@cd build/clients/node_modules/opencode-ai && node postinstall.mjs
	@touch $@

soak: $(READY) ## Send 200 events a second to a page with 10,000 tasks for ten minutes; needs chromium.
	@$(BIN)/python -P tests/reliability/run.py --only soak $(ARGS)

web: web/node_modules/.ready ## Test and build the dashboard's page, which is in git; needs Node 20.19 or newer.
	@cd web && npm test && npm run build

web/node_modules/.ready: web/package.json web/package-lock.json
	@cd web && npm install --no-save --no-audit --no-fund
	@touch $@

tests/conformance/node_modules/.ready: tests/conformance/package.json tests/conformance/package-lock.json
	@cd tests/conformance && npm install --no-save --no-audit --no-fund --loglevel=error
	@touch $@

docs: $(READY) ## Write the pages, JSON Schemas, tool descriptions and completion index that are generated from the code.
	$(BIN)/python -P scripts/prepared_tools.py
	$(BIN)/python -P scripts/tools_page.py
	$(BIN)/python -P scripts/commands_page.py
	$(BIN)/python -P scripts/settings_page.py
	$(BIN)/python -P scripts/performance_page.py
	$(BIN)/python -P scripts/reliability_page.py
	$(BIN)/python -P scripts/not_run_page.py
	$(BIN)/python -P scripts/definition_schemas.py
	$(BIN)/python -P scripts/completion_index.py

schema: $(READY) ## Write the schema snapshots that new stores are created from.
	$(BIN)/python -P scripts/schema_snapshots.py

screenshots: $(READY) ## Take the screenshots of the dashboard that the documentation shows; needs chromium.
	$(BIN)/python -P scripts/screenshots.py

site: $(READY) ## Build the documentation as a website, in build/site.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

format: $(READY) ## Format the code and apply automatic fixes.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(READY) ## Pin the dependencies, with hashes and without index URLs.
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --group dev --all-extras pyproject.toml -o requirements/dev.txt
	echo uv | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header - -o requirements/uv.txt
	@# What the container installs, in the versions that the tests use.
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --extra postgres -c requirements/dev.txt pyproject.toml -o requirements/runtime.txt
	echo hatchling | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate -c requirements/dev.txt - -o requirements/build.txt

clean: ## Remove everything that these targets created.
	rm -rf .venv build dist reports web/node_modules tests/conformance/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml requirements/dev.txt requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "deepwork needs Python 3.11 or newer; choose one with: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Setting up .venv, once; this takes about half a minute."
	@echo "  1 of 3: an environment of its own"
	@$(PYTHON) -m venv .venv
	@# uv is ten times faster than pip; where it cannot be installed, pip does the same.
	@echo "  2 of 3: uv, which installs the rest"
	@if $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt; then \
		echo "  3 of 3: $$(grep -c '==' requirements/dev.txt) packages"; \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
		echo "  3 of 3: $$(grep -c '==' requirements/dev.txt) packages, with pip: a few minutes"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	@touch $@
