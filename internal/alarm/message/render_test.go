package message

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
)

func TestLabelsOfAMessageAreLimitedTogether(t *testing.T) {
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("key-%04d", i)] = strings.Repeat("v", 240)
	}
	total := 0
	kept := fields(many)
	for key, value := range kept {
		total += len(key) + len(value)
	}
	if total > maxFieldsLength || len(kept) == 0 || kept["key-0000"] == "" {
		t.Errorf("kept %d values with %d bytes, want the first values, up to %d bytes", len(kept), total, maxFieldsLength)
	}
}

func TestTheTextOmitsTheUIDThatAKubeletAddsToAPod(t *testing.T) {
	pod := alarm.Reference{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "6e0c45c8-1d5c-4f2e-9c36-5d6f0d1f2a3b"}
	for name, tc := range map[string]struct {
		note, want string
		regarding  alarm.Reference
	}{
		"the pod":     {"Back-off restarting failed container app in pod web-0_shop(" + pod.UID + ")", "Back-off restarting failed container app in pod web-0", pod},
		"another pod": {"Preempted by web-1_shop(" + pod.UID + ")", "Preempted by web-1_shop(" + pod.UID + ")", alarm.Reference{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "2b"}},
		"no UID":      {"in pod web-0_shop()", "in pod web-0_shop()", alarm.Reference{Kind: "Pod", Namespace: "shop", Name: "web-0"}},
	} {
		occ := &alarm.Occurrence{Event: alarm.Event{Note: tc.note, Regarding: tc.regarding}}
		if got := DefaultText(occ, &alarm.Object{}); got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A tenant can write such an Event.
func TestTheTitleOfAnEventAboutAnotherNamespaceNamesItsOwn(t *testing.T) {
	pod, node := alarm.Reference{Kind: "Pod", Namespace: "bank", Name: "web-0"}, alarm.Reference{Kind: "Node", Name: "node-0"}
	forged := node
	forged.Namespace = "bank" // the API server requires one
	for want, event := range map[string]alarm.Event{
		"BackOff: Pod bank/web-0":                             {Namespace: "bank", Regarding: pod},
		"BackOff: Pod bank/web-0 (Event in namespace evil)":   {Namespace: "evil", Regarding: pod},
		"BackOff: Node node-0":                                {Namespace: "default", Regarding: node},
		"BackOff: Node bank/node-0 (Event in namespace evil)": {Namespace: "evil", Regarding: forged},
	} {
		event.Reason = "BackOff"
		if got := New(kube.Key{}, &alarm.Occurrence{Event: event}, &alarm.Context{}, "", "").Title; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	forgedPod := &alarm.Occurrence{Event: alarm.Event{Namespace: "evil", Regarding: pod}}
	got := New(kube.Key{}, forgedPod, &alarm.Context{}, strings.Repeat("x", 10*MaxTitleLength), "").Title
	if !strings.HasSuffix(got, " (Event in namespace evil)") || len([]rune(got)) > MaxTitleLength {
		t.Errorf("with a title of the alarm: %q", got)
	}
}

func TestATitleWithoutAReasonIsTheObject(t *testing.T) {
	event := &alarm.Event{Regarding: alarm.Reference{Kind: "Node", Name: "node-0"}}
	if got := DefaultTitle(event); got != "Node node-0" {
		t.Errorf("%q", got)
	}
	event.Reason = "NodeNotReady"
	if got := DefaultTitle(event); got != "NodeNotReady: Node node-0" {
		t.Errorf("%q", got)
	}
}
