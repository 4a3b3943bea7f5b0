package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/slack-go/slack"
)

// shownAlarms are the alarms whose first message is in the picture, as the messages name them.
var shownAlarms = []string{"ClusterAlarm node-joined", "ClusterAlarm cluster-admin-granted", "ClusterAlarm crash"}

// post is a message that was posted to Slack.
type post struct {
	at     time.Time
	blocks []slack.Block
}

// inbox accepts messages in the place of Slack's incoming webhook.
type inbox struct {
	mu    sync.Mutex
	posts []post
}

func (i *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m slack.WebhookMessage
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.Blocks == nil {
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.posts = append(i.posts, post{time.Now(), m.Blocks.BlockSet})
	_, _ = w.Write([]byte("ok"))
}

// runDemo runs the demo and returns the messages that the operator posts.
func runDemo(ctx context.Context, bin string) ([]post, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	received := &inbox{}
	server := &http.Server{Handler: received, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // returns when the server is closed
	err = demo(ctx, bin, "http://"+listener.Addr().String()+"/")
	err = errors.Join(err, server.Close())
	serving.Wait()
	received.mu.Lock()
	defer received.mu.Unlock()
	return received.posts, err
}

func demo(ctx context.Context, bin, webhook string) error {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "bongsu"), "local", "--demo", "--exit", "--dir", dir)
	cmd.Env = append(os.Environ(), "SLACK_WEBHOOK_URL="+webhook)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if output, failure := cmd.CombinedOutput(); failure != nil {
		err = fmt.Errorf("the demo failed: %w:\n%s", failure, output)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// choose returns the first message of each alarm.
func choose(posts []post, alarms []string) ([]post, error) {
	var chosen []post
	for _, alarm := range alarms {
		at := slices.IndexFunc(posts, func(p post) bool { return p.isOf(alarm) })
		if at < 0 {
			return nil, fmt.Errorf("%s posted no message", alarm)
		}
		chosen = append(chosen, posts[at])
	}
	return chosen, nil
}

// isOf reports whether the message is of an alarm, which its context names.
func (p post) isOf(alarm string) bool {
	return slices.ContainsFunc(p.blocks, func(b slack.Block) bool {
		c, ok := b.(*slack.ContextBlock)
		return ok && slices.Contains(elements(c), alarm)
	})
}
