package receiver

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/status"
)

// secretsField indexes receivers by the Secrets that they name.
const secretsField = "spec.secrets"

func secretsOf(o client.Object) []string {
	object, ok := o.(Object)
	if !ok {
		return nil
	}
	var names []string
	for _, name := range namedIn(object.ClusterSpec()) {
		names = append(names, name.String())
	}
	return names
}

// namedIn returns the Secrets that a receiver names.
func namedIn(spec v1alpha1.ClusterAlarmReceiverSpec) []types.NamespacedName {
	var names []types.NamespacedName
	add := func(refs ...secretKey) {
		for _, ref := range refs {
			if ref.Name != "" {
				names = append(names, ref.NamespacedName)
			}
		}
	}
	if s := spec.Slack; s != nil {
		add(urlIn(s.WebhookURLSecretRef), valueIn(s.TokenSecretRef))
	}
	for _, chat := range []*v1alpha1.ClusterChatReceiver{spec.Teams, spec.Discord} {
		if chat != nil {
			add(urlIn(&chat.WebhookURLSecretRef))
		}
	}
	if t := spec.Telegram; t != nil {
		add(valueIn(&t.TokenSecretRef))
	}
	if p := spec.PagerDuty; p != nil {
		add(valueIn(&p.RoutingKeySecretRef))
	}
	if a := spec.Alertmanager; a != nil {
		add(serverSecrets(&a.ClusterHTTPServer)...)
	}
	if e := spec.Email; e != nil {
		add(allOf(e.CredentialsSecretRef), valueIn(e.CASecretRef))
	}
	if w := spec.Webhook; w != nil {
		add(serverSecrets(&w.ClusterHTTPServer)...)
		add(valueIn(w.SigningKeySecretRef))
	}
	return names
}

func serverSecrets(s *v1alpha1.ClusterHTTPServer) []secretKey {
	return []secretKey{urlIn(s.URLSecretRef), allOf(s.HeadersSecretRef), valueIn(s.CASecretRef)}
}

// secretKey names one key of a Secret, or all keys if key is empty. The zero value names
// none.
type secretKey struct {
	types.NamespacedName
	key string
}

func urlIn(r *v1alpha1.ClusterSecretURLReference) secretKey {
	if r == nil {
		return secretKey{}
	}
	return secretKey{types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, r.Key}
}

func valueIn(r *v1alpha1.ClusterSecretKeyReference) secretKey {
	if r == nil {
		return secretKey{}
	}
	return secretKey{types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, r.Key}
}

func allOf(r *v1alpha1.ClusterSecretReference) secretKey {
	if r == nil {
		return secretKey{}
	}
	return secretKey{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}
}

// usersOf maps a Secret to the receivers of this kind that name it.
func (r *Reconciler) usersOf(ctx context.Context, secret client.Object) []reconcile.Request {
	name := client.ObjectKeyFromObject(secret).String()
	var requests []reconcile.Request
	add := func(o client.Object) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	// The lists fail only if the cache was stopped.
	if r.kind == v1alpha1.KindAlarmReceiver {
		var list v1alpha1.AlarmReceiverList
		_ = r.Client.List(ctx, &list, client.MatchingFields{secretsField: name})
		for i := range list.Items {
			add(&list.Items[i])
		}
		return requests
	}
	var list v1alpha1.ClusterAlarmReceiverList
	_ = r.Client.List(ctx, &list, client.MatchingFields{secretsField: name})
	for i := range list.Items {
		add(&list.Items[i])
	}
	return requests
}

// faultError is a problem that the user must correct before a receiver can be built.
type faultError struct {
	result status.Result
}

// Error implements error.
func (e *faultError) Error() string { return e.result.Message }

func fault(reason, format string, args ...any) error {
	return &faultError{status.Result{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// resultOf separates problems that the user must correct from other errors.
func resultOf(err error) (status.Result, error) {
	if f, ok := errors.AsType[*faultError](err); ok {
		return f.result, nil
	}
	return status.Result{}, err
}

// all reads a Secret and records its version. It returns nil if the receiver names none.
func (b *construction) all(ctx context.Context, ref secretKey) (map[string][]byte, error) {
	if ref.Name == "" {
		return nil, nil
	}
	var secret corev1.Secret
	err := b.live.Get(ctx, ref.NamespacedName, &secret)
	if apierrors.IsNotFound(err) {
		return nil, fault(v1alpha1.ReasonSecretNotFound, "Secret %s does not exist: create it, or correct the reference", ref.NamespacedName)
	}
	b.versions = append(b.versions, string(secret.UID)+"/"+secret.ResourceVersion)
	return secret.Data, err
}

// value reads one key of a Secret. It is empty if the receiver names none.
func (b *construction) value(ctx context.Context, ref secretKey) (string, error) {
	data, err := b.all(ctx, ref)
	if err != nil || ref.Name == "" {
		return "", err
	}
	value, ok := data[ref.key]
	if !ok {
		return "", fault(v1alpha1.ReasonSecretNotFound, "Secret %s has no key %q: add it, or name another in the reference", ref.NamespacedName, ref.key)
	}
	return string(value), nil
}
