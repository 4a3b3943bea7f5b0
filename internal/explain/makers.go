package explain

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	networkingv1 "k8s.io/api/networking/v1"
)

// maker is a type whose objects create Secrets or ConfigMaps.
type maker struct {
	kind schema.GroupKind
	// target is the field with the name of the Secret or ConfigMap. If the field is a list of objects, item is the field of
	// each with the name.
	target []string
	item   string
	// names are patterns of path.Match for such names, with {} for the name of the object. Without a target or patterns,
	// both have the same name.
	names []string
	// configMaps means that it creates ConfigMaps too.
	configMaps bool
}

// makers are the types that create Secrets and ConfigMaps, by their documentation:
//
//   - external-secrets.io, cert-manager.io, sealed-secrets.netlify.app, github.com/isindir/sops-secrets-operator;
//   - developer.hashicorp.com (Vault Secrets Operator), developer.1password.com, infisical.com;
//   - strimzi.io, rabbitmq.com, elastic.co, rook.io, aws-controllers-k8s.github.io;
//   - cloudnative-pg.io, postgres-operator.readthedocs.io, access.crunchydata.com, github.com/mariadb-operator,
//     github.com/mongodb/mongodb-kubernetes-operator.
var makers = []maker{
	{kind: externalSecret, target: []string{"spec", "target", "name"}},
	{kind: certificate, target: []string{"spec", "secretName"}},
	{kind: schema.GroupKind{Group: "bitnami.com", Kind: "SealedSecret"}, target: []string{"spec", "template", "metadata", "name"}},
	{kind: schema.GroupKind{Group: "secrets.hashicorp.com", Kind: "VaultStaticSecret"}, target: []string{"spec", "destination", "name"}},
	{kind: schema.GroupKind{Group: "secrets.hashicorp.com", Kind: "VaultDynamicSecret"}, target: []string{"spec", "destination", "name"}},
	{kind: schema.GroupKind{Group: "secrets.hashicorp.com", Kind: "VaultPKISecret"}, target: []string{"spec", "destination", "name"}},
	{kind: schema.GroupKind{Group: "onepassword.com", Kind: "OnePasswordItem"}},
	{kind: providerClass, target: []string{"spec", "secretObjects"}, item: "secretName"},
	{kind: schema.GroupKind{Group: "secrets.infisical.com", Kind: "InfisicalSecret"}, target: []string{"spec", "managedSecretReference", "secretName"}},
	{kind: schema.GroupKind{Group: strimziGroup, Kind: "KafkaUser"}},
	{kind: schema.GroupKind{Group: strimziGroup, Kind: "Kafka"}, names: []string{"{}-cluster-ca-cert", "{}-clients-ca-cert"}},
	{kind: schema.GroupKind{Group: "postgresql.cnpg.io", Kind: "Cluster"}, names: []string{"{}-app", "{}-superuser", "{}-ca", "{}-server", "{}-replication"}},
	{kind: schema.GroupKind{Group: "rabbitmq.com", Kind: "RabbitmqCluster"}, names: []string{"{}-default-user"}},
	{kind: schema.GroupKind{Group: "rabbitmq.com", Kind: "User"}, names: []string{"{}-user-credentials"}},
	{kind: schema.GroupKind{Group: "elasticsearch.k8s.elastic.co", Kind: "Elasticsearch"}, names: []string{"{}-es-elastic-user", "{}-es-http-certs-public"}},
	{kind: bucketClaim, configMaps: true},
	{kind: schema.GroupKind{Group: "services.k8s.aws", Kind: "FieldExport"}, target: []string{"spec", "to", "name"}, configMaps: true},
	{kind: schema.GroupKind{Group: "k8s.mariadb.com", Kind: "Connection"}, target: []string{"spec", "secretName"}},
	{kind: schema.GroupKind{Group: "isindir.github.com", Kind: "SopsSecret"}, target: []string{"spec", "secretTemplates"}, item: "name"},
	{kind: schema.GroupKind{Group: "mongodbcommunity.mongodb.com", Kind: "MongoDBCommunity"}, names: []string{"{}-*-*"}},
	{kind: schema.GroupKind{Group: "acid.zalan.do", Kind: "postgresql"}, names: []string{"*.{}.credentials.postgresql.acid.zalan.do"}},
	{kind: schema.GroupKind{Group: "postgres-operator.crunchydata.com", Kind: "PostgresCluster"}, names: []string{"{}-pguser-*"}},
}

// bundle is how trust-manager creates a ConfigMap of its name in all namespaces that it selects:
// cert-manager.io/docs/trust/trust-manager.
var bundle = schema.GroupKind{Group: "trust.cert-manager.io", Kind: "Bundle"}

const strimziGroup = "kafka.strimzi.io"

// makes reports whether an object creates something of this name.
func (m *maker) makes(u *unstructured.Unstructured, name string) bool {
	if m.item != "" {
		objects, _, _ := unstructured.NestedSlice(u.Object, m.target...)
		return slices.ContainsFunc(objects, func(o any) bool { fields, _ := o.(map[string]any); return fields[m.item] == name })
	}
	if len(m.names) > 0 {
		return slices.ContainsFunc(m.names, func(pattern string) bool {
			matched, err := path.Match(strings.ReplaceAll(pattern, "{}", u.GetName()), name)
			return matched && err == nil
		})
	}
	target, _, _ := unstructured.NestedString(u.Object, m.target...)
	return cmp.Or(target, u.GetName()) == name
}

// missingSecret returns the objects that create a Secret of this name, or else the Secret: a rule of Bongsu
// may copy it to other namespaces.
func (q *inquiry) missingSecret(namespace, name string) []reference {
	all := q.makersOf(kindSecret, namespace, name)
	if len(all) == 0 {
		all = q.appliersOf(kindSecret, namespace, name)
	}
	if len(all) == 0 && q.logs != nil { // an overview reads no Secrets
		all = append(all, reference{kind: secretKind, namespace: namespace, name: name})
	}
	return all
}

// makersOf returns the objects that create a Secret or a ConfigMap of this name.
func (q *inquiry) makersOf(kind, namespace, name string) []reference {
	all := slices.Clone(makers)
	if kind == kindSecret {
		all = append(all, q.claimTypes()...)
	}
	var found []reference
	for _, m := range all {
		if kind == kindConfigMap && !m.configMaps {
			continue
		}
		for _, o := range q.listIn(namespace, m.kind) {
			if u, ok := o.(*unstructured.Unstructured); ok && m.makes(u, name) {
				found = append(found, newReference(m.kind, namespace, o.GetName(), ", which creates it,"))
			}
		}
	}
	return found
}

// claimTypes returns the claims of Crossplane, which write a Secret with the details of a connection:
// docs.crossplane.io, CompositeResourceDefinition.
func (q *inquiry) claimTypes() []maker {
	var all []maker
	for _, o := range q.listIn("", schema.GroupKind{Group: "apiextensions.crossplane.io", Kind: "CompositeResourceDefinition"}) {
		group, _, _ := unstructured.NestedString(contentOf(o), "spec", "group")
		kind, _, _ := unstructured.NestedString(contentOf(o), "spec", "claimNames", "kind")
		if kind != "" && len(all) < maxReferences {
			all = append(all, maker{kind: schema.GroupKind{Group: group, Kind: kind}, target: []string{"spec", "writeConnectionSecretToRef", "name"}})
		}
	}
	return all
}

// missingConfigMap returns the objects that create a ConfigMap of this name.
func (q *inquiry) missingConfigMap(namespace, name string) []reference {
	all := q.makersOf(kindConfigMap, namespace, name)
	for _, o := range q.listIn("", bundle) {
		if o.GetName() == name && !q.leavesOut(o, namespace) {
			all = append(all, newReference(bundle, "", name, ", which creates it,"))
		}
	}
	return append(all, q.appliersOf(kindConfigMap, namespace, name)...)
}

// leavesOut reports whether a Bundle is not for a namespace, and says so in the cause.
func (q *inquiry) leavesOut(o client.Object, namespace string) bool {
	of, found, _ := unstructured.NestedMap(contentOf(o), "spec", "target", "namespaceSelector")
	selector := &metav1.LabelSelector{}
	if !found || runtime.DefaultUnstructuredConverter.FromUnstructured(of, selector) != nil {
		return false
	}
	n := &corev1.Namespace{}
	if err := q.objects.Get(q.ctx, client.ObjectKey{Name: namespace}, n); err != nil {
		q.unread("namespace "+namespace, "get it", err)
		return false
	}
	if selects(selector, n.Labels) {
		return false
	}
	q.explanation.Cause.add(fmt.Sprintf("Bundle %q of trust-manager writes it, but only to namespaces with the labels %s", o.GetName(), metav1.FormatLabelSelector(selector)),
		"ask the cluster's administrator to add the labels to the namespace, or to correct the Bundle")
	return true
}

// certificateMakers returns what should create the certificates of an Ingress that do not exist.
func (q *inquiry) certificateMakers() []reference {
	i := q.object.(*networkingv1.Ingress) //nolint:forcetypeassert // the edge is for Ingresses
	var all []reference
	for _, c := range q.workload.Known {
		if c.Object.Kind == kindSecret && len(all) < maxReferences {
			all = append(all, q.makersOf(kindSecret, i.Namespace, c.Object.Name)...)
		}
	}
	return all
}

// missingInSpec adds a cause for each Secret that the spec of an object names and that does not exist. It is for
// objects on a walk whose status says nothing: their controllers report it only for what uses the object.
func (q *inquiry) missingInSpec(u *unstructured.Unstructured) {
	if u.GroupVersionKind().GroupKind() == providerClass || len(q.walk.from) < 2 || q.logs == nil || q.explanation.State != Running && q.explanation.State != Unknown || len(q.explanation.Conditions)+len(statesOf(u)) > 0 {
		return
	}
	read := 0
	eachReference(u.Object["spec"], func(field string, ref map[string]any) {
		name, _ := ref["name"].(string)
		namespace, _ := ref["namespace"].(string)
		namespace = cmp.Or(namespace, q.namespace)
		if name == "" || namespace == "" || read >= maxReferences || kindIn(field, ref, "") != secretKind {
			return
		}
		read++
		if q.lacksSecret(namespace, name) {
			q.explanation.State = Waiting
			q.workload.Known = append(q.workload.Known, diagnosis.Cause{
				Reason: diagnosis.ReasonSecretNotFound, Object: diagnosis.Object{Kind: u.GetKind(), Name: u.GetName()},
				Message: fmt.Sprintf("Secret %q, which its spec names, does not exist", name), Advice: "create the Secret, or correct its name",
			})
			q.next = append(q.next, q.missingSecret(namespace, name)...)
		}
	})
}

// providerClass is how the Secrets Store CSI driver creates Secrets, while a pod mounts it:
// secrets-store-csi-driver.sigs.k8s.io, spec.secretObjects.
var providerClass = schema.GroupKind{Group: "secrets-store.csi.x-k8s.io", Kind: "SecretProviderClass"}

// mountedBy returns the pods that mount a SecretProviderClass and do not run.
func (q *inquiry) mountedBy() []reference {
	var all []reference
	for _, o := range q.listOf(podKind) {
		p, ok := o.(*corev1.Pod)
		if !ok || podIsReady(p) || len(all) >= maxReferences {
			continue
		}
		if slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.CSI != nil && v.CSI.VolumeAttributes["secretProviderClass"] == q.name
		}) {
			all = append(all, newReference(podKind, q.namespace, p.Name, ", which mounts it,"))
		}
	}
	return all
}
