// Package guide runs the guides in docs/ as written. It enters their commands in order, and
// checks that the output is as shown.
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
	// building is the only line that is not run. The test has already built the binary, and
	// uses the binaries of the control plane from the checkout.
	building = "make build\n"
	// patience is the time limit for a block or a message. It is longer than that of
	// patientWait, whose error says more.
	patience = 5 * time.Minute
)

// staying are the commands that do not end, with their output when they are ready. A block
// that ends with one runs in its own terminal.
var staying = []struct{ command, ready string }{
	{"bin/bongsu local", "ready: KUBECONFIG="},
	{"bin/bongsu watch", "cache synced"},
}

// follow runs a guide and waits for all output that it shows. It returns the terminal for
// commands, and a terminal for each command that does not end, by its block.
//
// A text block is output of the terminal that was opened last. A console block is output of
// the commands before it; a guide may leave out lines.
func follow(t *testing.T, guide string, environment ...string) (shell *terminal, terminals map[string]*terminal) {
	t.Helper()
	dir, blocks := workingDirectory(t), blocksOf(t, guide)
	open := func() *terminal { return openTerminal(t, guide, dir, environment...) }
	shell, terminals = open(), map[string]*terminal{}
	var latest *terminal
	var before block
	for _, b := range blocks {
		switch ready, stays := b.stays(); {
		case b.kind == "text":
			latest.awaitLines(b.text)
		case b.kind == "console":
			shell.awaitShown(before.text, b.text)
		case stays:
			latest = open()
			terminals[b.text] = latest
			latest.enter(b.text)
			latest.await(b.text, ready)
		default:
			shell.run(b.text)
			before = b
		}
	}
	return shell, terminals
}

// block is a code block of a guide: commands (sh), or output (text, console).
type block struct{ kind, text string }

func (b block) stays() (ready string, stays bool) {
	lines := strings.Split(strings.TrimSpace(b.text), "\n")
	for _, s := range staying {
		if strings.HasPrefix(lines[len(lines)-1], s.command) {
			return s.ready, true
		}
	}
	return "", false
}

var fenced = regexp.MustCompile("(?ms)^```(sh|text|console)\n(.*?)^```$")

// blocksOf returns the blocks of a guide, in order.
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
		t.Fatalf("%s has %d blocks, want at least 2", guide, len(blocks))
	}
	start, found := strings.CutPrefix(blocks[0].text, building)
	if !found {
		t.Fatalf("the first block of %s does not begin with %q:\n%s", guide, building, blocks[0].text)
	}
	blocks[0].text = start
	return blocks
}

// workingDirectory returns a directory with the files of a checkout after `make build`.
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
	binary.Bongsu(t, bin)
	binary.Operator(t, bin)
	return dir
}

func TestTheGuideToInstallingWorksAsWritten(t *testing.T) {
	shell, _ := follow(t, "../../docs/install.md")
	for _, text := range []string{
		"ready: 2 of 2",
		"removed ClusterRole bongsu-jupyter",
		"removed Deployment bongsu-system/bongsu",
		"would remove StatefulSet bongsu-system/bongsu",
		"removed ClusterRole bongsu-alarm",
	} {
		shell.await("all blocks", text)
	}
}

func TestTheGuideToAlarmsWorksAsWritten(t *testing.T) {
	slack := sink.New(t)
	_, terminals := follow(t, "../../docs/alarms.md", "SLACK_WEBHOOK_URL="+slack.URL())

	awaitMessage(t, slack, "worker-9 joined local", "m7g.large in zone-b, 2 CPUs, 8Gi", "the cluster has 2 nodes now")
	awaitMessage(t, slack, "Back-off restarting", "shop/broken", "used more memory than its limit of 64Mi")
	for command, term := range terminals {
		term.await(command, `shop/broken: container "app" was killed because`)
	}
	for _, request := range slack.Requests() {
		checkSlack(t, request.Body)
	}
}

func TestTheGuideToChangesWorksAsWritten(t *testing.T) {
	_, terminals := follow(t, "../../docs/changes.md")
	for command, term := range terminals {
		term.await(command, "Fewer replicas of web")
		if strings.Contains(term.output.String(), "Created: Deployment") {
			t.Errorf("%s prints a creation, want updates only:\n%s", command, term.output)
		}
	}
}

func TestTheGuideToStatesWorksAsWritten(t *testing.T) {
	_, terminals := follow(t, "../../docs/states.md")
	for command, term := range terminals {
		if n := strings.Count(term.output.String(), "Claim data is not bound"); n != 2 {
			t.Errorf("%s prints %d messages, want the begin and the end:\n%s", command, n, term.output)
		}
	}
}

// awaitMessage waits for a message that contains all the texts.
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
	t.Errorf("got no message that contains %q; received:", texts)
	for _, r := range slack.Requests() {
		t.Logf("%s", r.Body)
	}
}

// checkSlack checks that Slack would accept the message, and that its text is escaped. The
// only allowed markup is a date.
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
		t.Errorf("message without text, or not with 1 to 50 blocks: %s", body)
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
			t.Errorf("text is not escaped: %q", text)
		}
	}
}

var date = regexp.MustCompile(`<!date\^[0-9]+\^[^|<>]*\|[^<>]*>`)

func TestTheGuideToWatchingWorksAsWritten(t *testing.T) {
	_, terminals := follow(t, "../../docs/watch.md")
	for command, term := range terminals {
		for _, value := range []string{"s3cret", "czNjcmV0", "n3w", "bjN3"} {
			if strings.Contains(term.output.String(), value) {
				t.Errorf("%s prints the Secret value %q:\n%s", command, value, term.output)
			}
		}
	}
}

func TestTheGuideToExplainingWorksAsWritten(t *testing.T) {
	shell, _ := follow(t, "../../docs/explain.md")
	for _, text := range []string{
		"(the largest node has 4 CPU; the pod requests 64)\n  Advice: request less CPU",
		"container \"app\" was killed because it used more memory than its limit of 64Mi\n  Advice: raise resources.limits.memory",
		`"reason": "OOMKilled"`,
	} {
		shell.await("all blocks", text)
	}
}

func TestTheGuideToNotebooksWorksAsWritten(t *testing.T) {
	shell, _ := follow(t, "../../docs/jupyter.md")
	for _, text := range []string{
		"4Gi", // the new limit, after the restart
		"container \"notebook\" was killed because it used more memory than its limit of 1Gi",
	} {
		shell.await("all blocks", text)
	}
	for _, secret := range []string{"correct-horse", "battery-staple"} {
		if strings.Contains(shell.output.String(), secret) {
			t.Errorf("the output contains the Secret value %q", secret)
		}
	}
}

func TestTheGuideToAppsWorksAsWritten(t *testing.T) {
	shell, _ := follow(t, "../../docs/appservice.md")
	for _, text := range []string{
		"orders-backup-", // the Job is kept
		`deployment.apps "stranded" deleted`,
	} {
		shell.await("all blocks", text)
	}
}

func TestTheGuideToSecretsWorksAsWritten(t *testing.T) {
	shell, _ := follow(t, "../../docs/secrets.md")
	for _, text := range []string{
		"namespace shop: the namespace has no SecretShareGrant for this SecretShare",
		"bongsu.io/rule: SecretShare/data/orders-db",
		"PGPASSWORD:  13 bytes",
		"namespace legacy: Secret registry exists and is not a copy",
		"ClusterSecretShare/registry cannot copy Secret platform/registry here",
	} {
		shell.await("all blocks", text)
	}
	for _, secret := range []string{"correct-horse", "battery-staple"} {
		if strings.Contains(shell.output.String(), secret) {
			t.Errorf("the output contains the Secret value %q", secret)
		}
	}
}
