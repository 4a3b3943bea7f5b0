package receiver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/report"
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
	if spec.Slack != nil {
		names = append(names, secretName(spec.Slack.WebhookURLSecretRef))
	}
	if w := spec.Webhook; w != nil && w.URLSecretRef != nil {
		names = append(names, secretName(*w.URLSecretRef))
	}
	if w := spec.Webhook; w != nil && w.HeadersSecretRef != nil {
		names = append(names, headersName(w))
	}
	return names
}

func secretName(ref v1alpha1.ClusterSecretKeyReference) types.NamespacedName {
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
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

// secret reads a Secret and notes its version.
func (c *construction) secret(ctx context.Context, name types.NamespacedName) (map[string][]byte, report.Verdict, error) {
	var secret corev1.Secret
	err := c.Live.Get(ctx, name, &secret)
	if apierrors.IsNotFound(err) {
		return nil, report.Verdict{
			Reason:  v1alpha1.ReasonSecretNotFound,
			Message: fmt.Sprintf("Secret %s does not exist: create it, or correct the reference", name),
		}, nil
	}
	c.read = append(c.read, string(secret.UID)+"/"+secret.ResourceVersion)
	return secret.Data, report.Verdict{}, err
}

// secretValue reads one key of a Secret.
func (c *construction) secretValue(ctx context.Context, ref v1alpha1.ClusterSecretKeyReference) (string, report.Verdict, error) {
	data, verdict, err := c.secret(ctx, secretName(ref))
	if err != nil || !verdict.Well() {
		return "", verdict, err
	}
	value, ok := data[ref.Key]
	if !ok {
		return "", report.Verdict{
			Reason:  v1alpha1.ReasonSecretNotFound,
			Message: fmt.Sprintf("Secret %s has no key %q: add it, or name another in the reference", secretName(ref), ref.Key),
		}, nil
	}
	return string(value), report.Verdict{}, nil
}
