package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// The reasons why changes of a resource are not read.
const (
	// KindNotFound: the API server does not serve the resource.
	KindNotFound = v1alpha1.ReasonKindNotFound
	// Forbidden: the operator lacks the permission to list and watch it.
	Forbidden = v1alpha1.ReasonForbidden
	// Unavailable: the API server does not answer, or the changes cannot be committed.
	Unavailable = v1alpha1.ReasonUnavailable
	// Excluded: the resource is never watched.
	Excluded = v1alpha1.ReasonInvalidMatch
	// TooMany: other resources use all watches.
	TooMany = v1alpha1.ReasonOverBudget
)

const tooMany = "too many resources are watched for changes: 64 are possible. Resources of ClusterAlarms come first, then each namespace in turn gets one. Remove alarms that name other resources"

// Status is the state of the watch of a resource. The zero Status describes a watch that has
// not begun.
type Status struct {
	// Synced is true if every change since the baseline is read, or will be soon.
	Synced bool
	// Reason says why changes are not read, and Message what to do. Both are empty without a
	// problem. A watch with a problem can be Synced: it resumes without loss.
	Reason  string
	Message string
	// Served describes the resource. It is known if Kind is not empty.
	alarm.Served
}

func refuse(reason, message string) Status { return Status{Reason: reason, Message: message} }

// Status returns the state of the watch of a resource for an alarm. It is not Synced before all
// objects are read with the fields that the alarm names.
func (s *Source) Status(r alarm.Resource, by kube.Key, named fields.Shape) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused, ok := s.refused[r]; ok {
		return refused
	}
	status, kept := s.statuses[r.Stream()], s.kept[r.Stream()]
	status.Synced = status.Synced && kept.covers(by, named)
	return status
}

// kindsTimeout limits how long Kinds waits for the API server. Alarms wait for it.
const kindsTimeout = 5 * time.Second

// Kinds returns what the API server serves, to check these kinds. If it does not answer, the
// result knows nothing.
func (s *Source) Kinds(ctx context.Context, kinds []string) Served {
	ctx, cancel := context.WithTimeout(ctx, kindsTimeout)
	defer cancel()
	return s.catalog.kinds(ctx, kinds, s.missing)
}

// Concerns reports whether a change of a status can concern an alarm that names fields of a resource.
type Concerns func(r alarm.Resource, by kube.Key, named fields.Shape) bool

// Notify makes the source call a function after each change of a status, from any goroutine. It
// must return soon.
func (s *Source) Notify(changed func(Concerns)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(s.observers, changed)
}

// notifyObservers calls the functions of Notify. The caller does not hold s.mu.
func (s *Source) notifyObservers(concerns Concerns) {
	s.mu.Lock()
	observers := slices.Clone(s.observers)
	s.mu.Unlock()
	for _, changed := range observers {
		changed(concerns)
	}
}

// report changes the status of a stream.
func (s *Source) report(stream string, change func(*Status)) {
	s.mu.Lock()
	before := s.statuses[stream]
	after := before
	change(&after)
	s.statuses[stream] = after
	s.mu.Unlock()
	if after != before {
		s.notifyObservers(func(r alarm.Resource, _ kube.Key, _ fields.Shape) bool { return r.Stream() == stream })
	}
}

// keeps records what every object of a stream is compared in. It concerns the alarms whose fields
// are kept now, and were not before.
func (s *Source) keeps(stream string, kept *shapes) {
	s.mu.Lock()
	before := s.kept[stream]
	s.kept[stream] = kept
	s.mu.Unlock()
	if before == kept {
		return
	}
	s.notifyObservers(func(r alarm.Resource, by kube.Key, named fields.Shape) bool {
		return r.Stream() == stream && before.covers(by, named) != kept.covers(by, named)
	})
}

// forget removes the status of a stream.
func (s *Source) forget(stream string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.statuses, stream)
	delete(s.kept, stream)
}

// problemError is an error with a text for users.
type problemError struct {
	reason, message string
}

// Error implements error.
func (e *problemError) Error() string { return e.message }

// problemOf returns what users see of an error. Other errors can contain addresses.
func problemOf(r alarm.Resource, err error) *problemError {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return &problemError{Forbidden, ForbiddenMessage(r, watching.verbs...)}
	}
	return unavailable(r, err)
}

// unavailable returns what users see of an error that can end by itself.
func unavailable(r alarm.Resource, err error) *problemError {
	if p, ok := errors.AsType[*problemError](err); ok {
		return p
	}
	return &problemError{Unavailable, fmt.Sprintf("%s cannot be read from the API server%s: the operator retries", r.Stream(), reasonOf(err))}
}

// ForbiddenMessage says how to allow the operator to use verbs on a resource.
func ForbiddenMessage(r alarm.Resource, verbs ...string) string {
	value := ""
	if r == (alarm.Resource{Resource: "configmaps"}) && slices.Contains(verbs, "list") {
		value = "set the value alarms.changes.configMaps, or "
	}
	return fmt.Sprintf("the operator is not allowed to %s %s: %screate a ClusterRole with the label bongsu.io/aggregate-to-alarms: \"true\". Its rule is apiGroups: [%q], resources: [%q], verbs: [%s]",
		strings.Join(verbs, " and "), r.Stream(), value, r.Group, r.Resource, strings.Join(verbs, ", "))
}

// NamespacedMessage says what to do about an Alarm for a resource without namespaces.
func NamespacedMessage(r alarm.Resource) string {
	return "objects of " + r.Resource + " have no namespace, and an Alarm is about one namespace: use a ClusterAlarm"
}

// reasonOf returns the reason of a status of the API server.
func reasonOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != "" {
		return " (" + string(reason) + ")"
	}
	return ""
}
