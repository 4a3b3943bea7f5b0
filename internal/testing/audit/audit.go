// Package audit reads what a user asked of the API server, from its audit log.
package audit

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/operator/permissions"
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

// Unused returns the rights that none of the requests made use of. What was forbidden,
// or refused before it was looked at, is no use of a right. Where the API server asks for
// a second right to the same request, as it does for create on pods/exec, the log knows
// only of the first.
func Unused(held []permissions.Permission, requests []Request) []permissions.Permission {
	type use struct{ verb, group, resource, subresource, namespace string }
	used := map[use]bool{}
	for _, r := range requests {
		if r.Forbidden {
			continue
		}
		of := use{r.Verb, r.Group, r.Resource, r.Subresource, ""}
		used[of] = true
		of.namespace = r.Namespace
		used[of] = true
	}
	return slices.DeleteFunc(slices.Clone(held), func(r permissions.Permission) bool {
		return used[use{r.Verb, r.Group, r.Resource, r.Subresource, r.Namespace}]
	})
}

// Denied returns the requests that were refused for want of a right.
func Denied(requests []Request) []Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r Request) bool { return !r.Forbidden })
}

// folder names the environment variable that says where to Remember.
const folder = "BONGSU_TEST_RIGHTS"

// system is the operator's own namespace: its Role is for that alone.
const system = "bongsu-system"

// Remember keeps what the operator has asked for, by the log of an API server that is
// about to go, where the environment says: so that all tests together tell which rights
// nothing makes use of. Where it says nothing, nothing is kept.
func Remember(log string) error {
	dir := os.Getenv(folder)
	if dir == "" {
		return nil
	}
	requests, err := read(log, Operator)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no API server came so far
	}
	if err != nil {
		return err
	}
	return write(dir, kinds(requests))
}

// kinds are requests that differ by the right that they need.
func kinds(requests []Request) map[Request]bool {
	found := map[Request]bool{}
	for _, r := range requests {
		kind := Request{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Forbidden: r.Forbidden}
		if r.Namespace == system {
			kind.Namespace = system
		}
		found[kind] = true
	}
	return found
}

// longAgo is the modification time of every file. `go test` does not cache the result
// of a test that used a new file, nor use a cached one if a file has changed.
var longAgo = time.Unix(0, 0)

// write names the file by what is in it: run again, a test adds nothing.
func write(dir string, requests map[Request]bool) error {
	lines := make([]string, 0, len(requests))
	for r := range requests {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines = append(lines, string(line))
	}
	slices.Sort(lines)
	content := []byte(strings.Join(lines, "\n"))
	path := filepath.Join(dir, fmt.Sprintf("%x.json", sha256.Sum256(content)))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	return os.Chtimes(path, longAgo, longAgo)
}

// Remembered returns what was kept in a folder.
func Remembered(dir string) ([]Request, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var requests []Request
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		for decoder := json.NewDecoder(file); decoder.More(); {
			var r Request
			if err := decoder.Decode(&r); err != nil {
				return nil, errors.Join(err, file.Close())
			}
			requests = append(requests, r)
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
	return requests, nil
}
