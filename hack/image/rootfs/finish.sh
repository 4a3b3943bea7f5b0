#!/bin/sh
# Turns extracted packages, which are not configured, into the root of a container:
# finish.sh ROOT. Called by mmdebstrap.
set -eu
cd "$1"

# Files that no test needs, and files of this machine.
rm -rf usr/share/doc usr/share/man usr/share/info usr/share/locale usr/share/javascript/mathjax/unpacked
rm -rf usr/lib/*/perl* usr/share/perl* usr/bin/perl* usr/bin/gdb
rm -f etc/hostname etc/resolv.conf etc/fstab

mkdir -p proc sys dev run usr/sbin root var/tmp
chmod 1777 tmp var/tmp
cat >etc/passwd <<-END
	root:x:0:0:root:/root:/bin/sh
	jovyan:x:1000:100:jovyan:/home/jovyan:/bin/sh
	nonroot:x:65532:65532:nonroot:/:/bin/sh
END
cat >etc/group <<-END
	root:x:0:
	users:x:100:
	nonroot:x:65532:
END
mkdir -p home/jovyan
chown 1000:100 home/jovyan

# A shell and tools for commands in containers. Tools of other packages have precedence.
bin/busybox --list-full | while read -r applet; do
	name=${applet##*/}
	[ -e "bin/$name" ] || [ -e "usr/bin/$name" ] || ln -sf /bin/busybox "bin/$name"
done
