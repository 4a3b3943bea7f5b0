package journal

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/diagnosis"
)

// lists counts what is asked of the API server.
type lists struct {
	client.Reader
	asked int
}

// List implements client.Reader.
func (l *lists) List(context.Context, client.ObjectList, ...client.ListOption) error {
	l.asked++
	return nil
}

var (
	name = types.NamespacedName{Namespace: "ns", Name: "nb"}
	set  = diagnosis.Object{Kind: "StatefulSet", Name: "nb"}
	pod  = diagnosis.Object{Kind: "Pod", Name: "nb-0"}
)

func warning(uid, kind, object string) alarm.Occurrence {
	return alarm.Occurrence{Event: alarm.Event{
		UID: uid, Namespace: "ns", Type: corev1.EventTypeWarning, LastSeen: time.Unix(0, 0),
		Regarding: alarm.Reference{Namespace: "ns", Kind: kind, Name: object},
	}}
}

func TestOfWhatIsYetToBeMadeNobodyIsAsked(t *testing.T) {
	reader, told := &lists{}, 0
	j := New(reader, testingclock.NewFakePassiveClock(time.Unix(0, 0)), func(context.Context, types.NamespacedName) { told++ })
	j.Expect(name, set, pod)
	j.Hear(t.Context(), []alarm.Occurrence{warning("1", "StatefulSet", "nb"), warning("2", "Pod", "nb-0"), warning("3", "Pod", "other-0")})
	j.Expect(name, set, pod)
	follow := func(objects ...diagnosis.Object) {
		t.Helper()
		if err := j.Follow(t.Context(), name, objects...); err != nil {
			t.Fatal(err)
		}
	}
	follow(set, pod)
	if events := j.Events(name); len(events) != 2 || told != 1 || reader.asked != 0 {
		t.Errorf("%d Events known, told %d times, asked %d times", len(events), told, reader.asked)
	}
	follow(set, pod, diagnosis.Object{Kind: "PersistentVolumeClaim", Name: "nb"})
	if reader.asked != 1 {
		t.Errorf("asked %d times for what was there before", reader.asked)
	}
	j.Forget(name)
	if len(j.followers) != 0 || len(j.workloads) != 0 {
		t.Errorf("%v and %v are kept of what is forgotten", j.followers, j.workloads)
	}
	follow(set, pod)
	if reader.asked != 3 {
		t.Errorf("asked %d times after all", reader.asked)
	}
}
