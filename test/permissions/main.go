// Command permissions fails if the operator's roles contain a permission that no test uses.
// A permission without use helps only an attacker. Exceptions need a reason in this file.
//
//	go run ./test/permissions DIR
//
// DIR contains the operator's requests during all tests, including those on a real node
// (BONGSU_TEST_PERMISSIONS). If some tests did not run, their permissions count as unused.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/operator/permissions"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/permissions DIR")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, dir string) error {
	requests, err := audit.Load(dir)
	if err != nil {
		return err
	}
	if len(requests) == 0 {
		return fmt.Errorf("no requests in %s: run the tests first", dir)
	}
	held, err := permissions.Needed("bongsu-system", feature.All())
	if err != nil {
		return err
	}
	return evaluate(out, held, audit.Unused(held, requests))
}

// evaluate prints the unused permissions with their reasons. It returns an error if one has
// no reason.
func evaluate(out io.Writer, held, unused []permissions.Permission) error {
	var unexplained []error
	for _, p := range unused {
		reason, known := reasonOf(p)
		if !known {
			unexplained = append(unexplained, fmt.Errorf("no test uses %s: remove it from the role, or add a reason to test/permissions", describe(p)))
			continue
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", describe(p), reason); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%d of %d permissions are used, %d are unused for a known reason\n", len(held)-len(unused), len(held), len(unused)-len(unexplained))
	return errors.Join(append(unexplained, err)...)
}

func describe(r permissions.Permission) string {
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Group != "" {
		resource += "." + r.Group
	}
	return fmt.Sprintf("%s: %s %s", r.Role, r.Verb, resource)
}

// reasons explain why the operator has permissions that no test uses.
var reasons = []struct {
	of  func(permissions.Permission) bool
	why string
}{
	{
		func(r permissions.Permission) bool { return r.Verb == "list" },
		"caches start with a watch that streams existing objects; they list if an API server does not support that",
	},
	{
		func(r permissions.Permission) bool { return r.Verb == "create" && r.Subresource == "exec" },
		"exec over WebSocket needs get and create; the audit log contains only get",
	},
	{
		func(r permissions.Permission) bool {
			return r.Verb == "patch" && r.Resource == "events" && r.Group == ""
		},
		"leader election increases the count of an Event that it repeats",
	},
	{
		func(r permissions.Permission) bool { return r.Role == "ClusterRole bongsu-alarm" && r.Verb == "get" },
		"Events may regard objects of any kind in package enrich; tests use only some of them",
	},
	{
		func(r permissions.Permission) bool {
			return slices.Contains([]string{"external-secrets.io", "bitnami.com", "cert-manager.io", "acme.cert-manager.io", "snapshot.storage.k8s.io"}, r.Group)
		},
		"package explain follows what creates a Secret or a volume; tests with a control plane have only ExternalSecrets",
	},
	{
		func(r permissions.Permission) bool { return r.Subresource == "proxy" },
		"for checks with transport: APIServer; simulated pods are not reachable, so tests use another user",
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
