# Needs make and a python3 of any version from 3.8; everything else is fetched into .uv/ and .venv/.
PYTHON ?= python3
UV := $(or $(shell uv --version >/dev/null 2>&1 && command -v uv),.uv/bin/uv)
INSTALL = $(UV) pip install --python .venv --constraint constraints.txt
NO_DATA = $(if $(BAYES_GPX_DATA),, and not data)
# Versions of an installed wheel's dependencies: "pinned" by constraints.txt, the "lowest" or the "newest".
VERSIONS ?= pinned
RESOLVED_pinned = --constraint constraints.txt
RESOLVED_lowest = --resolution lowest-direct
INTO_WHEEL = $(UV) pip install --python .wheel $(RESOLVED_$(VERSIONS))
PAPERS ?= $(sort $(basename $(notdir $(wildcard models/papers/*_*.py))))
BROWSER = $(firstword $(foreach name,chromium chromium-browser google-chrome,$(shell command -v $(name))))
NO_BROWSER = $(if $(BROWSER),, and not browser)
# Tests are many small matrices: one BLAS thread each is fastest and makes the numbers repeatable. Two
# processes share them by files, since those of one file share compiled functions.
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
TWO = -n 2 --dist loadfile

# Many tests start a process, which would compile all that it imports where nobody may keep it.
export PYTHONDONTWRITEBYTECODE =

.PHONY: setup test test-slow check mutants demo lint format docs wheel installed-wheel test-wheel notebooks papers bench constraints clean

setup: .venv/.installed

.uv/bin/uv:
	{ $(PYTHON) -m venv .uv || PYENV_VERSION=system $(PYTHON) -m venv .uv; } && .uv/bin/python -m pip install uv

# `uv venv` takes the Python that .python-version names, or else any that the project supports; it
# fetches one where there is none. PYENV_VERSION=system keeps pyenv from insisting on that file.
.venv/.installed: pyproject.toml constraints.txt | $(UV)
	$(UV) venv --allow-existing .venv || PYENV_VERSION=system $(UV) venv --allow-existing --python '>=3.12' .venv
	$(INSTALL) --editable '.[data,test]' && touch $@

.venv/.installed-%: .venv/.installed
	$(INSTALL) --editable '.[data,test,$*]' && touch $@

test: .venv/.installed
	$(ONE_THREAD) .venv/bin/pytest $(TWO) -m 'not slow$(NO_DATA)' --doctest-modules tests bayes_gpx

test-slow: .venv/.installed-bench
	$(ONE_THREAD) .venv/bin/pytest $(TWO) -m 'slow$(NO_DATA)$(NO_BROWSER)'

# All that `make test` leaves out, in parts; a part that passed at this commit is not repeated, so a call that was
# stopped goes on. CHECK="--list" prints the parts, CHECK="docs tests/model" runs some, CHECK="--hours 5" ends in time.
check: .venv/.installed-bench .venv/.installed-docs
	.venv/bin/python tests/check/check.py --marks 'slow$(NO_DATA)$(NO_BROWSER)' $(CHECK)

# A hundred wrong versions of the mathematics, each tried on its wing's tests: more than an hour.
mutants: .venv/.installed
	.venv/bin/python tests/mutation/mutants.py $(MUTANTS)

demo: .venv/.installed
	.venv/bin/bayes-gpx demo

lint: .venv/.installed
	.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/python docs/prose.py

format: .venv/.installed
	.venv/bin/ruff check --fix . && .venv/bin/ruff format .

docs: .venv/.installed-docs
	$(ONE_THREAD) .venv/bin/sphinx-build -W -n --keep-going -b html docs docs/_build/html

wheel: | $(UV)
	$(UV) build --clear
	$(UV) run --no-project tests/reference/wheel_contents.py dist/*.whl $(if $(TAG),--tag "$$TAG")

# The wheel of `make wheel` in an environment of its own, as users install it.
installed-wheel: | $(UV)
	$(UV) venv --clear .wheel || PYENV_VERSION=system $(UV) venv --clear --python '>=3.12' .wheel
	$(INTO_WHEEL) --requirement pyproject.toml
	$(UV) pip install --python .wheel --no-deps dist/*.whl
	.wheel/bin/python tests/reference/wheel_contents.py --import-time
	.wheel/bin/bayes-gpx demo

test-wheel: installed-wheel
	$(INTO_WHEEL) --requirement pyproject.toml --extra data --extra test
	$(ONE_THREAD) .wheel/bin/pytest $(TWO) -m 'not slow$(NO_DATA)' tests

# Executed copies are thrown away: notebooks are stored without outputs.
notebooks: .venv/.installed
	$(ONE_THREAD) .venv/bin/jupyter-execute --timeout=900 notebooks/*.ipynb

# Tables and figures of the papers, hours in all: PAPERS=gpx_table1 makes one, QUICK=1 small versions.
# Whatever was computed is kept, so that a run that was stopped goes on.
papers: .venv/.installed-bench
	set -e; for name in $(PAPERS); do echo "== $$name"; .venv/bin/python models/papers/$$name.py $(if $(QUICK),--quick); done

bench: .venv/.installed-bench
	set -e; for script in benchmarks/*.py; do echo "== $$script"; .venv/bin/python "$$script"; done

# Adds pins for new dependencies and keeps the others; `make constraints UPGRADE=--upgrade` renews them all.
constraints: | $(UV)
	$(UV) pip compile --universal --python-version 3.12 --all-extras --no-emit-index-url --no-annotate --no-header --quiet $(UPGRADE) --output-file constraints.txt pyproject.toml

clean:
	rm -rf docs/_build docs/generated bayes-gpx-demo build dist .wheel .pytest_cache .ruff_cache && find . -name .venv -prune -o -name .uv -prune -o -name __pycache__ -type d -exec rm -rf {} +
