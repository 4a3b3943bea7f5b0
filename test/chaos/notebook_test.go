package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

const (
	// failingPerReason is the number of notebooks that fail for each reason.
	failingPerReason = 50
	// startedNotebooks is the number of notebooks that start during kills.
	startedNotebooks = 100
	// upgraded is the number of notebooks that run during an upgrade.
	upgraded = 20
	// quiet is the time without writes after which the operator has finished its work.
	quiet = 10 * time.Second
)

// notebooks are Jupyters in a simulation.
type notebooks struct{ *simulation }

func newNotebooks(t *testing.T) *notebooks {
	t.Helper()
	return &notebooks{newSimulation(t)}
}

func nameOf(i int) string { return fmt.Sprintf("nb-%03d", i) }

// createNotebook creates a Jupyter, with a spec in YAML.
func (n *notebooks) createNotebook(namespace string, i int, spec string) error {
	return n.Client.Create(n.t.Context(), cluster.Manifest(n.t, v1alpha1.KindJupyter, namespace, nameOf(i), spec))
}

// all returns the Jupyters of a namespace, or of all namespaces if it is empty.
func (n *notebooks) all(namespace string) []v1alpha1.Jupyter {
	n.t.Helper()
	var list v1alpha1.JupyterList
	if err := n.Client.List(n.t.Context(), &list, client.InNamespace(namespace)); err != nil {
		n.t.Fatal(err)
	}
	return list.Items
}

// awaitAllOf waits until all Jupyters of a namespace have the condition.
func (n *notebooks) awaitAllOf(namespace, kind string, status metav1.ConditionStatus, reason string) {
	n.t.Helper()
	others := func() []string {
		var names []string
		for _, j := range n.all(namespace) {
			c := meta.FindStatusCondition(j.Status.Conditions, kind)
			if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != j.Generation {
				names = append(names, fmt.Sprintf("%s: %v", j.Name, c))
			}
		}
		return names
	}
	if err := progress.UntilNoneIsLeft(patience, func() int { return len(others()) }); err != nil {
		n.t.Fatalf("Jupyters in %q without %s=%s, reason %s: %v: %q", namespace, kind, status, reason, err, head(others()))
	}
}

// isWrite reports whether a request of the operator changed something in a namespace other than
// its own.
func isWrite(r audit.Request) bool {
	reads := []string{"get", "list", "watch"}
	return r.Namespace != "" && r.Namespace != operatorNamespace && r.Code < 300 && !slices.Contains(reads, r.Verb)
}

// isRepeated reports whether a request tried to create an Event that already exists.
func isRepeated(r audit.Request) bool {
	return r.Verb == "create" && r.Resource == "events" && r.Code == http.StatusConflict
}

// awaitQuiet waits until the operator has neither written anything nor repeated an Event for a
// while. It may still check whether failing notebooks have recovered.
func (n *notebooks) awaitQuiet() {
	n.t.Helper()
	n.g.Eventually(func() int {
		return count(n.requests(time.Now().Add(-quiet)), func(r audit.Request) bool { return isWrite(r) || isRepeated(r) })
	}).WithTimeout(patience).WithPolling(time.Second).Should(gomega.BeZero())
}

// fail creates notebooks that fail for four reasons, and waits until their status shows it.
func (n *notebooks) fail() {
	n.t.Helper()
	invalid, unpulled, refused, blocked := n.newNamespace(), n.newNamespace(), n.newNamespace(), n.newNamespace()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: refused, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	n.create(quota)
	n.g.Eventually(func() (corev1.ResourceList, error) {
		err := n.Client.Get(n.t.Context(), client.ObjectKeyFromObject(quota), quota)
		return quota.Status.Hard, err
	}).WithTimeout(patience).ShouldNot(gomega.BeEmpty())
	n.each(0, failingPerReason, func(i int) error {
		if err := n.createNotebook(invalid, i, "template: {spec: {hostNetwork: true}}"); err != nil {
			return err
		}
		if err := n.createNotebook(unpulled, i, "template: {metadata: {annotations: {bongsu-local/simulate: none}}}"); err != nil {
			return err
		}
		if err := n.createNotebook(refused, i, ""); err != nil {
			return err
		}
		err := n.Client.Create(n.t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: blocked, Name: nameOf(i)}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		})
		if err != nil {
			return err
		}
		return n.createNotebook(blocked, i, "")
	})
	pods := kubelet.Kubelet{Client: n.Client}
	for i := range failingPerReason {
		pod := pods.Await(n.t, unpulled, nameOf(i)+"-0")
		pods.Waiting(n.t, pod, "ImagePullBackOff", `Back-off pulling image "example.org/nb:nope": not found`)
	}
	n.awaitAllOf(invalid, v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonInvalidSpec)
	n.awaitAllOf(unpulled, v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonImagePullBackOff)
	n.awaitAllOf(refused, v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonQuotaExceeded)
	n.awaitAllOf(blocked, v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonResourceConflict)
	// The controller manager would retry to create the refused pods and write new Events.
	if err := n.Kill(localcluster.ControllerManager); err != nil {
		n.t.Fatal(err)
	}
}

// versions returns the names and resourceVersions of the controller's Events and of the
// Jupyters.
func (n *notebooks) versions() (events, jupyters []string) {
	n.t.Helper()
	var list eventsv1.EventList
	if err := n.Client.List(n.t.Context(), &list); err != nil {
		n.t.Fatal(err)
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.ReportingController == "jupyter-controller" {
			events = append(events, fmt.Sprintf("%s/%s %s %s", e.Namespace, e.Name, e.Reason, e.ResourceVersion))
		}
	}
	for _, j := range n.all("") {
		jupyters = append(jupyters, fmt.Sprintf("%s/%s %s", j.Namespace, j.Name, j.ResourceVersion))
	}
	return events, jupyters
}

func TestARestartRepeatsNoEventOfFailingNotebooksAndRewritesNoStatus(t *testing.T) {
	t.Parallel()
	n := newNotebooks(t)
	m := newManager(n.fixture)
	m.startReady()
	n.fail()
	n.awaitQuiet()
	events, jupyters := n.versions()
	if failing := 4 * failingPerReason; len(jupyters) != failing || len(events) < failing {
		t.Fatalf("got %d notebooks with %d Events, want %d with at least one each", len(jupyters), len(events), failing)
	}

	m.kill()
	restarted := time.Now()
	m.start()
	// The operator does not remember its Events. It creates them again and gets conflicts.
	const refusedEvents = 4 * failingPerReason
	n.g.Eventually(func() int {
		return count(n.requests(restarted), isRepeated)
	}).WithTimeout(patience).WithPolling(time.Second).Should(gomega.BeNumerically(">=", refusedEvents))
	n.awaitQuiet()
	for _, r := range n.requests(restarted) {
		if isWrite(r) {
			t.Errorf("got a write after the restart, want none: %v", r)
		}
	}
	eventsAfter, jupytersAfter := n.versions()
	if diff := cmp.Diff(events, eventsAfter); diff != "" {
		t.Errorf("Events changed after the restart (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(jupyters, jupytersAfter); diff != "" {
		t.Errorf("Jupyters changed after the restart (-before +after):\n%s", diff)
	}
	n.t.Attr("summary", fmt.Sprintf("%d failing notebooks, %d Events on them; after a restart no new one, and no writes", len(jupyters), len(events)))
}

// children are all kinds of a notebook's children, in the order of their creation.
var children = []child{
	{"-token", func() client.ObjectList { return &corev1.SecretList{} }},
	{"", func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} }},
	{"", func() client.ObjectList { return &corev1.ServiceList{} }},
	{"", func() client.ObjectList { return &networkingv1.IngressList{} }},
	{"", func() client.ObjectList { return &appsv1.StatefulSetList{} }},
	{"-0", func() client.ObjectList { return &corev1.PodList{} }},
}

// problems returns children without a Jupyter, and kinds with missing children.
func (n *notebooks) problems(namespace string) []string {
	n.t.Helper()
	jupyters := map[string]types.UID{}
	for _, j := range n.all(namespace) {
		jupyters[j.Name] = j.UID
	}
	var found []string
	for _, c := range children {
		objects := n.childrenOf(namespace, c)
		for _, o := range objects {
			owner := types.UID(o.GetAnnotations()[v1alpha1.AnnotationOwnerUID])
			if controller := metav1.GetControllerOf(o); controller != nil && controller.Kind == v1alpha1.KindJupyter {
				owner = controller.UID
			}
			uid, exists := jupyters[strings.TrimSuffix(o.GetName(), c.suffix)]
			if _, isPod := o.(*corev1.Pod); !exists || !isPod && owner != uid {
				found = append(found, fmt.Sprintf("%T %s has no owner", o, o.GetName()))
			}
		}
		if missing := len(jupyters) - len(objects); missing != 0 {
			found = append(found, fmt.Sprintf("%d of %T are missing", missing, c.list()))
		}
	}
	return found
}

func TestKillsWhileNotebooksStartLeaveOneOfEachChild(t *testing.T) {
	t.Parallel()
	n := newNotebooks(t)
	m := newManager(n.fixture)
	m.startReady()
	namespace := n.newNamespace()
	var createdAtKill []string
	for round := range kills {
		// Kill the operator when it has created some objects of one kind, usually not all.
		kind := children[round%len(children)]
		before := len(n.childrenOf(namespace, kind))
		more := rand.IntN(startedNotebooks / kills)
		n.each(round*startedNotebooks/kills, (round+1)*startedNotebooks/kills, func(i int) error {
			policy := []string{"Retain", "Delete"}[i%2]
			return n.createNotebook(namespace, i, "storage: {size: 1Gi, retentionPolicy: {whenDeleted: "+policy+"}}\naccess: {type: Ingress, host: nb.example.org}")
		})
		n.g.Eventually(func() int { return len(n.childrenOf(namespace, kind)) - before }).
			WithTimeout(patience).WithPolling(2 * time.Millisecond).Should(gomega.BeNumerically(">=", more))
		m.kill()
		createdAtKill = append(createdAtKill, fmt.Sprint(len(n.childrenOf(namespace, kind))-before))
		if round%3 == 0 { // while the operator is down
			n.deleteNotebook(namespace, round*startedNotebooks/kills+1)
		}
		m.start()
	}
	n.awaitAllOf(namespace, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	n.g.Eventually(func() []string { return n.problems(namespace) }).WithTimeout(patience).WithPolling(time.Second).Should(gomega.BeEmpty())
	n.t.Attr("summary", fmt.Sprintf("%d notebooks through %d kills, after %s of one kind of child; one of each child, no orphan",
		len(n.all(namespace)), len(m.killed), strings.Join(createdAtKill, " ")))
}

// deleteNotebook deletes a notebook, whose claim must be deleted with it.
func (n *notebooks) deleteNotebook(namespace string, i int) {
	n.t.Helper()
	err := n.Client.Delete(n.t.Context(), &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameOf(i)}})
	if err != nil {
		n.t.Fatal(err)
	}
}

// pods returns the image and the UID of each pod, by notebook.
func (n *notebooks) pods(namespace string) map[string]string {
	n.t.Helper()
	pods := map[string]string{}
	for _, o := range n.childrenOf(namespace, children[len(children)-1]) {
		pod := o.(*corev1.Pod)
		pods[strings.TrimSuffix(pod.Name, "-0")] = fmt.Sprintf("%s %s", pod.Spec.Containers[0].Image, pod.UID)
	}
	return pods
}

func TestAnUpgradeThatChangesTheTemplateRestartsNoNotebook(t *testing.T) {
	t.Parallel()
	n := newNotebooks(t)
	m := newManager(n.fixture, "--jupyter-image", "example.org/nb:a")
	m.startReady()
	namespace, own := n.newNamespace(), n.newNamespace()
	n.each(0, upgraded, func(i int) error { return n.createNotebook(namespace, i, "") })
	n.each(0, 1, func(i int) error { return n.createNotebook(own, i, "image: example.org/own:1") })
	n.awaitAllOf("", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	n.awaitAllOf("", v1alpha1.ConditionUpdatePending, metav1.ConditionFalse, v1alpha1.ReasonUpToDate)
	before, ownBefore := n.pods(namespace), n.pods(own)

	m.kill()
	m.args[len(m.args)-1] = "example.org/nb:b"
	m.start()
	n.awaitAllOf(namespace, v1alpha1.ConditionUpdatePending, metav1.ConditionTrue, v1alpha1.ReasonRestartNeeded)
	n.awaitAllOf("", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	n.awaitQuiet()
	n.g.Expect(n.pods(namespace)).To(gomega.Equal(before))
	n.awaitAllOf(own, v1alpha1.ConditionUpdatePending, metav1.ConditionFalse, v1alpha1.ReasonUpToDate)
	n.g.Expect(n.pods(own)).To(gomega.Equal(ownBefore))

	isUpgraded := gomega.WithTransform(func(pods map[string]string) string { return pods[nameOf(0)] }, gomega.HavePrefix("example.org/nb:b "))
	later := n.newNamespace()
	n.each(0, 1, func(i int) error { return n.createNotebook(later, i, "") })
	n.g.Eventually(func() map[string]string { return n.pods(later) }).WithTimeout(patience).Should(isUpgraded)
	n.suspend(namespace, 0, true)
	n.g.Eventually(func() map[string]string { return n.pods(namespace) }).WithTimeout(patience).Should(gomega.HaveLen(upgraded - 1))
	n.suspend(namespace, 0, false)
	n.g.Eventually(func() map[string]string { return n.pods(namespace) }).WithTimeout(patience).Should(isUpgraded)
	n.t.Attr("summary", fmt.Sprintf("%d running notebooks through an upgrade that changes their image: none restarted", upgraded+1))
}

func (n *notebooks) suspend(namespace string, i int, suspend bool) {
	n.t.Helper()
	j := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameOf(i)}}
	if err := n.Client.Patch(n.t.Context(), j, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec": {"suspend": %t}}`, suspend))); err != nil {
		n.t.Fatal(err)
	}
}
