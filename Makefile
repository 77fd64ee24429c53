# Everything there is to do with the tree. CI runs it with .ci/run.

SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help

FUZZTIME ?= 1m
BENCH    ?= .
NEW      ?= .
SCREENS  ?= build/screens
TAPES    := $(or $(RUEDA_TAPES),../shared/data)
TESTRUN   = go run ./internal/testing/testrun

# make mutants: their number, the coverage profiles separated by commas, and the results. APPLY
# is a list of mutants to run instead; FLAGS has other arguments of tools/mutants, such as -seed,
# -run-with, -limit or -list. Delete build/cover.out after a change that is not committed.
MUTANTS  ?= 60
COVER    ?= build/cover.out
RESULTS  ?= build/mutants.json
LINT     := go tool -modfile=tools/go.mod golangci-lint

# Tests that may run at the same time: many wait, for other processes or for a time to pass.
PARALLEL := -parallel 8

# A test has its tier in its name. Those with E2E in it start processes or compute for long. Those
# that end in Long are storms, and loops over every byte or kill. make test runs the rest, make e2e
# runs E2E and Long, and make race runs the rest and Long with -short, in packages with goroutines or
# shared state.
#
# The race detector needs a C compiler. SQLite as translated from C is built without it: it would run
# three times slower. Its driver, which reads what we pass, is built with it.
WITH_RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false
CC_FOUND := $(shell command -v "$$(go env CC)" 2>/dev/null)
POSTGRES := $(wildcard /usr/lib/postgresql/*/bin/postgres)$(shell command -v postgres 2>/dev/null)
SLAPD    := $(wildcard /usr/sbin/slapd)$(shell command -v slapd 2>/dev/null)

.PHONY: help build run test race e2e cluster chaos alerts browser screens clients-python clients-typescript first-hour soak fuzz mutants house bench compare bench-report lint release test-packages

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the program, build/rueda
	@mkdir -p build
	go build -trimpath -o build/rueda ./cmd/rueda

run: ## a brokerage API with a moving market on http://127.0.0.1:8080
	go run ./cmd/rueda dev

test: ## format, vet, unit tests, scripts and conversations: needs Go alone
	@bad=$$(gofmt -l $$(find . -name '*.go' -not -path './.git/*')) || exit; \
		if [ -n "$$bad" ]; then echo "not formatted (gofmt -w them):"; echo "$$bad"; exit 1; fi
	go vet ./...
	$(TESTRUN) -tier quick -- -vet=off $(PARALLEL) -p 4 -timeout 10m
	@echo
	@echo "Left out:"
	@echo "  data races              make race (needs a C compiler)"
	@echo "  real processes, PostgreSQL, LDAP, OAuth, OpenAPI, DuckDB, kills, hostile clients, long computations: make e2e"
	@echo "  a cluster with NATS     make cluster"
	@echo "  faults and damage       make chaos"
	@echo "  alerts that fire        make alerts"
	@echo "  the Python client       make clients-python"
	@echo "  the TypeScript client   make clients-typescript"
	@echo "  a bot's first hour      make first-hour"
	@echo "  the console             make browser"
	@echo "  static analysis         make lint (builds the pinned linter once, some minutes)"
	@echo "  long counts in full     make soak"
	@echo "  fuzzing                 make fuzz"
	@echo "  measurements            make bench-report; go -C bench run . --help"
	@echo "  archives and packages   make test-packages"
	@[ -d "$(TAPES)" ] || echo "  recorded market tapes   set RUEDA_TAPES to the folder with binance_*.jsonl.gz"

race: ## the tests without E2E with the race detector, in packages with goroutines (needs a C compiler)
	$(TESTRUN) -tier race -- $(WITH_RACE) -vet=off $(PARALLEL) -p 3 -timeout 20m

e2e: ## tests with E2E in their name or Long at its end: real processes, PostgreSQL, LDAP, OAuth, OpenAPI, DuckDB, kills, hostile clients, long computations
	$(TESTRUN) -tier e2e -services -- -vet=off $(PARALLEL) -p 3 -timeout 20m
ifneq ($(CC_FOUND)$(RUEDA_REQUIRE_ALL),)
	$(TESTRUN) -C tests/duckdb -- -vet=off -timeout 20m ./...
endif
	$(TESTRUN) -C tests/oauth -- -vet=off -timeout 20m ./...
	$(TESTRUN) -C tests/openapi -- -vet=off -timeout 20m ./...
	$(TESTRUN) -C tools/mutants -- -vet=off -timeout 20m ./...
	$(TESTRUN) -C tools/house -- -vet=off -timeout 20m ./...
	$(TESTRUN) -C bench -- -vet=off -timeout 20m ./...
	@echo
	@echo "Left out:"
	@echo "  everything else         make test"
	@echo "  long counts in full     make soak"
	@[ -n "$(CC_FOUND)" ] || echo "  exported files read back by DuckDB: install a C compiler"
	@command -v npm >/dev/null || echo "  OAuth libraries of Node, Spectral, parsers and TypeScript types of the documents: install Node.js and npm"
	@[ -n "$(POSTGRES)" ] || echo "  all about PostgreSQL    apt-get install postgresql (it need not run: tests start their own)"
	@command -v curl >/dev/null && command -v jq >/dev/null || echo "  commands of the tutorial install curl and jq"
	@[ -n "$(SLAPD)" ] || echo "  LDAP user bases         apt-get install slapd ldap-utils (it need not run either)"
	@command -v promtool >/dev/null || echo "  metrics and alerts      apt-get install prometheus (it need not run either)"

cluster: ## a cluster simulated with a thousand schedules, and one of real processes that are killed, paused, cut off and upgraded (RUEDA_SOAK=10m: with 5,000 clients, for so long)
	RUEDA_SCHEDULES=1000 $(TESTRUN) -- -count=1 -timeout 20m -run 'Schedules|Broken|Same' ./internal/cluster/simulation
	$(TESTRUN) -C cmd/rueda-cluster -- -vet=off -timeout 60m ./...

chaos: ## one process and a cluster that are killed, paused, cut off, filled and damaged, from outside; CHAOS has flags of the tests, such as '-duration 20m -seed 7'
	$(TESTRUN) -C tests/chaos -- -count=1 -vet=off -timeout 20m ./market ./check
	$(TESTRUN) -C tests/chaos -- -count=1 -vet=off -timeout 180m ./single $(CHAOS)
	$(TESTRUN) -C tests/chaos -- -count=1 -vet=off -timeout 180m ./cluster $(CHAOS)

alerts: ## applies the cause of each alert to a gateway that a real Prometheus scrapes (a minute; needs Linux, root and Prometheus)
	RUEDA_ALERTS=1 $(TESTRUN) -- -count=1 -timeout 10m -run TestAlertsE2E ./tests/alerts

browser: ## the console in Chromium: clicks, keys, faults, axe-core, frames under load (needs chromium; npm for some)
	@command -v chromium >/dev/null || \
		{ echo "Left out: the console in a browser. Install chromium"; [ -z "$$RUEDA_REQUIRE_ALL" ]; exit; }; \
	mkdir -p build && go build -o build/rueda ./cmd/rueda && \
	RUEDA_PROGRAM=$(CURDIR)/build/rueda $(TESTRUN) -C tests/browser -- -vet=all -timeout 20m ./...

screens: ## pictures of all pages in both themes and languages, wide and narrow, in SCREENS (build/screens)
	@mkdir -p build $(SCREENS)
	go build -o build/rueda ./cmd/rueda
	RUEDA_SCREENS=$(abspath $(SCREENS)) RUEDA_PROGRAM=$(CURDIR)/build/rueda go -C tests/browser test -count=1 -timeout 60m -run 'TestScreens' -v .

clients-python: ## the client in clients/python: types, tests, package, conformance (needs Python and Debian packages that it names)
	clients/python/check

clients-typescript: ## the TypeScript client: types, tests, rueda conformance client (needs npm; Node 22 and 20 come from there)
	@mkdir -p build
	go build -o build/rueda ./cmd/rueda
	@command -v npm >/dev/null || \
		{ echo "Left out: the TypeScript client. It needs Node.js with npm"; [ -z "$$RUEDA_REQUIRE_ALL" ]; exit; }; \
	npm --prefix clients/typescript ci --no-audit --no-fund && clients/typescript/test/all build/rueda

first-hour: ## the clients as a bot author gets them, in each version of Python and Node.js, over a kill of the gateway (needs npm and Python)
	@mkdir -p build
	go build -o build/rueda ./cmd/rueda
	tests/first-hour/run build/rueda

soak: ## the long counts in full; prints their figures
	@mkdir -p build
	RUEDA_SOAK=1 go -C tests/browser test -count=1 -timeout 30m -v -run TestHeapSoak . | tee build/soak-browser.txt | grep --line-buffered -E 'figure:|^(ok|FAIL|panic)|--- FAIL'
	RUEDA_SOAK=1 go test -count=1 -p 1 -timeout 120m -v ./... | tee build/soak.txt | grep --line-buffered -E 'figure:|^(ok|FAIL|panic)|--- FAIL'

fuzz: ## every fuzz target for FUZZTIME (1m), one after another
	@grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
		for target in $$(grep -oE '^func Fuzz[A-Za-z0-9_]+' "$$file" | cut -c6-); do \
			echo "== $$target in $$(dirname "$$file")"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s "$$(dirname "$$file")" || exit 1; \
		done; \
	done

mutants: $(if $(APPLY),,$(filter build/cover.out,$(COVER))) ## changes executed statements one at a time and lists the changes that no test finds (hours; MUTANTS, COVER, APPLY, RESULTS, FLAGS)
	go -C tools/mutants build -o ../../build/mutants .
	build/mutants $(if $(APPLY),-apply $(APPLY),-cover $(COVER) -n $(MUTANTS)) -json $(RESULTS) $(FLAGS)

build/cover.out: $(wildcard $(shell git rev-parse --git-path logs/HEAD 2>/dev/null))
	@mkdir -p build
	go test -vet=off -skip E2E -coverprofile=$@.part ./...
	@mv $@.part $@

bench: ## the benchmarks with allocations; BENCH chooses by name
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...

# The file of a program: itself, or where the one of a commit or of this tree (.) is built. The name
# of a commit's program has the version of Go too.
commit  = $(or $(shell git rev-parse -q --verify --short=12 '$(1)^{commit}' 2>/dev/null),$(error $(1) is neither a commit nor a file))
program = $(abspath $(if $(filter .,$(1)),build/compare/bench-tree,$(or $(wildcard $(1)),build/compare/bench-$(firstword $(shell go env GOVERSION))-$(call commit,$(1)))))

compare: ## measures OLD and NEW in pairs: commits, files of programs, or this tree (NEW=.); ONLY chooses workloads, FLAGS has flags
	@$(if $(OLD),,$(error make compare OLD=COMMIT [NEW=COMMIT] [ONLY=spread]))
	@$(MAKE) -r --no-print-directory $(call program,$(OLD)) $(call program,$(NEW))
	go -C bench run . compare $(call program,$(OLD)) $(call program,$(NEW)) $(if $(ONLY),--only '$(ONLY)') $(FLAGS)

# Older commits have the measured gateway in the program rueda.
$(CURDIR)/build/compare/bench-%:
	trap 'rm -rf $@.d' EXIT; mkdir -p $@.d && git archive $(lastword $(subst -, ,$*)) | tar -x -C $@.d && \
		if [ -f $@.d/bench/main.go ]; then go -C $@.d/bench build -trimpath -buildvcs=false -o $@ .; \
		else go -C $@.d build -trimpath -buildvcs=false -o $@ ./cmd/rueda; fi

.PHONY: $(CURDIR)/build/compare/bench-tree
$(CURDIR)/build/compare/bench-tree:
	@mkdir -p $(@D)
	go -C bench build -trimpath -o $@ .

bench-report: ## all measurements but compare, hostile and auth, with reports in build/bench (over an hour)
	@mkdir -p build/bench
	go -C bench build -o ../build/bench/bench .
	for what in ceiling fanout latency idle connect slow resume history million; do build/bench/bench $$what --out build/bench > build/bench/$$what.txt || exit 1; done
	go -C bench run ./rivals > build/bench/rivals.txt

release: ## archives of all platforms with checksums, in build/release; RELEASE has flags, such as -verify
	go -C tools/release run . $(RELEASE)

test-packages: ## builds a release of this platform twice and compares; installs, upgrades and removes the Debian package
	$(TESTRUN) -C tools/release -- -vet=all -timeout 40m ./...
	@[ "$$(id -u)" = 0 ] && command -v debootstrap >/dev/null || echo "Left out: the Debian package on a new Debian (as root, with debootstrap)"

house: ## tables of seams between packages, of single importers, and of fields that many files write
	@go -C tools/house run . ../..

lint: ## the linters of .golangci.yml, pinned in tools/go.mod, and vet of the other modules
	$(LINT) run ./...
	for file in $$(find . -mindepth 2 -name go.mod -not -path ./tools/go.mod -not -path '*/node_modules/*'); do go -C "$$(dirname "$$file")" vet ./... || exit 1; done
