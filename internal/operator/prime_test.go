package operator

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/controller/alarm"
	"github.com/bongsu-io/bongsu/internal/controller/status"
)

// inForce contains compiled alarms by key.
type inForce map[string]*match.Alarm

func (a inForce) Has(string, string) bool                  { return false }
func (a inForce) Set(key, _ string, compiled *match.Alarm) { a[key] = compiled }
func (a inForce) Delete(key string)                        { delete(a, key) }

func TestPrimePutsAlarmsOfBothKindsIntoForce(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := match.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	spec := v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{}}}
	set := inForce{}
	d := alarm.Dependencies{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
			&v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: v1alpha1.NamespacedAlarmSpec{AlarmSpec: spec}},
			&v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.ClusterAlarmSpec{AlarmSpec: spec}},
		).Build(),
		Compiler: compiler, Alarms: set, Recorder: func(string) *status.Recorder { return nil },
	}
	all := alarms{alarm: alarm.NewAlarm(d), clusterAlarm: alarm.NewClusterAlarm(d)}
	if err := all.prime(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Alarm/shop/a", "ClusterAlarm//b"}, slices.Sorted(maps.Keys(set))); diff != "" {
		t.Error(diff)
	}
}
