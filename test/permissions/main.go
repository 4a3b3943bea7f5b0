// Command rights demands that the operator makes use of every right that its roles hold,
// or that it is said here why it does not: a right that nobody needs is one for a thief.
//
//	go run ./test/rights FOLDER
//
// FOLDER holds what tests have seen the operator ask for (BONGSU_TEST_RIGHTS): all tests
// and the one on a real node, or it complains of what was not run.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bongsu-io/bongsu/internal/operator/feature"
	"github.com/bongsu-io/bongsu/internal/operator/permissions"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/rights FOLDER")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, folder string) error {
	requests, err := audit.Load(folder)
	if err != nil {
		return err
	}
	if len(requests) == 0 {
		return fmt.Errorf("there is nothing in %s: run the tests first", folder)
	}
	held, err := permissions.Needed("bongsu-system", feature.All())
	if err != nil {
		return err
	}
	return judge(out, held, audit.Unused(held, requests))
}

// judge tells of the rights that were not used, and fails if no reason is known of one.
func judge(out io.Writer, held, unused []permissions.Permission) error {
	var needless []error
	for _, right := range unused {
		reason, known := reasonOf(right)
		if !known {
			needless = append(needless, fmt.Errorf("nothing makes use of %s: take it from the role, or say in test/rights/reasons.go what it is for", words(right)))
			continue
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", words(right), reason); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%d of %d rights were used, of %d it is known why not\n", len(held)-len(unused), len(held), len(unused)-len(needless))
	return errors.Join(append(needless, err)...)
}

func words(r permissions.Permission) string {
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Group != "" {
		resource += "." + r.Group
	}
	return fmt.Sprintf("%s: %s %s", r.Role, r.Verb, resource)
}

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
