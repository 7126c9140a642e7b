# Everything this project does, by name. `make` alone lists it; `make demo` and `make test` are all a new machine needs.
.DEFAULT_GOAL := help
.PRECIOUS: .venv/.installed
.PHONY: help demo test test-slow lint format types bench decode-bench lossless-bench gate-bench install model clean

BIN := .venv/bin
STAMP := .venv/.installed
SUITE := evals/suites/product-descriptions/task.yaml

help:  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: model  ## install, then run the example task; it says what to do next
	@$(BIN)/loopeng run $(SUITE) || [ $$? -eq 3 ]  # 3: finished, some samples failed, which is what the loop is for

test: lint types model  ## install, lint, check types, run all tests but the slow ones
	$(BIN)/python -m pytest -m "not slow" -n auto --maxprocesses 4 --dist loadfile

test-slow: model  ## the tests marked slow
	$(BIN)/python -m pytest -m slow

lint: install  ## style and formatting, changing nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install  ## mend style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install  ## mypy over both packages
	$(BIN)/mypy

bench: model  ## measure the table in the README on this machine
	$(BIN)/python -m evals.bench.readme

decode-bench: model  ## measure decoding beside transformers: an hour and a half; needs SPECDEC_BENCH_DATA, takes OPTIONS
	$(BIN)/python -m evals.bench.decode --resume $(OPTIONS)

lossless-bench: model  ## speculative ids are plain ids on all of Spec-Bench: an hour; needs SPECDEC_BENCH_DATA
	$(BIN)/python -m evals.bench.lossless --resume $(OPTIONS)

gate-bench: install  ## simulate the gate: false commits of useless changes, and the power it announces
	$(BIN)/python -m evals.bench.gate

install: $(STAMP)  ## make .venv, if anything changed

model: install  ## fetch the embedded model, once
	@$(BIN)/specdec fetch smollm2-135m

clean:  ## remove the environment, caches and build output; never a database of the loop
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find loopeng specdec_core evals tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@echo "Installing into .venv (torch is large: the first time takes minutes)"
	@PYTHON='$(PYTHON)' .ci/install

# A .venv that was made in another folder (the checkout was moved or copied) points there: make it anew.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(shell pwd -P))
.PHONY: $(STAMP)
endif
