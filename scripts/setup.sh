#!/usr/bin/env bash
# Installs what the build needs and this machine lacks. Quiet; does nothing the second time.
set -euo pipefail

missing=()
# usearch, the graph of vectors, is C++.
{ command -v cc && command -v c++; } >/dev/null || missing+=(build-essential)
command -v curl >/dev/null || missing+=(curl)
command -v ip >/dev/null || missing+=(iproute2)
command -v python3 >/dev/null || missing+=(python3)
python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)

if ((${#missing[@]})); then
    if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
        echo "setup: please install: ${missing[*]}" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if ! { apt-get update && apt-get install --yes --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        cat "$log" >&2
        exit 1
    fi
fi

if ! command -v cargo >/dev/null; then
    echo "setup: Rust is missing; install the stable toolchain (https://rustup.rs) and try again" >&2
    exit 1
fi

"$(dirname "$0")/fetch-prometheus.sh" || echo "setup: no promtool: the test of the metrics' format will fail" >&2
