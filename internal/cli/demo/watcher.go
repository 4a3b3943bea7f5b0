package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

const pollInterval = 250 * time.Millisecond

// watcher reads from the statuses which alarms were delivered. A delivery covers the
// whole path from the Event to the receiver's acceptance.
type watcher struct {
	client  client.Client
	timeout time.Duration
	// baseline holds the delivery counters of the start.
	baseline map[string]int64
}

// begin records the present counters as the baseline.
func (w *watcher) begin(ctx context.Context) error {
	statuses, err := w.statuses(ctx)
	w.baseline = map[string]int64{}
	for name, status := range statuses {
		w.baseline[name] = status.Delivered
	}
	return err
}

// await waits until the alarms are delivered, and returns those that are not delivered in
// time.
func (w *watcher) await(ctx context.Context, alarms []string) (missing []string, err error) {
	err = w.poll(ctx, func() (bool, error) {
		missing, err = w.missing(ctx, alarms)
		return len(missing) == 0, err
	})
	return missing, err
}

// poll calls check until it returns true. A timeout is not an error: the caller knows the
// result of the last check. The timeout does not interrupt a check.
func (w *watcher) poll(ctx context.Context, check func() (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, w.timeout, true, func(context.Context) (bool, error) {
		return check()
	})
	if ctx.Err() == nil && wait.Interrupted(err) {
		return nil
	}
	return err
}

func (w *watcher) missing(ctx context.Context, alarms []string) ([]string, error) {
	statuses, err := w.statuses(ctx)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, name := range alarms {
		if s := statuses[name]; s == nil || s.Delivered <= w.baseline[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// statuses returns the statuses of all alarms by name. The names of the samples are
// unique.
func (w *watcher) statuses(ctx context.Context) (map[string]*v1alpha1.AlarmStatus, error) {
	var ofCluster v1alpha1.ClusterAlarmList
	if err := w.client.List(ctx, &ofCluster); err != nil {
		return nil, err
	}
	var ofNamespaces v1alpha1.AlarmList
	if err := w.client.List(ctx, &ofNamespaces); err != nil {
		return nil, err
	}
	statuses := map[string]*v1alpha1.AlarmStatus{}
	for i := range ofCluster.Items {
		statuses[ofCluster.Items[i].Name] = &ofCluster.Items[i].Status
	}
	for i := range ofNamespaces.Items {
		statuses[ofNamespaces.Items[i].Name] = &ofNamespaces.Items[i].Status
	}
	return statuses, nil
}

// awaitReady returns when every alarm is Ready, or an error that names the others.
func (w *watcher) awaitReady(ctx context.Context) error {
	var waiting []string
	err := w.poll(ctx, func() (bool, error) {
		statuses, err := w.statuses(ctx)
		waiting = nil
		for name, status := range statuses {
			if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
				waiting = append(waiting, name)
			}
		}
		return len(waiting) == 0, err
	})
	if err == nil && len(waiting) > 0 {
		slices.Sort(waiting)
		return fmt.Errorf("alarms not Ready within %v: %s", w.timeout, strings.Join(waiting, ", "))
	}
	return err
}

// awaitReceivers waits until the ClusterAlarmReceivers are Ready, because a temporary
// failure is tolerated. It returns the names and messages of those that are not Ready in
// time.
func (w *watcher) awaitReceivers(ctx context.Context, names []string) (failing []string, err error) {
	err = w.poll(ctx, func() (bool, error) {
		failing, err = w.failing(ctx, names)
		return len(failing) == 0, err
	})
	return failing, err
}

func (w *watcher) failing(ctx context.Context, names []string) ([]string, error) {
	var failing []string
	for _, name := range names {
		var r v1alpha1.ClusterAlarmReceiver
		if err := w.client.Get(ctx, client.ObjectKey{Name: name}, &r); err != nil {
			return nil, err
		}
		ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil {
			ready = &metav1.Condition{Message: "the operator has not processed it yet"}
		}
		if ready.Status != metav1.ConditionTrue {
			failing = append(failing, fmt.Sprintf("ClusterAlarmReceiver %s: %s", name, ready.Message))
		}
	}
	return failing, nil
}
