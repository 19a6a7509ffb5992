# make setup   a virtual environment in .venv with everything that the project needs
# make demo    ImageNet-C from the photographs that scikit-image bundles, verified
# make test    all tests
# make bench   speed against other packages, measured in the same run: docs/benchmark.md
# make lint    formatter, linter, types, import contracts
# make differences  how far decoders and resize operators are from the default: docs/decoders.md
# make sheets  contact sheets for docs/
# make format  let the formatter and the linter mend what they can

PYTHON ?= python3
BIN := .venv/bin
DEMO := build/demo

.PHONY: setup demo test bench differences sheets lint format clean

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/python -m tests.photographs $(DEMO)/photographs
	$(BIN)/robustshards plan imagenet-c --source $(DEMO)/photographs
	$(BIN)/robustshards build imagenet-c --source $(DEMO)/photographs --out $(DEMO)/imagenet-c
	$(BIN)/robustshards verify $(DEMO)/imagenet-c --deep
	$(BIN)/robustshards build imagenet-p --source $(DEMO)/photographs --out $(DEMO)/imagenet-p
	$(BIN)/robustshards verify $(DEMO)/imagenet-p --deep --samples 10
	@echo
	@echo "Look at it:"
	@echo "  the shards      $(DEMO)/imagenet-c/shards/<corruption>/<severity>/*.tar"
	@echo "  the manifest    $(DEMO)/imagenet-c/manifest.parquet"
	@echo "  the sequences   $(DEMO)/imagenet-p/shards/<perturbation>/1/*.tar"
	@echo "  one picture     tar -xf $(DEMO)/imagenet-c/shards/snow/3/snow-3-000000.tar animals/chelsea-snow-3.jpg"

bench: setup
	$(BIN)/python -m bench

differences: setup
	$(BIN)/python -m bench.differences

sheets: setup
	$(BIN)/python -m tests.sheets docs

test: setup
	$(BIN)/pytest

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build
