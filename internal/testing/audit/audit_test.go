package audit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/operator/permissions"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
)

// log has the format of the API server.
const log = `
{"stage":"ResponseComplete","verb":"get","user":{"username":"me"},"objectRef":{"resource":"secrets","namespace":"a","name":"s"},"responseStatus":{"code":404}}
{"stage":"ResponseStarted","verb":"watch","user":{"username":"me"},"objectRef":{"resource":"events","apiGroup":"events.k8s.io"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"create","user":{"username":"me"},"objectRef":{"resource":"pods","namespace":"a","name":"p","subresource":"eviction"},"responseStatus":{"code":429}}
{"stage":"ResponseComplete","verb":"update","user":{"username":"me"},"objectRef":{"resource":"configmaps","namespace":"bongsu-system","name":"c"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"delete","user":{"username":"me"},"objectRef":{"resource":"pods","namespace":"a","name":"p"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"stage":"ResponseComplete","verb":"list","user":{"username":"another"},"objectRef":{"resource":"nodes"},"responseStatus":{"code":200}}
`

func TestAnAllowedRequestOfTheUserUsesAPermission(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	requests := audit.Requests(t, path, "me")
	unused := []permissions.Permission{
		{Resource: "secrets", Verb: "list"},                              // another verb
		{Group: "", Resource: "events", Verb: "watch"},                   // another group
		{Resource: "pods", Verb: "create"},                               // the resource itself
		{Resource: "pods", Verb: "delete"},                               // forbidden
		{Resource: "nodes", Verb: "list"},                                // request of another user
		{Namespace: "elsewhere", Resource: "configmaps", Verb: "update"}, // another namespace
	}
	held := append([]permissions.Permission{
		{Resource: "secrets", Verb: "get"},
		{Group: "events.k8s.io", Resource: "events", Verb: "watch"},
		{Resource: "pods", Subresource: "eviction", Verb: "create"},
		{Namespace: "bongsu-system", Resource: "configmaps", Verb: "update"},
	}, unused...)
	if diff := cmp.Diff(unused, audit.Unused(held, requests)); diff != "" {
		t.Errorf("Unused (-want +got):\n%s", diff)
	}
	denied := audit.Denied(requests)
	if len(denied) != 1 || denied[0].Verb != "delete" {
		t.Errorf("Denied = %v, want only the deletion", denied)
	}
}

func TestSavedRequestsOfSeveralClustersAreLoadedTogether(t *testing.T) {
	dir := t.TempDir()
	for i, verb := range []string{"get", "get", "delete"} {
		path := filepath.Join(t.TempDir(), "audit.log")
		line := `{"stage":"ResponseComplete","verb":"` + verb + `","user":{"username":"` + audit.Operator + `"},"objectRef":{"resource":"secrets","namespace":"n` + string(rune('0'+i)) + `"}}`
		if err := os.WriteFile(path, []byte(line+"\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := audit.Save(dir, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := audit.Save(dir, filepath.Join(dir, "never-written")); err != nil {
		t.Errorf("Save without a log: got error %v, want none", err)
	}
	requests, err := audit.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	held := []permissions.Permission{{Resource: "secrets", Verb: "get"}, {Resource: "secrets", Verb: "delete"}, {Resource: "secrets", Verb: "list"}}
	if diff := cmp.Diff(held[2:], audit.Unused(held, requests)); diff != "" {
		t.Errorf("Unused (-want +got):\n%s", diff)
	}
	if len(requests) != 2 { // each once
		t.Errorf("got %d saved requests, want 2", len(requests))
	}
}
