# The embedded control plane: bin/k8s/controlplane, with a link to it by the name
# of each component, in the layout that envtest expects of its assets. The
# components of a real node are in bin/k8s/node. Included by the Makefile of the
# repository.
#
#	make controlplane     build what `make run` and most tests need
#	make node             build kubelet and kube-proxy: Linux only

CONTROLPLANE_SOURCES = $(filter-out %_test.go,$(wildcard controlplane/cmd/$1/*.go controlplane/internal/*/*.go)) \
	controlplane/go.mod controlplane/go.sum controlplane/build.mk controlplane/build.sh controlplane/gobuild.sh
# The dispatch table in the main function's file is the only list of components.
CONTROLPLANE_LINKS   = $(addprefix $2/,$(shell sed -n 's/.*{Name: "\([a-z-]*\)".*/\1/p' controlplane/cmd/$1/main*.go))

.PHONY: controlplane node
controlplane: $(call CONTROLPLANE_LINKS,controlplane,bin/k8s)
node: $(call CONTROLPLANE_LINKS,node,bin/k8s/node)

bin/k8s/controlplane: $(call CONTROLPLANE_SOURCES,controlplane)
	@sh controlplane/build.sh $@

bin/k8s/node/node: $(call CONTROLPLANE_SOURCES,node)
	@sh controlplane/build.sh $@

# Make compares the modification time of a link's target, so each link is made once.
$(call CONTROLPLANE_LINKS,controlplane,bin/k8s): bin/k8s/controlplane
	@$< link

$(call CONTROLPLANE_LINKS,node,bin/k8s/node): bin/k8s/node/node
	@$< link
