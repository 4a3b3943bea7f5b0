package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Bounds of how often something is looked at again of which no watch tells, such as
// what the API server refused.
const (
	refusedAtFirst = 5 * time.Second
	refusedAtMost  = 5 * time.Minute
)

// Ensure makes a child what is wanted, and reads what there is into found.
func (u *Helpers) Ensure(ctx context.Context, p *State, wanted, found client.Object) error {
	return u.Classify(p, wanted, found, u.Children.Ensure(ctx, wanted, found))
}

// Judge says what an error of making a child comes to: what its owner has to put
// right becomes a cause; what may pass by itself stays an error.
func (u *Helpers) Classify(p *State, wanted, found client.Object, err error) error {
	var conflict *children.ConflictError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict):
		p.Found(p.Conflict(conflict))
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		p.Stop = true
		return nil
	default:
		gvk, unknown := apiutil.GVKForObject(wanted, u.Client.Scheme())
		cause, terminal := diagnosis.FromAPIError(diagnosis.Object{Kind: gvk.Kind, Name: wanted.GetName()}, err)
		if unknown != nil || !terminal {
			return errors.Join(err, unknown)
		}
		if _, isClaim := wanted.(*corev1.PersistentVolumeClaim); isClaim && found.GetUID() != "" && apierrors.IsInvalid(err) {
			cause.Message = fmt.Sprintf("claim %q cannot be changed to what spec.storage asks for", wanted.GetName())
			cause.Advice = "only its size can grow; undo the change, or delete the claim, and the files in it, to have it made anew"
		}
		p.Known = append(p.Known, cause)
		// What there is can be used though it cannot be changed: a claim that is not to
		// grow, for one.
		p.Stop = p.Stop || found.GetUID() == ""
	}
	p.RequeueAfter(u.RetryRefused(p))
	return nil
}

// RetryRefused waits the longer the longer it has been refused.
func (u *Helpers) RetryRefused(p *State) time.Duration {
	stalled := p.StalledBefore()
	if stalled == nil {
		return refusedAtFirst
	}
	return min(max(u.Clock.Since(stalled.LastTransitionTime.Time), refusedAtFirst), refusedAtMost)
}

// Conflict is the cause that an object of somebody else's is in the way.
func (p *State) Conflict(c *children.ConflictError) diagnosis.Cause {
	return diagnosis.Cause{
		Reason: diagnosis.ReasonResourceConflict, Object: diagnosis.Object{Kind: c.Kind, Name: c.Name},
		Message: c.Error(), Advice: fmt.Sprintf("rename or delete it, or create the %s under another name", p.kind), Count: 1,
	}
}

// Remove deletes a child of ours that is wanted no longer.
func (u *Helpers) Remove(ctx context.Context, child client.Object) error {
	uid := child.GetUID()
	return client.IgnoreNotFound(u.Client.Delete(ctx, child, client.Preconditions{UID: &uid}))
}
