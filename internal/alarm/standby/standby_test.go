package standby_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/internal/alarm/standby"
)

var (
	errFull = errors.New("no space left")
	key     = client.ObjectKey{Namespace: "bongsu-system", Name: "bongsu-standby"}
)

func works(context.Context) error { return nil }
func fails(context.Context) error { return errFull }
func never() bool                 { return false }
func always() bool                { return true }

// replicas are a leader and a standby that share an API server.
type replicas struct {
	client client.WithWatch
	writes int
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	r := &replicas{}
	r.client = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			r.writes++
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			r.writes++
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	return r
}

func (r *replicas) lease(identity string) *standby.Lease {
	return &standby.Lease{Reader: r.client, Writer: r.client, Key: key, Identity: identity, Clock: clock.RealClock{}, Log: logr.Discard()}
}

// lead runs a leader for ten minutes. It returns after what time it stepped down; 0 if it did
// not.
func (r *replicas) lead(ctx context.Context, stuck func() bool) time.Duration {
	ctx, stop := context.WithTimeout(ctx, 10*time.Minute)
	defer stop()
	clk := clock.RealClock{}
	begin := clk.Now()
	if err := r.lease("leader").Lead(ctx, stuck); !errors.Is(err, standby.ErrStepDown) {
		return 0
	}
	return clk.Since(begin)
}

func TestALeaderThatCannotCommitStepsDownIfAStandbyCould(t *testing.T) {
	for name, tc := range map[string]struct {
		stuck func() bool
		// canCommit is nil if there is no standby.
		canCommit func(context.Context) error
		stepsDown bool
		writes    int
	}{
		"it can commit":             {stuck: never, canCommit: works},
		"it cannot":                 {stuck: always, canCommit: works, stepsDown: true, writes: 2},
		"there is no standby":       {stuck: always, writes: 1},
		"the standby cannot either": {stuck: always, canCommit: fails, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReplicas(t)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if tc.canCommit != nil {
					go func() { _ = r.lease("standby").Stand(ctx, func() bool { return false }, tc.canCommit) }()
				}
				after := r.lead(ctx, tc.stuck)
				if stepped := after > 0; stepped != tc.stepsDown || after > 4*standby.Interval {
					t.Errorf("stepped down after %v, want %t", after, tc.stepsDown)
				}
				if r.writes != tc.writes {
					t.Errorf("%d writes, want %d", r.writes, tc.writes)
				}
			})
		})
	}
}

// An answer to an earlier question says nothing about now.
func TestAnEarlierAnswerDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = r.lease("standby").Stand(ctx, func() bool { return false }, works) }()
		if r.lead(t.Context(), always) == 0 {
			t.Fatal("it did not step down")
		}
		stop() // the standby is gone
		if after := r.lead(t.Context(), always); after > 0 {
			t.Errorf("it stepped down after %v, because of an earlier answer", after)
		}
	})
}

func TestTheLeaderDoesNotAnswerItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = r.lease("leader").Stand(ctx, func() bool { return true }, works) }()
		if after := r.lead(ctx, always); after > 0 {
			t.Errorf("it stepped down after %v", after)
		}
	})
}

func TestALeaderThatCommitsAgainStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begin := newReplicas(t), clock.RealClock{}.Now()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = r.lease("standby").Stand(ctx, func() bool { return false }, works) }()
		after := r.lead(ctx, func() bool { return clock.RealClock{}.Since(begin) <= standby.Interval })
		if after > 0 || r.writes != 2 { // the question and the answer
			t.Errorf("stepped down after %v, %d writes", after, r.writes)
		}
	})
}
