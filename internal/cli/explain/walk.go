package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// maxChain limits the objects from the explained one to the root of its problem. maxExplained limits all
// that are explained for one answer.
const (
	maxChain     = 6
	maxExplained = 12
)

// walk is the way from an explained object along the objects that causes blame.
type walk struct {
	// from are the objects on the way to the present one, and explained counts all.
	from      []string
	explained *int
}

// reference names an object that can be why another one does not work.
type reference struct {
	kind            schema.GroupKind
	namespace, name string
	// relation describes it in a sentence before "is not ready", such as `which creates it`. It can be empty.
	relation string
}

func (r *reference) key() string {
	return r.kind.String() + "/" + r.namespace + "/" + r.name
}

// String returns the kind and the quoted name, for a sentence.
func (r *reference) String() string { return fmt.Sprintf("%s %q", r.kind.Kind, r.name) }

// Link is an object between the explained one and the root of its problem.
type Link struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Message is what its own status says.
	Message string `json:"message"`
}

// follow looks for the root of the problem: it explains the objects that the cause blames, and those
// that these blame. The cause of the last one becomes the cause of the target.
func (q *inquiry) follow() {
	x := &q.explanation
	if x.State == Stopped && len(q.next) == 0 || x.State == Running || x.State == Completed {
		return
	}
	if q.byWebhook() {
		return
	}
	for _, r := range q.blamed() {
		found, cycle := q.explainNext(r)
		switch {
		case cycle && r.relation == dependsOn:
			q.deadlock(r)
			return
		case found == nil || found.Cause == nil:
			continue
		}
		q.inherit(r, found)
		return
	}
}

// explainNext explains an object on the walk. It returns nil if it cannot be explained, or if the walk
// is too long. It reports a cycle if the walk has been there.
func (q *inquiry) explainNext(r reference) (found *Explanation, cycle bool) {
	if slices.Contains(q.walk.from, r.key()) {
		return nil, len(q.walk.from) > 1
	}
	mapping, err := q.client.RESTMapper().RESTMapping(r.kind)
	if err != nil {
		return nil, false // the cluster does not have this type
	}
	if len(q.walk.from) >= maxChain || *q.walk.explained >= maxExplained {
		q.unread(r.String(), "", fmt.Errorf("the chain of causes is longer than %d objects", maxChain))
		return nil, false
	}
	next := walk{from: append(slices.Clone(q.walk.from), r.key()), explained: q.walk.explained}
	found, err = q.explain(q.ctx, mapping, r.namespace, r.name, next)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false
	case err != nil:
		q.unread(r.String(), "get it", err)
		return nil, false
	}
	q.alsoUnread(found.NotChecked)
	return found, false
}

// alsoUnread adds what could not be read on the way.
func (q *inquiry) alsoUnread(unread []NotChecked) {
	for _, u := range unread {
		if !slices.Contains(q.explanation.NotChecked, u) {
			q.explanation.NotChecked = append(q.explanation.NotChecked, u)
		}
	}
}

// inherit makes the cause of a blamed object that of the target.
func (q *inquiry) inherit(r reference, found *Explanation) {
	x, root := &q.explanation, *found.Cause
	own := x.Summary
	if x.Cause != nil {
		own = x.Cause.Message
	}
	x.Chain = append([]Link{{Kind: found.Kind, Namespace: found.Namespace, Name: found.Name, Message: found.Summary}}, found.Chain...)
	if root.Message = strings.TrimPrefix(root.Message, own+": "); strings.Contains(own, root.Message) {
		root.Message = own
	} else {
		root.Message = shortLine(own + ": " + r.String() + r.relation + " has a problem: " + root.Message)
	}
	if root.root == "" {
		root.root = causeKey(ProblemObject{Namespace: found.Namespace}, found.Cause)
	}
	x.Cause = &root
	if x.State != Unknown {
		x.State = Failing
	}
	if x.Log == nil {
		x.Log = found.Log
	}
}

// deadlock makes a cycle of objects that wait for each other the cause of the target.
func (q *inquiry) deadlock(r reference) {
	x := &q.explanation
	if x.Cause != nil {
		x.Cause.Message = shortLine(x.Cause.Message + "; " + r.String() + " waits for it in turn, so that waiting does not help")
		x.Cause.Passing = false
	}
}

// blamed returns the objects that can be why the target does not work. Those that a component's text
// names are returned only if the target confirms that they belong to it.
func (q *inquiry) blamed() []reference {
	all := slices.Clone(q.next)
	if c := q.blaming; c != nil {
		for _, b := range c.Blames {
			switch b.Kind {
			case kindPod:
				all = append(all, q.sharesClaim(b.Name)...)
			case kindSecret:
				if slices.ContainsFunc(q.workload.Pods, func(p *corev1.Pod) bool { return usesSecret(p, b.Name) }) {
					all = append(all, q.makersOf(b.Name)...)
				}
			}
		}
	}
	if u, ok := q.object.(*unstructured.Unstructured); ok && u.GroupVersionKind().Group != v1alpha1.Group {
		all = append(all, q.references(u)...)
		all = append(all, q.membersOf(u)...)
		all = append(all, q.ownedBy(u)...)
	}
	return all
}

// sharesClaim returns the named pod if it mounts a claim that a pod of the target mounts too.
func (q *inquiry) sharesClaim(name string) []reference {
	p := &corev1.Pod{}
	if err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: name}, p); err != nil {
		if !apierrors.IsNotFound(err) {
			q.unread("pod "+name, "get it", err)
		}
		return nil
	}
	shared := slices.ContainsFunc(q.workload.Pods, func(own *corev1.Pod) bool {
		return own.UID != p.UID && slices.ContainsFunc(diagnosis.ClaimsOf(own), func(claim string) bool { return slices.Contains(diagnosis.ClaimsOf(p), claim) })
	})
	if !shared {
		return nil
	}
	return []reference{{kind: schema.GroupKind{Kind: kindPod}, namespace: q.namespace, name: name}}
}

// usesSecret reports whether a volume or a variable of the pod refers to a Secret.
func usesSecret(p *corev1.Pod, name string) bool {
	inVolume := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == name ||
			v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.Secret != nil && s.Secret.Name == name })
	})
	return inVolume || slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.EnvFrom, func(e corev1.EnvFromSource) bool { return e.SecretRef != nil && e.SecretRef.Name == name }) ||
			slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
				return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name == name
			})
	})
}

// maker is a type whose objects create Secrets.
type maker struct {
	kind schema.GroupKind
	// target is the field with the name of the Secret. Without it, the Secret has the name of the object.
	target []string
}

// makers are the types that create Secrets, by their documentation: external-secrets.io,
// cert-manager.io, sealed-secrets.netlify.app, developer.hashicorp.com (Vault Secrets Operator),
// developer.1password.com, infisical.com.
var makers = []maker{
	{schema.GroupKind{Group: "external-secrets.io", Kind: "ExternalSecret"}, []string{"spec", "target", "name"}},
	{schema.GroupKind{Group: "cert-manager.io", Kind: "Certificate"}, []string{"spec", "secretName"}},
	{schema.GroupKind{Group: "bitnami.com", Kind: "SealedSecret"}, []string{"spec", "template", "metadata", "name"}},
	{schema.GroupKind{Group: "secrets.hashicorp.com", Kind: "VaultStaticSecret"}, []string{"spec", "destination", "name"}},
	{schema.GroupKind{Group: "secrets.hashicorp.com", Kind: "VaultDynamicSecret"}, []string{"spec", "destination", "name"}},
	{schema.GroupKind{Group: "secrets.hashicorp.com", Kind: "VaultPKISecret"}, []string{"spec", "destination", "name"}},
	{schema.GroupKind{Group: "onepassword.com", Kind: "OnePasswordItem"}, nil},
	{schema.GroupKind{Group: "secrets.infisical.com", Kind: "InfisicalSecret"}, []string{"spec", "managedSecretReference", "secretName"}},
}

// makersOf returns the objects that create a Secret of this name.
func (q *inquiry) makersOf(secret string) []reference {
	var all []reference
	for _, m := range makers {
		for _, o := range q.listOf(m.kind) {
			target := ""
			if u, ok := o.(*unstructured.Unstructured); ok {
				target, _, _ = unstructured.NestedString(u.Object, m.target...)
			}
			if cmp.Or(target, o.GetName()) == secret {
				all = append(all, reference{m.kind, q.namespace, o.GetName(), ", which creates it,"})
			}
		}
	}
	return all
}

// maxReferences limits the references of an object that are followed.
const maxReferences = 5

// references returns the objects that fields of the spec with the name ...Ref name. It leaves out those
// that the text of the problem does not name.
func (q *inquiry) references(u *unstructured.Unstructured) []reference {
	text := q.problemText()
	var all []reference
	eachReference(u.Object["spec"], 0, func(ref map[string]any) {
		name, _ := ref["name"].(string)
		kind, _ := ref["kind"].(string)
		if name == "" || kind == "" || !strings.Contains(text, name) || len(all) >= maxReferences {
			return
		}
		group := u.GroupVersionKind().Group
		if g, ok := ref["group"].(string); ok && g != "" {
			group = g
		} else if v, ok := ref["apiVersion"].(string); ok {
			gv, err := schema.ParseGroupVersion(v)
			if err != nil {
				return
			}
			group = gv.Group
		}
		namespace := q.namespace
		if n, ok := ref["namespace"].(string); ok && n != "" {
			namespace = n
		}
		all = append(all, reference{schema.GroupKind{Group: group, Kind: kind}, namespace, name, ", which it uses,"})
	})
	return all
}

// eachReference calls visit for each field whose name ends with Ref.
func eachReference(value any, depth int, visit func(ref map[string]any)) {
	const deepest = 5
	switch v := value.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			if ref, ok := v[field].(map[string]any); ok && strings.HasSuffix(strings.ToLower(field), "ref") {
				visit(ref)
			} else if depth < deepest {
				eachReference(v[field], depth+1, visit)
			}
		}
	case []any:
		for _, item := range v[:min(len(v), maxConditions)] {
			if depth < deepest {
				eachReference(item, depth+1, visit)
			}
		}
	}
}

// workloads are the types whose objects create pods for a custom resource, in the order in which they are
// read.
var workloads = []schema.GroupKind{
	{Group: "apps", Kind: "Deployment"}, {Group: "apps", Kind: "StatefulSet"}, {Group: "apps", Kind: "DaemonSet"}, {Group: "batch", Kind: "Job"},
}

// ownedKinds are further types that objects of some groups own, by their documentation: cert-manager.io,
// kueue.sigs.k8s.io, knative.dev, tekton.dev, strimzi.io, argoproj.github.io.
var ownedKinds = map[schema.GroupKind][]schema.GroupKind{
	{Group: "cert-manager.io", Kind: "Certificate"}:        {{Group: "cert-manager.io", Kind: "CertificateRequest"}},
	{Group: "cert-manager.io", Kind: "CertificateRequest"}: {{Group: "acme.cert-manager.io", Kind: "Order"}},
	{Group: "acme.cert-manager.io", Kind: "Order"}:         {{Group: "acme.cert-manager.io", Kind: "Challenge"}},
	{Group: "batch", Kind: "Job"}:                          {{Group: "kueue.x-k8s.io", Kind: "Workload"}},
	{Group: "serving.knative.dev", Kind: "Service"}:        {{Group: "serving.knative.dev", Kind: "Configuration"}},
	{Group: "serving.knative.dev", Kind: "Configuration"}:  {{Group: "serving.knative.dev", Kind: "Revision"}},
	{Group: "tekton.dev", Kind: "PipelineRun"}:             {{Group: "tekton.dev", Kind: "TaskRun"}},
	{Group: "kafka.strimzi.io", Kind: "Kafka"}:             {{Group: "core.strimzi.io", Kind: "StrimziPodSet"}},
	{Group: "argoproj.io", Kind: "Rollout"}:                {{Group: "apps", Kind: "ReplicaSet"}},
}

// ownedBy returns the objects that an object of a type without rules of its own owns.
func (q *inquiry) ownedBy(u *unstructured.Unstructured) []reference {
	if q.namespace == "" {
		return nil
	}
	kind := u.GroupVersionKind().GroupKind()
	return q.ownedKinds(u, slices.Concat(ownedKinds[kind], workloads, []schema.GroupKind{{Kind: kindPod}}))
}

// ownedKinds returns the objects of these types that an object owns.
func (q *inquiry) ownedKinds(owner client.Object, kinds []schema.GroupKind) []reference {
	var all []reference
	for _, k := range kinds {
		for _, o := range q.listOf(k) {
			if slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() }) && len(all) < maxReferences {
				all = append(all, reference{k, q.namespace, o.GetName(), ", which it owns,"})
			}
		}
	}
	return all
}

// listOf lists the objects of a type in the namespace of the target.
func (q *inquiry) listOf(kind schema.GroupKind) []client.Object { return q.listIn(q.namespace, kind) }

// listIn lists the objects of a type in a namespace. It returns none if the cluster does not have the
// type.
func (q *inquiry) listIn(namespace string, kind schema.GroupKind) []client.Object {
	mapping, err := q.client.RESTMapper().RESTMapping(kind)
	if err != nil {
		if !meta.IsNoMatchError(err) {
			q.unread(kind.String(), "", err)
		}
		return nil
	}
	list, err := newList(q.client.Scheme(), mapping.GroupVersionKind)
	if err != nil {
		q.unread(kind.String(), "", err)
		return nil
	}
	var all []client.Object
	q.list(mapping.Resource.GroupResource().String(), list, func() {
		_ = meta.EachListItem(list, func(o runtime.Object) error { // it fails only if the function fails
			all = append(all, o.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // every item of a list is one
			return nil
		})
	}, client.InNamespace(namespace))
	return all
}
