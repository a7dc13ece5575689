#!/usr/bin/env bash
# Builds the image without a container daemon or registry, and runs the chart's pods from it.
#
#   PROFILE=release scripts/test-image.sh
#
# Where the base images cannot be pulled, stand-ins take their names: Debian by debootstrap, and this
# machine's Rust toolchain. BASES=pull uses the real ones. Needs root, apt, and the installed Rust.
# Leaves the images in buildah's store, so that the next run builds only what has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${PROFILE:-dev}
bases=${BASES:-stand-in}
image=localhost/holdfast:test
log=$(mktemp)
work=$(mktemp -d)
containers=()

cleanup() {
    local container
    for container in "${containers[@]}"; do
        buildah rm "$container" >/dev/null 2>&1 || true
    done
    rm -rf --one-file-system "$work" "$log"
}
trap cleanup EXIT

fail() {
    tail -n 60 "$log" >&2
    echo "test-image: $1" >&2
    exit 1
}

install_tools() {
    command -v buildah >/dev/null && command -v debootstrap >/dev/null && return 0
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install --yes --no-install-recommends buildah debootstrap; } >"$log" 2>&1 ||
        fail "apt could not install buildah and debootstrap"
}

# The default of an ARG in the Dockerfile.
default_of() {
    sed -n "s/^ARG $1=//p" Dockerfile | head -n 1
}

commit() {
    buildah commit --quiet --rm "$1" "$2" >"$log" 2>&1 || fail "$2 cannot be committed"
}

# IMAGE PACKAGE…: a container from the Debian stand-in with these packages.
derive() {
    local container
    container=$(buildah from --pull-never "$debian") || fail "no $debian"
    containers+=("$container")
    shift
    # shellcheck disable=SC2016 # expanded inside
    buildah run --isolation=chroot "$container" -- sh -c \
        'apt-get update && apt-get install --yes --no-install-recommends "$@"' install "$@" >"$log" 2>&1 ||
        fail "the packages $* cannot be installed in a stand-in"
    # What the machine trusts is what its registries are trusted by.
    buildah copy --quiet "$container" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt \
        >"$log" 2>&1 || fail "cannot copy the machine's certificates"
    derived=$container
}

make_stand_ins() {
    local release=${debian_tag%-slim} container sysroot
    if ! buildah inspect --type image "$debian" >/dev/null 2>&1; then
        debootstrap --variant=minbase "$release" "$work/debian" >"$log" 2>&1 || fail "debootstrap failed"
        container=$(buildah from scratch)
        containers+=("$container")
        buildah copy --quiet "$container" "$work/debian" / >"$log" 2>&1 || fail "cannot copy Debian"
        buildah config --cmd bash "$container"
        commit "$container" "$debian"
        rm -rf --one-file-system "$work/debian"
    fi
    if ! buildah inspect --type image "$python" >/dev/null 2>&1; then
        derive "$python" python3 python3-pip ca-certificates
        commit "$derived" "$python"
    fi
    if ! buildah inspect --type image "$rust" >/dev/null 2>&1; then
        derive "$rust" gcc g++ libc6-dev ca-certificates
        sysroot=$(rustc --print sysroot)
        for folder in bin lib libexec; do
            [[ -d $sysroot/$folder ]] || continue
            buildah copy --quiet "$derived" "$sysroot/$folder" "/usr/local/$folder" >"$log" 2>&1 ||
                fail "cannot copy the Rust toolchain"
        done
        commit "$derived" "$rust"
    fi
}

# The clients' own configuration, where there is one: see the Dockerfile.
secrets=()
add_secret() {
    local id=$1 file
    shift
    for file in "$@"; do
        if [[ -n $file && -f $file ]]; then
            secrets+=(--secret "id=$id,src=$file")
            return 0
        fi
    done
}

if [[ $(id -u) -ne 0 ]]; then
    echo "test-image: only root can build and run it without a container daemon" >&2
    exit 1
fi
install_tools
debian_tag=$(default_of DEBIAN_TAG)
debian=docker.io/library/debian:$debian_tag
python=docker.io/library/python:$(default_of PYTHON_TAG)
rust=docker.io/library/rust:$(default_of RUST_TAG)
pull=(--pull)
if [[ $bases == stand-in ]]; then
    make_stand_ins
    pull=(--pull-never)
fi

cargo_home=${CARGO_HOME:-$HOME/.cargo}
add_secret cargo-config "$cargo_home/config.toml" "$cargo_home/config"
add_secret pip-config "${PIP_CONFIG_FILE:-}" "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf" /etc/pip.conf
# The crates that this machine has fetched already; what the build adds is thrown away.
volumes=()
[[ -d $cargo_home/registry ]] && volumes=(--volume "$cargo_home/registry:/usr/local/cargo/registry:O")

echo "building $image with the profile $profile"
buildah bud --isolation=chroot --layers "${pull[@]}" "${secrets[@]}" "${volumes[@]}" \
    --build-arg "PROFILE=$profile" --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)" \
    --tag "$image" . >"$log" 2>&1 || fail "the image cannot be built"

container=$(buildah from --pull-never "$image")
containers+=("$container")
tree=$(buildah mount "$container")
HOLDFAST_IMAGE=$image HOLDFAST_IMAGE_TREE=$tree \
    "$(scripts/python-env.sh)" -m pytest -m long tests/deploy/test_image.py
