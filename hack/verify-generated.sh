#!/bin/sh
# Fails if `make generate` changes anything, and shows the difference. It compares the
# working directory before and after, so that it also works with uncommitted changes.
# Run it from the root of the repository:
#
#	sh hack/verify-generated.sh
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
