package secretshare

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/condition"
)

// Rules and grants name namespaces. A namespace that was deleted and created again can have
// another owner, whom the author does not trust. The status therefore records the UID of the
// namespace before the first copy is written.

// readNamespace reads the metadata of a namespace. exists is false if there is none.
func readNamespace(ctx context.Context, reader client.Reader, name string) (ns *metav1.PartialObjectMetadata, exists bool, err error) {
	ns, err = kube.NamespaceMetadata(ctx, reader, name)
	return ns, err == nil, client.IgnoreNotFound(err)
}

// recreatedError means that a namespace is not the one that was recorded.
type recreatedError struct{ namespace string }

func (e *recreatedError) Error() string {
	return fmt.Sprintf("namespace %s was deleted and created again, so no copy is written: check who owns it, then set spec.suspend to true and back to false", e.namespace)
}

func isRecreated(err error) bool {
	_, ok := errors.AsType[*recreatedError](err)
	return ok
}

// recordSource writes the UID of the source's namespace to the status of a
// ClusterSecretShare. A record for an earlier spec is replaced: the author has confirmed the
// source by writing the spec again. It does not wait for the end of the reconcile, because
// the plan starts the copies.
func (r *Reconciler) recordSource(ctx context.Context, object Object) error {
	status, name := object.ShareStatus(), object.ClusterSource().Namespace
	if recorded := status.SourceNamespace; r.kind != v1alpha1.KindClusterSecretShare ||
		recorded != nil && recorded.Namespace == name && recorded.Generation == object.GetGeneration() {
		return nil
	}
	ns, exists, err := readNamespace(ctx, r.live, name)
	if err != nil {
		return err
	}
	before := object.DeepCopyObject().(Object)
	status.SourceNamespace = nil
	if exists {
		status.SourceNamespace = &v1alpha1.NamespaceIdentity{Namespace: name, UID: string(ns.UID), Generation: object.GetGeneration()}
	}
	return condition.UpdateStatus[client.Object](ctx, r.client, before, object)
}

// checkSource returns a recreatedError if the source's namespace is not the recorded one. It
// reads the API server: a cache may still contain the deleted namespace. exists is false if
// there is no such namespace.
func (r *Reconciler) checkSource(ctx context.Context, object Object) (exists bool, err error) {
	if r.kind != v1alpha1.KindClusterSecretShare {
		return true, nil
	}
	ns, exists, err := readNamespace(ctx, r.live, object.ClusterSource().Namespace)
	if err != nil || !exists {
		return false, err
	}
	switch recorded := object.ShareStatus().SourceNamespace; {
	case recorded == nil:
		return true, errors.New("its namespace was created a moment ago") // a retry records it
	case recorded.UID != string(ns.UID):
		return true, &recreatedError{ns.Name}
	}
	return true, nil
}

// setNamespace sets the UID of the namespace of a SecretShare in its plan. It reads it once for
// each SecretShare, because an object never moves to another namespace. The namespace is that
// of the SecretShare if the SecretShare still exists afterwards: it was deleted with a former
// namespace.
func (r *Reconciler) setNamespace(ctx context.Context, p *plan, object Object) error {
	if p.Rule.IsOfCluster() {
		return nil
	}
	if last, _ := r.store.lastPlan(p.key); last != nil && last.Rule.UID == p.Rule.UID && last.Rule.NamespaceUID != "" {
		p.Rule = p.Rule.In(last.Rule.NamespaceUID)
		return nil
	}
	ns, exists, err := readNamespace(ctx, r.live, object.GetNamespace())
	if err != nil {
		return err
	}
	live := r.newEmpty()
	err = r.live.Get(ctx, client.ObjectKeyFromObject(object), live)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if !exists || err != nil || live.GetUID() != object.GetUID() {
		return fmt.Errorf("SecretShare %s was deleted with its namespace: a retry reads it again", client.ObjectKeyFromObject(object))
	}
	p.Rule = p.Rule.In(string(ns.UID))
	return nil
}

// recordSources sets the UIDs of the namespaces in spec.from in the status of a grant, in
// memory. It returns the namespaces that were deleted and created again since the spec was
// written. SecretShares use the grant once this status is written.
func (r *grantReconciler) recordSources(ctx context.Context, grant *v1alpha1.SecretShareGrant) (recreated []string, err error) {
	var all []v1alpha1.NamespaceIdentity
	for _, from := range grant.Spec.From {
		recorded, _ := share.RecordedFor(grant, from.Namespace)
		current := recorded.Generation == grant.Generation
		uid, err := r.identify(ctx, from.Namespace, recorded.UID, current)
		if err != nil {
			return nil, err
		}
		if current && uid != recorded.UID && uid != "" {
			recreated = append(recreated, from.Namespace)
		}
		if current {
			uid = recorded.UID
		}
		if uid != "" {
			all = append(all, v1alpha1.NamespaceIdentity{Namespace: from.Namespace, UID: uid, Generation: grant.Generation})
		}
	}
	grant.Status.From = all
	return recreated, nil
}

// identify returns the UID of a namespace, or none if it does not exist. A UID in the cache
// that differs from the recorded one can be older: identify then reads the API server. It
// does so also before a record of an earlier spec is dropped.
func (r *grantReconciler) identify(ctx context.Context, name string, recorded string, current bool) (string, error) {
	cached, exists, err := readNamespace(ctx, r.client, name)
	if err != nil {
		return "", err
	}
	if exists && string(cached.UID) == recorded || !exists && (current || recorded == "") {
		return string(cached.UID), nil
	}
	live, _, err := readNamespace(ctx, r.live, name)
	return string(live.UID), err
}
