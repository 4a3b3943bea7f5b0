package alarms_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

const controller = "alarm-controller"

// scene is a namespace with a receiver that is well, "ops", and an operator.
type scene struct {
	*cluster.Cluster
	operator  *cluster.Operator
	t         *testing.T
	namespace string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	c, o := cluster.SharedOperator(t)
	s := &scene{Cluster: c, operator: o, t: t, namespace: c.Namespace(t, nil)}
	s.create("AlarmReceiver", "ops", "log: {}")
	return s
}

// create creates an object in the scene's namespace.
func (s *scene) create(kind, name, spec string) {
	s.t.Helper()
	namespace := s.namespace
	if kind == "ClusterAlarm" || kind == "ClusterAlarmReceiver" {
		namespace = ""
	}
	o := cluster.Manifest(s.t, kind, namespace, name, spec)
	NewWithT(s.t).Expect(s.Client.Create(s.t.Context(), o)).To(Succeed())
	if namespace == "" {
		s.t.Cleanup(func() { _ = s.Client.Delete(context.Background(), o) })
	}
}

// patch changes an object by a JSON merge patch.
func (s *scene) patch(o client.Object, patch string) {
	s.t.Helper()
	raw := client.RawPatch("application/merge-patch+json", []byte(patch))
	NewWithT(s.t).Expect(s.Client.Patch(s.t.Context(), o, raw)).To(Succeed())
}

func (s *scene) alarm(name string) *v1alpha1.Alarm {
	return &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

func (s *scene) clusterReceiver() *v1alpha1.ClusterAlarmReceiver {
	return &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
}

func TestAnAlarmInForceHintsAtWordsThatProbablyMatchNothing(t *testing.T) {
	s, g := newScene(t), NewWithT(t)
	s.create("Alarm", "it", "match: [{kinds: [Pods], reasons: [OOMKilled]}]"+tail)
	s.ExpectReady(t, s.alarm("it"))
	message := func() string { return s.Ready(t.Context(), s.alarm("it")).Message }
	g.Expect(message()).To(Equal("in force; spec.match[0].kinds: the cluster has no kind Pods: did you mean Pod; " +
		"spec.match[0].reasons: Kubernetes emits no Event with the reason OOMKilled: match BackOff, and use object.cause to find out why the container ended"))
	s.patch(s.alarm("it"), `{"spec":{"match":[{"kinds":["Pod"],"reasons":["BackOff"]}]}}`)
	g.Eventually(message).Should(Equal("in force"))
}

// Alarms that wait for something else to heal match nothing: or they would be
// looked at again because their counts change.
func TestAProblemOfAnAlarmIsReportedUntilItIsCorrected(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*scene)
		spec    func(*scene) string
		reason  string
		message string
		heal    func(*scene)
	}{
		"an expression that does not compile": {
			spec:    func(*scene) string { return `match: [{expression: "count > 3"}]` + tail },
			reason:  v1alpha1.ReasonInvalidExpression,
			message: "spec.match[0].expression is invalid at column 1: undeclared reference to 'count': use event.count instead of count",
			heal:    func(s *scene) { s.patch(s.alarm("it"), `{"spec":{"match":[{"expression":"event.count > 3"}]}}`) },
		},
		"a template that does not compile": {
			spec:    func(*scene) string { return "match: [{}]\nmessage: {title: \"${event.cuont}\"}" + tail },
			reason:  v1alpha1.ReasonInvalidExpression,
			message: "spec.message.title is invalid at column 8: undefined field 'cuont'",
			heal:    func(s *scene) { s.patch(s.alarm("it"), `{"spec":{"message":{"title":"${event.count}"}}}`) },
		},
		"a selector with an unknown operator": {
			spec: func(*scene) string {
				return `match: [{objectSelector: {matchExpressions: [{key: app, operator: Like}]}}]` + tail
			},
			reason:  v1alpha1.ReasonInvalidMatch,
			message: "spec.match[0].objectSelector",
			heal:    func(s *scene) { s.patch(s.alarm("it"), `{"spec":{"match":[{}]}}`) },
		},
		"a kind without a namespace": {
			spec:    func(*scene) string { return "match: [{reasons: [Never]}, {kinds: [Pod, Node]}]" + tail },
			reason:  v1alpha1.ReasonInvalidMatch,
			message: "spec.match[1].kinds is invalid: a Node has no namespace, and an Alarm matches only Events about objects of its namespace: use a ClusterAlarm",
			heal:    func(s *scene) { s.patch(s.alarm("it"), `{"spec":{"match":[{"kinds":["Pod"]}]}}`) },
		},
		"a time zone that does not exist": {
			spec: func(*scene) string {
				return "match: [{}]\nmute: [{timeZone: Asia/Soul, times: [{start: '22:00', end: '06:00'}]}]" + tail
			},
			reason:  v1alpha1.ReasonInvalidMute,
			message: `spec.mute[0].timeZone is invalid: unknown time zone "Asia/Soul": use a name of the IANA database`,
			heal: func(s *scene) {
				s.patch(s.alarm("it"), `{"spec":{"mute":[{"timeZone":"Asia/Seoul","months":[{"start":2}]}]}}`)
			},
		},
		"the same mute twice": {
			spec: func(*scene) string {
				return "match: [{}]\nmute: [{months: [{start: 1}]}, {months: [{start: 1}]}]" + tail
			},
			reason:  v1alpha1.ReasonInvalidMute,
			message: "spec.mute[1] is invalid: duplicate of spec.mute[0]",
			heal:    func(s *scene) { s.patch(s.alarm("it"), `{"spec":{"mute":[]}}`) },
		},
		"a mistake, and a receiver that does not exist": {
			spec: func(*scene) string {
				return "match: [{}]\nmute: [{months: [{start: 1}]}, {months: [{start: 1}]}]\nreceivers: [{name: later}]"
			},
			reason:  v1alpha1.ReasonInvalidMute,
			message: "spec.mute[1] is invalid: duplicate of spec.mute[0]",
			heal: func(s *scene) {
				s.create("AlarmReceiver", "later", "log: {}")
				s.patch(s.alarm("it"), `{"spec":{"mute":[]}}`)
			},
		},
		"a receiver that does not exist": {
			spec:    func(*scene) string { return "match: [{reasons: [Never]}]\nreceivers: [{name: later}]" },
			reason:  v1alpha1.ReasonReceiverNotFound,
			message: "AlarmReceiver later does not exist",
			heal:    func(s *scene) { s.create("AlarmReceiver", "later", "log: {}") },
		},
		"a ClusterAlarmReceiver that allows no namespace": {
			prepare: func(s *scene) { s.create("ClusterAlarmReceiver", s.namespace, "log: {}") },
			spec: func(s *scene) string {
				return "match: [{reasons: [Never]}]\nreceivers: [{kind: ClusterAlarmReceiver, name: " + s.namespace + "}]"
			},
			reason:  v1alpha1.ReasonReceiverNotFound,
			message: "spec.allowedNamespaces",
			heal:    func(s *scene) { s.patch(s.clusterReceiver(), `{"spec":{"allowedNamespaces":{}}}`) },
		},
		"a namespace without the label that a receiver asks for": {
			prepare: func(s *scene) {
				s.create("ClusterAlarmReceiver", s.namespace, "log: {}\nallowedNamespaces: {matchLabels: {team: a}}")
			},
			spec: func(s *scene) string {
				return "match: [{reasons: [Never]}]\nreceivers: [{kind: ClusterAlarmReceiver, name: " + s.namespace + "}]"
			},
			reason:  v1alpha1.ReasonReceiverNotFound,
			message: "does not allow Alarms of namespace test-",
			heal: func(s *scene) {
				s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, `{"metadata":{"labels":{"team":"a"}}}`)
			},
		},
		"a receiver that is not ready": {
			prepare: func(s *scene) { s.create("AlarmReceiver", "slack", "slack: {webhookURLSecretRef: {name: hook}}") },
			spec:    func(*scene) string { return "match: [{reasons: [Never]}]\nreceivers: [{name: slack}]" },
			reason:  v1alpha1.ReasonReceiverNotReady,
			message: "AlarmReceiver slack is not ready (SecretNotFound)",
			heal: func(s *scene) {
				NewWithT(s.t).Expect(s.Client.Create(s.t.Context(), &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hook"},
					StringData: map[string]string{"url": "https://hooks.slack.com/services/a/b/c"},
				})).To(Succeed())
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if tc.prepare != nil {
				tc.prepare(s)
			}
			s.create("Alarm", "it", tc.spec(s))
			message := s.ExpectNotReady(t, s.alarm("it"), tc.reason)
			NewWithT(t).Expect(message).To(ContainSubstring(tc.message))
			wrong := s.alarm("it")
			s.Ready(t.Context(), wrong)
			s.ExpectWarning(t, wrong, tc.reason, controller)

			tc.heal(s)
			s.ExpectReady(t, s.alarm("it"))
			NewWithT(t).Eventually(func() int { return len(s.EventsOn(t.Context(), wrong, v1alpha1.ReasonRecovered)) }).Should(Equal(1))
		})
	}
}

func TestAnAlarmDoesNotTellWhichClusterAlarmReceiversExist(t *testing.T) {
	s := newScene(t)
	s.create("ClusterAlarmReceiver", s.namespace, "log: {}")
	message := func(alarm, receiver string) string {
		s.create("Alarm", alarm, "match: [{reasons: [Never]}]\nreceivers: [{kind: ClusterAlarmReceiver, name: "+receiver+"}]")
		return strings.ReplaceAll(s.ExpectNotReady(t, s.alarm(alarm), v1alpha1.ReasonReceiverNotFound), receiver, "NAME")
	}
	absent := "no-" + s.namespace
	if diff := cmp.Diff(strings.ReplaceAll(message("a", absent), s.namespace, "NAME"), message("b", s.namespace)); diff != "" {
		t.Error(diff)
	}
}

func TestAnAlarmNamesAllReceiversThatItCannotUse(t *testing.T) {
	s := newScene(t)
	s.create("ClusterAlarmReceiver", s.namespace, "log: {}")
	s.create("AlarmReceiver", "good", "log: {}")
	s.create("AlarmReceiver", "slack", "slack: {webhookURLSecretRef: {name: hook}}")
	s.ExpectNotReady(t, &v1alpha1.AlarmReceiver{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "slack"}}, v1alpha1.ReasonSecretNotFound)
	s.create("Alarm", "it", `match: [{reasons: [Never]}]
receivers: [{name: a}, {name: good}, {name: b}, {name: a}, {name: b}, {name: slack}, {kind: ClusterAlarmReceiver, name: `+s.namespace+`}, {name: c}, {name: d}]`)
	const want = "AlarmReceiver a does not exist: create it, or correct spec.receivers; also correct " +
		"AlarmReceiver b (ReceiverNotFound), AlarmReceiver slack (SecretNotFound), ClusterAlarmReceiver %s (ReceiverNotFound), " +
		"AlarmReceiver c (ReceiverNotFound), AlarmReceiver d (ReceiverNotFound)"
	NewWithT(t).Expect(s.ExpectNotReady(t, s.alarm("it"), v1alpha1.ReasonReceiverNotFound)).To(Equal(fmt.Sprintf(want, s.namespace)))
}

func TestAClusterAlarmThatSelectsNamespacesMatchesNoNode(t *testing.T) {
	s := newScene(t)
	s.create("ClusterAlarmReceiver", s.namespace, "log: {}")
	s.create("ClusterAlarm", s.namespace, "match: [{kinds: [Node], names: [never]}]\nreceivers: [{name: "+s.namespace+"}]\nnamespaceSelector: {matchLabels: {a: b}}")
	it := &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	const want = "spec.match[0].kinds is invalid: a Node has no namespace, so spec.namespaces and spec.namespaceSelector never select its Events: use another ClusterAlarm without them"
	NewWithT(t).Expect(s.ExpectNotReady(t, it, v1alpha1.ReasonInvalidMatch)).To(Equal(want))
	s.patch(it, `{"spec":{"namespaceSelector":null}}`)
	s.ExpectReady(t, it)
}

// Tenants cannot read ClusterAlarmReceivers, so that their Alarms do not show more than the reason.
func TestAClusterAlarmShowsWhyItsReceiverIsNotReady(t *testing.T) {
	s := newScene(t)
	s.create("ClusterAlarmReceiver", s.namespace, "allowedNamespaces: {}\nslack: {webhookURLSecretRef: {namespace: "+s.namespace+", name: hook, key: url}}")
	s.ExpectNotReady(t, s.clusterReceiver(), v1alpha1.ReasonSecretNotFound)
	s.create("ClusterAlarm", s.namespace, "match: [{reasons: [Never]}]\nreceivers: [{name: "+s.namespace+"}]")
	s.create("Alarm", "it", "match: [{reasons: [Never]}]\nreceivers: [{kind: ClusterAlarmReceiver, name: "+s.namespace+"}]")
	g, prefix := NewWithT(t), "ClusterAlarmReceiver "+s.namespace+" is not ready (SecretNotFound)"
	ofCluster := &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	g.Expect(s.ExpectNotReady(t, ofCluster, v1alpha1.ReasonReceiverNotReady)).To(HavePrefix(prefix + ": Secret "))
	g.Expect(s.ExpectNotReady(t, s.alarm("it"), v1alpha1.ReasonReceiverNotReady)).To(Equal(prefix + ": ask an administrator, who can read why"))
}

func TestASuspendedAlarmHasNoWarning(t *testing.T) {
	s := newScene(t)
	s.create("Alarm", "it", "suspend: true\nmatch: [{}]"+tail)
	s.ExpectSuspended(t, s.alarm("it"), v1alpha1.StateSuspended)
	s.patch(s.alarm("it"), `{"spec":{"suspend":false}}`)
	it := s.alarm("it")
	s.ExpectReady(t, it)
	NewWithT(t).Expect(s.EventsOn(t.Context(), it, v1alpha1.ReasonSuspended)).To(BeEmpty())
}

// happen creates an Event in the scene's namespace.
func (s *scene) happen(name string) {
	s.t.Helper()
	NewWithT(s.t).Expect(s.Client.Create(s.t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.namespace, Name: "web-0"},
		Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: name, Count: 1,
	})).To(Succeed())
}

func (s *scene) delivered(name string) func() int64 {
	return func() int64 {
		a := s.alarm(name)
		_ = s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(a), a)
		return a.Status.Delivered
	}
}

func TestAnInvalidAlarmDoesNotAffectOthers(t *testing.T) {
	s := newScene(t)
	s.create("Alarm", "right", "match: [{reasons: [BackOff]}]"+tail)
	s.create("Alarm", "wrong", `match: [{expression: "event.cuont > 3"}]`+tail)
	s.create("Alarm", "failing", `match: [{expression: "event.regarding.name.split('x')[7] == ''"}]`+tail)
	s.ExpectReady(t, s.alarm("right"))
	s.ExpectReady(t, s.alarm("failing"))
	s.ExpectNotReady(t, s.alarm("wrong"), v1alpha1.ReasonInvalidExpression)

	s.happen("first")
	g := NewWithT(t)
	g.Eventually(s.delivered("right")).Should(BeEquivalentTo(1))
	failing := s.alarm("failing")
	s.Ready(t.Context(), failing)
	s.ExpectWarning(t, failing, v1alpha1.ReasonExpressionFailed, controller)

	s.patch(s.alarm("wrong"), `{"spec":{"match":[{"reasons":["BackOff"]}]}}`)
	s.ExpectReady(t, s.alarm("wrong"))
	s.happen("second")
	g.Eventually(s.delivered("right")).Should(BeEquivalentTo(2))
	g.Eventually(s.delivered("wrong")).Should(BeEquivalentTo(1), "only what happened since it was corrected")
}
