package jupyter_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/jupyterserver"
	"github.com/bongsu-io/bongsu/internal/testing/size"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// A notebook that was started an hour ago is idle at the first probe, although a browser tab
// sends requests. One that is used now stays in use for minutes. Probes are as many as the API allows, and a busy machine
// has all the time for one that it allows.
const culled = "culling: {idleTimeoutSeconds: 1200, warningSeconds: %d, periodSeconds: 10, timeoutSeconds: 9, failureThreshold: 1}\n" + byHand

const token = "the-t0ken-of-the-test"

func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

// idle is the state of a server whose kernel has not been used for an hour, while a browser
// tab is open.
func idle() jupyterserver.State {
	return jupyterserver.State{
		LastActivity: time.Now(), Kernels: []jupyterserver.Kernel{{State: "idle", LastActivity: ago(time.Hour)}},
	}
}

// notebookServer creates a Jupyter whose server, which the test plays, was started an
// hour ago and has been idle since.
func (s *scene) notebookServer(warningSeconds int) (*jupyterserver.Server, *corev1.Pod) {
	s.t.Helper()
	server := jupyterserver.New(s.t, token)
	server.Set(idle())
	s.make(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: map[string]string{"token": token}})
	s.create("auth: {tokenSecretRef: {name: secret}}\n" + fmt.Sprintf(culled, warningSeconds))
	return server, s.serve(server)
}

// serve starts a server in the notebook's pod, an hour ago.
func (s *scene) serve(server *jupyterserver.Server) *corev1.Pod {
	s.t.Helper()
	return s.serveAt(server.Address())
}

func (s *scene) serveAt(address string) *corev1.Pod {
	s.t.Helper()
	pod := s.pod()
	ip := s.ServePod(s.t, address)
	patch := fmt.Appendf(nil, `{"status": {"podIP": %q, "podIPs": [{"ip": %q}], "containerStatuses": [
		{"name": "notebook", "image": "x", "imageID": "x", "restartCount": 0, "ready": true, "state": {"running": {"startedAt": %q}}}]}}`,
		ip, ip, ago(time.Hour).UTC().Format(time.RFC3339))
	s.g.Expect(s.Client.Status().Patch(s.t.Context(), pod, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	s.kubelet.Running(s.t, pod, true)
	s.awaitReady()
	return pod
}

// eventCount counts the Events on the Jupyter with a reason.
func (s *scene) eventCount(reason string) func() int {
	return func() int {
		n := 0
		for _, e := range s.events() {
			if e.Reason == reason {
				n++
			}
		}
		return n
	}
}

func TestAnUnusedNotebookIsWarnedThenCulledThenResumed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	server, pod := s.notebookServer(10)
	warned := s.see(v1alpha1.ConditionIdle, metav1.ConditionTrue, v1alpha1.ReasonNoActivity)
	s.g.Expect(warned.Spec.Suspend).To(BeFalse())
	s.g.Expect(warned.Status.CullTime).NotTo(BeNil())
	s.g.Expect(warned.Status.IdleSinceTime).To(And(Not(BeNil()), Equal(warned.Status.LastActivityTime)))
	s.g.Expect(warned.Status.LastProbe).To(HaveValue(HaveField("Result", "Success")))
	s.g.Expect(warned.Status.Conditions).To(ContainElement(And(
		HaveField("Type", v1alpha1.ConditionServerResponding),
		HaveField("Status", metav1.ConditionTrue),
		HaveField("Reason", v1alpha1.ReasonResponding),
	)))
	s.g.Eventually(s.eventCount(v1alpha1.ReasonIdleWarning)).Should(Equal(1))

	// The warning, and then a probe.
	s.g.Eventually(s.now).WithTimeout(patience).Should(HaveField("Spec.Suspend", BeTrue()))
	j := s.see(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonCulled)
	at, err := time.Parse(time.RFC3339, j.Annotations[v1alpha1.AnnotationCulledAt])
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(at).NotTo(BeTemporally("<", warned.Status.CullTime.Time))
	s.g.Eventually(s.eventCount(v1alpha1.ReasonCulled)).Should(Equal(1))
	s.g.Expect(s.eventCount(v1alpha1.ReasonIdleWarning)()).To(Equal(1))
	s.g.Eventually(func() *metav1.Time { return s.now().Status.CullTime }).Should(HaveValue(Equal(*warned.Status.CullTime)))
	s.await(v1alpha1.ConditionIdle, metav1.ConditionUnknown, v1alpha1.ReasonNotProbed)
	s.g.Expect(s.now().Status).To(And(HaveField("IdleSinceTime", BeNil()), HaveField("LastActivityTime", Not(BeNil()))))

	s.ExpectSuspended(t, s.now(), v1alpha1.StateCulled)
	asked := server.Questions()
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Suspend = false })
	s.g.Eventually(s.now).Should(And(
		HaveField("Annotations", Not(HaveKey(v1alpha1.AnnotationCulledAt))),
		HaveField("Status.CullTime", BeNil()),
	))
	s.await(v1alpha1.ConditionSuspended, metav1.ConditionFalse, v1alpha1.ReasonNotSuspended)
	s.g.Expect(server.Questions()).To(Equal(asked), "the former pod is not asked any more")
	s.g.Eventually(func() types.UID { return s.pod().UID }).ShouldNot(Equal(pod.UID))
	ip, started := s.ServePod(t, server.Address()), types.UID("")
	start := func(pod *corev1.Pod) {
		err := s.Client.Status().Patch(t.Context(), pod, client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"status": {"podIP": %q, "podIPs": [{"ip": %q}]}}`, ip, ip)))
		if apierrors.IsNotFound(err) {
			return // it was replaced
		}
		s.g.Expect(err).NotTo(HaveOccurred())
		s.kubelet.Running(t, pod, true) // it has just been started, and the server was last used an hour ago
		started = pod.UID
	}
	// The first probe is up to 10 s away. If it takes too long on a busy machine, the next
	// one follows 10 s later. KWOK deletes a terminated pod by its name alone, so on a busy
	// machine it can delete the new one, too.
	restarted := func() metav1.Condition {
		if pod := s.pod(); pod.UID != started {
			start(pod)
		}
		return s.condition(v1alpha1.ConditionIdle)
	}
	s.g.Eventually(restarted).WithTimeout(2*patience).
		Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonActive)),
			func() string { return fmt.Sprintf("%+v\n%+v", s.now().Status, s.pod().Status) })
}

// All are warned of at the same time, and then something happens to each: one after the
// other would take minutes.
func TestARunningServerIsAskedAtThePathItWasStartedWith(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	server := jupyterserver.New(t, token)
	server.Set(jupyterserver.State{LastActivity: time.Now()})
	server.Misbehave(http.StripPrefix("/team/nb", http.HandlerFunc(server.Answer)).ServeHTTP)
	s.make(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: map[string]string{"token": token}})
	s.create("access: {path: /team/nb}\nauth: {tokenSecretRef: {name: secret}}\n" + fmt.Sprintf(culled, 10))
	s.serve(server)
	s.await(v1alpha1.ConditionServerResponding, metav1.ConditionTrue, v1alpha1.ReasonResponding)
	s.g.Expect(s.now().Status.URL).To(Equal("http://nb." + s.namespace + ".svc/team/nb/"))

	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Access.Path = "/elsewhere" })
	s.await(v1alpha1.ConditionUpdatePending, metav1.ConditionTrue, v1alpha1.ReasonRestartNeeded)
	asked := server.Questions()
	s.g.Eventually(server.Questions).WithTimeout(patience).Should(BeNumerically(">", asked+2))
	s.await(v1alpha1.ConditionServerResponding, metav1.ConditionTrue, v1alpha1.ReasonResponding)
}

func TestReasonsNotToCullANotebook(t *testing.T) {
	t.Parallel()
	type warned struct {
		*scene
		server *jupyterserver.Server
	}
	answers := func(answer http.HandlerFunc) func(warned) {
		return func(w warned) { w.server.Misbehave(answer) }
	}
	says := func(state func() jupyterserver.State) func(warned) {
		return func(w warned) { w.server.Set(state()) }
	}
	unanswered := func(w warned) metav1.Condition {
		w.await(v1alpha1.ConditionIdle, metav1.ConditionUnknown, v1alpha1.ReasonProbeFailing)
		w.g.Eventually(w.now).Should(HaveField("Status.LastProbe", HaveValue(HaveField("Result", "Failure"))))
		w.g.Expect(w.now().Status).To(And(HaveField("IdleSinceTime", BeNil()), HaveField("LastActivityTime", Not(BeNil()))))
		w.g.Expect(w.now().Status.ReadyReplicas).To(BeEquivalentTo(1), "a server without an answer is no failure of the notebook")
		return w.await(v1alpha1.ConditionServerResponding, metav1.ConditionFalse, v1alpha1.ReasonProbeFailing)
	}
	used := func(reason string) func(warned) {
		return func(w warned) { w.await(v1alpha1.ConditionIdle, metav1.ConditionFalse, reason) }
	}
	says403 := func(w warned) { w.g.Expect(unanswered(w).Message).To(ContainSubstring("403 Forbidden")) }
	cases := map[string]struct{ act, see func(warned) }{
		"a cell": {says(func() jupyterserver.State {
			return jupyterserver.State{Kernels: []jupyterserver.Kernel{{State: "idle", LastActivity: time.Now()}}}
		}), used(v1alpha1.ReasonActive)},
		"a tab counts from now on": {func(w warned) {
			w.server.Set(idle())
			w.change(func(j *v1alpha1.Jupyter) { j.Spec.Culling.Activity = v1alpha1.CullingActivityServer })
		}, used(v1alpha1.ReasonActive)},
		"a silent job in a terminal": {
			says(func() jupyterserver.State { return jupyterserver.State{Terminals: []time.Time{ago(time.Hour)}} }),
			used(v1alpha1.ReasonTerminalOpen),
		},
		"a terminal": {says(func() jupyterserver.State { return jupyterserver.State{Terminals: []time.Time{time.Now()}} }), used(v1alpha1.ReasonActive)},
		"busy kernel": {says(func() jupyterserver.State {
			return jupyterserver.State{Kernels: []jupyterserver.Kernel{{State: "busy", LastActivity: ago(time.Hour)}}}
		}), used(v1alpha1.ReasonKernelBusy)},
		"forbidden": {answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }), says403},
		"garbage": {answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"last_activity": "`+token+`"}`)
		}), func(w warned) { w.g.Expect(unanswered(w).Message).NotTo(ContainSubstring(token)) }},
		"no answer in time": {
			answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
			func(w warned) { w.g.Expect(unanswered(w).Message).To(ContainSubstring("in time")) },
		},
		"another token": {func(w warned) {
			w.g.Expect(w.Client.Patch(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "secret"}},
				client.RawPatch(types.MergePatchType, []byte(`{"stringData": {"token": "another"}}`)))).To(Succeed())
		}, says403},
		"culling is switched off": {func(w warned) { w.change(func(j *v1alpha1.Jupyter) { j.Spec.Culling = nil }) }, func(w warned) {
			w.await(v1alpha1.ConditionIdle, metav1.ConditionUnknown, v1alpha1.ReasonNotProbed)
			w.g.Eventually(func() string { return w.condition(v1alpha1.ConditionIdle).Message }).Should(HavePrefix("spec.culling is not set"))
			w.g.Expect(w.now().Status).To(And(HaveField("LastProbe", BeNil()), HaveField("LastActivityTime", BeNil())))
		}},
	}
	all := map[string]warned{}
	for name := range cases {
		s := newScene(t)
		server, _ := s.notebookServer(900) // longer than the test
		all[name] = warned{s, server}
	}
	for name, w := range all {
		w.g.Eventually(w.now).Should(HaveField("Status.CullTime", Not(BeNil())), name)
		cases[name].act(w)
	}
	for name, w := range all {
		t.Log(name)
		cases[name].see(w)
		w.g.Expect(w.now()).To(And(HaveField("Status.CullTime", BeNil()), HaveField("Spec.Suspend", BeFalse())), name)
	}
}

func TestAWarningOutlivesTheOperator(t *testing.T) {
	size.NotInTest(t, "it takes a whole cluster of its own, as TestARestartRepeatsNoEventAndRewritesNoStatus does")
	t.Parallel()
	c := cluster.Start(t, cluster.Whole(1))
	operator := c.StartOperator(t)
	s := sceneIn(t, c)
	s.notebookServer(12)
	before := s.see(v1alpha1.ConditionIdle, metav1.ConditionTrue, v1alpha1.ReasonNoActivity)
	s.g.Eventually(s.eventCount(v1alpha1.ReasonIdleWarning)).Should(Equal(1))
	s.g.Expect(operator.Stop()).To(Succeed())

	second := c.StartOperator(t)
	s.g.Eventually(s.now).WithTimeout(patience).Should(HaveField("Spec.Suspend", BeTrue()))
	at, err := time.Parse(time.RFC3339, s.now().Annotations[v1alpha1.AnnotationCulledAt])
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(at).NotTo(BeTemporally("<", before.Status.CullTime.Time))
	s.g.Eventually(func() *metav1.Time { return s.now().Status.CullTime }).Should(HaveValue(Equal(*before.Status.CullTime)))
	s.g.Expect(s.eventCount(v1alpha1.ReasonIdleWarning)()).To(Equal(1))
	for _, log := range []string{operator.Log.String(), second.Log.String()} {
		s.g.Expect(log).NotTo(ContainSubstring(token))
	}
}

// The times are in the status, so that it does not matter which operator looks at them.
func TestANotebookThatFailsForTooLongIsWarnedThenStoppedThenResumed(t *testing.T) {
	size.NotInTest(t, "it takes a whole cluster of its own, as TestARestartRepeatsNoEventAndRewritesNoStatus does")
	t.Parallel()
	c := cluster.Start(t, cluster.Whole(1))
	first := c.StartOperator(t)
	s := sceneIn(t, c)
	s.create("storage: {size: 1Gi}\nculling: {failingSeconds: 3600, warningSeconds: 12}\n" + byHand)
	pod := s.pod()
	s.kubelet.Waiting(t, pod, "ImagePullBackOff", `Back-off pulling image "example.org/nb:nope": ErrImagePull: not found`)
	s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonImagePullBackOff)
	s.g.Expect(s.now().Status.FailingCullTime).To(BeNil())
	s.g.Expect(first.Stop()).To(Succeed())

	hourAgo := fmt.Appendf(nil, `{"status": {"failingSince": %q}}`, ago(time.Hour).UTC().Format(time.RFC3339))
	s.g.Expect(s.Client.Status().Patch(t.Context(), s.now(), client.RawPatch(types.MergePatchType, hourAgo))).To(Succeed())
	second := c.StartOperator(t)
	s.g.Eventually(s.eventCount(v1alpha1.ReasonFailingWarning)).Should(Equal(1))
	announced := s.now().Status.FailingCullTime
	s.g.Expect(announced).NotTo(BeNil())
	s.g.Expect(second.Stop()).To(Succeed())
	s.g.Expect(s.now().Spec.Suspend).To(BeFalse())

	c.StartOperator(t)
	s.g.Eventually(s.now).WithTimeout(patience).Should(HaveField("Spec.Suspend", BeTrue()))
	s.see(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonCulledFailing)
	s.ExpectSuspended(t, s.now(), v1alpha1.StateCulled)
	stopped := s.now()
	at, err := time.Parse(time.RFC3339, stopped.Annotations[v1alpha1.AnnotationCulledAt])
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(at).NotTo(BeTemporally("<", announced.Time))
	s.g.Expect(stopped.Status).To(And(
		HaveField("Reason", v1alpha1.ReasonCulledFailing), HaveField("FailingCullTime", BeNil()), HaveField("PodName", BeEmpty()),
		HaveField("LastFailure", HaveField("Reason", diagnosis.ReasonImagePullBackOff)),
	))
	s.g.Eventually(s.events).Should(ContainElement(And(HaveField("Reason", v1alpha1.ReasonCulledFailing), HaveField("Message", ContainSubstring("ImagePullBackOff: image")))))
	s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), &corev1.PersistentVolumeClaim{})).To(Succeed())

	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Suspend, j.Spec.Template = false, nil })
	s.awaitReady()
	s.g.Expect(s.now()).To(And(
		HaveField("Annotations", Not(HaveKey(HavePrefix("bongsu.io/culled")))), HaveField("Status.FailingSince", BeNil()), HaveField("Status.State", v1alpha1.StateReady),
	))
}
