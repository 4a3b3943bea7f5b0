package reconciler

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// lists counts what is listed.
type lists struct {
	client.Reader
	n int
}

func (l *lists) List(context.Context, client.ObjectList, ...client.ListOption) error {
	l.n++
	return nil
}

// What starts well is told in Events too, in each of which a thousand apps that start
// would read their quotas.
func TestQuotasAreReadOnlyWhenACreationWasRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		reasons []string
		want    int
	}{
		"nothing was told":       {nil, 0},
		"it starts":              {[]string{"Pulling", "Pulled", "Created", "Started"}, 0},
		"a creation was refused": {[]string{"Pulling", "FailedCreate"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := &lists{}
			w := diagnosis.Workload{}
			for _, reason := range tc.reasons {
				w.Events = append(w.Events, diagnosis.Event{Reason: reason})
			}
			if err := (&Helpers{Live: api}).ReadQuotas(t.Context(), "team", &w); err != nil {
				t.Fatal(err)
			}
			if api.n != tc.want {
				t.Errorf("quotas were read %d times, want %d", api.n, tc.want)
			}
		})
	}
}
