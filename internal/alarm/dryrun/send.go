package dryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/controller/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Sent is a message that a receiver has accepted.
type Sent struct {
	// Receiver is what users call it.
	Receiver string
	Message  message.Message
	// Example: no Event matched, and one was made up.
	Example bool
	// Notes say what could not be found out, and why.
	Notes []string
}

// sendTimeout bounds the one attempt, as the operator's.
const sendTimeout = 10 * time.Second

// Send sends one message of the alarm to a receiver, marked as a test: of the newest
// Event that matches, whatever threshold, group and mute would make of it, or else of one
// that is made up. What is answered is the error: it tells no secret.
func (s *Environment) Send(ctx context.Context, a *Alarm, to kube.Key, sinks receiver.Sinks) (*Sent, error) {
	object, err := s.receiver(ctx, a, to)
	if err != nil {
		return nil, err
	}
	notifier, verdict, err := receiver.Build(ctx, s.Client, sinks, object)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read a Secret that %s names: ask for the right to get it, or have somebody send the test who may: %w", called(to), err)
	case err != nil:
		return nil, fmt.Errorf("read what %s names: %w", called(to), err)
	case !verdict.Ready():
		return nil, fmt.Errorf("%s: %s", called(to), verdict.Message)
	}
	sent := &Sent{Receiver: called(to)}
	if err := s.compose(ctx, a, sent); err != nil {
		return nil, err
	}
	body, err := notifier.Render(sent.Message)
	if err != nil {
		return nil, fmt.Errorf("render the message: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := notifier.Send(ctx, uuid.NewString(), body); err != nil {
		return nil, fmt.Errorf("%s did not accept the message: %w", called(to), told(err))
	}
	return sent, nil
}

// told is what may be told of a failure: others than a notifier's own may hold anything.
func told(err error) error {
	if failure, ok := errors.AsType[*notify.SendError](err); ok {
		return failure
	}
	return errors.New("it could not be sent")
}

// compose makes the message.
func (s *Environment) compose(ctx context.Context, a *Alarm, sent *Sent) error {
	around := newClusterReader(s.Client)
	enricher := around.enricher(ctx, s.ClusterName)
	occurrences, err := s.occurrences(ctx, a)
	if apierrors.IsForbidden(err) {
		sent.Notes = append(sent.Notes, err.Error())
		err = nil
	}
	if err != nil {
		return err
	}
	rehearsal, err := s.rehearse(ctx, a, occurrences, around, enricher)
	if err != nil {
		return err
	}
	for _, j := range slices.Backward(rehearsal.Evaluations) {
		if j.Outcome == match.Matched {
			sent.Message = j.Alone.AsTest()
			return nil
		}
	}
	m, err := s.example(ctx, a, enricher)
	if err != nil {
		sent.Notes = append(sent.Notes, "of the made-up Event an expression fails: "+err.Error())
	}
	sent.Message, sent.Example = m.AsTest(), true
	return nil
}

func (s *Environment) example(ctx context.Context, a *Alarm, enricher pipeline.Enricher) (message.Message, error) {
	occ, known := a.compiled.Example(s.Now)
	known.Cluster = enricher.Context(ctx, &alarm.Event{}).Cluster
	return a.compiled.Render(ctx, &occ, &known)
}
