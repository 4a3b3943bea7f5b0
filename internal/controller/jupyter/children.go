package jupyter

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// renderPod merges the pod template. A refused template changes nothing that runs.
func (r *Reconciler) renderPod(_ context.Context, n *notebook) (step.Result, error) {
	template, refused := workload.NotebookPod(n.jupyter, r.image)
	if n.template = template; len(refused) > 0 {
		n.templateRefused = true
		n.findings.Add(workload.Refusal(n.findings.Self(), refused))
	}
	return step.Result{}, nil
}

// tokens remembers which notebooks have a token that is not empty, so that it is not
// read in every reconcile. It contains no token.
type tokens struct {
	mu    sync.Mutex
	valid map[types.NamespacedName]tokenOf
	// changes counts the changes of a notebook's Secret.
	changes map[types.NamespacedName]int
}

// tokenOf names the token of a Jupyter.
type tokenOf struct {
	owner types.UID
	ref   v1alpha1.TokenSecretReference
}

func newTokens() *tokens {
	return &tokens{valid: map[types.NamespacedName]tokenOf{}, changes: map[types.NamespacedName]int{}}
}

func (t *tokens) isValid(name types.NamespacedName, token tokenOf) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.valid[name] == token
}

// revision counts the changes of a notebook's Secret.
func (t *tokens) revision(name types.NamespacedName) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes[name]
}

func (t *tokens) setValid(name types.NamespacedName, token tokenOf, revision int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes[name] == revision {
		t.valid[name] = token
	}
}

// changed records a change of a notebook's Secret.
func (t *tokens) changed(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes[name]++
	delete(t.valid, name)
}

func (t *tokens) forget(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.changes, name)
	delete(t.valid, name)
}

// ensureToken creates a token if the notebook names none. It stops if the token is
// empty: a Jupyter server without a token admits every user.
func (r *Reconciler) ensureToken(ctx context.Context, n *notebook) (step.Result, error) {
	if !workload.IsJupyter(n.jupyter) { // it authenticates its users itself
		r.secrets.Watch(keyOf(n.name))
		return step.Result{}, nil
	}
	ref := workload.TokenRef(n.jupyter)
	name := types.NamespacedName{Namespace: n.name.Namespace, Name: ref.Name}
	r.secrets.Watch(keyOf(n.name), name)
	token := tokenOf{owner: n.jupyter.UID, ref: ref}
	if r.tokens.isValid(n.name, token) {
		return step.Result{}, nil
	}
	var secret corev1.Secret
	var err error
	own := n.jupyter.Spec.Auth.TokenSecretRef == nil
	if isNew := n.before.Status.ObservedGeneration == 0; !own || !isNew { // the own Secret of a new notebook does not exist
		if err = r.Live.Get(ctx, name, &secret); client.IgnoreNotFound(err) != nil {
			return step.Result{}, err
		}
	}
	var result step.Result
	if !own {
		result = checkToken(n, ref, &secret, err == nil)
	} else if result, err = r.createToken(ctx, n, &secret); err != nil {
		return step.Result{}, err
	}
	revision := r.tokens.revision(n.name)
	if !result.Stop && r.secrets.Known(name, secret.ResourceVersion) {
		r.tokens.setValid(n.name, token, revision)
	}
	return result, nil
}

// checkToken checks a token that the user provides.
func checkToken(n *notebook, ref v1alpha1.TokenSecretReference, secret *corev1.Secret, exists bool) step.Result {
	switch {
	case !exists:
		n.findings.Add(noToken(v1alpha1.ReasonSecretNotFound, ref, "does not exist"))
	case len(secret.Data[ref.Key]) == 0:
		n.findings.Add(noToken(v1alpha1.ReasonInvalidSecret, ref, "has no value under key "+ref.Key))
	default:
		return step.Result{}
	}
	return step.Result{Stop: true}
}

// createToken creates a token where there is none. secret was just read. It stops at a Secret
// of another that cannot be changed, because its maker knows the token.
func (r *Reconciler) createToken(ctx context.Context, n *notebook, secret *corev1.Secret) (step.Result, error) {
	wanted, ensure := workload.NotebookToken(n.jupyter, rand.Text()), r.Children.Update
	if secret.UID == "" {
		ensure = r.Children.Make
	}
	err := ensure(ctx, wanted, secret)
	foreign := secret.UID != "" && !kube.ChildNames.IsMadeFor(wanted, secret)
	if foreign && (err == nil || apierrors.IsInvalid(err)) { // it is being deleted, or immutable
		err = children.NewConflict("Secret", secret)
	}
	result, err := r.Classify(&n.findings, wanted, secret, err)
	result.Stop = result.Stop || foreign
	return result, err
}

func noToken(reason string, ref v1alpha1.TokenSecretReference, problem string) diagnosis.Cause {
	return diagnosis.Cause{
		Reason: reason, Object: diagnosis.Object{Kind: "Secret", Name: ref.Name},
		Message: fmt.Sprintf("Secret %s for the notebook's token %s", ref.Name, problem),
		Advice:  "put a token there, or remove spec.auth.tokenSecretRef to have one created", Count: 1,
	}
}

// ensureClaim creates the claim for the notebook's files.
func (r *Reconciler) ensureClaim(ctx context.Context, n *notebook) (step.Result, error) {
	wanted := workload.NotebookClaim(n.jupyter)
	if wanted == nil {
		return step.Result{}, nil
	}
	return r.Ensure(ctx, &n.findings, wanted, &n.claim)
}

func (r *Reconciler) ensureService(ctx context.Context, n *notebook) (step.Result, error) {
	return r.Ensure(ctx, &n.findings, workload.NotebookService(n.jupyter), &corev1.Service{})
}

// owns reports whether a child belongs to the Jupyter.
func (n *notebook) owns(o client.Object) bool {
	return kube.ChildNames.IsOurs(workload.NotebookService(n.jupyter), o)
}

// ensureIngress creates the Ingress, or deletes one that the Jupyter no longer asks for.
func (r *Reconciler) ensureIngress(ctx context.Context, n *notebook) (step.Result, error) {
	if wanted := workload.NotebookIngress(n.jupyter); wanted != nil {
		return r.Ensure(ctx, &n.findings, wanted, &networkingv1.Ingress{})
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: n.name.Namespace, Name: n.name.Name}}
	return step.Result{}, r.RemoveUnwanted(ctx, n.jupyter, ingress, n.owns)
}

func (r *Reconciler) ensureStatefulSet(ctx context.Context, n *notebook) (step.Result, error) {
	if n.templateRefused {
		return step.Result{Stop: true}, nil
	}
	return r.Ensure(ctx, &n.findings, workload.NotebookStatefulSet(n.jupyter, n.template), &n.set)
}

// findStatefulSet reads the StatefulSet of a notebook that is blocked.
func (r *Reconciler) findStatefulSet(ctx context.Context, n *notebook) error {
	err := r.Client.Get(ctx, n.name, &n.set)
	if err != nil || !n.owns(&n.set) {
		n.set = appsv1.StatefulSet{}
	}
	return client.IgnoreNotFound(err)
}

// stopStatefulSet removes the pod of a suspended notebook whose StatefulSet could not be
// updated.
func (r *Reconciler) stopStatefulSet(ctx context.Context, n *notebook) (step.Result, error) {
	if n.set.UID == "" || n.set.Spec.Replicas != nil && *n.set.Spec.Replicas == 0 {
		return step.Result{}, nil
	}
	before := n.set.DeepCopy()
	n.set.Spec.Replicas = new(int32(0))
	return step.Result{}, r.Client.Patch(ctx, &n.set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
