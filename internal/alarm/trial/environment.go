package trial

import (
	"context"
	"fmt"
	"os"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Environment is the cluster on whose Events alarms are tested.
type Environment struct {
	// Client has the permissions of the user.
	Client client.Client
	// Discovery lists the kinds of the cluster.
	Discovery Discovery
	// ClusterName is the name in messages. If it is empty, it is the name that the operator
	// in OperatorNamespace uses.
	ClusterName, OperatorNamespace string
	// InFile contains receivers, and Secrets for them, that are used as if they were applied.
	InFile File
	// Comparison is set to test the changes between two files, instead of Events.
	Comparison *Comparison
	// Events from From to Until are evaluated. Until is not after Now.
	Now, From, Until time.Time
}

// test is one call of Environment.Test.
type test struct {
	*Environment
	reader   *clusterReader
	enricher pipeline.Enricher
	// served are the resources of the cluster.
	served objects.Served
	notes  []string
}

// run passes the occurrences through a pipeline with a temporary outbox.
func (e *Environment) run(ctx context.Context, a *Alarm, occurrences []alarm.Occurrence, namespaces match.Namespaces, enricher pipeline.Enricher, labels ...string) (*pipeline.DryRunResult, error) {
	dir, err := os.MkdirTemp("", "bongsu-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return pipeline.DryRun(ctx, dir, a.compiled, occurrences, namespaces, enricher, e.Now, labels...)
}

// review creates or updates an object in a dry run. It returns what the API server would store,
// with its default values. An object that its rules refuse is an error. If the user may not write
// it, review returns a note and no object.
func (e *Environment) review(ctx context.Context, of client.Object, key kube.Key) (stored client.Object, note string, err error) {
	stored = of.DeepCopyObject().(client.Object)
	stored.SetResourceVersion("") // it may come from a cluster
	stored.SetUID("")
	stored.SetManagedFields(nil)
	err = e.Client.Create(ctx, stored, client.DryRunAll)
	if apierrors.IsAlreadyExists(err) {
		err = e.reviewUpdate(ctx, stored)
	}
	switch {
	case err == nil:
		return stored, "", nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf("you may not apply it: %v", err), nil
	case meta.IsNoMatchError(err):
		return nil, "it cannot be created: Bongsu's kinds are not in this cluster", nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Sprintf("it cannot be created: %v", err), nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return nil, "", fmt.Errorf("the API server refuses %s: %w", key.Display(), err)
	default:
		return nil, "", fmt.Errorf("ask the API server about %s: %w", key.Display(), err)
	}
}

// reviewUpdate is review for an object that exists.
func (e *Environment) reviewUpdate(ctx context.Context, object client.Object) error {
	present := object.DeepCopyObject().(client.Object)
	// The operator can write the status between the two requests.
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(object), present); err != nil {
			return err
		}
		object.SetResourceVersion(present.GetResourceVersion())
		return e.Client.Update(ctx, object, client.DryRunAll)
	})
}

// pageSize is the number of Events in one request.
const pageSize = 500

// eventTTL is the default --event-ttl of the API server.
const eventTTL = time.Hour

// seen are the Events that an alarm may see.
type seen struct {
	// occurrences are those from From to Until.
	occurrences []alarm.Occurrence
	// oldest is the time of the oldest Event, or Now if there is none.
	oldest time.Time
}

func (s *seen) add(occ alarm.Occurrence, from, until time.Time) {
	if occ.ObservedAt.Before(s.oldest) {
		s.oldest = occ.ObservedAt
	}
	if !occ.ObservedAt.Before(from) && !occ.ObservedAt.After(until) {
		s.occurrences = append(s.occurrences, occ)
	}
}

// occurrences reads the Events that the alarm may see. For an Alarm, these are the Events
// of its namespace.
func (e *Environment) occurrences(ctx context.Context, a *Alarm) (*seen, error) {
	found := &seen{oldest: e.Now}
	var list eventsv1.EventList
	for page := ""; ; page = list.Continue {
		err := e.Client.List(ctx, &list, client.InNamespace(a.ID().Namespace), client.Limit(pageSize), client.Continue(page))
		if err != nil {
			return nil, unreadable(a.ID().Namespace, err)
		}
		for i := range list.Items {
			occ, err := source.FullOccurrence(&list.Items[i])
			if err != nil {
				return nil, fmt.Errorf("read Event %s/%s: %w", list.Items[i].Namespace, list.Items[i].Name, err)
			}
			found.add(occ, e.From, e.Until)
		}
		if list.Continue == "" {
			return found, nil
		}
	}
}

func unreadable(namespace string, err error) error {
	where := "namespace " + namespace
	if namespace == metav1.NamespaceAll {
		where = "all namespaces, which a ClusterAlarm sees"
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you may not list the Events of %s: ask for the permission to list events.events.k8s.io: %w", where, err)
	}
	return fmt.Errorf("list the Events of %s: %w", where, err)
}
