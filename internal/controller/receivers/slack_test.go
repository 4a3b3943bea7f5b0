package receivers_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/slackserver"
)

// bot makes a receiver that speaks as a bot in a workspace.
func (s *scene) bot(w *slackserver.Workspace) *v1alpha1.ClusterAlarmReceiver {
	s.t.Helper()
	s.secret("token", slackserver.Token)
	s.create("ClusterAlarmReceiver", s.namespace, "allowedNamespaces: {}\nslack: {channel: "+slackserver.Channel+", apiURL: '"+w.URL()+
		"', tokenSecretRef: {namespace: "+s.namespace+", name: hook, key: token}}")
	receiver := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.ExpectReady(s.t, receiver)
	return receiver
}

func TestABotThatMayNotPostIsReportedAndRecovers(t *testing.T) {
	annotate := func(s *scene, r *v1alpha1.ClusterAlarmReceiver) {
		s.patch(r.DeepCopy(), `{"metadata":{"annotations":{"tried":"again"}}}`)
	}
	for name, tc := range map[string]struct {
		spoil func(*slackserver.Workspace)
		want  string
		heal  func(*scene, *slackserver.Workspace, *v1alpha1.ClusterAlarmReceiver)
	}{
		"the channel is archived": {
			func(w *slackserver.Workspace) { w.Archive(slackserver.Channel, true) },
			"the channel is archived: unarchive it and annotate the receiver, or set another in spec.slack.channel",
			func(s *scene, w *slackserver.Workspace, r *v1alpha1.ClusterAlarmReceiver) {
				w.Archive(slackserver.Channel, false)
				annotate(s, r)
			},
		},
		"the bot is not in the channel": {
			func(w *slackserver.Workspace) { w.Kick(slackserver.Channel) },
			"the bot is not in the channel: invite it and annotate the receiver",
			func(s *scene, w *slackserver.Workspace, r *v1alpha1.ClusterAlarmReceiver) {
				w.Invite(slackserver.Channel)
				annotate(s, r)
			},
		},
		"the token is revoked": {
			func(w *slackserver.Workspace) { w.Revoke(slackserver.Token) },
			"the bot's token is no longer valid: put a new one into the Secret",
			func(s *scene, w *slackserver.Workspace, _ *v1alpha1.ClusterAlarmReceiver) {
				w.AddBot("xoxb-new-secret")
				s.secret("token", "xoxb-new-secret")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := newScene(t), slackserver.New(t)
			receiver := s.bot(w)
			s.alarm("ClusterAlarmReceiver/" + s.namespace)
			tc.spoil(w)
			s.happen()
			message := s.ExpectNotReady(t, receiver, v1alpha1.ReasonDeliveryFailing)
			g := NewWithT(t)
			g.Expect(message).To(HaveSuffix(tc.want))
			g.Expect(message).NotTo(ContainSubstring("xoxb"), "it is a secret")
			s.ExpectWarning(t, receiver, v1alpha1.ReasonDeliveryFailing, "clusteralarmreceiver-controller")
			g.Expect(w.Shown()).To(BeEmpty())

			tc.heal(s, w, receiver)
			g.Eventually(w.Shown).Should(HaveLen(1))
			s.ExpectReady(t, receiver)
		})
	}
}

// A group's messages are 30 s apart at least: the tests that wait for two of them do so
// side by side.

func TestANodeThatIsReadyAgainResolvesItsMessage(t *testing.T) {
	t.Parallel()
	s, w := newScene(t), slackserver.New(t)
	s.bot(w)
	s.create("ClusterAlarm", s.namespace, "match: [{kinds: [Node], reasons: [NodeNotReady, NodeReady], names: ['"+s.namespace+"']}]\n"+
		"receivers: [{name: "+s.namespace+"}]\ngroup: {by: [regarding.kind, regarding.name], waitSeconds: 0, intervalSeconds: 30}")
	s.ExpectReady(t, &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	g := NewWithT(t)
	node := corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: s.namespace}
	s.event(metav1.NamespaceDefault, node, "NodeNotReady")
	g.Eventually(w.Shown).Should(HaveLen(1))
	s.event(metav1.NamespaceDefault, node, "NodeReady")
	root := func() slackserver.Message { return w.Shown()[0] }
	g.Eventually(root).WithTimeout(2 * time.Minute).Should(HaveField("Text", HavePrefix("✅ Resolved: "+s.namespace+": NodeReady (Node)")))
	m := root()
	g.Expect(m.Reads()).To(ContainSubstring("2 times since"))
	g.Expect(m.Edits).To(Equal(1))
	for _, reply := range w.Shown()[1:] {
		g.Expect(reply.ThreadTS).To(Equal(m.TS))
	}
}

// label sets a label of the namespace, or removes it if the value is null.
func (s *scene) label(key, value string) {
	s.t.Helper()
	s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, `{"metadata":{"labels":{"`+key+`":`+value+`}}}`)
}

func TestTheLabelOfANamespaceChoosesTheChannelAndAThreadStaysThere(t *testing.T) {
	t.Parallel()
	s, w := newScene(t), slackserver.New(t)
	w.AddNamedChannel("C0TEAMA", "#team-a")
	w.AddNamedChannel("C0TEAMB", "#team-b")
	receiver := s.bot(w)
	s.patch(receiver.DeepCopy(), `{"spec":{"slack":{"mentions":["S0TEAM"],"channelFrom":{"namespaceLabel":"slack-channel","allowed":["team-*"]}}}}`)
	s.label("slack-channel", `"team-a"`)
	s.create("ClusterAlarm", s.namespace, "match: [{reasons: [BackOff, Started]}]\nnamespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "+s.namespace+"}}\n"+
		"receivers: [{name: "+s.namespace+"}]\nresolve: {match: [{reasons: [Started]}]}\n"+
		"group: {by: [regarding.namespace, regarding.name], waitSeconds: 0, intervalSeconds: 30}")
	s.ExpectReady(t, &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.ExpectReady(t, receiver)
	g := NewWithT(t)
	pod := func(name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.namespace, Name: name}
	}
	shown := func() (all []string) {
		for _, m := range w.Shown() {
			all = append(all, m.Channel+" "+m.Text)
		}
		return all
	}
	s.event(s.namespace, pod("web-0"), "BackOff")
	g.Eventually(shown).Should(ConsistOf(HavePrefix("C0TEAMA ")))
	g.Expect(w.Shown()[0].Reads()).To(ContainSubstring("<!subteam^S0TEAM>"))

	s.label("slack-channel", `"team-b"`)
	s.event(s.namespace, pod("web-0"), "Started")
	s.event(s.namespace, pod("web-1"), "BackOff")
	g.Eventually(shown).WithTimeout(2 * time.Minute).Should(ContainElements(HavePrefix("C0TEAMA ✅ "), HavePrefix("C0TEAMB ")))
	s.label("slack-channel", `"executives"`)
	s.event(s.namespace, pod("web-2"), "BackOff")
	g.Eventually(shown).Should(ContainElement(HavePrefix(slackserver.Channel + " ")))
}

func TestALostThreadIsReportedOnTheReceiver(t *testing.T) {
	t.Parallel()
	s, w := newScene(t), slackserver.New(t)
	receiver := s.bot(w)
	s.create("Alarm", "all", "match: [{reasons: [BackOff]}]\nreceivers: [{kind: ClusterAlarmReceiver, name: "+s.namespace+"}]\n"+
		"group: {by: [regarding.name], waitSeconds: 0, intervalSeconds: 30}")
	s.ExpectReady(t, &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "all"}})
	g := NewWithT(t)
	s.happen()
	g.Eventually(w.Shown).Should(HaveLen(1))
	lost := w.Shown()[0].TS
	w.Delete(lost)
	s.happen()
	s.happen()
	shown := func() []string {
		var all []string
		for _, m := range w.Shown() {
			all = append(all, m.ThreadTS+m.Reads())
		}
		return all
	}
	g.Eventually(shown).WithTimeout(2 * time.Minute).Should(ConsistOf(ContainSubstring("3 times since")))

	s.ExpectWarning(t, receiver, v1alpha1.ReasonThreadLost, "clusteralarmreceiver-controller")
	s.ExpectReady(t, receiver)
	degraded := func() []metav1.Condition {
		s.Ready(t.Context(), receiver)
		return receiver.Status.Conditions
	}
	g.Eventually(degraded).Should(ContainElement(And(
		HaveField("Type", v1alpha1.ConditionDegraded), HaveField("Reason", v1alpha1.ReasonThreadLost),
		HaveField("Message", WithTransform(strings.ToLower, ContainSubstring("was deleted in slack"))),
	)))
}
