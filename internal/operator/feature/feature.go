// Package feature names the features of the operator. Users choose features at
// installation. Each feature has its own controllers (internal/operator) and its own role
// (config/rbac).
package feature

import (
	"fmt"
	"slices"
	"strings"
)

// Feature is a part of the operator that users can choose separately.
type Feature string

// What there is to choose.
const (
	// Alarm: Alarms and their receivers, of both kinds.
	Alarm Feature = "alarm"
	// SecretShare: SecretShares, ClusterSecretShares and grants.
	SecretShare Feature = "secretshare"
	// Jupyter: notebooks.
	Jupyter Feature = "jupyter"
	// AppService: apps.
	AppService Feature = "appservice"
)

// All returns every capability.
func All() []Feature { return []Feature{Alarm, SecretShare, Jupyter, AppService} }

// Names returns the names of capabilities.
func Names(of []Feature) []string {
	names := make([]string, 0, len(of))
	for _, c := range of {
		names = append(names, string(c))
	}
	return names
}

// Parse returns the capabilities of these names, each once and in the order of All. No
// name at all is an error, like one that there is not.
func Parse(names []string) ([]Feature, error) {
	for _, name := range names {
		if !slices.Contains(All(), Feature(name)) {
			return nil, fmt.Errorf("there is no %q: choose of %s", name, strings.Join(Names(All()), ", "))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("none is chosen: choose of %s", strings.Join(Names(All()), ", "))
	}
	return slices.DeleteFunc(All(), func(c Feature) bool { return !slices.Contains(names, string(c)) }), nil
}
