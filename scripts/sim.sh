#!/usr/bin/env bash
# Runs the simulation: SEEDS=n many seeds (from FROM, default 1000), or one SEED with its trace, with
# a SABOTAGE if one is named.
set -euo pipefail
cd "$(dirname "$0")/.."
run() { cargo test --locked --workspace --lib --quiet -- --ignored --exact --nocapture "$1"; }
if [ -n "${SEED:-}" ]; then
    mkdir -p target/sim
    trace="$PWD/target/sim/$SEED.trace"
    HOLDFAST_SIM_SEED=$SEED HOLDFAST_SIM_TRACE=$trace \
        ${SABOTAGE:+env HOLDFAST_SIM_SABOTAGE="$SABOTAGE"} \
        cargo test --locked --workspace --lib --quiet -- --ignored --exact --nocapture sim::tests::one_run \
        | grep '^simulated: '
    grep -a -E ' (FAULT|FAILED) ' "$trace" || true
    echo "the trace: ${trace#"$PWD"/}"
else
    export HOLDFAST_SIM_SEEDS=${SEEDS:-100} HOLDFAST_SIM_FROM=${FROM:-1000}
    run sim::tests::many_seeds
fi
