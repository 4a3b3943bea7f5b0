package controllers

import (
	"strings"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// manifest is a spec in YAML. A and B in it are the namespaces of a world, and SET the value
// of the label of B.
type manifest struct {
	spec string
	// wrong: the operator reports a failure. refused: pods of an earlier manifest still run.
	wrong, refused bool
	// stale: its pods are never ready, so the Deployment keeps those of an earlier manifest.
	stale bool
	// retained: objects stay after the deletion.
	retained bool
	// ending replaces the manifest at the end of a sequence, because the objects depend on
	// earlier manifests. 0 is none, since a slot's first manifest always works.
	ending bool
}

// slot is an object that exists or not.
type slot struct {
	kind, namespace, name string
	manifests             []manifest
}

// template is a pod template of an app or notebook with parts that users edit.
const template = `
template:
  spec:
    volumes: [{name: scratch, emptyDir: {}}]
    containers:
    - name: app
      env: [{name: MODE, value: fast}]
      readinessProbe: {httpGet: {port: 8080}}
`

const (
	served  = "ports: [{name: http, containerPort: 8080, servicePort: 80}]\n"
	hostile = "template: {spec: {hostNetwork: true}}\n"
	noImage = "template: {metadata: {annotations: {bongsu-local/simulate: image-pull}}}\n"
	byJob   = "backup: {jobTemplate: {spec: {template: {spec: {containers: [{name: save, image: example.org/save}]}}}}}\n"
	broken  = "backup: {jobTemplate: {spec: {backoffLimit: 0, template: {metadata: {annotations: {bongsu-local/simulate: crash}}, spec: {containers: [{name: save, image: example.org/save}]}}}}}\n"
	byExec  = "backup: {deadlineSeconds: 5, onFailure: Abandon, exec: {command: ['true']}}\n"
	retain  = "deletionPolicy: Retain\n"
	// restarts makes the pod of a notebook follow each change.
	restarts = "updateStrategy: {type: Recreate}\n"
)

var (
	appManifests = []manifest{
		{spec: "size: 1"},
		{spec: "size: 2\n" + served},
		{spec: "size: 1\n" + served + template},
		{spec: "size: 2\nimage: example.org/app:2\ndisruptionBudget: {minAvailable: 1}\nservice: {type: Headless}\n" + served},
		{spec: "size: 1\n" + served + byJob},
		{spec: "size: 1\n" + served + byExec},
		{spec: "size: 1\n" + byJob + hostile, wrong: true, refused: true},
		{spec: "size: 2\ndisruptionBudget: {maxUnavailable: 1}\n" + served + retain, retained: true},
		{spec: "size: 1\n" + served + retain + byJob + template, retained: true},
		{spec: "size: 1\n" + served + "suspend: true"},
		{spec: "size: 1\n" + served + hostile, wrong: true, refused: true},
		{spec: "size: 1\n" + byExec + hostile, wrong: true, refused: true},
		{spec: "size: 0\n" + served + template + byExec},
		{spec: "size: 1\n" + noImage, wrong: true, stale: true},
		{spec: "size: 1\n" + broken, wrong: true},
		{spec: "size: 1\nsuspend: true\n" + retain, retained: true},
	}
	notebookManifests = []manifest{
		{spec: restarts},
		{spec: restarts + "storage: {size: 1Gi}"},
		{spec: restarts + "storage: {size: 1Gi, retentionPolicy: {whenDeleted: Delete}}"},
		{spec: restarts + "access: {type: Ingress, host: lab.example.org, path: /ana}"},
		{spec: restarts + "suspend: true"},
		{spec: restarts + hostile, wrong: true, refused: true},
		{spec: restarts + strings.ReplaceAll(template, "app", "notebook")},
		{spec: restarts + "auth: {tokenSecretRef: {name: missing}}", wrong: true, refused: true},
		{spec: restarts + noImage, wrong: true},
		{spec: restarts + "storage: {size: 1Gi}\nsuspend: true\naccess: {type: Ingress, host: lab.example.org, path: /ana}"},
	}
	shareManifests = []manifest{
		{spec: "source: {names: [first]}\ntargets: {names: [B]}"},
		{spec: "source: {names: [first]}\ntargets: {namespaceSelector: {matchLabels: {set: SET}}}"},
		{spec: "source: {names: [first]}\ntargets: {names: [B]}\ncopyName: {prefix: our-}"},
		{spec: "source: {selector: {matchLabels: {shared: 'yes'}}}\ntargets: {names: [B]}"},
		{spec: "source: {names: [first]}\ntargets: {names: [B]}\nkeys: [{from: value, to: renamed}]"},
		{spec: "source: {names: [first]}\ntargets: {names: [B]}\nkeys: [{from: none}]", wrong: true, ending: true},
		{spec: "source: {names: [first]}\ntargets: {names: [B]}\nsuspend: true", ending: true},
		{spec: "source: {names: [first]}\ntargets: {names: [B]}\n" + retain, retained: true},
	}
	clusterShareManifests = []manifest{
		{spec: "source: {namespace: A, names: [second]}\ntargets: {namespaceSelector: {matchLabels: {set: SET}}}"},
		{spec: "source: {namespace: A, names: [second]}\ntargets: {names: [B]}"},
		{spec: "source: {namespace: A, names: [second]}\ntargets: {names: [B]}\ncopyName: {suffix: -copy}"},
		{spec: "source: {namespace: A, names: [second]}\ntargets: {names: [B]}\nkeys: [{from: none}]", wrong: true, ending: true},
		{spec: "source: {namespace: A, names: [second]}\ntargets: {names: [B]}\nsuspend: true", ending: true},
		{spec: "source: {namespace: A, names: [second]}\ntargets: {names: [B]}\n" + retain, retained: true},
	}
	grantManifests = []manifest{
		{spec: "from: [{namespace: A}]"},
		{spec: "from: [{namespace: A}]\nto: [{name: first}, {name: our-*}]"},
		{spec: "from: [{namespace: A}]\nto: [{name: other}]", wrong: true},
	}
)

// The indices of the slots of rules and grants.
const share, clusterShare, grant = 4, 5, 6

// The slots of a world. CLUSTER is the name of its ClusterSecretShare.
var slots = []slot{
	{v1alpha1.KindAppService, "A", "one", appManifests},
	{v1alpha1.KindAppService, "A", "two", appManifests},
	{v1alpha1.KindJupyter, "A", "ana", notebookManifests},
	{v1alpha1.KindJupyter, "A", "ben", notebookManifests},
	{v1alpha1.KindSecretShare, "A", "share", shareManifests},
	{v1alpha1.KindClusterSecretShare, "", "CLUSTER", clusterShareManifests},
	{v1alpha1.KindSecretShareGrant, "B", "grant", grantManifests},
}
