#!/bin/sh
# Builds a command and shows the compiler's progress, because a first build keeps
# every core busy for minutes. It is in this module because the module must be able to
# build without the rest of the repository. Run it in the directory of a module:
#
#	sh controlplane/gobuild.sh OUTPUT PACKAGE [FLAG...]
#
# The Makefile exports the flags that all builds share. Needs Go and a POSIX shell.
set -eu

output=$1 package=$2
shift 2

# progress TOTAL reads what `go build -v` says: the packages as it compiles them,
# and messages, which unlike package paths contain blanks. It succeeds only if it
# saw the build succeed, as a pipe has the exit status of its last command alone.
built="build: succeeded"
progress() {
	total=$1 count=0 shown_at=$(date +%s) status=1
	while IFS= read -r line; do
		case $line in
		"$built") status=0 ;;
		*[[:blank:]]*) printf '%s\n' "$line" >&2 ;;
		*) count=$((count + 1)) && show ;;
		esac
	done
	[ ! -t 1 ] || [ "$count" -eq 0 ] || echo
	return $status
}

# show keeps one line up to date on a terminal; elsewhere it prints one every 20
# seconds, and the last.
show() {
	text="  compiled $count of $total packages"
	[ "$count" -lt "$total" ] || text="$text, linking"
	now=$(date +%s)
	if [ -t 1 ]; then
		printf '\r%s' "$text"
	elif [ $((now - shown_at)) -ge 20 ] || [ "$count" -ge "$total" ]; then
		shown_at=$now
		echo "$text"
	fi
}

stale=$(go list "$@" -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "$package" | wc -l)
[ "$((stale))" -lt 100 ] || echo "  $((stale)) packages to compile, which takes minutes the first time"

mkdir -p "$(dirname "$output")"
# Shown the former binary, Go does not link the same one again.
[ ! -e "$output" ] || cp -p "$output" "$output.new"
# The compiler runs once for each package. It spends a fifth of its time on garbage
# collection unless it may use up to 1 GiB first.
{ GOGC=off GOMEMLIMIT=1GiB go build -v -o "$output.new" "$@" "$package" 2>&1 && echo "$built"; } | progress "$((stale))"
touch "$output.new"
mv -f "$output.new" "$output" # atomic: no process can start a partial binary
