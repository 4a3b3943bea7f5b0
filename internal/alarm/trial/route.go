package trial

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// addRoute adds the receivers that a label can choose to an alarm, and to found by their keys.
func (e *Environment) addRoute(ctx context.Context, a *Alarm, found map[string]receiver.Object) (notes []string, err error) {
	from := a.Object.ReceiverChoice()
	if from == nil {
		return nil, nil
	}
	var list v1alpha1.ClusterAlarmReceiverList
	err = e.Client.List(ctx, &list)
	switch {
	case apierrors.IsForbidden(err), meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		notes = append(notes, fmt.Sprintf("it is unknown which receivers the label %s chooses: %v", from.NamespaceLabel, err))
	case err != nil:
		return nil, fmt.Errorf("list the receivers that the label %s can choose: %w", from.NamespaceLabel, err)
	}
	choosable := receiver.Choosable(from.NamespaceLabel, e.asIfApplied(list.Items))
	route, excess := receiver.Route(from, choosable)
	if len(excess) > 0 {
		notes = append(notes, fmt.Sprintf("the label %s can choose too many receivers: it does not choose ClusterAlarmReceiver %s, the first of %d", from.NamespaceLabel, excess[0], len(excess)))
	}
	for _, object := range choosable {
		found[kube.Key{Kind: v1alpha1.KindClusterAlarmReceiver, Name: object.Name}.String()] = object
	}
	if err == nil && len(choosable) == 0 {
		notes = append(notes, fmt.Sprintf("no ClusterAlarmReceiver has the label %s in spec.chosenBy: all messages go to %s", from.NamespaceLabel, from.Default.Name))
	}
	a.compiled = a.compiled.WithRoute(route)
	return notes, nil
}

// asIfApplied returns the ClusterAlarmReceivers of the cluster and of the file.
func (e *Environment) asIfApplied(inCluster []v1alpha1.ClusterAlarmReceiver) []v1alpha1.ClusterAlarmReceiver {
	all := slices.DeleteFunc(inCluster, func(r v1alpha1.ClusterAlarmReceiver) bool {
		return e.inFile(kube.Key{Kind: v1alpha1.KindClusterAlarmReceiver, Name: r.Name}) != nil
	})
	for i := range e.InFile.Receivers {
		if r, ok := e.InFile.Receivers[i].Object.(*v1alpha1.ClusterAlarmReceiver); ok {
			all = append(all, *r)
		}
	}
	return all
}

// addChosen adds to each message the receivers that the label chooses for its Events.
func (a *AlarmReport) addChosen(r *pipeline.DryRunResult) {
	shown := map[string]bool{}
	for i := range r.Evaluations {
		e := &r.Evaluations[i]
		if e.NoReceiver != nil && !shown[e.NoReceiver.Error()] && len(shown) < maxHintValues {
			shown[e.NoReceiver.Error()] = true
			a.Notes = append(a.Notes, e.NoReceiver.Error())
		}
		if e.Message < 0 {
			continue
		}
		m := &a.Messages[e.Message]
		for _, key := range e.Chosen {
			if !slices.Contains(m.Receivers, key) {
				m.Receivers = append(m.Receivers, key)
			}
		}
	}
}
