package explain

import (
	"strings"
	"testing"
)

// shopNamespace is the namespace of the objects.
const shopNamespace = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {kubernetes.io/metadata.name: shop}}
---
`

// jobPod is a Job whose main container has ended, beside a proxy that runs.
const jobPod = `
apiVersion: batch/v1
kind: Job
metadata: {name: backup, namespace: shop, uid: j, creationTimestamp: "2026-03-01T08:25:00Z"}
spec: {selector: {matchLabels: {job: backup}}, template: {spec: {containers: []}}}
status: {active: 1, startTime: "2026-03-01T08:25:00Z"}
---
apiVersion: v1
kind: Pod
metadata: {name: backup-x, namespace: shop, uid: p, creationTimestamp: "2026-03-01T08:25:00Z", labels: {job: backup}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: backup, uid: j, controller: true}]}
spec: {nodeName: node-1, restartPolicy: Never, containers: [{name: backup}, {name: istio-proxy}]}
status:
  phase: Running
  conditions: [{type: Ready, status: "False"}, {type: ContainersReady, status: "False"}]
  containerStatuses:
  - {name: backup, image: a, imageID: "", ready: false, restartCount: 0, state: {terminated: {exitCode: 0, reason: Completed, startedAt: "2026-03-01T08:25:00Z", finishedAt: "2026-03-01T08:26:00Z"}}}
  - {name: istio-proxy, image: a, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: "2026-03-01T08:25:00Z"}}}
`

func TestAJobWhoseProxyRunsOnNamesTheProxy(t *testing.T) {
	checkExplained(t, "jobs.batch", "backup", map[string]tc{"istio": {objects: jobPod, want: `
Job shop/backup does not run as it should: 1 active, 0 succeeded, 0 failed

Cause: ContainerStillRunning in Pod backup-x, container istio-proxy (last 34m ago)
  container "backup" has ended with exit code 0, but container "istio-proxy" runs on, so that the pod does not complete
  Advice: run container "istio-proxy" as a sidecar (an init container with restartPolicy: Always), or stop it at the end of container "backup" (POST /quitquitquit to port 15020), or exclude the pod from the injection`}})
}

// slowStart is a container that runs for 40 s and has a startup probe that allows ten minutes.
func slowStart(startedAt string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: erp, namespace: shop, uid: p, creationTimestamp: "` + startedAt + `"}
spec: {nodeName: node-1, containers: [{name: erp, ports: [{containerPort: 8080}], startupProbe: {httpGet: {path: /health, port: 8080}, periodSeconds: 10, failureThreshold: 60}}]}
status:
  phase: Running
  conditions: [{type: Ready, status: "False"}, {type: ContainersReady, status: "False"}]
  containerStatuses: [{name: erp, image: a, imageID: "", ready: false, started: false, restartCount: 0, state: {running: {startedAt: "` + startedAt + `"}}}]
---
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
type: Warning
reason: Unhealthy
message: 'Startup probe failed: Get "http://10.12.3.9:8080/actuator/health": dial tcp 10.12.3.9:8080: connect: connection refused'
count: 4
lastTimestamp: "2026-03-01T08:59:57Z"
involvedObject: {apiVersion: v1, kind: Pod, name: erp, uid: p, fieldPath: "spec.containers{erp}"}
`
}

func TestASlowStartIsAProblemOnlyAfterItsTime(t *testing.T) {
	checkExplained(t, "pods", "erp", map[string]tc{
		"in time": {objects: slowStart("2026-03-01T08:59:20Z"), want: `
Pod shop/erp is not running yet, and no problem is known: 0 of 1 container ready; container "erp" is still starting: its startup probe cannot connect; it may fail 60 times in a row, which takes 10 minutes
  This is usual for 9m20s more`},
		"late": {objects: slowStart("2026-03-01T08:49:00Z"), want: `
Pod shop/erp does not run as it should: 0 of 1 container ready

Cause: Unhealthy in Pod erp, container erp (4 times, last 3s ago)
  container "erp" is not ready: its startup probe of port 8080 cannot connect
  Advice: check the probe's port, or wait until the container listens on it; ports of the container: 8080

The end of the log of Pod erp, container erp:
  | fake logs`},
	})
	o, err := fakeCluster(t, shopNamespace+slowStart("2026-03-01T08:59:20Z")).Overview(t.Context(), "shop")
	if err != nil || len(o.Problems) > 0 {
		t.Errorf("problems %+v, error %v", o.Problems, err)
	}
}

// awaitedSecret is a pod whose Secret an ExternalSecret creates, which cannot use its SecretStore.
const awaitedSecret = `
apiVersion: external-secrets.io/v1
kind: SecretStore
metadata: {name: vault, namespace: shop, uid: s, creationTimestamp: "2026-03-01T08:40:00Z"}
spec: {provider: {vault: {server: "https://vault.example.com"}}}
status: {conditions: [{type: Ready, status: "False", reason: InvalidProviderConfig, message: "unable to log in to Vault: Code: 403: permission denied", lastTransitionTime: "2026-03-01T08:40:00Z"}]}
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: db, namespace: shop, uid: e, creationTimestamp: "2026-03-01T08:40:00Z"}
spec: {secretStoreRef: {kind: SecretStore, name: vault}, target: {name: db}}
status: {conditions: [{type: Ready, status: "False", reason: SecretSyncedError, message: "could not get provider client: SecretStore \"vault\" is not ready", lastTransitionTime: "2026-03-01T08:40:00Z"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: api, namespace: shop, uid: p, creationTimestamp: "2026-03-01T08:40:00Z"}
spec: {nodeName: node-1, containers: [{name: app, env: [{name: PW, valueFrom: {secretKeyRef: {name: db, key: password}}}]}]}
status:
  phase: Pending
  containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: CreateContainerConfigError, message: 'secret "db" not found'}}}]
`

func TestAMissingSecretIsExplainedByWhatCreatesIt(t *testing.T) {
	checkExplained(t, "pods", "api", map[string]tc{
		"the store cannot log in": {objects: awaitedSecret, want: `
Pod shop/api does not run as it should: 0 of 1 container ready

Cause: InvalidProviderConfig in SecretStore vault (last 20m ago)
  container "app" cannot be started: Secret "db" does not exist: SecretStore "vault" has a problem: condition Ready is False: unable to log in to Vault: Code: 403: permission denied
  By way of:
  - ExternalSecret shop/db: condition Ready is False: could not get provider client: SecretStore "vault" is not ready
  - SecretStore shop/vault`},
		"the ExternalSecret may not be read": {objects: awaitedSecret, forbidden: []string{"ExternalSecret"}, want: `
Pod shop/api does not run as it should: 0 of 1 container ready

Cause: CreateContainerConfigError in Pod api, container app (last 20m ago)
  container "app" cannot be started: Secret "db" does not exist
  Advice: create it, or correct its name; if a controller creates it, find out why it has not

could not read externalsecrets.external-secrets.io: you may not list them`},
	})
}

// queuedJob is a Job that Kueue keeps suspended.
func queuedJob(condition string) string {
	return `
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: shop, uid: j, creationTimestamp: "2026-03-01T08:40:00Z", labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec: {suspend: true, selector: {matchLabels: {job: train}}, template: {spec: {containers: []}}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
metadata: {name: job-train-5e3de, namespace: shop, uid: w, creationTimestamp: "2026-03-01T08:40:00Z", ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: j, controller: true}]}
spec: {active: true, queueName: user-queue}
status: {conditions: [` + condition + `]}
`
}

func TestAQueuedJobIsExplainedByItsWorkload(t *testing.T) {
	checkExplained(t, "jobs.batch", "train", map[string]tc{
		"no such queue": {objects: queuedJob(`{type: QuotaReserved, status: "False", reason: Inadmissible, message: "LocalQueue user-queue doesn't exist", lastTransitionTime: "2026-03-01T08:40:00Z"}`), want: `
Job shop/train does not run as it should: it is suspended; it waits in queue "user-queue" of Kueue

Cause: Inadmissible in Workload job-train-5e3de (last 20m ago)
  it is suspended; it waits in queue "user-queue" of Kueue: Workload "job-train-5e3de", which it owns, has a problem: Kueue cannot admit it: LocalQueue user-queue doesn't exist
  Advice: create the LocalQueue, or correct the label kueue.x-k8s.io/queue-name
  By way of: Workload shop/job-train-5e3de`},
		"no quota left": {objects: queuedJob(`{type: QuotaReserved, status: "False", reason: Pending, message: "insufficient unused quota for cpu, 2 more needed", lastTransitionTime: "2026-03-01T08:40:00Z"}`), want: `
Job shop/train is stopped: it is suspended; it waits in queue "user-queue" of Kueue: it waits for quota: insufficient unused quota for cpu, 2 more needed`},
	})
}

// blockedPolicy is a webhook whose pods it must admit itself.
func blockedPolicy(selector string) string {
	refused := func(name string) string {
		return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: ` + name + `, namespace: shop, uid: d-` + name + `, generation: 1, creationTimestamp: "2026-03-01T08:00:00Z"}
spec: {replicas: 1, selector: {matchLabels: {app: ` + name + `}}, template: {metadata: {labels: {app: ` + name + `}}}}
status:
  observedGeneration: 1
  conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, lastTransitionTime: "2026-03-01T08:55:00Z",
    message: 'Internal error occurred: failed calling webhook "validate.policy.svc-fail": failed to call webhook: Post "https://policy-svc.shop.svc:443/validate?timeout=10s": no endpoints available for service "policy-svc"'}]
---`
	}
	return shopNamespace + refused("policy") + refused("web") + `
apiVersion: v1
kind: Service
metadata: {name: policy-svc, namespace: shop}
spec: {selector: {app: policy}, ports: [{port: 443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: pol-shop}
webhooks:
- name: validate.policy.svc-fail
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {service: {namespace: shop, name: policy-svc}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  namespaceSelector: ` + selector + `
`
}

func TestAWebhookThatMustAdmitItsOwnPodsIsADeadlock(t *testing.T) {
	const deadlock = "this is a deadlock: the pods of Deployment policy in namespace shop answer for the webhook, and the webhook must admit them"
	own, others := blockedPolicy("{matchLabels: {kubernetes.io/metadata.name: shop}}"), blockedPolicy("{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [shop]}]}")
	for _, resource := range []string{"deployments.apps policy", "deployments.apps web", "services policy-svc", "validatingwebhookconfigurations.admissionregistration.k8s.io pol-shop"} {
		kind, name, _ := strings.Cut(resource, " ")
		got := written(t, fakeCluster(t, own).explains(t, kind, name))
		if !strings.Contains(got, deadlock) || !strings.Contains(got, `an administrator deletes ValidatingWebhookConfiguration "pol-shop"`) {
			t.Errorf("%s:\n%s", resource, got)
		}
		if got := written(t, fakeCluster(t, others).explains(t, kind, name)); strings.Contains(got, "deadlock") {
			t.Errorf("%s: the webhook does not admit its own pods:\n%s", resource, got)
		}
	}
	o, err := fakeCluster(t, own).Overview(t.Context(), "")
	if err != nil || len(o.Problems) != 1 {
		t.Errorf("want one problem, got %s, %v", written(t, o), err)
	}
}

// heldVolume is a Deployment whose new pod waits for a volume that the old pod on another node has.
const heldVolume = `
apiVersion: v1
kind: Node
metadata: {name: a, creationTimestamp: "2026-03-01T07:00:00Z"}
status: {conditions: [{type: Ready, status: "Unknown", reason: NodeStatusUnknown, message: Kubelet stopped posting node status., lastTransitionTime: "2026-03-01T08:50:00Z"}]}
---
apiVersion: v1
kind: Node
metadata: {name: b, creationTimestamp: "2026-03-01T07:00:00Z"}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: demo, namespace: shop, uid: d, generation: 1, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {replicas: 1, selector: {matchLabels: {app: demo}}, template: {metadata: {labels: {app: demo}}}}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: demo-1, namespace: shop, uid: r, labels: {app: demo}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: demo, uid: d, controller: true}]}
spec: {replicas: 1, selector: {matchLabels: {app: demo}}, template: {metadata: {labels: {app: demo}}}}
status: {replicas: 1}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: c}
spec: {volumeName: pv}
status: {phase: Bound}
---
apiVersion: v1
kind: Pod
metadata: {name: demo-1-old, namespace: shop, uid: p1, creationTimestamp: "2026-03-01T07:00:00Z", deletionTimestamp: "2026-03-01T08:55:00Z", finalizers: [x/x], labels: {app: demo}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: demo-1, uid: r, controller: true}]}
spec: {nodeName: a, containers: [{name: app}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}
status: {phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: app, image: a, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: "2026-03-01T07:00:00Z"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: demo-1-new, namespace: shop, uid: p2, creationTimestamp: "2026-03-01T08:55:00Z", labels: {app: demo}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: demo-1, uid: r, controller: true}]}
spec: {nodeName: b, containers: [{name: app}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}
status: {phase: Pending, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: ContainerCreating}}}]}
---
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
type: Warning
reason: FailedAttachVolume
message: 'Multi-Attach error for volume "pv" Volume is already used by pod(s) demo-1-old'
lastTimestamp: "2026-03-01T08:56:40Z"
involvedObject: {apiVersion: v1, kind: Pod, name: demo-1-new, uid: p2}
`

func TestAVolumeOfAPodOnALostNodeNamesTheNode(t *testing.T) {
	got := written(t, fakeCluster(t, heldVolume).explains(t, "deployments.apps", "demo"))
	if !strings.Contains(got, `node "a"`) || !strings.Contains(got, "out-of-service") {
		t.Error(got)
	}
}

func TestAnAddressThatIsMissingIsAProblemAsLongAsItIs(t *testing.T) {
	const objects = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: alb}
spec: {controller: ingress.k8s.aws/alb}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: game, namespace: shop, uid: i, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {ingressClassName: alb}
---
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
type: Warning
reason: FailedBuildModel
message: "Failed build model due to couldn't auto-discover subnets: unable to resolve at least one subnet"
count: 15
firstTimestamp: "2026-03-01T07:00:00Z"
lastTimestamp: "2026-03-01T08:49:00Z"
involvedObject: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: game, uid: i}
`
	e := fakeCluster(t, shopNamespace+objects)
	got := written(t, e.explains(t, "ingresses.networking.k8s.io", "game"))
	if !strings.Contains(got, "Cause: FailedBuildModel") || !strings.Contains(got, "couldn't auto-discover subnets") {
		t.Error(got)
	}
	o, err := e.Overview(t.Context(), "shop")
	if err != nil || len(o.Problems) != 1 || o.Problems[0].Cause.Reason != "FailedBuildModel" {
		t.Errorf("%s, %v", written(t, o), err)
	}
}

func TestANodeNamesWhatShouldRemoveItsTaint(t *testing.T) {
	object := func(created string) string {
		return `
apiVersion: v1
kind: Node
metadata: {name: w-1, creationTimestamp: "` + created + `"}
spec: {taints: [{key: node.cloudprovider.kubernetes.io/uninitialized, value: "true", effect: NoSchedule}]}
status: {conditions: [{type: Ready, status: "True"}]}
`
	}
	for created, late := range map[string]bool{"2026-03-01T07:00:00Z": true, "2026-03-01T08:59:00Z": false} {
		got := written(t, fakeCluster(t, object(created)).explains(t, "nodes", "w-1"))
		if strings.Contains(got, "which the cloud-controller-manager removes") != late {
			t.Errorf("created at %s:\n%s", created, got)
		}
	}
}

func TestAJobWithAFormerTemplateIsDeleted(t *testing.T) {
	const objects = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop, uid: c}
spec: {schedule: "* * * * *", concurrencyPolicy: Forbid, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: report, image: "report:2"}]}}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: report-1, namespace: shop, uid: j, creationTimestamp: "2026-03-01T08:55:00Z", ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: report, uid: c, controller: true}]}
spec: {selector: {matchLabels: {job: report-1}}, template: {spec: {restartPolicy: Never, containers: [{name: report, image: "report:none"}]}}}
status: {active: 1, startTime: "2026-03-01T08:55:00Z"}
---
apiVersion: v1
kind: Pod
metadata: {name: report-1-x, namespace: shop, uid: p, creationTimestamp: "2026-03-01T08:55:00Z", labels: {job: report-1}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: report-1, uid: j, controller: true}]}
spec: {nodeName: node-1, restartPolicy: Never, containers: [{name: report, image: "report:none"}]}
status: {phase: Pending, containerStatuses: [{name: report, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: ImagePullBackOff, message: 'Back-off pulling image "report:none": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/report:none": failed to resolve reference "docker.io/library/report:none": docker.io/library/report:none: not found'}}}]}
`
	got := written(t, fakeCluster(t, objects).explains(t, "cronjobs.batch", "report"))
	if !strings.Contains(got, "delete the Job (kubectl delete job -n shop report-1)") || !strings.Contains(got, `its image was "report:none", and is "report:2" now`) {
		t.Error(got)
	}
}

func TestOnlyAWaitThatTakesTooLongIsAProblem(t *testing.T) {
	// web is an old Deployment with a pod that is not ready since a time.
	web := func(since string) string {
		return shopNamespace + `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 1, creationTimestamp: "2026-02-01T09:00:00Z"}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, conditions: [{type: Progressing, status: "True", reason: NewReplicaSetAvailable, lastUpdateTime: "2026-02-01T09:00:00Z", lastTransitionTime: "2026-02-01T09:00:00Z"}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, uid: r, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {replicas: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1-x, namespace: shop, uid: p, creationTimestamp: "2026-02-01T09:00:00Z", labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: r, controller: true}]}
spec: {nodeName: node-1, containers: [{name: app}]}
status:
  phase: Running
  conditions: [{type: Ready, status: "False", lastTransitionTime: "` + since + `"}, {type: ContainersReady, status: "False", lastTransitionTime: "` + since + `"}]
  containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {running: {startedAt: "2026-02-01T09:00:00Z"}}}]
`
	}
	// reconciled is an object that is being processed since a time.
	reconciled := func(since string) string {
		return shopNamespace + `
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: shop, uid: w, creationTimestamp: "2026-02-01T09:00:00Z"}
spec: {}
status: {conditions: [{type: Reconciling, status: "True", reason: Progressing, message: it works on it, lastTransitionTime: "` + since + `"}, {type: Ready, status: Unknown, lastTransitionTime: "` + since + `"}]}
`
	}
	const justNow, longAgo = "2026-03-01T08:59:58Z", "2026-03-01T08:40:00Z"
	for name, tc := range map[string]struct {
		resource, name string
		objects        func(since string) string
	}{
		"a Deployment that ran": {"deployments.apps", "web", web}, "its pod": {"pods", "web-1-x", web}, "a custom resource": {"widgets.example.com", "w", reconciled},
	} {
		x := fakeCluster(t, tc.objects(justNow)).explains(t, tc.resource, tc.name)
		if x.State != Waiting || x.Cause != nil || x.LateAfter == nil {
			t.Errorf("%s, just now: %s, %+v, late after %v", name, x.State, x.Cause, x.LateAfter)
		}
		x = fakeCluster(t, tc.objects(longAgo)).explains(t, tc.resource, tc.name)
		if x.State != Failing || x.Cause == nil || x.Cause.Reason != reasonNotReady || !strings.Contains(x.Cause.Message, "for 20m") {
			t.Errorf("%s, long ago: %s, %+v", name, x.State, x.Cause)
		}
	}
	for since, want := range map[string]int{justNow: 0, longAgo: 1} {
		if o := overviewOf(t, fakeCluster(t, web(since)), "shop"); len(o.Problems) != want {
			t.Errorf("%s: %s", since, written(t, o))
		}
	}
}

func TestAKilledContainerNamesWhatItsNodeReported(t *testing.T) {
	event := func(at string) string {
		return `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: p, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {nodeName: node-1, restartPolicy: Always, containers: [{name: app}]}
status:
  phase: Running
  containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}},
    lastState: {terminated: {exitCode: 137, reason: Error, startedAt: "2026-03-01T08:50:00Z", finishedAt: "2026-03-01T08:58:00Z"}}}]
---
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: default}
type: Warning
reason: SystemOOM
message: 'System OOM encountered, victim process: java, pid: 4711'
lastTimestamp: "` + at + `"
involvedObject: {kind: Node, name: node-1, uid: node-1}
`
	}
	const says = "at that time, its node reported SystemOOM: System OOM encountered, victim process: java, pid: 4711"
	for at, want := range map[string]bool{"2026-03-01T08:58:04Z": true, "2026-03-01T08:40:00Z": false} {
		if got := written(t, fakeCluster(t, event(at)).explains(t, "pods", "web")); strings.Contains(got, says) != want {
			t.Errorf("an Event at %s:\n%s", at, got)
		}
	}
}

func TestAWaitWhoseBeginIsUnknownIsNotLate(t *testing.T) {
	const objects = shopNamespace + `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop, uid: s, generation: 1, creationTimestamp: "2026-02-01T09:00:00Z"}
spec: {replicas: 1, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}}}
status: {observedGeneration: 1, replicas: 1}
`
	for name, forbidden := range map[string][]string{"its pod is being replaced": nil, "its pods may not be read": {"Pod"}} {
		x := fakeCluster(t, objects, forbidden...).explains(t, "statefulsets.apps", "db")
		if x.State != Waiting || x.Cause != nil || x.LateAfter != nil {
			t.Errorf("%s: %s, %+v, late after %v", name, x.State, x.Cause, x.LateAfter)
		}
	}
}

// A Warning that no rule knows is quoted for a workload that nothing else explains, also in an overview.
func TestAWarningThatNoRuleKnowsIsQuoted(t *testing.T) {
	const odd = "the frobnicator of pod web-1 refuses the gasket"
	// event is about an object. It is older than the quoted one.
	event := func(name, object, reason, message, at string) string {
		return `
---
apiVersion: v1
kind: Event
metadata: {name: ` + name + `, namespace: shop}
type: Warning
reason: ` + reason + `
message: ` + message + `
lastTimestamp: "` + at + `"
involvedObject: {apiVersion: v1, kind: Pod, name: ` + object + `, namespace: shop, uid: ` + object + `}`
	}
	pod := func(owner, uid string) string {
		return `
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, uid: web-0, creationTimestamp: "2026-03-01T08:00:00Z", labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ` + owner + `, name: web, uid: ` + uid + `, controller: true}]}
spec: {nodeName: node-1, containers: [{name: app}]}
status:
  phase: Running
  conditions: [{type: Ready, status: "False", lastTransitionTime: "2026-03-01T08:00:00Z"}, {type: ContainersReady, status: "False", lastTransitionTime: "2026-03-01T08:00:00Z"}]
  containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {running: {startedAt: "2026-03-01T08:00:00Z"}}}]`
	}
	const (
		meta = "metadata: {name: web, namespace: shop, uid: w, generation: 1, creationTimestamp: \"2026-03-01T08:00:00Z\"}\n"
		pods = "selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}"
	)
	workloads := map[string]string{
		"statefulsets.apps": "apiVersion: apps/v1\nkind: StatefulSet\n" + meta + "spec: {replicas: 1, serviceName: web, " + pods + "}\nstatus: {observedGeneration: 1, replicas: 1}\n---" + pod("StatefulSet", "w"),
		"replicasets.apps":  "apiVersion: apps/v1\nkind: ReplicaSet\n" + meta + "spec: {replicas: 1, " + pods + "}\nstatus: {observedGeneration: 1, replicas: 1}\n---" + pod("ReplicaSet", "w"),
		"daemonsets.apps":   "apiVersion: apps/v1\nkind: DaemonSet\n" + meta + "spec: {" + pods + "}\nstatus: {observedGeneration: 1, desiredNumberScheduled: 1, currentNumberScheduled: 1, updatedNumberScheduled: 1, numberReady: 0, numberMisscheduled: 0}\n---" + pod("DaemonSet", "w"),
		"deployments.apps": "apiVersion: apps/v1\nkind: Deployment\n" + meta + "spec: {replicas: 1, " + pods + "}\nstatus: {observedGeneration: 1, replicas: 1, updatedReplicas: 1}\n---" +
			"\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web, namespace: shop, uid: r, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: w, controller: true}]}\nspec: {replicas: 1, " + pods + "}\nstatus: {replicas: 1}\n---" + pod("ReplicaSet", "r"),
	}
	events := event("e1", "web-0", "GasketRefused", odd, "2026-03-01T08:58:00Z") + event("e2", "web-0", "Earlier", "an earlier text", "2026-03-01T08:50:00Z") +
		event("e3", "other", "Later", "a text about another pod", "2026-03-01T08:59:00Z")
	const want = "the last Warning is GasketRefused: " + odd
	for resource, objects := range workloads {
		e := fakeCluster(t, shopNamespace+objects+events)
		if x := e.explains(t, resource, "web"); x.Cause == nil || x.Cause.Reason != reasonNotReady || !strings.HasSuffix(x.Cause.Message, want) {
			t.Errorf("%s:\n%s", resource, written(t, x))
		}
		if o := overviewOf(t, e, "shop"); len(o.Problems) != 1 || !strings.Contains(written(t, o), want) {
			t.Errorf("%s:\n%s", resource, written(t, o))
		}
	}
}
