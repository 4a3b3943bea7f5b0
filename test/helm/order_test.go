package helm

import (
	"slices"
	"strconv"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func policies() []client.ObjectList {
	return []client.ObjectList{&admissionv1.ValidatingAdmissionPolicyList{}, &admissionv1.ValidatingAdmissionPolicyBindingList{}}
}

// roles are what the bindings give. A binding without its role has no effect.
func roles() []client.ObjectList {
	return []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.RoleList{}}
}

// uses are the pods, and what gives them the roles.
func uses() []client.ObjectList {
	return []client.ObjectList{
		&rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{},
	}
}

// ours selects what the chart creates.
const ours = "app.kubernetes.io/part-of=bongsu"

// history reads from the API server in which order objects were written.
type history struct {
	cluster      *cluster.Cluster
	begin, since string
}

func newHistory(t *testing.T, c *cluster.Cluster) *history {
	h := &history{cluster: c}
	h.forget(t)
	h.begin = h.since
	return h
}

// forget omits what was written so far.
func (h *history) forget(t *testing.T) {
	t.Helper()
	var list rbacv1.RoleList
	if err := h.cluster.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	h.since = list.ResourceVersion
}

// expectPoliciesFirst expects that all policies were written before a role was created.
func (h *history) expectPoliciesFirst(t *testing.T, kind watch.EventType) {
	t.Helper()
	_, last := h.writes(t, kind, policies())
	if first, _ := h.writes(t, watch.Added, roles()); first < last {
		t.Errorf("a role was created at %d, before the last policy was %s at %d", first, kind, last)
	}
}

// expectPoliciesLast expects that no policy was deleted before all that uses the roles.
func (h *history) expectPoliciesLast(t *testing.T) {
	t.Helper()
	first, _ := h.writes(t, watch.Deleted, policies())
	if _, last := h.writes(t, watch.Deleted, uses()); first < last {
		t.Errorf("a policy was deleted at %d, before the last binding or workload at %d", first, last)
	}
}

// writes returns the positions of the first and the last write of a type to the kinds of the
// lists. Changes of a status do not count.
func (h *history) writes(t *testing.T, kind watch.EventType, lists []client.ObjectList) (first, last uint64) {
	t.Helper()
	var positions []uint64
	for _, list := range lists {
		positions = append(positions, h.read(t, kind, list)...)
	}
	if len(positions) == 0 {
		t.Fatalf("no object of %T was %s", lists, kind)
	}
	return slices.Min(positions), slices.Max(positions)
}

func (h *history) read(t *testing.T, kind watch.EventType, list client.ObjectList) (positions []uint64) {
	t.Helper()
	since, second, generations := position(t, h.since), int64(1), map[types.UID]int64{}
	w, err := h.cluster.Client.Watch(t.Context(), list, &client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: ours, ResourceVersion: h.begin, TimeoutSeconds: &second}})
	if err != nil {
		t.Fatal(err)
	}
	for event := range w.ResultChan() {
		object, ok := event.Object.(client.Object)
		if !ok {
			t.Fatalf("watch %T: %v", list, event.Object)
		}
		former, found := generations[object.GetUID()]
		generations[object.GetUID()] = object.GetGeneration()
		if at := position(t, object.GetResourceVersion()); at > since && event.Type == kind && (kind != watch.Modified || !found || former != object.GetGeneration()) {
			positions = append(positions, at)
		}
	}
	return positions
}

func position(t *testing.T, resourceVersion string) uint64 {
	t.Helper()
	at, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
