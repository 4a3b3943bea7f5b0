package secretshare_test

import (
	"context"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// scene is an operator, a source namespace, and target namespaces with a label of this
// test.
type scene struct {
	*cluster.Cluster
	t       *testing.T
	g       *WithT
	source  string
	targets []string
}

// team labels the namespaces of a scene.
const team = "team"

func newScene(t *testing.T, targets int) *scene {
	t.Helper()
	c, _ := cluster.SharedOperator(t)
	s := &scene{Cluster: c, t: t, g: NewWithT(t), source: c.Namespace(t, nil)}
	for range targets {
		s.addTarget()
	}
	return s
}

func (s *scene) addTarget() string {
	s.t.Helper()
	name := s.Namespace(s.t, map[string]string{team: s.source})
	s.targets = append(s.targets, name)
	return name
}

// selected returns the targets of a spec: the scene's target namespaces.
func (s *scene) selected() string {
	return "targets: {namespaceSelector: {matchLabels: {" + team + ": " + s.source + "}}}"
}

// share creates a ClusterSecretShare of the Secret "shared", with more fields of a spec.
func (s *scene) share(more string) *v1alpha1.ClusterSecretShare {
	s.t.Helper()
	return s.shareOf("names: [shared]", more)
}

func (s *scene) shareOf(source, more string) *v1alpha1.ClusterSecretShare {
	s.t.Helper()
	if !strings.Contains(more, "sourceDeletionGraceSeconds") {
		more += "\nsourceDeletionGraceSeconds: 0"
	}
	spec := "source: {namespace: " + s.source + ", " + source + "}\n" + s.selected() + "\n" + more
	s.g.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, "ClusterSecretShare", "", s.source, spec))).To(Succeed())
	rule := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: s.source}}
	s.t.Cleanup(func() { _ = s.Client.Delete(context.Background(), rule.DeepCopy()) })
	return rule
}

// secret creates a Secret in the source namespace.
func (s *scene) secret(change ...func(*corev1.Secret)) *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: "shared"},
		Data:       map[string][]byte{"password": []byte("hunter2")},
	}
	for _, f := range change {
		f(secret)
	}
	s.g.Expect(s.Client.Create(s.t.Context(), secret)).To(Succeed())
	return secret
}

func (s *scene) get(namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret)
}

// update changes a Secret. It retries if others write it at the same time.
func (s *scene) update(namespace, name string, change func(*corev1.Secret)) {
	s.t.Helper()
	s.g.Eventually(func() error {
		secret, err := s.get(namespace, name)
		if err != nil {
			return err
		}
		change(secret)
		return s.Client.Update(s.t.Context(), secret)
	}).Should(Succeed())
}

func (s *scene) patch(o client.Object, patch string) {
	s.t.Helper()
	s.g.Expect(s.Client.Patch(s.t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

// data returns the data of a Secret, or nil if it does not exist.
func (s *scene) data(namespace, name string) func() map[string][]byte {
	return func() map[string][]byte {
		secret, err := s.get(namespace, name)
		if err != nil {
			return nil
		}
		return secret.Data
	}
}

func (s *scene) expectCopies(data map[string][]byte) {
	s.t.Helper()
	for _, namespace := range s.targets {
		s.g.Eventually(s.data(namespace, "shared")).Should(Equal(data), "in %s", namespace)
	}
}

func (s *scene) expectNone(namespace, name string) {
	s.t.Helper()
	s.g.Eventually(func() bool { _, err := s.get(namespace, name); return apierrors.IsNotFound(err) }).Should(BeTrue(), "a copy still exists")
}

// ready returns the Ready condition of the rule's present generation.
func (s *scene) ready(rule secretshare.Object) func() metav1.Condition {
	return func() metav1.Condition {
		if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
			return metav1.Condition{}
		}
		c := meta.FindStatusCondition(rule.ShareStatus().Conditions, v1alpha1.ConditionReady)
		if c == nil || c.ObservedGeneration != rule.GetGeneration() {
			return metav1.Condition{}
		}
		return *c
	}
}

func (s *scene) expectReady(rule secretshare.Object) {
	s.t.Helper()
	s.g.Eventually(s.ready(rule)).Should(HaveField("Status", metav1.ConditionTrue))
}

func (s *scene) expectNotReady(rule secretshare.Object, reason string) string {
	s.t.Helper()
	var got metav1.Condition
	s.g.Eventually(func() metav1.Condition { got = s.ready(rule)(); return got }).
		Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", reason)))
	return got.Message
}

var hunter2 = map[string][]byte{"password": []byte("hunter2")}

func TestASecretIsCopiedToEveryTarget(t *testing.T) {
	s := newScene(t, 3)
	rule := s.share("")
	s.expectNotReady(rule, v1alpha1.ReasonSourceNotFound)
	s.secret(func(o *corev1.Secret) { o.Type = "example.com/kind" })
	s.expectCopies(hunter2)
	s.expectSynced(rule, 3)
	s.g.Expect(rule.Status).To(HaveField("Sources", int32(1)))

	s.addTarget()
	s.expectCopies(hunter2)
	copied, err := s.get(s.targets[3], "shared")
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(copied.Type).To(BeEquivalentTo("example.com/kind"))

	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
	s.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	source, err := s.get(s.source, "shared")
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(s.Client.Delete(t.Context(), source)).To(Succeed())
	for _, namespace := range s.targets {
		s.expectNone(namespace, "shared")
	}
	s.expectNotReady(rule, v1alpha1.ReasonSourceNotFound)
}

func TestAMissingSourceIsReportedAndTheOthersAreCopied(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	rule := s.shareOf("names: [shared, absent]", "")
	s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonSourceNotFound)).To(ContainSubstring("the name absent in namespace " + s.source))
	s.expectCopies(hunter2)
	s.ExpectWarning(t, rule, v1alpha1.ReasonSourceNotFound, "clustersecretshare-controller")
	s.secret(func(o *corev1.Secret) { o.Name = "absent" })
	s.expectSynced(rule, 2)
}

func TestAModifiedCopyIsRepaired(t *testing.T) {
	yes := true
	for name, edit := range map[string]func(*scene, string){
		"edited": func(s *scene, ns string) {
			s.update(ns, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("x") })
		},
		"key added": func(s *scene, ns string) {
			s.update(ns, "shared", func(o *corev1.Secret) { o.Data["more"] = []byte("x") })
		},
		"label removed": func(s *scene, ns string) { s.update(ns, "shared", func(o *corev1.Secret) { o.Labels = nil }) },
		"deleted": func(s *scene, ns string) {
			s.g.Expect(s.Client.Delete(s.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared"}})).To(Succeed())
		},
		"made immutable": func(s *scene, ns string) {
			s.update(ns, "shared", func(o *corev1.Secret) { o.Immutable = &yes; o.Data["password"] = []byte("x") })
		},
		"recreated with another type": func(s *scene, ns string) {
			copied, err := s.get(ns, "shared")
			s.g.Expect(err).NotTo(HaveOccurred())
			other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: ns, Name: "shared", Labels: copied.Labels, Annotations: copied.Annotations,
			}, Type: "example.com/other"}
			s.g.Eventually(func() error {
				_ = s.Client.Delete(s.t.Context(), copied.DeepCopy())
				return s.Client.Create(s.t.Context(), other.DeepCopy())
			}).Should(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 1)
			s.secret()
			rule := s.share("")
			s.expectSynced(rule, 1)
			edit(s, s.targets[0])
			s.g.Eventually(func() string {
				copied, err := s.get(s.targets[0], "shared")
				if err != nil || copied.Immutable != nil || copied.Type != corev1.SecretTypeOpaque || len(copied.Data) != 1 {
					return ""
				}
				return string(copied.Data["password"]) + copied.Labels[share.LabelRuleUID]
			}).Should(Equal("hunter2" + string(rule.UID)))
			s.expectReady(rule)
		})
	}
}

func TestLabelsThatOthersAddToACopyAreKept(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	s.share("")
	s.expectCopies(hunter2)
	s.update(s.targets[0], "shared", func(o *corev1.Secret) { o.Labels["theirs"] = "x" })
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
	s.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	copied, err := s.get(s.targets[0], "shared")
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(copied.Labels).To(HaveKeyWithValue("theirs", "x"))
}

func TestCopiesFollowEveryChangeOfTheirSource(t *testing.T) {
	yes := true
	remake := func(change func(*corev1.Secret)) func(*scene) {
		return func(s *scene) {
			s.g.Expect(s.Client.Delete(s.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: "shared"}})).To(Succeed())
			s.secret(change)
		}
	}
	for name, tc := range map[string]struct {
		change func(*scene)
		check  func(*corev1.Secret) bool
	}{
		"made immutable": {
			func(s *scene) { s.update(s.source, "shared", func(o *corev1.Secret) { o.Immutable = &yes }) },
			func(o *corev1.Secret) bool { return o.Immutable != nil && *o.Immutable },
		},
		"a key removed": {
			func(s *scene) {
				s.update(s.source, "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"other": []byte("x")} })
			},
			func(o *corev1.Secret) bool { return len(o.Data) == 1 && string(o.Data["other"]) == "x" },
		},
		"recreated": {
			remake(func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") }),
			func(o *corev1.Secret) bool { return string(o.Data["password"]) == "hunter3" },
		},
		"recreated with another type": {
			remake(func(o *corev1.Secret) { o.Type = "example.com/other" }),
			func(o *corev1.Secret) bool { return o.Type == "example.com/other" },
		},
		"immutable, and recreated with another value": {
			func(s *scene) {
				s.update(s.source, "shared", func(o *corev1.Secret) { o.Immutable = &yes })
				remake(func(o *corev1.Secret) { o.Immutable = &yes; o.Data["password"] = []byte("hunter3") })(s)
			},
			func(o *corev1.Secret) bool { return string(o.Data["password"]) == "hunter3" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 2)
			s.secret()
			rule := s.share("")
			s.expectSynced(rule, 2)
			tc.change(s)
			for _, namespace := range s.targets {
				s.g.Eventually(func() bool {
					copied, err := s.get(namespace, "shared")
					return err == nil && tc.check(copied)
				}).Should(BeTrue(), "in %s", namespace)
			}
			s.expectReady(rule)
		})
	}
}

// The source exists, and the key may be added again.
func TestCopiesStayAsTheyAreWhileTheirSourceLacksAKey(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	rule := s.share("keys: [{from: password}]")
	s.expectSynced(rule, 1)
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"other": []byte("x")} })
	s.g.Expect(s.expectNotReady(rule, "KeyNotFound")).To(ContainSubstring(`no key "password"`))
	s.g.Consistently(s.data(s.targets[0], "shared"), "1s").Should(Equal(hunter2))
	s.ready(rule)()
	s.g.Expect(rule.Status).To(And(HaveField("Sources", int32(1)), HaveField("Desired", int32(1)), HaveField("Synced", int32(0))))
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"password": []byte("hunter3")} })
	s.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	s.expectReady(rule)
}

func TestASecretOfMaximumSizeIsCopied(t *testing.T) {
	s := newScene(t, 1)
	big := make([]byte, corev1.MaxSecretSize)
	s.secret(func(o *corev1.Secret) { o.Data = map[string][]byte{"big": big} })
	s.expectReady(s.share(""))
	s.expectCopies(map[string][]byte{"big": big})
}

func TestTheDeletionPolicyDecidesWhatHappensToUnwantedCopies(t *testing.T) {
	for name, tc := range map[string]struct {
		policy string
		kept   bool
	}{
		"Delete": {"deletionPolicy: Delete", false},
		"Retain": {"deletionPolicy: Retain", true},
	} {
		for how, change := range map[string]func(*scene, client.Object){
			"the rule is deleted":        func(s *scene, rule client.Object) { s.g.Expect(s.Client.Delete(s.t.Context(), rule)).To(Succeed()) },
			"the rule is narrowed":       func(s *scene, rule client.Object) { s.patch(rule, `{"spec":{"targets":{"names":["nowhere"]}}}`) },
			"another Secret is selected": func(s *scene, rule client.Object) { s.patch(rule, `{"spec":{"source":{"names":["other"]}}}`) },
			"the namespace is deselected": func(s *scene, _ client.Object) {
				for _, namespace := range s.targets {
					s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, `{"metadata":{"labels":{"team":null}}}`)
				}
			},
			"the source is deleted": func(s *scene, _ client.Object) {
				s.g.Expect(s.Client.Delete(s.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: "shared"}})).To(Succeed())
			},
		} {
			t.Run(name+" when "+how, func(t *testing.T) {
				s := newScene(t, 2)
				s.secret()
				rule := s.share(tc.policy)
				s.expectSynced(rule, 2)
				change(s, rule.DeepCopy())
				for _, namespace := range s.targets {
					if !tc.kept {
						s.expectNone(namespace, "shared")
						continue
					}
					s.g.Eventually(func() map[string]string {
						copied, err := s.get(namespace, "shared")
						s.g.Expect(err).NotTo(HaveOccurred())
						return copied.Annotations
					}).Should(Equal(map[string]string{share.AnnotationReleasedBy: "ClusterSecretShare/" + s.source}), "the copy still has annotations")
				}
			})
		}
	}
}

func TestASuspendedRuleDoesNothingUntilItIsResumed(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	rule := s.share("")
	s.expectSynced(rule, 1)
	s.patch(rule.DeepCopy(), `{"spec":{"suspend":true}}`)
	s.ExpectSuspended(t, rule, v1alpha1.StateSuspended)
	s.update(s.targets[0], "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("x") })
	s.g.Consistently(s.data(s.targets[0], "shared"), "1s").Should(HaveKeyWithValue("password", []byte("x")))
	s.patch(rule.DeepCopy(), `{"spec":{"suspend":false}}`)
	s.expectReady(rule)
	s.expectCopies(hunter2)
}
