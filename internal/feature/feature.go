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

// All features. Some extend another one, and need it.
const (
	// Alarm is for alarms and receivers of both kinds.
	Alarm Feature = "alarm"
	// AlarmSecrets extends Alarm by a watch of all Secrets, for those that receivers name.
	AlarmSecrets Feature = "alarm-secrets"
	// SecretShare is for SecretShares, ClusterSecretShares and SecretShareGrants.
	SecretShare Feature = "secretshare"
	// Jupyter is for notebooks.
	Jupyter Feature = "jupyter"
	// AppService is for apps.
	AppService Feature = "appservice"
	// AppServiceExec extends AppService by commands in pods: health checks and backups.
	AppServiceExec Feature = "appservice-exec"
	// AppServiceProxy extends AppService by health checks through the API server.
	AppServiceProxy Feature = "appservice-proxy"
)

// All returns all features.
func All() []Feature {
	return []Feature{Alarm, AlarmSecrets, SecretShare, Jupyter, AppService, AppServiceExec, AppServiceProxy}
}

// Default returns the features that run unless users choose others. It excludes those that can
// run commands in every pod, or send requests to every pod.
func Default() []Feature {
	return slices.DeleteFunc(All(), func(f Feature) bool { return f == AppServiceExec || f == AppServiceProxy })
}

// Needs returns the feature that f extends, and false if f extends none.
func (f Feature) Needs() (Feature, bool) {
	switch f {
	case AlarmSecrets:
		return Alarm, true
	case AppServiceExec, AppServiceProxy:
		return AppService, true
	default:
		return "", false
	}
}

// Names returns the names of features.
func Names(of []Feature) []string {
	names := make([]string, 0, len(of))
	for _, c := range of {
		names = append(names, string(c))
	}
	return names
}

// Parse returns the features with these names, each once and in the order of All. An unknown
// name, an empty list, and a feature without the one that it extends are errors.
func Parse(names []string) ([]Feature, error) {
	for _, name := range names {
		if !slices.Contains(All(), Feature(name)) {
			return nil, fmt.Errorf("unknown feature %q: use %s", name, strings.Join(Names(All()), ", "))
		}
		if needed, extends := Feature(name).Needs(); extends && !slices.Contains(names, string(needed)) {
			return nil, fmt.Errorf("feature %q needs %q: add it, or remove %q", name, needed, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no feature: use %s", strings.Join(Names(All()), ", "))
	}
	return slices.DeleteFunc(All(), func(c Feature) bool { return !slices.Contains(names, string(c)) }), nil
}
