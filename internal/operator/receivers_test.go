package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// receiverReader has one receiver, or answers with an error.
type receiverReader struct {
	client.Reader
	spec    v1alpha1.AlarmReceiverSpec
	uid     types.UID
	created time.Time
	err     error
}

func (r *receiverReader) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if team, ok := o.(*v1alpha1.AlarmReceiver); ok {
		team.Spec = r.spec
	}
	o.SetUID(r.uid)
	o.SetCreationTimestamp(metav1.Time{Time: r.created})
	return r.err
}

// A read that fails, and a cache that is late, must not drop the messages of a receiver.
func TestOnlyTheAPIServerSaysThatAReceiverIsGone(t *testing.T) {
	const id = "AlarmReceiver/shop/team@uid"
	notFound := apierrors.NewNotFound(v1alpha1.SchemeGroupVersion.WithResource("alarmreceivers").GroupResource(), "team")
	for name, tc := range map[string]struct {
		cache, live receiverReader
		want        bool
	}{
		"it exists":                            {receiverReader{uid: "uid"}, receiverReader{err: errors.New("not read")}, false},
		"the cache does not have it yet":       {receiverReader{err: notFound}, receiverReader{uid: "uid"}, false},
		"the cache has its predecessor":        {receiverReader{uid: "former"}, receiverReader{uid: "uid"}, false},
		"it was deleted":                       {receiverReader{err: notFound}, receiverReader{err: notFound}, true},
		"it was recreated":                     {receiverReader{uid: "next"}, receiverReader{uid: "next"}, true},
		"the API server does not answer":       {receiverReader{err: notFound}, receiverReader{err: context.DeadlineExceeded}, false},
		"the API server limits requests":       {receiverReader{uid: "next"}, receiverReader{err: apierrors.NewTooManyRequests("slow down", 1)}, false},
		"the operator has no permission (yet)": {receiverReader{err: notFound}, receiverReader{err: apierrors.NewForbidden(v1alpha1.SchemeGroupVersion.WithResource("alarmreceivers").GroupResource(), "team", nil)}, false},
	} {
		r := &knownReceivers{namespaces: newNamespaces(&tc.cache, &tc.live)}
		if got := r.orphaned(id); got != tc.want {
			t.Errorf("%s: gone %v, want %v", name, got, tc.want)
		}
	}
}

// A receiver that was created while no operator ran can have had a predecessor. Later, the
// cache shows which receiver exists.
func TestWhatHappenedBeforeAReceiverIsNotForIt(t *testing.T) {
	created := time.Unix(1_800_000_000, 0)
	reader := &receiverReader{uid: "uid", created: created}
	r := &knownReceivers{namespaces: newNamespaces(reader, reader)}
	for name, tc := range map[string]struct {
		started            time.Time
		ofTenant, ofAdmins time.Time
	}{
		"created long before the start":  {created.Add(time.Hour), created.Add(time.Second), created},
		"created right before the start": {created.Add(300 * time.Millisecond), created, created},
		"created after the start":        {created.Add(-time.Minute), created.Add(-time.Minute), created.Add(-time.Minute)},
	} {
		r.start(tc.started)
		for key, want := range map[string]time.Time{"AlarmReceiver/shop/team": tc.ofTenant, "ClusterAlarmReceiver//ops": tc.ofAdmins} {
			if got, _ := r.receiver(key); got.ID != key+"@uid" || !got.Since.Equal(want) {
				t.Errorf("%s: %s since %s, want %s", name, got.ID, got.Since, want)
			}
		}
	}
	reader.err = errors.New("not found")
	if got, ok := r.receiver("AlarmReceiver/shop/team"); ok {
		t.Errorf("missing: %+v", got)
	}
}

func TestOnlyAnExistingAlertmanagerRepeats(t *testing.T) {
	alertmanager := v1alpha1.AlarmReceiverSpec{Alertmanager: &v1alpha1.AlertmanagerReceiver{}}
	for name, tc := range map[string]struct {
		cache receiverReader
		want  bool
	}{
		"an Alertmanager":   {receiverReader{spec: alertmanager}, true},
		"a log":             {receiverReader{spec: v1alpha1.AlarmReceiverSpec{Log: &v1alpha1.LogReceiver{}}}, false},
		"it does not exist": {receiverReader{spec: alertmanager, err: errors.New("not found")}, false},
	} {
		r := &knownReceivers{namespaces: newNamespaces(&tc.cache, &tc.cache)}
		if got, _ := r.receiver("AlarmReceiver/shop/team"); got.Repeats != tc.want {
			t.Errorf("%s: repeats %t, want %t", name, got.Repeats, tc.want)
		}
	}
}
