#!/bin/sh
# Fails if `make generate` changes anything, and shows what: sh
# hack/verify-generated.sh, from the root of the repository. What is compared is
# the working directory before and after, so that it holds for changes that are
# not committed yet as well.
set -eu

generated="api config charts docs/reference"

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
for dir in $generated; do
	mkdir -p "$before/$dir"
	cp -R "$dir/." "$before/$dir"
done

make --no-print-directory generate

status=0
for dir in $generated; do
	git diff --no-index --exit-code "$before/$dir" "$dir" || status=1
done
[ $status -eq 0 ] || echo "Generated files were not up to date; they are now: commit them." >&2
exit $status
