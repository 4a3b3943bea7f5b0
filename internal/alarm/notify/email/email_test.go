package email_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/email"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/testing/dns"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
)

func config(port int32, encryption v1alpha1.MailTLS) email.Config {
	return email.Config{
		Host: "127.0.0.1", Port: port, TLS: encryption, From: "bongsu@example.com", To: []string{"a@example.com", "b@example.com"},
		Clock: clock.RealClock{},
	}
}

func newNotifier(t testing.TB, h httppost.Config, c email.Config) *email.Notifier {
	t.Helper()
	client := httppost.New(h)
	t.Cleanup(client.Close)
	n, err := email.New(client, c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func send(t testing.TB, n *email.Notifier, m message.Message) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return n.Send(ctx, "key-1", notifiers.Render(t, n, m))
}

// parse reads a mail as a mail client does.
func parse(t testing.TB, raw []byte) (header mail.Header, subject, text string) {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	return m.Header, subject, strings.ReplaceAll(string(body), "\r\n", "\n")
}

func TestAMailArrivesWithEveryEncryption(t *testing.T) {
	cert, roots := certificate(t)
	for _, encryption := range []v1alpha1.MailTLS{v1alpha1.MailStartTLS, v1alpha1.MailImplicitTLS, v1alpha1.MailNoTLS} {
		t.Run(string(encryption), func(t *testing.T) {
			box := &mailbox{}
			server := &tls.Config{Certificates: []tls.Certificate{cert}}
			if encryption == v1alpha1.MailNoTLS {
				server = nil
			}
			c := config(box.start(t, server, encryption == v1alpha1.MailImplicitTLS), encryption)
			if server != nil {
				c.Username, c.Password = username, password
			}
			n := newNotifier(t, httppost.Config{Roots: roots}, c)
			if err := send(t, n, messages.New("BackOff: Pod 봉수/web-0", "Back-off\n.\nsecond")); err != nil {
				t.Fatal(err)
			}
			if server != nil && box.logins != 1 || len(box.all()) != 1 {
				t.Fatalf("%d logins, %d mails", box.logins, len(box.all()))
			}
			got := box.all()[0]
			if diff := cmp.Diff([]string{"bongsu@example.com", "a@example.com", "b@example.com"}, append([]string{got.from}, got.to...)); diff != "" {
				t.Error(diff)
			}
			header, subject, text := parse(t, got.raw)
			if subject != "⚠️ BackOff: Pod 봉수/web-0" || !strings.HasPrefix(text, "Back-off\n.\nsecond\n\n-- \nprod · Alarm shop/crashes") {
				t.Errorf("the subject is %q, the text %q", subject, text)
			}
			if header.Get("Auto-Submitted") != "auto-generated" || header.Get("Date") == "" {
				t.Errorf("headers are %v", header)
			}
		})
	}
}

func TestARetriedMailIsIdentical(t *testing.T) {
	box := &mailbox{}
	n := newNotifier(t, httppost.Config{}, config(box.start(t, nil, false), v1alpha1.MailNoTLS))
	for range 2 {
		if err := send(t, n, messages.New("a", "b")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(box.all()[0].raw), string(box.all()[1].raw)); diff != "" {
		t.Errorf("the second differs:\n%s", diff)
	}
	if header, _, _ := parse(t, box.all()[0].raw); !strings.HasSuffix(header.Get("Message-ID"), "@example.com>") {
		t.Errorf("Message-ID is %s", header.Get("Message-ID"))
	}
}

func TestTheMailsOfAGroupAreOneConversation(t *testing.T) {
	box := &mailbox{}
	n := newNotifier(t, httppost.Config{}, config(box.start(t, nil, false), v1alpha1.MailNoTLS))
	other := messages.Grouped(4, false)
	other.Group.Key = "another"
	for _, m := range []message.Message{messages.Grouped(4, false), messages.Grouped(9, true), other, messages.New("a", "b")} {
		if err := send(t, n, m); err != nil {
			t.Fatal(err)
		}
	}
	var references []string
	for _, received := range box.all() {
		header, _, _ := parse(t, received.raw)
		if header.Get("In-Reply-To") != header.Get("References") {
			t.Errorf("headers are %v", header)
		}
		references = append(references, header.Get("References"))
	}
	if r := references; r[0] == "" || r[0] != r[1] || r[1] == r[2] || r[3] != "" {
		t.Errorf("the references are %q", r)
	}
}

func TestNothingIsSentWithoutTheConfiguredEncryption(t *testing.T) {
	cert, _ := certificate(t)
	untrusted := &tls.Config{Certificates: []tls.Certificate{cert}}
	for name, tc := range map[string]struct {
		server     *tls.Config
		encryption v1alpha1.MailTLS
		class      notify.Class
		want       string
	}{
		"no STARTTLS offered": {nil, v1alpha1.MailStartTLS, notify.Stop, "does not offer STARTTLS"},
		"untrusted":           {untrusted, v1alpha1.MailStartTLS, notify.Retry, "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			box := &mailbox{}
			c := config(box.start(t, tc.server, false), tc.encryption)
			c.Username, c.Password = username, password
			e, ok := errors.AsType[*notify.SendError](send(t, newNotifier(t, httppost.Config{}, c), messages.New("a", "b")))
			if !ok || e.Class != tc.class || !strings.Contains(e.Text, tc.want) || len(box.all()) != 0 || box.logins != 0 {
				t.Errorf("got %+v, %d mails, want the text %q", e, len(box.all()), tc.want)
			}
		})
	}
}

func TestSendSaysWhatToDo(t *testing.T) {
	cert, roots := certificate(t)
	for name, tc := range map[string]struct {
		box      *mailbox
		password string
		class    notify.Class
		want     string
	}{
		"wrong password":      {&mailbox{}, "wrong", notify.Stop, "the mail server refuses the user name or password: correct the Secret"},
		"sender refused":      {&mailbox{mail: reply(550)}, password, notify.Stop, "the mail server refuses spec.email.from"},
		"recipient refused":   {&mailbox{rcpt: reply(550)}, password, notify.Stop, "the mail server refuses spec.email.to[0]"},
		"message refused":     {&mailbox{data: reply(554)}, password, notify.Reject, "the mail server refuses this message: it is dropped"},
		"greylisted":          {&mailbox{rcpt: reply(451)}, password, notify.Retry, "cannot accept the message now: the operator retries it (SMTP 451)"},
		"full":                {&mailbox{data: reply(452)}, password, notify.Retry, "the operator retries it"},
		"too many, try later": {&mailbox{mail: reply(421)}, password, notify.Retry, "the operator retries it"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(tc.box.start(t, &tls.Config{Certificates: []tls.Certificate{cert}}, false), v1alpha1.MailStartTLS)
			c.Username, c.Password = username, tc.password
			e, ok := errors.AsType[*notify.SendError](send(t, newNotifier(t, httppost.Config{Roots: roots}, c), messages.New("a", "b")))
			if !ok || e.Class != tc.class || !strings.Contains(e.Text, tc.want) {
				t.Errorf("got %+v, want a %s with the text %q", e, tc.class, tc.want)
			}
			// Before it, a server can repeat the login.
			if want := map[bool]string{true: "5.0.0 secret answer"}[tc.class == notify.Reject]; ok && e.Answer != want {
				t.Errorf("the answer is %q, want %q", e.Answer, want)
			}
			if ok && (strings.Contains(e.Text, "secret") || strings.Contains(e.Text, "127.0.0.1") || strings.Contains(e.Text, "@")) {
				t.Errorf("the error reveals too much: %s", e.Text)
			}
			if len(tc.box.all()) != 0 {
				t.Error("a mail was delivered")
			}
		})
	}
}

func TestAReplyIsShownWithoutTheLoginThatItRepeats(t *testing.T) {
	cert, roots := certificate(t)
	plain := base64.StdEncoding.EncodeToString([]byte("\x00" + username + "\x00" + password))
	for reply, want := range map[string]string{
		"no mail of alarms:secret-password": "no mail of [...]:[...]",
		"AUTH PLAIN " + plain + " seen":     "AUTH PLAIN [...] seen",
		"LOGIN c2VjcmV0LXBhc3N3b3Jk":        "LOGIN [...]",
	} {
		box := &mailbox{data: func() error { return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.NoEnhancedCode, Message: reply} }}
		c := config(box.start(t, &tls.Config{Certificates: []tls.Certificate{cert}}, false), v1alpha1.MailStartTLS)
		c.Username, c.Password = username, password
		e, ok := errors.AsType[*notify.SendError](send(t, newNotifier(t, httppost.Config{Roots: roots}, c), messages.New("a", "b")))
		if !ok || e.Class != notify.Reject || e.Answer != want {
			t.Errorf("%s: got %+v, want the answer %s", reply, e, want)
		}
	}
}

func TestAGuardedReceiverDoesNotReachAForbiddenMailServer(t *testing.T) {
	box := &mailbox{}
	n := newNotifier(t, httppost.Config{Guard: dialguard.New(clock.RealClock{}, dialguard.Config{})}, config(box.start(t, nil, false), v1alpha1.MailNoTLS))
	e, ok := errors.AsType[*notify.SendError](send(t, n, messages.New("a", "b")))
	if !ok || e.Reason != v1alpha1.ReasonAddressNotAllowed || len(box.all()) != 0 {
		t.Errorf("got %+v, %d mails", e, len(box.all()))
	}
}

func TestAGuardedReceiverDoesNotShowWhichMailServersExist(t *testing.T) {
	resolver := dns.NewResolver(t, map[string]string{"internal.example": "10.0.0.1"})
	send := func(host string) *notify.SendError {
		c := config(0, v1alpha1.MailNoTLS)
		c.Host = host
		guard := dialguard.New(clock.RealClock{}, dialguard.Config{})
		e, _ := errors.AsType[*notify.SendError](send(t, newNotifier(t, httppost.Config{Guard: guard, Resolver: resolver}, c), messages.New("a", "b")))
		return e
	}
	missing, forbidden := send("missing.example"), send("internal.example")
	if missing == nil || missing.Reason != v1alpha1.ReasonAddressNotAllowed {
		t.Errorf("a missing mail server: %+v", missing)
	}
	if diff := cmp.Diff(missing, forbidden); diff != "" {
		t.Errorf("a missing mail server (-) and a forbidden one (+):\n%s", diff)
	}
}

func TestAHangingServerTimesOut(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	c := config(int32(listener.Addr().(*net.TCPAddr).Port), v1alpha1.MailNoTLS)
	c.Timeout = 50 * time.Millisecond // of answers only
	n := newNotifier(t, httppost.Config{}, c)
	body := notifiers.Render(t, n, messages.New("a", "b"))
	e, ok := errors.AsType[*notify.SendError](n.Send(t.Context(), "key", body))
	if !ok || e.Class != notify.Retry || !strings.Contains(e.Text, "did not answer in time") {
		t.Errorf("got %+v", e)
	}
}

func TestRenderMatchesTheGoldenFiles(t *testing.T) {
	n := newNotifier(t, httppost.Config{}, config(0, v1alpha1.MailStartTLS))
	for name, m := range messages.Kinds() {
		t.Run(name, func(t *testing.T) {
			messages.Golden(t, name, notifiers.Render(t, n, m))
		})
	}
}

// RFC 5321, 4.5.3.1.6: a line has at most 1,000 octets, including its end.
func FuzzRender(f *testing.F) {
	f.Add("a\r\nBcc: victim@example.com", "\r\n.\r\nMAIL FROM:<x>")
	f.Add(strings.Repeat("봉", 500), strings.Repeat("a", 5000))
	f.Add("", "\x00\xff")
	box := &mailbox{}
	n := newNotifier(f, httppost.Config{}, config(box.start(f, nil, false), v1alpha1.MailNoTLS))
	f.Fuzz(func(t *testing.T, title, text string) {
		before := len(box.all())
		if err := send(t, n, messages.New(title, text)); err != nil {
			t.Fatal(err)
		}
		mails := box.all()[before:]
		if len(mails) != 1 || len(mails[0].to) != 2 {
			t.Fatalf("%d mails for one", len(mails))
		}
		header, subject, _ := parse(t, mails[0].raw)
		if header.Get("Bcc") != "" || strings.ContainsAny(subject, "\r\n") {
			t.Errorf("a header was injected: %v", header)
		}
		for line := range bytes.SplitSeq(mails[0].raw, []byte("\r\n")) {
			if len(line) > 998 {
				t.Errorf("a line of %d octets", len(line))
			}
		}
	})
}

func TestTheRenderedMailHoldsNoPassword(t *testing.T) {
	c := config(0, v1alpha1.MailStartTLS)
	c.Username, c.Password = username, password
	n := newNotifier(t, httppost.Config{}, c)
	body := notifiers.Render(t, n, messages.New("a", "b"))
	if bytes.Contains(body, []byte(password)) || !json.Valid(body) {
		t.Errorf("got %s", body)
	}
}

// A tenant can guess the server and the recipients of an administrator's receiver.
func TestReceiversWithTheSameRecipientsShareNoLimit(t *testing.T) {
	n, err := email.New(nil, email.Config{Host: "mail.example.com", From: "alarms@example.com", To: []string{"ops@example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	if limit := n.Limit(); limit.Key != "" || limit.Every <= 0 {
		t.Errorf("the limit is %+v, want one without a key, so that it belongs to one receiver", limit)
	}
}
