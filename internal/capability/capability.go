// Package capability names what the operator can be chosen to do. Each capability has
// controllers and a role of its own; what it takes is said where it is put together
// (internal/app) and where its rights are (config/rbac). It must not know either.
package capability

import (
	"fmt"
	"slices"
	"strings"
)

// Capability is something that the operator does for users, with or without the others.
type Capability string

// What there is to choose.
const (
	// Alarm: Alarms and their receivers, of both kinds.
	Alarm Capability = "alarm"
	// SecretShare: SecretShares, ClusterSecretShares and grants.
	SecretShare Capability = "secretshare"
	// Jupyter: notebooks.
	Jupyter Capability = "jupyter"
	// AppService: apps.
	AppService Capability = "appservice"
)

// All returns every capability.
func All() []Capability { return []Capability{Alarm, SecretShare, Jupyter, AppService} }

// Names returns the names of capabilities.
func Names(of []Capability) []string {
	names := make([]string, 0, len(of))
	for _, c := range of {
		names = append(names, string(c))
	}
	return names
}

// Parse returns the capabilities of these names, each once and in the order of All. No
// name at all is an error, like one that there is not.
func Parse(names []string) ([]Capability, error) {
	for _, name := range names {
		if !slices.Contains(All(), Capability(name)) {
			return nil, fmt.Errorf("there is no %q: choose of %s", name, strings.Join(Names(All()), ", "))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("none is chosen: choose of %s", strings.Join(Names(All()), ", "))
	}
	return slices.DeleteFunc(All(), func(c Capability) bool { return !slices.Contains(names, string(c)) }), nil
}
