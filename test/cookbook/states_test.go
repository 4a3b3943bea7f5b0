package cookbook

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/config/samples"
)

// The test of the cookbook then shows that the samples fire.
func TestTheSamplesOfStatesAreThoseOfTheCookbook(t *testing.T) {
	inCookbook := map[string]*unstructured.Unstructured{}
	for _, e := range entries(t, "../../docs/cookbook.md") {
		for _, o := range append(e.needs, e.alarm) {
			inCookbook[o.GetKind()+" "+o.GetName()] = o
		}
	}
	found, err := samples.States()
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range found {
		if diff := cmp.Diff(inCookbook[sample.GetKind()+" "+sample.GetName()], sample); diff != "" {
			t.Errorf("%s %s of the cookbook (-) and of the samples (+):\n%s", sample.GetKind(), sample.GetName(), diff)
		}
	}
}

// impatient returns a Deployment whose rollout must make progress within a few seconds.
func impatient(name string) string {
	return scaled("bakery", name, 1) + "  progressDeadlineSeconds: 5\n"
}

// podsOf sets what the pods of a Deployment do, or removes that if what is empty.
func podsOf(namespace, name, what string) cause {
	value := "null"
	if what != "" {
		value = fmt.Sprintf("%q", what)
	}
	return kubectl("patch", "deployment/"+name, "--namespace="+namespace, "--type=merge",
		`--patch={"spec":{"template":{"metadata":{"annotations":{"bongsu-local/simulate":`+value+`}}}}}`)
}

// volume returns a volume for the claim of the same name.
func volume(name string) string {
	return `
apiVersion: v1
kind: PersistentVolume
metadata: {name: ` + name + `}
spec:
  storageClassName: manual
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: cellar, name: ` + name + `}
  hostPath: {path: /tmp/` + name + `}
`
}

func claim(name string) string {
	return `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ` + name + `, namespace: cellar}
spec: {storageClassName: manual, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`
}

// daily returns a CronJob that does not run during the test.
func daily(name string) string {
	return `
apiVersion: batch/v1
kind: CronJob
metadata: {name: ` + name + `, namespace: ledger, labels: {runs: daily}}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec:
      template: {spec: {restartPolicy: Never, containers: [{name: app, image: "registry.example.com/backup:1"}]}}
`
}

// succeeded sets when a CronJob succeeded, as its controller does.
func succeeded(name string, ago time.Duration) cause {
	return func(tr *trial) {
		tr.Helper()
		kubectl("patch", "cronjob/"+name, "--namespace=ledger", "--subresource=status", "--type=merge",
			fmt.Sprintf(`--patch={"status":{"lastSuccessfulTime":%q}}`, timeIn(-ago)))(tr)
	}
}

// timeIn returns a time from now as Kubernetes writes it.
func timeIn(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

// tainted returns a node to which no pods of other recipes are bound.
func tainted(name string) string {
	return `
apiVersion: v1
kind: Node
metadata: {name: ` + name + `, labels: {kubernetes.io/hostname: ` + name + `}}
spec: {taints: [{key: test.bongsu.io/alone, effect: NoSchedule}]}
`
}

// custom defines a kind with the part of its vendor's schema that every controller with
// conditions writes, and further fields of the status.
func custom(kind, plural, group, version, status string) cause {
	return both(applied(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+plural+"."+group+`}
spec:
  group: `+group+`
  names: {kind: `+kind+`, plural: `+plural+`}
  scope: Namespaced
  versions:
  - name: `+version+`
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties:
              conditions:
                type: array
                items:
                  type: object
                  required: [status, type]
                  properties:
                    lastTransitionTime: {type: string, format: date-time}
                    message: {type: string}
                    observedGeneration: {type: integer, format: int64}
                    reason: {type: string}
                    status: {type: string, enum: ["True", "False", Unknown]}
                    type: {type: string}`+status+"\n"),
		kubectl("wait", "--for=condition=Established", "crd/"+plural+"."+group))
}

func certificate(name string) cause {
	return applied(`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: ` + name + `, namespace: gate}
spec: {secretName: ` + name + `, dnsNames: [` + name + `.example.com], issuerRef: {name: letsencrypt}}
`)
}

// issued writes the status of a Certificate as cert-manager does.
func issued(name, ready string, left time.Duration) cause {
	return func(tr *trial) {
		tr.Helper()
		kubectl("patch", "certificates.cert-manager.io/"+name, "--namespace=gate", "--subresource=status", "--type=merge",
			fmt.Sprintf(`--patch={"status":{"notAfter":%q,"conditions":[%s]}}`, timeIn(left), condition("Ready", ready)))(tr)
	}
}

func condition(kind, status string) string {
	return fmt.Sprintf(`{"type":%q,"status":%q,"reason":"Tested","lastTransitionTime":%q}`, kind, status, timeIn(0))
}

func kustomization(name string) string {
	return `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: ` + name + `, namespace: flux-system}
spec: {interval: 10m, path: ./apps, prune: true, sourceRef: {kind: GitRepository, name: apps}}
`
}

// reconciled writes the status of a Kustomization as Flux does.
func reconciled(name, ready string) cause {
	return kubectl("patch", "kustomizations.kustomize.toolkit.fluxcd.io/"+name, "--namespace=flux-system", "--subresource=status", "--type=merge",
		fmt.Sprintf(`--patch={"status":{"conditions":[%s]}}`, condition("Ready", ready)))
}

func helmRelease(name, tier string) string {
	return `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: ` + name + `, namespace: storefront, labels: {tier: ` + tier + `, team: shop}}
spec: {interval: 10m, chartRef: {kind: OCIRepository, name: ` + name + `}}
`
}

// upgradeFailed is an Event about a HelmRelease as Flux writes it.
func upgradeFailed(name string) happening {
	return happening{
		by: "helm-controller", kind: "HelmRelease", on: "storefront/" + name, eventType: "Warning", reason: "UpgradeFailed",
		note: "Helm upgrade failed for release storefront/web with chart web@1.2.3: timed out waiting for the condition",
	}
}
