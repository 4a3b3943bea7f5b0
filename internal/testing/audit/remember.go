package audit

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

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
