package kube

import (
	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/children"
)

// ChildNames are how Bongsu marks the objects that it creates for a Jupyter or an
// AppService.
var ChildNames = children.Names{Domain: v1alpha1.Group, FieldOwner: "bongsu"}
