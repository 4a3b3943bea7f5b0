package receiver

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
)

// secretsField indexes receivers by the Secrets that they name.
const secretsField = "spec.secrets"

func secretsOf(o client.Object) []string {
	object, ok := o.(Object)
	if !ok {
		return nil
	}
	var names []string
	for _, name := range receiver.SecretsOf(object) {
		names = append(names, name.String())
	}
	return names
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
