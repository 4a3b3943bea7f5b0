package receiver

import (
	"slices"
	"strings"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Choosable returns the receivers that a label can choose, by their names. It sorts them.
func Choosable(label string, all []v1alpha1.ClusterAlarmReceiver) (choosable []*v1alpha1.ClusterAlarmReceiver) {
	for i := range all {
		if by := all[i].Spec.ChosenBy; by != nil && by.NamespaceLabel == label {
			choosable = append(choosable, &all[i])
		}
	}
	slices.SortFunc(choosable, func(a, b *v1alpha1.ClusterAlarmReceiver) int { return strings.Compare(a.Name, b.Name) })
	return choosable
}

// Route returns how a ClusterAlarm chooses among the receivers of Choosable. excess are the names
// of those that a limit excludes.
func Route(from *v1alpha1.ReceiversFrom, choosable []*v1alpha1.ClusterAlarmReceiver) (route *match.Route, excess []string) {
	route = match.NewRoute(from.NamespaceLabel, clusterKey(from.Default.Name))
	for _, r := range choosable {
		if !route.Add(clusterKey(r.Name), r.Spec.ChosenBy.Values, r.Spec.ChosenBy.AllowObjectLabel) {
			excess = append(excess, r.Name)
		}
	}
	return route, excess
}

func clusterKey(name string) string {
	return kube.Key{Kind: v1alpha1.KindClusterAlarmReceiver, Name: name}.String()
}
