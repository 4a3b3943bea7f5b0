package enrich

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// addTo adds n objects of a namespace, each with 4 KiB of labels.
func addTo(r *remembered, namespace string, n int) {
	labels := map[string]string{"a": strings.Repeat("x", 4<<10)}
	for i := range n {
		r.add(keyOf(namespace, i), alarm.Object{Metadata: alarm.ObjectMeta{Labels: labels}, Cause: "out of memory"})
	}
}

func keyOf(namespace string, i int) cacheKey {
	return cacheKey{Reference: alarm.Reference{Namespace: namespace, Name: fmt.Sprint(i)}}
}

func TestRememberedObjectsOfANamespaceLeaveSpaceForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemembered()
		addTo(r, "victim", 1)
		addTo(r, "attacker", 10_000)
		if r.bytesOf["attacker"] > maxNamespaceRemembered || r.bytesOf["attacker"] < maxNamespaceRemembered*9/10 {
			t.Errorf("the namespace uses %d bytes", r.bytesOf["attacker"])
		}
		if _, ok := r.get(keyOf("victim", 0)); !ok {
			t.Error("the object of another namespace is not known")
		}
		for i := range 20 {
			addTo(r, fmt.Sprint("many-", i), 1_000)
		}
		if r.bytes > maxRemembered || r.bytes < maxRemembered*9/10 {
			t.Errorf("all use %d bytes", r.bytes)
		}
		if _, ok := r.get(keyOf("many-19", 0)); !ok {
			t.Error("the newest are forgotten first")
		}
		time.Sleep(rememberTTL + time.Second)
		if _, ok := r.get(keyOf("many-19", 0)); ok {
			t.Error("an object is known for too long")
		}
		addTo(r, "attacker", 1)
		addTo(r, "attacker", 1) // the same object
		object, ok := r.get(keyOf("attacker", 0))
		if !ok || object.Cause != "" {
			t.Errorf("known %t with the cause %q", ok, object.Cause)
		}
		if one := objectSize + 1 + 4<<10; r.bytes != one || len(r.bytesOf) != 1 || r.bytesOf["attacker"] != one {
			t.Errorf("one object uses %d bytes, by namespace %v", r.bytes, r.bytesOf)
		}
	})
}
