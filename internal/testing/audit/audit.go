// Package audit reads the requests of a user from the API server's audit log. It also
// finds the permissions of the operator that no test uses.
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

// Request is one finished request, or one watch that has started.
type Request struct {
	Verb, Group, Resource, Subresource, Namespace, Name string
	// Code is the HTTP status.
	Code int
	// Forbidden reports that RBAC denied the request. A 403 alone can have other causes,
	// such as a terminating namespace or an admission policy.
	Forbidden bool
	// Received is the time of arrival, by the API server's clock.
	Received time.Time
}

// String returns the request on one line, for the output of a test.
func (r Request) String() string {
	return fmt.Sprintf("%d %s %s.%s/%s %s/%s", r.Code, r.Verb, r.Resource, r.Group, r.Subresource, r.Namespace, r.Name)
}

// decision is the annotation that contains the decision of the authorizers.
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

// Requests returns all requests of a user. A request appears when its response is
// complete, and a watch when it starts.
func Requests(t testing.TB, path, user string) []Request {
	t.Helper()
	requests, err := read(path, user)
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

// read returns the requests in a log and in its older files. When the log is full, the API
// server renames it to audit-TIME.log.
func read(path, user string) ([]Request, error) {
	older, err := filepath.Glob(strings.TrimSuffix(path, ".log") + "-*.log")
	if err != nil {
		return nil, err
	}
	var all []Request
	for _, file := range append(older, path) {
		requests, err := readFile(file, user)
		if err != nil {
			return nil, err
		}
		all = append(all, requests...)
	}
	return all, nil
}

func readFile(path, user string) ([]Request, error) {
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

// Unused returns the permissions that no request used. Forbidden requests do not count.
// Some requests need two permissions, such as create on pods/exec. The log contains only
// the first of them.
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

// Denied returns the requests that RBAC denied.
func Denied(requests []Request) []Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r Request) bool { return !r.Forbidden })
}

// SaveDir returns the directory for Save, from the environment. Call it during a test: `go test`
// then uses a cached result for the same directory only. For another one, a cached result would
// leave no requests there.
func SaveDir() string { return os.Getenv("BONGSU_TEST_PERMISSIONS") }

// system is the operator's namespace. Its Role applies only there.
const system = "bongsu-system"

// Save writes the operator's requests from an audit log to the directory of SaveDir. `make
// permissions` evaluates the requests of all tests together. Without a directory, Save does nothing.
func Save(dir, log string) error {
	if dir == "" {
		return nil
	}
	requests, err := read(log, Operator)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the API server has not started
	}
	if err != nil {
		return err
	}
	return write(dir, kinds(requests))
}

// kinds returns the requests, reduced to the fields that determine the permission.
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

// longAgo is the modification time of every file. Otherwise `go test` would not cache the
// result of a test that wrote a file, or would discard a cached result.
var longAgo = time.Unix(0, 0)

// write names the file after the hash of its content, so a second run adds no file.
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

// Load returns the requests that Save wrote to a directory.
func Load(dir string) ([]Request, error) {
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
