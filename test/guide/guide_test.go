// Package guide follows the guides in docs/ to the letter, as somebody would who
// reads them for the first time: it runs what is written there, in the order in
// which it is written, on a cluster of its own, and looks whether what happens is
// what the guide promises.
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
	guides = "../../docs/*.md"
	// building is the first line of each guide, and the only one that is not run: the
	// test has built it already, and has the control plane's binaries from whoever
	// runs it.
	building = "make build"
	// patience is how long a block, or a message, may take.
	patience = 2 * time.Minute
)

// reader is somebody who follows a guide in two terminals.
type reader struct {
	t *testing.T
	// cluster is the terminal in which the cluster runs, shell that in which all else
	// is entered.
	cluster, shell *terminal
	start          string
	slack          *sink.Sink
}

// promises are what the guides say will be seen, besides that no command fails.
var promises = map[string]func(*reader){
	"alarms.md": func(r *reader) {
		awaitMessage(r.t, r.slack, "worker-9 joined local", "m7g.large in zone-b, 2 CPUs, 8Gi", "the cluster has 2 nodes now")
		awaitMessage(r.t, r.slack, "BackOff", "shop/broken")
		r.cluster.await(r.start, "BackOff: Pod shop/broken")
		for _, request := range r.slack.Requests() {
			checkSlack(r.t, request.Body)
		}
	},
	"secrets.md": func(r *reader) {
		for _, text := range []string{
			"namespace shop: the namespace has no SecretShareGrant for this one",
			"bongsu.io/rule: SecretShare/data/orders-db",
			"PGPASSWORD:  13 bytes",
			"namespace legacy: Secret registry exists and is not a copy",
			"ClusterSecretShare/registry is to keep a copy of Secret platform/registry here under this name",
		} {
			r.shell.await("everything so far", text)
		}
		for _, secret := range []string{"correct-horse", "battery-staple"} {
			if strings.Contains(r.shell.output.String(), secret) {
				r.t.Errorf("%q was shown", secret)
			}
		}
	},
}

func TestTheGuidesWorkAsWritten(t *testing.T) {
	paths, err := filepath.Glob(guides)
	if err != nil {
		t.Fatal(err)
	}
	followed := map[string]bool{}
	for _, path := range paths {
		name, blocks := filepath.Base(path), blocksOf(t, path)
		if len(blocks) == 0 || !strings.HasPrefix(blocks[0], building+"\n") {
			continue // nothing to follow
		}
		followed[name] = true
		t.Run(name, func(t *testing.T) { follow(t, path, blocks, promises[name]) })
	}
	for name := range promises {
		if !followed[name] {
			t.Errorf("%s does not begin with %q", name, building)
		}
	}
}

// follow does what the blocks of a guide say.
func follow(t *testing.T, guide string, blocks []string, promise func(*reader)) {
	t.Helper()
	dir := workingDirectory(t)
	r := &reader{t: t, slack: sink.New(t), start: strings.TrimPrefix(blocks[0], building+"\n")}
	r.cluster = openTerminal(t, guide, dir)
	r.shell = openTerminal(t, guide, dir, "SLACK_WEBHOOK_URL="+r.slack.URL())
	r.cluster.enter(r.start)
	r.cluster.await(r.start, "ready: KUBECONFIG=")
	for _, block := range blocks[1:] {
		r.shell.run(block)
	}
	if promise != nil {
		promise(r)
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
