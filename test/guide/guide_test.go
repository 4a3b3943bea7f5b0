// Package guide follows the guides in docs/ to the letter, as somebody would who
// reads one for the first time: it runs what is written there, in the order in
// which it is written, and looks whether what the guide promises comes about.
package guide

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/binary"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

const (
	// building is the only line that is not run: the test has built it already, and
	// has the control plane's binaries from whoever runs it.
	building = "make build\n"
	// patience is how long a block, or a message, may take.
	patience = 2 * time.Minute
)

// staying are the commands that do not end by themselves, with what they say when
// they are at work. A block that ends with one is entered in a terminal of its own.
var staying = []struct{ command, atWork string }{
	{"bin/bongsu local", "ready: KUBECONFIG="},
	{"bin/bongsu watch", "cache synced"},
}

// follow runs a guide and returns when all that it shows has been seen: the terminal
// in which commands were entered, and those in which something stays running, named
// by their blocks.
//
// A block of text is what is then to be read in the terminal that was opened last;
// one of console is what the commands before it have shown, or what it left of that.
func follow(t *testing.T, guide string, environment ...string) (hands *terminal, screens map[string]*terminal) {
	t.Helper()
	dir, blocks := workingDirectory(t), blocksOf(t, guide)
	open := func() *terminal { return openTerminal(t, guide, dir, environment...) }
	hands, screens = open(), map[string]*terminal{}
	var latest *terminal
	var before block
	for _, b := range blocks {
		switch atWork, stays := b.stays(); {
		case b.kind == "text":
			latest.awaitLines(b.text)
		case b.kind == "console":
			hands.awaitShown(before.text, b.text)
		case stays:
			latest = open()
			screens[b.text] = latest
			latest.enter(b.text)
			latest.await(b.text, atWork)
		default:
			hands.run(b.text)
			before = b
		}
	}
	return hands, screens
}

// block is a piece of code in a guide: what is entered (sh), or what is then shown
// (text, console).
type block struct{ kind, text string }

func (b block) stays() (atWork string, stays bool) {
	lines := strings.Split(strings.TrimSpace(b.text), "\n")
	for _, s := range staying {
		if strings.HasPrefix(lines[len(lines)-1], s.command) {
			return s.atWork, true
		}
	}
	return "", false
}

var fenced = regexp.MustCompile("(?ms)^```(sh|text|console)\n(.*?)^```$")

// blocksOf returns what is to be run of a guide, in its order.
func blocksOf(t *testing.T, guide string) []block {
	t.Helper()
	content, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	for _, m := range fenced.FindAllStringSubmatch(string(content), -1) {
		blocks = append(blocks, block{kind: m[1], text: m[2]})
	}
	if len(blocks) < 2 {
		t.Fatalf("%s has %d blocks", guide, len(blocks))
	}
	start, found := strings.CutPrefix(blocks[0].text, building)
	if !found {
		t.Fatalf("the first block of %s does not begin with %q:\n%s", guide, building, blocks[0].text)
	}
	blocks[0].text = start
	return blocks
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

func TestTheGuideToInstallingWorksAsWritten(t *testing.T) {
	hands, _ := follow(t, "../../docs/install.md")
	for _, text := range []string{
		"ready: 2 of 2",
		"removed ClusterRole bongsu-jupyter",
		"removed Deployment bongsu-system/bongsu",
		"would remove StatefulSet bongsu-system/bongsu",
		"removed ClusterRole bongsu-alarm",
	} {
		hands.await("everything so far", text)
	}
}

func TestTheGuideToAlarmsWorksAsWritten(t *testing.T) {
	slack := sink.New(t)
	_, screens := follow(t, "../../docs/alarms.md", "SLACK_WEBHOOK_URL="+slack.URL())

	awaitMessage(t, slack, "worker-9 joined local", "m7g.large in zone-b, 2 CPUs, 8Gi", "the cluster has 2 nodes now")
	awaitMessage(t, slack, "BackOff", "shop/broken", "used more memory than its limit of 64Mi")
	for command, screen := range screens {
		screen.await(command, "BackOff: Pod shop/broken")
	}
	for _, request := range slack.Requests() {
		checkSlack(t, request.Body)
	}
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

func TestTheGuideToWatchingWorksAsWritten(t *testing.T) {
	_, screens := follow(t, "../../docs/watch.md")
	for command, screen := range screens {
		for _, value := range []string{"s3cret", "czNjcmV0", "n3w", "bjN3"} {
			if strings.Contains(screen.output.String(), value) {
				t.Errorf("%s prints a value of a Secret:\n%s", command, screen.output)
			}
		}
	}
}

func TestTheGuideToExplainingWorksAsWritten(t *testing.T) {
	hands, _ := follow(t, "../../docs/explain.md")
	for _, text := range []string{
		"(the largest node has 4 CPU; the pod requests 64)\n  What to do: request less cpu",
		"container \"app\" was killed because it used more memory than its limit of 64Mi\n  What to do: raise resources.limits.memory",
		`"reason": "OOMKilled"`,
	} {
		hands.await("everything so far", text)
	}
}

func TestTheGuideToNotebooksWorksAsWritten(t *testing.T) {
	hands, _ := follow(t, "../../docs/jupyter.md")
	for _, text := range []string{
		"4Gi", // the limit that was raised, after the restart
		"container \"notebook\" was killed because it used more memory than its limit of 1Gi",
	} {
		hands.await("everything so far", text)
	}
	for _, secret := range []string{"correct-horse", "battery-staple"} {
		if strings.Contains(hands.output.String(), secret) {
			t.Errorf("%q was shown", secret)
		}
	}
}

func TestTheGuideToAppsWorksAsWritten(t *testing.T) {
	hands, _ := follow(t, "../../docs/appservice.md")
	for _, text := range []string{
		"orders-backup-", // the Job that stays
		`deployment.apps "stranded" deleted`,
	} {
		hands.await("everything so far", text)
	}
}

func TestTheGuideToSecretsWorksAsWritten(t *testing.T) {
	hands, _ := follow(t, "../../docs/secrets.md")
	for _, text := range []string{
		"namespace shop: the namespace has no SecretShareGrant for this SecretShare",
		"bongsu.io/rule: SecretShare/data/orders-db",
		"PGPASSWORD:  13 bytes",
		"namespace legacy: Secret registry exists and is not a copy",
		"ClusterSecretShare/registry cannot copy Secret platform/registry here",
	} {
		hands.await("everything so far", text)
	}
	for _, secret := range []string{"correct-horse", "battery-staple"} {
		if strings.Contains(hands.output.String(), secret) {
			t.Errorf("%q was shown", secret)
		}
	}
}
