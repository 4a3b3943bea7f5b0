package node

import (
	"bytes"
	"embed"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed config
var configs embed.FS

// settings are what the templates in config/ are filled in with.
type settings struct {
	// Dir is where a program has all that it has.
	Dir string
	// Network is that of all pods, Pods of those of a node, which is called Name.
	Network, Pods, Name, Address, Bridge string

	Cgroup, CNIPlugins, SandboxImage, CertificateAuthority string
}

// configure writes a template of config/, filled in, to a directory below Dir, and
// returns its path.
func (s settings) configure(name string) (string, error) {
	filled, err := template.ParseFS(configs, "config/"+name)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := filled.Execute(&text, s); err != nil {
		return "", err
	}
	path := filepath.Join(s.Dir, "config", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, text.Bytes(), 0o600)
}
