# Two commands for users: `make run` and `make test`. Everything else is a part of them, or for people who change the code.
SHELL := /bin/bash
CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
FUZZ_RUNS ?= 5000
SIM_SEEDS ?= 0..10000
# Seeds for the command that checks its arithmetic. It takes ten times as long as the optimised one.
SIM_CHECKED ?= 0..1000
# Seeds that also draw the shape of their world.
SIM_DRAWN ?= 0..1000
FUZZ_SEED ?= 1
KILLS ?= 200
# The random tests run with a fixed seed, so that a run judges the change and not its luck; `make explore` looks further.
export PROPTEST_RNG_SEED ?= 1
EXPLORE_CASES ?= 20000
# The oldest compiler, as Cargo.toml says.
RUST_VERSION := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
FUZZ_TARGETS := frame bfrops pmi regex maps registration retrieval segment server_ops conversation directives endpoints fabric storage inventory topology

# `modex` without shared libraries: each process of a job begins with an exec, and to find, map and bind libraries takes
# longer than everything else that such a start does. The crate's build scripts name what hwloc needs, of which nothing gets in;
# one of these exists as a shared library alone.
STANDALONE := -C target-feature=+crt-static -C relocation-model=static -L native=$(TARGET_DIR)/absent

BUILD_PACKAGES := gcc pkg-config libhwloc-dev libudev-dev
TEST_PACKAGES := g++ libpmix-dev strace valgrind
CONSUMER_PACKAGES := openmpi-bin libopenmpi-dev libpmix-bin python3-pmix mpich libmpich-dev libpmi2-0-dev python3-pip
# A Slurm cluster in namespaces (tests/slurm/cluster.sh).
CONSUMER_PACKAGES += slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge iproute2

# Tests that "all targets" leaves out, as `cargo test` does: they need Debian packages and the C library.
CONSUMER_TESTS := consumers interop retrieval_in_c errno_in_c
# A test that hangs fails a run, and does not stop it.
CARGO_TEST := $(CARGO) --config 'target."cfg(unix)".runner="$(CURDIR)/scripts/end-if-silent.sh"' test
# Builds the command for those that use it, as `unit` does: cargo builds it for the tests of its own package alone.
COMMAND_FOR_TESTS = $(CARGO) test --quiet --all-features --no-run --test cli

# Where `make install` puts things, below DESTDIR.
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
BUILT ?= $(TARGET_DIR)/release
# The release of OpenPMIx whose interface the library has; libpmix/include/pmix_version.h says the same.
PMIX_VERSION := 4.2.9

.PHONY: help run test optimised checked build hot-functions lib install uninstall install-only uninstall-only fmt lint docs unit explore sim faults kills consumers consumer-packages loom fuzz fuzz-smoke fuzz-repro fuzz-min fuzz-cov fuzz-describe big-endian asan features msrv bench packages test-packages clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

run: build ## build and run a real 4-process job on the embedded server
	$(TARGET_DIR)/release/modex run -n 4 --report -- $(TARGET_DIR)/release/modex demo

# Files for a next, incremental build fill disks, and these builds have no next one.
test: export CARGO_INCREMENTAL ?= 0
test: consumer-packages fmt ## everything CI runs
	@# The library is optimised as a whole, by one thread. The other processor checks meanwhile.
	$(MAKE) --jobs=2 --output-sync=target optimised checked
	$(MAKE) unit sim consumers docs loom fuzz-smoke run

optimised: lib build
checked: lint features msrv

build: packages
	@mkdir -p $(TARGET_DIR)/absent && rm -f $(TARGET_DIR)/absent/libudev.a && ar rcs $(TARGET_DIR)/absent/libudev.a
	$(CARGO) build --release --package modex-cli --bin modex-topology
	$(CARGO) rustc --release --package modex-cli --bin modex -- $(STANDALONE) -C linker="$(CURDIR)/scripts/link-in-order.sh"

hot-functions: build lib test-packages ## measure anew which functions `make build` and `make lib` put next to each other
	scripts/hot-functions.sh $(TARGET_DIR)/release/modex $(TARGET_DIR)/release

# libpmix/link-args has the name by which programs ask for the library. `nodelete`: Open MPI, Slurm and Intel MPI close it while
# its threads may run and callers keep pointers to its functions. `defs`: a missing function is an error here, not when it is called.
lib: packages ## build the C library, target/release/libpmix.so.2, and its twin for `modex host`
	$(CARGO) rustc --profile libpmix --package libpmix --crate-type cdylib -- @libpmix/link-args -C linker="$(CURDIR)/scripts/link-in-order.sh"
	install -D -m 755 $(TARGET_DIR)/libpmix/libpmix.so $(TARGET_DIR)/release/libpmix.so.2
	ln -sfn libpmix.so.2 $(TARGET_DIR)/release/libpmix.so
	install -D -m 755 $(TARGET_DIR)/libpmix/deps/libmodex-pmix.so $(TARGET_DIR)/release/libmodex-pmix.so

install: build lib install-only ## install library, headers, command, man pages, completions (PREFIX=/usr/local DESTDIR=; FORCE=1 replaces another PMIx library)

uninstall: uninstall-only ## remove what `make install` installed (same PREFIX and DESTDIR)

install-only uninstall-only: # without building
	@PREFIX=$(PREFIX) BINDIR=$(BINDIR) LIBDIR=$(LIBDIR) INCLUDEDIR=$(INCLUDEDIR) DATADIR=$(DATADIR) \
		DESTDIR=$(DESTDIR) FORCE=$(FORCE) PMIX_VERSION=$(PMIX_VERSION) BUILT=$(BUILT) scripts/install.sh $(@:-only=)

packages:
	@command -v $(CARGO) >/dev/null || { echo "error: no cargo found; install a Rust toolchain ($(RUST_VERSION) or newer) from https://rustup.rs" >&2; exit 1; }
	@scripts/install-packages.sh $(BUILD_PACKAGES)

test-packages: packages
	@scripts/install-packages.sh $(TEST_PACKAGES)

consumer-packages: test-packages
	@scripts/install-packages.sh $(CONSUMER_PACKAGES)
	@scripts/install-wheels.sh $(TARGET_DIR)/wheels

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	$(CARGO) clippy $(CONSUMER_TESTS:%=--test %) --all-features -- -D warnings

features: ## the library with every set of its features, the examples without internals, and what would be published
	# Two lints count public functions alone, and others are public with the internals.
	$(CARGO) clippy --package modex --lib -- -D warnings -A unfulfilled_lint_expectations -A clippy::wrong_self_convention
	$(CARGO) clippy --package modex --lib --features unstable-internals -- -D warnings
	$(CARGO) clippy --package modex --lib --features unstable-internals,posix-shm -- -D warnings
	$(CARGO) clippy --package modex --lib --features unstable-internals,topology -- -D warnings
	CARGO=$(CARGO) scripts/examples-alone.sh $(abspath $(TARGET_DIR))
	$(CARGO) package --package modex --allow-dirty --quiet

# With that very compiler the other targets of `make test` are the check.
msrv: packages ## compile everything with the oldest compiler that Cargo.toml permits
	@rustc --version | grep -q '^rustc $(RUST_VERSION)\.' || \
		rustup run --install $(RUST_VERSION).0 cargo check --locked --workspace --all-targets --all-features --target-dir $(TARGET_DIR)/msrv

unit: lib ## unit, property and integration tests
	$(CARGO) build --all-features --examples
	MODEX_LIBPMIX=$(abspath $(TARGET_DIR))/release/libpmix.so.2 $(CARGO_TEST) --all-features --lib --bins --tests --no-fail-fast

explore: build ## the property tests with new seeds and many cases (EXPLORE_CASES=20000; suites whose cases take longer try fewer), three operations in the search of their states, and as many simulated clusters of drawn shapes
	first=$$(( $$(date +%s) * 1000000 )); $(TARGET_DIR)/release/modex sim --drawn --seeds $$first..$$(( first + $(EXPLORE_CASES) ))
	env -u PROPTEST_RNG_SEED PROPTEST_CASES=$(EXPLORE_CASES) MODEX_SEARCH=all $(CARGO) test --all-features --lib --test mixed_jobs --test wire_memory --test retrieval

sim: build ## simulated clusters under faults, and defects planted to see that they are found (SIM_SEEDS=A..B, SIM_CHECKED=A..B, SIM_DRAWN=A..B)
	$(CARGO) build --all-features --bin modex
	$(TARGET_DIR)/debug/modex sim --seeds $(SIM_CHECKED) --nodes 3 --ranks 5 --phases 2
	$(TARGET_DIR)/release/modex sim --seeds $(SIM_SEEDS) --nodes 3 --ranks 5 --phases 2
	$(TARGET_DIR)/release/modex sim --seeds $(SIM_DRAWN) --drawn
	@status=0; $(TARGET_DIR)/debug/modex sim --seeds 0..100 --faults canary || status=$$?; \
		[ $$status = 1 ] || { echo "error: a planted defect was not found (status $$status)" >&2; exit 1; }

faults: consumer-packages ## errors from the kernel at every system call of a client, in Rust and in C, of a server, over both sockets, and of `modex run`: all places
	$(COMMAND_FOR_TESTS)
	MODEX_FAULTS=all $(CARGO) test --all-features --test errno
	MODEX_FAULTS=all $(CARGO) test --all-features --test errno_in_c

kills: consumer-packages ## jobs of Open MPI on four hosts with ranks killed at random (KILLS=200)
	MODEX_KILLS=$(KILLS) $(CARGO) test --all-features --test consumers mpi_kills -- --nocapture

consumers: consumer-packages ## Open MPI, MPICH, Intel MPI, C programs, pmixbench and Python on libpmix.so.2 (MODEX_LIBPMIX_DIR= : on Debian's), and both libraries in one job
	$(COMMAND_FOR_TESTS)
	@for test in $(CONSUMER_TESTS); do $(CARGO_TEST) --all-features --test $$test || exit 1; done

docs:
	$(CARGO) test --all-features --doc
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --all-features

loom: ## model-check the publication protocol
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test --package modex --lib --no-default-features loom_
	@[ "$$CARGO_INCREMENTAL" != 0 ] || rm -rf target/loom

fuzz: ## search with one fuzz target for a time (TARGET=registration SECONDS=3600); findings stay in fuzz/artifacts
	scripts/fuzz.sh search $(TARGET) $(SECONDS)

fuzz-repro fuzz-min: ## run an input of a target again (TARGET=registration INPUT=FILE), or find a shorter one that fails as well
	scripts/fuzz.sh $(@:fuzz-%=%) $(TARGET) $(INPUT)

fuzz-cov: ## the lines of the library that the corpus of a target reaches (TARGET=registration)
	scripts/fuzz.sh cov $(TARGET)

fuzz-describe: ## the job that an input of the target `registration` describes (INPUT=FILE)
	scripts/fuzz.sh describe $(INPUT)

fuzz-smoke: ## a short run of each fuzz target over its corpus
	FUZZ_SEED=$(FUZZ_SEED) scripts/fuzz-smoke.sh $(FUZZ_RUNS) $(FUZZ_TARGETS)

big-endian: lib build consumer-packages ## Debian's OpenPMIx of a big-endian machine, in an emulator, beside ours (downloads packages)
	@scripts/install-packages.sh qemu-user gcc-s390x-linux-gnu libc6-dev-s390x-cross
	scripts/big-endian.sh $(TARGET_DIR)/release/modex $(TARGET_DIR)/release

asan: consumer-packages ## AddressSanitizer over the fuzz targets and the C suite
	RUNS=$(FUZZ_RUNS) TARGETS="$(FUZZ_TARGETS)" scripts/asan.sh fuzz c

bench: build ## figures of this machine, its limits beside them
	scripts/bench.sh

clean:
	$(CARGO) clean
