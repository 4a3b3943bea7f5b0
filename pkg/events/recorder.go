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
	// RepeatEvery is how often an Event is emitted again while its cause lasts. The API
	// server deletes Events after an hour by default.
	RepeatEvery = 50 * time.Minute

	// maxNote is the API server's limit for the note of an Event, in bytes.
	maxNote = 1024

	rememberedEvents = 4096
)

// Event is an Event to emit.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is a documented reason in CamelCase.
	Reason string
	// FinalReason is the reason of the last stage of a failure that passes through several, such
	// as ImagePullBackOff for ErrImagePull. Events with the same FinalReason, Identity and Since
	// are one Event, with the Reason of the first. Default: Reason.
	FinalReason string
	// Action is a verb: what the controller did or tried.
	Action string
	// Note is the message. It is cut at 1,024 bytes.
	Note string
	// Identity is equal for Events with the same meaning. Default: the Note without
	// numbers and repeated white space.
	Identity string
	// Since is when the cause began, for example the transition time of a condition.
	// Events with the same Identity and Since are one Event, even after a restart.
	Since time.Time
	// Time is when it happened, for example when a container ended. Default: when it is emitted.
	// It does not distinguish Events.
	Time time.Time
	// Annotations are those of the Event. They do not distinguish Events. The API server accepts keys
	// of the form of label keys, such as example.com/run, and at most 256 KiB of keys and values.
	// Otherwise Emit returns its error Invalid. Cut texts of users, and never add data of Secrets.
	Annotations map[string]string
}

// The operator reports each failure as an Event on the object of the user who can solve
// it.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// Recorder emits Events. It derives their names from their contents, so that the API
// server rejects duplicates. Neither restarts nor several replicas repeat an Event.
type Recorder struct {
	// OnEmit is called with each Event that Emit has created, for example to log it. It is not
	// called for Events that exist already or are refused. Set it before the first Emit. It must
	// return soon, and be safe for concurrent use. Default: nil.
	OnEmit func(ctx context.Context, emitted *eventsv1.Event)

	client     client.Client
	clock      clock.PassiveClock
	controller string
	instance   string
	// emitted avoids requests for Events that this process has created.
	emitted *lru.Cache[string, struct{}]
}

// NewRecorder returns a Recorder for a controller, for example "app-controller". It is
// safe for concurrent use.
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

// Emit creates the Event unless it exists. It returns nil if the namespace is being
// deleted, or if the API server forbids the Event, for example because of a quota.
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
		if r.OnEmit != nil {
			r.OnEmit(ctx, event)
		}
	case apierrors.IsAlreadyExists(err):
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsForbidden(err):
		// A quota for Events must not prevent the work of the controller.
		logr.FromContextOrDiscard(ctx).Error(err, "event refused", "type", e.Type, "reason", e.Reason)
		return nil
	default:
		return fmt.Errorf("create event %s: %w", e.Reason, err)
	}
	r.emitted.Add(event.Namespace+"/"+event.Name, struct{}{})
	return nil
}

// NextRepeat returns the time until an Event with that Since must be emitted again.
// Requeue the object after it.
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
		// By convention, Events of cluster-scoped objects are in this namespace.
		namespace = metav1.NamespaceDefault
	}
	happened := e.Time
	if happened.IsZero() {
		happened = r.clock.Now()
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: r.name(regarding, e), Annotations: e.Annotations},
		EventTime:           metav1.NewMicroTime(happened),
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

// name is a function of the object, the contents, Since, and the number of the
// repetition.
func (r *Recorder) name(regarding client.Object, e Event) string {
	repetition := r.clock.Since(e.Since) / RepeatEvery
	h := sha256.New()
	for _, part := range []string{
		string(regarding.GetUID()), r.controller, e.Type, cmp.Or(e.FinalReason, e.Reason), cmp.Or(e.Identity, normalise(e.Note)),
		e.Since.UTC().Format(time.RFC3339), fmt.Sprint(int64(repetition)),
	} {
		// The length before each part distinguishes all lists of parts.
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	const maxName = 253 - 1 - 16
	return plaintext.Cut(regarding.GetName(), maxName) + "." + hex.EncodeToString(h.Sum(nil)[:8])
}

var digits = regexp.MustCompile(`[0-9]+`)

// normalise removes differences between repetitions of the same note: white space and
// numbers, for example attempts, addresses and durations.
func normalise(note string) string {
	return strings.Join(strings.Fields(digits.ReplaceAllString(note, "0")), " ")
}
