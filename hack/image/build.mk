# The operator's image, without a container engine. Included by the Makefile of the
# repository.
#
#	make image                                an archive for all platforms
#	make image PLATFORMS=linux/amd64          for one, which is quicker
#	make image IMAGE=registry.example/bongsu:v1

IMAGE         ?= localhost/bongsu:$(or $(VERSION),latest)
IMAGE_ARCHIVE ?= bin/bongsu-image.tar
PLATFORMS     ?= linux/amd64 linux/arm64

# The same commit makes the same image, whenever and wherever it is built.
SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),0)
REVISION          ?= $(shell git rev-parse HEAD 2>/dev/null)

IMAGE_TOOL := bin/tools/image

$(IMAGE_TOOL): $(wildcard hack/image/*.go hack/image/internal/*/*.go) hack/image/go.mod hack/image/go.sum
	@echo "Building $@."
	@cd hack/image && sh ../../controlplane/gobuild.sh ../../$@ .

.PHONY: image
image: $(IMAGE_TOOL) ## Write bin/bongsu-image.tar, an image archive for containerd, Docker and registries
	@for platform in $(PLATFORMS); do \
		echo "Building bongsu-operator for $$platform."; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} sh controlplane/gobuild.sh bin/image/$$platform/bongsu-operator ./cmd/bongsu-operator -ldflags '$(LDFLAGS)' || exit 1; \
	done
	@$(IMAGE_TOOL) -output $(IMAGE_ARCHIVE) -name '$(IMAGE)' -version '$(or $(VERSION),unknown)' -revision '$(REVISION)' \
		-created $(SOURCE_DATE_EPOCH) $(foreach platform,$(PLATFORMS),$(platform)=bin/image/$(platform)/bongsu-operator)

# Images for tests on a real node, of Debian's packages: bin/e2e/memcached.tar, which
# is localhost/memcached:e2e, and bin/e2e/jupyter-notebook.tar.
ROOTFS_TOOL := bin/tools/rootfs

$(ROOTFS_TOOL): $(wildcard hack/image/rootfs/* hack/image/internal/*/*.go) hack/image/go.mod hack/image/go.sum
	@echo "Building $@."
	@cd hack/image && sh ../../controlplane/gobuild.sh ../../$@ ./rootfs

.PHONY: e2e-images
e2e-images: $(ROOTFS_TOOL)
	@command -v mmdebstrap >/dev/null || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap; }
	@$(ROOTFS_TOOL) -output bin/e2e
