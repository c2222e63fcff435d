# SPDX-License-Identifier: GPL-3.0-or-later
# Two commands matter: `make demo` and `make test`. Both set up what they need, and say what they do.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SETUP  := $(VENV)/.set-up
PJSUA2 := $(VENV)/.pjsua2
COQUI  ?= cpu

.PHONY: help demo test check run setup pjsua2 models coqui system-packages clean

help:
	@echo "make demo    set everything up, run one interpreted call end to end, write the report to out/demo/"
	@echo "make test    set everything up, run the whole test suite"
	@echo "make check   ruff, mypy --strict, unit tests"
	@echo "make run     start the gateway with config/gateway.yaml"
	@echo "make pjsua2  build PJSIP 2.17 for 512 legs in place of the packaged 4 (some minutes, once)"
	@echo "make models  download and verify the model bundle"
	@echo "make coqui   Coqui's voices, in an environment of their own (2 GB; COQUI=cuda for a GPU)"

demo: setup models
	$(BIN)/gateway demo --out out/demo

test: setup models system-packages
	scripts/run-tests

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy & typed=$$!; $(BIN)/python -m pytest -m "unit and not slow" -q; tested=$$?; wait $$typed && exit $$tested

run: setup models
	@$(MAKE) --no-print-directory pjsua2 || echo "run: going on with the packaged SIP library, which holds 2 calls at once"
	$(BIN)/gateway serve

# Behind the set-up, which brings the packaged library back. What was built once is only installed.
pjsua2: $(PJSUA2)

$(PJSUA2): $(SETUP) scripts/build-pjsua2 $(wildcard scripts/pjsua2/*)
	PYTHON=$(BIN)/python scripts/build-pjsua2 --packages --install $(PJSIP_SOURCE)
	@touch $@

setup: $(SETUP)

$(SETUP): pyproject.toml requirements.lock scripts/setup
	PYTHON=$(PYTHON) scripts/setup $(VENV)
	@touch $@

models: setup
	$(BIN)/gateway models pull

coqui: setup
	PYTHON=$(BIN)/python scripts/setup-coqui $(COQUI) $(VENV)-coqui

system-packages:
	scripts/test-packages

clean:
	rm -rf $(VENV) $(VENV)-coqui out .pytest_cache .mypy_cache .ruff_cache .hypothesis
