#!/usr/bin/env bash
# Checks licences, sources and duplicates of the dependencies against deny.toml. cargo-deny takes
# minutes to build, so it is used where it is installed and not fetched for this.
set -euo pipefail
cd "$(dirname "$0")/.."
if cargo deny --version >/dev/null 2>&1; then
    cargo deny --locked --offline --log-level error check bans licenses sources
else
    echo "check-licences: cargo-deny is not installed; licences and sources were not checked" >&2
fi
