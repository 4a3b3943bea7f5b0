#!/bin/sh
# Fails if bongsu and the control plane use different versions of a module:
# sh hack/verify-shared-modules.sh, from the root of the repository. The compiler
# then compiles the module's packages twice, which takes minutes in a first build.
# Needs Go and a POSIX shell.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# modules PACKAGE prints the modules that a command is built from, with their versions.
modules() {
	go list -deps -f '{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}' "$1" |
		LC_ALL=C sort -u
}

modules ./cmd/... >"$dir/bongsu"
(cd controlplane && modules ./cmd/controlplane) >"$dir/controlplane"
differing=$(LC_ALL=C join "$dir/bongsu" "$dir/controlplane" |
	awk '$2 != $3 { print "  " $1 ": " $2 " in go.mod, " $3 " in controlplane/go.mod" }')
[ -z "$differing" ] || {
	echo "modules with two versions: run 'go get MODULE@VERSION' where the version is the lower one" >&2
	echo "$differing" >&2
	exit 1
}
