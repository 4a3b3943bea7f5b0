package explain

import (
	"fmt"
	"iter"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// reference names an object that can be why another one does not work.
type reference struct {
	kind            schema.GroupKind
	namespace, name string
	// relation describes it in a sentence before "has a problem", such as ", which creates it,". It can be
	// empty.
	relation string
	// mustRun is true for what is a problem also if it is stopped.
	mustRun bool
	// mustExist is true for what is a problem also if it does not exist.
	mustExist bool
}

func newReference(kind schema.GroupKind, namespace, name, relation string) reference {
	return reference{kind: kind, namespace: namespace, name: name, relation: relation}
}

// needed returns a reference to an object that must run.
func (r reference) needed() reference {
	r.mustRun = true
	return r
}

func (r *reference) key() string {
	return r.kind.String() + "/" + r.namespace + "/" + r.name
}

// String returns the kind and the quoted name, for a sentence.
func (r *reference) String() string { return fmt.Sprintf("%s %q", r.kind.Kind, r.name) }

// The types that edges begin at or lead to.
var (
	podKind           = corev1.SchemeGroupVersion.WithKind(kindPod).GroupKind()
	secretKind        = corev1.SchemeGroupVersion.WithKind(kindSecret).GroupKind()
	serviceKind       = corev1.SchemeGroupVersion.WithKind(kindService).GroupKind()
	claimKind         = corev1.SchemeGroupVersion.WithKind(kindClaim).GroupKind()
	budgetKind        = policyv1.SchemeGroupVersion.WithKind(kindBudget).GroupKind()
	nodeKind          = corev1.SchemeGroupVersion.WithKind(kindNode).GroupKind()
	jobKind           = batchv1.SchemeGroupVersion.WithKind("Job").GroupKind()
	networkPolicyKind = networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy").GroupKind()
	ingressKind       = networkingv1.SchemeGroupVersion.WithKind(kindIngress).GroupKind()
	scalerKind        = autoscalingv2.SchemeGroupVersion.WithKind(kindAutoscaler).GroupKind()

	apiService        = schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}
	helmRelease       = schema.GroupKind{Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"}
	volumeSnapshot    = schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshot"}
	certificate       = schema.GroupKind{Group: "cert-manager.io", Kind: "Certificate"}
	backupSchedule    = schema.GroupKind{Group: "velero.io", Kind: "Schedule"}
	veleroBackup      = schema.GroupKind{Group: "velero.io", Kind: "Backup"}
	backupStore       = schema.GroupKind{Group: "velero.io", Kind: "BackupStorageLocation"}
	cronWorkflow      = schema.GroupKind{Group: "argoproj.io", Kind: "CronWorkflow"}
	nodeClaim         = schema.GroupKind{Group: "karpenter.sh", Kind: "NodeClaim"}
	machine           = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Machine"}
	machineDeployment = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "MachineDeployment"}
	nodePoolKind      = schema.GroupKind{Group: "karpenter.sh", Kind: "NodePool"}
	kustomization     = schema.GroupKind{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}
	externalSecret    = schema.GroupKind{Group: "external-secrets.io", Kind: "ExternalSecret"}
	virtualService    = schema.GroupKind{Group: istioGroup, Kind: "VirtualService"}
	istioGateway      = schema.GroupKind{Group: istioGroup, Kind: "Gateway"}
	application       = schema.GroupKind{Group: "argoproj.io", Kind: "Application"}
	applicationSet    = schema.GroupKind{Group: "argoproj.io", Kind: "ApplicationSet"}
)

// workloads are the types whose objects create pods, in the order in which they are read.
var workloads = []schema.GroupKind{
	{Group: appsv1.GroupName, Kind: "Deployment"}, {Group: appsv1.GroupName, Kind: "StatefulSet"}, {Group: appsv1.GroupName, Kind: "DaemonSet"}, jobKind,
}

// edge leads from an object to others that can be why it does not work.
type edge struct {
	// from is the type of the object. Without a kind, these are all types without rules of their own.
	from schema.GroupKind
	// to returns the others. It leaves out those that cannot be why the object has its problem.
	to func(*inquiry) []reference
	// within means that [Roots] follow it too.
	within bool
	// always means that the object's own status says too little: it is followed also if it shows no problem.
	always bool
}

// edges are the references that a walk follows by the type of the object, in this order.
var edges = []edge{
	{from: claimKind, to: (*inquiry).dataSource, within: true},
	{from: ingressKind, to: (*inquiry).certificateMakers},
	{from: scalerKind, to: (*inquiry).scaling},
	{from: volumeSnapshot, to: (*inquiry).snapshotContent},
	{from: apiService, to: (*inquiry).servedBy},
	{from: veleroBackup, to: (*inquiry).backupLocation},
	{from: nodeClaim, to: (*inquiry).nodeOf},
	{from: machine, to: (*inquiry).nodeOf},
	{from: kueueWorkload, to: (*inquiry).queue},
	{from: localQueue, to: (*inquiry).queue},
	{from: kustomization, to: (*inquiry).inventory},
	{from: kustomization, to: (*inquiry).dependencies},
	{from: application, to: (*inquiry).applied},
	{from: crossplaneFunction, to: (*inquiry).packaged},
	{from: crossplaneProvider, to: (*inquiry).packaged},
	{from: gateway, to: (*inquiry).gatewayServices},
	{from: gateway, to: (*inquiry).gatewayCertificates},
	{from: gateway, to: (*inquiry).gatewayClass},
	{from: longhornVolume, to: (*inquiry).replicaNodes},
	{from: scalerKind, to: (*inquiry).calledByText},
	{from: externalSecret, to: (*inquiry).remoteSecrets},
	{from: helmRelease, to: (*inquiry).hooks},
	{from: helmRelease, to: (*inquiry).released},
	{from: helmRelease, to: (*inquiry).dependencies},
	{from: podGroup, to: (*inquiry).volcanoQueue},
	{from: bucketClaim, to: (*inquiry).objectStore},
	{from: cephKind, to: (*inquiry).cephWorkloads},
	{from: applicationSet, to: (*inquiry).generated, always: true},
	{from: runnerSet, to: (*inquiry).listeners, always: true},
	{from: providerClass, to: (*inquiry).mountedBy, always: true},
	{from: virtualService, to: (*inquiry).istioRoute, always: true},
	{from: istioGateway, to: (*inquiry).gatewayPods, always: true},
	{from: machineDeployment, to: (*inquiry).machines, always: true},
	{from: subscription, to: (*inquiry).installed, always: true},
	{to: (*inquiry).cephBelow},
	{to: (*inquiry).resolved},
	{to: (*inquiry).providerSecret},
	{to: (*inquiry).namedWithType},
	{to: (*inquiry).named, within: true},
	{to: (*inquiry).missingSecrets, within: true},
	{to: (*inquiry).calledByText},
	{to: (*inquiry).labelled},
	{to: (*inquiry).owned, within: true},
	{to: (*inquiry).called},
	{to: (*inquiry).inSpec},
}

// custom returns the target of an edge that is for types without rules of their own.
func (q *inquiry) custom() *unstructured.Unstructured {
	return q.object.(*unstructured.Unstructured) //nolint:forcetypeassert // the reader of these types makes it
}

// blamed returns the objects that can be why the target does not work. It reads them one after the other,
// because the first one with a problem is enough.
func (q *inquiry) blamed() iter.Seq[reference] {
	return func(yield func(reference) bool) {
		for _, find := range q.waysOut() {
			for _, r := range find(q) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// leads find references of objects of all types, in this order, before [edges]. A lead can also add a detail to the cause
// ([Cause.add]). Some do only this, because what they find has no problem of its own.
var leads = []func(*inquiry) []reference{
	(*inquiry).found,       // what the functions for a type have found
	(*inquiry).denied,      // roles that lack a rule
	(*inquiry).confirmed,   // what the text of a component names
	(*inquiry).textual,     // what a text or a log is about
	(*inquiry).beside,      // workloads that a podAffinity requires
	(*inquiry).users,       // pods that use a claim
	(*inquiry).preempted,   // pods of a higher priority
	(*inquiry).registry,    // registries in the cluster
	(*inquiry).credentials, // what makes the Secrets for images
	(*inquiry).expired,     // what should renew a certificate
	(*inquiry).wrongClock,  // the node whose clock is wrong
	(*inquiry).counted,     // who uses up a quota of objects
	(*inquiry).longhorn,    // volumes of Longhorn
	(*inquiry).cephCluster, // where the volumes of claims are made
	(*inquiry).backends,    // what configures their storage
	(*inquiry).attachedTo,  // nodes to which volumes are attached
	(*inquiry).unreachable, // hosts in the end of a log
	(*inquiry).full,        // claims, if the end of a log says that a volume is full
	(*inquiry).fileServers, // NFS servers that do not respond
	(*inquiry).agents,      // what sets up the network of a node
	(*inquiry).running,     // parts of the cluster
	(*inquiry).cordoned,    // nodes that are drained
	(*inquiry).nodes,       // nodes that take no pods
}

func (q *inquiry) found() []reference { return q.next }

// waysOut returns the functions that find references of the target.
func (q *inquiry) waysOut() []func(*inquiry) []reference {
	all := slices.Clone(leads)
	if q.within != nil {
		all = []func(*inquiry) []reference{(*inquiry).found, (*inquiry).confirmed}
	}
	if q.object == nil || q.explanation.State == Running {
		return all
	}
	kind, err := q.client.GroupVersionKindFor(q.object)
	if err != nil {
		return all // without a type, it has no edges
	}
	_, plain := q.object.(*unstructured.Unstructured)
	for _, e := range edges {
		if e.always || q.within != nil && !e.within {
			continue
		}
		if e.from == kind.GroupKind() || e.from.Kind == "" && plain && kind.Group != v1alpha1.Group {
			all = append(all, e.to)
		}
	}
	return all
}

// confirmed returns the objects that the cause blames. A text of an Event names them, and users can write
// Events, so the target must have to do with them.
func (q *inquiry) confirmed() []reference {
	if q.blaming == nil {
		return nil
	}
	var all []reference
	for _, b := range q.blaming.Blames {
		switch b.Kind {
		case kindPod:
			all = append(all, q.sharesClaim(b.Name)...)
		case kindSecret:
			if slices.ContainsFunc(q.workload.Pods, func(p *corev1.Pod) bool { return refersTo(p, kindSecret, b.Name) || pullsWith(p, b.Name) }) {
				all = append(all, q.missingSecret(q.namespace, b.Name)...)
			}
		case kindConfigMap:
			if slices.ContainsFunc(q.workload.Pods, func(p *corev1.Pod) bool { return refersTo(p, kindConfigMap, b.Name) }) {
				all = append(all, q.missingConfigMap(q.namespace, b.Name)...)
			}
		}
	}
	return all
}

// sharesClaim returns the named pod if it mounts a claim that a pod of the target mounts too.
func (q *inquiry) sharesClaim(name string) []reference {
	if !slices.ContainsFunc(q.workload.Pods, func(p *corev1.Pod) bool { return len(diagnosis.ClaimsOf(p)) > 0 }) {
		return nil
	}
	p := &corev1.Pod{}
	if err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: name}, p); err != nil {
		if !apierrors.IsNotFound(err) {
			q.unread("pod "+name, "get it", err)
		}
		return nil
	}
	if !slices.ContainsFunc(q.workload.Pods, func(own *corev1.Pod) bool { return diagnosis.ShareClaim(own, p) }) {
		return nil
	}
	return []reference{newReference(podKind, q.namespace, name, "")}
}

// refersTo reports whether a volume or a variable of the pod refers to a Secret or a ConfigMap.
func refersTo(p *corev1.Pod, kind, name string) bool {
	return slices.Contains(inVolumes(p), diagnosis.Object{Kind: kind, Name: name}) || slices.Contains(inVariables(p), diagnosis.Object{Kind: kind, Name: name})
}

// inVolumes returns the Secrets and ConfigMaps that volumes of the pod contain.
func inVolumes(p *corev1.Pod) (all []diagnosis.Object) {
	for _, v := range p.Spec.Volumes {
		if v.Secret != nil {
			all = append(all, diagnosis.Object{Kind: kindSecret, Name: v.Secret.SecretName})
		}
		if v.ConfigMap != nil {
			all = append(all, diagnosis.Object{Kind: kindConfigMap, Name: v.ConfigMap.Name})
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				all = append(all, diagnosis.Object{Kind: kindSecret, Name: s.Secret.Name})
			}
			if s.ConfigMap != nil {
				all = append(all, diagnosis.Object{Kind: kindConfigMap, Name: s.ConfigMap.Name})
			}
		}
	}
	return all
}

// inVariables returns the Secrets and ConfigMaps from which containers of the pod have variables.
func inVariables(p *corev1.Pod) (all []diagnosis.Object) {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, from := range c.EnvFrom {
			if from.SecretRef != nil {
				all = append(all, diagnosis.Object{Kind: kindSecret, Name: from.SecretRef.Name})
			}
			if from.ConfigMapRef != nil {
				all = append(all, diagnosis.Object{Kind: kindConfigMap, Name: from.ConfigMapRef.Name})
			}
		}
		for _, v := range c.Env {
			all = append(all, ofVariable(v.ValueFrom)...)
		}
	}
	return all
}

// ofVariable returns the Secret or ConfigMap that has the value of a variable.
func ofVariable(from *corev1.EnvVarSource) []diagnosis.Object {
	switch {
	case from == nil:
		return nil
	case from.SecretKeyRef != nil:
		return []diagnosis.Object{{Kind: kindSecret, Name: from.SecretKeyRef.Name}}
	case from.ConfigMapKeyRef != nil:
		return []diagnosis.Object{{Kind: kindConfigMap, Name: from.ConfigMapKeyRef.Name}}
	}
	return nil
}

// pullsWith reports whether the pod names a Secret for its images.
func pullsWith(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.ImagePullSecrets, func(s corev1.LocalObjectReference) bool { return s.Name == name })
}
