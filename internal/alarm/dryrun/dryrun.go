// Package dryrun tests alarms before they are applied: which Events of a cluster they
// match, which messages result, and whether a receiver accepts one. It compiles, matches
// and renders with the code of the operator, reads with the permissions of the caller,
// and changes nothing in the cluster.
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

// Environment is the cluster on whose Events alarms are tested.
type Environment struct {
	// Client has the permissions of the user.
	Client client.Client
	// ClusterName is the name in messages. If it is empty, the name is derived from the
	// cluster's UID.
	ClusterName string
	// Events of the period Since before Now are evaluated.
	Now   time.Time
	Since time.Duration
}

// Test evaluates the Events that the API server has now. It writes nothing: the API server
// checks each alarm in a dry run.
func (e *Environment) Test(ctx context.Context, alarms []*Alarm) (*Report, error) {
	reader := newClusterReader(e.Client)
	enricher := reader.enricher(ctx, e.ClusterName)
	report := &Report{Since: e.Now.Add(-e.Since).UTC().Truncate(time.Second)}
	for _, a := range alarms {
		note, err := e.review(ctx, a)
		if err != nil {
			return nil, err
		}
		occurrences, err := e.occurrences(ctx, a)
		if err != nil {
			return nil, err
		}
		result, err := e.run(ctx, a, occurrences, reader, enricher)
		if err != nil {
			return nil, err
		}
		alarmReport := newAlarmReport(a, len(occurrences), result)
		if note != "" {
			alarmReport.Notes = append(alarmReport.Notes, note)
		}
		report.Alarms = append(report.Alarms, alarmReport)
	}
	report.Notes = reader.notes()
	return report, nil
}

// run passes the occurrences through a pipeline with a temporary outbox.
func (e *Environment) run(ctx context.Context, a *Alarm, occurrences []alarm.Occurrence, namespaces match.Namespaces, enricher pipeline.Enricher) (*pipeline.DryRunResult, error) {
	dir, err := os.MkdirTemp("", "bongsu-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return pipeline.DryRun(ctx, dir, a.compiled, occurrences, namespaces, enricher, e.Now)
}

// review checks the alarm against the rules of the API server, in a dry run. An alarm that
// the rules refuse is an error. If the user may not create it, review returns a note.
func (e *Environment) review(ctx context.Context, a *Alarm) (note string, err error) {
	object := a.Object.DeepCopyObject().(client.Object)
	object.SetResourceVersion("") // it may come from a cluster
	object.SetUID("")
	object.SetManagedFields(nil)
	err = e.Client.Create(ctx, object, client.DryRunAll)
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

// pageSize is the number of Events in one request.
const pageSize = 500

// occurrences reads the Events that the alarm may see. For an Alarm, these are the Events
// of its namespace.
func (e *Environment) occurrences(ctx context.Context, a *Alarm) ([]alarm.Occurrence, error) {
	var found []alarm.Occurrence
	var list eventsv1.EventList
	begin := e.Now.Add(-e.Since)
	for page := ""; ; page = list.Continue {
		err := e.Client.List(ctx, &list, client.InNamespace(a.ID().Namespace), client.Limit(pageSize), client.Continue(page))
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

func newAlarmReport(a *Alarm, events int, r *pipeline.DryRunResult) AlarmReport {
	report := AlarmReport{
		Alarm: a.ID(), Suspended: a.Object.AlarmSpec().Suspend, Events: events,
		Receivers: []string{}, Matches: []Match{}, Messages: []Message{},
	}
	for _, ref := range a.Object.ReceiverReferences() {
		report.Receivers = append(report.Receivers, kindOf(ref)+"/"+ref.Name)
	}
	for i := range r.Evaluations {
		report.Matches = append(report.Matches, newMatch(&r.Evaluations[i]))
	}
	for i := range r.Messages {
		report.Messages = append(report.Messages, Message{Number: i + 1, At: r.Messages[i].At.UTC(), Message: r.Messages[i].Message})
	}
	if r.OverBudget {
		report.Notes = append(report.Notes, match.ErrOverBudget.Error())
	}
	return report
}

func newMatch(e *pipeline.Evaluation) Match {
	event := &e.Occurrence.Event
	ref := event.Regarding
	m := Match{
		Namespace: event.Namespace, Name: event.Name, Type: event.Type, Reason: event.Reason, Note: event.Note,
		Regarding: message.Reference{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID},
		Count:     e.Occurrence.Increase, At: e.Occurrence.ObservedAt.UTC(),
		HeldBackBy: string(e.Suppressed), Group: e.By, Message: e.Message + 1, Outcome: OutcomeSent,
	}
	switch {
	case e.Outcome == match.Failed:
		m.Outcome = OutcomeFailed
	case e.Outcome == match.Unresolved:
		m.Outcome = OutcomeUnresolved
	case e.Suppressed != "":
		m.Outcome = OutcomeHeldBack
	}
	if e.Err != nil {
		m.Error = e.Err.Error()
	}
	return m
}
