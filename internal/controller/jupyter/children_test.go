package jupyter_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

func TestAnIngressFollowsThePathAndTheAnnotationsOfAccess(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const size = "nginx.ingress.kubernetes.io/proxy-body-size"
	s.create("access: {type: Ingress, host: nb.example.org, path: /lab/nb, annotations: {" + size + ": 1g, cert-manager.io/issuer: ours}}")
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nb"}}
	read := func() map[string]string {
		if s.Client.Get(t.Context(), client.ObjectKeyFromObject(ingress), ingress) != nil {
			return nil
		}
		return ingress.Annotations
	}
	s.g.Eventually(read).Should(And(HaveKeyWithValue(size, "1g"), HaveKeyWithValue("cert-manager.io/issuer", "ours")))
	s.g.Expect(ingress.Spec.Rules[0].HTTP.Paths[0].Path).To(Equal("/lab/nb"))
	s.g.Eventually(func() string { return s.now().Status.URL }).Should(Equal("http://nb.example.org/lab/nb/"))

	// A user adds an annotation that spec.access does not allow.
	foreign := []byte(`{"metadata": {"annotations": {"nginx.ingress.kubernetes.io/auth-url": "http://a"}}}`)
	s.g.Expect(s.Client.Patch(t.Context(), ingress, client.RawPatch(types.MergePatchType, foreign))).To(Succeed())
	s.change(func(j *v1alpha1.Jupyter) {
		j.Spec.Access.Annotations = map[string]v1alpha1.IngressAnnotation{size: "2g"}
	})
	s.g.Eventually(read).Should(And(HaveKeyWithValue(size, "2g"), Not(HaveKey("cert-manager.io/issuer")),
		HaveKeyWithValue("nginx.ingress.kubernetes.io/auth-url", "http://a")))
}

// httpServer creates a Jupyter with an HTTP server that was last used at a time.
func (s *scene) httpServer(used time.Time) {
	s.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/healthz" || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status": "expired", "lastHeartbeat": %d}`, used.UnixMilli())
	}))
	s.t.Cleanup(server.Close)
	s.create("server: {type: HTTP, port: 8080, readinessPath: /healthz, activityPath: /healthz}\n" + fmt.Sprintf(culled, 10))
	s.serveAt(server.Listener.Addr().String())
}

func TestAnHTTPServerHasNoTokenAndIsCulledWhenItReportsNoUse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.httpServer(ago(time.Hour))
	var service corev1.Service
	s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), &service)).To(Succeed())
	s.g.Expect(service.Spec.Ports[0].TargetPort.IntVal).To(BeEquivalentTo(8080))
	s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb-token"), &corev1.Secret{})).To(Satisfy(apierrors.IsNotFound))
	s.g.Eventually(s.now).WithTimeout(patience).Should(HaveField("Spec.Suspend", BeTrue()))
	s.await(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonCulled)
}

func TestAnHTTPServerIsNotCulledWhileItReportsUse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.httpServer(time.Now())
	s.await(v1alpha1.ConditionServerResponding, metav1.ConditionTrue, v1alpha1.ReasonResponding)
	s.await(v1alpha1.ConditionIdle, metav1.ConditionFalse, v1alpha1.ReasonActive)
}

func TestRemovedChildrenAndFieldsOfANotebookAreRestored(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("storage: {size: 1Gi}\naccess: {type: Ingress, host: nb.example.org}")
	s.awaitReady()
	key := keyOf(s.namespace, "nb")
	token := func() string {
		var secret corev1.Secret
		_ = s.Client.Get(t.Context(), keyOf(s.namespace, "nb-token"), &secret)
		return string(secret.Data["token"])
	}
	former := token()
	for _, o := range []client.Object{&corev1.Service{}, &networkingv1.Ingress{}, &appsv1.StatefulSet{}, &corev1.Secret{}} {
		o.SetNamespace(s.namespace)
		o.SetName("nb")
		if _, ok := o.(*corev1.Secret); ok {
			o.SetName("nb-token")
		}
		s.g.Expect(s.Client.Delete(t.Context(), o)).To(Succeed())
		s.g.Eventually(func() error { return s.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o) }).Should(Succeed(), "%T", o)
	}
	s.g.Eventually(token).ShouldNot(Or(BeEmpty(), Equal(former)))
	s.awaitReady()

	patch := func(o client.Object, text string) {
		t.Helper()
		o.SetNamespace(s.namespace)
		o.SetName("nb")
		s.g.Expect(s.Client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
	}
	patch(&corev1.Service{}, `{"spec": {"selector": {"bongsu.io/jupyter": "other"}}}`)
	patch(&appsv1.StatefulSet{}, `{"spec": {"replicas": 0}, "metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}`)
	patch(&networkingv1.Ingress{}, `{"spec": {"rules": [{"host": "evil.example.org"}]}}`)
	s.g.Eventually(func(g Gomega) {
		var service corev1.Service
		var set appsv1.StatefulSet
		var ingress networkingv1.Ingress
		g.Expect(s.Client.Get(t.Context(), key, &service)).To(Succeed())
		g.Expect(s.Client.Get(t.Context(), key, &set)).To(Succeed())
		g.Expect(s.Client.Get(t.Context(), key, &ingress)).To(Succeed())
		g.Expect(service.Spec.Selector).To(HaveKeyWithValue("bongsu.io/jupyter", "nb"))
		g.Expect(set.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
		g.Expect(ingress.Spec.Rules[0].Host).To(Equal("nb.example.org"))
	}).Should(Succeed())
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Access = v1alpha1.JupyterAccess{} })
	s.g.Eventually(func() error { return s.Client.Get(t.Context(), key, &networkingv1.Ingress{}) }).Should(Satisfy(apierrors.IsNotFound))
	s.awaitReady()
}

func TestFieldsThatOthersAddToAChildStay(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("")
	s.awaitReady()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nb"}}
	s.g.Expect(s.Client.Patch(t.Context(), service, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"example.org/note": "theirs"}}, "spec": {"sessionAffinity": "ClientIP"}}`)))).To(Succeed())
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Image = "example.org/nb:2" })
	s.await(v1alpha1.ConditionUpdatePending, metav1.ConditionTrue, v1alpha1.ReasonRestartNeeded)
	s.g.Expect(s.Client.Get(t.Context(), client.ObjectKeyFromObject(service), service)).To(Succeed())
	s.g.Expect(service.Annotations).To(HaveKeyWithValue("example.org/note", "theirs"))
	s.g.Expect(service.Spec.SessionAffinity).To(Equal(corev1.ServiceAffinityClientIP))
}

func TestAForeignObjectIsNotChangedAndTheNotebookRecoversWhenItIsDeleted(t *testing.T) {
	t.Parallel()
	for name, owners := range map[string][]metav1.OwnerReference{
		"without an owner": nil,
		"of another owner": {{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.KindJupyter, Name: "other", UID: "other", Controller: new(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			// It says of itself that it is ours.
			foreign := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{
					Name: "nb", Labels: workload.Labels(&v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Name: "nb"}}),
					Annotations: map[string]string{"example.org/note": "theirs"}, OwnerReferences: owners,
				},
				Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9999}}},
			}
			if owners != nil {
				owners[0].UID = s.other()
			}
			s.make(foreign)
			s.create("")
			s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonResourceConflict)
			after := foreign.DeepCopy()
			s.g.Expect(s.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), after)).To(Succeed())
			s.g.Expect(after.ResourceVersion).To(Equal(foreign.ResourceVersion))
			s.g.Expect(s.Client.Delete(t.Context(), foreign)).To(Succeed())
			s.awaitReady()
		})
	}
}

// other creates another Jupyter, which is stopped, and returns its UID.
func (s *scene) other() types.UID {
	s.t.Helper()
	u := cluster.Manifest(s.t, v1alpha1.KindJupyter, s.namespace, "other", "suspend: true")
	s.g.Expect(s.Client.Create(s.t.Context(), u)).To(Succeed())
	return u.GetUID()
}

// ownedParts are the objects of a notebook with an owner reference.
func ownedParts() map[string]client.Object {
	return map[string]client.Object{
		"nb-token": &corev1.Secret{}, "nb/service": &corev1.Service{}, "nb/ingress": &networkingv1.Ingress{}, "nb": &appsv1.StatefulSet{},
	}
}

const byIngress = "access: {type: Ingress, host: nb.example.org}\n"

func TestAnObjectWithoutItsOwnerReferenceStillBelongsToItsNotebook(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(byIngress)
	s.awaitReady()
	for name, o := range ownedParts() {
		key := s.partKey(name)
		s.g.Expect(s.Client.Get(t.Context(), key, o)).To(Succeed())
		uid := o.GetUID()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"ownerReferences": null}}`))
		s.g.Expect(s.Client.Patch(t.Context(), o, patch)).To(Succeed())
		s.g.Eventually(func() []metav1.OwnerReference {
			s.g.Expect(s.Client.Get(t.Context(), key, o)).To(Succeed())
			return o.GetOwnerReferences()
		}).Should(HaveLen(1), name)
		s.g.Expect(o.GetUID()).To(Equal(uid), name)
	}
	s.awaitReady()
	s.g.Expect(s.warnings()).To(BeEmpty())
}

// kubectl delete --cascade=orphan keeps the objects.
func TestANotebookTakesTheObjectsOfAFormerOneThatWereKept(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(byIngress)
	s.awaitReady()
	tokenKey := s.partKey("nb-token")
	var token corev1.Secret
	s.g.Expect(s.Client.Get(t.Context(), tokenKey, &token)).To(Succeed())
	former := s.now()
	s.g.Expect(s.Client.Delete(t.Context(), former, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	s.g.Eventually(func() bool {
		return apierrors.IsNotFound(s.Client.Get(t.Context(), client.ObjectKeyFromObject(former), &v1alpha1.Jupyter{}))
	}).Should(BeTrue())
	s.create("")
	s.awaitReady()
	s.g.Eventually(func() bool { // the new one has no Ingress
		return apierrors.IsNotFound(s.Client.Get(t.Context(), s.partKey("nb"), &networkingv1.Ingress{}))
	}).Should(BeTrue())
	value := token.Data["token"]
	s.g.Expect(s.Client.Get(t.Context(), tokenKey, &token)).To(Succeed())
	s.g.Expect(token.Data["token"]).NotTo(Or(BeEmpty(), Equal(value)))
	s.g.Expect(metav1.IsControlledBy(&token, s.now())).To(BeTrue())
	s.g.Expect(s.warnings()).To(BeEmpty())
}

// A tenant can create the Secret before the Jupyter, with all its marks.
func TestATokenThatAnotherKnowsIsReplacedOrStopsTheNotebook(t *testing.T) {
	t.Parallel()
	for name, immutable := range map[string]bool{"replaced": false, "immutable": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			former := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Name: "nb", UID: "guessed"}}
			secret := workload.NotebookToken(former, "known")
			secret.OwnerReferences, secret.Immutable = nil, &immutable
			s.make(secret)
			s.create("")
			if immutable {
				s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonResourceConflict)
				s.g.Expect(s.Client.Get(t.Context(), s.partKey("nb"), &appsv1.StatefulSet{})).To(Satisfy(apierrors.IsNotFound))
				s.g.Expect(s.Client.Delete(t.Context(), secret)).To(Succeed())
			}
			s.awaitReady()
			s.g.Expect(s.Client.Get(t.Context(), s.partKey("nb-token"), secret)).To(Succeed())
			s.g.Expect(secret.Data["token"]).NotTo(Or(BeEmpty(), BeEquivalentTo("known")))
			s.g.Expect(metav1.IsControlledBy(secret, s.now())).To(BeTrue())
		})
	}
}

// partKey returns the key of an object of ownedParts.
func (s *scene) partKey(name string) client.ObjectKey {
	name, _, _ = strings.Cut(name, "/")
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

func TestAPodOfAnotherOwnerIsAConflict(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.make(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "nb-0", Labels: map[string]string{"app.kubernetes.io/managed-by": "bongsu"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.NotebookContainer, Image: "image"}}},
	})
	s.create("")
	c := s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonResourceConflict)
	s.g.Expect(c.Message).To(ContainSubstring("Pod nb-0"))
	s.g.Expect(s.now().Status.PodName).To(BeEmpty())
}

func TestTheClaimIsKeptOrDeletedAsTheSpecSays(t *testing.T) {
	t.Parallel()
	for policy, stays := range map[string]bool{"": true, "retentionPolicy: {whenDeleted: Retain}": true, "retentionPolicy: {whenDeleted: Delete}": false} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			j := s.create("storage: {size: 1Gi, " + policy + "}")
			s.awaitReady()
			var claim corev1.PersistentVolumeClaim
			s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), &claim)).To(Succeed())
			s.g.Expect(s.Client.Delete(t.Context(), j)).To(Succeed())
			s.g.Eventually(func() error {
				return s.Client.Get(t.Context(), keyOf(s.namespace, "nb-0"), &corev1.Pod{})
			}).WithTimeout(patience).Should(Satisfy(apierrors.IsNotFound))
			if !stays {
				s.g.Eventually(func() error { return s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), &claim) }).
					WithTimeout(patience).Should(Satisfy(apierrors.IsNotFound))
				return
			}
			s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), &claim)).To(Succeed())
			s.g.Expect(claim.DeletionTimestamp).To(BeNil())
			former := claim.UID
			s.create("storage: {size: 1Gi}")
			s.awaitReady()
			s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), &claim)).To(Succeed())
			s.g.Expect(claim.UID).To(Equal(former), "it is taken up again")
			s.g.Expect(claim.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationOwnerUID, string(s.now().UID)))
		})
	}
}

func TestAFieldThatIsNoLongerWantedIsRemoved(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("storage: {size: 1Gi, retentionPolicy: {whenDeleted: Delete}}\naccess: {type: Ingress, host: nb.example.org, tlsSecretName: nb-tls}")
	s.awaitReady()
	var ingress networkingv1.Ingress
	var claim corev1.PersistentVolumeClaim
	s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), &ingress)).To(Succeed())
	s.g.Expect(ingress.Spec.TLS).To(HaveLen(1))
	s.g.Expect(s.now().Status.URL).To(Equal("https://nb.example.org/"))
	s.change(func(j *v1alpha1.Jupyter) {
		j.Spec.Access.TLSSecretName = ""
		j.Spec.Storage.RetentionPolicy.WhenDeleted = v1alpha1.WhenDeletedRetain
	})
	s.g.Eventually(func(g Gomega) {
		g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), &ingress)).To(Succeed())
		g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), &claim)).To(Succeed())
		g.Expect(ingress.Spec.TLS).To(BeEmpty())
		g.Expect(claim.OwnerReferences).To(BeEmpty())
	}).Should(Succeed())
}

func TestAClaimThatCannotGrowDoesNotStopTheNotebook(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("storage: {size: 1Gi}")
	s.awaitReady()
	first := s.pod().UID
	s.change(func(j *v1alpha1.Jupyter) {
		j.Spec.Storage.Size = new(resource.MustParse("2Gi"))
		j.Spec.Image = "example.org/nb:2"
	})
	s.g.Eventually(func() metav1.Condition { return s.condition(v1alpha1.ConditionStalled) }).Should(And(
		HaveField("Status", metav1.ConditionTrue), HaveField("Message", ContainSubstring("does not allow volumes to grow"))))
	s.await(v1alpha1.ConditionUpdatePending, metav1.ConditionTrue, v1alpha1.ReasonRestartNeeded)
	s.g.Expect(s.condition(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
	s.g.Expect(s.pod().UID).To(Equal(first))
}

func TestAnEmptiedTokenIsRecreated(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("")
	s.awaitReady()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nb-token"}}
	s.g.Expect(s.Client.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"data": {"token": ""}}`)))).To(Succeed())
	s.g.Eventually(func() ([]byte, error) {
		err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)
		return secret.Data["token"], err
	}).ShouldNot(BeEmpty())
}

// In the pod, the container of the template is the second one.
func TestARejectedFieldHasThePathOfTheTemplate(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("template: {spec: {containers: [{name: side}]}}")
	stalled := s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonInvalidSpec)
	s.g.Expect(stalled.Message).To(ContainSubstring("spec.template.spec.containers[0].image: Required value"))
}
