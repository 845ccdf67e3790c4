# The container image. `docker build .` builds the programs in a container as well; `make container` uses those that are there
# already, which is quicker: PROGRAMS=built takes target/image, as packaging/image lays it out. (Podman 4.3 does not find a stage by the
# default value of an ARG: hence the default in FROM.)
ARG PROGRAMS

FROM docker.io/library/rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends musl-tools python3
WORKDIR /darter
COPY . .
# Without a history they cannot be asked for.
ARG DARTER_VERSION DARTER_GIT_SHA SOURCE_DATE_EPOCH
RUN packaging/build && packaging/image target/image

FROM scratch AS built
COPY target/image /darter/target/image

# hadolint ignore=DL3006
FROM ${PROGRAMS:-build} AS programs

FROM scratch
COPY --from=programs /darter/target/image/root /
# The volume is the server's own; a new one that is mounted takes this over.
COPY --from=programs --chown=6379:6379 /darter/target/image/volume /
USER 6379:6379
WORKDIR /data
VOLUME /data
EXPOSE 6379 8379
# It saves before it ends.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["/usr/bin/darter", "--check-health"]
ENTRYPOINT ["/usr/bin/darter", "/etc/darter/darter.conf"]
LABEL org.opencontainers.image.title="Darter" \
      org.opencontainers.image.description="Multi-threaded in-memory store that speaks the Redis protocol" \
      org.opencontainers.image.source="https://github.com/darter-db/darter" \
      org.opencontainers.image.licenses="Apache-2.0"
