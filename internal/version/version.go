// Package version returns the version of this build. It reads no files and sends no
// requests.
package version

import (
	"cmp"
	"runtime/debug"
)

// stamp is the output of `git describe`. The linker sets it during `make build`.
var stamp string

// String returns the version of this build. It uses the first that is known: the stamp,
// the version of the module (`go install ...@v1.2.3`), and the commit that the go command
// recorded. Otherwise it returns "unknown".
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

// of returns the version that the go command recorded. "(devel)" means no version.
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
