package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// patience is long, because the machine may be busy.
const patience = time.Minute

// kindsOf contains the resources of group bongsu.io that each feature may request.
var kindsOf = map[feature.Feature][]string{
	feature.Alarm:       {"alarms", "clusteralarms", "alarmreceivers", "clusteralarmreceivers"},
	feature.SecretShare: {"secretshares", "clustersecretshares", "secretsharegrants"},
	feature.Jupyter:     {"jupyters"},
	feature.AppService:  {"appservices"},
}

func TestEachFeatureWorksWithItsOwnPermissionsAndNeedsNoOthers(t *testing.T) {
	for chosen, works := range map[feature.Feature]func(*work){
		feature.Alarm: (*work).alarms, feature.SecretShare: (*work).shares,
		feature.Jupyter: (*work).notebooks, feature.AppService: (*work).apps,
	} {
		t.Run(string(chosen), func(t *testing.T) {
			c := cluster.Shared(t)
			features := []feature.Feature{chosen}
			if chosen == feature.Alarm {
				features = append(features, feature.AlarmSecrets)
			}
			o, user := c.StartOperatorFor(t, features)
			works(&work{Cluster: c, WithT: NewWithT(t), t: t, operator: o, namespace: c.Namespace(t, nil)})
			requests := audit.Requests(t, c.AuditLog(), user)
			g := NewWithT(t)
			g.Expect(audit.Denied(requests)).To(BeEmpty())
			g.Expect(missing(t, o.Metrics)).To(BeEmpty())
			g.Expect(requested(requests)).To(HaveEach(BeElementOf(kindsOf[chosen])))
		})
	}
}

// A namespace's administrator can let the operator read the Secrets of receivers there, if it may not
// read all Secrets.
func TestWithoutAllSecretsAReceiverNeedsARoleInItsNamespace(t *testing.T) {
	c := cluster.Shared(t)
	o, user := c.StartOperatorFor(t, []feature.Feature{feature.Alarm})
	w := &work{Cluster: c, WithT: NewWithT(t), t: t, operator: o, namespace: c.Namespace(t, nil)}
	w.secret("hook", "url", "https://hooks.slack.com/services/a/b/c")
	w.manifest("AlarmReceiver", "slack", "slack: {webhookURLSecretRef: {name: hook}}")
	receiver := &v1alpha1.AlarmReceiver{}
	ready := func() *metav1.Condition {
		w.Expect(c.Client.Get(t.Context(), w.key("slack"), receiver)).To(Succeed())
		return meta.FindStatusCondition(receiver.Status.Conditions, v1alpha1.ConditionReady)
	}
	w.Eventually(ready).WithTimeout(patience).Should(HaveValue(And(
		HaveField("Reason", v1alpha1.ReasonSecretForbidden),
		HaveField("Message", ContainSubstring("the operator may not read Secret "+w.namespace+"/hook: ask an administrator of namespace "+w.namespace)))))
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "bongsu-receiver-secrets"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bongsu-receiver-secrets"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	for i := 0; i < 60 && ready().Status != metav1.ConditionTrue; i++ { // the API server can learn of the role late
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"try":"%d"}}}`, i)
		w.Expect(c.Client.Patch(t.Context(), receiver, client.RawPatch(apitypes.MergePatchType, []byte(patch)))).To(Succeed())
		time.Sleep(time.Second)
	}
	w.Expect(ready()).To(HaveValue(HaveField("Status", metav1.ConditionTrue)))
	for _, r := range audit.Requests(t, c.AuditLog(), user) {
		if r.Resource == "secrets" {
			w.Expect(r.Verb).To(Equal("get"))
		}
	}
}

// requested returns the requested resources of group bongsu.io.
func requested(requests []audit.Request) (resources []string) {
	for _, r := range requests {
		if r.Group == v1alpha1.Group && !slices.Contains(resources, r.Resource) {
			resources = append(resources, r.Resource)
		}
	}
	return resources
}

// work uses one feature.
type work struct {
	*cluster.Cluster
	*WithT
	t         *testing.T
	operator  *cluster.Operator
	namespace string
}

func (w *work) create(o client.Object) {
	w.t.Helper()
	w.Expect(w.Client.Create(w.t.Context(), o)).To(Succeed())
}

func (w *work) manifest(kind, name, spec string) {
	w.t.Helper()
	namespace := w.namespace
	if strings.HasPrefix(kind, "Cluster") {
		namespace = ""
	}
	w.create(cluster.Manifest(w.t, kind, namespace, name, spec))
}

func (w *work) secret(name, key, value string) {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, StringData: map[string]string{key: value},
	})
}

// key returns the key of an object in the namespace.
func (w *work) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

// warn emits a Warning about an object.
func (w *work) warn(o client.Object, kind, reason, note string) {
	w.t.Helper()
	w.create(&eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "e-"},
		EventTime:  metav1.NowMicro(), ReportingController: "controller", ReportingInstance: "x", Action: "Create",
		Type: corev1.EventTypeWarning, Reason: reason, Note: note,
		Regarding: corev1.ObjectReference{
			APIVersion: "apps/v1", Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		},
	})
}

func (w *work) alarms() {
	w.secret("hook", "url", "https://hooks.slack.com/services/a/b/c")
	w.manifest("AlarmReceiver", "slack", "slack: {webhookURLSecretRef: {name: hook}}")
	w.ExpectReady(w.t, &v1alpha1.AlarmReceiver{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "slack"}})
	w.manifest("ClusterAlarmReceiver", "log", "log: {}")
	w.manifest("ClusterAlarm", "all", "{match: [{reasons: [Alone], objectSelector: {matchLabels: {app: web}}}], receivers: [{name: log}]}")
	w.ExpectReady(w.t, &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: "all"}})
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web", Labels: map[string]string{"app": "web"}}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Labels}
	set.Spec.Template.Labels = set.Labels
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}}
	w.create(set)
	w.warn(set, "ReplicaSet", "Alone", "observed by alarms")
	w.Eventually(w.operator.Out.String).WithTimeout(patience).Should(ContainSubstring("observed by alarms"))
}

func (w *work) shares() {
	w.secret("database", "password", "x")
	target := w.Namespace(w.t, nil)
	w.manifest("ClusterSecretShare", "alone", "{source: {namespace: "+w.namespace+", names: [database]}, targets: {names: ["+target+"]}}")
	w.Eventually(func() error {
		return w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: target, Name: "database"}, &corev1.Secret{})
	}).WithTimeout(patience).Should(Succeed())
	w.Expect(w.Client.Delete(w.t.Context(), cluster.Manifest(w.t, "ClusterSecretShare", "", "alone", ""))).To(Succeed())
	w.Eventually(func() error {
		return w.Client.Get(w.t.Context(), client.ObjectKey{Name: "alone"}, &v1alpha1.ClusterSecretShare{})
	}).WithTimeout(patience).ShouldNot(Succeed())
}

const quota = `pods "it-0" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4`

// No pipeline runs: the notebook gets the Event from an event source without one.
func (w *work) notebooks() {
	w.manifest(v1alpha1.KindJupyter, "it", "{}")
	set := &appsv1.StatefulSet{}
	w.Eventually(func() error { return w.Client.Get(w.t.Context(), w.key("it"), set) }).WithTimeout(patience).Should(Succeed())
	w.reason(&v1alpha1.Jupyter{}, Not(BeEmpty()))
	w.warn(set, "StatefulSet", "FailedCreate", "create Pod it-0 in StatefulSet it failed error: "+quota)
	w.reason(&v1alpha1.Jupyter{}, Equal(diagnosis.ReasonQuotaExceeded))
}

func (w *work) apps() {
	w.manifest(v1alpha1.KindAppService, "it", "size: 1")
	deployment := &appsv1.Deployment{}
	w.Eventually(func() error { return w.Client.Get(w.t.Context(), w.key("it"), deployment) }).WithTimeout(patience).Should(Succeed())
	w.reason(&v1alpha1.AppService{}, Not(BeEmpty()))
	w.warn(deployment, "Deployment", "FailedCreate", "Error creating: "+quota)
	w.reason(&v1alpha1.AppService{}, Equal(diagnosis.ReasonQuotaExceeded))
}

// reason waits until the Ready condition of the object "it" has a reason.
func (w *work) reason(o client.Object, want types.GomegaMatcher) {
	w.t.Helper()
	w.Eventually(func() string {
		if err := w.Client.Get(w.t.Context(), w.key("it"), o); err != nil {
			return ""
		}
		conditions := conditionsOf(o)
		if ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready != nil {
			return ready.Reason
		}
		return ""
	}).WithTimeout(patience).Should(want)
}

func conditionsOf(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *v1alpha1.Jupyter:
		return o.Status.Conditions
	case *v1alpha1.AppService:
		return o.Status.Conditions
	default:
		return nil
	}
}
