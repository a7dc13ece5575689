#!/usr/bin/env bash
# The demo: starts a three-node cluster in one process, imports a conversation, asks five
# questions about it, stops one node and asks again.
#
# usage: scripts/demo.sh [PATH OF THE holdfast PROGRAM]
#
#   DATA=FILE          a LoCoMo file instead of the conversation in demo/
#   CONVERSATION=NAME  which conversation of DATA (default conv-26)
#   ONCE=1             stop everything at the end and exit 0; the data is thrown away
#   DATA_DIR=DIR       where the cluster keeps its data (default data/demo; not with ONCE=1)
#   HTTP=HOST:PORT     client listener (default 127.0.0.1:7700)
#   ADMIN=HOST:PORT    admin listener (default 127.0.0.1:7701)
#   START_SECONDS=N    how long the cluster may take to be ready (default 120)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${1:-${BIN:-$root/target/debug/holdfast}}
http=${HTTP:-127.0.0.1:7700}
admin=${ADMIN:-127.0.0.1:7701}
start_seconds=${START_SECONDS:-120}
conversation=${CONVERSATION:-conv-26}
once=${ONCE:-}

work=$(mktemp -d)
log=$work/server.log
server=

say() { printf '\n== %s\n' "$*"; }

fail() {
    printf 'demo: %s\n' "$*" >&2
    if [[ -s $log ]]; then
        printf -- '--- the last lines of the server ---\n' >&2
        tail -n 40 "$log" >&2
    fi
    exit 1
}

alive() { [[ -n $server ]] && kill -0 "$server" 2>/dev/null; }

stop_server() {
    alive || return 0
    kill -TERM "$server" 2>/dev/null || true
    for _ in $(seq 100); do
        alive || break
        sleep 0.1
    done
    if alive; then
        printf 'demo: the server did not stop within 10 s and was killed\n' >&2
        kill -KILL "$server" 2>/dev/null || true
    fi
    wait "$server" 2>/dev/null || true
}

cleanup() {
    local status=$?
    trap - EXIT INT TERM
    stop_server
    rm -rf "$work"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_server() {
    local args=(dev --http "$http" --admin "$admin")
    if [[ -n $once ]]; then
        args+=(--ephemeral)
    else
        args+=(--data "${DATA_DIR:-data/demo}")
    fi
    # Made here: the reader below may be faster than the background job.
    : >"$log"
    "$bin" "${args[@]}" >>"$log" 2>&1 &
    server=$!
    local deadline=$((SECONDS + start_seconds)) ready
    while true; do
        ready=$(sed -n 's/^ready \(http[^ ]*\) key=\([^ ]*\).*$/\1 \2/p' "$log" | head -n 1)
        [[ -z $ready ]] || break
        alive || fail "the server ended before it was ready"
        ((SECONDS < deadline)) || fail "the server was not ready after $start_seconds s"
        sleep 0.2
    done
    export HOLDFAST_URL=${ready%% *} HOLDFAST_API_KEY=${ready#* }
}

# One node of the cluster: node_action 2 stop
node_action() {
    curl -fsS -m 30 -o /dev/null -X POST -H "Authorization: Bearer $HOLDFAST_API_KEY" \
        "http://$admin/admin/v1/nodes/$1:$2" || fail "node $1 could not be asked to $2"
}

ask() {
    "$bin" recall --user "$user" --questions "$questions" --top-k 5 "${recall_flags[@]}" ||
        fail "the questions could not be asked"
}

[[ -x $bin ]] || fail "$bin is not there; build it first (cargo build -p holdfast)"
command -v curl >/dev/null || fail "curl is needed to stop a node"

if [[ -n ${DATA:-} ]]; then
    [[ -r $DATA ]] || fail "DATA=$DATA cannot be read"
    user=demo-$conversation
    questions=$work/questions.jsonl
    import_flags=(--conversation "$conversation" "$DATA")
    recall_flags=(--profile relevance)
    "$bin" bench locomo-questions --data "$DATA" --conversation "$conversation" >"$questions" ||
        fail "no questions could be read from $DATA"
else
    user=demo
    questions=$root/demo/questions.jsonl
    import_flags=("$root/demo/conversation.jsonl")
    # The conversation ends two days before this moment, from which recency is measured.
    recall_flags=(--now 2026-11-01T09:00:00+08:00)
fi

say "starting three nodes and a router on $http"
start_server
say "importing ${import_flags[*]: -1}"
"$bin" import --user "$user" "${import_flags[@]}" || fail "the import failed"
say "asking five questions (* marks the memories that hold the answer)"
ask
say "stopping node 2 of 3 and asking again"
node_action 2 stop
ask
node_action 2 start
say "node 2 is started again"

if [[ -n $once ]]; then
    say "done; stopping the server (ONCE=1)"
    exit 0
fi

cat <<EOF

The server stays up. In another terminal:

    export HOLDFAST_URL=$HOLDFAST_URL HOLDFAST_API_KEY=$HOLDFAST_API_KEY
    $bin recall --user $user "your question"

Press Ctrl-C here (or: kill $$) to stop it.
EOF
wait "$server" || fail "the server ended by itself"
