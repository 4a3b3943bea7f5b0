package explain

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// acmeGroup has the types with which cert-manager asks for a certificate.
const acmeGroup = "acme.cert-manager.io"

// maxOwnedTypes limits the types that are listed for the objects that an object owns.
const maxOwnedTypes = 10

// ownedKinds are types of other groups that objects own, by their documentation: cert-manager.io,
// kueue.sigs.k8s.io, strimzi.io, argoproj.github.io, kserve.github.io, keda.sh, cluster-api.sigs.k8s.io.
var ownedKinds = map[schema.GroupKind][]schema.GroupKind{
	certificate: {{Group: certificate.Group, Kind: "CertificateRequest"}},
	{Group: certificate.Group, Kind: "CertificateRequest"}:                {{Group: acmeGroup, Kind: "Order"}},
	{Group: acmeGroup, Kind: "Order"}:                                     {{Group: acmeGroup, Kind: "Challenge"}},
	jobKind:                                                               {kueueWorkload},
	{Group: "kafka.strimzi.io", Kind: "Kafka"}:                            {{Group: "core.strimzi.io", Kind: "StrimziPodSet"}},
	{Group: "kafka.strimzi.io", Kind: "KafkaConnect"}:                     {{Group: "core.strimzi.io", Kind: "StrimziPodSet"}},
	{Group: "argoproj.io", Kind: "Rollout"}:                               {{Group: "apps", Kind: "ReplicaSet"}},
	{Group: "serving.kserve.io", Kind: "InferenceService"}:                {{Group: "serving.knative.dev", Kind: "Service"}},
	{Group: "keda.sh", Kind: "ScaledObject"}:                              {scalerKind},
	{Group: "jobset.x-k8s.io", Kind: "JobSet"}:                            {jobKind},
	{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}:          {{Group: "apps", Kind: "StatefulSet"}},
	{Group: "kubevirt.io", Kind: "VirtualMachine"}:                        {{Group: "cdi.kubevirt.io", Kind: "DataVolume"}},
	{Group: "batch.volcano.sh", Kind: "Job"}:                              {{Group: "scheduling.volcano.sh", Kind: "PodGroup"}},
	{Group: "flow.volcano.sh", Kind: "JobFlow"}:                           {{Group: "batch.volcano.sh", Kind: "Job"}},
	{Group: "trainer.kubeflow.org", Kind: "TrainJob"}:                     {{Group: "jobset.x-k8s.io", Kind: "JobSet"}},
	{Group: acmeGroup, Kind: "Challenge"}:                                 {ingressKind},
	{Group: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane"}: {machine},
	{Group: "argoproj.io", Kind: "Workflow"}: {
		{Group: "kubeflow.org", Kind: "PyTorchJob"}, {Group: "batch.volcano.sh", Kind: "Job"}, {Group: "ray.io", Kind: "RayJob"},
		{Group: "sparkoperator.k8s.io", Kind: "SparkApplication"},
	},
	{Group: "volsync.backube", Kind: "ReplicationSource"}:      {volumeSnapshot},
	{Group: "volsync.backube", Kind: "ReplicationDestination"}: {volumeSnapshot},
}

// owned returns the objects that an object owns: of its own group, of [ownedKinds], and workloads. Those
// that its message names go first.
func (q *inquiry) owned() []reference {
	kind, err := q.client.GroupVersionKindFor(q.object)
	if err != nil {
		return nil
	}
	kinds := ownedKinds[kind.GroupKind()]
	if q.within == nil {
		common := workloads
		if q.namespace != "" { // there are too many in the cluster
			common = slices.Concat(workloads, []schema.GroupKind{podKind, claimKind})
		}
		siblings := q.siblings(kind.GroupKind())
		siblings = siblings[:max(0, min(len(siblings), maxOwnedTypes-len(kinds)-len(common)))]
		kinds = slices.Concat(kinds, siblings, common)
	}
	all := q.ownedOf(q.object, kinds)
	text, failing := q.allText(), q.failingPods()
	rank := func(r reference) int {
		switch {
		case mentions(text, r.name):
			return 0
		case r.kind == podKind && failing[r.name]:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b reference) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

// failingPods returns the pods of the namespace with a container that has failed. Others can wait for them.
func (q *inquiry) failingPods() map[string]bool {
	failing := map[string]bool{}
	for _, o := range q.walk.lists[podKind.String()+"/"+q.namespace] {
		p, ok := o.(*corev1.Pod)
		if !ok {
			continue
		}
		failing[p.Name] = slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
			return !c.Ready && c.LastTerminationState.Terminated != nil && c.LastTerminationState.Terminated.ExitCode != 0
		})
	}
	return failing
}

// maxSiblings limits the types of a group. Of a group with more types, it is not known which one an
// object owns.
const maxSiblings = 6

// siblings returns the other types of a group that can be listed. An object of a namespace owns none of the cluster.
func (q *inquiry) siblings(kind schema.GroupKind) []schema.GroupKind {
	var all []schema.GroupKind
	for _, t := range q.typesBeside(kind) {
		if (t.Namespaced || q.namespace == "") && slices.Contains(t.Verbs, "list") {
			all = append(all, schema.GroupKind{Group: kind.Group, Kind: t.Kind})
		}
	}
	if len(all) > maxSiblings {
		return nil
	}
	return all
}

// typesBeside returns the other types of a group, in the version of a type.
func (q *inquiry) typesBeside(kind schema.GroupKind) []metav1.APIResource {
	mapping, err := q.client.RESTMapper().RESTMapping(kind)
	if err != nil {
		return nil
	}
	types, err := q.served.ServerResourcesForGroupVersion(mapping.GroupVersionKind.GroupVersion().String())
	if err != nil {
		q.unread("the types of "+kind.Group, "", err)
		return nil
	}
	return slices.DeleteFunc(slices.Clone(types.APIResources), func(t metav1.APIResource) bool {
		return t.Kind == "" || t.Kind == kind.Kind || strings.Contains(t.Name, "/") // a subresource
	})
}

// attempts are types whose last object alone counts: it replaces the ones before it.
var attempts = []schema.GroupKind{{Group: certificate.Group, Kind: "CertificateRequest"}, {Group: acmeGroup, Kind: "Order"}}

// ownedOf returns the objects of these types that an object owns.
func (q *inquiry) ownedOf(owner client.Object, kinds []schema.GroupKind) []reference {
	var all []reference
	for _, k := range kinds {
		owned := slices.DeleteFunc(slices.Clone(q.listOf(k)), func(o client.Object) bool {
			return !slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
		})
		if slices.Contains(attempts, k) && len(owned) > 0 {
			owned = []client.Object{slices.MaxFunc(owned, func(a, b client.Object) int {
				return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
			})}
		}
		for _, o := range owned[:min(len(owned), maxReferences)] {
			all = append(all, newReference(k, o.GetNamespace(), o.GetName(), ", which it owns,"))
		}
	}
	return all
}

// listOf lists the objects of a type in the namespace of the target.
func (q *inquiry) listOf(kind schema.GroupKind) []client.Object { return q.listIn(q.namespace, kind) }

// listIn lists the objects of a type in a namespace, once in a walk. It returns none if the cluster does not
// have the type.
func (q *inquiry) listIn(namespace string, kind schema.GroupKind) []client.Object {
	if !q.within.allows(kind, namespace) {
		return nil
	}
	key := kind.String() + "/" + namespace
	if all, read := q.walk.lists[key]; read {
		return all
	}
	if complete := q.walk.lists[kind.String()+"/"]; namespace != "" && len(complete) > 0 && len(complete) < pageSize*maxPages && !q.walk.failed[kind.String()+"/"] {
		return slices.DeleteFunc(slices.Clone(complete), func(o client.Object) bool { return o.GetNamespace() != namespace })
	}
	all, read := q.readList(namespace, kind)
	q.walk.lists[key], q.walk.failed[key] = all, !read
	return all
}

// couldRead reports whether a list of a type in a namespace could be read. Call it after listIn.
func (q *inquiry) couldRead(namespace string, kind schema.GroupKind) bool {
	return !q.walk.failed[kind.String()+"/"+namespace]
}

// isServed reports whether the cluster may have a group. The list of groups is read once; a mapper asks for each
// type that it does not know.
func (q *inquiry) isServed(group string) bool {
	groups, err := q.served.ServerGroups()
	return group == "" || err != nil || slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == group })
}

func (q *inquiry) readList(namespace string, kind schema.GroupKind) (all []client.Object, read bool) {
	if !q.isServed(kind.Group) {
		return nil, true
	}
	mapping, err := q.client.RESTMapper().RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, true
	}
	if err != nil {
		q.unread(kind.String(), "", err)
		return nil, false
	}
	list, err := newList(q.client.Scheme(), mapping.GroupVersionKind)
	if err != nil {
		q.unread(kind.String(), "", err)
		return nil, false
	}
	reader := q
	if q.logs == nil && namespace == "" { // an overview is complete without what few users may list
		reader = &inquiry{ctx: q.ctx, Explainer: q.Explainer}
	}
	read = reader.list(mapping.Resource.GroupResource().String(), list, func() {
		_ = meta.EachListItem(list, func(o runtime.Object) error { // it fails only if the function fails
			all = append(all, o.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // every item of a list is one
			return nil
		})
	}, client.InNamespace(namespace))
	return all, read
}
