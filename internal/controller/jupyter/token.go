package jupyter

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// tokens knows which notebooks' tokens were seen to be there and not empty, so that
// they are not read at every look. It knows no token.
type tokens struct {
	mu   sync.Mutex
	good map[types.NamespacedName]tokenOf
	// changes counts how often the Secret of a notebook was heard to change.
	changes map[types.NamespacedName]int
}

// tokenOf says which token of which Jupyter was seen.
type tokenOf struct {
	owner types.UID
	ref   v1alpha1.SecretKeyReference
}

func newTokens() *tokens {
	return &tokens{good: map[types.NamespacedName]tokenOf{}, changes: map[types.NamespacedName]int{}}
}

func (t *tokens) isGood(name types.NamespacedName, token tokenOf) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.good[name] == token
}

// look is to be asked for before a token is read: if it is another one afterwards,
// what was read may be old.
func (t *tokens) look(name types.NamespacedName) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes[name]
}

func (t *tokens) setGood(name types.NamespacedName, token tokenOf, look int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes[name] == look {
		t.good[name] = token
	}
}

// changed says that a notebook's Secret did.
func (t *tokens) changed(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes[name]++
	delete(t.good, name)
}

func (t *tokens) forget(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.changes, name)
	delete(t.good, name)
}

// ensureToken makes a token if the notebook names none, and sees to it that the one
// that it has is not empty: a server without a token lets everyone in.
func (r *Reconciler) ensureToken(ctx context.Context, n *notebook) error {
	ref := workload.TokenRef(n.Jupyter)
	name := types.NamespacedName{Namespace: n.Namespace, Name: ref.Name}
	r.secrets.Watch(n.key().String(), name)
	token := tokenOf{owner: n.UID, ref: ref}
	if r.tokens.isGood(n.name, token) {
		return nil
	}
	look := r.tokens.look(n.name)
	var secret corev1.Secret
	err := r.Live.Get(ctx, name, &secret)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if n.Spec.Auth.TokenSecretRef != nil {
		checkToken(n, ref, &secret, err == nil)
	} else if err := r.makeToken(ctx, n, ref, &secret); err != nil {
		return err
	}
	if !n.Stop {
		r.tokens.setGood(n.name, token, look)
	}
	return nil
}

// checkToken looks at a token of the user's own.
func checkToken(n *notebook, ref v1alpha1.SecretKeyReference, secret *corev1.Secret, exists bool) {
	switch {
	case !exists:
		n.Found(noToken(v1alpha1.ReasonSecretNotFound, ref, "does not exist"))
	case len(secret.Data[ref.Key]) == 0:
		n.Found(noToken(v1alpha1.ReasonInvalidSecret, ref, "has no value under key "+ref.Key))
	}
}

// makeToken makes a token where there is none.
func (r *Reconciler) makeToken(ctx context.Context, n *notebook, ref v1alpha1.SecretKeyReference, secret *corev1.Secret) error {
	if metav1.IsControlledBy(secret, n.Jupyter) && len(secret.Data[ref.Key]) > 0 {
		return nil
	}
	wanted := workload.NotebookToken(n.Jupyter, rand.Text())
	if secret.UID == "" {
		return r.Classify(n.State, wanted, secret, r.Children.Make(ctx, wanted, secret))
	}
	return r.Ensure(ctx, n.State, wanted, secret)
}

func noToken(reason string, ref v1alpha1.SecretKeyReference, what string) diagnosis.Cause {
	return diagnosis.Cause{
		Reason: reason, Object: diagnosis.Object{Kind: "Secret", Name: ref.Name},
		Message: fmt.Sprintf("Secret %s, which is to hold the notebook's token, %s", ref.Name, what),
		Advice:  "put a token there, or leave spec.auth.tokenSecretRef out to have one made", Count: 1,
	}
}
