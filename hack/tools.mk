# Tools that development needs, built once, at the versions that their modules pin.
# Included by the Makefile of the repository.

CONTROLLER_GEN := bin/tools/controller-gen
GOLANGCI_LINT  := bin/tools/golangci-lint

$(CONTROLLER_GEN): hack/controller-gen/go.mod hack/controller-gen/go.sum
	@echo "Building $@."
	@cd hack/controller-gen && sh ../../controlplane/gobuild.sh ../../$@ sigs.k8s.io/controller-tools/cmd/controller-gen

# In its own module, because its dependencies conflict with those of other modules.
$(GOLANGCI_LINT): hack/golangci-lint/go.mod hack/golangci-lint/go.sum
	@echo "Building $@."
	@cd hack/golangci-lint && sh ../../controlplane/gobuild.sh ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint -ldflags '-s -w'
