package localcluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// layout is a cluster's directory: where in it everything is.
type layout string

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{string(l)}, elem...)...)
}

func (l layout) lock() string                 { return l.path("lock") }
func (l layout) ports() string                { return l.path("ports.json") }
func (l layout) kubeconfig() string           { return l.path("kubeconfig") }
func (l layout) auditLog() string             { return l.path("audit.log") }
func (l layout) auditPolicy() string          { return l.path("audit-policy.yaml") }
func (l layout) etcdData() string             { return l.path("etcd") }
func (l layout) stages() string               { return l.path("stages.yaml") }
func (l layout) tmp() string                  { return l.path("tmp") }
func (l layout) pki(file string) string       { return l.path("pki", file) }
func (l layout) pidFiles() string             { return l.path("run") }
func (l layout) pidFile(c Component) string   { return l.path("run", string(c)+".pid") }
func (l layout) log(c Component) string       { return l.path("logs", string(c)+".log") }
func (l layout) formerLog(c Component) string { return l.path("logs", string(c)+".previous.log") }

// make creates the directories. Keys are in there: they are the owner's alone.
func (l layout) make() error {
	for _, dir := range []string{"", "pki", "run", "logs", "tmp"} {
		if err := os.MkdirAll(l.path(dir), 0o700); err != nil {
			return fmt.Errorf("create the cluster's directory: %w", err)
		}
	}
	return nil
}
