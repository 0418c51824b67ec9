# syntax=docker/dockerfile:1

# PostgreSQL with xqueue: docker build -t postgres-xqueue .
# For CloudNativePG, an image that holds nothing but the extension: docker build --target extension -t xqueue .
# What these need of a server is in docs/install.md.

ARG PG_MAJOR=18

FROM rust:1.95-slim-bookworm AS rust

FROM postgres:${PG_MAJOR}-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends binutils build-essential ca-certificates clang dpkg-dev libclang-dev \
        pkg-config "postgresql-server-dev-${PG_MAJOR}" \
    && rm -rf /var/lib/apt/lists/*
ENV RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo PATH=/usr/local/cargo/bin:$PATH
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo
WORKDIR /xqueue
COPY . .
RUN pgrx-embed/package --pg "$PG_MAJOR" --output /package \
    && dpkg-deb -x /package/*.deb /files \
    && mkdir -p /extension/share /extension/licenses \
    && cp -r "/files/usr/lib/postgresql/$PG_MAJOR/lib" /extension/lib \
    && cp -r "/files/usr/share/postgresql/$PG_MAJOR/extension" /extension/share/extension \
    && cp LICENSE /extension/licenses/xqueue

# The layout that CloudNativePG mounts: it sets extension_control_path and dynamic_library_path.
FROM scratch AS extension
COPY --from=build /extension /
USER 65532:65532

FROM postgres:${PG_MAJOR}-bookworm
COPY --from=build /files/usr /usr
# initdb copies the sample; the entry point runs the script once, in the database POSTGRES_DB.
RUN echo "shared_preload_libraries = 'xqueue'" >>/usr/share/postgresql/postgresql.conf.sample \
    && echo 'CREATE EXTENSION xqueue;' >/docker-entrypoint-initdb.d/xqueue.sql
# While the entry point prepares the data folder, the server listens on its socket only.
HEALTHCHECK --interval=10s --start-period=60s CMD ["pg_isready", "-q", "-h", "127.0.0.1"]
