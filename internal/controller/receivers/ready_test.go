package receivers_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

const goodURL = "https://hooks.slack.com/services/a/b/c"

// scene is a namespace, a sink, and an operator.
type scene struct {
	*cluster.Cluster
	t         *testing.T
	sink      *sink.Sink
	namespace string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	c, _ := cluster.SharedOperator(t)
	return &scene{Cluster: c, t: t, sink: sink.New(t), namespace: c.Namespace(t, nil)}
}

func (s *scene) create(kind, name, spec string) {
	s.t.Helper()
	namespace := s.namespace
	if strings.HasPrefix(kind, "Cluster") {
		namespace = ""
	}
	o := cluster.Manifest(s.t, kind, namespace, name, spec)
	NewWithT(s.t).Expect(s.Client.Create(s.t.Context(), o)).To(Succeed())
	s.t.Cleanup(func() { _ = s.Client.Delete(context.Background(), o) })
}

// secret sets a Secret's only entry.
func (s *scene) secret(key, value string) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hook"}}
	g := NewWithT(s.t)
	g.Expect(client.IgnoreNotFound(s.Client.Delete(s.t.Context(), secret.DeepCopy()))).To(Succeed())
	secret.StringData = map[string]string{key: value}
	g.Expect(s.Client.Create(s.t.Context(), secret)).To(Succeed())
}

func (s *scene) patch(o client.Object, patch string) {
	s.t.Helper()
	raw := client.RawPatch("application/merge-patch+json", []byte(patch))
	NewWithT(s.t).Expect(s.Client.Patch(s.t.Context(), o, raw)).To(Succeed())
}

func (s *scene) receiver() *v1alpha1.AlarmReceiver {
	return &v1alpha1.AlarmReceiver{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "it"}}
}

// certificate is one in PEM.
func certificate(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

const slackSpec = "slack: {webhookURLSecretRef: {name: hook}}"

func TestAProblemOfAReceiverIsReportedUntilItIsCorrected(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*scene)
		spec    string
		reason  string
		message string
		heal    func(*scene)
	}{
		"a Secret that does not exist": {
			spec: slackSpec, reason: v1alpha1.ReasonSecretNotFound, message: "/hook does not exist",
			heal: func(s *scene) { s.secret("url", goodURL) },
		},
		"a Secret without the key": {
			prepare: func(s *scene) { s.secret("link", goodURL) },
			spec:    slackSpec, reason: v1alpha1.ReasonSecretNotFound, message: `/hook has no key "url"`,
			heal: func(s *scene) { s.secret("url", goodURL) },
		},
		"a Secret that holds no URL": {
			prepare: func(s *scene) { s.secret("url", "hunter2 is no URL") },
			spec:    slackSpec, reason: v1alpha1.ReasonInvalidSecret, message: "/hook: ",
			heal: func(s *scene) { s.secret("url", goodURL) },
		},
		"headers that cannot be": {
			prepare: func(s *scene) { s.secret("Host", "hunter2") },
			spec:    "webhook: {url: https://a.example, headersSecretRef: {name: hook}}",
			reason:  v1alpha1.ReasonInvalidSecret, message: "the header Host cannot be set: remove it",
			heal: func(s *scene) { s.secret("Authorization", "hunter2") },
		},
		"authorities that are none": {
			prepare: func(s *scene) { s.secret("ca.crt", "hunter2") },
			spec:    "webhook: {url: https://a.example, caSecretRef: {name: hook, key: ca.crt}}",
			reason:  v1alpha1.ReasonInvalidSecret, message: `/hook: the key "ca.crt" holds no certificate in PEM`,
			heal: func(s *scene) { s.secret("ca.crt", certificate(s.t)) },
		},
		"a signing key that is too short": {
			prepare: func(s *scene) { s.secret("key", "hunter2") },
			spec:    "webhook: {url: https://a.example, signingKeySecretRef: {name: hook, key: key}}",
			reason:  v1alpha1.ReasonInvalidSecret, message: "/hook: the signing key must be 24 to 64 random bytes",
			heal: func(s *scene) { s.secret("key", strings.Repeat("A", 32)) },
		},
		"a token that is none": {
			prepare: func(s *scene) { s.secret("token", "hunter2") },
			spec:    "telegram: {chatID: '1', tokenSecretRef: {name: hook, key: token}}",
			reason:  v1alpha1.ReasonInvalidSecret, message: "/hook: the value is not a bot token: use the one",
			heal: func(s *scene) { s.secret("token", "1:hunter2") },
		},
		"a bot's token that is none": {
			prepare: func(s *scene) { s.secret("token", "hunter2") },
			spec:    "slack: {channel: C0123, tokenSecretRef: {name: hook, key: token}}",
			reason:  v1alpha1.ReasonInvalidSecret, message: "/hook: the value is not a bot token: use the one",
			heal: func(s *scene) { s.secret("token", "xoxb-hunter2") },
		},
		"an integration key that is none": {
			prepare: func(s *scene) { s.secret("key", "hunter2") },
			spec:    "pagerDuty: {routingKeySecretRef: {name: hook, key: key}}",
			reason:  v1alpha1.ReasonInvalidSecret, message: "/hook: the value is not an integration key: use the one",
			heal: func(s *scene) { s.secret("key", strings.Repeat("a", 32)) },
		},
		"a password without a user": {
			prepare: func(s *scene) { s.secret("password", "hunter2") },
			spec:    "email: {host: a.example, from: a@a.example, to: [b@a.example], credentialsSecretRef: {name: hook}}",
			reason:  v1alpha1.ReasonInvalidSecret, message: "/hook must have the keys username and password",
			heal: func(s *scene) {
				s.patch(s.receiver(), `{"spec":{"email":{"credentialsSecretRef":null}}}`)
			},
		},
		"a body that is no JSON": {
			spec:   `webhook: {url: 'https://a.example', body: '{"text": ${message.title}'}`,
			reason: v1alpha1.ReasonInvalidExpression, message: "spec.webhook.body is invalid at column 25: not JSON: unexpected end of JSON input: correct it",
			heal: func(s *scene) { s.patch(s.receiver(), `{"spec":{"webhook":{"body":"{\"text\": ${message.title}}"}}}`) },
		},
		"a header that the Secret has too": {
			prepare: func(s *scene) { s.secret("X-Team", "hunter2") },
			spec:    "webhook: {url: 'https://a.example', headers: [{name: X-Team, value: shop}], headersSecretRef: {name: hook}}",
			reason:  v1alpha1.ReasonInvalidSecret, message: "spec.webhook.headers: the Secret of headersSecretRef contains the header X-Team too: remove one",
			heal: func(s *scene) { s.secret("Authorization", "hunter2") },
		},
		"a mail server on a private address": {
			spec:   "email: {host: 10.0.0.1, from: a@a.example, to: [b@a.example]}",
			reason: v1alpha1.ReasonAddressNotAllowed, message: "ask an administrator to allow the range",
			heal: func(s *scene) { s.patch(s.receiver(), `{"spec":{"email":{"host":"a.example"}}}`) },
		},
		"an Alertmanager on a private address": {
			spec:   "alertmanager: {url: 'http://10.0.0.1:9093'}",
			reason: v1alpha1.ReasonAddressNotAllowed, message: "ask an administrator to allow the range",
			heal: func(s *scene) { s.patch(s.receiver(), `{"spec":{"alertmanager":{"url":"https://a.example"}}}`) },
		},
		"a loopback address": {
			spec:   "webhook: {url: 'http://127.0.0.1:1/'}",
			reason: v1alpha1.ReasonAddressNotAllowed, message: "ask an administrator to allow the range",
			heal: func(s *scene) { s.patch(s.receiver(), `{"spec":{"webhook":{"url":"https://a.example"}}}`) },
		},
		"a loopback address in a Secret": {
			prepare: func(s *scene) { s.secret("url", "http://[::ffff:127.0.0.1]:1/hunter2") },
			spec:    slackSpec, reason: v1alpha1.ReasonAddressNotAllowed, message: "ask an administrator to allow the range",
			heal: func(s *scene) { s.secret("url", goodURL) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, g := newScene(t), NewWithT(t)
			if tc.prepare != nil {
				tc.prepare(s)
			}
			s.create("AlarmReceiver", "it", tc.spec)
			message := s.ExpectNotReady(t, s.receiver(), tc.reason)
			g.Expect(message).To(ContainSubstring(tc.message))
			g.Expect(message).NotTo(ContainSubstring("hunter2"), "it is a secret")
			wrong := s.receiver()
			s.Ready(t.Context(), wrong)
			s.ExpectWarning(t, wrong, tc.reason, "alarmreceiver-controller")

			tc.heal(s)
			s.ExpectReady(t, s.receiver())
			g.Eventually(func() int { return len(s.EventsOn(t.Context(), wrong, v1alpha1.ReasonRecovered)) }).Should(Equal(1))
		})
	}
}

// alarm sends all that happens in the namespace to a receiver.
func (s *scene) alarm(receiver string) {
	s.t.Helper()
	s.create("Alarm", "all", "match: [{reasons: [BackOff]}]\nreceivers: [{kind: "+strings.Replace(receiver, "/", ", name: ", 1)+"}]")
	a := &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "all"}}
	s.ExpectReady(s.t, a)
}

func (s *scene) happen() {
	s.t.Helper()
	s.event(s.namespace, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.namespace, Name: "web-0"}, "BackOff")
}

func (s *scene) event(namespace string, regarding corev1.ObjectReference, reason string) {
	s.t.Helper()
	NewWithT(s.t).Expect(s.Client.Create(s.t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, GenerateName: "event-"},
		InvolvedObject: regarding, Type: corev1.EventTypeWarning, Reason: reason, Message: reason, Count: 1,
	})).To(Succeed())
}

func TestANameThatResolvesToALoopbackAddressIsNotReached(t *testing.T) {
	s := newScene(t)
	s.create("AlarmReceiver", "it", "webhook: {url: '"+strings.Replace(s.sink.URL(), "127.0.0.1", "localhost", 1)+"'}")
	s.ExpectReady(t, s.receiver())
	s.alarm("AlarmReceiver/it")
	s.happen()
	s.ExpectNotReady(t, s.receiver(), v1alpha1.ReasonAddressNotAllowed)
	NewWithT(t).Expect(s.sink.Requests()).To(BeEmpty())
}

func TestAFailingReceiverIsReportedAndRecoversWhenItsSecretChanges(t *testing.T) {
	s := newScene(t)
	s.sink.Always(sink.Status(http.StatusForbidden, "invalid_token hunter2"))
	s.secret("Authorization", "hunter2")
	s.create("ClusterAlarmReceiver", s.namespace, "webhook: {url: '"+s.sink.URL()+"', headersSecretRef: {namespace: "+s.namespace+", name: hook}}\nallowedNamespaces: {}")
	receiver := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.ExpectReady(t, receiver)
	s.alarm("ClusterAlarmReceiver/" + s.namespace)
	s.happen()

	message := s.ExpectNotReady(t, receiver, v1alpha1.ReasonDeliveryFailing)
	g := NewWithT(t)
	g.Expect(message).NotTo(Or(ContainSubstring("hunter2"), ContainSubstring("secret")), "it is a secret")
	s.ExpectWarning(t, receiver, v1alpha1.ReasonDeliveryFailing, "clusteralarmreceiver-controller")

	s.sink.Always(sink.Accept())
	s.secret("Authorization", "hunter3")
	s.ExpectReady(t, receiver)
	g.Eventually(s.sink.Accepted).Should(HaveLen(1))
	g.Expect(s.sink.Accepted()[0].Header.Get("Authorization")).To(Equal("hunter3"))
}

func TestAReceiverThatRecoversByItselfIsReadyAgain(t *testing.T) {
	s := newScene(t)
	s.sink.Always(sink.Status(http.StatusInternalServerError, "oops"))
	s.create("ClusterAlarmReceiver", s.namespace, "webhook: {url: '"+s.sink.URL()+"'}\nallowedNamespaces: {}")
	receiver := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.ExpectReady(t, receiver)
	s.alarm("ClusterAlarmReceiver/" + s.namespace)
	s.happen()
	s.ExpectNotReady(t, receiver, v1alpha1.ReasonDeliveryFailing)
	s.sink.Always(sink.Accept())
	// On a busy machine the pause before the next attempt may have grown to 30 s.
	NewWithT(t).Eventually(func() metav1.Condition { return s.Ready(t.Context(), receiver) }).
		WithTimeout(2 * time.Minute).Should(HaveField("Status", metav1.ConditionTrue))
	NewWithT(t).Expect(s.sink.Accepted()).To(HaveLen(1))
}

// The cause of a parked receiver is often corrected elsewhere: a channel is unarchived, or
// a name gets another address. Any write to the receiver or its Secret then causes a
// retry.
func TestAParkedReceiverIsRetriedWhenItOrItsSecretChanges(t *testing.T) {
	for name, touch := range map[string]func(*scene, *v1alpha1.ClusterAlarmReceiver){
		"the Secret, whose values stay": func(s *scene, _ *v1alpha1.ClusterAlarmReceiver) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hook"}}
			s.patch(secret, `{"metadata":{"annotations":{"touched":"true"}}}`)
		},
		"an annotation": func(s *scene, r *v1alpha1.ClusterAlarmReceiver) {
			s.patch(r, `{"metadata":{"annotations":{"touched":"true"}}}`)
		},
		"a field that has nothing to do with the address": func(s *scene, r *v1alpha1.ClusterAlarmReceiver) {
			s.patch(r, `{"spec":{"allowedNamespaces":{"matchLabels":{"kubernetes.io/metadata.name":"`+s.namespace+`"}}}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.sink.Always(sink.Status(http.StatusGone, "channel_is_archived"))
			s.secret("Authorization", "hunter2")
			s.create("ClusterAlarmReceiver", s.namespace, "webhook: {url: '"+s.sink.URL()+"', headersSecretRef: {namespace: "+s.namespace+", name: hook}}\nallowedNamespaces: {}")
			receiver := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
			s.alarm("ClusterAlarmReceiver/" + s.namespace)
			s.happen()
			s.ExpectNotReady(t, receiver, v1alpha1.ReasonDeliveryFailing)
			g := NewWithT(t)
			g.Expect(receiver.Status.NextAttemptTime).NotTo(BeNil())
			g.Expect(receiver.Status.NextAttemptTime.Time).To(BeTemporally("~", time.Now().Add(time.Minute), time.Minute))

			s.sink.Always(sink.Accept())
			touch(s, receiver.DeepCopy())
			s.ExpectReady(t, receiver)
			g.Eventually(s.sink.Accepted).Should(HaveLen(1))
			s.Ready(t.Context(), receiver)
			g.Expect(receiver.Status.NextAttemptTime).To(BeNil())
		})
	}
}

func TestARefusedMessageIsReportedUntilOneIsAccepted(t *testing.T) {
	s := newScene(t)
	s.sink.Script(sink.Status(http.StatusBadRequest, "invalid_payload"))
	s.create("ClusterAlarmReceiver", s.namespace, "webhook: {url: '"+s.sink.URL()+"'}\nallowedNamespaces: {}")
	receiver := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.ExpectReady(t, receiver)
	s.alarm("ClusterAlarmReceiver/" + s.namespace)
	s.happen()
	s.ExpectNotReady(t, receiver, v1alpha1.ReasonDeliveryFailing)
	ready := meta.FindStatusCondition(receiver.Status.Conditions, v1alpha1.ConditionReady)
	if want := "The answer: 'invalid_payload'"; !strings.Contains(ready.Message, want) {
		t.Errorf("Ready has the message %q, want %q in it", ready.Message, want)
	}
	s.ExpectWarning(t, receiver, v1alpha1.ReasonMessageDropped, "clusteralarmreceiver-controller")
	s.happen()
	s.ExpectReady(t, receiver)
}

// largeBody returns the spec of a receiver whose body needs more than half of the memory that
// a namespace may use.
func largeBody() string {
	const expressions, terms = 45, 80
	body := "["
	for range expressions {
		body += "${1" + strings.Repeat("+1", terms) + "},"
	}
	return "webhook: {url: 'https://a.example', body: '" + body + "0]'}"
}

func TestABodyBeyondTheLimitOfMemoryWaits(t *testing.T) {
	s := newScene(t)
	s.create("AlarmReceiver", "it", largeBody())
	first := s.receiver()
	s.ExpectReady(t, first)
	// The older one is admitted, and creation times have whole seconds.
	time.Sleep(time.Until(first.CreationTimestamp.Add(time.Second)))
	s.create("AlarmReceiver", "second", largeBody())
	second := &v1alpha1.AlarmReceiver{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "second"}}
	message := s.ExpectNotReady(t, second, v1alpha1.ReasonOverBudget)
	g := NewWithT(t)
	g.Expect(message).To(ContainSubstring("with those of older AlarmReceivers of the namespace, it needs more than 2 MiB of memory: shorten expressions"))
	s.ExpectReady(t, s.receiver())

	g.Expect(s.Client.Delete(t.Context(), s.receiver())).To(Succeed())
	s.ExpectReady(t, second)
}

// A tenant's Event must not stop the messages of a receiver.
func TestAMessageWhoseBodyFailsIsSentAndReported(t *testing.T) {
	s := newScene(t)
	s.create("ClusterAlarmReceiver", s.namespace, "webhook: {url: '"+s.sink.URL()+`', body: '{"text": "${message.title}", "second": "${message.events[1].note}"}'}`+"\nallowedNamespaces: {}")
	receiver := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.ExpectReady(t, receiver)
	s.alarm("ClusterAlarmReceiver/" + s.namespace)
	s.happen()
	g := NewWithT(t)
	g.Eventually(s.sink.Accepted).Should(HaveLen(1))
	g.Expect(string(s.sink.Accepted()[0].Body)).To(Equal(`{"text": "` + s.namespace + `/web-0: BackOff (Pod)", "second": "<spec.webhook.body: index out of bounds: 1>"}`))
	s.ExpectWarning(t, receiver, v1alpha1.ReasonExpressionFailed, "clusteralarmreceiver-controller")
}

func TestTheOperatorSendsATestMessageForEachNewValueOfTheAnnotation(t *testing.T) {
	s := newScene(t)
	s.create("ClusterAlarmReceiver", s.namespace, "webhook: {url: '"+s.sink.URL()+"'}")
	receiver := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.ExpectReady(t, receiver)
	delivered := func() metav1.ConditionStatus {
		s.Ready(t.Context(), receiver)
		if c := meta.FindStatusCondition(receiver.Status.Conditions, v1alpha1.ConditionDelivered); c != nil {
			return c.Status
		}
		return ""
	}
	g := NewWithT(t)
	g.Expect(delivered()).To(Equal(metav1.ConditionUnknown))

	s.patch(receiver.DeepCopy(), `{"metadata":{"annotations":{"bongsu.io/send-test":"1"}}}`)
	g.Eventually(delivered).Should(Equal(metav1.ConditionTrue))
	g.Expect(receiver.Status.HandledTest).To(Equal("1"))
	g.Expect(s.EventsOn(t.Context(), receiver, v1alpha1.ReasonAcceptedTest)).To(HaveLen(1))
	got := s.sink.Accepted()
	g.Expect(got).To(HaveLen(1))
	g.Expect(string(got[0].Body)).To(ContainSubstring("[Test] ClusterAlarmReceiver " + s.namespace + " gets messages"))

	s.sink.Always(sink.Status(http.StatusForbidden, "invalid_token"))
	long := strings.Repeat("long", 100)
	s.patch(receiver.DeepCopy(), `{"metadata":{"annotations":{"bongsu.io/send-test":"`+long+`"}}}`)
	g.Eventually(delivered).Should(Equal(metav1.ConditionFalse))
	g.Expect(receiver.Status.HandledTest).To(HaveLen(64))
	s.ExpectWarning(t, receiver, v1alpha1.ReasonFailedTest, "clusteralarmreceiver-controller")
	s.patch(receiver.DeepCopy(), `{"metadata":{"annotations":{"other":"1"}}}`) // sends no test
	g.Consistently(s.sink.Requests, "3s").Should(HaveLen(2))
	g.Expect(receiver.Status.Delivered).To(BeZero())
}
