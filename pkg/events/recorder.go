// Package events creates Events that neither a restart nor a second replica repeats.
package events

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-logr/logr"
	lru "github.com/hashicorp/golang-lru/v2"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bongsu-io/bongsu/pkg/plaintext"

	corev1 "k8s.io/api/core/v1"
)

const (
	// RepeatEvery is the interval at which an Event is repeated while its cause lasts. It
	// is shorter than the life of an Event, which is an hour by default (--event-ttl).
	RepeatEvery = 50 * time.Minute

	// maxNote is the limit of an Event's note in the API server, in bytes.
	maxNote = 1024

	cacheSize = 4096
)

// Event describes an Event on an object.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is one of the API's documented reasons.
	Reason string
	// Action is a verb: what the controller did or tried.
	Action string
	// Note is the message. It is cut at 1,024 bytes.
	Note string
	// Identity is equal for Events with the same content. The default is the Note without
	// numbers and white space.
	Identity string
	// Since is when the reported state began, as the object's status records it. The same
	// Event with the same Since is created once, also across restarts.
	Since time.Time
}

// Every failure is reported by an Event on the object whose owner can correct it.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// Recorder creates Events whose names are derived from their content. The API server
// refuses the second Event with the same name.
type Recorder struct {
	client     client.Client
	clock      clock.PassiveClock
	controller string
	instance   string
	// emitted contains the Events of this process, to save requests.
	emitted *lru.Cache[string, struct{}]
}

// NewRecorder returns a Recorder whose Events come from controller, for example
// "alarm-controller".
func NewRecorder(c client.Client, clk clock.PassiveClock, controller string) *Recorder {
	emitted, err := lru.New[string, struct{}](cacheSize)
	if err != nil {
		panic(err) // only if the size is not positive
	}
	instance, err := os.Hostname()
	if err != nil {
		instance = controller
	}
	return &Recorder{client: c, clock: clk, controller: controller, instance: instance, emitted: emitted}
}

// Emit creates the Event unless it exists. It is not an error if the namespace is being
// deleted, or if the API server refuses the Event because of a quota.
func (r *Recorder) Emit(ctx context.Context, regarding client.Object, e Event) error {
	event, err := r.build(regarding, e)
	if err != nil {
		return err
	}
	if _, done := r.emitted.Get(event.Namespace + "/" + event.Name); done {
		return nil
	}
	err = r.client.Create(ctx, event)
	switch {
	case err == nil:
		logr.FromContextOrDiscard(ctx).V(1).Info("emitted event", "type", e.Type, "reason", e.Reason, "note", event.Note)
	case apierrors.IsAlreadyExists(err):
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsForbidden(err):
		// A quota on Events must not block the work of the controller.
		logr.FromContextOrDiscard(ctx).Error(err, "event refused", "type", e.Type, "reason", e.Reason)
		return nil
	default:
		return fmt.Errorf("create event %s: %w", e.Reason, err)
	}
	r.emitted.Add(event.Namespace+"/"+event.Name, struct{}{})
	return nil
}

// NextRepeat returns when to emit an Event with that Since again.
func (r *Recorder) NextRepeat(since time.Time) time.Duration {
	return RepeatEvery - r.clock.Since(since)%RepeatEvery
}

func (r *Recorder) build(regarding client.Object, e Event) (*eventsv1.Event, error) {
	gvk, err := apiutil.GVKForObject(regarding, r.client.Scheme())
	if err != nil {
		return nil, err
	}
	namespace := regarding.GetNamespace()
	if namespace == "" {
		// By convention, the namespace for Events on cluster-scoped objects.
		namespace = metav1.NamespaceDefault
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: r.name(regarding, e)},
		EventTime:           metav1.NewMicroTime(r.clock.Now()),
		ReportingController: r.controller,
		ReportingInstance:   plaintext.Cut(r.instance, 128),
		Action:              e.Action,
		Reason:              e.Reason,
		Type:                e.Type,
		Note:                plaintext.Cut(e.Note, maxNote),
		Regarding: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
			Namespace: regarding.GetNamespace(), Name: regarding.GetName(),
			UID: regarding.GetUID(), ResourceVersion: regarding.GetResourceVersion(),
		},
	}, nil
}

// name is derived from the object, the content, Since, and the repetition number.
func (r *Recorder) name(regarding client.Object, e Event) string {
	repetition := r.clock.Since(e.Since) / RepeatEvery
	h := sha256.New()
	for _, part := range []string{
		string(regarding.GetUID()), r.controller, e.Type, e.Reason, cmp.Or(e.Identity, normalize(e.Note)),
		e.Since.UTC().Format(time.RFC3339), fmt.Sprint(int64(repetition)),
	} {
		// The length before each part makes different lists differ.
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	const maxName = 253 - 1 - 16
	return plaintext.Cut(regarding.GetName(), maxName) + "." + hex.EncodeToString(h.Sum(nil)[:8])
}

var digits = regexp.MustCompile(`[0-9]+`)

// normalize removes what differs between notes with the same content: white space and
// numbers, such as attempts, addresses and durations.
func normalize(note string) string {
	return strings.Join(strings.Fields(digits.ReplaceAllString(note, "0")), " ")
}
