package enrich_test

import (
	"context"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
)

// chainReader has objects by name. Each names the next one as its controller.
type chainReader struct {
	failingReader
	controllers map[string]metav1.OwnerReference
	errs        map[string]error
	names       []string
}

func (r *chainReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.names = append(r.names, key.Name)
	if err := r.errs[key.Name]; err != nil {
		return err
	}
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	object.SetUID(types.UID("uid-" + key.Name))
	if by, ok := r.controllers[key.Name]; ok {
		object.SetOwnerReferences([]metav1.OwnerReference{by})
	}
	return nil
}

func controlledBy(apiVersion, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: new(true)}
}

func TestAPodBelongsToTheWorkloadAtTheEndOfItsChain(t *testing.T) {
	job, cron := controlledBy("batch/v1", "Job", "nightly-1"), controlledBy("batch/v1", "CronJob", "nightly")
	other := job
	other.UID = "of-another-job"
	for name, tc := range map[string]struct {
		controllers map[string]metav1.OwnerReference
		errs        map[string]error
		want        alarm.Owner
		unread      bool
		reads       int
	}{
		"a CronJob":                {controllers: map[string]metav1.OwnerReference{"pod": job, "nightly-1": cron}, want: alarm.Owner{Kind: "CronJob", Name: "nightly"}, reads: 2},
		"a Job":                    {controllers: map[string]metav1.OwnerReference{"pod": job}, want: alarm.Owner{Kind: "Job", Name: "nightly-1"}, reads: 2},
		"another Job of this name": {controllers: map[string]metav1.OwnerReference{"pod": other, "nightly-1": cron}, want: alarm.Owner{Kind: "Job", Name: "nightly-1"}, reads: 2},
		"a Rollout": {controllers: map[string]metav1.OwnerReference{
			"pod": controlledBy("apps/v1", "ReplicaSet", "web-7f"), "web-7f": controlledBy("argoproj.io/v1alpha1", "Rollout", "web"),
		}, want: alarm.Owner{Kind: "Rollout", Name: "web"}, reads: 2},
		"a Job of another group": {controllers: map[string]metav1.OwnerReference{"pod": controlledBy("batch.volcano.sh/v1alpha1", "Job", "train")}, want: alarm.Owner{Kind: "Job", Name: "train"}, reads: 1},
		"a StatefulSet":          {controllers: map[string]metav1.OwnerReference{"pod": controlledBy("apps/v1", "StatefulSet", "db")}, want: alarm.Owner{Kind: "StatefulSet", Name: "db"}, reads: 1},
		"a Job that is gone": {
			controllers: map[string]metav1.OwnerReference{"pod": job}, errs: map[string]error{"nightly-1": statusError(http.StatusNotFound)},
			want: alarm.Owner{Kind: "Job", Name: "nightly-1"}, reads: 2,
		},
		"a Job that must not be read": {
			controllers: map[string]metav1.OwnerReference{"pod": job}, errs: map[string]error{"nightly-1": statusError(http.StatusForbidden)},
			want: alarm.Owner{Kind: "Job", Name: "nightly-1"}, reads: 2,
		},
		// Otherwise, its pods would be in two groups.
		"a Job that cannot be read": {
			controllers: map[string]metav1.OwnerReference{"pod": job}, errs: map[string]error{"nightly-1": apierrors.NewServiceUnavailable("not now")},
			unread: true, reads: 2,
		},
		// A tenant can write references that never end.
		"a Job that owns itself": {controllers: map[string]metav1.OwnerReference{"pod": job, "nightly-1": job}, want: alarm.Owner{Kind: "Job", Name: "nightly-1"}, reads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			live := &chainReader{controllers: tc.controllers, errs: tc.errs}
			e := enrich.New("test", live, live)
			for range 2 { // the second time, from the cache
				got := e.Context(t.Context(), podNamed("pod"))
				if got.Object.Owner != tc.want || (got.ObjectUnread != "") != tc.unread {
					t.Errorf("%+v, unread %q", got.Object.Owner, got.ObjectUnread)
				}
			}
			if len(live.names) != tc.reads {
				t.Errorf("read %v, want %d reads", live.names, tc.reads)
			}
		})
	}
}
