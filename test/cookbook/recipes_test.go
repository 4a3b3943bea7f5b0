package cookbook

import (
	"fmt"
	"time"
)

// recipes trigger each alarm of the cookbook, by the heading of its section. Real components
// write the Events of applied, deleted and simulated causes. The kubelet is simulated, with
// real texts. Recorded causes are Events as their component writes them. They stand for what
// the cluster lacks: disks, networks, probes, clouds, and time to wait for a schedule.
//
// Each alarm has its own namespaces, because it would also report Events of other recipes.
var recipes = map[string]recipe{
	"A node is not ready": {
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
	"A node runs out of resources": { // recorded: pkg/kubelet/eviction, nodestatus
		nearMiss: recorded(happening{
			by: "kubelet", kind: "Node", eventType: "Normal", reason: "NodeHasNoDiskPressure", note: "Node status is now: NodeHasNoDiskPressure",
		}),
		steps: []cause{recorded(
			happening{by: "kubelet", kind: "Node", on: "node-0", eventType: "Normal", reason: "NodeHasDiskPressure", note: "Node node-0 status is now: NodeHasDiskPressure"},
			happening{by: "kubelet", kind: "Node", on: "node-0", eventType: "Warning", reason: "EvictionThresholdMet", note: "Attempting to reclaim ephemeral-storage"},
		)},
	},
	"Pods are evicted or preempted": {
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
	"A pod crashes repeatedly": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`),
		nearMiss: recorded(happening{
			by: "kubelet", kind: "Pod", on: "shop/", eventType: "Normal", reason: "BackOff", note: `Back-off pulling image "registry.example.com/cart:2"`, container: "app", count: 9,
		}),
		steps: []cause{applied(`
apiVersion: v1
kind: Pod
metadata: {name: cart, namespace: shop, labels: {app.kubernetes.io/name: cart}, annotations: {bongsu-local/simulate: crash}}
spec: {containers: [{name: app, image: registry.example.com/cart:1}]}
`)},
	},
	"A container runs out of memory": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: payments}}`),
		nearMiss: both(applied(`
apiVersion: v1
kind: Pod
metadata: {name: BYSTANDER, namespace: payments, annotations: {bongsu-local/simulate: crash}}
spec: {containers: [{name: app, image: registry.example.com/ledger:1}]}
`), reported("payments", "BYSTANDER", "BackOff")),
		steps: []cause{applied(`
apiVersion: v1
kind: Pod
metadata: {name: ledger, namespace: payments, annotations: {bongsu-local/simulate: oom}}
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
metadata: {name: front, namespace: blog, annotations: {bongsu-local/simulate: image-pull}}
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
	"A volume cannot be provisioned": {
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
	"A Job fails": {
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
    metadata: {annotations: {bongsu-local/simulate: crash}}
    spec: {restartPolicy: Never, containers: [{name: app, image: "registry.example.com/billing:1"}]}
`)},
	},
	"A CronJob misses its schedule": { // recorded: pkg/controller/cronjob
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: billing}}`),
		nearMiss: recorded(happening{
			by: "cronjob-controller", kind: "CronJob", on: "billing/", eventType: "Normal", reason: "SuccessfulCreate", note: "Created job nightly-29400000",
		}),
		steps: []cause{recorded(happening{
			by: "cronjob-controller", kind: "CronJob", on: "billing/nightly", eventType: "Warning", reason: "MissSchedule", note: "Missed scheduled time to start a job: Fri, 20 Nov 2026 01:00:00 +0000",
		})},
	},
	"A rollout starts": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: web}}`),
		nearMiss: recorded(happening{
			by: "deployment-controller", kind: "Deployment", on: "web/", eventType: "Normal", reason: "ScalingReplicaSet", note: "Scaled down replica set home-5d4b8f6c9 from 2 to 0",
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
	"A policy or a webhook rejects pods": {
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
	"Pods have no network": { // recorded: pkg/kubelet/kuberuntime, the text of a plugin
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: edge}}`),
		nearMiss: recorded(happening{
			by: "kubelet", kind: "Pod", on: "edge/", eventType: "Normal", reason: "SandboxChanged", note: "Pod sandbox changed, it will be killed and re-created.", count: 4,
		}),
		steps: []cause{recorded(happening{
			by: "kubelet", kind: "Pod", on: "edge/proxy-2", eventType: "Warning", reason: "FailedCreatePodSandBox", count: 4,
			note: `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "0d1c": plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container`,
		})},
	},
	"A load balancer cannot be created": { // recorded: k8s.io/cloud-provider/controllers/service
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: edge}}`),
		nearMiss: recorded(happening{
			by: "service-controller", kind: "Service", on: "edge/", eventType: "Normal", reason: "EnsuringLoadBalancer", note: "Ensuring load balancer",
		}),
		steps: []cause{recorded(happening{
			by: "service-controller", kind: "Service", on: "edge/public", eventType: "Warning", reason: "SyncLoadBalancerFailed",
			note: "Error syncing load balancer: failed to ensure load balancer: could not find any suitable subnets for creating the ELB",
		})},
	},
	"An image changes": {
		before: both(applied(`{apiVersion: v1, kind: Namespace, metadata: {name: museum}}`), applied(scaled("museum", "tickets", 1)), applied(scaled("museum", "BYSTANDER", 1))),
		nearMiss: both(
			kubectl("scale", "deployment/BYSTANDER", "--namespace=museum", "--replicas=2"),
			kubectl("rollout", "restart", "deployment/BYSTANDER", "--namespace=museum"),
		),
		steps: []cause{kubectl("set", "image", "deployment/tickets", "--namespace=museum", "app=registry.example.com/tickets:2")},
	},
	"The number of replicas changes, but not by an autoscaler": {
		before: both(applied(`{apiVersion: v1, kind: Namespace, metadata: {name: theater}}`), applied(scaled("theater", "stage", 2)), applied(scaled("theater", "BYSTANDER", 1))),
		nearMiss: both(
			kubectl("autoscale", "deployment/BYSTANDER", "--namespace=theater", "--min=2", "--max=3"),
			reported("theater", "BYSTANDER", "SuccessfulRescale"),
		),
		steps: []cause{kubectl("scale", "deployment/stage", "--namespace=theater", "--replicas=1")},
	},
	"A binding to cluster-admin is created": {
		nearMiss: kubectl("create", "clusterrolebinding", "BYSTANDER", "--clusterrole=view", "--user=mina"),
		steps:    []cause{kubectl("create", "clusterrolebinding", "weekend", "--clusterrole=cluster-admin", "--user=mina")},
	},
	"A rollout hangs": {
		before:   both(applied(`{apiVersion: v1, kind: Namespace, metadata: {name: bakery}}`), applied(impatient("oven")+"---"+scaled("bakery", "BYSTANDER", 1))),
		nearMiss: podsOf("bakery", "BYSTANDER", "image-pull"), // its deadline is ten minutes
		steps: []cause{
			podsOf("bakery", "oven", "image-pull"),
			podsOf("bakery", "oven", ""),
		},
	},
	"A Deployment is unavailable": {
		before: both(
			applied(`{apiVersion: v1, kind: Namespace, metadata: {name: market}}`), applied(scaled("market", "stall", 1)+"---"+scaled("market", "BYSTANDER", 2)),
			kubectl("wait", "deployment/BYSTANDER", "--namespace=market", "--for=condition=Available", "--timeout=2m"),
		),
		nearMiss: kubectl("scale", "deployment/BYSTANDER", "--namespace=market", "--replicas=1"),
		steps: []cause{
			podsOf("market", "stall", "crash"),
			podsOf("market", "stall", ""),
		},
	},
	"A Service has no ready pods": {
		before: both(
			applied(`{apiVersion: v1, kind: Namespace, metadata: {name: cinema}}`), applied(scaled("cinema", "tickets", 1)+"---"+scaled("cinema", "BYSTANDER", 1)),
			kubectl("wait", "deployment/BYSTANDER", "--namespace=cinema", "--for=condition=Available", "--timeout=2m"),
		),
		nearMiss: kubectl("scale", "deployment/BYSTANDER", "--namespace=cinema", "--replicas=0"),
		steps: []cause{
			podsOf("cinema", "tickets", "crash"),
			podsOf("cinema", "tickets", ""),
		},
	},
	"A claim stays Pending": {
		before: both(
			applied(`{apiVersion: v1, kind: Namespace, metadata: {name: cellar}}`),
			applied(volume("BYSTANDER")+"---"+claim("BYSTANDER")),
			kubectl("wait", "pvc/BYSTANDER", "--namespace=cellar", "--for=jsonpath={.status.phase}=Bound", "--timeout=2m"),
		),
		nearMiss: kubectl("label", "pvc/BYSTANDER", "--namespace=cellar", "checked=today"),
		steps:    []cause{applied(claim("wine")), applied(volume("wine"))},
	},
	"A CronJob has not succeeded for a day": {
		before: both(
			applied(`{apiVersion: v1, kind: Namespace, metadata: {name: ledger}}`),
			applied(daily("backup")+"---"+daily("BYSTANDER")),
		),
		nearMiss: succeeded("BYSTANDER", 25*time.Hour),
		steps:    []cause{succeeded("backup", 27*time.Hour), succeeded("backup", 0)},
	},
	"A node is not ready for ten minutes": {
		before:   both(applied(tainted("press-3")), kubectl("wait", "node/press-3", "--for=condition=Ready", "--timeout=2m")),
		nearMiss: both(applied(tainted("BYSTANDER")), reported("default", "BYSTANDER", "NodeReady")),
		steps:    []cause{simulated("press-3", "not-ready"), simulated("press-3", "")},
	},
	"A namespace is not deleted": {
		before: applied(`
apiVersion: v1
kind: Namespace
metadata: {name: attic}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: box, namespace: attic, finalizers: [example.com/keep]}
`),
		nearMiss: both(
			applied(`{apiVersion: v1, kind: Namespace, metadata: {name: BYSTANDER}}`),
			kubectl("label", "namespace/BYSTANDER", "checked=today"),
		),
		steps: []cause{
			kubectl("delete", "namespace/attic", "--wait=false"),
			kubectl("patch", "configmap/box", "--namespace=attic", "--type=merge", `--patch={"metadata":{"finalizers":null}}`),
		},
	},
	"An autoscaler is at its maximum": {
		before: both(applied(`{apiVersion: v1, kind: Namespace, metadata: {name: circus}}`), applied(scaled("circus", "tent", 3)), applied(scaled("circus", "BYSTANDER", 1))),
		nearMiss: both(
			kubectl("autoscale", "deployment/BYSTANDER", "--namespace=circus", "--min=2", "--max=3"),
			reported("circus", "BYSTANDER", "SuccessfulRescale"),
		),
		steps: []cause{
			kubectl("autoscale", "deployment/tent", "--namespace=circus", "--min=1", "--max=2"),
			kubectl("patch", "hpa/tent", "--namespace=circus", "--type=merge", `--patch={"spec":{"maxReplicas":5}}`),
		},
	},
	"A certificate is not ready or expires soon": {
		before: both(
			custom("Certificate", "certificates", "cert-manager.io", "v1", `
              notAfter: {type: string, format: date-time}
              renewalTime: {type: string, format: date-time}
              revision: {type: integer}`),
			applied(`{apiVersion: v1, kind: Namespace, metadata: {name: gate}}`),
			certificate("www"), certificate("mail"), certificate("BYSTANDER"),
		),
		nearMiss: issued("BYSTANDER", "True", 20*24*time.Hour),
		steps: []cause{
			issued("www", "True", 13*24*time.Hour),
			issued("www", "True", 90*24*time.Hour),
			issued("mail", "False", 60*24*time.Hour),
		},
	},
	"An Application of Argo CD is not healthy": {
		before: both(
			applied(crdOfApplications), kubectl("wait", "--for=condition=Established", "crd/applications.argoproj.io"),
			applied(`{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}`),
			applied(application("warehouse")+"---"+application("shipping")+"---"+application("BYSTANDER")),
		),
		nearMiss: inArgoCD("BYSTANDER", `{"status":{"operationState":{"phase":"Failed"}}}`),
		steps: []cause{
			inArgoCD("warehouse", `{"status":{"health":{"status":"Degraded"}}}`),
			inArgoCD("warehouse", `{"status":{"health":{"status":"Healthy"}}}`),
			inArgoCD("shipping", `{"status":{"sync":{"status":"OutOfSync"}}}`),
		},
	},
	"A Kustomization of Flux is not ready": {
		before: both(
			custom("Kustomization", "kustomizations", "kustomize.toolkit.fluxcd.io", "v1", `
              lastAppliedRevision: {type: string}
              observedGeneration: {type: integer}`),
			applied(`{apiVersion: v1, kind: Namespace, metadata: {name: flux-system}}`),
			applied(kustomization("apps")+"---"+kustomization("BYSTANDER")),
		),
		nearMiss: reconciled("BYSTANDER", "True"),
		steps:    []cause{reconciled("apps", "False"), reconciled("apps", "True")},
	},
	"A HelmRelease of production fails": {
		before: both(
			custom("HelmRelease", "helmreleases", "helm.toolkit.fluxcd.io", "v2", `
              lastAttemptedRevision: {type: string}`),
			applied(`{apiVersion: v1, kind: Namespace, metadata: {name: storefront}}`),
			applied(helmRelease("web", "production")+"---"+helmRelease("BYSTANDER", "test")),
		),
		nearMiss: recorded(upgradeFailed("")),
		steps:    []cause{recorded(upgradeFailed("web"))},
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
			happening{by: "kubelet", kind: "Pod", on: "front/", eventType: "Warning", reason: "BackOff", note: "Back-off restarting failed container app in pod web", container: "app"},
		),
		steps: []cause{recorded(
			happening{by: "kubelet", kind: "Pod", on: "front/web-0", eventType: "Warning", reason: "FailedMount", note: `MountVolume.SetUp failed for volume "config" : configmap "web" not found`},
			happening{by: "kubelet", kind: "Pod", on: "front/web-1", eventType: "Warning", reason: "FailedMount", note: `MountVolume.SetUp failed for volume "config" : configmap "web" not found`},
			happening{by: "kubelet", kind: "Pod", on: "front/web-0", eventType: "Warning", reason: "Unhealthy", note: "Readiness probe failed: HTTP probe failed with statuscode: 503", container: "app"},
		)},
	},
	"Warnings about my app": {
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
metadata: {name: ` + name + `, namespace: till, labels: {app.kubernetes.io/name: ` + app + `}, annotations: {bongsu-local/simulate: crash}}
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

// scaled returns a Deployment with a number of replicas.
func scaled(namespace, name string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: "registry.example.com/tickets:1"}]}
`, namespace, name, replicas)
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
