package cookbook

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// patience is the time limit for a message, and for each step towards it.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	// Run all entries in parallel, because they mostly wait.
	if err := flag.Set("test.parallel", "100"); err != nil {
		panic(err)
	}
	os.Exit(cluster.Main(m, cluster.Whole(2)))
}

func TestEachAlarmOfTheCookbookFiresAsWrittenAndOnlyThen(t *testing.T) {
	written, triggers := map[string]entry{}, map[string]recipe{}
	for page, ofPage := range recipesByPage {
		found := entries(t, page)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(ofPage))); diff != "" {
			t.Fatalf("headings of %s (-) and of its recipes (+):\n%s", page, diff)
		}
		maps.Copy(written, found)
		maps.Copy(triggers, ofPage)
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
				(&trial{T: t, Cluster: c, sink: received, entry: e}).run(triggers[heading])
			})
		}
	})

	// All entries have run: messages that must not be sent have had enough time to arrive.
	for heading, e := range written {
		for _, m := range messagesOf(received, e.alarm.GetName()) {
			if text, err := json.Marshal(m); err != nil || strings.Contains(string(text), bystander(e)) {
				t.Errorf("%s: got a message for the bystander, want none: %s (%v)", heading, text, err)
			}
		}
		if sent := messagesOf(received, nightly(e)); len(sent) > 0 {
			t.Errorf("%s: got messages while the alarm is mute, want none: %v", heading, sent)
		}
	}
}

// messagesOf returns the messages of an alarm so far.
func messagesOf(s *sink.Sink, name string) (messages []message.Message) {
	for _, r := range s.Accepted() {
		var m message.Message
		if json.Unmarshal(r.Body, &m) == nil && m.Alarm.Name == name {
			messages = append(messages, m)
		}
	}
	return messages
}

// recipesByPage are the pages and what triggers their alarms, by the heading of the section.
// The headings of all pages differ.
var recipesByPage = map[string]map[string]recipe{
	"../../docs/cookbook.md":    recipes,
	"../../docs/coming-from.md": recipesOfOtherTools,
}

// entry is a section of a page: an alarm, the objects that it needs, and its messages in order.
type entry struct {
	alarm    *unstructured.Unstructured
	needs    []*unstructured.Unstructured
	messages []*regexp.Regexp
}

var fenced = regexp.MustCompile("(?ms)^```(yaml|text)\n(.*?)^```$")

// entries returns the entries of a page by heading.
func entries(t *testing.T, page string) map[string]entry {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]entry{}
	for _, section := range strings.Split(string(content), "\n## ")[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		found[heading] = entryOf(t, page, heading, section)
	}
	return found
}

func entryOf(t *testing.T, page, heading, section string) (e entry) {
	t.Helper()
	for _, block := range fenced.FindAllStringSubmatch(section, -1) {
		if block[1] == "text" {
			e.messages = append(e.messages, pattern(block[2]))
			continue
		}
		objects, err := config.Decode(strings.NewReader(block[2]))
		if err != nil || len(objects) == 0 || e.alarm != nil {
			t.Fatalf("%s: %q: want exactly one manifest, with the alarm at the end: %v", page, heading, err)
		}
		last := len(objects) - 1
		e.alarm, e.needs = objects[last], objects[:last]
	}
	if e.alarm == nil || len(e.messages) == 0 {
		t.Fatalf("%s: %q: want a manifest and at least one message", page, heading)
	}
	return e
}

// changing are the parts of a message that change from run to run: times and counts.
var changing = []struct {
	text *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`), "TIME"},
	{regexp.MustCompile(`(?:Once at|\d+ times since) TIME(?:, \d+ new)?`), "HOW OFTEN"},
	{regexp.MustCompile(`\b\d+ × FailedScheduling`), "N × FailedScheduling"},
	{regexp.MustCompile(`has \d+ nodes`), "has N nodes"},
}

func normalize(text string) string {
	for _, d := range changing {
		text = d.text.ReplaceAllString(text, d.with)
	}
	return strings.TrimSpace(text)
}

// pattern returns an expression that matches a whole normalized message. Three dots match
// any text within a line. A component can emit an Event twice: an alarm's own text is then followed by
// the number of occurrences.
func pattern(message string) *regexp.Regexp {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(normalize(message)), `\.\.\.`, `[^\n]*`)
	return regexp.MustCompile("^" + quoted + `(\nHOW OFTEN)?$`)
}
