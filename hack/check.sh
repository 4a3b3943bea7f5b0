#!/usr/bin/env bash
# Runs targets of the Makefile, one after the other, also after one that fails. Then it
# prints the last lines of each failed target, the tests that failed or ran again, and a
# table of all. The output of a target is also in bin/check/TARGET.log. Run it from the root
# of the repository:
#
#	bash hack/check.sh TARGET...
set -uo pipefail

logs=bin/check
results=() failed=()
SECONDS=0

# missing prints why this machine cannot run a target, if it cannot.
missing() {
	case $1 in
	race) find_compiler || echo "needs a C compiler" ;;
	e2e-node | e2e-servers) can_be_node || echo "needs Linux, root and apt-get" ;;
	esac
}

# find_compiler succeeds if there is a C compiler, or Debian has one to install.
find_compiler() {
	command -v gcc >/dev/null || command -v cc >/dev/null && return
	command -v apt-get >/dev/null && [[ $(id -u) == 0 ]] || return 1
	{ DEBIAN_FRONTEND=noninteractive timeout 300 apt-get update -qq &&
		DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -qq --no-install-recommends gcc libc6-dev; } >/dev/null
}

# can_be_node succeeds if a kubelet can run here.
can_be_node() {
	[[ $(uname -s) == Linux && $(id -u) == 0 ]] && command -v apt-get >/dev/null
}

record() {
	results+=("$(printf '%-15s %-8s %s' "$@")")
	echo "==> ${results[-1]}"
}

run() {
	local target=$1 begun=$SECONDS result=passed reason
	reason=$(missing "$target")
	if [[ -n $reason ]]; then
		record "$target" "not run" "$reason"
		return
	fi
	echo "==> make $target"
	make --no-print-directory "$target" 2>&1 </dev/null | tee "$logs/$target.log" || { result=FAILED; failed+=("$target"); }
	record "$target" $result "$((SECONDS - begun)) s"
}

# show prints a list at the end of the output of hack/test.
show() {
	[[ ! -e $logs/$2.log ]] || sed -n "/^$1\$/,/^\$/p" "$logs/$2.log"
}

rm -rf "$logs" && mkdir -p "$logs"
for target in "$@"; do run "$target"; done

for target in ${failed[@]+"${failed[@]}"}; do
	printf '\n==> The last lines of %s, of bin/check/%s.log:\n' "$target" "$target"
	tail -n 30 "$logs/$target.log"
done
for target in ${failed[@]+"${failed[@]}"}; do
	show 'Failed:' "$target"
done
for target in "$@"; do
	show 'Ran again, and each is a defect:' "$target"
done

echo
printf '%s\n' "${results[@]}"
((${#failed[@]} == 0)) && result=passed || result=FAILED
echo "$result in $((SECONDS / 60)) min $((SECONDS % 60)) s"
((${#failed[@]} == 0))
