// Package localcluster runs a real Kubernetes control plane on this machine as child
// processes. It is for tests, demos and development of operators. etcd and kube-apiserver
// always run. Optional are kube-controller-manager, kube-scheduler, and KWOK, which
// simulates nodes, their pods and volumes:
//
//	cluster, err := localcluster.Start(ctx, localcluster.Config{
//		Dir: t.TempDir(), Components: localcluster.Everything(), Nodes: 3, UnsafeNoFsync: true,
//	})
//	if err != nil {
//		t.Fatal(err)
//	}
//	defer cluster.Stop(context.Background())
//	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
//
// The directory contains everything: data, keys, logs and process IDs. A second Start with
// the same directory continues the same cluster. Nothing outside of it is written. All
// ports are on loopback, and all connections use TLS with certificates of this cluster.
//
// # Limits and errors
//
// The binaries must exist on this machine, see [DefaultAssets]. [Install] and [Main] build them from
// Go modules. Without them, Start returns [ErrNoAssets]. Only one process can
// run the cluster of a directory, and others get [ErrInUse]. [Cluster.Failed] reports
// components that crash. On Linux, the components end together with this process. On other
// Unix systems, the next Start kills the remaining ones.
//
// The cluster contains no custom resources. No containers run: KWOK only simulates their
// status and their Events, unless [Config.ExecPath] or [Config.ForwardPorts] is set. Commands in
// pods do not run either. The annotation [SimulateExec] of a pod answers them.
//
// # Simulated objects
//
// The annotation bongsu-local/simulate selects the behavior of a pod:
//
//	(none set)   it starts and becomes ready, and completes if a Job owns it
//	crash        its first container keeps exiting with code 1
//	oom          its first container keeps being OOMKilled, with code 137
//	image-pull   the image of its first container cannot be pulled; for new pods only
//	not-ready    its readiness probe fails while the annotation is set
//	none         its status and Events are left to you, until it is deleted
//
// The annotation bongsu-local/exec answers commands in a running pod (kubectl exec, health checks), as
// an [ExecAnswer]: {"exitCode": 1, "output": "no", "delaySeconds": 2}. You can change it at any time.
// HTTP requests to simulated pods have no answer.
//
// Other values of bongsu-local/simulate have no effect. Images, ConfigMaps and Secrets that do not exist have none either.
//
// And of a node:
//
//	(none set)   it joins and becomes ready
//	not-ready    its kubelet reports it as not ready while the annotation is set
//
// The label bongsu-local/simulate=none on a node leaves the node and its pods to you. It is a
// label because a kubelet can set labels when it registers its node.
//
// The annotation with the value none on a persistent volume claim prevents provisioning.
//
// The Stages that implement this are in stages/. Their Events have the reasons, messages,
// types and regarding objects of a real kubelet. The IDs of containers begin with simulated://. Package
// probe connects to no pod with such a container or with the annotation.
package localcluster
