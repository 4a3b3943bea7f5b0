package cookbook

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// patience is how long a message, or what it is to come of, may take.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	// All entries at once: they do little but wait.
	if err := flag.Set("test.parallel", "100"); err != nil {
		panic(err)
	}
	os.Exit(cluster.Main(m, cluster.Whole(2)))
}

func TestEachAlarmOfTheCookbookFiresAsWrittenAndOnlyThen(t *testing.T) {
	written := entries(t)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(written)), slices.Sorted(maps.Keys(recipes))); diff != "" {
		t.Fatalf("the page (-) and the table of this test (+):\n%s", diff)
	}
	c, received := cluster.Shared(t), sink.New(t)
	c.StartOperator(t, func(o *options.Options) { o.ClusterName = "prod" })
	ops := cluster.Manifest(t, "ClusterAlarmReceiver", "", "ops", "webhook: {url: "+received.URL()+"}\nallowedNamespaces: {}")
	if err := install.Apply(t.Context(), c.Client, ops); err != nil {
		t.Fatal(err)
	}
	c.ExpectReady(t, &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: "ops"}})

	t.Run("entries", func(t *testing.T) {
		for heading, e := range written {
			t.Run(heading, func(t *testing.T) {
				t.Parallel()
				(&trial{T: t, Cluster: c, sink: received, entry: e}).run(recipes[heading])
			})
		}
	})

	// After all of them: what should not have been sent has had its time.
	for heading, e := range written {
		for _, m := range messagesOf(received, e.alarm.GetName()) {
			if text, err := json.Marshal(m); err != nil || strings.Contains(string(text), bystander(e)) {
				t.Errorf("%s: this should not have been sent: %s (%v)", heading, text, err)
			}
		}
		if sent := messagesOf(received, nightly(e)); len(sent) > 0 {
			t.Errorf("%s: sent while mute: %v", heading, sent)
		}
	}
}

// messagesOf returns what an alarm has sent so far.
func messagesOf(s *sink.Sink, name string) (messages []message.Message) {
	for _, r := range s.Accepted() {
		var m message.Message
		if json.Unmarshal(r.Body, &m) == nil && m.Alarm.Name == name {
			messages = append(messages, m)
		}
	}
	return messages
}
