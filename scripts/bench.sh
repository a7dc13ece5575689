#!/usr/bin/env bash
# Puts a three-node cluster on loopback under load and prints latencies and rates.
#
# usage: scripts/bench.sh [PATH OF THE holdfast PROGRAM]
#
#   RATE=N       operations a second that are intended (default 200)
#   SECONDS_=N   how long each part runs (default 15)
#   HTTP, ADMIN  addresses (default 127.0.0.1:7710 and 7711)
set -euo pipefail

bin=${1:-target/release/holdfast}
http=${HTTP:-127.0.0.1:7710}
admin=${ADMIN:-127.0.0.1:7711}
log=$(mktemp)
server=

cleanup() {
    [[ -z $server ]] || kill -TERM "$server" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -f "$log"
}
trap cleanup EXIT

"$bin" dev --ephemeral --http "$http" --admin "$admin" >"$log" 2>&1 &
server=$!
for _ in $(seq 600); do
    key=$(sed -n 's/^ready .* key=//p' "$log")
    [[ -z $key ]] || break
    kill -0 "$server" 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.1
done
[[ -n $key ]] || { echo "bench: the server was not ready within 60 s" >&2; cat "$log" >&2; exit 1; }

export HOLDFAST_URL=http://$http HOLDFAST_API_KEY=$key
for mode in write recall mixed; do
    "$bin" bench load --mode "$mode" --rate "${RATE:-200}" --seconds "${SECONDS_:-15}"
done
