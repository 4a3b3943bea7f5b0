// Command controlplane is a Kubernetes control plane in one file. It contains etcd,
// the API server, the controller manager, the scheduler, KWOK and kubectl, built
// from their own Go modules.
//
// With it, a machine that has only Go, make and git can run a real cluster. The
// build downloads only modules, which go.sum pins, and needs no container runtime
// and no C compiler. `bongsu local`, envtest and the end-to-end tests start the
// components as processes. Admission, validation, RBAC and garbage collection are
// therefore the same as in a production cluster.
//
// It is one binary because its parts share most of their code. Separate binaries
// would take eight links and several times the disk space. The name the binary is
// called by selects the component, as in BusyBox:
//
//	ln -s controlplane etcd && ./etcd --version
//	./controlplane etcd --version
//
// It is a module of its own because k8s.io/kubernetes needs a replace directive
// for each of its staging modules. The operator's module must never import it.
// Modules that both use have the same version in both go.mod files, where
// possible: the compiler then compiles their packages once. `make verify` checks
// this.
//
// A component behaves like its upstream main function: same flags, same signals,
// same exit codes. Tests change its behavior with flags only.
package main

import "github.com/bongsu-io/bongsu/controlplane/internal/multicall"

var binary = multicall.Binary{
	Name:    "controlplane",
	Summary: "A Kubernetes control plane in one binary.",
	Programs: []multicall.Program{
		{Name: "etcd", Summary: "the store behind the API server", Main: etcd},
		{Name: "etcdctl", Summary: "client of a running etcd: compact, snapshot save", Main: etcdctl},
		{Name: "etcdutl", Summary: "works on the files of a stopped etcd: snapshot restore", Main: etcdutl},
		{Name: "kube-apiserver", Summary: "the Kubernetes API", Main: kubeAPIServer},
		{Name: "kube-controller-manager", Summary: "the controllers of the built-in kinds", Main: kubeControllerManager},
		{Name: "kube-scheduler", Summary: "assigns pods to nodes", Main: kubeScheduler},
		{Name: "kubectl", Summary: "the command line client", Main: kubectl},
		{Name: "kwok", Summary: "simulates nodes, and the pods on them", Main: kwok},
	},
}

func main() { binary.Run() }
