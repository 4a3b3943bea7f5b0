# Tools that development needs, built once, at the versions that their modules pin.
# Included by the Makefile of the repository.

CONTROLLER_GEN := bin/tools/controller-gen
GOLANGCI_LINT  := bin/tools/golangci-lint

$(CONTROLLER_GEN): tools/go.mod tools/go.sum
	@echo "Building $@."
	@cd tools && sh build.sh ../$@ sigs.k8s.io/controller-tools/cmd/controller-gen

# In a module of its own, as its dependencies go with nobody else's.
$(GOLANGCI_LINT): tools/golangci-lint/go.mod tools/golangci-lint/go.sum
	@echo "Building $@."
	@cd tools/golangci-lint && sh ../build.sh ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint -ldflags '-s -w'
