# Everything a newcomer needs; each target sets up its own virtual environment first.
#   make table2   Table 2 of the paper, small cluster, full size
#   make quick    the same table with 64 KiB messages
#   make table2-large  Table 2, large cluster: 16,384 accelerators, alltoall on samples (docs/large.md)
#   make dnn      runtimes and cost savings of five deep-learning workloads
#   make test     the test suite; what needs SST is skipped where there is none
#   make validate SST and the packet engine side by side (needs SST)
#   make slurm    what a login node of a cluster needs (docs/cluster.md)
#   make container an image of all this with SST (needs Docker or Podman)
PYTHON ?= python3
VENV ?= .venv
CORES ?= 2
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_SLURM := $(VENV)/.ready-slurm
READY_DEV := $(VENV)/.ready-dev
SOURCES := pyproject.toml CMakeLists.txt $(wildcard topologies/include/hxmesh/*.hpp topologies/src/*.cpp engine/src/* allocation/src/*)
# The commands run with the environment's own programs first, as after `source .venv/bin/activate`.
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: help setup table2 table2-large quick alltoall allreduce permutation dnn congestion figures allocation validate slurm container test slow faults sanitize instructions fuzz lint types lock bench growth clean

help:
	@sed -n 's/^#   //p' Makefile; \
	echo 'make alltoall, allreduce, permutation   the sweeps of Figures 6, 7 and 8'; \
	echo 'make allocation   how much of a shared machine can be used, and what neighbours cost'; \
	echo 'make congestion   alltoalls behind full buffers (docs/congestion.md)'; \
	echo 'make bench    speed and memory of the engine'; \
	echo 'make growth   how time and memory grow with the accelerators'; \
	echo 'make faults   what goes wrong on purpose, and what a restart makes of it (as root, with Slurm)'; \
	echo 'make lint types slow sanitize instructions fuzz lock clean'

setup: $(READY)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "hxmesh needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1): set PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(READY): $(BIN)/python requirements.lock $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

$(READY_SLURM): $(READY) requirements-slurm.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-slurm.lock
	@touch $@

$(READY_DEV): $(READY) requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

# One study: results/<name>/ with its tables, figures and report.
STUDY = snakemake --cores $(CORES) --configfile

table2: $(READY)
	@$(STUDY) workflow/config/table2_small.yaml
	@hxmesh report results/table2_small --show

table2-large: $(READY)
	@$(STUDY) workflow/config/table2_large.yaml
	@hxmesh report results/table2_large --show

quick: $(READY)
	@$(STUDY) workflow/config/table2_quick.yaml
	@hxmesh report results/table2_quick --show

alltoall: $(READY)
	@$(STUDY) workflow/config/alltoall_small.yaml

allreduce: $(READY)
	@$(STUDY) workflow/config/allreduce_small.yaml

permutation: $(READY)
	@$(STUDY) workflow/config/permutation_small.yaml

dnn: $(READY)
	@$(STUDY) workflow/config/dnn.yaml
	@hxmesh report results/dnn --show

# Why the alltoall of torus and Hx4Mesh gets worse behind full buffers: docs/congestion.md.
congestion: $(READY)
	@$(STUDY) workflow/config/congestion.yaml
	@python -m analysis.congestion results/congestion

figures: alltoall allreduce permutation

# Utilisation of shared machines against the published one, and jobs simulated together: results/allocation/.
allocation: $(READY)
	@hxmesh allocate study --processes $(CORES)
	@hxmesh allocate interference --processes $(CORES)

# One run at a time whatever CORES is: wall times are compared. VALIDATE=validate_64 is its smaller half.
VALIDATE ?= validate
validate: $(READY)
	@hxmesh sst build
	@snakemake --cores 1 --keep-going --configfile workflow/config/$(VALIDATE).yaml
	@hxmesh report results/$(VALIDATE) --show

slurm: $(READY_SLURM)

# An image of this with SST. CONTAINER=podman takes another program, SST_IMAGE=... another image with SST.
CONTAINER ?= docker
container:
	$(CONTAINER) build --file containers/Dockerfile --tag hxmesh $(if $(SST_IMAGE),--build-arg SST_IMAGE=$(SST_IMAGE)) .

test: $(READY_DEV)
	pytest -n $(CORES) -m "not slow"

slow: $(READY_DEV)
	pytest -n $(CORES) -m "slow"

# The table of docs/cluster.md.
faults: $(READY_DEV)
	pytest tests/cluster/test_faults.py --fault-table docs/cluster.md

# The tests that reach C++ code, with address and undefined-behaviour sanitizers: build/sanitize/.
sanitize: $(READY_DEV)
	.ci/sanitize -q

# Instructions a packet-hop, by callgrind, against benchmarks/instructions.json; STORE=1 writes that file.
instructions: $(READY_DEV)
	@if command -v valgrind >/dev/null; then \
		.ci/modules build/profile cmake.define.HXMESH_PROFILE=ON && \
		build/profile/venv/bin/python benchmarks/instructions.py $(if $(STORE),--store); \
	else echo "NOT COUNTED: valgrind is not installed"; fi

# Changed files for everything that reads schedules, FUZZ_SECONDS each; what fails is kept in build/fuzz/.
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= $(shell date +%s)
fuzz: $(READY_DEV)
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) pytest -n $(CORES) -q tests/fuzz

lint: $(READY_DEV)
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow/rules
	codespell
	clang-format --dry-run --Werror $$(git ls-files '*.hpp' '*.cpp' '*.cc')
	snakemake --lint --configfile workflow/config/table2_small.yaml

types: $(READY_DEV)
	mypy

# Exact versions with hashes, for every platform and Python from 3.11 on; no index addresses in them.
LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock: $(READY_DEV)
	$(LOCK) --extra build --output-file requirements.lock pyproject.toml
	$(LOCK) --extra slurm --constraint requirements.lock --output-file requirements-slurm.lock pyproject.toml
	$(LOCK) --extra dev --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml

# Speed and memory of the engine from 64 to 16,384 accelerators; COUNTS=1: instructions and cache misses, by callgrind.
ifdef COUNTS
bench: $(READY_DEV)
	.ci/modules build/profile cmake.define.HXMESH_PROFILE=ON
	build/profile/venv/bin/python -P -m benchmarks.engine_speed --counts
else
bench: $(READY)
	python -m benchmarks.engine_speed
endif

# Time and memory from 256 to 65,536 accelerators, with exponents: results/growth/.
growth: $(READY)
	python -m benchmarks.growth

clean:
	rm -rf build $(VENV)
