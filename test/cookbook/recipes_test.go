package cookbook

import "time"

// recipes trigger each alarm of the page, by the heading of its section. Real components
// write the Events of applied, deleted and simulated causes. The kubelet is simulated, with
// real texts. Recorded causes are Events as their component writes them. They stand for what
// the cluster lacks: disks, networks, probes, clouds, and time to wait for a schedule.
//
// Each alarm has its own namespaces, because it would also report Events of other recipes.
var recipes = map[string]recipe{
	"A node fails, and comes back": {
		nearMiss: both(applied(`{apiVersion: v1, kind: Node, metadata: {name: BYSTANDER, labels: {kubernetes.io/hostname: BYSTANDER}}}`), reported("default", "BYSTANDER", "NodeReady")),
		steps: []cause{
			simulated("node-1", "not-ready"),
			both(older("node-1", 70*time.Second), simulated("node-1", "")),
		},
	},
	"A node joins or leaves": {
		nearMiss: recorded(happening{
			by: "node-controller", kind: "Node", eventType: "Normal", reason: "RegisteredNode", note: "Node event: Registered Node in Controller",
		}),
		steps: []cause{
			// Without the taint, pods of other recipes could be bound to it, and be deleted with it.
			both(applied(`
apiVersion: v1
kind: Node
metadata: {name: spot-7, labels: {node.kubernetes.io/instance-type: m7g.large}}
spec: {taints: [{key: test.bongsu.io/leaves, effect: NoSchedule}]}
`),
				reported("default", "spot-7", "RegisteredNode")),
			deleted("Node", "v1", "", "spot-7"),
		},
	},
	"A node is short of something": { // recorded: pkg/kubelet/eviction, nodestatus
		nearMiss: recorded(happening{
			by: "kubelet", kind: "Node", eventType: "Normal", reason: "NodeHasNoDiskPressure", note: "Node status is now: NodeHasNoDiskPressure",
		}),
		steps: []cause{recorded(
			happening{by: "kubelet", kind: "Node", on: "node-0", eventType: "Normal", reason: "NodeHasDiskPressure", note: "Node node-0 status is now: NodeHasDiskPressure"},
			happening{by: "kubelet", kind: "Node", on: "node-0", eventType: "Warning", reason: "EvictionThresholdMet", note: "Attempting to reclaim ephemeral-storage"},
		)},
	},
	"Pods are driven out": {
		before: applied(`
apiVersion: v1
kind: Namespace
metadata: {name: reports}
---
apiVersion: v1
kind: Node
metadata: {name: batch-1, labels: {for: batch}}
status: {capacity: {cpu: "1", memory: 4Gi, pods: "110"}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: monthly, namespace: reports}
spec:
  nodeSelector: {for: batch}
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: registry.example.com/report:1, resources: {requests: {cpu: 800m}}}]
`),
		nearMiss: recorded(happening{
			by: "kubelet", kind: "Pod", on: "reports/", eventType: "Normal", reason: "Killing", note: "Stopping container app", container: "app",
		}),
		steps: []cause{both(reported("reports", "monthly", "Started"), applied(`
apiVersion: v1
kind: Pod
metadata: {name: quarterly, namespace: reports}
spec:
  priorityClassName: urgent
  nodeSelector: {for: batch}
  containers: [{name: app, image: registry.example.com/report:1, resources: {requests: {cpu: 800m}}}]
`))},
	},
	"A pod crashes again and again": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`),
		nearMiss: recorded(happening{
			by: "kubelet", kind: "Pod", on: "shop/", eventType: "Normal", reason: "BackOff", note: `Back-off pulling image "registry.example.com/cart:2"`, container: "app", count: 9,
		}),
		steps: []cause{applied(`
apiVersion: v1
kind: Pod
metadata: {name: cart, namespace: shop, labels: {app: cart}, annotations: {bongsu.io/simulate: crash}}
spec: {containers: [{name: app, image: registry.example.com/cart:1}]}
`)},
	},
	"A container is killed for its memory": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: payments}}`),
		nearMiss: both(applied(`
apiVersion: v1
kind: Pod
metadata: {name: BYSTANDER, namespace: payments, annotations: {bongsu.io/simulate: crash}}
spec: {containers: [{name: app, image: registry.example.com/ledger:1}]}
`), reported("payments", "BYSTANDER", "BackOff")),
		steps: []cause{applied(`
apiVersion: v1
kind: Pod
metadata: {name: ledger, namespace: payments, annotations: {bongsu.io/simulate: oom}}
spec: {containers: [{name: app, image: registry.example.com/ledger:1, resources: {limits: {memory: 64Mi}}}]}
`)},
	},
	"An image cannot be pulled": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: blog}}`),
		nearMiss: recorded(
			happening{by: "kubelet", kind: "Pod", on: "blog/", eventType: "Warning", reason: "Failed", note: "Error: ErrImagePull", container: "app"},
			happening{by: "kubelet", kind: "Pod", on: "blog/", eventType: "Normal", reason: "BackOff", note: `Back-off pulling image "registry.example.com/blog:v0"`, container: "app"},
		),
		steps: []cause{applied(`
apiVersion: v1
kind: Pod
metadata: {name: front, namespace: blog, annotations: {bongsu.io/simulate: image-pull}}
spec: {containers: [{name: app, image: "registry.example.com/blog:v0"}]}
`)},
	},
	"A pod cannot be scheduled": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: forecast}}`),
		nearMiss: recorded(happening{
			by: "default-scheduler", kind: "Pod", on: "forecast/", eventType: "Warning", reason: "FailedScheduling",
			note: "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
		}),
		steps: []cause{applied(hungry("train-0") + "---" + hungry("train-1"))},
	},
	"The autoscaler adds no node": { // recorded: cluster-autoscaler's processors/status
		nearMiss: recorded(happening{
			by: "cluster-autoscaler", kind: "Pod", on: "default/", eventType: "Normal", reason: "NotTriggerScaleUp",
			note: "pod didn't trigger scale-up: 3 node(s) didn't match Pod's node affinity/selector",
		}),
		steps: []cause{recorded(happening{
			by: "cluster-autoscaler", kind: "Pod", on: "forecast/train-7", eventType: "Normal", reason: "NotTriggerScaleUp",
			note: "pod didn't trigger scale-up: 1 max node group size reached, 2 Insufficient cpu",
		})},
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: forecast}}`),
	},
	"A probe fails often": { // recorded: pkg/kubelet/prober
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: search}}`),
		nearMiss: recorded(happening{
			by: "kubelet", kind: "Pod", on: "search/", eventType: "Warning", reason: "Unhealthy", note: "Readiness probe failed: HTTP probe failed with statuscode: 503", container: "app", count: 4,
		}),
		steps: []cause{recorded(happening{
			by: "kubelet", kind: "Pod", on: "search/index-0", eventType: "Warning", reason: "Unhealthy", note: "Readiness probe failed: HTTP probe failed with statuscode: 503", container: "app", count: 6,
		})},
	},
	"A volume cannot be mounted": { // recorded: pkg/volume/util/operationexecutor
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: data}}`),
		nearMiss: recorded(happening{
			by: "kubelet", kind: "Pod", on: "data/", eventType: "Warning", reason: "FailedMount", note: `MountVolume.SetUp failed for volume "config" : failed to sync configmap cache: timed out waiting for the condition`,
		}),
		steps: []cause{recorded(happening{
			by: "kubelet", kind: "Pod", on: "data/db-0", eventType: "Warning", reason: "FailedMount", note: `MountVolume.SetUp failed for volume "config" : configmap "db-config" not found`, count: 2,
		})},
	},
	"A volume cannot be made": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: archive}}`),
		nearMiss: recorded(happening{
			by: "persistentvolume-controller", kind: "PersistentVolumeClaim", on: "archive/", eventType: "Normal", reason: "WaitForFirstConsumer", note: "waiting for first consumer to be created before binding",
		}),
		steps: []cause{applied(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk, namespace: archive}
spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)},
	},
	"A Job has failed": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: billing}}`),
		nearMiss: both(applied(`
apiVersion: batch/v1
kind: Job
metadata: {name: BYSTANDER, namespace: billing}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: app, image: "registry.example.com/billing:1"}]}}
`), reported("billing", "BYSTANDER", "SuccessfulCreate")),
		steps: []cause{applied(`
apiVersion: batch/v1
kind: Job
metadata: {name: invoices, namespace: billing}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {bongsu.io/simulate: crash}}
    spec: {restartPolicy: Never, containers: [{name: app, image: "registry.example.com/billing:1"}]}
`)},
	},
	"A CronJob was missed": { // recorded: pkg/controller/cronjob
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: billing}}`),
		nearMiss: recorded(happening{
			by: "cronjob-controller", kind: "CronJob", on: "billing/", eventType: "Normal", reason: "SuccessfulCreate", note: "Created job nightly-29400000",
		}),
		steps: []cause{recorded(happening{
			by: "cronjob-controller", kind: "CronJob", on: "billing/nightly", eventType: "Warning", reason: "MissSchedule", note: "Missed scheduled time to start a job: Fri, 20 Nov 2026 01:00:00 +0000",
		})},
	},
	"A rollout begins": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: web}}`),
		nearMiss: recorded(happening{
			by: "deployment-controller", kind: "Deployment", on: "web/", eventType: "Normal", reason: "ScalingReplicaSet", note: "Scaled up replica set home-5d4b8f6c9 from 2 to 3",
		}),
		steps: []cause{applied(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: home, namespace: web, annotations: {kubernetes.io/change-cause: the new logo}}
spec:
  replicas: 2
  selector: {matchLabels: {app: home}}
  template:
    metadata: {labels: {app: home}}
    spec: {containers: [{name: app, image: "registry.example.com/home:2"}]}
`)},
	},
	"A quota blocks pods": {
		before: both(applied(noPods("small")), counted("small", "none")),
		nearMiss: recorded(happening{
			by: "replicaset-controller", kind: "ReplicaSet", on: "small/", eventType: "Warning", reason: "FailedCreate", note: `Error creating: pods "web-" is forbidden: violates PodSecurity "restricted:latest"`,
		}),
		steps: []cause{applied(deployment("small", "web"))},
	},
	"A policy or a webhook refuses pods": {
		before: applied(`
apiVersion: v1
kind: Namespace
metadata: {name: guarded, labels: {pod-security.kubernetes.io/enforce: restricted}}
`),
		nearMiss: recorded(happening{
			by: "replicaset-controller", kind: "ReplicaSet", on: "guarded/", eventType: "Warning", reason: "FailedCreate", note: `Error creating: pods "web-" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0`,
		}),
		steps: []cause{applied(deployment("guarded", "web"))},
	},
	"An autoscaler has no metrics": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: elastic}}`),
		nearMiss: recorded(happening{
			by: "horizontal-pod-autoscaler", kind: "HorizontalPodAutoscaler", on: "elastic/", eventType: "Warning", reason: "FailedComputeMetricsReplicas", note: "invalid metrics (1 invalid out of 1)", count: 5,
		}),
		steps: []cause{applied(deployment("elastic", "api") + `
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: api, namespace: elastic}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
`)},
	},
	"Pods get no network": { // recorded: pkg/kubelet/kuberuntime, the text of a plugin
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: edge}}`),
		nearMiss: recorded(happening{
			by: "kubelet", kind: "Pod", on: "edge/", eventType: "Normal", reason: "SandboxChanged", note: "Pod sandbox changed, it will be killed and re-created.", count: 4,
		}),
		steps: []cause{recorded(happening{
			by: "kubelet", kind: "Pod", on: "edge/proxy-2", eventType: "Warning", reason: "FailedCreatePodSandBox", count: 4,
			note: `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "0d1c": plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container`,
		})},
	},
	"A load balancer cannot be made": { // recorded: k8s.io/cloud-provider/controllers/service
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: edge}}`),
		nearMiss: recorded(happening{
			by: "service-controller", kind: "Service", on: "edge/", eventType: "Normal", reason: "EnsuringLoadBalancer", note: "Ensuring load balancer",
		}),
		steps: []cause{recorded(happening{
			by: "service-controller", kind: "Service", on: "edge/public", eventType: "Warning", reason: "SyncLoadBalancerFailed",
			note: "Error syncing load balancer: failed to ensure load balancer: could not find any suitable subnets for creating the ELB",
		})},
	},
	"An app or a notebook does not run": {
		before:   both(applied(noPods("desk")), counted("desk", "none"), applied(`{apiVersion: v1, kind: Namespace, metadata: {name: roomy}}`)),
		nearMiss: both(applied(app("roomy", "BYSTANDER")), reported("roomy", "BYSTANDER", "ScalingReplicaSet")),
		steps: []cause{
			applied(app("desk", "orders")),
			deleted("ResourceQuota", "v1", "desk", "none"),
		},
	},
	"A Secret blocks a copy": {
		before: applied(`
apiVersion: v1
kind: Namespace
metadata: {name: platform}
---
apiVersion: v1
kind: Namespace
metadata: {name: legacy}
---
apiVersion: v1
kind: Secret
metadata: {name: registry, namespace: platform}
stringData: {password: correct-horse}
---
apiVersion: v1
kind: Secret
metadata: {name: registry, namespace: legacy}
`),
		nearMiss: applied(share("BYSTANDER", "nothing")),
		steps: []cause{
			applied(share("registry", "registry")),
			deleted("Secret", "v1", "legacy", "registry"),
		},
	},
	"All Warnings of production, but not at night": { // recorded, so that their number is as on the page
		before: applied(`
apiVersion: v1
kind: Namespace
metadata: {name: front, labels: {env: production}}
---
apiVersion: v1
kind: Namespace
metadata: {name: front-test, labels: {env: test}}
`),
		nearMiss: recorded(
			happening{by: "kubelet", kind: "Pod", on: "front-test/", eventType: "Warning", reason: "FailedMount", note: `MountVolume.SetUp failed for volume "config" : configmap "web" not found`},
			happening{by: "kubelet", kind: "Pod", on: "front/", eventType: "Normal", reason: "Pulled", note: "Container image already present on machine", container: "app"},
		),
		steps: []cause{recorded(
			happening{by: "kubelet", kind: "Pod", on: "front/web-0", eventType: "Warning", reason: "FailedMount", note: `MountVolume.SetUp failed for volume "config" : configmap "web" not found`},
			happening{by: "kubelet", kind: "Pod", on: "front/web-1", eventType: "Warning", reason: "FailedMount", note: `MountVolume.SetUp failed for volume "config" : configmap "web" not found`},
			happening{by: "kubelet", kind: "Pod", on: "front/web-0", eventType: "Warning", reason: "Unhealthy", note: "Readiness probe failed: HTTP probe failed with statuscode: 503", container: "app"},
		)},
	},
	"Something is wrong with my app": {
		before:   applied(`{apiVersion: v1, kind: Namespace, metadata: {name: till}}`),
		nearMiss: both(applied(crashing("BYSTANDER", "printer")), reported("till", "BYSTANDER", "BackOff")),
		steps:    []cause{applied(crashing("checkout-0", "checkout"))},
	},
}

// hungry returns a pod that fits on no node.
func hungry(name string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: forecast}
spec: {containers: [{name: app, image: "registry.example.com/train:3", resources: {requests: {cpu: "64"}}}]}
`
}

// crashing returns a pod of an app that crashes.
func crashing(name, app string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: till, labels: {app: ` + app + `}, annotations: {bongsu.io/simulate: crash}}
spec: {containers: [{name: app, image: "registry.example.com/till:1"}]}
`
}

func deployment(namespace, name string) string {
	return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: ` + name + `, namespace: ` + namespace + `}
spec:
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec: {containers: [{name: app, image: "registry.example.com/app:1", resources: {requests: {cpu: 100m}}}]}
`
}

// noPods returns a namespace whose quota allows no pods.
func noPods(namespace string) string {
	return `
apiVersion: v1
kind: Namespace
metadata: {name: ` + namespace + `}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: none, namespace: ` + namespace + `}
spec: {hard: {pods: "0"}}
`
}

func app(namespace, name string) string {
	return `
apiVersion: bongsu.io/v1alpha1
kind: AppService
metadata: {name: ` + name + `, namespace: ` + namespace + `}
spec: {size: 1, image: "registry.example.com/orders:1"}
`
}

// share returns a rule for a Secret, which may not exist.
func share(name, secret string) string {
	return `
apiVersion: bongsu.io/v1alpha1
kind: ClusterSecretShare
metadata: {name: ` + name + `}
spec:
  source: {namespace: platform, names: [` + secret + `]}
  targets: {names: [legacy]}
`
}
