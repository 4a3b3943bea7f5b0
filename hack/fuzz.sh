#!/bin/sh
# Runs every fuzz target for a while, as `go test` takes one at a time: sh
# hack/fuzz.sh TIME, from the root of the repository.
set -eu

time=$1
for match in $(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' internal pkg hack | tr ' ' =); do
	package=./$(dirname "${match%%:*}") target=${match#*=}
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
done
