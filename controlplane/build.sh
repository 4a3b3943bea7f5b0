#!/bin/sh
# Builds the control plane: sh controlplane/build.sh OUTPUT, from the root of the
# repository. Needs Go and a POSIX shell.
set -eu

output=$PWD/$1 build=$PWD/hack/build.sh
cd "$(dirname "$0")"

# Built outside of Kubernetes' own scripts, the components would report v0.0.0,
# and a placeholder as the commit, which a module does not carry.
version=$(GOWORK=off go list -m -f '{{.Version}}' k8s.io/kubernetes)
major_minor=${version#v}
major_minor=${major_minor%.*}
stamp=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	stamp="$stamp -X $package.gitVersion=$version -X $package.gitCommit="
	stamp="$stamp -X $package.gitMajor=${major_minor%.*} -X $package.gitMinor=${major_minor#*.}"
done

echo "Building the embedded control plane (Kubernetes $version)."
sh "$build" "$output" . -ldflags "-s -w$stamp"
