package secretshare_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
)

func TestACopyThatSomebodyTouchedIsRepaired(t *testing.T) {
	yes := true
	for name, touch := range map[string]func(*scene, string){
		"edited": func(s *scene, ns string) {
			s.update(ns, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("x") })
		},
		"extended": func(s *scene, ns string) {
			s.update(ns, "shared", func(o *corev1.Secret) { o.Data["more"] = []byte("x") })
		},
		"label stripped": func(s *scene, ns string) { s.update(ns, "shared", func(o *corev1.Secret) { o.Labels = nil }) },
		"deleted": func(s *scene, ns string) {
			s.g.Expect(s.Client.Delete(s.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared"}})).To(Succeed())
		},
		"made immutable": func(s *scene, ns string) {
			s.update(ns, "shared", func(o *corev1.Secret) { o.Immutable = &yes; o.Data["password"] = []byte("x") })
		},
		"deleted and made anew with another type": func(s *scene, ns string) {
			made, err := s.get(ns, "shared")
			s.g.Expect(err).NotTo(HaveOccurred())
			other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: ns, Name: "shared", Labels: made.Labels, Annotations: made.Annotations,
			}, Type: "example.com/other"}
			s.g.Eventually(func() error {
				_ = s.Client.Delete(s.t.Context(), made.DeepCopy())
				return s.Client.Create(s.t.Context(), other.DeepCopy())
			}).Should(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 1)
			s.secret()
			rule := s.share("")
			s.expectServed(rule, 1)
			touch(s, s.targets[0])
			s.g.Eventually(func() string {
				made, err := s.get(s.targets[0], "shared")
				if err != nil || made.Immutable != nil || made.Type != corev1.SecretTypeOpaque || len(made.Data) != 1 {
					return ""
				}
				return string(made.Data["password"]) + made.Labels[share.LabelRuleUID]
			}).Should(Equal("hunter2" + string(rule.UID)))
			s.expectReady(rule)
		})
	}
}

func TestWhatOthersPutOnACopyStays(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	s.share("")
	s.expectCopies(hunter2)
	s.update(s.targets[0], "shared", func(o *corev1.Secret) { o.Labels["theirs"] = "x" })
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
	s.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	made, err := s.get(s.targets[0], "shared")
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(made.Labels).To(HaveKeyWithValue("theirs", "x"))
}

func TestASourceThatChangesInAnyWayIsFollowed(t *testing.T) {
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
		"made anew under the same name": {
			remake(func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") }),
			func(o *corev1.Secret) bool { return string(o.Data["password"]) == "hunter3" },
		},
		"made anew with another type": {
			remake(func(o *corev1.Secret) { o.Type = "example.com/other" }),
			func(o *corev1.Secret) bool { return o.Type == "example.com/other" },
		},
		"immutable, and made anew with another value": {
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
			s.expectServed(rule, 2)
			tc.change(s)
			for _, namespace := range s.targets {
				s.g.Eventually(func() bool {
					made, err := s.get(namespace, "shared")
					return err == nil && tc.check(made)
				}).Should(BeTrue(), "in %s", namespace)
			}
			s.expectReady(rule)
		})
	}
}

// The source is there, and what it lacks may come back.
func TestCopiesStayAsTheyAreWhileTheirSourceLacksAKey(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	rule := s.share("keys: [{from: password}]")
	s.expectServed(rule, 1)
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"other": []byte("x")} })
	s.g.Expect(s.expectNotReady(rule, "KeyNotFound")).To(ContainSubstring(`no key "password"`))
	s.g.Consistently(s.data(s.targets[0], "shared"), "1s").Should(Equal(hunter2))
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data = map[string][]byte{"password": []byte("hunter3")} })
	s.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	s.expectReady(rule)
}

func TestAWholeMegabyteIsCopied(t *testing.T) {
	s := newScene(t, 1)
	big := make([]byte, corev1.MaxSecretSize)
	s.secret(func(o *corev1.Secret) { o.Data = map[string][]byte{"big": big} })
	s.expectReady(s.share(""))
	s.expectCopies(map[string][]byte{"big": big})
}

func TestWhatIsNoLongerWantedGoesOrStays(t *testing.T) {
	for name, tc := range map[string]struct {
		policy string
		stays  bool
	}{
		"Delete": {"deletionPolicy: Delete", false},
		"Retain": {"deletionPolicy: Retain", true},
	} {
		for how, withdraw := range map[string]func(*scene, client.Object){
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
				s.expectServed(rule, 2)
				withdraw(s, rule.DeepCopy())
				for _, namespace := range s.targets {
					if !tc.stays {
						s.expectNone(namespace, "shared")
						continue
					}
					s.g.Eventually(func() map[string]string {
						made, err := s.get(namespace, "shared")
						s.g.Expect(err).NotTo(HaveOccurred())
						return made.Annotations
					}).Should(BeEmpty(), "the marks are gone")
				}
			})
		}
	}
}

func TestASuspendedRuleDoesNothingUntilItGoesOn(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	rule := s.share("")
	s.expectServed(rule, 1)
	s.patch(rule.DeepCopy(), `{"spec":{"suspend":true}}`)
	s.expectNotReady(rule, "Suspended")
	s.update(s.targets[0], "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("x") })
	s.g.Consistently(s.data(s.targets[0], "shared"), "1s").Should(HaveKeyWithValue("password", []byte("x")))
	s.patch(rule.DeepCopy(), `{"spec":{"suspend":false}}`)
	s.expectReady(rule)
	s.expectCopies(hunter2)
}
