// Package guide follows the guides in docs/ to the letter, as somebody would who
// reads one for the first time: it runs what is written there, in the order in
// which it is written, and looks whether what the guide promises comes about.
package guide

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/binary"
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
	binary.Bongsu(t, bin)
	binary.Operator(t, bin)
	return dir
}
