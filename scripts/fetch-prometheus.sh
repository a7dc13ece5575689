#!/usr/bin/env bash
# Fetches Prometheus and promtool, which the tests of the metrics use, unless promtool is there.
#
# They are taken out of Debian's package instead of installing it: that would start a server on
# every machine that runs the tests. They go to $HOLDFAST_TOOLS_DIR, else to holdfast/tools in
# $XDG_CACHE_HOME or ~/.cache. Prints nothing unless something goes wrong.
set -euo pipefail

folder=${HOLDFAST_TOOLS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/tools}

if command -v promtool >/dev/null || [[ -x $folder/promtool && -x $folder/prometheus ]]; then
    exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "fetch-prometheus: this is no Debian; please install Prometheus with promtool" >&2
    exit 1
fi

mkdir -p "$folder"
# Beside the target, so that the move is a rename.
temporary=$(mktemp -d "$folder/.fetch-XXXXXX")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"

# apt checks the package against the signed lists of the distribution, which may not be there yet.
fetch() {
    apt-get download --quiet prometheus >>log 2>&1
}
if ! fetch && ! { apt-get update >>log 2>&1 && fetch; }; then
    cat log >&2
    echo "fetch-prometheus: apt could not fetch the package prometheus" >&2
    exit 1
fi
dpkg-deb --extract prometheus_*.deb package
for tool in promtool prometheus; do
    mv -f "package/usr/bin/$tool" "$folder/$tool"
done
