// Package version tells which build of bongsu this is.
package version

import (
	"cmp"
	"runtime/debug"
)

// stamp is what `make build` has the linker write here: `git describe`.
var stamp string

// String returns the version of this build: what make stamped it with, else the
// version of the module (`go install ...@v1.2.3`), else the commit that the go
// command saw, else "unknown".
func String() string {
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return of(info)
}

const unknown = "unknown"

// of is what the go command recorded of a build; "(devel)" is its word for
// having no version.
func of(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if revision != "" && settings["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return cmp.Or(revision, unknown)
}
