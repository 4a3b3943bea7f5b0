// Package node gives tests a cluster with a real node: a kubelet that runs real
// containers by containerd, and kube-proxy, on a control plane of pkg/localcluster.
//
// The tests of a package that uses it run in namespaces of their own (Main): of
// processes, mounts, network, IPC and host name. So nothing of this machine is changed,
// no port is taken, and all that was started ends with the tests, in whatever way they
// end. What namespaces do not hold, a directory and cgroups, is removed by the process
// that waits outside, or by the next run if that was killed.
//
// It needs Linux, root, and the Debian packages that Packages names. It knows nothing
// of this project's own kinds.
package node
