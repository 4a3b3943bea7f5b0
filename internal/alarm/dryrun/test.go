package dryrun

import (
	"context"
	"fmt"
	"os"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// Environment is a cluster to test alarms on, and how.
type Environment struct {
	// Client reads as whoever asks.
	Client client.Client
	// ClusterName is told in messages; empty is derived from the cluster's UID.
	ClusterName string
	// Now ends the time whose Events are looked at, Since is how long that is.
	Now   time.Time
	Since time.Duration
}

// Test says what alarms would make of the Events that the API server has now. It writes
// nothing: the API server is asked for its opinion of an alarm by a dry run.
func (s *Environment) Test(ctx context.Context, alarms []*Alarm) (*Report, error) {
	around := newClusterReader(s.Client)
	enricher := around.enricher(ctx, s.ClusterName)
	report := &Report{Since: s.Now.Add(-s.Since).UTC().Truncate(time.Second)}
	for _, a := range alarms {
		note, err := s.review(ctx, a)
		if err != nil {
			return nil, err
		}
		occurrences, err := s.occurrences(ctx, a)
		if err != nil {
			return nil, err
		}
		rehearsal, err := s.rehearse(ctx, a, occurrences, around, enricher)
		if err != nil {
			return nil, err
		}
		told := tell(a, len(occurrences), rehearsal)
		if note != "" {
			told.Notes = append(told.Notes, note)
		}
		report.Alarms = append(report.Alarms, told)
	}
	report.Notes = around.notes()
	return report, nil
}

func (s *Environment) rehearse(ctx context.Context, a *Alarm, occurrences []alarm.Occurrence, namespaces match.Namespaces, enricher pipeline.Enricher) (*pipeline.DryRunResult, error) {
	dir, err := os.MkdirTemp("", "bongsu-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return pipeline.DryRun(ctx, dir, a.compiled, occurrences, namespaces, enricher, s.Now)
}

// review has the API server judge the alarm by its rules, which are more than can be
// checked without it. That it would refuse the user, and not the alarm, is a note.
func (s *Environment) review(ctx context.Context, a *Alarm) (note string, err error) {
	object := a.Object.DeepCopyObject().(client.Object)
	object.SetResourceVersion("") // of one that was read from a cluster
	object.SetUID("")
	object.SetManagedFields(nil)
	err = s.Client.Create(ctx, object, client.DryRunAll)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return "", nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("you may not create it: %v", err), nil
	case meta.IsNoMatchError(err):
		return "it cannot be created: Bongsu's kinds are not in this cluster", nil
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("it cannot be created: %v", err), nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return "", fmt.Errorf("the API server refuses it: %w", err)
	default:
		return "", fmt.Errorf("ask the API server about %s %s: %w", a.Kind, a.ID().Name, err)
	}
}

// pageSize is how many Events are asked for at once.
const pageSize = 500

// occurrences reads the Events that the alarm may see: an Alarm those of its own
// namespace alone.
func (s *Environment) occurrences(ctx context.Context, a *Alarm) ([]alarm.Occurrence, error) {
	var found []alarm.Occurrence
	var list eventsv1.EventList
	begin := s.Now.Add(-s.Since)
	for page := ""; ; page = list.Continue {
		err := s.Client.List(ctx, &list, client.InNamespace(a.ID().Namespace), client.Limit(pageSize), client.Continue(page))
		if err != nil {
			return nil, unreadable(a.ID().Namespace, err)
		}
		for i := range list.Items {
			occ, err := source.FullOccurrence(&list.Items[i])
			if err != nil {
				return nil, fmt.Errorf("read Event %s/%s: %w", list.Items[i].Namespace, list.Items[i].Name, err)
			}
			if !occ.ObservedAt.Before(begin) {
				found = append(found, occ)
			}
		}
		if list.Continue == "" {
			return found, nil
		}
	}
}

func unreadable(namespace string, err error) error {
	where := "namespace " + namespace
	if namespace == metav1.NamespaceAll {
		where = "all namespaces, which a ClusterAlarm sees"
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you may not list the Events of %s: ask for the right to list events.events.k8s.io: %w", where, err)
	}
	return fmt.Errorf("list the Events of %s: %w", where, err)
}

func tell(a *Alarm, events int, r *pipeline.DryRunResult) AlarmReport {
	told := AlarmReport{
		Alarm: a.ID(), Suspended: a.Object.AlarmSpec().Suspend, Events: events,
		Receivers: []string{}, Matches: []Match{}, Messages: []Message{},
	}
	for _, ref := range a.Object.ReceiverReferences() {
		told.Receivers = append(told.Receivers, kindOf(ref)+"/"+ref.Name)
	}
	for i := range r.Evaluations {
		told.Matches = append(told.Matches, matchOf(&r.Evaluations[i]))
	}
	for i := range r.Messages {
		told.Messages = append(told.Messages, Message{Number: i + 1, At: r.Messages[i].At.UTC(), Message: r.Messages[i].Message})
	}
	if r.OverBudget {
		told.Notes = append(told.Notes, match.ErrOverBudget.Error())
	}
	return told
}

func matchOf(j *pipeline.Evaluation) Match {
	event := &j.Occurrence.Event
	ref := event.Regarding
	m := Match{
		Namespace: event.Namespace, Name: event.Name, Type: event.Type, Reason: event.Reason, Note: event.Note,
		Regarding: message.Reference{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID},
		Count:     j.Occurrence.Increase, At: j.Occurrence.ObservedAt.UTC(),
		HeldBackBy: string(j.Suppressed), Group: j.By, Message: j.Message + 1, Outcome: OutcomeSent,
	}
	switch {
	case j.Outcome == match.Failed:
		m.Outcome = OutcomeFailed
	case j.Outcome == match.Unresolved:
		m.Outcome = OutcomeUnresolved
	case j.Suppressed != "":
		m.Outcome = OutcomeHeldBack
	}
	if j.Err != nil {
		m.Error = j.Err.Error()
	}
	return m
}
