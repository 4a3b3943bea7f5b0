package kube

import "testing"

func TestParseKeyReadsTheTextOfAKey(t *testing.T) {
	for _, want := range []Key{{"Alarm", "shop", "web"}, {"ClusterAlarm", "", "nodes"}} {
		got, err := ParseKey(want.String())
		if err != nil || got != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	if _, err := ParseKey("Alarm/shop"); err == nil {
		t.Error("half a key was parsed")
	}
}
