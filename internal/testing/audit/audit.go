// Package audit reads what a user asked of the API server, from its audit log.
package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
)

// Operator is the operator's own user.
const Operator = "system:serviceaccount:bongsu-system:bongsu"

// Request is one request that was answered, or a watch that has begun.
type Request struct {
	Verb, Group, Resource, Subresource, Namespace, Name string
	// Code is the HTTP status.
	Code int
	// Forbidden says that the user has no right to it. A 403 alone can have other
	// causes: a namespace that is being deleted, an admission policy.
	Forbidden bool
	// Received is when, by the API server's clock.
	Received time.Time
}

// String is for a test's output.
func (r Request) String() string {
	return fmt.Sprintf("%d %s %s.%s/%s %s/%s", r.Code, r.Verb, r.Resource, r.Group, r.Subresource, r.Namespace, r.Name)
}

// decision is the annotation that says what the authorizers did.
const decision = "authorization.k8s.io/decision"

// entry is a line of the log.
type entry struct {
	Stage     string
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ APIGroup, Resource, Subresource, Namespace, Name string }

	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
	Annotations              map[string]string
}

// Requests returns all requests of a user, each once: when it was answered in
// full, or, for a watch, when it began.
func Requests(t testing.TB, path, user string) []Request {
	t.Helper()
	requests, err := read(path, user)
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

func read(path, user string) ([]Request, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var requests []Request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // a line that is being written
		}
		if e.User.Username == user && (e.Stage == "ResponseComplete") != (e.Verb == "watch") {
			requests = append(requests, e.request())
		}
	}
	return requests, lines.Err()
}

func (e *entry) request() Request {
	o := e.ObjectRef
	return Request{
		Verb: e.Verb, Group: o.APIGroup, Resource: o.Resource, Subresource: o.Subresource,
		Namespace: o.Namespace, Name: o.Name,
		Code: e.ResponseStatus.Code, Forbidden: e.Annotations[decision] == "forbid", Received: e.RequestReceivedTimestamp,
	}
}
