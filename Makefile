# WiFu's targets. `make` or `make help` lists them. Each installs what it lacks by scripts/setup.sh
# (root or sudo is needed for that, for `demo`, `bench` and for those tests that make namespaces).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
PYTHON := .venv/bin/python
CARGO := cargo
# Seconds that each fuzz target runs in `make test`.
FUZZ_SECONDS ?= 10
# For what makes namespaces. What was built before belongs to who called make.
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),sudo)
# Further arguments for the demonstration and the benchmark, e.g. make demo ARGS='--size 10M'.
ARGS ?=

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | \
		awk -F ':.*## ' '{ printf "make %-12s %s\n", $$1, $$2 }'

.PHONY: build
build: ## build everything for use (release profile)
	@scripts/setup.sh build
	$(CARGO) build --release --locked --workspace

# The extension goes beside the sources of the package, which is installed as a link to them.
.PHONY: python
python: ## build the Python package wifu (simulator and lab) and install it into .venv
	@scripts/setup.sh lab
	PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/.venv .venv/bin/maturin develop --quiet --profile python --locked

.PHONY: demo
demo: build python ## unmodified programs over each TCP; TCP, TCP-AP, ATP and HxH over a simulated mesh; simulated beside emulated
	@scripts/setup.sh demo
	mkdir -p out
	$(AS_ROOT) $(PYTHON) tools/demo.py --bin $(TARGET_DIR)/release $(ARGS)
	rm -rf out/demo-mesh
	.venv/bin/wifu-lab run experiments/demo --out out/demo-mesh
	$(AS_ROOT) rm -rf out/demo-emu
	$(AS_ROOT) env WIFU_BIN=$(TARGET_DIR)/release/wifu .venv/bin/wifu-lab run experiments/demo-emu \
		--out out/demo-emu --on sim,emu

.PHONY: reproduce
reproduce: build python ## the experiments of three papers in short, with their claims (whole: wifu-lab reproduce --help)
	rm -rf out/reproduce/tcp-ap-quick out/reproduce/wifu-quick out/reproduce/atp-quick
	.venv/bin/wifu-lab reproduce tcp-ap --quick
	.venv/bin/wifu-lab reproduce atp --quick
	WIFU_BIN=$(TARGET_DIR)/release/wifu .venv/bin/wifu-lab reproduce wifu --quick

.PHONY: bench
bench: build ## speed beside the kernel's TCP; tables to the screen and to out/bench
	@scripts/setup.sh bench
	$(CARGO) build --release --locked -p wifu-sim --example mesh_speed
	$(PYTHON) tools/bench.py --bin $(TARGET_DIR)/release $(ARGS)

# Half of the tests wait for the real clock; what only computes goes on meanwhile. What both need is
# installed and built before, the libraries that tests of the lab load among it: two at once would be
# in each other's way.
.PHONY: test-setup
test-setup:
	@scripts/setup.sh build lint python lab test apps audit

.PHONY: test
test: test-setup lint unit-build custom python ## everything that must pass before a change goes in
	scripts/meanwhile.sh 'unit lab-clock apps' 'lab-quick packetdrill doctest count audit fuzz'
	@echo "make test: all passed"

# Modules that a macro declares are invisible to `cargo fmt`.
PARTS := $(wildcard crates/wifu-parts/src/*/*.rs)

.PHONY: fmt
fmt: ## format everything
	@scripts/setup.sh lint python
	$(CARGO) fmt --all
	rustfmt --edition 2024 $(PARTS)
	.venv/bin/ruff --quiet format --config tools/pyproject.toml tools
	.venv/bin/ruff --quiet format python

.PHONY: lint
lint: lint-fast ## formatting, clippy, rustdoc, and the checks of the Python code
	@scripts/setup.sh lint lab
	$(CARGO) clippy --quiet --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --quiet --locked --workspace --no-deps
	.venv/bin/mypy --config-file tools/pyproject.toml tools
	.venv/bin/mypy python

# What takes seconds, for .pre-commit-config.yaml.
.PHONY: lint-fast
lint-fast: ## the half of it that compiles nothing: formatting, ruff, links of the book
	@scripts/setup.sh lint python
	$(CARGO) fmt --all --check
	rustfmt --edition 2024 --check $(PARTS)
	.venv/bin/ruff --quiet format --check --config tools/pyproject.toml tools
	.venv/bin/ruff --quiet check --config tools/pyproject.toml tools
	.venv/bin/ruff --quiet format --check python
	.venv/bin/ruff --quiet check python
	$(PYTHON) tools/check_docs.py

# What tests run and preload. Fewer of our crates would be built with fewer features of others', hence
# all anew: what several targets need is built by the same words.
OURS := --workspace --lib --bins --examples

TESTS := --locked --workspace --lib --bins --tests --examples

# Libraries and examples are built first: tests preload them into unmodified programs and run them.
.PHONY: unit-build
unit-build:
	@scripts/setup.sh test python
	$(CARGO) build --quiet --locked $(OURS)
	$(CARGO) test --quiet $(TESTS) --no-run

.PHONY: unit
unit: unit-build ## all tests of the workspace, the style test included; the book's reference is up to date
	$(PYTHON) tools/reference.py --check --bin $(TARGET_DIR)/debug
	$(CARGO) test $(TESTS) --no-fail-fast

# A workspace of its own; what it shares with ours is built once. Our command loads its library.
.PHONY: custom
custom: ## crates of somebody else, with their tests: a command (examples/custom), libraries (examples/loaded, examples/hopwise)
	@scripts/setup.sh test
	$(CARGO) build --quiet --locked $(OURS)
	cd examples/custom && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) fmt --check
	cd examples/custom && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) clippy --quiet --locked --all-targets -- -D warnings
	cd examples/custom && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) test --locked
	cd examples/loaded && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) fmt --check
	cd examples/loaded && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) clippy --quiet --locked --all-targets -- -D warnings
	cd examples/loaded && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) test --locked
	cd examples/hopwise && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) fmt --check
	cd examples/hopwise && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) clippy --quiet --locked --all-targets -- -D warnings
	cd examples/hopwise && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) test --locked

# Also a workspace of its own. The program packetdrill is not needed.
.PHONY: packetdrill
packetdrill: ## the shared object that packetdrill plays scripts against (packetdrill/), and its tests
	@scripts/setup.sh test
	cd packetdrill && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) fmt --check
	cd packetdrill && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) clippy --quiet --locked --all-targets -- -D warnings
	cd packetdrill && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) test --locked
	cd packetdrill && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) build --quiet --locked

.PHONY: lab
lab: python lab-quick lab-clock ## tests of the Python package, the example notebook included

# Most of it draws figures, on one core each.
.PHONY: lab-quick
lab-quick:
	$(PYTHON) -m pytest -n auto --dist worksteal -m 'not real_time'

.PHONY: lab-clock
lab-clock:
	$(PYTHON) -m pytest -m real_time

.PHONY: apps
apps: ## unmodified programs over WiFu, and a short demonstration (root)
	@scripts/setup.sh test apps python
	$(CARGO) build --quiet --locked $(OURS)
	$(PYTHON) tools/check_applications.py --bin $(TARGET_DIR)/debug
	$(PYTHON) tools/demo.py --bin $(TARGET_DIR)/debug --size 2M --out out/demo-short

.PHONY: doctest
doctest: ## the examples in the documentation of the Rust code
	@scripts/setup.sh build
	$(CARGO) test --quiet --locked --workspace --doc

.PHONY: count
count: ## instructions per packet in the engine, compared with the last that were accepted
	@scripts/setup.sh test
	scripts/count.sh

.PHONY: suites
suites: build ## network tests of CPython and libuv over WiFu beside the kernel (root, a quarter of an hour)
	@scripts/setup.sh suites
	$(PYTHON) tools/suites.py --bin $(TARGET_DIR)/release $(ARGS)

.PHONY: hwsim
hwsim: ## what drivers of Wi-Fi tell a daemon, by a real kernel in QEMU (downloads 110 MB)
	$(CARGO) build --quiet --locked -p wifu -p wifu-preload
	tools/hwsim.sh out/hwsim $(TARGET_DIR)/debug/wifu

.PHONY: audit
audit: ## advisories, licences and sources of all dependencies
	@scripts/setup.sh build audit
	scripts/audit.sh

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZ_SECONDS seconds
	@if [ -d fuzz ]; then scripts/setup.sh fuzz && scripts/fuzz.sh $(FUZZ_SECONDS); fi

.PHONY: docs
docs: build ## the book (docs/book/index.html), its reference written anew from the registry
	@scripts/setup.sh docs python
	$(PYTHON) tools/reference.py --bin $(TARGET_DIR)/release
	mdbook build docs

.PHONY: clean
clean: ## remove everything that these targets made in this folder
	$(CARGO) clean
	rm -rf out .venv docs/book fuzz/target examples/custom/target examples/loaded/target examples/hopwise/target packetdrill/target python/wifu/_native*.so
