#!/usr/bin/env bash
# The long versions of the tests that do harm to real processes, and of those that crash after every
# step. Arguments choose among them, as those of `cargo nextest run`: scripts/test-cluster.sh -E 'test(power)'
#   HOLDFAST_TEST_ROUNDS  rounds of each suite, instead of its own number
#   HOLDFAST_TEST_SEED    the seed that a failed suite has printed
set -euo pipefail
cd "$(dirname "$0")/.."
export HOLDFAST_TEST_LONG=1
# A suite that was skipped for want of rights must not look like one that passed.
export HOLDFAST_REQUIRE_NETNS=${HOLDFAST_REQUIRE_NETNS-1}
if [[ -z $HOLDFAST_REQUIRE_NETNS ]]; then unset HOLDFAST_REQUIRE_NETNS; fi

if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --locked --workspace --profile cluster --test chaos "$@"
    cargo nextest run --locked --workspace --profile cluster --lib -E 'test(cluster_tests::crashes)'
else
    cargo test --locked --workspace --test chaos "$@" -- --test-threads=1 --nocapture
    cargo test --locked --workspace --lib cluster_tests::crashes
fi
