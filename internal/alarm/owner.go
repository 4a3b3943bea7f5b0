package alarm

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Owner names a workload in the namespace of an object: the Deployment of a Pod, not its ReplicaSet.
type Owner struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// OwnerOf returns the workload of an object with these labels, from the kind and the name of its controller. A
// ReplicaSet of a Deployment has the name of the Deployment and the hash that its pods have as a label. A static
// pod belongs to its Node, which is no workload. The API server does not limit the length of the names in a
// reference, which a tenant can write.
func OwnerOf(kind, name string, labels map[string]string) Owner {
	if kind == "Node" || max(len(kind), len(name)) > validation.DNS1123SubdomainMaxLength {
		return Owner{}
	}
	if hash := labels[appsv1.DefaultDeploymentUniqueLabelKey]; kind == "ReplicaSet" && hash != "" {
		if of, ok := strings.CutSuffix(name, "-"+hash); ok {
			return Owner{Kind: "Deployment", Name: of}
		}
	}
	return Owner{Kind: kind, Name: name}
}
