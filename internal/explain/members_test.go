package explain

import (
	"strings"
	"testing"
)

// overQuota is a Deployment of a release whose quota is used up.
const overQuota = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 1, creationTimestamp: "2026-03-01T08:00:00Z", labels: {helm.toolkit.fluxcd.io/name: shop, helm.toolkit.fluxcd.io/namespace: shop}}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status:
  observedGeneration: 1
  conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, lastTransitionTime: "2026-03-01T08:55:00Z",
    message: 'pods "web-1-x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4'}]
---
`

// released is a HelmRelease with a message, and a Kustomization that waits for it.
func released(message string) string {
	return `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: shop, namespace: shop, uid: h, creationTimestamp: "2026-03-01T08:00:00Z"}
spec: {dependsOn: [{name: infra, namespace: platform}]}
status: {conditions: [{type: Ready, status: "False", reason: InstallFailed, message: "` + message + `", lastTransitionTime: "2026-03-01T08:55:00Z"}]}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: shop, uid: k, creationTimestamp: "2026-03-01T08:00:00Z"}
spec: {}
status:
  inventory: {entries: [{id: shop_shop_helm.toolkit.fluxcd.io_HelmRelease, v: v2}, {id: shop_other_helm.toolkit.fluxcd.io_HelmRelease, v: v2}]}
  conditions: [{type: Ready, status: "False", reason: HealthCheckFailed, message: "health check failed after 5m0s: [HelmRelease/shop/shop status: 'Failed']", lastTransitionTime: "2026-03-01T08:55:00Z"}]
---
`
}

func TestAToolThatDeliversIsExplainedByWhatItDelivers(t *testing.T) {
	const application = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: shop, uid: a, creationTimestamp: "2026-03-01T08:00:00Z"}
status:
  health: {status: Degraded}
  resources: [{group: apps, kind: Deployment, namespace: shop, name: web, health: {status: Degraded}}, {kind: Service, namespace: shop, name: web, health: {status: Healthy}}]
---
`
	const infra = `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: infra, namespace: platform, uid: i, creationTimestamp: "2026-03-01T08:00:00Z"}
status: {conditions: [{type: Ready, status: "False", reason: ChartNotReady, message: "chart not found", lastTransitionTime: "2026-03-01T08:55:00Z"}]}
---
`
	timedOut := released("Helm install failed for release shop/shop with chart shop@1.0.0: context deadline exceeded") + overQuota
	for name, tc := range map[string]struct {
		objects, resource, name string
		want                    []string
	}{
		"Kustomization": {timedOut, "kustomizations.kustomize.toolkit.fluxcd.io", "apps",
			[]string{`ResourceQuota "team" is exceeded`, "By way of:\n  - HelmRelease shop/shop", "\n  - Deployment shop/web\n"}},
		"HelmRelease": {timedOut, "helmreleases.helm.toolkit.fluxcd.io", "shop", []string{`ResourceQuota "team" is exceeded`, "By way of: Deployment shop/web"}},
		"Application": {application + overQuota, "applications.argoproj.io", "shop", []string{`ResourceQuota "team" is exceeded`, "By way of: Deployment shop/web"}},
		"dependency": {released("dependency 'platform/infra' is not ready") + infra, "helmreleases.helm.toolkit.fluxcd.io", "shop",
			[]string{"chart not found", "By way of: HelmRelease platform/infra"}},
	} {
		got := written(t, fakeCluster(t, tc.objects).explains(t, tc.resource, tc.name))
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is missing in:\n%s", name, want, got)
			}
		}
	}
}

func TestACertificateIsExplainedByItsChallenge(t *testing.T) {
	owned := func(group, kind, name, owner, ownerUID, status string) string {
		return `
apiVersion: ` + group + `/v1
kind: ` + kind + `
metadata: {name: ` + name + `, namespace: shop, uid: ` + name + `, creationTimestamp: "2026-03-01T08:40:00Z", ownerReferences: [{apiVersion: x/v1, kind: ` + owner + `, name: x, uid: ` + ownerUID + `, controller: true}]}
status: ` + status + `
---`
	}
	objects := `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: shop, namespace: shop, uid: c, creationTimestamp: "2026-03-01T08:40:00Z"}
spec: {secretName: shop-tls, issuerRef: {kind: Issuer, name: le}}
status: {conditions: [{type: Ready, status: "False", reason: DoesNotExist, message: Issuing certificate as Secret does not exist, lastTransitionTime: "2026-03-01T08:40:00Z"}]}
---` +
		owned("cert-manager.io", "CertificateRequest", "shop-1", "Certificate", "c", `{conditions: [{type: Ready, status: "False", reason: Pending, message: 'Waiting on certificate issuance from order shop/shop-1-2: "pending"', lastTransitionTime: "2026-03-01T08:40:00Z"}]}`) +
		owned("acme.cert-manager.io", "Order", "shop-1-2", "CertificateRequest", "shop-1", "{state: pending}") +
		owned("acme.cert-manager.io", "Challenge", "shop-1-2-3", "Order", "shop-1-2", `{state: pending, reason: "Waiting for HTTP-01 challenge propagation: failed to perform self check GET request: no such host"}`)
	got := written(t, fakeCluster(t, objects).explains(t, "certificates.cert-manager.io", "shop"))
	for _, want := range []string{"failed to perform self check GET request: no such host", "Challenge shop/shop-1-2-3"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}

func TestAContainerThatAProbeKillsAgainAndAgainIsNotHealthyInBetween(t *testing.T) {
	const objects = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: p, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {nodeName: node-1, restartPolicy: Always, containers: [{name: app}]}
status:
  phase: Running
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-03-01T08:59:40Z"}, {type: ContainersReady, status: "True", lastTransitionTime: "2026-03-01T08:59:40Z"}]
  containerStatuses: [{name: app, image: a, imageID: "", ready: true, restartCount: 7, state: {running: {startedAt: "2026-03-01T08:59:30Z"}},
    lastState: {terminated: {exitCode: 137, reason: Error, startedAt: "2026-03-01T08:58:00Z", finishedAt: "2026-03-01T08:59:28Z"}}}]
---
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
type: Warning
reason: Unhealthy
message: 'Liveness probe failed: HTTP probe failed with statuscode: 500'
lastTimestamp: "2026-03-01T08:58:55Z"
involvedObject: {apiVersion: v1, kind: Pod, name: web, uid: p, fieldPath: "spec.containers{app}"}
---
apiVersion: v1
kind: Event
metadata: {name: e2, namespace: shop}
type: Normal
reason: Killing
message: Container app failed liveness probe, will be restarted
lastTimestamp: "2026-03-01T08:58:58Z"
involvedObject: {apiVersion: v1, kind: Pod, name: web, uid: p, fieldPath: "spec.containers{app}"}
`
	got := written(t, fakeCluster(t, objects).explains(t, "pods", "web"))
	if !strings.Contains(got, "Cause: CrashLoopBackOff") || !strings.Contains(got, "after its liveness probe failed (HTTP probe failed with statuscode: 500)") {
		t.Error(got)
	}
}

func TestACycleOfDependenciesIsADeadlock(t *testing.T) {
	waits := func(name, other string) string {
		return `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: ` + name + `, namespace: shop, uid: ` + name + `, creationTimestamp: "2026-03-01T08:00:00Z"}
spec: {dependsOn: [{name: ` + other + `}]}
status: {conditions: [{type: Ready, status: "False", reason: DependencyNotReady, message: "dependency 'shop/` + other + `' is not ready", lastTransitionTime: "2026-03-01T08:55:00Z"}]}
---
`
	}
	e := fakeCluster(t, waits("a", "b")+waits("b", "c")+waits("c", "a"))
	for _, name := range []string{"a", "b", "c"} {
		got := written(t, e.explains(t, "kustomizations.kustomize.toolkit.fluxcd.io", name))
		if !strings.Contains(got, `Kustomization "`+name+`" waits for it in turn, so that waiting does not help`) {
			t.Error(got)
		}
	}
}
