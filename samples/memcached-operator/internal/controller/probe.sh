# Fails unless a memcached server answers within three seconds:
#
#	probe.sh ADDRESS/PORT
set -e
exec 3<>"/dev/tcp/$1"
printf 'version\r\n' >&3
read -r -t 3 line <&3
[[ $line == VERSION* ]]
