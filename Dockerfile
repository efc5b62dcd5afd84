# The program `firn` in a container. From the repository's root:
#
#   docker build --tag firn .
#   docker run --rm --env FIRN_PASSWORD=secret --volume firn-data:/data \
#       --publish 127.0.0.1:6379:6379 --publish 127.0.0.1:9379:9379 firn
#
# Data lies in /data. Without FIRN_PASSWORD the server refuses clients from outside the container.
# Arguments after the image's name take the place of `serve`: `docker run --rm firn --version`.

ARG BUILDER=rust:1.95-bookworm
ARG BASE=debian:bookworm-slim

FROM ${BUILDER} AS build
WORKDIR /source
# This image has the toolchain; rust-toolchain.toml would have it fetch formatter and linter too.
ENV RUSTUP_TOOLCHAIN=1.95.0
COPY . .
RUN cargo build --release --locked --package firn-cli \
    && install -D target/release/firn /out/firn

FROM ${BASE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 6379 --home-dir /data --shell /usr/sbin/nologin firn \
    && install -d -o firn -g firn -m 0700 /data
COPY --from=build /out/firn /usr/local/bin/firn
USER firn
WORKDIR /data
VOLUME /data
# What Redis clients speak to, and the page with metrics.
EXPOSE 6379 9379
ENV FIRN_SERVE_DIR=/data FIRN_SERVE_BIND=0.0.0.0 FIRN_SERVE_HTTP_BIND=0.0.0.0
STOPSIGNAL SIGTERM
ENTRYPOINT ["firn"]
CMD ["serve"]
