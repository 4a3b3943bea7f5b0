// Package localcluster starts and stops a real Kubernetes control plane on this
// machine, as child processes: etcd and kube-apiserver, and as asked for
// kube-controller-manager, kube-scheduler and KWOK, which simulates nodes and
// the pods on them. `bongsu local` runs on it, and so do the tests.
//
// Everything a cluster has lives in one directory: data, keys, logs, pid files.
// Nothing is written outside of it, no port but loopback ones is opened, and
// every connection is TLS with credentials of that cluster alone. A second start
// on the same directory finds the same cluster.
//
// It knows nothing of this project's own kinds and must not: it installs no
// CRDs and no roles. It imports none of Kubernetes' server code either; the
// binaries come from the controlplane module and are only ever executed.
//
// # What simulated objects do
//
// The annotation bongsu.io/simulate, on a pod, says what becomes of it:
//
//	(absent)     it starts, becomes ready, and completes if a Job owns it
//	crash        its first container exits with code 1, again and again
//	oom          the same, killed for memory: code 137, OOMKilled
//	image-pull   the image of its first container cannot be pulled
//	none         nothing, until it is deleted: its status and its Events are yours
//
// On a node:
//
//	(absent)     it joins and becomes ready
//	not-ready    its kubelet reports it as not ready, until the annotation goes
//
// A node with the label (not the annotation, as a kubelet can label the node that
// it registers) bongsu.io/simulate=none is left to somebody else, as are the pods
// on it.
//
// On a persistent volume claim, none keeps it from being provisioned. The Stages
// that do this are in stages/; their Events have the reasons, messages, types
// and regarding objects of a kubelet.
package localcluster
