// Package node gives tests a cluster with real nodes. The control plane is that of
// pkg/localcluster. A kubelet runs real containers with containerd, and kube-proxy runs
// beside it.
//
// The tests of a package that calls Main run in their own process, mount, network, IPC and
// UTS namespaces. They change nothing on this machine and use none of its ports. All their
// processes end with the tests, even if the tests are killed. Two things are not in a
// namespace: a directory and cgroups. The process outside of the namespaces removes them.
// If it was killed, the next run does.
//
// The package needs Linux, root and some Debian packages, which `make e2e-node` installs.
// It does not depend on this project's kinds.
package node
