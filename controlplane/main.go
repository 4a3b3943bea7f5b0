// Command controlplane is a Kubernetes control plane in one file: etcd, the
// API server, the controller manager, the scheduler, KWOK and kubectl, and on
// Linux kubelet and kube-proxy, built from the projects' own Go modules.
//
// It exists so that a machine with nothing but Go, make and git can run a real
// cluster. Nothing is downloaded but modules, which go.sum pins; no container
// runtime and no C compiler is needed. `bongsu local`, envtest and the
// end-to-end tests start it as processes, so they meet the same admission,
// validation, RBAC and garbage collection as a production cluster does.
//
// It is one binary because its parts share most of their code: apart they would
// take eight links and several times the disk. The name it is called by picks
// the component, as in BusyBox:
//
//	ln -s controlplane etcd && ./etcd --version
//	./controlplane etcd --version
//
// It is a module of its own because it pins Kubernetes to a release, with all
// that release requires. The operator's module must never import it: the
// operator follows its client libraries, and the two move at their own pace.
//
// A component here is what its upstream main function makes of it, no more:
// same flags, same signals, same exit codes. What a test wants otherwise, it
// says with flags.
package main

import (
	"os"

	"github.com/bongsu-io/bongsu/controlplane/internal/multicall"
)

var binary = multicall.Binary{
	Name:    "controlplane",
	Summary: "A Kubernetes control plane in one binary.",
	Programs: append([]multicall.Program{
		{Name: "etcd", Summary: "the store behind the API server", Main: etcd},
		{Name: "etcdctl", Summary: "client of a running etcd: compact, snapshot save", Main: etcdctl},
		{Name: "etcdutl", Summary: "works on the files of a stopped etcd: snapshot restore", Main: etcdutl},
		{Name: "kube-apiserver", Summary: "the Kubernetes API", Main: kubeAPIServer},
		{Name: "kube-controller-manager", Summary: "the controllers of the built-in kinds", Main: kubeControllerManager},
		{Name: "kube-scheduler", Summary: "assigns pods to nodes", Main: kubeScheduler},
		{Name: "kubectl", Summary: "the command line client", Main: kubectl},
		{Name: "kwok", Summary: "simulates nodes, and the pods on them", Main: kwok},
	}, nodePrograms...),
}

func main() {
	program, args, ok := binary.Choose(os.Args)
	if !ok {
		os.Exit(binary.Explain(os.Args, os.Stdout, os.Stderr))
	}
	os.Args = args // where every program looks for its flags
	program.Main()
}
