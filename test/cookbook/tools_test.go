package cookbook

// recipesOfOtherTools trigger each alarm of docs/coming-from.md.
var recipesOfOtherTools = map[string]recipe{
	"kubewatch": {
		before:   both(applied(`{apiVersion: v1, kind: Namespace, metadata: {name: depot}}`), applied(scaled("depot", "BYSTANDER", 1))),
		nearMiss: kubectl("annotate", "deployment/BYSTANDER", "--namespace=depot", "checked=today"),
		steps: []cause{
			kubectl("create", "deployment", "parcels", "--namespace=depot", "--image=registry.example.com/parcels:1"),
			kubectl("scale", "deployment/parcels", "--namespace=depot", "--replicas=2"),
			kubectl("delete", "deployment/parcels", "--namespace=depot"),
		},
	},
	"kubernetes-event-exporter": {
		before:   applied(`{apiVersion: v1, kind: Namespace, metadata: {name: archive-of-events}}`),
		nearMiss: both(applied(failing("archive-of-events", "BYSTANDER", "stable")), reported("archive-of-events", "BYSTANDER", "BackOff")),
		steps:    []cause{applied(failing("archive-of-events", "worker", "dev"))},
	},
	"Botkube": {
		before:   both(applied(`{apiVersion: v1, kind: Namespace, metadata: {name: harbor}}`), applied(stateful("harbor", "cranes")+"---"+stateful("harbor", "BYSTANDER"))),
		nearMiss: kubectl("set", "env", "statefulset/BYSTANDER", "--namespace=harbor", "LEVEL=debug"),
		steps: []cause{
			kubectl("set", "image", "statefulset/cranes", "--namespace=harbor", "app=registry.example.com/cranes:2"),
			applied(failing("harbor", "ship", "1")),
		},
	},
	"Robusta": {
		before: applied(`{apiVersion: v1, kind: Namespace, metadata: {name: clinic}}`),
		nearMiss: recorded(happening{
			by: "kubelet", kind: "Pod", on: "clinic/", eventType: "Normal", reason: "BackOff", note: `Back-off pulling image "registry.example.com/doctor:2"`, container: "app", count: 9,
		}),
		steps: []cause{applied(failing("clinic", "doctor", "1"))},
	},
	"Argo CD notifications": {
		before: both(
			applied(crdOfApplications), kubectl("wait", "--for=condition=Established", "crd/applications.argoproj.io"),
			applied(`{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}`),
			applied(application("guestbook")+"---"+application("BYSTANDER")),
		),
		nearMiss: inArgoCD("BYSTANDER", `{"status":{"operationState":{"phase":"Succeeded"}}}`),
		steps: []cause{
			inArgoCD("guestbook", `{"status":{"operationState":{"phase":"Failed"}}}`),
			inArgoCD("guestbook", `{"status":{"health":{"status":"Degraded"}}}`),
		},
	},
}

// failing returns a pod that crashes.
func failing(namespace, name, version string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: ` + namespace + `, labels: {version: "` + version + `"}, annotations: {bongsu-local/simulate: crash}}
spec: {containers: [{name: app, image: "registry.example.com/app:1"}]}
`
}

// stateful returns a StatefulSet without pods.
func stateful(namespace, name string) string {
	return `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ` + name + `, namespace: ` + namespace + `}
spec:
  replicas: 0
  serviceName: ` + name + `
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec: {containers: [{name: app, image: "registry.example.com/cranes:1"}]}
`
}

// crdOfApplications defines the resource of Argo CD, without its schema. Like the original, it
// has no status subresource.
const crdOfApplications = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: applications.argoproj.io}
spec:
  group: argoproj.io
  names: {kind: Application, plural: applications, singular: application}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func application(name string) string {
	return `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: ` + name + `, namespace: argocd}
spec: {project: default}
status: {operationState: {phase: Running}, health: {status: Healthy}}
`
}

// inArgoCD patches an Application as the controller of Argo CD does.
func inArgoCD(name, patch string) cause {
	return kubectl("patch", "applications.argoproj.io/"+name, "--namespace=argocd", "--field-manager=argocd-application-controller", "--type=merge", "--patch="+patch)
}
