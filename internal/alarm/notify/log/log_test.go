package log_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/log"
	"github.com/bongsu-io/bongsu/internal/kube"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newMessage(title, text string) message.Message {
	return message.Message{
		Cluster: "prod", Alarm: kube.Key{Kind: "Alarm", Namespace: "shop", Name: "crashes"},
		Title: title, Text: text, LastSeen: noon, Events: []message.Event{{Type: "Warning"}},
	}
}

func TestSendWritesReadableLines(t *testing.T) {
	normal := newMessage("node-7: NodeReady (Node)", "")
	normal.Events[0].Type, normal.Alarm = "Normal", kube.Key{Kind: "ClusterAlarm", Name: "nodes"}
	for name, tc := range map[string]struct {
		message message.Message
		want    string
	}{
		"warning": {newMessage("shop/web-0: BackOff (Pod)", "Back-off restarting\n4 times"),
			"2026-11-20 12:00:00Z ! shop/web-0: BackOff (Pod)  (prod, Alarm shop/crashes)\n    Back-off restarting\n    4 times\n"},
		"normal":   {normal, "2026-11-20 12:00:00Z * node-7: NodeReady (Node)  (prod, ClusterAlarm nodes)\n"},
		"forgery":  {newMessage("a\n2026-11-20 12:00:00Z * forged", "\x1b[2Jb\r\n2026 forged\x00"), "2026-11-20 12:00:00Z ! a 2026-11-20 12:00:00Z * forged  (prod, Alarm shop/crashes)\n    [2Jb\n    2026 forged\n"},
		"no title": {newMessage(" ", ""), "2026-11-20 12:00:00Z ! Alarm  (prod, Alarm shop/crashes)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			n := log.New(&out)
			body, err := n.Render(tc.message)
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Send(t.Context(), "key", body); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestColoredBodiesHaveAnotherFormat(t *testing.T) {
	plain, colored := log.New(&bytes.Buffer{}), log.NewColored(&bytes.Buffer{})
	body, err := colored.Render(newMessage("a", "b"))
	if err != nil || !bytes.Contains(body, []byte("\x1b[")) {
		t.Errorf("no color in %q, %v", body, err)
	}
	if plain.Format() == colored.Format() {
		t.Errorf("both formats are %q", plain.Format())
	}
}

func TestMessagesOfManyGoroutinesDoNotMix(t *testing.T) {
	out := &slowly{}
	n := log.New(out)
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() { _ = n.Send(t.Context(), "", []byte("0123456789\n")) })
	}
	senders.Wait()
	if want := strings.Repeat("0123456789\n", 8); out.String() != want {
		t.Errorf("got %q", out.String())
	}
}

// slowly writes byte by byte, so that concurrent writes would be interleaved.
type slowly struct{ bytes.Buffer }

func (s *slowly) Write(p []byte) (int, error) {
	for _, b := range p {
		s.WriteByte(b)
	}
	return len(p), nil
}

func TestSendRetriesWhenTheOutputIsClosed(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	err = log.New(file).Send(t.Context(), "", []byte("x"))
	if e, ok := errors.AsType[*notify.SendError](err); !ok || e.Class != notify.Retry {
		t.Errorf("got %v, want Retry", err)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("title", "text\nmore", "cluster")
	f.Add("\x1b[2J", "\r2026-11-20 12:00:00Z * forged\v\f\u2028x", "\xff\u202e")
	n := log.New(&bytes.Buffer{})
	f.Fuzz(func(t *testing.T, title, text, cluster string) {
		m := newMessage(title, text)
		m.Cluster = cluster
		body, err := n.Render(m)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		for i, line := range lines {
			if own := strings.HasPrefix(line, "2026-11-20 12:00:00Z "); own != (i == 0) || i > 0 && !strings.HasPrefix(line, "    ") {
				t.Errorf("line %d is %q", i, line)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
				t.Errorf("a control character in %q", line)
			}
		}
	})
}
