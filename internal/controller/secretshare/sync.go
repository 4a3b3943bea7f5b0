package secretshare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
)

const (
	// minRetry and maxRetry bound the exponential backoff of failed syncs.
	minRetry = time.Second
	maxRetry = 2 * time.Minute
	// raceRetry is the delay after another client changed a Secret during the sync.
	raceRetry = 50 * time.Millisecond
)

// syncer applies plans, one namespace at a time.
type syncer struct {
	client client.Client
	// live reads Secrets from the API server, because no cache contains them.
	live     client.Reader
	contents *contents
	store    *store
	recorder func(kind string) *events.Recorder
	metrics  *metrics
	policies *policies.Gate
	clock    clock.PassiveClock
	// removalDelay is that of [Dependencies].
	removalDelay time.Duration
	// newLists return an empty list of the rules of a kind.
	newLists map[string]func() client.ObjectList
}

// The operator reads sources, and writes and removes copies. It watches the metadata of
// all Secrets to notice changes of both.
// A role of its own contains only this, so that secretShare.namespaces can limit it to some
// namespaces.
// +kubebuilder:rbac:roleName=bongsu-secretshare-secrets,groups="",resources=secrets,verbs=get;list;watch;create;update;delete

// Reconcile applies the plan of a rule to one namespace.
func (s *syncer) Reconcile(ctx context.Context, item workItem) (reconcile.Result, error) {
	blocked, err := s.policies.Check(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if p, ok := s.store.planOf(item.Rule); blocked.Blocked && ok && len(p.Wanted) > 0 { // a deleted rule wants no copies
		return reconcile.Result{RequeueAfter: retryUnreadable}, nil
	}
	p, ok := s.store.beginSync(item)
	if !ok {
		return reconcile.Result{}, nil
	}
	sync := &namespaceSync{syncer: s, plan: p, namespace: item.Namespace}
	sync.run(ctx)
	attempts := s.store.endSync(item, p, sync.result)
	return reconcile.Result{RequeueAfter: sync.requeueAfter(attempts)}, nil
}

// namespaceSync applies a plan to one namespace.
type namespaceSync struct {
	*syncer
	plan      *plan
	namespace string
	result    syncResult
	// raced means that another client changed a Secret during the sync.
	raced bool
	// outdated means that a source has changed since the plan was made.
	outdated bool
	// copied is the copy that is being written. It is nil while one is removed.
	copied *corev1.Secret
	// repeatEvent is the time until the Event on a conflicting Secret must be repeated.
	repeatEvent time.Duration
	// wait is the time until unwanted copies are removed. It is zero if there are none.
	wait time.Duration
}

func (s *namespaceSync) run(ctx context.Context) {
	names, denied := s.plan.CopiesIn(s.namespace)
	for _, name := range names {
		s.record(ctx, name, s.ensureCopy(ctx, name))
		s.copied = nil
	}
	s.removeUnwanted(ctx)
	for _, name := range denied {
		s.result.failed++
		s.result.addProblem(name, v1alpha1.ReasonNotGranted,
			fmt.Sprintf("no SecretShareGrant allows a Secret with the name %s: ask the owner of the namespace to add it to spec.to", name))
	}
	s.result.done = !s.raced && !s.outdated && s.wait == 0
}

// waitRetry is how often unwanted copies are looked at that wait for other rules.
const waitRetry = time.Second

// removeUnwanted removes the copies that the plan does not keep. They wait a moment for other rules
// that want them, so that they exist all the time if a rule gets another name.
func (s *namespaceSync) removeUnwanted(ctx context.Context) {
	unwanted, since := s.store.unwantedCopies(s.plan, s.namespace)
	if len(unwanted) == 0 {
		return
	}
	now := s.clock.Now()
	if since.IsZero() {
		since = now
	}
	waited := now.Sub(since)
	mayWait := waited < maxRemovalWait
	mustWait := waited < s.removalDelay || mayWait && !s.isDecided(ctx)
	for name, c := range unwanted {
		if mustWait || mayWait && s.store.leave(s.plan, name, c) {
			s.wait, s.result.unwantedSince = max(s.removalDelay-waited, waitRetry), since
			continue
		}
		if err := s.removeCopy(ctx, name, c); err != nil {
			s.record(ctx, name.Name, err)
		}
	}
}

// isDecided reports whether the store knows what the other rules want that could take over a copy.
func (s *namespaceSync) isDecided(ctx context.Context) bool {
	key := s.plan.key
	list := s.newLists[key.Kind]()
	if s.client.List(ctx, list, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy) != nil {
		return false // only if the cache was stopped
	}
	var rules []client.Object
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		rules = append(rules, o.(client.Object))
		return nil
	})
	return s.store.isDecided(key.Kind, rules)
}

// requeueAfter returns the delay until the next sync. After a change of the plan,
// attempts is 0, because the work item is already in the queue.
func (s *namespaceSync) requeueAfter(attempts int) time.Duration {
	switch {
	case s.raced:
		return raceRetry
	case s.outdated:
		return minRetry // a new plan is usually made before
	case s.wait > 0:
		return s.wait
	case s.result.failed > 0 && attempts > 0:
		return min(minRetry<<min(attempts-1, 10), maxRetry)
	default:
		return s.repeatEvent
	}
}

// record adds the outcome for one copy to the result.
func (s *namespaceSync) record(ctx context.Context, name string, err error) {
	switch {
	case err == nil:
		s.result.synced++
	case errors.Is(err, errSourceChanged):
		s.outdated = true
		s.store.readAgain(s.plan)
	case isUnread(err):
		s.result.failed++
		s.result.addProblem(name, v1alpha1.ReasonSourceUnreadable, err.Error())
		logr.FromContextOrDiscard(ctx).Info("Failed to read a source", "rule", s.plan.Rule.Name, "secret", name, "error", fmt.Sprint(errors.Unwrap(err)))
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		s.raced = true
	case isNamespaceGone(err):
		// The copies are deleted with their namespace.
	case isShared(err):
		s.result.failed++
		s.result.addProblem(name, v1alpha1.ReasonCopying, err.Error())
	case isConflict(err):
		s.result.conflicted++
		s.result.addProblem(name, v1alpha1.ReasonConflict, err.Error())
	default:
		s.result.failed++
		message := s.redact(ctx, name, err)
		if _, wanted := s.plan.Wanted[name]; wanted {
			message = withAdvice(name, message, err)
		}
		s.result.addProblem(name, v1alpha1.ReasonCopyFailed, message)
		s.metrics.failures.Inc()
		logr.FromContextOrDiscard(ctx).Info("Failed to write a copy", "rule", s.plan.Rule.Name, "namespace", s.namespace, "secret", name, "error", message)
		s.reportFailure(ctx, name, message)
	}
}

// reportFailure emits an Event about a copy that could not be written or removed, for the owner of
// its namespace, who cannot read the rule. The Secret need not exist.
func (s *namespaceSync) reportFailure(ctx context.Context, name, message string) {
	err := s.recorder(s.plan.key.Kind).Emit(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}, events.Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonCopyFailed, Action: "Copy", Since: s.plan.Since,
		Note: fmt.Sprintf("%s cannot bring this copy up to date: %s", s.plan.Rule.Name, message),
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to emit the Event about a copy", "rule", s.plan.Rule.Name, "namespace", s.namespace, "secret", name)
	}
}

// redact removes the values of the copy, and of the Secret in its place, from an error
// of the API server.
func (s *namespaceSync) redact(ctx context.Context, name string, err error) string {
	var secrets []*corev1.Secret
	if s.copied != nil {
		secrets = append(secrets, s.copied)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		// An admission policy can also quote the present Secret.
		var live corev1.Secret
		unread := s.live.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, &live)
		if client.IgnoreNotFound(unread) != nil {
			return "the API server refused the request; its message is not shown, because it may contain values of the Secret"
		}
		secrets = append(secrets, &live)
	}
	return share.Redact(err.Error(), secrets...)
}

// withAdvice returns what a redacted error about a copy means, and what to do. An error that is not
// from the API server, or that a retry can solve, stays as it is.
func withAdvice(name, redacted string, err error) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return redacted
	}
	// The details are left out, because they are not redacted.
	safe := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: status.Status().Reason, Code: status.Status().Code, Message: redacted}}
	cause, refused := diagnosis.FromAPIError(diagnosis.Object{Kind: "Secret", Name: name}, safe)
	if !refused {
		return redacted
	}
	if cause.Reason == diagnosis.ReasonAdmissionDenied {
		cause.Advice = "change the source or the rule accordingly, or ask the cluster's administrator"
	}
	return cause.Sentence()
}

// isNamespaceGone reports whether a write failed because the namespace is deleted or
// being deleted.
func isNamespaceGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// ensureCopy creates or updates the copy with this name.
func (s *namespaceSync) ensureCopy(ctx context.Context, name string) error {
	want := s.plan.Wanted[name]
	key := types.NamespacedName{Namespace: s.namespace, Name: name}
	defer s.store.beginWrite(key)()
	known, exists := s.store.copyAt(key)
	isOurs := exists && known.Rule == s.plan.Rule.UID
	if isOurs && known.content == want.Content {
		return nil
	}
	shared := s.store.sharedAt(s.plan, key)
	if shared.owner != "" {
		return s.countShared(shared)
	}
	var err error
	if s.copied, err = s.read(ctx, want.Source); err != nil {
		return err
	}
	if !exists {
		err := s.createCopy(ctx, key, want)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
	} else if isOurs {
		if err := s.overwriteCopy(ctx, key, known, want); !needsRead(err) {
			return err
		}
	}
	var live corev1.Secret
	err = s.live.Get(ctx, key, &live)
	switch {
	case apierrors.IsNotFound(err) && exists:
		return s.createCopy(ctx, key, want)
	case err != nil:
		return err
	}
	return s.repair(ctx, key, &live, want, shared.left)
}

// repair brings the existing Secret to the wanted state. left is the UID of the rule that leaves it to
// this one, or empty.
func (s *namespaceSync) repair(ctx context.Context, key types.NamespacedName, live *corev1.Secret, want share.Wanted, left string) error {
	action := share.Compare(live, s.copied)
	if left != "" && left == share.RuleOf(live.Annotations) && live.Annotations[share.AnnotationSourceUID] == string(want.SourceUID) {
		action = share.CompareLeft(live, s.copied)
	}
	switch action {
	case share.Keep:
		s.store.recordWrite(key, s.stateOf(live, want))
		return nil
	case share.Update:
		return s.updateCopy(ctx, key, share.Merge(live, s.copied), want)
	case share.Replace:
		if live.DeletionTimestamp != nil {
			return &heldError{live.Finalizers}
		}
		if err := s.deleteCopy(ctx, key, live.UID, live.ResourceVersion); err != nil {
			return err
		}
		return s.createCopy(ctx, key, want)
	default:
		return s.reportConflict(ctx, live)
	}
}

// countShared counts a copy that belongs to another rule.
func (s *namespaceSync) countShared(shared sharedCopy) error {
	if !shared.written {
		return &sharedError{shared.owner}
	}
	if s.result.shared == nil {
		s.result.shared = map[string]int{}
	}
	s.result.shared[shared.owner]++
	return nil
}

// read returns the copy of a source, without a namespace.
func (s *namespaceSync) read(ctx context.Context, source string) (*corev1.Secret, error) {
	secret, err := s.contents.get(ctx, sourceVersion{
		types.NamespacedName{Namespace: s.plan.Rule.Namespace, Name: source}, s.plan.Versions[source],
	})
	if err != nil {
		return nil, err
	}
	copied, refusal := s.plan.Rule.Copy(secret)
	if refusal != nil {
		return nil, errSourceChanged // the plan does not want a copy of such a source
	}
	return copied, nil
}

// newSecret returns a Secret that can be changed. The values of its data are shared.
func (s *namespaceSync) newSecret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: s.copied.Name, Labels: maps.Clone(s.copied.Labels), Annotations: maps.Clone(s.copied.Annotations),
		},
		Type: s.copied.Type, Data: maps.Clone(s.copied.Data), Immutable: s.copied.Immutable,
	}
}

func (s *namespaceSync) createCopy(ctx context.Context, key types.NamespacedName, want share.Wanted) error {
	secret := s.newSecret(key.Namespace)
	if err := s.client.Create(ctx, secret); err != nil {
		return err
	}
	s.metrics.writes.WithLabelValues("create").Inc()
	return s.recordWrite(ctx, key, secret, want, "Created a copy")
}

// errNotExact means that a copy may have metadata of others.
var errNotExact = errors.New("the copy may have metadata of others")

// overwriteCopy updates a copy without reading it first. It cannot do so if the copy may
// have metadata of others.
func (s *namespaceSync) overwriteCopy(ctx context.Context, key types.NamespacedName, known copyState, want share.Wanted) error {
	if !known.exact {
		return errNotExact
	}
	secret := s.newSecret(key.Namespace)
	secret.UID, secret.ResourceVersion = known.uid, known.version
	return s.updateCopy(ctx, key, secret, want)
}

// needsRead reports whether the copy must be read after a failed update: it may have
// changed, or cannot be updated at all.
func needsRead(err error) bool {
	return errors.Is(err, errNotExact) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err)
}

func (s *namespaceSync) updateCopy(ctx context.Context, key types.NamespacedName, secret *corev1.Secret, want share.Wanted) error {
	if err := s.client.Update(ctx, secret); err != nil {
		return err
	}
	s.metrics.writes.WithLabelValues("update").Inc()
	return s.recordWrite(ctx, key, secret, want, "Updated a copy")
}

// recordWrite stores the state of a copy that was written. It returns an error if the
// API server stored something else, because writing it again would change nothing.
func (s *namespaceSync) recordWrite(ctx context.Context, key types.NamespacedName, stored *corev1.Secret, want share.Wanted, message string) error {
	state := s.stateOf(stored, want)
	changed := share.Compare(stored, s.copied) != share.Keep
	if changed {
		state.content = ""
	}
	s.store.recordWrite(key, state)
	logr.FromContextOrDiscard(ctx).Info(message, "rule", s.plan.Rule.Name, "secret", key)
	if changed {
		return fmt.Errorf("an admission webhook or policy changes copy %s: exclude Secrets with the label %s from it", key.Name, share.LabelRuleUID)
	}
	return nil
}

func (s *namespaceSync) stateOf(secret *corev1.Secret, want share.Wanted) copyState {
	c := newCopyState(s.copied.Annotations, secret.UID, secret.ResourceVersion)
	c.content, c.exact = want.Content, share.IsExact(secret, s.copied)
	return c
}

// removeCopy deletes or releases a copy that is no longer wanted.
func (s *namespaceSync) removeCopy(ctx context.Context, key types.NamespacedName, c copyState) error {
	if s.plan.Rule.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		return s.releaseCopy(ctx, key, c)
	}
	if len(c.held) > 0 {
		s.reportFailure(ctx, key.Name, (&heldError{c.held}).Error())
		s.store.recordRemoval(key) // it must not block the deletion of its rule
		return nil
	}
	err := s.deleteCopy(ctx, key, c.uid, c.version)
	if apierrors.IsNotFound(err) {
		s.store.recordRemoval(key)
		return nil
	}
	return err
}

// deleteCopy deletes a Secret if it still has this UID and version.
func (s *namespaceSync) deleteCopy(ctx context.Context, key types.NamespacedName, uid types.UID, version string) error {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = key.Namespace, key.Name
	if err := s.client.Delete(ctx, secret, client.Preconditions{UID: &uid, ResourceVersion: &version}); err != nil {
		return err
	}
	s.metrics.writes.WithLabelValues("delete").Inc()
	s.store.recordRemoval(key)
	logr.FromContextOrDiscard(ctx).Info("Deleted a copy", "rule", s.plan.Rule.Name, "secret", key)
	return nil
}

// releaseCopy makes a copy an ordinary Secret.
func (s *namespaceSync) releaseCopy(ctx context.Context, key types.NamespacedName, c copyState) error {
	var live corev1.Secret
	err := s.live.Get(ctx, key, &live)
	if apierrors.IsNotFound(err) || err == nil && share.RuleOf(live.Annotations) != c.Rule {
		s.store.recordRemoval(key)
		return nil
	}
	if err != nil {
		return err
	}
	share.Release(&live)
	if err := s.client.Update(ctx, &live); err != nil {
		return err
	}
	s.metrics.writes.WithLabelValues("release").Inc()
	s.store.recordRemoval(key)
	logr.FromContextOrDiscard(ctx).Info("Released a copy", "rule", s.plan.Rule.Name, "secret", key)
	return nil
}

// conflictError means that a Secret with the name of the copy exists and is not a copy
// of this rule.
type conflictError struct{ text string }

func (e *conflictError) Error() string { return e.text }

// heldError means that a copy cannot be replaced, because it is being deleted and has finalizers.
type heldError struct{ finalizers []string }

func (e *heldError) Error() string {
	return "the Secret is being deleted, and waits until these finalizers are removed: " + strings.Join(e.finalizers, ", ")
}

// sharedError means that a copy belongs to another rule, which has not brought it up to date yet.
type sharedError struct{ owner string }

func (e *sharedError) Error() string {
	return "the copy belongs to " + e.owner + ", which wants the same copy and has not written it yet"
}

func isShared(err error) bool {
	_, ok := errors.AsType[*sharedError](err)
	return ok
}

func isUnread(err error) bool {
	_, ok := errors.AsType[*unreadError](err)
	return ok
}

func isConflict(err error) bool {
	_, ok := errors.AsType[*conflictError](err)
	return ok
}

// reportConflict emits an Event on the Secret that blocks a copy, for the owner of the
// Secret. The returned error is for the owner of the rule.
func (s *namespaceSync) reportConflict(ctx context.Context, live *corev1.Secret) error {
	recorder := s.recorder(s.plan.key.Kind)
	since := live.CreationTimestamp.Time
	isCopy, other := share.RuleOf(live.Annotations) != "", share.Printable(live, share.AnnotationRule)
	advice := fmt.Sprintf("this Secret has the same name%s. To get the copy, delete this Secret, or let the copy replace it with the annotation %s=%s",
		whyNotTakenBack(live, s.copied), share.AnnotationAdopt, s.plan.Rule.Name)
	if isCopy { // the annotation has no effect on it, and its rule would write it again
		advice = fmt.Sprintf("this Secret is already a copy of %s: ask the owners of the rules to change one of the two", other)
	}
	err := recorder.Emit(ctx, live, events.Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonConflict, Action: "Copy", Since: since,
		Note: fmt.Sprintf("%s cannot copy Secret %s here because %s", s.plan.Rule.Name, s.copied.Annotations[share.AnnotationSource], advice),
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to emit the Event about a conflict", "rule", s.plan.Rule.Name, "secret", client.ObjectKeyFromObject(live))
	}
	s.repeatEvent = recorder.NextRepeat(since)
	if isCopy {
		return &conflictError{fmt.Sprintf("Secret %s is already a copy of %s: change one of the two rules", live.Name, other)}
	}
	return &conflictError{fmt.Sprintf("Secret %s exists and is not a copy%s: set spec.copyName, or ask its owner to delete it or to annotate it with %s=%s",
		live.Name, whyNotTakenBack(live, s.copied), share.AnnotationAdopt, s.plan.Rule.Name)}
}

// whyNotTakenBack returns why a Secret that was released stays as it is. It is empty for others.
func whyNotTakenBack(live, want *corev1.Secret) string {
	if !share.IsReleased(live, want) {
		return ""
	}
	return ", and was changed since deletionPolicy Retain released it"
}
