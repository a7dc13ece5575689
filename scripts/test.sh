#!/usr/bin/env bash
# Runs every test with the profile that `make run` uses. The embedding model and promtool must be
# there: a test that was skipped for want of them must not look like one that passed.
set -euo pipefail
cd "$(dirname "$0")/.."
export HOLDFAST_REQUIRE_MODEL=1 HOLDFAST_REQUIRE_PROMTOOL=1

# cargo-nextest runs tests in parallel processes; without it cargo's own runner does the same work.
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --locked --workspace
else
    cargo test --locked --workspace --tests --bins --lib
fi
cargo test --locked --workspace --doc --quiet
# Each benchmark once, so that none of them rots.
cargo test --locked --workspace --bench micro --quiet >/dev/null

# The chart, the dashboards and the alerts, with the program that was built for the tests.
scripts/fetch-prometheus.sh
python=$(scripts/python-env.sh)
"$python" -m pytest --quiet -m "not long" tests/deploy
