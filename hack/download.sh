#!/bin/sh
# Downloads the dependencies of each go.mod. It tries again if that fails, so that a
# network error for some seconds does not fail a build. Run it from the root of the repository:
#
#	sh hack/download.sh
set -eu

for file in $(git ls-files go.mod '*/go.mod'); do
	for delay in 5 15 45 -; do
		if (cd "$(dirname "$file")" && go mod download); then
			break
		elif [ "$delay" = - ]; then
			echo "$file: its dependencies cannot be downloaded: check the network and GOPROXY" >&2
			exit 1
		fi
		echo "$file: trying again in $delay s" >&2
		sleep "$delay"
	done
done
