# `make demo` and `make test` set up whatever they need. One cargo profile serves run, demo and
# test, so that nothing is built twice; only `make bench` and the image use the release profile.

SHELL := /bin/bash
.DEFAULT_GOAL := help
CARGO ?= cargo
BIN := target/debug/holdfast

.PHONY: help setup build run demo test test-cluster sabotage test-deploy sim lint fmt bench bench-cluster bench-recall docs

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1|/' | column -t -s '|'

setup: ## Install and fetch what the build and the tests need (once)
	@scripts/setup.sh
	@scripts/fetch-model.sh || echo "no embedding model: recall will work by keywords alone" >&2

build: ## Build the program
	$(CARGO) build --locked --package holdfast

run: setup build ## Start a three-node cluster on loopback
	$(BIN) dev

demo: setup build ## Start a cluster, import a conversation, ask five questions, stop a node, ask again
	scripts/demo.sh $(BIN)

lint: ## Check formatting, lints, licences and layering; change nothing
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --quiet -- -D warnings
	scripts/check-licences.sh
	python3 grafana/generate.py --check
	scripts/sync-chart-files.sh --check

fmt: ## Fix formatting
	$(CARGO) fmt --all

test: setup lint ## Run every test
	scripts/test.sh

test-cluster: setup ## Run the long tests that kill, cut off and starve real processes (hours)
	scripts/test-cluster.sh

sabotage: setup ## Prove that the tests find faults: build each in on purpose and see a test fail
	scripts/sabotage.sh

test-deploy: setup build ## Run the long tests of the deployment: build the image and run it, build the guide
	scripts/test-image.sh
	scripts/docs.sh

sim: setup ## Simulate clusters that break: SEEDS=n many, or one SEED=n with its trace
	SEEDS="$(SEEDS)" SEED="$(SEED)" FROM="$(FROM)" SABOTAGE="$(SABOTAGE)" scripts/sim.sh

bench: setup ## Build for release, measure the parts, and put a cluster on loopback under load
	$(CARGO) bench --locked --package holdfast-bench --bench micro
	$(CARGO) build --locked --release --package holdfast
	scripts/bench.sh target/release/holdfast

bench-cluster: setup ## Build for release, and measure a cluster of processes beside etcd
	scripts/fetch-etcd.sh || echo "no etcd: it is left out" >&2
	$(CARGO) build --locked --release --package holdfast
	target/release/holdfast bench cluster --folder target --json target/cluster-benchmark.json --report docs/cluster-benchmark.md
	target/release/holdfast bench idle --folder target --groups 256

bench-recall: setup ## Build for release, and measure recalls of a cluster of processes: SCALE=small, medium or large
	$(CARGO) build --locked --release --package holdfast
	target/release/holdfast bench recall --scale $(or $(SCALE),medium) --folder target --json target/recall-benchmark.json --report docs/recall-benchmark.md

docs: ## Build the guide into target/book
	scripts/docs.sh
