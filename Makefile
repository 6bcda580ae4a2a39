# Two commands for users: `make run` and `make test`. Everything else is a part of them or for carriers-on.
SHELL := /bin/bash
CARGO ?= cargo
FUZZ_RUNS ?= 5000
FUZZ_SEED ?= 1
FUZZ_TARGETS := frame bfrops regex registration segment server_ops

BUILD_PACKAGES := gcc pkg-config libhwloc-dev libudev-dev
TEST_PACKAGES := g++ strace
CONSUMER_PACKAGES := openmpi-bin libopenmpi-dev libpmix-dev libpmix-bin python3-pmix valgrind

.PHONY: help run test build fmt lint docs unit consumers consumer-packages loom fuzz-smoke features bench packages test-packages clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

run: build ## build and run a real 4-process job on the embedded server
	target/release/modex run -n 4 --report -- target/release/modex demo

test: test-packages fmt lint features unit docs loom fuzz-smoke ## everything CI runs

build: packages
	$(CARGO) build --release

packages:
	@command -v $(CARGO) >/dev/null || { echo "error: no cargo found; install a Rust toolchain (1.95 or newer) from https://rustup.rs" >&2; exit 1; }
	@scripts/install-packages.sh $(BUILD_PACKAGES)

test-packages: packages
	@scripts/install-packages.sh $(TEST_PACKAGES)

consumer-packages: packages
	@scripts/install-packages.sh $(CONSUMER_PACKAGES)

fmt:
	$(CARGO) fmt --check

lint:
	$(CARGO) clippy --all-targets --all-features -- -D warnings

features: ## the library alone, as an MPI library would link it
	$(CARGO) clippy --lib --no-default-features -- -D warnings

unit: ## unit, property and integration tests
	$(CARGO) test --all-features --lib --bins --tests

consumers: consumer-packages ## Open MPI, C programs, pmixbench and Python on libpmix.so.2 (MODEX_LIBPMIX_DIR= : on Debian's)
	$(CARGO) clippy --test consumers --all-features -- -D warnings
	$(CARGO) test --all-features --test consumers

docs:
	$(CARGO) test --all-features --doc
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --all-features

loom: ## model-check the publication protocol
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test --lib --no-default-features loom_

fuzz-smoke: ## a short run of each fuzz target over its corpus
	FUZZ_SEED=$(FUZZ_SEED) scripts/fuzz-smoke.sh $(FUZZ_RUNS) $(FUZZ_TARGETS)

bench: build ## figures of this machine, its limits beside them
	scripts/bench.sh

clean:
	$(CARGO) clean
