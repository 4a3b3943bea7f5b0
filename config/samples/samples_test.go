package samples_test

import (
	"context"
	"os"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config/samples"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// The tests of internal/cli/demo check that each alarm fires. Those of test/cookbook check the
// alarms on states.
func TestSampleAlarmsAreReady(t *testing.T) {
	c, _ := cluster.SharedOperator(t)
	c.AllowChanges(t, "bongsu-changes-builtin")
	objects, err := samples.Alarms()
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	log, err := samples.ReceiverOf("log")
	g.Expect(err).NotTo(HaveOccurred())
	apply(t, c, append(log, objects...))

	for _, o := range objects {
		key := metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}
		switch o.GetKind() {
		case "Alarm":
			c.ExpectReady(t, &v1alpha1.Alarm{ObjectMeta: key})
		case "ClusterAlarm":
			c.ExpectReady(t, &v1alpha1.ClusterAlarm{ObjectMeta: key})
		}
	}
}

func TestEachSampleReceiverDelivers(t *testing.T) {
	c, operator := cluster.SharedOperator(t)
	alarm := cluster.Manifest(t, "ClusterAlarm", "", "all", "match: [{reasons: [Tested]}]\nreceivers: [{name: "+samples.Receiver+"}]")
	apply(t, c, []*unstructured.Unstructured{alarm})
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), alarm) })
	server := sink.New(t)

	types, err := samples.ReceiverTypes()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, name := range types {
		if slices.Contains(deliveredElsewhere, name) {
			continue
		}
		received := func() string { return bodies(server) }
		if name == "log" {
			received = operator.Out.String
		}
		t.Run(name, func(t *testing.T) {
			objects, err := samples.ReceiverOf(name)
			g := NewWithT(t)
			g.Expect(err).NotTo(HaveOccurred())
			_ = c.Client.Delete(t.Context(), cluster.Manifest(t, "ClusterAlarmReceiver", "", samples.Receiver, ""))
			apply(t, c, redirect(t, objects, server.URL()))
			c.ExpectReady(t, &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: samples.Receiver}})
			c.ExpectReady(t, &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: "all"}})
			emit(t, c, name)
			g.Eventually(received).Should(ContainSubstring("tested " + name))
		})
	}
}

func apply(t *testing.T, c *cluster.Cluster, objects []*unstructured.Unstructured) {
	t.Helper()
	if err := install.Apply(t.Context(), c.Client, objects...); err != nil {
		t.Fatal(err)
	}
}

// deliveredElsewhere are the samples whose packages check that they deliver, with a mail server and
// a fake Slack API.
var deliveredElsewhere = []string{"email", "slack-bot", "slack-channels"}

func TestTheSampleReceiversEmailAndSlackBotsAreReady(t *testing.T) {
	c, _ := cluster.SharedOperator(t)
	for _, name := range deliveredElsewhere {
		objects, err := samples.ReceiverOf(name)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		_ = c.Client.Delete(t.Context(), cluster.Manifest(t, "ClusterAlarmReceiver", "", samples.Receiver, ""))
		apply(t, c, objects)
		c.ExpectReady(t, &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: samples.Receiver}})
	}
}

// redirect changes the URL, or the URL of a vendor's API. Users have to change the same.
func redirect(t *testing.T, objects []*unstructured.Unstructured, url string) []*unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		for _, path := range [][]string{{"spec", "webhook", "url"}, {"spec", "alertmanager", "url"}, {"stringData", "url"}} {
			if _, found, _ := unstructured.NestedString(o.Object, path...); found {
				set(t, o, url, path...)
			}
		}
		for _, sink := range []string{"telegram", "pagerDuty"} {
			if _, found, _ := unstructured.NestedMap(o.Object, "spec", sink); found {
				set(t, o, url, "spec", sink, "apiURL")
			}
		}
	}
	return objects
}

func set(t *testing.T, o *unstructured.Unstructured, value string, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

func emit(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tested-" + name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: metav1.NamespaceDefault, Name: "web-0"},
		Type:           corev1.EventTypeNormal, Reason: "Tested", Message: "tested " + name, Count: 1,
	}
	if err := c.Client.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
}

func bodies(s *sink.Sink) string {
	var all string
	for _, r := range s.Accepted() {
		all += string(r.Body)
	}
	return all
}

func TestEachSampleShareWritesItsCopies(t *testing.T) {
	c, _ := cluster.SharedOperator(t)
	g := NewWithT(t)
	objects, err := samples.Shares()
	g.Expect(err).NotTo(HaveOccurred())
	apply(t, c, objects)
	shop, sandbox := c.Namespace(t, map[string]string{"team": "shop"}), "shop-sandbox"
	g.Expect(c.Client.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: sandbox, Labels: map[string]string{"team": "shop"}},
	})).To(Succeed())

	for name, tc := range map[string]struct {
		source    corev1.Secret
		rule      shareObject
		keys      []string
		goes, not string
	}{
		"registry-credentials": {
			source: corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "registry"},
				Type:       corev1.SecretTypeDockerConfigJson, StringData: map[string]string{corev1.DockerConfigJsonKey: "{}"},
			},
			rule: &v1alpha1.ClusterSecretShare{}, keys: []string{corev1.DockerConfigJsonKey}, goes: shop, not: sandbox,
		},
		"ca-certificate": {
			source: corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "company-ca"},
				StringData: map[string]string{"tls.crt": "certificate", "tls.key": "key"},
			},
			rule: &v1alpha1.ClusterSecretShare{}, keys: []string{"ca.crt"}, goes: sandbox, not: "kube-system",
		},
		"database": {
			source: corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "orders", Name: "database"},
				StringData: map[string]string{"user": "orders", "password": "correct-horse"},
			},
			rule: &v1alpha1.SecretShare{ObjectMeta: metav1.ObjectMeta{Namespace: "orders"}},
			keys: []string{"password", "user"}, goes: "reports", not: shop,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(c.Client.Create(t.Context(), &tc.source)).To(Succeed())
			g.Eventually(keysIn(t, c, tc.goes, tc.source.Name)).Should(Equal(tc.keys))
			tc.rule.SetName(name)
			g.Eventually(func() bool { return isReady(t, c, tc.rule) }).Should(BeTrue(), "the share is not ready")
			g.Expect(keysIn(t, c, tc.not, tc.source.Name)()).To(BeNil())
		})
	}
}

// shareObject is a SecretShare or a ClusterSecretShare.
type shareObject interface {
	client.Object
	ShareStatus() *v1alpha1.SecretShareStatus
}

func isReady(t *testing.T, c *cluster.Cluster, rule shareObject) bool {
	t.Helper()
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
		return false
	}
	return slices.ContainsFunc(rule.ShareStatus().Conditions, func(condition metav1.Condition) bool {
		return condition.Type == v1alpha1.ConditionReady && condition.Status == metav1.ConditionTrue
	})
}

// keysIn returns a function that returns the keys of a Secret, or nil if it does not exist.
func keysIn(t *testing.T, c *cluster.Cluster, namespace, name string) func() []string {
	t.Helper()
	return func() []string {
		var secret corev1.Secret
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &secret); err != nil {
			return nil
		}
		var keys []string
		for key := range secret.Data {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		return keys
	}
}

func TestTheAPIServerAcceptsEachSampleNotebookAndItsChildren(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	objects, err := samples.Jupyters()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	for _, o := range objects {
		t.Run(o.GetName(), func(t *testing.T) {
			g := NewWithT(t)
			o.SetNamespace(namespace)
			g.Expect(strict.Create(t.Context(), o, client.DryRunAll)).To(Succeed())
			j := &v1alpha1.Jupyter{}
			g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, j)).To(Succeed())
			pod, refused := workload.NotebookPod(j, "default")
			g.Expect(refused).To(BeEmpty())

			children := []client.Object{workload.NotebookStatefulSet(j, pod), workload.NotebookService(j), workload.NotebookToken(j, "token")}
			if claim := workload.NotebookClaim(j); claim != nil {
				children = append(children, claim)
			}
			if ingress := workload.NotebookIngress(j); ingress != nil {
				children = append(children, ingress)
			}
			for _, child := range children {
				g.Expect(c.Client.Create(t.Context(), child, client.DryRunAll)).To(Succeed())
			}
		})
	}
}

func TestTheAPIServerAcceptsEachSampleAppAndItsChildren(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	objects, err := samples.AppServices()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(objects).NotTo(BeEmpty())
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	for _, o := range objects {
		t.Run(o.GetName(), func(t *testing.T) {
			g := NewWithT(t)
			o.SetNamespace(namespace)
			g.Expect(strict.Create(t.Context(), o, client.DryRunAll)).To(Succeed())
			a := &v1alpha1.AppService{}
			g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, a)).To(Succeed())
			pod, refused := workload.AppPod(a, "default")
			g.Expect(refused).To(BeEmpty())

			children := []client.Object{workload.AppDeployment(a, pod)}
			if service := workload.AppNetworkService(a); service != nil {
				children = append(children, service)
			}
			if a.Spec.Backup != nil && a.Spec.Backup.JobTemplate != nil {
				job, refused := workload.BackupJob(a)
				g.Expect(refused).To(BeEmpty())
				children = append(children, job)
			}
			for _, child := range children {
				g.Expect(c.Client.Create(t.Context(), child, client.DryRunAll)).To(Succeed())
			}
		})
	}
}
