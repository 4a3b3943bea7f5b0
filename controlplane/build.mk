# The embedded control plane: bin/k8s/controlplane, and a link to it by the name
# of each component, laid out as envtest expects its assets. Included by the
# Makefile of the repository.
#
#	make controlplane     build it, unless it is up to date

CONTROLPLANE_BINARY     := bin/k8s/controlplane
# The dispatch table is the one place that lists the components; those of a node
# are for Linux.
CONTROLPLANE_TABLE      := controlplane/main.go $(filter controlplane/node_$(shell go env GOOS).go,controlplane/node_linux.go)
CONTROLPLANE_COMPONENTS := $(shell sed -n 's/.*{Name: "\([a-z-]*\)".*/\1/p' $(CONTROLPLANE_TABLE))
CONTROLPLANE_LINKS      := $(addprefix bin/k8s/,$(CONTROLPLANE_COMPONENTS))
CONTROLPLANE_SOURCES    := $(filter-out %_test.go,$(wildcard controlplane/*.go controlplane/internal/*/*.go)) \
	controlplane/go.mod controlplane/go.sum controlplane/build.mk controlplane/build.sh hack/build.sh

.PHONY: controlplane
controlplane: $(CONTROLPLANE_LINKS)

$(CONTROLPLANE_BINARY): $(CONTROLPLANE_SOURCES)
	@sh controlplane/build.sh $@

# Make compares the time of what a link points to, so a link is made once.
$(CONTROLPLANE_LINKS): $(CONTROLPLANE_BINARY)
	@ln -sfn $(notdir $<) $@
