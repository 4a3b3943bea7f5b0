package match

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// There are only a few values, so that random alarms and occurrences often match.
var (
	someNamespaces = []string{"", "default", "shop", "bank"}
	someKinds      = []string{"", "Pod", "Node", "Job"}
	someReasons    = []string{"", "BackOff", "Failed", "NodeReady"}
	someTypes      = []string{"Normal", "Warning"}
	someNames      = []string{"web-0", "web-1", "db"}
	someGlobs      = []string{"web-*", "*b", "?????"}
)

// some picks up to two of the values, and often none.
func some(r *rand.Rand, values []string) []string {
	var picked []string
	for range r.IntN(3) {
		picked = append(picked, values[r.IntN(len(values))])
	}
	return picked
}

func excluding(values []string) (excluded []string) {
	for _, value := range values {
		excluded = append(excluded, "!"+value)
	}
	return excluded
}

func one(r *rand.Rand, values []string) string { return values[r.IntN(len(values))] }

func randomDefinition(r *rand.Rand, i int) Definition {
	var match []v1alpha1.EventMatch
	for range 1 + r.IntN(3) {
		m := v1alpha1.EventMatch{Kinds: some(r, someKinds), Reasons: append(some(r, someReasons), excluding(some(r, someReasons))...), Names: append(some(r, someGlobs), excluding(some(r, someGlobs))...)}
		for _, eventType := range some(r, someTypes) {
			m.Types = append(m.Types, v1alpha1.EventType(eventType))
		}
		match = append(match, m)
	}
	def := clusterAlarm(match...)
	if namespace := one(r, someNamespaces); namespace != "" {
		def = namespacedAlarm(namespace, match...)
	} else {
		if r.IntN(2) == 0 {
			def.NamespaceSelector = labelSelector("team", one(r, someNamespaces))
		}
		def.Namespaces = append(some(r, []string{"s*", "default", "?ank"}), excluding(some(r, []string{"shop", "d*"}))...)
	}
	def.ID.Name = fmt.Sprint(i)
	def.Spec.Suspend = r.IntN(10) == 0
	return def
}

func randomOccurrence(r *rand.Rand) *alarm.Occurrence {
	return podOccurrence(func(occ *alarm.Occurrence) {
		occ.Event.Namespace = one(r, someNamespaces[1:])
		occ.Event.Regarding.Namespace = one(r, []string{"", occ.Event.Namespace, occ.Event.Namespace, "bank"})
		occ.Event.Regarding.Kind = one(r, someKinds)
		occ.Event.Regarding.Name = one(r, someNames)
		occ.Event.Reason = one(r, someReasons)
		occ.Event.Type = one(r, someTypes)
	})
}

// matchesPlainly applies the rules without an index.
func matchesPlainly(def Definition, occ *alarm.Occurrence, namespaces namespaceLabels) bool {
	own, regarding := occ.Event.Namespace, occ.Event.Regarding.Namespace
	if def.Spec.Suspend || occ.ObservedAt.Before(def.CreatedAt) {
		return false
	}
	if def.ID.Kind == alarm.KindAlarm && (own != def.ID.Namespace || regarding != def.ID.Namespace) {
		return false
	}
	if s := def.NamespaceSelector; s != nil && (regarding == "" || own != regarding || namespaces[regarding]["team"] != s.MatchLabels["team"]) {
		return false
	}
	accepts := func(list []string, name string) bool {
		onlyExcludes, included := true, false
		for _, text := range list {
			pattern, excludes := strings.CutPrefix(text, "!")
			matches := pattern == name || pattern != "" && glob.Pattern(pattern).Match(name)
			if matches && excludes {
				return false
			}
			onlyExcludes, included = onlyExcludes && excludes, included || matches
		}
		return onlyExcludes || included
	}
	if len(def.Namespaces) > 0 && (regarding == "" || own != regarding || !accepts(def.Namespaces, regarding)) {
		return false
	}
	return slices.ContainsFunc(def.Spec.Match, func(m v1alpha1.EventMatch) bool {
		fits := func(values []string, value string) bool { return len(values) == 0 || slices.Contains(values, value) }
		return fits(m.Kinds, occ.Event.Regarding.Kind) && accepts(m.Reasons, occ.Event.Reason) &&
			(len(m.Types) == 0 || slices.Contains(m.Types, v1alpha1.EventType(occ.Event.Type))) &&
			accepts(m.Names, occ.Event.Regarding.Name)
	})
}

func TestIndexFindsExactlyTheMatchingAlarms(t *testing.T) {
	namespaces := namespaceLabels{}
	for _, name := range []string{"default", "shop", "bank"} {
		namespaces[name] = map[string]string{"team": name, corev1.LabelMetadataName: name}
	}
	r := rand.New(rand.NewPCG(1, 2))
	var found int
	for range 200 {
		var defs []Definition
		var alarms []*Alarm
		for i := range 1 + r.IntN(50) {
			defs = append(defs, randomDefinition(r, i))
			alarms = append(alarms, mustCompile(t, defs[i]))
		}
		ix := NewIndex(alarms)
		for range 20 {
			occ := randomOccurrence(r)
			var want, got []string
			for _, def := range defs {
				if matchesPlainly(def, occ, namespaces) {
					want = append(want, def.ID.Name)
				}
			}
			for _, c := range candidatesOf(ix, occ, namespaces, nil) {
				if c.Match(t.Context(), podContext()).Outcome == Matched {
					got = append(got, c.Alarm.ID.Name)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("alarms that match %+v (-want +got):\n%s", occ.Event, diff)
			}
			found += len(got)
		}
	}
	if found == 0 {
		t.Error("no occurrence matched: the test shows nothing")
	}
}

func TestCandidatesAllocateNothingIfNoneMatches(t *testing.T) {
	def := clusterAlarm(v1alpha1.EventMatch{Names: []string{"db-*"}})
	def.NamespaceSelector = labelSelector("team", "other")
	selecting := clusterAlarm(v1alpha1.EventMatch{})
	selecting.NamespaceSelector = labelSelector("team", "other")
	ix := NewIndex([]*Alarm{
		mustCompile(t, def),
		mustCompile(t, selecting),
		mustCompile(t, clusterAlarm(v1alpha1.EventMatch{Reasons: []string{"Failed"}}, v1alpha1.EventMatch{Note: "*pull*"})),
		mustCompile(t, namespacedAlarm("shop", v1alpha1.EventMatch{Kinds: []string{"Job"}})),
		mustCompile(t, namespacedAlarm("other", v1alpha1.EventMatch{})),
	})
	occ, namespaces := podOccurrence(), namespaceLabels{"shop": {"team": "shop"}}
	if got := candidatesOf(ix, occ, namespaces, nil); got != nil {
		t.Fatalf("got candidates %v, want none", got)
	}
	if got := testing.AllocsPerRun(100, func() { candidatesOf(ix, occ, namespaces, nil) }); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

func TestIndexDoesNotKeepItsArgument(t *testing.T) {
	alarms := []*Alarm{mustCompile(t, clusterAlarm(v1alpha1.EventMatch{}))}
	ix := NewIndex(alarms)
	alarms[0] = nil
	if got := len(candidatesOf(ix, podOccurrence(), nil, nil)); got != 1 {
		t.Errorf("got %d candidates, want 1", got)
	}
}

// slow is a glob that needs as many steps as possible.
var slow = "*" + strings.Repeat("a", 120) + "b"

func TestMeterLimitsTheCostOfANamespacesAlarms(t *testing.T) {
	const alarms, limit = 1000, 20_000
	expensive := v1alpha1.EventMatch{Names: []string{slow, slow + "b", slow + "bb", "web-0"}}
	var all []*Alarm
	for range alarms {
		all = append(all, mustCompile(t, namespacedAlarm("shop", expensive)))
	}
	all = append(all, mustCompile(t, clusterAlarm(expensive)))
	ix := NewIndex(all)
	occ := podOccurrence(func(occ *alarm.Occurrence) { occ.Event.Regarding.Name = strings.Repeat("a", 253) })

	meter := NewMeter(limit)
	candidatesOf(ix, occ, nil, meter)
	if !meter.Exhausted() || meter.Spent() > limit+4*16_000/stepsPerUnit {
		t.Errorf("spent %d, the limit is %d", meter.Spent(), limit)
	}
	occ.Event.Regarding.Name = "web-0"
	got := candidatesOf(ix, occ, nil, meter)
	if len(got) != 1 || got[0].Alarm.ID.Kind != alarm.KindClusterAlarm {
		t.Errorf("%d candidates, want only the ClusterAlarm", len(got))
	}
}

func TestExpressionsCountAgainstTheMeter(t *testing.T) {
	const limit = 200
	ix := NewIndex([]*Alarm{mustCompile(t, namespacedAlarm("shop", v1alpha1.EventMatch{
		Expression: `event.note.replace("a", "b").replace("b", "c") != ""`,
	}))})
	meter := NewMeter(limit)
	for range limit {
		for _, c := range candidatesOf(ix, podOccurrence(), nil, meter) {
			c.Match(t.Context(), podContext())
		}
	}
	if !meter.Exhausted() || meter.Spent() > limit+100 {
		t.Errorf("spent %d, the limit is %d", meter.Spent(), limit)
	}
	if got := candidatesOf(ix, podOccurrence(), nil, nil)[0].Match(t.Context(), podContext()); got.Outcome != Matched {
		t.Errorf("without a meter: %v", got)
	}
}

func TestSelectorsCountAgainstTheMeter(t *testing.T) {
	selector := &metav1.LabelSelector{}
	for i := range 100 {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: fmt.Sprint("label-", i), Operator: metav1.LabelSelectorOpDoesNotExist,
		})
	}
	ix := NewIndex([]*Alarm{mustCompile(t, namespacedAlarm("shop", v1alpha1.EventMatch{ObjectSelector: selector}))})
	meter := NewMeter(1_000_000)
	if got := candidatesOf(ix, podOccurrence(), nil, meter)[0].Match(t.Context(), podContext()); got.Outcome != Matched {
		t.Errorf("got %+v", got)
	}
	if meter.Spent() < 100 {
		t.Errorf("100 labels cost %d", meter.Spent())
	}
}
