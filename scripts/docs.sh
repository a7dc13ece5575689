#!/usr/bin/env bash
# Builds the book of docs/ into target/book. What mdBook warns of is an error.
#
# mdBook is installed into target/tools once, in a pinned version; that takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.5.4
tools=$PWD/target/tools
mdbook=$tools/bin/mdbook

if [[ $("$mdbook" --version 2>/dev/null) != "mdbook v$version" ]]; then
    "${CARGO:-cargo}" install --quiet --locked --root "$tools" --version "=$version" \
        --no-default-features --features search mdbook
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$mdbook" build 2>&1 | tee "$log"
if grep -Eq '\b(WARN|ERROR)\b' "$log"; then
    echo "docs: mdBook has warnings, see above" >&2
    exit 1
fi
echo "docs: open target/book/index.html"
