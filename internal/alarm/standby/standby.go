// Package standby lets a leader step down that cannot commit, if another replica could lead.
// A leader without such a standby goes on: it still sends the messages that wait.
//
// The replicas talk through a Lease. A leader in trouble asks: it removes the holder. A
// standby whose outbox can commit answers: it becomes the holder. Nothing is written while
// all is well, and no times of different machines are compared.
package standby

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Interval is the time between two looks at the Lease.
const Interval = 10 * time.Second

// ErrStepDown ends a leader that cannot commit.
var ErrStepDown = errors.New("no Event could be committed for a minute, and a standby can: stepping down")

// Lease is the Lease through which the replicas talk.
type Lease struct {
	// Reader reads from the API server, without a cache.
	Reader client.Reader
	Writer client.Writer
	// Key is the namespace and name of the Lease.
	Key client.ObjectKey
	// Identity names this replica. It must not be empty.
	Identity string
	Clock    clock.WithTicker
	Log      logr.Logger
}

// Lead runs while this replica leads. It returns ErrStepDown when stuck returns true and a
// standby answers. stuck reports that no batch was committed for a minute.
func (l *Lease) Lead(ctx context.Context, stuck func() bool) error {
	asked := false
	return l.repeat(ctx, func() (err error) {
		if !stuck() {
			asked = false
			return nil
		}
		if !asked {
			asked, err = l.ask(ctx)
			return err
		}
		lease, err := l.read(ctx)
		if err == nil && holder(lease) != "" {
			return ErrStepDown
		}
		return err
	})
}

// Stand runs in every replica. Unless it leads, it answers a leader that asks, if canCommit
// returns no error.
func (l *Lease) Stand(ctx context.Context, leads func() bool, canCommit func(ctx context.Context) error) error {
	return l.repeat(ctx, func() error {
		if leads() {
			return nil
		}
		lease, err := l.read(ctx)
		if lease == nil || holder(lease) != "" || err != nil {
			return err
		}
		if err := canCommit(ctx); err != nil {
			l.Log.Info("The leader asks for a standby, but this replica cannot commit either", "cause", err.Error())
			return nil
		}
		l.hold(lease, l.Identity)
		return l.Writer.Update(ctx, lease)
	})
}

// repeat calls do every Interval until ctx ends or it returns ErrStepDown. It logs other
// errors.
func (l *Lease) repeat(ctx context.Context, do func() error) error {
	ticker := l.Clock.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		switch err := do(); {
		case errors.Is(err, ErrStepDown):
			return err
		case err != nil && ctx.Err() == nil:
			l.Log.Error(err, "The Lease of the standby could not be read or written: retrying")
		}
	}
}

// ask removes the holder of the Lease, and reports whether it did.
func (l *Lease) ask(ctx context.Context) (asked bool, err error) {
	lease, err := l.read(ctx)
	switch {
	case err != nil:
		return false, err
	case lease == nil:
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Key.Namespace, Name: l.Key.Name}}
		l.hold(lease, "")
		err = l.Writer.Create(ctx, lease)
	default:
		l.hold(lease, "")
		err = l.Writer.Update(ctx, lease)
	}
	return err == nil, err
}

// read returns the Lease, or nil if it does not exist.
func (l *Lease) read(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := l.Reader.Get(ctx, l.Key, lease)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

func (l *Lease) hold(lease *coordinationv1.Lease, identity string) {
	lease.Spec.HolderIdentity = &identity
	if identity == "" {
		lease.Spec.HolderIdentity = nil // the API server refuses an empty one
	}
	lease.Spec.RenewTime = new(metav1.NewMicroTime(l.Clock.Now()))
}

func holder(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
