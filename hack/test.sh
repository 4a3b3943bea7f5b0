#!/bin/sh
# Runs `go test`, and then shows what tests have to tell people, of which it shows
# nothing where they pass (see internal/testing/summary): sh hack/test.sh PACKAGES
# [FLAG...], from the root of the repository.
set -u

packages=$1
shift
export BONGSU_TEST_SUMMARIES="$PWD/bin/summaries"
export BONGSU_TEST_RIGHTS="$PWD/bin/rights"
mkdir -p "$BONGSU_TEST_SUMMARIES" "$BONGSU_TEST_RIGHTS"

status=0
go test "$@" $packages || status=$?
for package in $(go list $packages | tr / _); do
	for file in "$BONGSU_TEST_SUMMARIES/$package".*; do
		[ ! -e "$file" ] || cat "$file" # the pattern stands for itself if nothing matches
	done
done
exit $status
