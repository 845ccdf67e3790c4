# Every habit of the house, one word each. `make help` lists those of every day, `make help-all` all of them.

CARGO ?= cargo
PORT ?= 6379
HTTP_PORT ?= 8379
SIDEKIQ ?= 7
MACHINES ?= x86_64
export VERSION SUITES PARTS JOBS PROCESSES THREADS QUEUES URL PEER PEERS TIMES BUSY ONLY

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*/\1/p' Makefile)

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

help-all: ## The other targets, too
	@grep -hE '^[a-z-]+:.*# ' Makefile | sed -E 's/:.*# /\t/' | sort | column -t -s "$$(printf '\t')"

# Built fast, see docs/decisions/first-build.md. `programs` builds what packages contain.
run: ports-are-free compilers-are-there ## Build and start the server on PORT (6379), its console on HTTP_PORT (8379) of this machine
	$(CARGO) --config 'build.rustflags=["--cfg=quick"]' build --profile quick -p server
	DARTER=$${DARTER:-target/quick/darter} PORT=$(PORT) HTTP_PORT=$(HTTP_PORT) scripts/run

ports-are-free:
	@PORT=$(PORT) HTTP_PORT=$(HTTP_PORT) scripts/run --check

build: # Build for tests
	$(CARGO) build --workspace

programs: compilers-are-there # Build for use: target/release/darter and darter-bench, as packages have them
	$(CARGO) build --release -p server -p bench

compilers-are-there:
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: see https://rustup.rs, then run make again"; exit 1; }
	@command -v cc >/dev/null || { echo "A C compiler is missing: apt-get install build-essential, then run make again"; exit 1; }

setup: # Install what the tests need (Debian, as root)
	scripts/setup

test: setup ## Everything that runs in minutes: what CI runs
	scripts/test

test-again: ## The tests of `cargo test` TIMES (20) times, half of them with BUSY (2) processes beside that only compute: what fails by luck; ONLY=part of a name
	scripts/test-again

quick-test: ## Unit tests and the rules of the house only
	$(CARGO) test --workspace --lib -q

differential: build # Random commands against redis-server, for DARTER_SECONDS (600), from a fresh seed
	DARTER=$(CURDIR)/target/debug/darter DARTER_SECONDS=$${DARTER_SECONDS:-600} $(CARGO) test -p blackbox --test suite differential:: -- --nocapture

simulate: ## The whole server in simulation, each test for DARTER_SECONDS (120), from DARTER_SEED on (fresh)
	DARTER_SEED=$${DARTER_SEED:-$$(date +%s)} DARTER_SECONDS=$${DARTER_SECONDS:-120} \
		$(CARGO) test -p sim -- --nocapture

specs: # The specs of protocols in docs/specs: they hold, their mutants are caught (most of an hour; ONLY=Group for one)
	scripts/specs $(ONLY)

hostile: build ## The tests of bad input, and of replicas and clients that read nothing under maxmemory, at twenty times their size: 20,000 connections, thousands of random requests
	DARTER=$(CURDIR)/target/debug/darter DARTER_SCALE=20 $(CARGO) test -p server --test crowd --test console -- --nocapture
	DARTER=$(CURDIR)/target/debug/darter DARTER_SCALE=20 $(CARGO) test -p server --test suite -- requests:: resets:: not_counted:: --nocapture

fuzz: ## The decoders under the fuzzer, each for FUZZ_SECONDS (600); what it finds is kept in fuzz/corpus
	FUZZ_CORPUS=1 scripts/fuzz -max_total_time=$${FUZZ_SECONDS:-600}

loom: # Baton, mailbox, inbox, mailbox of the allocator, the allocator's stacks and the order of the log under the model checker
	RUSTFLAGS="--cfg loom" $(CARGO) test -p shard --test loom --release --target-dir target/loom
	RUSTFLAGS="--cfg loom" $(CARGO) test -p proactor --test loom_inbox --release --target-dir target/loom
	RUSTFLAGS="--cfg loom" $(CARGO) test -p heap --test loom_mailbox --test loom_stack --release --target-dir target/loom
	RUSTFLAGS="--cfg loom" $(CARGO) test -p effectlog --test loom --release --target-dir target/loom

miri: # The unsafe code of heap, ds and keyspace under Miri (nightly)
	scripts/miri

sanitize: # The Lua binding, the allocator and what is between threads under the address and the thread sanitizer, then a server under clients (nightly)
	scripts/sanitize

lint: ## Formatting and clippy, as CI sees them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt: # Format
	$(CARGO) fmt --all

# The word after `bench` names a benchmark rather than a target.
ifeq ($(firstword $(MAKECMDGOALS)),bench)
NAME ?= $(word 2,$(MAKECMDGOALS))
$(foreach word,$(wordlist 2,2,$(MAKECMDGOALS)),$(eval $(word):;@:))
endif
bench: $(if $(wildcard scripts/bench-$(NAME)),programs) ## A benchmark: make bench NAME OPTIONS="its options"; without NAME, the list of them
	@scripts/bench $(NAME) $(OPTIONS)

scaling-model: # What to expect on 1 to 64 cores, computed from costs measured on two (docs/scaling.md)
	scripts/scaling-model

sentinel: programs # Three real Sentinels and two or three Darters: killed, stopped (also until the moment of the election), handed over, by offsets too, SOAK (1) times, with an account of what was acknowledged
	DARTER=$(CURDIR)/target/release/darter DARTER_SCALE=$(or $(SOAK),1) $(CARGO) test -p blackbox --test suite sentinel:: -- --ignored --nocapture
	DARTER=$(CURDIR)/target/release/darter DARTER_SCALE=$(or $(SOAK),1) $(CARGO) test -p blackbox --test suite offsets:: -- --nocapture

crash: ## kill -9 for MINUTES (10), from SEED on (fresh), of SERVER (Darter with appendfsync always); TOLERANCE_MS: what it may lose (0)
	$(CARGO) build --release -p server -p blackbox
	target/release/crash --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) --tolerance-ms $(or $(TOLERANCE_MS),0) \
		$(or $(SERVER),target/release/darter --appendonly yes --appendfsync always)

recover-sidekiq: programs # kill -9 of real Sidekiq workers (SIDEKIQ=6, 7 or 8) for MINUTES (10), with job-recovery; SEED; WAIT=yes lets their keys expire by themselves
	gates/sidekiq/setup $(SIDEKIQ)
	gates/sidekiq/recover --sidekiq $(SIDEKIQ) --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(WAIT),--wait) $(SERVER)

crash-sidekiq: programs # kill -9 for MINUTES (10) of SERVER (Darter with appendfsync always) under real Sidekiq (SIDEKIQ=6, 7 or 8); SEED, TOLERANCE_MS as for crash
	gates/sidekiq/setup $(SIDEKIQ)
	gates/sidekiq/crash --sidekiq $(SIDEKIQ) --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) --tolerance-ms $(or $(TOLERANCE_MS),0) $(SERVER)

jobs-soak: # kill -9 for MINUTES (60), from SEED on (fresh), under workers with leases, limits and a schedule; what they heard is checked. REPLICA=yes: failovers
	$(CARGO) build --release -p server -p blackbox
	target/release/jobs-soak --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED)) $(if $(REPLICA),--replica) \
		target/release/darter --proactor-threads=8 --threads-elastic=no \
		$(if $(REPLICA),--repl-sync-replicas 1 --repl-diskless-sync-delay 0,--appendonly yes --appendfsync always)

power-failure: # Power failures at POINTS (2000) moments of one run of SERVER, DISK=any (default) or ordered; SEED, SECONDS_RUN (3), TOLERANCE_MS
	$(CARGO) build --release -p server -p blackbox
	target/release/power-failure --seconds $(or $(SECONDS_RUN),3) --points $(or $(POINTS),2000) --disk $(or $(DISK),any) \
		$(if $(SEED),--seed $(SEED)) --tolerance-ms $(or $(TOLERANCE_MS),0) \
		$(or $(SERVER),target/release/darter --appendonly yes --appendfsync always)

demo: programs ## Real Sidekiq workers drain Darter; PEER=redis compares
	gates/sidekiq/setup $(SIDEKIQ)
	SIDEKIQ=$(SIDEKIQ) gates/sidekiq/demo

migrate-demo: programs # Real Sidekiq moves from redis-server to Darter and back while it works: JOBS (20000), SIDEKIQ (7), with an account of every job
	scripts/setup
	gates/sidekiq/setup $(SIDEKIQ)
	SIDEKIQ=$(SIDEKIQ) gates/sidekiq/migrate-demo

ha-demo: programs # Real Sidekiq, three real Sentinels, SERVERS (2) Darters: killed, stopped, cut off, handed over in turn, SOAK (4) times in all, with an account of every job
	scripts/setup
	gates/sidekiq/setup $(SIDEKIQ)
	SIDEKIQ=$(SIDEKIQ) gates/sidekiq/ha-demo

console: programs # The console in headless Chromium: with made-up data, then on Darter with real Sidekiq, BullMQ and Celery
	scripts/setup
	gates/console/run
	gates/run --on darter console

static: # The programs that are packaged: static, for x86-64; MACHINES="x86_64 aarch64" for both
	packaging/build $(MACHINES:%=%-unknown-linux-musl)

tarball: static # The archive for any Linux, and its debugging information: target/packages/darter-VERSION-linux-MACHINE.tar.xz; MACHINES
	for machine in $(MACHINES); do DARTER=target/$$machine-unknown-linux-musl/release/darter packaging/tarball || exit 1; done

deb: programs # The package for Debian and Ubuntu: target/packages/darter_VERSION-1_ARCH.deb; VERSION: by default that of the programs
	packaging/deb

rpm: static # The package for Fedora, RHEL and their like: target/packages/darter-VERSION-1.MACHINE.rpm
	packaging/rpm

container: static # The container image darter:VERSION, with docker, podman or buildah
	packaging/container

release: ## Everything that a release has, all packages with a bill of materials and SHA256SUMS: target/release-files; JOBS
	packaging/release

test-container: # The container image IMAGE as people run it (as root, with podman or docker)
	scripts/test-container $(IMAGE)

test-charts: # The chart, its manifests and compose.yaml: lint, schemas, golden files; DARTER_UPDATE=1 writes the manifests
	scripts/test-charts

test-tarball: # The archive for MACHINE (aarch64) under qemu-user: serves, saves, comes back
	packaging/test-tarball $(or $(MACHINE),aarch64)

test-rpm: rpm # The RPM package in a root with a real systemd (as root): installed, upgraded, removed
	packaging/test-rpm

test-packages: deb # The package in clean roots of Debian 12 and 13 (as root): installed, upgraded, purged, beside redis-server and in its place; SUITES, PARTS
	packaging/test-deb

test-adopt: programs # darter-adopt-redis against Redis in its states (stopped, ACL file, TLS only, Unix socket only) and Valkey, in seconds (as root)
	packaging/test-adopt

systemd: programs # The unit file under a real systemd, in roots of Debian 12 and 13 (as root): SUITES, DARTER
	scripts/try-unit

gate-memcached: programs # memcached's clients: libmemcached's memccapable, pymemcache's tests, against Darter and memcached
	scripts/gate-memcached

audit: # What of others is built in: licences, sources and banned crates (deny.toml), and known faults if cargo-deny or cargo-audit is there
	scripts/audit

sbom: # The bill of materials of the shipped programs, with the C code in them: target/sbom/darter.cdx.json (CycloneDX)
	scripts/sbom

gates: programs ## Real clients and their tests against Darter and redis-server, in one table: GATE=one or several (docs/gates.md)
	gates/run $(GATE)
	$(if $(GATE),,scripts/gate-memcached)

clean: # Remove what was built
	$(CARGO) clean
