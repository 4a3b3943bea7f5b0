package main

import "github.com/bongsu-io/bongsu/internal/operator/permissions"

// reasons say why the operator holds rights that no test sees it use.
var reasons = []struct {
	of  func(permissions.Permission) bool
	why string
}{
	{
		func(r permissions.Permission) bool { return r.Verb == "list" },
		"caches begin with a watch that streams what there is; where an API server cannot do that, they list",
	},
	{
		func(r permissions.Permission) bool { return r.Verb == "create" && r.Subresource == "exec" },
		"asked of an exec over WebSocket besides get; the audit log knows of the first alone",
	},
	{
		func(r permissions.Permission) bool {
			return r.Verb == "patch" && r.Resource == "events" && r.Group == ""
		},
		"leader election counts up an Event that it repeats",
	},
	{
		func(r permissions.Permission) bool { return r.Role == "ClusterRole bongsu-alarm" && r.Verb == "get" },
		"Events may regard objects of any kind that package enrich lists; tests have some of them only",
	},
	{
		func(r permissions.Permission) bool { return r.Subresource == "proxy" },
		"checks with transport: APIServer; simulated pods cannot be reached, so that tests ask as somebody else",
	},
}

func reasonOf(r permissions.Permission) (string, bool) {
	for _, reason := range reasons {
		if reason.of(r) {
			return reason.why, true
		}
	}
	return "", false
}
