package explain

import (
	"fmt"
	"testing"
	"time"
)

const readyPod = `
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web, tier: front}}
spec: {nodeName: node-0, containers: [{name: app, image: example.com/web:1, ports: [{name: web, containerPort: 80, protocol: TCP}]}]}
status:
  phase: Running
  podIP: 10.0.0.1
  conditions: [{type: Ready, status: "True"}]
  containerStatuses: [{name: app, ready: true, image: a, imageID: b, restartCount: 0, state: {running: {}}}]
`

const crashedPod = `
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web, tier: front}}
spec: {nodeName: node-0, containers: [{name: app, image: example.com/web:1, resources: {limits: {memory: 64Mi}}}]}
status:
  phase: Running
  conditions: [{type: Ready, status: "False"}]
  containerStatuses:
  - name: app
    ready: false
    image: a
    imageID: b
    restartCount: 0
    state: {terminated: {exitCode: 137, reason: OOMKilled}}
`

const webService = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, clusterIP: 10.1.0.1, ports: [{port: 80, protocol: TCP, targetPort: 80}]}
`

func TestAServiceWithoutEndpointsNamesTheReason(t *testing.T) {
	checkExplained(t, "services", "web", map[string]tc{
		"a pod is ready": {objects: webService + "\n---\n" + readyPod, want: "Service shop/web shows no problem: 1 of 1 pod ready"},
		"no pod has the labels": {objects: webService, want: `
Service shop/web has a problem: it selects no pod

Cause: NoEndpoints in Service web
  no pod has the labels of its selector, app=web
  Advice: correct spec.selector, or the labels of the pods`},
		"one label differs": {
			objects: `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web, tier: backend}, ports: [{port: 80}]}
---
` + readyPod, want: `
Service shop/web has a problem: it selects no pod

Cause: NoEndpoints in Service web
  no pod has the labels of its selector, app=web,tier=backend; pod "web-1" has the others, but the label tier=front
  Advice: correct spec.selector, or the labels of the pods`},
		"the Deployment is scaled to 0": {
			objects: webService + `
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}`,
			want: "Service shop/web is inactive: Deployment web, whose pods it selects, is scaled to 0"},
		"the StatefulSet has no pods": {
			objects: webService + `
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}`,
			want: `
Service shop/web has a problem: it selects no pod

Cause: NoEndpoints in Service web
  StatefulSet db, whose pods it selects, has no pods
  Advice: if none appears, see its Events (kubectl events -n shop --for statefulset/db)`},
		"its pods crash": {objects: webService + "\n---\n" + crashedPod, want: `
Service shop/web has a problem: 0 of 1 pod ready

Cause: OOMKilled in Pod web-1, container app, exit code 137
  container "app" was killed because it used more memory than its limit of 64Mi
  Advice: raise resources.limits.memory, or reduce its memory use

The end of the log of Pod web-1, container app:
  | fake logs`},
		"the name of the port is wrong": {
			objects: `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80, protocol: TCP, targetPort: http}]}
---
` + readyPod, want: `
Service shop/web has a problem: 1 of 1 pod ready

Cause: TargetPortNotFound in Service web
  port 80 has the targetPort "http", but no container of its pods has a TCP port of that name; they have web
  Advice: correct targetPort, or the name of the container's port`},
		"it has no selector": {
			objects: `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{port: 80}]}`,
			want: `
Service shop/web has a problem: it has no selector; its EndpointSlices have 0 endpoints

Cause: NoEndpoints in Service web
  it has no selector, and no EndpointSlice contains an endpoint for it
  Advice: if a controller made the Service, find out why it has added no endpoint; otherwise, set spec.selector to the labels of the pods`},
		"others manage its endpoints": {
			objects: `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-x, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [192.0.2.1]}]`,
			want: "Service shop/web shows no problem: it has no selector; its EndpointSlices have 1 endpoint"},
		"it is an alias": {
			objects: `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {type: ExternalName, externalName: web.example.com}`,
			want: "Service shop/web shows no problem: it is an alias of web.example.com"},
		"its pods may not be read": {objects: webService + "\n---\n" + crashedPod, forbidden: []string{"Pod"}, want: `
Service shop/web has an unknown state: you may not read its pods

could not read pods: you may not list them`},
		"the load balancer fails": {
			objects: `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, creationTimestamp: "2026-03-01T08:00:00Z"}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 80}]}
---
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: shop}
involvedObject: {kind: Service, name: web, namespace: shop}
type: Warning
reason: SyncLoadBalancerFailed
message: "Error syncing load balancer: failed to ensure load balancer: quota exceeded"
count: 3
lastTimestamp: "2026-03-01T08:59:00Z"
---
` + readyPod, want: `
Service shop/web has a problem: 1 of 1 pod ready; it has no address yet

Cause: SyncLoadBalancerFailed in Service web (3 times, last 60s ago)
  its last Warning is: Error syncing load balancer: failed to ensure load balancer: quota exceeded`},
	})
}

// ownerOfPods returns an object whose pods do not exist.
func ownerOfPods(version, kind, spec, status string) string {
	return fmt.Sprintf("\n---\napiVersion: %s\nkind: %s\nmetadata: {name: w, namespace: shop}\nspec: {%s}\nstatus: {%s}", version, kind, spec, status)
}

func TestAServiceWithoutPodsNamesTheOwnerOfItsPods(t *testing.T) {
	const pods = "selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}"
	inactive := func(owner string) string {
		return "Service shop/web is inactive: " + owner
	}
	const missing = `
Service shop/web has a problem: it selects no pod

Cause: NoEndpoints in Service web
  DaemonSet w, whose pods it selects, has no pods
  Advice: if none appears, see its Events (kubectl events -n shop --for daemonset/w)`
	stopped := ownerOfPods("apps/v1", "ReplicaSet", "replicas: 0, "+pods, "")
	checkExplained(t, "services", "web", map[string]tc{
		"a DaemonSet":                           {objects: webService + ownerOfPods("apps/v1", "DaemonSet", pods, "desiredNumberScheduled: 2"), want: missing},
		"a DaemonSet, and a stopped ReplicaSet": {objects: webService + stopped + ownerOfPods("apps/v1", "DaemonSet", pods, "desiredNumberScheduled: 2"), want: missing},
		"a DaemonSet without nodes": {objects: webService + ownerOfPods("apps/v1", "DaemonSet", pods, "desiredNumberScheduled: 0"),
			want: inactive("DaemonSet w, whose pods it selects, matches no node")},
		"a ReplicaSet": {objects: webService + stopped, want: inactive("ReplicaSet w, whose pods it selects, is scaled to 0")},
		"a Job that has ended": {objects: webService + ownerOfPods("batch/v1", "Job", pods, `conditions: [{type: Failed, status: "True"}]`),
			want: inactive("Job w, whose pods it selects, has ended")},
		"a suspended Job": {objects: webService + ownerOfPods("batch/v1", "Job", "suspend: true, "+pods, ""),
			want: inactive("Job w, whose pods it selects, is suspended")},
		"a CronJob": {objects: webService + ownerOfPods("batch/v1", "CronJob", "schedule: '@daily', jobTemplate: {spec: {"+pods+"}}", ""),
			want: inactive("CronJob w, whose pods it selects, runs no pod now")},
		"the earlier template of a Deployment": {
			objects: webService + `
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]}
spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}`,
			want: `
Service shop/web has a problem: it selects no pod

Cause: NoEndpoints in Service web
  no pod has the labels of its selector, app=web
  Advice: correct spec.selector, or the labels of the pods`},
	})
}

func TestAServiceWithoutPodsHasNoCauseIfTheirOwnerIsUnknown(t *testing.T) {
	const namespace = "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}"
	for kind, resource := range map[string]string{
		"Deployment": "deployments.apps", "StatefulSet": "statefulsets.apps", "DaemonSet": "daemonsets.apps",
		"ReplicaSet": "replicasets.apps", "Job": "jobs.batch", "CronJob": "cronjobs.batch",
	} {
		checkExplained(t, "services", "web", map[string]tc{kind: {objects: webService, forbidden: []string{kind}, want: `
Service shop/web is not ready yet, and no problem is known: it selects no pod

could not read ` + resource + `: you may not list them`}})
		o := overviewOf(t, fakeCluster(t, webService+namespace, kind), "shop")
		if len(o.Problems) > 0 || len(o.NotChecked) != 2 || o.NotChecked[1].Why != notInOverview {
			t.Errorf("without %s: got %+v", kind, o)
		}
	}
}

func TestALoadBalancerHasTimeToGetAnAddress(t *testing.T) {
	service := func(age time.Duration) string {
		return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, creationTimestamp: %q}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 80}]}
---
%s`, testNow.Add(-age).Format(time.RFC3339), readyPod)
	}
	warned := func(ago time.Duration) string {
		return fmt.Sprintf(`
---
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: shop}
involvedObject: {kind: Service, name: web, namespace: shop}
type: Warning
reason: SyncLoadBalancerFailed
message: the cloud does not answer
lastTimestamp: %q`, testNow.Add(-ago).Format(time.RFC3339))
	}
	const pending = `
Service shop/web has a problem: 1 of 1 pod ready; it has no address yet

Cause: LoadBalancerPending in Service web (last 60m ago)
  no controller has given the load balancer an address
  Advice: it has no Warning that says why; ask the cluster's administrator for a controller of load balancers`
	checkExplained(t, "services", "web", map[string]tc{
		"a new one":  {objects: service(4 * time.Minute), want: "Service shop/web is not ready yet, and no problem is known: 1 of 1 pod ready; it has no address yet"},
		"an old one": {objects: service(time.Hour), want: pending},
		"an old Warning": {objects: service(time.Hour) + warned(11*time.Minute), want: `
Service shop/web has a problem: 1 of 1 pod ready; it has no address yet

Cause: SyncLoadBalancerFailed in Service web (last 11m ago)
  its last Warning is: the cloud does not answer`},
		"a new one with a Warning": {objects: service(2*time.Minute) + warned(time.Minute), want: `
Service shop/web has a problem: 1 of 1 pod ready; it has no address yet

Cause: SyncLoadBalancerFailed in Service web (last 60s ago)
  its last Warning is: the cloud does not answer`},
	})
	const namespace = "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}"
	for age, want := range map[time.Duration]int{4 * time.Minute: 0, time.Hour: 1} {
		if o := overviewOf(t, fakeCluster(t, service(age)+namespace), "shop"); len(o.Problems) != want {
			t.Errorf("%s after the creation: got %+v", age, o.Problems)
		}
	}
}

func TestAnIngressNamesWhatItMisses(t *testing.T) {
	const (
		class = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx}
spec: {controller: k8s.io/ingress-nginx}
---
`
		ingress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec:
  ingressClassName: nginx
  tls: [{hosts: [shop.example.com], secretName: shop-tls}]
  rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
`
		secret = `
apiVersion: v1
kind: Secret
metadata: {name: shop-tls, namespace: shop}
type: kubernetes.io/tls
data: {tls.key: c2VjcmV0}
---
`
	)
	checkExplained(t, "ingresses.networking.k8s.io", "web", map[string]tc{
		"nothing": {objects: class + ingress + secret + webService + "\n---\n" + readyPod, want: "Ingress shop/web shows no problem: no controller has given it an address"},
		"its Service": {objects: class + ingress + secret, want: `
Ingress shop/web has a problem: no controller has given it an address

Cause: ServiceNotFound in Service web
  Service "web", which path "/" of host "shop.example.com" names, does not exist
  Advice: create the Service, or correct the backend of the Ingress`},
		"the port of its Service": {
			objects: class + ingress + secret + `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 8080}]}`,
			want: `
Ingress shop/web has a problem: no controller has given it an address

Cause: ServicePortNotFound in Service web
  Service "web" has no port 80, which path "/" of host "shop.example.com" names; it has 8080 (http)
  Advice: correct the port of the backend, or add the port to the Service`},
		"endpoints": {objects: class + ingress + secret + webService + "\n---\n" + crashedPod, want: `
Ingress shop/web has a problem: no controller has given it an address

Cause: OOMKilled in Pod web-1, container app, exit code 137
  container "app" was killed because it used more memory than its limit of 64Mi
  Advice: raise resources.limits.memory, or reduce its memory use

The end of the log of Pod web-1, container app:
  | fake logs`},
		"its class and certificate": {objects: ingress + webService + "\n---\n" + readyPod, want: `
Ingress shop/web has a problem: no controller has given it an address

Cause: SecretNotFound in Secret shop-tls
  Secret "shop-tls", which contains the certificate of host shop.example.com, does not exist
  Advice: create the Secret with type kubernetes.io/tls, or look at the controller that should create it

Also: IngressClassNotFound in Ingress web
  IngressClass "nginx" does not exist
  Advice: ask the cluster's administrator which controller serves Ingresses`},
		"a class": {
			objects: class + `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
---
` + webService + "\n---\n" + readyPod, want: `
Ingress shop/web has a problem: no controller has given it an address

Cause: IngressClassNotFound in Ingress web
  it has no class, and no IngressClass is the default; most controllers ignore it
  Advice: set spec.ingressClassName to one of nginx`},
		"a class in a cluster without classes": {
			objects: `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
---
` + webService + "\n---\n" + readyPod, want: "Ingress shop/web shows no problem: no controller has given it an address"},
		"permissions": {objects: class + ingress + webService + "\n---\n" + readyPod, forbidden: []string{"IngressClass", "Secret"}, want: `
Ingress shop/web shows no problem: no controller has given it an address

could not read ingressclasses.networking.k8s.io: you may not list them
could not read secrets: you may not get them`},
	})
}
