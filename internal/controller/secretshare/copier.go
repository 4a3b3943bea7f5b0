package secretshare

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// What failed is tried again after a second, then after twice as long each time.
const (
	firstRetry = time.Second
	lastRetry  = 2 * time.Minute
	// raceRetry is for what somebody else changed meanwhile.
	raceRetry = 50 * time.Millisecond
)

// copier carries plans out, a namespace at a time.
type copier struct {
	client client.Client
	// live reads Secrets from the API server: no cache holds them.
	live     client.Reader
	book     *book
	recorder func(kind string) *events.Recorder
	metrics  *metrics
}

// Sources are read, copies written and removed; the metadata of all Secrets is watched,
// to notice when either changes.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete

// Reconcile brings the copies of a rule in a namespace to what its plan says.
func (c *copier) Reconcile(ctx context.Context, item Item) (reconcile.Result, error) {
	p, ok := c.book.begin(item)
	if !ok {
		return reconcile.Result{}, nil
	}
	w := &work{copier: c, plan: p, namespace: item.Namespace}
	w.do(ctx)
	attempts := c.book.settle(item, p, w.result)
	return reconcile.Result{RequeueAfter: w.again(attempts)}, nil
}

// work is what is done in one namespace.
type work struct {
	*copier
	plan      *plan
	namespace string
	result    result
	// raced says that something changed while it was looked at.
	raced bool
	// repeat is when an Event on a blocking Secret is due again.
	repeat time.Duration
}

func (w *work) do(ctx context.Context) {
	names, denied := w.plan.wanted(w.namespace)
	for _, name := range names {
		w.account(ctx, name, w.ensure(ctx, name))
	}
	for name, c := range w.book.unwantedIn(w.plan, w.namespace) {
		if err := w.withdraw(ctx, name, c); err != nil {
			w.account(ctx, name.Name, err)
		}
	}
	for _, name := range denied {
		w.result.failed++
		w.result.note(v1alpha1.ReasonNotGranted, fmt.Sprintf("no SecretShareGrant lets a Secret named %s in: add it to spec.to of one", name))
	}
	w.result.done = !w.raced
}

// again returns the delay of the next attempt. No attempts are counted if the plan is
// another by now: then the item is in the queue already.
func (w *work) again(attempts int) time.Duration {
	switch {
	case w.raced:
		return raceRetry
	case w.result.failed > 0 && attempts > 0:
		return min(firstRetry<<min(attempts-1, 10), lastRetry)
	default:
		return w.repeat
	}
}

// account notes what became of one copy.
func (w *work) account(ctx context.Context, name string, err error) {
	switch {
	case err == nil:
		w.result.synced++
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		w.raced = true
	case goes(err):
		// It is being removed with all that is in it.
	case isForeign(err):
		w.result.conflicted++
		w.result.note(v1alpha1.ReasonConflict, err.Error())
	default:
		w.result.failed++
		message := w.redact(ctx, name, err)
		w.result.note(v1alpha1.ReasonCopyFailed, message)
		w.metrics.failures.Inc()
		logr.FromContextOrDiscard(ctx).Info("a copy could not be written", "rule", w.plan.rule.Name, "namespace", w.namespace, "secret", name, "cause", message)
	}
}

// redact takes what the copy holds, and the Secret in its place, out of what was
// answered to a write.
func (w *work) redact(ctx context.Context, name string, answer error) string {
	var secrets []*corev1.Secret
	if want, ok := w.plan.wants[name]; ok {
		secrets = append(secrets, want.copy)
	}
	if status := apierrors.APIStatus(nil); errors.As(answer, &status) {
		// What is refused to be changed or removed may be quoted too.
		var live corev1.Secret
		err := w.live.Get(ctx, types.NamespacedName{Namespace: w.namespace, Name: name}, &live)
		if client.IgnoreNotFound(err) != nil {
			return "the API server refused it; what it answered may hold values of the Secret, and is left out"
		}
		secrets = append(secrets, &live)
	}
	return share.Redact(answer.Error(), secrets...)
}

// goes tells whether the namespace is gone or going.
func goes(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// ensure makes the copy of that name what it should be.
func (w *work) ensure(ctx context.Context, name string) error {
	want := w.plan.wants[name]
	key := types.NamespacedName{Namespace: w.namespace, Name: name}
	defer w.book.write(key)()
	known, exists := w.book.copyAt(key)
	if !exists {
		err := w.create(ctx, key, want)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
	} else if known.rule == w.plan.rule.UID {
		if known.content == want.content {
			return nil
		}
		if err := w.overwrite(ctx, key, known, want); !unexpected(err) {
			return err
		}
	}
	var live corev1.Secret
	if err := w.live.Get(ctx, key, &live); err != nil {
		if apierrors.IsNotFound(err) && exists {
			return w.create(ctx, key, want)
		}
		return err
	}
	return w.repair(ctx, key, &live, want)
}

func (w *work) create(ctx context.Context, key types.NamespacedName, want want) error {
	secret := want.copy.DeepCopy()
	secret.Namespace = key.Namespace
	if err := w.client.Create(ctx, secret); err != nil {
		return err
	}
	w.metrics.writes.WithLabelValues("create").Inc()
	return w.wrote(ctx, key, secret, want, "created")
}

// errUnknown says that it is not known what a copy looks like.
var errUnknown = errors.New("unknown")

// overwrite updates a copy of which it is known what others have put on it: nothing.
func (w *work) overwrite(ctx context.Context, key types.NamespacedName, known copyOf, want want) error {
	if !known.bare {
		return errUnknown
	}
	secret := want.copy.DeepCopy()
	secret.Namespace, secret.UID, secret.ResourceVersion = key.Namespace, known.uid, known.version
	return w.update(ctx, key, secret, want)
}

// unexpected tells whether a copy must be looked at: it may be another by now, or is
// of those that cannot be updated.
func unexpected(err error) bool {
	return errors.Is(err, errUnknown) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err)
}

func (w *work) update(ctx context.Context, key types.NamespacedName, secret *corev1.Secret, want want) error {
	if err := w.client.Update(ctx, secret); err != nil {
		return err
	}
	w.metrics.writes.WithLabelValues("update").Inc()
	return w.wrote(ctx, key, secret, want, "updated")
}

// repair does what has to be done about the Secret that there is.
func (w *work) repair(ctx context.Context, key types.NamespacedName, live *corev1.Secret, want want) error {
	switch share.Judge(live, want.copy) {
	case share.Same:
		w.book.wrote(key, w.known(live, want))
		return nil
	case share.Update:
		return w.update(ctx, key, share.Merge(live, want.copy), want)
	case share.Replace:
		if err := w.delete(ctx, key, live.UID, live.ResourceVersion); err != nil {
			return err
		}
		return w.create(ctx, key, want)
	default:
		return w.blocked(ctx, live, want)
	}
}

// wrote notes a copy that was written. If it is not stored as it was written, that
// is an error: to write it at once again would change nothing.
func (w *work) wrote(ctx context.Context, key types.NamespacedName, stored *corev1.Secret, want want, how string) error {
	known := w.known(stored, want)
	altered := share.Judge(stored, want.copy) != share.Same
	if altered {
		known.content = ""
	}
	w.book.wrote(key, known)
	logr.FromContextOrDiscard(ctx).Info("copy "+how, "rule", w.plan.rule.Name, "secret", key)
	if altered {
		return fmt.Errorf("copy %s is not stored as it is written: an admission webhook or policy changes it; "+
			"have that leave alone what has the label %s", key.Name, share.LabelRuleUID)
	}
	return nil
}

func (w *work) known(secret *corev1.Secret, want want) copyOf {
	c := copyIn(want.copy.Annotations, secret.UID, secret.ResourceVersion)
	c.content, c.bare = want.content, share.IsBare(secret, want.copy)
	return c
}

// withdraw deletes a copy that is no longer wanted, or lets it go.
func (w *work) withdraw(ctx context.Context, key types.NamespacedName, c copyOf) error {
	if w.plan.rule.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		return w.release(ctx, key, c)
	}
	err := w.delete(ctx, key, c.uid, c.version)
	if apierrors.IsNotFound(err) {
		w.book.removed(key)
		return nil
	}
	return err
}

// delete deletes the Secret if it is still the one that was looked at.
func (w *work) delete(ctx context.Context, key types.NamespacedName, uid types.UID, version string) error {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = key.Namespace, key.Name
	if err := w.client.Delete(ctx, secret, client.Preconditions{UID: &uid, ResourceVersion: &version}); err != nil {
		return err
	}
	w.metrics.writes.WithLabelValues("delete").Inc()
	w.book.removed(key)
	logr.FromContextOrDiscard(ctx).Info("copy deleted", "rule", w.plan.rule.Name, "secret", key)
	return nil
}

// release makes a copy a Secret like any other.
func (w *work) release(ctx context.Context, key types.NamespacedName, c copyOf) error {
	var live corev1.Secret
	err := w.live.Get(ctx, key, &live)
	if apierrors.IsNotFound(err) || err == nil && share.RuleOf(live.Annotations) != c.rule {
		w.book.removed(key)
		return nil
	}
	if err != nil {
		return err
	}
	share.Unmark(&live)
	if err := w.client.Update(ctx, &live); err != nil {
		return err
	}
	w.metrics.writes.WithLabelValues("release").Inc()
	w.book.removed(key)
	logr.FromContextOrDiscard(ctx).Info("copy released", "rule", w.plan.rule.Name, "secret", key)
	return nil
}
