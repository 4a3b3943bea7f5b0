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
