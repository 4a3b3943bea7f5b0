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
	// RepeatEvery is how often an Event is emitted again while its cause lasts:
	// before the API server forgets it (--event-ttl is an hour by default).
	RepeatEvery = 50 * time.Minute

	// maxNote is the limit of an Event's note in the API server, in bytes.
	maxNote = 1024

	rememberedEvents = 4096
)

// Event is something to say on an object.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is one of the API's documented reasons.
	Reason string
	// Action is a verb: what the controller did or tried.
	Action string
	// Note is the sentence; it is cut at 1,024 bytes.
	Note string
	// Identity is what makes two Events tell the same. Default: the Note, but for its
	// numbers and white space.
	Identity string
	// Since is when what it tells of began: a condition's transition time. The
	// same Event with the same Since is one Event, across restarts too.
	Since time.Time
}

// Every failure is told by an Event on the object of whoever can put it right.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// Recorder creates Events whose names follow from what they say, so that the
// API server refuses the second of the same: neither a restart nor a second
// replica repeats one.
type Recorder struct {
	client     client.Client
	clock      clock.PassiveClock
	controller string
	instance   string
	// emitted spares the request for an Event that this process made already.
	emitted *lru.Cache[string, struct{}]
}

// NewRecorder returns a Recorder that reports as controller, for example
// "alarm-controller".
func NewRecorder(c client.Client, clk clock.PassiveClock, controller string) *Recorder {
	emitted, err := lru.New[string, struct{}](rememberedEvents)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	instance, err := os.Hostname()
	if err != nil {
		instance = controller
	}
	return &Recorder{client: c, clock: clk, controller: controller, instance: instance, emitted: emitted}
}

// Emit creates the Event unless it exists. That an object is being removed with its
// namespace, or that the API server refuses the Event (a quota), is no error.
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
		// A namespace whose quota has no room for Events must not keep us from doing what
		// they tell of.
		logr.FromContextOrDiscard(ctx).Error(err, "event refused", "type", e.Type, "reason", e.Reason)
		return nil
	default:
		return fmt.Errorf("create event %s: %w", e.Reason, err)
	}
	r.emitted.Add(event.Namespace+"/"+event.Name, struct{}{})
	return nil
}

// NextRepeat returns how long until an Event with that Since is due again.
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
		// Where Events of objects without a namespace are kept by convention.
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

// name is deterministic in what is said, of which object, since when, and in the
// how manieth repetition.
func (r *Recorder) name(regarding client.Object, e Event) string {
	repetition := r.clock.Since(e.Since) / RepeatEvery
	h := sha256.New()
	for _, part := range []string{
		string(regarding.GetUID()), r.controller, e.Type, e.Reason, cmp.Or(e.Identity, normalise(e.Note)),
		e.Since.UTC().Format(time.RFC3339), fmt.Sprint(int64(repetition)),
	} {
		// A length in front of each part, so that no two lists of parts are alike.
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	const maxName = 253 - 1 - 16
	return plaintext.Cut(regarding.GetName(), maxName) + "." + hex.EncodeToString(h.Sum(nil)[:8])
}

var digits = regexp.MustCompile(`[0-9]+`)

// normalise leaves out what differs between two tellings of the same: white
// space and numbers (attempts, addresses, durations).
func normalise(note string) string {
	return strings.Join(strings.Fields(digits.ReplaceAllString(note, "0")), " ")
}
