package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// textLead finds the objects that a text is about. The groups of the expression are what to needs.
type textLead struct {
	text *regexp.Regexp
	to   func(q *inquiry, m []string) []reference
}

// ofMessages are leads in what an object says about its problem.
var ofMessages = []textLead{
	// crossplane.io, Composition
	{regexp.MustCompile(`cannot run Function "([a-z0-9.-]+)"`), func(_ *inquiry, m []string) []reference {
		return []reference{newReference(crossplaneFunction, "", m[1], ", which it needs,")}
	}},
	// cloudnative-pg.io/documentation, CNPG-I
	{regexp.MustCompile(`(?i)unknown plugin: '([\w.-]+)'`), (*inquiry).plugin},
	// kubernetes/plugin/pkg/admission/namespace/lifecycle
	{regexp.MustCompile(`namespace ([a-z0-9-]+) because it is being terminated`), func(_ *inquiry, m []string) []reference {
		return []reference{newReference(schema.GroupKind{Kind: kindNamespace}, "", m[1], ", which is being deleted,")}
	}},
	// apimachinery/pkg/api/errors, for an API that a Service serves
	{regexp.MustCompile(`unable to handle the request \([a-z]+ [^ .)]+\.([a-z0-9.-]+)\)`), (*inquiry).servers},
	// aws-load-balancer-controller: the gate has the name of the object
	{regexp.MustCompile(`readiness gate "target-health\.elbv2\.k8s\.aws/([a-z0-9.-]+)"`), func(q *inquiry, m []string) []reference {
		return []reference{newReference(schema.GroupKind{Group: "elbv2.k8s.aws", Kind: "TargetGroupBinding"}, q.namespace, m[1], ", which sets the readiness gate,")}
	}},
	// knative.dev/serving, and others that read an image before they create a pod
	{regexp.MustCompile(`(?i)image .*\bunauthorized\b`), (*inquiry).accountSecrets},
	// an init container that waits for another workload
	{regexp.MustCompile(`container "wait-for-([a-z0-9.-]+)"`), (*inquiry).awaitedJob},
}

// ofDiagnosis are leads in the sentences of pkg/diagnosis. A test compares both.
var ofDiagnosis = []textLead{
	// a pod that waits for a device, or for an address of its network
	{regexp.MustCompile(`no node offers ([a-z0-9.-]+)/([A-Za-z0-9_.-]+)`), (*inquiry).devices},
	{regexp.MustCompile(`network has no free IP address`), (*inquiry).addressRange},
	// a pod that cannot be created
	{regexp.MustCompile(`service account "([a-z0-9.-]+)" does not exist`), func(q *inquiry, m []string) []reference {
		return q.appliersOf(rbacv1.ServiceAccountKind, q.namespace, m[1])
	}},
	{regexp.MustCompile(`admission policy "([a-z0-9.-]+)" cannot be evaluated.*no params found`), (*inquiry).policyParams},
	// an Event of a kubelet
	{regexp.MustCompile(`the node cannot read the Secret "([a-z0-9.-]+)" in imagePullSecrets`), (*inquiry).pullSecret},
}

// ofLogs are leads in the lines of a log.
var ofLogs = []textLead{
	// scripts of init containers
	{regexp.MustCompile(`(?i)\bwaiting for (?:the )?job[ /"']+([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)`), (*inquiry).awaitedJob},
	// kubectl/pkg/drain
	{regexp.MustCompile(`error when evicting pods/"([a-z0-9.-]+)" -n "([a-z0-9-]+)".*disruption budget`), (*inquiry).budgetsOf},
	// a kubelet without a certificate for its server
	{regexp.MustCompile(`:10250/.*remote error: tls: internal error`), (*inquiry).servingCertificates},
	// istio.io/docs/ops/common-problems/security-issues
	{regexp.MustCompile(`RBAC: access denied`), (*inquiry).deniedByIstio},
	// what servers and their clients say of a wrong password
	{regexp.MustCompile(`(?i)(?:password )?authentication failed|invalid credentials|bad credentials|access denied for user|invalid (?:username|user) or password|wrong password|\bSASL authentication`), (*inquiry).usedSecrets},
	// github.com/kubernetes/dns, node-cache
	{regexp.MustCompile(`lookup \S+ on 169\.254\.\d+\.\d+:53: .*(?:refused|timeout)`), func(q *inquiry, _ []string) []reference {
		return q.failingWorkloads(", which resolves names on its node,", func(o client.Object, _ *corev1.PodSpec) bool {
			return o.GetName() == "node-local-dns" || o.GetName() == "nodelocaldns"
		})
	}},
}

// textual returns the objects that the message of the target, or the end of its log, is about.
func (q *inquiry) textual() []reference {
	all := slices.Concat(leadsIn(q, ofMessages, q.allText()), leadsIn(q, ofDiagnosis, q.allText()))
	if q.explanation.Log != nil {
		for _, line := range q.explanation.Log.whole {
			all = append(all, leadsIn(q, ofLogs, line)...)
		}
	}
	var distinct []reference
	for _, r := range all {
		if !slices.Contains(distinct, r) {
			distinct = append(distinct, r)
		}
	}
	return distinct[:min(len(distinct), maxReferences)]
}

func leadsIn(q *inquiry, leads []textLead, text string) (all []reference) {
	for _, l := range leads {
		for _, m := range l.text.FindAllStringSubmatch(text, maxReferences) {
			all = append(all, l.to(q, m)...)
		}
	}
	return all
}

// pullSecret adds to the cause that a Secret for images does not exist, and returns what should create it. A kubelet says
// only that it cannot read it.
func (q *inquiry) pullSecret(m []string) []reference {
	if q.logs == nil || !q.lacksSecret(q.namespace, m[1]) { // an overview reads no Secrets of pods
		return nil
	}
	q.explanation.Cause.add("the Secret does not exist", "create the Secret, or correct its name in imagePullSecrets of the pod or of its ServiceAccount")
	return q.missingSecret(q.namespace, m[1])
}

// lacksSecret reports whether a Secret does not exist.
func (q *inquiry) lacksSecret(namespace, name string) bool {
	secret := metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kindSecret))
	err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
	if err != nil && !apierrors.IsNotFound(err) {
		q.unread("secrets", "get them", err)
	}
	return apierrors.IsNotFound(err)
}

// accountSecrets adds to the cause which Secret for images does not exist, of those of the ServiceAccount in the spec.
func (q *inquiry) accountSecrets([]string) []reference {
	u, ok := q.object.(*unstructured.Unstructured)
	if !ok || q.logs == nil {
		return nil
	}
	name, _, _ := unstructured.NestedString(u.Object, "spec", "serviceAccountName")
	account := &corev1.ServiceAccount{}
	err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: cmp.Or(name, "default")}, account)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			q.unread("serviceaccounts", "get them", err)
		}
		return nil
	}
	var all []reference
	for _, s := range account.ImagePullSecrets[:min(len(account.ImagePullSecrets), maxReferences)] {
		if q.lacksSecret(q.namespace, s.Name) {
			q.explanation.Cause.add(fmt.Sprintf("Secret %q in imagePullSecrets of ServiceAccount %q does not exist", s.Name, account.Name), "create the Secret, or correct its name in the ServiceAccount")
			all = append(all, q.missingSecret(q.namespace, s.Name)...)
		}
	}
	return all
}

// usedSecrets returns what should keep the Secrets of the pod up to date.
func (q *inquiry) usedSecrets([]string) []reference {
	p := q.loggedPod()
	if p == nil {
		return nil
	}
	var all []reference
	for _, o := range slices.Concat(inVariables(p), inVolumes(p)) {
		if o.Kind != kindSecret {
			continue
		}
		for _, r := range q.makersOf(kindSecret, q.namespace, o.Name) {
			r.relation = fmt.Sprintf(", which writes Secret %q,", o.Name)
			all = append(all, r)
		}
	}
	return all
}

// awaitedJob returns the Jobs of a name, or whose name ends with it.
func (q *inquiry) awaitedJob(m []string) []reference {
	var all []reference
	for _, o := range q.listOf(jobKind) {
		if o.GetName() == m[1] || strings.HasSuffix(o.GetName(), "-"+m[1]) {
			all = append(all, newReference(jobKind, q.namespace, o.GetName(), ", for which it waits,"))
		}
	}
	return all
}

// plugin returns the Service of a plugin of CloudNativePG.
func (q *inquiry) plugin(m []string) []reference {
	var all []reference
	for _, o := range q.listIn("", serviceKind) {
		if o.GetLabels()["cnpg.io/pluginName"] == m[1] {
			all = append(all, newReference(serviceKind, o.GetNamespace(), o.GetName(), ", which is the plugin,").needed())
		}
	}
	return all
}

// servers returns the APIServices of a group.
func (q *inquiry) servers(m []string) []reference {
	var all []reference
	for _, o := range q.listIn("", apiService) {
		if group, _, _ := unstructured.NestedString(contentOf(o), "spec", "group"); group == m[1] {
			all = append(all, newReference(apiService, "", o.GetName(), ", which serves it,"))
		}
	}
	return all
}

// budgetsOf returns the PodDisruptionBudgets of a pod that may not be evicted.
func (q *inquiry) budgetsOf(m []string) []reference {
	var all []reference
	for _, o := range q.listIn(m[2], podKind) {
		if o.GetName() != m[1] {
			continue
		}
		for _, b := range q.listIn(m[2], budgetKind) {
			budget, ok := b.(*policyv1.PodDisruptionBudget)
			if ok && budget.Spec.Selector != nil && selects(budget.Spec.Selector, o.GetLabels()) {
				all = append(all, newReference(budgetKind, m[2], b.GetName(), ", which protects it,"))
			}
		}
	}
	return all
}

// servingCertificates adds to the cause which requests of kubelets for a certificate wait for an approval. It leads
// nowhere: nothing is wrong with them but this.
func (q *inquiry) servingCertificates([]string) []reference {
	var names []string
	for _, o := range q.listIn("", signingRequest) {
		signer, _, _ := unstructured.NestedString(contentOf(o), "spec", "signerName")
		if signer == certificatesv1.KubeletServingSignerName && len(conditionsIn(contentOf(o)["status"], "")) == 0 {
			names = append(names, o.GetName())
		}
	}
	if len(names) > 0 {
		q.explanation.Cause.add(fmt.Sprintf("by its log, kubelets have no certificate: %s for them wait for an approval, such as CertificateSigningRequest %s", plural(len(names), "request"), names[0]),
			"ask the cluster's administrator to check and approve them (kubectl certificate approve), or to run a controller that does")
	}
	return nil
}

// policyParams adds to the cause which object a binding of an admission policy names as its parameters. It leads nowhere:
// the API server says that there is none. It does not say for which one of several bindings.
func (q *inquiry) policyParams(m []string) []reference {
	var of []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	for _, o := range q.listIn("", policyBinding) {
		b, ok := o.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
		if ok && b.Spec.PolicyName == m[1] && b.Spec.ParamRef != nil && ptr.Deref(b.Spec.ParamRef.ParameterNotFoundAction, "") == admissionregistrationv1.DenyAction {
			of = append(of, b)
		}
	}
	if len(of) == 1 {
		ref := of[0].Spec.ParamRef
		detail := fmt.Sprintf("ValidatingAdmissionPolicyBinding %q names the parameters %q", of[0].Name, ref.Name)
		if ref.Namespace != "" { // otherwise, they can be of the cluster
			detail += fmt.Sprintf(" of namespace %q", ref.Namespace)
		}
		q.explanation.Cause.add(detail, "")
	}
	return nil
}

// policyBinding says to which objects a ValidatingAdmissionPolicy applies, with which parameters.
var policyBinding = schema.GroupKind{Group: admissionregistrationv1.GroupName, Kind: "ValidatingAdmissionPolicyBinding"}
