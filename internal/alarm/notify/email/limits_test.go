package email_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/email"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
)

// slowServer is a mail server in memory, so that a bubble controls the time. It answers
// after some time, by the command: "greeting", the name of a command, or "." for a mail.
type slowServer struct {
	takes map[string]time.Duration
	// reached are the commands that it got, accepted the mails that it answered.
	reached  []string
	accepted int
}

// Dial implements email.Connector.
func (s *slowServer) Dial(context.Context, string) (net.Conn, error) {
	here, there := net.Pipe()
	go s.serve(there)
	return here, nil
}

// TLSConfig implements email.Connector.
func (s *slowServer) TLSConfig(_ context.Context, host string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host}
}

func (s *slowServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if !s.answer(conn, "greeting", "220 mail.example.com") {
		return
	}
	inMail := false
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		command, _, _ := strings.Cut(lines.Text(), " ")
		code := "250 OK"
		switch {
		case inMail && lines.Text() != ".":
			continue
		case inMail:
			inMail = false
		case command == "DATA":
			code, inMail = "354 go on", true
		}
		if !s.answer(conn, command, code) {
			return
		}
		if command == "." {
			s.accepted++
		}
	}
}

func (s *slowServer) answer(conn net.Conn, command, text string) bool {
	s.reached = append(s.reached, command)
	time.Sleep(s.takes[command])
	_, err := fmt.Fprintf(conn, "%s\r\n", text)
	return err == nil
}

func (s *slowServer) last() string { return s.reached[len(s.reached)-1] }

// newSlow returns a Notifier for n recipients, and a body.
func newSlow(t *testing.T, s email.Connector, timeout time.Duration, n int) (*email.Notifier, []byte) {
	t.Helper()
	c := email.Config{Host: "mail.example.com", TLS: v1alpha1.MailNoTLS, From: "a@example.com", Timeout: timeout, Clock: clock.RealClock{}}
	for i := range n {
		c.To = append(c.To, fmt.Sprintf("ops-%d@example.com", i))
	}
	notifier, err := email.New(s, c)
	if err != nil {
		t.Fatal(err)
	}
	return notifier, notifiers.Render(t, notifier, messages.New("a", "b"))
}

func TestASlowServerGetsAMailOnce(t *testing.T) {
	const almost = -time.Second
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{takes: map[string]time.Duration{
			"greeting": 5*time.Minute + almost, "EHLO": 5*time.Minute + almost, "MAIL": 5*time.Minute + almost,
			"RCPT": 5*time.Minute + almost, "DATA": 2*time.Minute + almost, ".": 10*time.Minute + almost, "QUIT": time.Hour,
		}}
		n, body := newSlow(t, s, 0, 1)
		if err := n.Send(t.Context(), "key", body); err != nil {
			t.Errorf("after %s: %v", s.last(), err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if s.accepted != 1 {
			t.Errorf("%d mails were accepted", s.accepted)
		}
	})
}

func TestEachAnswerOfAMailServerHasATimeLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		command    string
		each       time.Duration
		recipients int
		timeout    time.Duration
		want       time.Duration
	}{
		"greeting":              {command: "greeting", each: time.Hour, want: 5 * time.Minute},
		"MAIL":                  {command: "MAIL", each: time.Hour, want: 5 * time.Minute},
		"RCPT":                  {command: "RCPT", each: time.Hour, want: 5 * time.Minute},
		"DATA":                  {command: "DATA", each: time.Hour, want: 2 * time.Minute},
		"the mail":              {command: ".", each: time.Hour, want: 10 * time.Minute},
		"all together":          {command: "RCPT", each: 4 * time.Minute, recipients: 20, want: 30 * time.Minute},
		"timeoutSeconds":        {command: "RCPT", each: time.Hour, timeout: 7 * time.Second, want: 7 * time.Second},
		"timeoutSeconds, again": {command: ".", each: time.Hour, timeout: 7 * time.Second, want: 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowServer{takes: map[string]time.Duration{tc.command: tc.each}}
				n, body := newSlow(t, s, tc.timeout, max(tc.recipients, 1))
				start := time.Now()
				err := n.Send(t.Context(), "key", body)
				took := time.Since(start)
				e, ok := errors.AsType[*notify.SendError](err)
				if !ok || e.Class != notify.Retry || !strings.Contains(e.Text, "did not answer in time") || took != tc.want {
					t.Errorf("got %v after %v, want a retry after %v", err, took, tc.want)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
			})
		})
	}
}

func TestOnlyACompleteMailOutlastsAChangeOrAStop(t *testing.T) {
	for _, command := range []string{"greeting", "EHLO", "MAIL", "RCPT", "DATA", ".", "QUIT"} {
		t.Run(command, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowServer{takes: map[string]time.Duration{command: time.Minute}}
				n, body := newSlow(t, s, 0, 1)
				early, change := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer change()
				start := time.Now()
				err := n.Send(notify.WithEarly(t.Context(), early), "key", body)
				took := time.Since(start)
				time.Sleep(time.Hour)
				synctest.Wait()
				if complete := command == "." || command == "QUIT"; complete && (err != nil || s.accepted != 1) {
					t.Errorf("got %v, %d mails accepted, want one", err, s.accepted)
				} else if !complete && (!errors.Is(err, notify.ErrInterrupted) || took != 500*time.Millisecond || s.accepted != 0) {
					t.Errorf("got %v after %v, %d mails accepted, want an interruption at once", err, took, s.accepted)
				}
			})
		})
	}
}

// endless is a mail server whose greeting never ends.
type endless struct {
	slowServer

	sent int
}

// Dial implements email.Connector.
func (s *endless) Dial(context.Context, string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		line := []byte("220-" + strings.Repeat("a", 1000) + "\r\n")
		for n, err := there.Write(line); err == nil && s.sent < 1<<30; n, err = there.Write(line) {
			s.sent += n
		}
	}()
	return here, nil
}

func TestAnAnswerWithoutEndIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &endless{}
		n, body := newSlow(t, s, 0, 1)
		if e, ok := errors.AsType[*notify.SendError](n.Send(t.Context(), "key", body)); !ok || e.Class != notify.Retry {
			t.Errorf("got %v", e)
		}
		synctest.Wait()
		if s.sent > 128<<10 {
			t.Errorf("%d bytes were read", s.sent)
		}
	})
}

func TestTheOperatorGreetsWithItsNameOrAddress(t *testing.T) {
	for name, tc := range map[string]struct{ name, want string }{
		"default":    {"", "[127.0.0.1]"},
		"configured": {"bongsu.example.com", "bongsu.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			box := &mailbox{}
			c := config(box.start(t, nil, false), v1alpha1.MailNoTLS)
			c.HelloName = tc.name
			if err := send(t, newNotifier(t, httppost.Config{}, c), messages.New("a", "b")); err != nil {
				t.Fatal(err)
			}
			if got := box.all()[0].greeted; got != tc.want {
				t.Errorf("the operator greets as %q, want %q", got, tc.want)
			}
		})
	}
}
