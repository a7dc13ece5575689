#!/usr/bin/env bash
# Fetches etcd, which `holdfast bench cluster` measures beside Holdfast, unless it is there.
#
# It is taken out of Debian's package instead of installing it: that would start a server. It goes
# to $HOLDFAST_TOOLS_DIR, else to holdfast/tools in $XDG_CACHE_HOME or ~/.cache. Prints nothing
# unless something goes wrong. Nothing but that benchmark uses it.
set -euo pipefail

folder=${HOLDFAST_TOOLS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/tools}

if command -v etcd >/dev/null || [[ -x $folder/etcd ]]; then
    exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "fetch-etcd: this is no Debian; please install etcd" >&2
    exit 1
fi

mkdir -p "$folder"
# Beside the target, so that the move is a rename.
temporary=$(mktemp -d "$folder/.fetch-XXXXXX")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"

# apt checks the package against the signed lists of the distribution, which may not be there yet.
fetch() {
    apt-get download --quiet etcd-server >>log 2>&1
}
if ! fetch && ! { apt-get update >>log 2>&1 && fetch; }; then
    cat log >&2
    echo "fetch-etcd: apt could not fetch the package etcd-server" >&2
    exit 1
fi
dpkg-deb --extract etcd-server_*.deb package
mv -f package/usr/bin/etcd "$folder/etcd"
