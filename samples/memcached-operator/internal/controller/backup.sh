# Writes the items of memcached servers to a file, as commands that store them again:
#
#	backup.sh FILE ADDRESS/PORT...
#
# To restore them: (cat FILE; echo quit) >/dev/tcp/ADDRESS/PORT
set -euo pipefail
LC_ALL=C TMOUT=60 # bytes are no characters; a server that does not answer for a minute is an error
file=$1
shift
if (($# == 0)); then
	echo "no server to back up: start one, and try again" >&2
	exit 1
fi

fail() {
	echo "$server: $1" >&2
	exit 1
}

# receive reads a line of the server.
receive() {
	read -r line <&3 || fail "no answer"
	line=${line%$'\r'}
}

# list reads the keys of all items, and when they expire.
list() {
	items=()
	printf 'lru_crawler metadump all\r\n' >&3
	while receive && [[ $line != END ]]; do
		[[ $line =~ ^key=([^ ]+)\ exp=(-1|[0-9]+)\  ]] || fail "$line"
		items+=("${BASH_REMATCH[1]} ${BASH_REMATCH[2]/#-1/0}")
	done
}

# copy writes the command that stores an item, unless the item no longer exists.
copy() {
	local encoded=$1 exptime=$2 key length flags
	[[ $encoded != *%00* && $encoded != *%0[AD]* && $encoded != *%20* ]] || fail "the key $encoded is not valid in the text protocol"
	printf -v key %b "${encoded//%/\\x}"
	printf 'get %s\r\n' "$key" >&3
	receive
	[[ $line != END ]] || return 0
	[[ $line =~ ^VALUE\ .*\ ([0-9]+)\ ([0-9]+)$ ]] || fail "$line"
	flags=${BASH_REMATCH[1]} length=${BASH_REMATCH[2]}
	printf 'set %s %s %s %s noreply\r\n' "$key" "$flags" "$exptime" "$length"
	head -c $((length + 2)) <&3
	receive
	[[ $line == END ]] || fail "$line"
}

for server; do
	exec 3<>"/dev/tcp/$server"
	list
	for item in "${items[@]}"; do
		copy $item
	done
done >"$file.part"
sync "$file.part"
mv "$file.part" "$file"
