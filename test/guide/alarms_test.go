// Package guide follows docs/alarms.md to the letter, as somebody would who reads
// it for the first time: it runs what is written there, in the order in which it
// is written, and looks whether the messages arrive that the guide promises.
package guide

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/localcluster"
	"github.com/bongsu-io/bongsu/internal/testing/binary"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

const (
	guide = "../../docs/alarms.md"
	// building is the only line that is not run: the test has built it already, and
	// has the control plane's binaries from whoever runs it.
	building = "make build"
	// patience is how long a block, or a message, may take.
	patience = 2 * time.Minute
)

func TestTheGuideWorksAsWritten(t *testing.T) {
	slack := sink.New(t)
	dir := workingDirectory(t)
	blocks := blocksOf(t, guide)
	start, found := strings.CutPrefix(blocks[0], building+"\n")
	if !found {
		t.Fatalf("the guide's first block does not begin with %q:\n%s", building, blocks[0])
	}

	one, another := openTerminal(t, dir), openTerminal(t, dir, "SLACK_WEBHOOK_URL="+slack.URL())
	one.enter(start)
	one.await(start, "ready: KUBECONFIG=")
	for _, block := range blocks[1:] {
		another.run(block)
	}

	awaitMessage(t, slack, "worker-9 joined local", "m7g.large in zone-b, 2 CPUs, 8Gi", "the cluster has 2 nodes now")
	awaitMessage(t, slack, "BackOff", "shop/broken")
	one.await(start, "BackOff: Pod shop/broken")
	for _, request := range slack.Requests() {
		checkSlack(t, request.Body)
	}
}

// workingDirectory is laid out like a checkout after `make build`.
func workingDirectory(t *testing.T) string {
	t.Helper()
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(assets, filepath.Join(bin, "k8s")); err != nil {
		t.Fatal(err)
	}
	binary.Build(t, bin)
	return dir
}

// blocksOf returns the shell blocks of a guide, in their order.
func blocksOf(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split("\n"+string(text), "\n```") {
		if code, isShell := strings.CutPrefix(part, "sh\n"); isShell && i%2 == 1 {
			blocks = append(blocks, code+"\n")
		}
	}
	if len(blocks) < 2 {
		t.Fatalf("%s has %d shell blocks", path, len(blocks))
	}
	return blocks
}

// awaitMessage returns when a message has arrived that holds all the texts.
func awaitMessage(t *testing.T, slack *sink.Sink, texts ...string) {
	t.Helper()
	holds := func(body string) bool {
		for _, text := range texts {
			if !strings.Contains(body, text) {
				return false
			}
		}
		return true
	}
	arrived := slack.Wait(patience, func(requests []sink.Request) bool {
		for _, r := range requests {
			if holds(string(r.Body)) {
				return true
			}
		}
		return false
	})
	if arrived {
		return
	}
	t.Errorf("no message with %q; received were:", texts)
	for _, r := range slack.Requests() {
		t.Logf("%s", r.Body)
	}
}

// checkSlack demands what Slack demands: a text, and blocks within its limits; and
// that what was not escaped is a date, the only markup of ours.
func checkSlack(t *testing.T, body []byte) {
	t.Helper()
	var message struct {
		Text   string
		Blocks []struct {
			Text     struct{ Text string }
			Elements []struct{ Text string }
		}
	}
	if err := json.Unmarshal(body, &message); err != nil {
		t.Errorf("%v: %s", err, body)
		return
	}
	if message.Text == "" || len(message.Blocks) == 0 || len(message.Blocks) > 50 {
		t.Errorf("Slack would not take it: %s", body)
	}
	texts := []string{message.Text}
	for _, block := range message.Blocks {
		texts = append(texts, block.Text.Text)
		for _, element := range block.Elements {
			texts = append(texts, element.Text)
		}
	}
	for _, text := range texts {
		if strings.ContainsAny(date.ReplaceAllString(text, ""), "<>") {
			t.Errorf("not escaped: %q", text)
		}
	}
}

var date = regexp.MustCompile(`<!date\^[0-9]+\^[^|<>]*\|[^<>]*>`)
