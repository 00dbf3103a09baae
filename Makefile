# Everything that a checkout can do. Each target makes what it needs; a second run goes straight to the work.
#   make tour           every finished lab's kernels on this machine, and a report      (ARGS="--all" for every step)
#   make lab            JupyterLab on your own copy of the course, in my-warpschool     (ARGS="~/mine" elsewhere)
#   make test           the tests that take minutes at most                             (ARGS="-k tiled" for some)
#   make test-all       all tests, the slow ones too
#   make test-clang     all references, and the wrong kernels of labs 00 to 05, with clang    (ARGS="-k lab02" for some)
#   make test-arm       a part of the tests on 64-bit ARM, emulated       (ARGS="--record" for docs/reference/platforms.md)
#   make lint           ruff and mypy, and the prose by docs/STYLE.md
#   make pages          every page that is made of data and recorded results   (ARGS="--check", or names, for some)
#   make docs           the documentation as a site, in build/site (ARGS="--no-run": without running the labs)
#   make walk           the site in a real browser: links, search, and a few pages by axe, on a phone, on paper
#   make walk-all       the same for every page; takes its time   (WARPSCHOOL_SITE=build/site walks what make docs built)
#   make bench          the simulator's speed, measured
#   make fuzz           hostile PTX by the hundred thousand (ARGS="launch --cases 20000"); findings go to fuzz-findings/
#   make fuzz-llvm      the same fuzzing cases with two versions of LLVM, bit for bit   (ARGS="--cuda 300 --launch 2000")
#   make mutants        small mistakes in every reference, which the grader must reject   (ARGS="lab02 --per 40" for some)
#   make hostile        every hostile submission, on two seeds, and the table of what held    (ARGS="--kind output" for some)
#   make drift          the tests with the oldest and the newest NVRTC and LLVM allowed   (ARGS="tests/sim" for some)
#   make wheel          build the wheel into dist/
#   make release        the wheel, tried in an empty environment of each Python here; nothing is uploaded
#   make clean          remove what these made, except .venv

VENV ?= .venv
PY = $(VENV)/bin/python
PIP = PIP_DISABLE_PIP_VERSION_CHECK=1 $(PY) -m pip install --quiet --no-compile --constraint constraints.txt
READY = $(VENV)/python.stamp
CORE = $(VENV)/core.stamp
LAB = $(VENV)/lab.stamp
DEV = $(VENV)/dev.stamp
DOCS = $(VENV)/docs.stamp
COMMA := ,
SUITABLE = 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'

.PHONY: help tour lab test test-all test-clang test-arm lint pages docs walk walk-all bench fuzz fuzz-llvm mutants hostile drift wheel release clean
.DELETE_ON_ERROR:
# Another environment that is activated has no say in what runs in this one.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH

help:
	@sed -n '2,20s/^# *//p' Makefile

tour: $(CORE)
	@$(VENV)/bin/warpschool tour $(ARGS)

lab: $(LAB)
	@$(VENV)/bin/warpschool lab $(ARGS)

test: $(DEV)
	@$(PY) -m pytest -n auto -m "not slow" $(ARGS)

test-all: $(DEV)
	@$(PY) -m pytest -n auto $(ARGS)

test-clang: $(DEV)
	@WARPSCHOOL_COMPILER=clang $(PY) -m pytest -n auto tests/unit/compile/test_clang.py tests/content/test_solutions.py \
	  tests/specimens -k "test_clang or is_accepted or lab00 or lab01 or lab02 or lab03 or lab04 or lab05" $(ARGS)

test-arm: $(DEV)
	@nice $(PY) scripts/arm.py $(ARGS)

lint: $(DEV)
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(PY) scripts/prose.py

pages: $(DEV)
	@$(PY) -m scripts.pages $(ARGS)

walk: $(DOCS)
	@nice $(PY) -m pytest -n 0 tests/browser/test_site_walk.py $(ARGS)

walk-all: $(DOCS)
	@WARPSCHOOL_WALK=all nice $(PY) -m pytest -n 0 tests/browser/test_site_walk.py $(ARGS)

docs: $(DOCS)
	@$(PY) scripts/site.py $(ARGS)

bench: $(DEV)
	@$(PY) benchmarks/simulator.py $(ARGS)

fuzz: $(DEV)
	@PYTHONPATH=. nice $(PY) -m tests.fuzz $(or $(ARGS),read --cases 100000)

fuzz-llvm: $(DEV)
	@nice $(PY) -m scripts.fuzz_llvm $(ARGS)

mutants: $(DEV)
	@nice $(PY) benchmarks/mutants.py $(ARGS)

hostile: $(DEV)
	@$(PY) benchmarks/hostile.py $(ARGS)

drift: $(DEV)
	@nice $(PY) scripts/drift.py -n auto $(ARGS)

wheel: $(DEV)
	@$(PY) -m hatchling build --target wheel

release: $(DEV)
	@$(PY) scripts/release.py $(ARGS)

# A checkout that was moved, or a Python that was removed, leaves a .venv that does not run: it is made anew.
$(READY): pyproject.toml constraints.txt
	@$(PY) -c 'import pip' 2>/dev/null || { \
	  for p in "$(PYTHON)" python3 python3.13 python3.12 python3.11 python3.14; do \
	    [ -n "$$p" ] && "$$p" -c $(SUITABLE) 2>/dev/null && found=$$p && break; \
	  done; \
	  [ -n "$$found" ] || { echo "make: this needs Python 3.11 or newer with venv (Debian: apt-get install python3-venv);" \
	    "or say which: make PYTHON=/path/to/python3" >&2; exit 1; }; \
	  echo "[1/2] making $(VENV) with $$found"; \
	  rm -rf "$(VENV)"; "$$found" -m venv "$(VENV)"; }
	@$(PIP) hatchling editables
	@touch $@

# pip compiles modules one by one, and none of an editable package; compileall uses all cores, and passes over what is no
# Python of this version.
INSTALL = @echo "[2/2] installing $(1) (the first time about a minute)"; \
	$(PIP) --no-build-isolation --editable '$(2)' && { $(PY) -m compileall -qq -j 0 $(VENV)/lib src || true; } && touch $(CORE) $@

$(CORE): $(READY)
	$(call INSTALL,pinned packages: NVRTC and LLVM and NumPy and more,.)

$(LAB): $(READY)
	$(call INSTALL,pinned packages and JupyterLab,.[lab$(COMMA)programs])

$(DEV): $(READY)
	$(call INSTALL,pinned packages and the tools for tests,.[dev])

$(DOCS): $(DEV)
	$(call INSTALL,the generator of the site,.[docs])

clean:
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache tour.html fuzz-findings
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
