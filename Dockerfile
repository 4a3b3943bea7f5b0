# Builds the operator's image with a container engine:
#
#	docker build --tag bongsu --build-arg VERSION=$(git describe --tags --always) .
#
# `make image` builds it without an engine, for two platforms, reproducibly, and adds a
# software bill of materials.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY config config
COPY internal internal
COPY pkg pkg
ARG VERSION=unknown
ARG TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
	-ldflags "-s -w -X github.com/bongsu-io/bongsu/internal/version.stamp=$VERSION" -o /bongsu-operator ./cmd/bongsu-operator

FROM scratch
COPY --from=build /bongsu-operator /bongsu-operator
COPY LICENSE /usr/share/doc/bongsu/LICENSE
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/bongsu-operator"]
