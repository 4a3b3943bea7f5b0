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
		"bank/web-0: BackOff (Pod)":                             {Namespace: "bank", Regarding: pod},
		"bank/web-0: BackOff (Pod) (Event in namespace evil)":   {Namespace: "evil", Regarding: pod},
		"node-0: BackOff (Node)":                                {Namespace: "default", Regarding: node},
		"bank/node-0: BackOff (Node) (Event in namespace evil)": {Namespace: "evil", Regarding: forged},
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

func TestTheDefaultTitleBeginsWithWhatThePhoneShows(t *testing.T) {
	const oom = `container "app" was killed because it used more memory than its limit of 64Mi: raise resources.limits.memory, or reduce its memory use`
	pod, node := alarm.Reference{Kind: "Pod", Namespace: "shop", Name: "cart-5d9c-x2x4"}, alarm.Reference{Kind: "Node", Name: "node-0"}
	cart := alarm.Owner{Kind: "Deployment", Name: "cart"}
	long := strings.Repeat("x", 253)
	for name, tc := range map[string]struct {
		event  alarm.Event
		object alarm.Object
		want   string
	}{
		"an owner":           {alarm.Event{Reason: "BackOff", Regarding: pod}, alarm.Object{Owner: cart}, "shop/cart: BackOff (Pod cart-5d9c-x2x4)"},
		"no owner":           {alarm.Event{Reason: "BackOff", Regarding: pod}, alarm.Object{}, "shop/cart-5d9c-x2x4: BackOff (Pod)"},
		"no namespace":       {alarm.Event{Reason: "NodeNotReady", Regarding: node}, alarm.Object{}, "node-0: NodeNotReady (Node)"},
		"no reason":          {alarm.Event{Regarding: node}, alarm.Object{}, "node-0 (Node)"},
		"no kind":            {alarm.Event{Reason: "Odd", Regarding: alarm.Reference{Name: "it"}}, alarm.Object{}, "it: Odd"},
		"an empty reference": {alarm.Event{Reason: "Odd"}, alarm.Object{}, "Odd"},
		"a cause":            {alarm.Event{Reason: "BackOff", Regarding: pod}, alarm.Object{Owner: cart, Cause: "the node is full: wait"}, "shop/cart: the node is full: wait (Pod cart-5d9c-x2x4)"},
		"a long cause": {
			alarm.Event{Reason: "BackOff", Regarding: pod}, alarm.Object{Owner: cart, Cause: oom},
			`shop/cart: container "app" was killed because it used more memory than its limit of 64Mi (Pod cart-5d9c-x2x4)`,
		},
		"long names": {
			alarm.Event{Reason: "BackOff", Regarding: alarm.Reference{Kind: "Pod", Namespace: long[:63], Name: long}}, alarm.Object{Owner: alarm.Owner{Kind: "Deployment", Name: long}},
			long[:63] + "/" + long[:5] + "…: BackOff (Pod " + long[:35] + "…)",
		},
	} {
		tc.event.Namespace = tc.event.Regarding.Namespace
		got := New(kube.Key{}, &alarm.Occurrence{Event: tc.event}, &alarm.Context{Object: tc.object}, "", "").Title
		if got != tc.want || len([]rune(got)) > MaxTitleLength {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A digest lists only some of its Events. The others can be about anything.
func TestTheTitleOfADigestThatLeavesOutEventsNamesNoObject(t *testing.T) {
	event := alarm.Event{Namespace: "shop", Reason: "BackOff", Regarding: alarm.Reference{Kind: "Pod", Namespace: "shop", Name: "web-0"}}
	m := New(kube.Key{}, &alarm.Occurrence{Event: event, Increase: 1}, &alarm.Context{}, "", "")
	partial := m
	partial.Count, partial.Digest = 60, true
	if got, want := Combine([]Message{m, partial}).Title, "2 × BackOff Pod and 59 more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTheTitleOfSeveralMessagesNamesWhatTheyHaveInCommon(t *testing.T) {
	of := func(owner, namespace, name, reason, cause string) Message {
		event := alarm.Event{Namespace: namespace, Reason: reason, Regarding: alarm.Reference{Kind: "Pod", Namespace: namespace, Name: name}}
		object := alarm.Object{Cause: cause}
		if owner != "" {
			object.Owner = alarm.Owner{Kind: "Deployment", Name: owner}
		}
		return New(kube.Key{}, &alarm.Occurrence{Event: event, Increase: 1}, &alarm.Context{Object: object}, "", "")
	}
	foreign := New(kube.Key{}, &alarm.Occurrence{
		Event: alarm.Event{Namespace: "evil", Reason: "BackOff", Regarding: alarm.Reference{Kind: "Pod", Namespace: "shop", Name: "web-9"}}, Increase: 1,
	}, &alarm.Context{}, "", "")
	for want, messages := range map[string][]Message{
		"shop/cart: out of memory (2 pods)":                   {of("cart", "shop", "cart-0", "BackOff", "out of memory"), of("cart", "shop", "cart-1", "BackOff", "out of memory")},
		"shop/cart: BackOff (2 pods)":                         {of("cart", "shop", "cart-0", "BackOff", "out of memory"), of("cart", "shop", "cart-1", "BackOff", "no space")},
		"shop/cart: no node is free (2 pods)":                 {of("cart", "shop", "cart-0", "Failed", "no node is free: 3 are full"), of("cart", "shop", "cart-1", "Failed", "no node is free: 4 are full")},
		"shop/cart: BackOff (Pod cart-0)":                     {of("cart", "shop", "cart-0", "BackOff", ""), of("cart", "shop", "cart-0", "BackOff", "")},
		"shop: BackOff (2 pods)":                              {of("cart", "shop", "cart-0", "BackOff", ""), of("web", "shop", "web-0", "BackOff", "")},
		"BackOff (2 pods)":                                    {of("cart", "shop", "cart-0", "BackOff", ""), of("cart", "bank", "cart-0", "BackOff", "")},
		"shop/cart: 2 × BackOff Pod and 1 more":               {of("cart", "shop", "cart-0", "BackOff", ""), of("cart", "shop", "cart-0", "BackOff", ""), of("cart", "shop", "cart-0", "Failed", "")},
		"shop/web-9: BackOff (Pod) (Event in namespace evil)": {foreign, foreign},
		"BackOff (2 pods)\x00":                                {foreign, of("", "shop", "web-0", "BackOff", "")},
	} {
		want, _, _ = strings.Cut(want, "\x00")
		if got := Combine(messages).Title; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
