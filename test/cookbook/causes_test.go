package cookbook

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/config"
)

// recipe describes how to trigger an alarm.
type recipe struct {
	// before runs before the alarm is created. May be nil.
	before cause
	// nearMiss must not trigger the alarm. Its object has the name of the bystander.
	nearMiss cause
	// steps trigger one message each.
	steps []cause
}

// cause triggers Events.
type cause func(*trial)

// bystander returns the name of the object for which no message may be sent. No such name
// contains another one, although names of alarms do.
func bystander(e entry) string { return "bystander-of-" + e.alarm.GetName() + "-alarm" }

// both runs causes in order.
func both(causes ...cause) cause {
	return func(tr *trial) {
		tr.Helper()
		for _, c := range causes {
			c(tr)
		}
	}
}

// applied applies manifests, with the bystander's name for BYSTANDER. The components of the
// cluster then write the Events.
func applied(manifests string) cause {
	return func(tr *trial) {
		tr.Helper()
		objects, err := config.Decode(strings.NewReader(strings.ReplaceAll(manifests, "BYSTANDER", bystander(tr.entry))))
		if err != nil {
			tr.Fatal(err)
		}
		tr.apply(objects...)
	}
}

// happening is an Event that a component writes through core/v1. If the kind has no
// namespace, the Event is in the namespace default.
type happening struct {
	by, kind string
	// on is the regarding object, as NAMESPACE/NAME or NAME. An empty NAME is the bystander.
	on                      string
	eventType, reason, note string
	container               string
	// count is the final count of the Event, or 0 for 1.
	count int32
}

// apiVersions of the kinds of regarding objects, except for v1.
var apiVersions = map[string]string{"CronJob": "batch/v1", "Job": "batch/v1", "ReplicaSet": "apps/v1", "Deployment": "apps/v1", "HorizontalPodAutoscaler": "autoscaling/v2", "HelmRelease": "helm.toolkit.fluxcd.io/v2"}

// recorded writes Events as real components do. An Event with a count is created with 1 and
// then updated, as by their recorders.
func recorded(events ...happening) cause {
	return func(tr *trial) {
		tr.Helper()
		for _, h := range events {
			e := h.event(bystander(tr.entry))
			if err := tr.Client.Create(tr.Context(), e); err != nil {
				tr.Fatal(err)
			}
			if h.count < 2 {
				continue
			}
			e.Count, e.LastTimestamp = h.count, metav1.Now()
			if err := tr.Client.Update(tr.Context(), e); err != nil {
				tr.Fatal(err)
			}
		}
	}
}

func (h happening) event(bystander string) *corev1.Event {
	namespace, name, ok := strings.Cut(h.on, "/")
	if !ok {
		namespace, name = "", h.on
	}
	if name == "" {
		name = bystander
	}
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: name + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: apiVersions[h.kind], Kind: h.kind, Namespace: namespace, Name: name, UID: uuid.NewUUID(),
		},
		Type: h.eventType, Reason: h.reason, Message: h.note, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: h.by}, ReportingController: h.by,
	}
	if e.InvolvedObject.APIVersion == "" {
		e.InvolvedObject.APIVersion = "v1"
	}
	if h.container != "" {
		e.InvolvedObject.FieldPath = "spec.containers{" + h.container + "}"
	}
	switch h.kind {
	case "Node":
		e.Namespace, e.InvolvedObject.UID = metav1.NamespaceDefault, types.UID("")
	case "HelmRelease": // the operator compares the UID of an object that it reads
		e.InvolvedObject.UID = ""
	}
	return e
}

// kubectl runs a command, with the bystander's name for BYSTANDER.
func kubectl(args ...string) cause {
	return func(tr *trial) {
		tr.Helper()
		run := make([]string, len(args))
		for i, a := range args {
			run[i] = strings.ReplaceAll(a, "BYSTANDER", bystander(tr.entry))
		}
		if out, err := tr.Kubectl(tr.T, tr.RESTConfig())(run...); err != nil {
			tr.Fatalf("kubectl %v: %v\n%s", run, err, out)
		}
	}
}

// deleted deletes an object.
func deleted(kind, apiVersion, namespace, name string) cause {
	return func(tr *trial) {
		tr.Helper()
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		if err := tr.Client.Delete(tr.Context(), u); err != nil && !apierrors.IsNotFound(err) {
			tr.Fatal(err)
		}
	}
}

// simulated sets what a simulated node does, or removes that if what is empty.
func simulated(node, what string) cause {
	return func(tr *trial) {
		tr.Helper()
		value := `"` + what + `"`
		if what == "" {
			value = "null"
		}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"bongsu-local/simulate":`+value+`}}}`))
		if err := tr.Client.Patch(tr.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch); err != nil {
			tr.Fatal(err)
		}
	}
}

// older waits until a node is older than age.
func older(node string, age time.Duration) cause {
	return func(tr *trial) {
		tr.Helper()
		tr.until("node "+node+" is older than "+age.String(), func(ctx context.Context) bool {
			var n corev1.Node
			return tr.Client.Get(ctx, client.ObjectKey{Name: node}, &n) == nil && time.Since(n.CreationTimestamp.Time) > age
		})
	}
}

// reported waits for an Event with this reason on an object.
func reported(namespace, name, reason string) cause {
	return func(tr *trial) {
		tr.Helper()
		tr.until(reason+" on "+name, func(ctx context.Context) bool {
			on := strings.ReplaceAll(name, "BYSTANDER", bystander(tr.entry))
			var events corev1.EventList
			err := tr.Client.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.name": on, "reason": reason})
			return err == nil && len(events.Items) > 0
		})
	}
}

// counted waits until a quota is active.
func counted(namespace, quota string) cause {
	return func(tr *trial) {
		tr.Helper()
		tr.until("quota "+quota+" is active", func(ctx context.Context) bool {
			var q corev1.ResourceQuota
			return tr.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: quota}, &q) == nil && len(q.Status.Hard) > 0
		})
	}
}
