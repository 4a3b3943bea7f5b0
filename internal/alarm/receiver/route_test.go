package receiver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

func choosable(name, label string, objects bool, values ...string) v1alpha1.ClusterAlarmReceiver {
	r := v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": name}}}
	if label != "" {
		r.Spec.ChosenBy = &v1alpha1.ReceiverChoice{NamespaceLabel: label, Values: values, AllowObjectLabel: objects}
	}
	return r
}

// names returns the names of receivers in keys.
func names(keys []string) string {
	return strings.ReplaceAll(strings.Join(keys, " "), v1alpha1.KindClusterAlarmReceiver+"//", "")
}

func TestOnlyReceiversThatOptInAreChosen(t *testing.T) {
	all := []v1alpha1.ClusterAlarmReceiver{
		choosable("shop-pager", "team", true, "shop"), choosable("shop", "team", false, "shop", "store"),
		choosable("other-label", "squad", true, "shop"), choosable("bank", "", false), choosable("ops", "", false),
	}
	from := &v1alpha1.ReceiversFrom{NamespaceLabel: "team", Default: v1alpha1.ClusterReceiverReference{Name: "ops"}}
	route, excess := Route(from, Choosable("team", all))
	got := map[string]string{
		"default": names([]string{route.Default}), "keys": names(route.Keys()), "excess": names(excess),
		"shop": names(route.ByNamespace("shop")), "store": names(route.ByNamespace("store")), "bank": names(route.ByNamespace("bank")),
		"none": names(route.ByNamespace("")), "of an object": names(route.ByObject("shop")), "store of an object": names(route.ByObject("store")),
	}
	want := map[string]string{
		"default": "ops", "keys": "ops shop shop-pager", "excess": "",
		"shop": "shop shop-pager", "store": "shop", "bank": "", "none": "", "of an object": "shop-pager", "store of an object": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestALabelChoosesALimitedNumberOfReceivers(t *testing.T) {
	for name, tc := range map[string]struct {
		n, want int
		value   func(i int) string
	}{
		"of a value": {20, match.MaxChosen, func(int) string { return "shop" }},
		"in all":     {150, match.MaxRouteReceivers, func(i int) string { return fmt.Sprint("team-", i) }},
	} {
		t.Run(name, func(t *testing.T) {
			var all []v1alpha1.ClusterAlarmReceiver
			for i := range tc.n {
				all = append(all, choosable(fmt.Sprintf("r%03d", i), "team", false, tc.value(i)))
			}
			from := &v1alpha1.ReceiversFrom{NamespaceLabel: "team", Default: v1alpha1.ClusterReceiverReference{Name: "ops"}}
			route, excess := Route(from, Choosable("team", all))
			if got := len(route.Keys()) - 1; got != tc.want || len(excess) != tc.n-tc.want {
				t.Errorf("%d receivers can be chosen and %d cannot, want %d and %d", got, len(excess), tc.want, tc.n-tc.want)
			}
		})
	}
}
