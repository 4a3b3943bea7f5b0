package appservice

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

// A tenant can create many large PodDisruptionBudgets.
func TestFewLargeBudgetsOfAPodAreRead(t *testing.T) {
	for size, want := range map[int][]string{10: {"0", "1", "2"}, 1 << 20: nil} {
		answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			list := policyv1.PodDisruptionBudgetList{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudgetList"}}
			for i := range 3 {
				budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i), Annotations: map[string]string{"a": strings.Repeat("x", size)}}}
				budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
				list.Items = append(list.Items, budget)
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(&list) // fails if the client reads no more
		})
		cfg := &rest.Config{Host: "http://api.local", Transport: eventstream.Transport(answer)}
		cfg.Wrap(kube.LimitResponses(kube.NoLimit))
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
		live, err := client.New(cfg, client.Options{Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		r := &Reconciler{Helpers: &reconciler.Helpers{Live: live}}
		got, err := r.budgetsOf(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: map[string]string{"app": "web"}}})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("budgets of %d bytes: error %v, %s", size, err, diff)
		}
	}
}
