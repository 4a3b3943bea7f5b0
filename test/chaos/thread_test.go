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

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/internal/testing/slackserver"
)

const (
	threads = 6
	// threadKills is how often it is killed amid first messages, and amid edits.
	threadKills = 4
	// threshold is how many of a pod's Events it takes: those before are not sent.
	threshold = 3
)

func TestKillsAmidThreadsCountEachOccurrenceOnceAndRepeatOneMessageEachAtMost(t *testing.T) {
	s := newStage(t, cluster.Shared(t))
	s.regarding = podOf
	slack := slackserver.New(t)
	slack.Limit()
	channel := s.grouped(slack)
	m := newManager(s)
	m.startAtWork()
	flood := s.pour(40)
	m.killAmid(channel, "chat.postMessage")
	want := map[string]int{}
	for _, event := range flood.end() {
		want[podOf(event)]++
	}
	m.killAmid(channel, "chat.update")
	for pod := range want {
		want[pod] -= threshold - 1
	}
	gomega.NewWithT(t).Eventually(func() map[string]int { return shownTotals(slack.Shown()) }).
		WithTimeout(patience).WithPolling(time.Second).Should(gomega.Equal(want))
	again := repeatedMessages(slack.Shown())
	s.t.Attr("summary", fmt.Sprintf("%d Events in %d groups, %d kills; %d messages in Slack, %d of them repeated",
		len(flood.created), len(want), len(m.killed), len(slack.Shown()), len(again)))
	s.assertNone(channel, unexplained(again, m.killed))
	// Whoever starts does not know what was sent a moment ago.
	if slack.Hurried() > len(m.killed) {
		t.Errorf("%d calls came sooner than Slack lets them", slack.Hurried())
	}
}

// killAmid kills it a few times, when it has just called a method of Slack's or a moment
// later.
func (m *manager) killAmid(slack *receiver, method string) {
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
			m.t.Fatalf("no call of %s after the %dth", method, before)
		}
		time.Sleep(rand.N(150 * time.Millisecond)) // until after it is settled, perhaps
		m.kill()
		m.start()
	}
}

// podOf puts each Event of a flood into one of a few groups.
func podOf(event string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(event)) // a hash does not fail
	return fmt.Sprintf("pod-%d", sum.Sum32()%threads)
}

// grouped has the stage's Events sent to Slack, in groups, by a bot. What Slack has done
// it answers a moment later, so that kills fall in between.
func (s *stage) grouped(slack *slackserver.Workspace) *receiver {
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
	token := &v1alpha1.ClusterSecretKeyReference{Namespace: s.namespace, SecretKeyReference: v1alpha1.SecretKeyReference{Name: "slack", Key: "token"}}
	s.create(&v1alpha1.ClusterAlarmReceiver{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: v1alpha1.ClusterAlarmReceiverSpec{Slack: &v1alpha1.ClusterSlackReceiver{
			SlackChannel:   v1alpha1.SlackChannel{Channel: slackserver.Channel, APIURL: v1alpha1.ServerURL(channel.URL())},
			TokenSecretRef: token,
		}},
	})
	s.create(&v1alpha1.ClusterAlarm{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: v1alpha1.ClusterAlarmSpec{
			AlarmSpec: v1alpha1.AlarmSpec{
				Match:     []v1alpha1.EventMatch{{Reasons: []string{reason}}},
				Threshold: &v1alpha1.AlarmThreshold{Count: threshold, WithinSeconds: 3600},
				Group:     &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32(1)), IntervalSeconds: new(int32(30))},
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			Receivers:         []v1alpha1.ClusterReceiverReference{{Name: s.namespace}},
		},
	})
	return channel
}

var (
	podName = regexp.MustCompile(`pod-\d+`)
	total   = regexp.MustCompile(`(\d+) times so far`)
)

// shownTotals is what the newest message of each group says.
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

// repeatedMessages are those that came again: what is in no thread is its group's first
// message, of which one was to be; a reply is told by its key.
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
