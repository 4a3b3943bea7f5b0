package chaos

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/internal/testing/slackserver"
)

const (
	threads = 6
	// threadKills is the number of kills during first messages, and during edits.
	threadKills = 4
	// threshold is the number of a pod's Events in the alarm's threshold. The first message counts all
	// of them.
	threshold = 3
)

func TestKillsDuringThreadsCountEachOccurrenceOnceAndRepeatOneMessageEachAtMost(t *testing.T) {
	s := newFixture(t, cluster.Shared(t))
	s.regarding = podOf
	slack := slackserver.New(t)
	slack.Limit()
	channel := s.grouped(slack)
	m := newManager(s)
	m.startReady()
	flood := s.floodAt(40)
	m.killDuring(channel, "chat.postMessage")
	want := map[string]int{}
	for _, event := range flood.end() {
		want[podOf(event)]++
	}
	m.killDuring(channel, "chat.update")
	gomega.NewWithT(t).Eventually(func() map[string]int { return shownTotals(slack.Shown()) }).
		WithTimeout(patience).WithPolling(time.Second).Should(gomega.Equal(want))
	again := repeatedMessages(slack.Shown())
	s.t.Attr("summary", fmt.Sprintf("%d Events in %d groups, %d kills; %d messages in Slack, %d of them repeated",
		len(flood.created), len(want), len(m.killed), len(slack.Shown()), len(again)))
	s.assertNone(channel, unexplained(again, m.killed))
	// A new process does not know when the last one sent a message.
	if slack.Hurried() > len(m.killed) {
		t.Errorf("%d calls exceeded Slack's rate limits, want at most %d", slack.Hurried(), len(m.killed))
	}
}

// The label of the namespace changes while its group is open, and the operator is killed.
func TestAfterAKillAThreadContinuesInTheChannelInWhichItWasOpened(t *testing.T) {
	s := newFixture(t, cluster.Shared(t))
	s.regarding = func(string) string { return "pod-0" }
	slack := slackserver.New(t)
	slack.AddNamedChannel("C0TEAMA", "#team-a")
	slack.AddNamedChannel("C0TEAMB", "#team-b")
	s.label("team-a")
	s.grouped(slack)
	m := newManager(s)
	m.startReady()
	s.burst(threshold)
	shown := func() (all []string) {
		for _, m := range slack.Shown() {
			if m.ThreadTS == "" {
				all = append(all, fmt.Sprintf("%s: %s", m.Channel, total.FindString(m.Reads())))
			}
		}
		return all
	}
	expect := func(want string) {
		t.Helper()
		gomega.NewWithT(t).Eventually(shown).WithTimeout(patience).Should(gomega.Equal([]string{want}))
	}
	expect("C0TEAMA: 3 times since")
	s.awaitDelivered(1) // a first message whose answer is not stored is posted again
	s.label("team-b")
	m.kill()
	m.start()
	s.burst(2)
	expect("C0TEAMA: 5 times since")
}

// awaitDelivered waits until the status of the receiver counts so many occurrences.
func (s *fixture) awaitDelivered(n int64) {
	s.t.Helper()
	delivered := func() (int64, error) {
		var r v1alpha1.ClusterAlarmReceiver
		err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: s.namespace}, &r)
		return r.Status.Delivered, err
	}
	gomega.NewWithT(s.t).Eventually(delivered).WithTimeout(patience).Should(gomega.Equal(n))
}

// label sets the label of the namespace that chooses the channel.
func (s *fixture) label(channel string) {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"slack-channel":"`+channel+`"}}}`))
	if err := s.Client.Patch(s.t.Context(), namespace, patch); err != nil {
		s.t.Fatal(err)
	}
}

// killDuring kills the manager several times, each shortly after a call of a Slack method.
func (m *manager) killDuring(slack *receiver, method string) {
	m.t.Helper()
	calls := func(requests []sink.Request) (n int) {
		for _, r := range requests {
			if path.Base(r.Path) == method {
				n++
			}
		}
		return n
	}
	for range threadKills {
		before := calls(slack.Requests())
		if !slack.Wait(patience, func(requests []sink.Request) bool { return calls(requests) > before }) {
			m.t.Fatalf("got %d calls of %s and no other for %v", before, method, patience)
		}
		time.Sleep(rand.N(150 * time.Millisecond)) // the message may be acknowledged by then
		m.kill()
		m.start()
	}
}

// podOf assigns each Event of a flood to one of a few groups.
func podOf(event string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(event)) // a hash does not fail
	return fmt.Sprintf("pod-%d", sum.Sum32()%threads)
}

// grouped creates an alarm that sends the fixture's Events to Slack, in groups, as a bot. Slack
// answers shortly after it has handled a request, so that kills happen in between.
func (s *fixture) grouped(slack *slackserver.Workspace) *receiver {
	s.t.Helper()
	channel := newReceiver(s.t, "slack")
	channel.key = kube.Key{Kind: v1alpha1.KindClusterAlarmReceiver, Name: s.namespace}.String()
	channel.Always(sink.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slack.ServeHTTP(w, r)
		time.Sleep(50 * time.Millisecond)
	})))
	s.receivers = append(s.receivers, channel)
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "slack"}, StringData: map[string]string{"token": slackserver.Token},
	})
	token := &v1alpha1.SecretKeyReference{SecretReference: v1alpha1.SecretReference{Namespace: s.namespace, Name: "slack"}, Key: "token"}
	s.create(&v1alpha1.ClusterAlarmReceiver{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: clusterSpec(v1alpha1.AlarmReceiverSpec{Slack: &v1alpha1.SlackReceiver{
			Channel: slackserver.Channel, APIURL: v1alpha1.ServerURL(channel.URL()), TokenSecretRef: token,
			ChannelFrom: &v1alpha1.SlackChannelFrom{NamespaceLabel: "slack-channel", Allowed: []string{"team-*"}},
		}}),
	})
	s.create(&v1alpha1.ClusterAlarm{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: v1alpha1.ClusterAlarmSpec{
			AlarmSpec: v1alpha1.AlarmSpec{
				Match:     []v1alpha1.EventMatch{{Reasons: []string{reason}}},
				Threshold: &v1alpha1.AlarmThreshold{Count: threshold, WithinSeconds: 3600},
				Group:     &v1alpha1.AlarmGroup{By: []string{"regarding.namespace", "regarding.name"}, WaitSeconds: new(int32(1)), IntervalSeconds: new(int32(30))},
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			Receivers:         []v1alpha1.ClusterReceiverReference{{Name: s.namespace}},
		},
	})
	return channel
}

var (
	podName = regexp.MustCompile(`pod-\d+`)
	total   = regexp.MustCompile(`(\d+) times since`)
)

// shownTotals returns the total in the newest message of each group.
func shownTotals(shown []slackserver.Message) map[string]int {
	totals := map[string]int{}
	for i := range shown {
		text := shown[i].Reads()
		if of := total.FindStringSubmatch(text); of != nil && shown[i].ThreadTS == "" {
			totals[podName.FindString(text)], _ = strconv.Atoi(of[1]) // digits
		}
	}
	return totals
}

// repeatedMessages returns the messages that Slack shows twice. A group has one message outside
// of threads. Replies are identified by their Idempotency-Key.
func repeatedMessages(shown []slackserver.Message) []repetition {
	var again []repetition
	last := map[string]time.Time{}
	for i := range shown {
		m := &shown[i]
		id := podName.FindString(m.Reads())
		if m.ThreadTS != "" {
			id = m.ThreadTS + " " + m.Key
		}
		if first, known := last[id]; known {
			again = append(again, repetition{id: id, first: first, again: m.Posted})
		}
		last[id] = m.Posted
	}
	return again
}
