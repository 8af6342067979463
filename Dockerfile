# The image is one static binary and the CA roots. No shell, no package manager, no root.
# The build is the one of the book, page "Operating": a static glibc binary, which resolves names from
# /etc/hosts and /etc/resolv.conf without any file of a distribution.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY bench bench
COPY chart/files/crds chart/files/crds
ENV RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=/src=."
# Naming the target keeps the flags away from build scripts and macros, which cannot be static.
RUN cargo build --release --locked --package berth --target "$(rustc --print host-tuple)" \
    && install -D "target/$(rustc --print host-tuple)/release/berth" /out/berth

FROM scratch
LABEL org.opencontainers.image.title="berth" \
      org.opencontainers.image.description="Gives every Cluster API machine and cluster its place on infrastructure" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/berth /berth
ENV MALLOC_ARENA_MAX=1
# metrics, health, hooks, webhooks
EXPOSE 8080 9440 9443 9444
USER 65532:65532
ENTRYPOINT ["/berth"]
CMD ["run"]
