package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// cniPlugins is where Debian has them.
const cniPlugins = "/usr/lib/cni"

// checkMachine tells what this machine lacks.
func checkMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("they need root")
	}
	var missing []string
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "iptables", "conntrack"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if _, err := os.Stat(cniPlugins + "/bridge"); err != nil {
		missing = append(missing, cniPlugins+"/bridge")
	}
	if len(missing) > 0 {
		return fmt.Errorf("this machine has no %s: `make e2e-node` installs the Debian packages containerd, runc, iptables, iproute2, conntrack and containernetworking-plugins",
			strings.Join(missing, ", "))
	}
	return nil
}
