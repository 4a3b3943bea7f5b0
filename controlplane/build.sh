#!/bin/sh
# Builds a command of this module: sh build.sh OUTPUT, from any directory. The name of
# the output is the name of the command. Needs Go and a POSIX shell.
set -eu

case $1 in
/*) output=$1 ;;
*) output=$PWD/$1 ;;
esac
name=${1##*/}
cd "$(dirname "$0")"

# Without Kubernetes' own build scripts the components report version v0.0.0 and a
# placeholder as the commit, which a module does not contain.
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
major_minor=${version#v}
major_minor=${major_minor%.*}
stamp=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	stamp="$stamp -X $package.gitVersion=$version -X $package.gitCommit="
	stamp="$stamp -X $package.gitMajor=${major_minor%.*} -X $package.gitMinor=${major_minor#*.}"
done

echo "Building the $name binary of Kubernetes $version."
sh gobuild.sh "$output" "./cmd/$name" -ldflags "-s -w$stamp"
