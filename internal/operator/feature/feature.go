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

// All features.
const (
	// Alarm is for alarms and receivers of both kinds.
	Alarm Feature = "alarm"
	// SecretShare is for SecretShares, ClusterSecretShares and SecretShareGrants.
	SecretShare Feature = "secretshare"
	// Jupyter is for notebooks.
	Jupyter Feature = "jupyter"
	// AppService is for apps.
	AppService Feature = "appservice"
)

// All returns all features.
func All() []Feature { return []Feature{Alarm, SecretShare, Jupyter, AppService} }

// Names returns the names of features.
func Names(of []Feature) []string {
	names := make([]string, 0, len(of))
	for _, c := range of {
		names = append(names, string(c))
	}
	return names
}

// Parse returns the features with these names, each once and in the order of All. An unknown
// name and an empty list are errors.
func Parse(names []string) ([]Feature, error) {
	for _, name := range names {
		if !slices.Contains(All(), Feature(name)) {
			return nil, fmt.Errorf("unknown feature %q: use %s", name, strings.Join(Names(All()), ", "))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no feature: use %s", strings.Join(Names(All()), ", "))
	}
	return slices.DeleteFunc(All(), func(c Feature) bool { return !slices.Contains(names, string(c)) }), nil
}
