#!/usr/bin/env bash
# Makes the Python environment of tests/deploy once, and prints the path of its python.
#
# It lives in holdfast/venv-<hash> in $XDG_CACHE_HOME or ~/.cache; the hash is that of the pinned
# requirements and of the Python version, so that a change of either makes a new one. Several
# callers at once are safe: one builds, the others wait. Prints nothing else unless it fails.
set -euo pipefail

requirements=$(cd "$(dirname "$0")/.." && pwd)/tests/deploy/requirements.txt
cache=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fail() {
    cat "$log" >&2
    echo "python-env: $1" >&2
    exit 1
}

# Debian splits venv off its Python, and leaves a venv module behind that cannot work.
install_python() {
    if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
        fail "please install Python 3.11 or later with its venv module (Debian: python3-venv)"
    fi
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv; } \
        >"$log" 2>&1 || fail "apt could not install python3-venv"
    hash -r
}

usable() {
    python3 -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

mkdir -p "$cache"
# Held until this script ends: it covers apt as well, which does not wait for itself.
exec 9>"$cache/venv.lock"
flock 9

usable || install_python
usable || fail "python3 is older than 3.11, or has no venv module even after installing python3-venv"

version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
hash=$({ cat "$requirements"; echo "$version"; } | sha256sum | cut -c1-16)
venv=$cache/venv-$hash
python=$venv/bin/python

# The mark is written last: without it the environment is half made. An upgrade of the system's
# Python can leave links that lead nowhere, hence the second check.
if [[ ! -f $venv/complete ]] || ! "$python" -c '' 2>/dev/null; then
    rm -rf "$venv"
    python3 -m venv "$venv" >"$log" 2>&1 || fail "python3 -m venv failed"
    "$python" -m pip install --quiet --disable-pip-version-check --no-input --retries 2 \
        --only-binary=:all: --require-hashes --requirement "$requirements" >"$log" 2>&1 ||
        fail "pip could not install the packages of tests/deploy/requirements.txt"
    touch "$venv/complete"
fi
echo "$python"
