package alarm

import (
	"regexp"
	"testing"
)

func eventOccurrence(change ...func(*Occurrence)) *Occurrence {
	occ := &Occurrence{Event: Event{UID: "0a1b", Reason: "BackOff", Count: 4}, Increase: 1, Position: 100}
	for _, c := range change {
		c(occ)
	}
	return occ
}

func TestKeyDependsOnReceiverAlarmAndVersionOfTheEventOnly(t *testing.T) {
	occ := eventOccurrence()
	key := Key("receiver", "alarm", occ)
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(key) {
		t.Errorf("key %q is not 32 hexadecimal digits", key)
	}
	again := eventOccurrence(func(occ *Occurrence) {
		occ.Increase, occ.Event.Note = 5, "seen by another leader"
	})
	if got := Key("receiver", "alarm", again); got != key {
		t.Errorf("a replay has key %s, want %s", got, key)
	}
	for name, got := range map[string]string{
		"receiver":          Key("other", "alarm", occ),
		"alarm":             Key("receiver", "other", occ),
		"event":             Key("receiver", "alarm", eventOccurrence(func(o *Occurrence) { o.Event.UID = "other" })),
		"count":             Key("receiver", "alarm", eventOccurrence(func(o *Occurrence) { o.Event.Count++ })),
		"position":          Key("receiver", "alarm", eventOccurrence(func(o *Occurrence) { o.Position++ })),
		"another partition": Key("receivera", "larm", occ),
	} {
		if got == key {
			t.Errorf("another %s has the same key", name)
		}
	}
}

func TestAChangeShowsTheOwnerOfItsObject(t *testing.T) {
	pod := func(controller any) map[string]any {
		return map[string]any{"kind": "Pod", "metadata": map[string]any{
			"labels": map[string]any{"pod-template-hash": "5d9c"},
			"ownerReferences": []any{
				"no reference", map[string]any{"kind": "Backup", "name": "weekly"},
				map[string]any{"kind": "ReplicaSet", "name": "web-5d9c", "controller": controller},
			},
		}}
	}
	if got, want := Describe(pod(true)).Owner, (Owner{Kind: "Deployment", Name: "web"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := Describe(pod(false)).Owner; got != (Owner{}) {
		t.Errorf("%+v owns it, although it is no controller", got)
	}
}
