#!/bin/sh
# Prints arguments of go test for the tests that choose a size: a -run flag and their packages.
# Run it from the root of the repository. A test calls internal/testing/size itself, so that its
# name is found.
set -eu

call='size\.(Choose|NotInTest)\(t, '
files=$(grep -rlE --include='*_test.go' "$call" internal pkg test)
names=$(awk -v call="$call" '
	/^func / { name = match($0, /^func Test[A-Za-z0-9_]*/) ? substr($0, 6, RLENGTH - 5) : "" }
	$0 ~ call {
		if (name == "") { print FILENAME ": a helper chooses a size: let the test choose it" > "/dev/stderr"; exit 1 }
		print name
	}' $files)
echo "-run ^($(echo "$names" | sort -u | paste -sd '|' -))\$ $(dirname $files | sort -u | sed 's|^|./|' | paste -sd ' ' -)"
