#!/usr/bin/env bash
# Builds the program with faults in it, one of which is chosen at each start, and runs the suite that
# must find it. Fails if a suite does not. Arguments: the faults, all without any.
set -uo pipefail
cd "$(dirname "$0")/.."

# Fault, and the suite that must find it: test target and name.
faults=(
    "ack-before-fsync chaos a_power_cut_of_the_whole_cluster_loses_nothing_acknowledged"
    "ack-before-quorum chaos kill_9_of_any_of_three_nodes_loses_nothing"
    "purge-before-snapshot chaos a_power_cut_of_the_whole_cluster_loses_nothing_acknowledged"
    "no-tombstone chaos a_node_that_stood_still_does_no_harm"
    "no-tenant-prefix memory nobody_reads_across_the_wall"
    "token-ignored chaos a_node_that_stood_still_does_no_harm"
)
rounds=${HOLDFAST_TEST_ROUNDS-10}

run() { # target, test
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --locked --workspace --no-fail-fast --test "$1" -E "test($2)"
    else
        cargo test --locked --workspace --test "$1" "$2"
    fi
}

set -e
# The program of default builds is put back afterwards: both are built already by then.
cargo build --locked --workspace --bins --features holdfast/sabotage
mkdir -p target/sabotage
cp target/debug/holdfast target/sabotage/holdfast
cargo build --locked --workspace --bins
set +e

failed=0
for line in "${faults[@]}"; do
    read -r fault target name <<<"$line"
    [[ $# -gt 0 && " $* " != *" $fault "* ]] && continue
    log=target/sabotage/$fault.log
    SECONDS=0
    # A fault that hides from one run may show in the next.
    found=
    for _ in 1 2 3; do
        if ! HOLDFAST_SABOTAGE=$fault HOLDFAST_TEST_PROGRAM=$PWD/target/sabotage/holdfast \
            HOLDFAST_TEST_ROUNDS=$rounds run "$target" "$name" >"$log" 2>&1; then
            found=yes
            break
        fi
    done
    # A test that could not be built or was not found has found nothing.
    if [[ -n $found ]] && grep -qE "panicked at" "$log"; then
        echo "found      $fault by $name in $SECONDS s: $(grep -A1 -m1 'panicked at' "$log" | tail -n 1 | cut -c 1-150)"
    else
        echo "NOT FOUND  $fault by $name in $SECONDS s: see $log" >&2
        failed=1
    fi
done
exit "$failed"
