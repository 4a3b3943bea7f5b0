// Package trial tries alarms before they are applied: which Events of a cluster they
// match, which messages result, and whether a receiver accepts one. It compiles, matches
// and renders with the code of the operator, reads with the permissions of the caller,
// and changes nothing in the cluster.
package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Test evaluates the Events and the objects that the API server has now, or a Comparison. It
// writes nothing: the API server checks each alarm in a dry run.
func (e *Environment) Test(ctx context.Context, alarms []*Alarm) (*Report, error) {
	t := &test{Environment: e, reader: newClusterReader(e.Client)}
	t.enricher = t.reader.enricher(ctx, e)
	t.readServed()
	report := &Report{From: e.From.UTC().Truncate(time.Second), Until: e.Until.UTC().Truncate(time.Second)}
	if err := t.checkFile(ctx, report); err != nil {
		return nil, err
	}
	for _, a := range alarms {
		alarmReport, err := t.alarm(ctx, a)
		if err != nil {
			return nil, err
		}
		report.Alarms = append(report.Alarms, *alarmReport)
	}
	report.Notes = append(t.reader.notes(), t.notes...)
	return report, nil
}

func (t *test) alarm(ctx context.Context, a *Alarm) (*AlarmReport, error) {
	_, note, err := t.review(ctx, a.Object, a.ID())
	if err != nil {
		return nil, err
	}
	report := newAlarmReport(a)
	if note != "" {
		report.Notes = append(report.Notes, note)
	}
	receivers, err := t.checkReceivers(ctx, a, report)
	if err != nil {
		return nil, err
	}
	notes, err := t.addRoute(ctx, a, receivers)
	if err != nil {
		return nil, err
	}
	report.Notes = append(report.Notes, notes...)
	t.checkResources(ctx, a, report)
	evaluate := t.present
	if t.Comparison != nil {
		evaluate = t.compare
	}
	if err := evaluate(ctx, a, report, labelsFor(receivers)); err != nil {
		return nil, err
	}
	report.addChannels(receivers, a.compiled.IsAboutOneNamespace())
	t.checkWords(a, report)
	t.checkNamespaces(ctx, a, report)
	return report, nil
}

// present evaluates the Events and the objects of the cluster.
func (t *test) present(ctx context.Context, a *Alarm, report *AlarmReport, labels []string) error {
	if len(a.Object.AlarmSpec().Match) == 0 {
		report.withoutMatch = true
	} else if err := t.events(ctx, a, report, labels); err != nil {
		return err
	}
	if len(a.Object.AlarmSpec().Changes) > 0 {
		report.Notes = append(report.Notes, "spec.changes is not tested, because the API server has no earlier states of objects: compare two files with --old and --new")
	}
	t.checkStates(ctx, a, report)
	t.checkFields(ctx, a, report)
	return nil
}

// events evaluates the Events of the cluster.
func (t *test) events(ctx context.Context, a *Alarm, report *AlarmReport, labels []string) error {
	seen, err := t.occurrences(ctx, a)
	if err != nil {
		return err
	}
	report.Events = len(seen.occurrences)
	result, err := t.run(ctx, a, seen.occurrences, t.reader, t.enricher, labels...)
	if err != nil {
		return err
	}
	report.addResult(result)
	t.addNearMisses(ctx, a, seen.occurrences, report)
	checkExceptions(a, seen.occurrences, report)
	if a.compiled.UsesNodes() && report.Events > 0 {
		report.Notes = append(report.Notes, "cluster.nodes is the number of nodes now: the operator uses the number at the time of the Event")
	}
	if seen.oldest.Equal(t.Now) {
		report.Notes = append(report.Notes, "there are no Events: the API server deletes them after its --event-ttl, which is one hour by default")
	} else if t.From.Before(seen.oldest) && (report.matched() == 0 || t.Now.Sub(t.From) > eventTTL) {
		report.Notes = append(report.Notes, fmt.Sprintf("the oldest Event is of %s: the API server deletes Events "+
			"after its --event-ttl, which is one hour by default", seen.oldest.UTC().Format(time.RFC3339)))
	}
	return nil
}

func newAlarmReport(a *Alarm) *AlarmReport {
	report := &AlarmReport{
		Alarm: a.ID(), Suspended: a.Object.AlarmSpec().Suspend,
		Receivers: []string{}, Matches: []Match{}, Messages: []Message{}, NearMisses: []NearMiss{},
	}
	if report.Suspended {
		report.Notes = append(report.Notes, "spec.suspend is true: if you apply it, it sends nothing")
	}
	for _, key := range a.receiverKeys() {
		report.Receivers = append(report.Receivers, key.String())
	}
	return report
}

// addResult adds what the alarm would have done.
func (a *AlarmReport) addResult(r *pipeline.DryRunResult) {
	for i := range r.Evaluations {
		a.Matches = append(a.Matches, newMatch(&r.Evaluations[i]))
	}
	for i := range r.Messages {
		a.Messages = append(a.Messages, Message{Number: i + 1, At: r.Messages[i].At.UTC(), Message: r.Messages[i].Message})
	}
	a.addChosen(r)
	a.noteLacking(r)
	if n := unresolved(r); n > 0 {
		a.Notes = append(a.Notes, count(n, "occurrence")+" could not be evaluated, because "+match.UnresolvedAdvice)
	}
	if r.OverBudget != nil {
		a.Notes = append(a.Notes, r.OverBudget.Error())
	}
}

// unresolved returns the number of occurrences whose object is gone.
func unresolved(r *pipeline.DryRunResult) (n int) {
	for i := range r.Evaluations {
		if e := &r.Evaluations[i]; e.Outcome == match.Unresolved {
			n += int(e.Occurrence.Increase)
		}
	}
	return n
}

// noteLacking says how many occurrences lack a label or an annotation of spec.group.by.
func (a *AlarmReport) noteLacking(r *pipeline.DryRunResult) {
	lacking, example := map[string]int{}, map[string]string{}
	for i := range r.Evaluations {
		if e := &r.Evaluations[i]; e.Lacks != "" && e.Outcome == match.Matched {
			of := &e.Occurrence.Event.Regarding
			lacking[e.Lacks] += int(e.Occurrence.Increase)
			example[e.Lacks] = kube.Key{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}.Display()
		}
	}
	for _, key := range slices.Sorted(maps.Keys(lacking)) {
		a.Notes = append(a.Notes, fmt.Sprintf("spec.group.by: %s without %s, for example of %s: each such object is a group of its own",
			count(lacking[key], "occurrence"), key, example[key]))
	}
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
	case e.Outcome == match.Unresolved, e.Outcome == match.Undecided:
		m.Outcome = OutcomeUnresolved
	case e.Suppressed != "":
		m.Outcome = OutcomeHeldBack
	}
	if e.Err != nil {
		m.Error = e.Err.Error()
	}
	return m
}
