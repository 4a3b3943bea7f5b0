package match

import (
	"fmt"
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
)

// fleet returns a realistic mix with twenty alarms in each namespace. One in a hundred is
// a ClusterAlarm for Nodes, and one matches all Warnings of its namespace. The others name
// kinds and reasons.
func fleet(t testing.TB, n int) []*Alarm {
	reasons := []string{"BackOff", "Failed", "FailedScheduling", "Unhealthy", "Killing", "FailedMount"}
	kinds := []string{"Pod", "Job", "Deployment", "ReplicaSet"}
	alarms := make([]*Alarm, 0, n)
	for i := range n {
		namespace := fmt.Sprintf("team-%d", i/20)
		def := namespacedAlarm(namespace, v1alpha1.EventMatch{
			Kinds:   []string{kinds[i%len(kinds)]},
			Reasons: []string{reasons[i%len(reasons)], "Evicted"},
			Names:   []string{fmt.Sprintf("app-%d-*", i%20)},
		})
		switch i % 100 {
		case 0:
			def = clusterAlarm(v1alpha1.EventMatch{Kinds: []string{"Node"}, Reasons: []string{fmt.Sprintf("Node%d", i)}})
		case 1:
			def = namespacedAlarm(namespace, v1alpha1.EventMatch{Types: []v1alpha1.EventType{"Warning"}, Expression: "event.count > 3"})
		}
		alarms = append(alarms, mustCompile(t, def))
	}
	return alarms
}

// stream returns typical occurrences. No alarm matches most of them.
func stream() []*alarm.Occurrence {
	occurrences := make([]*alarm.Occurrence, 0, 1000)
	for i := range cap(occurrences) {
		occurrences = append(occurrences, podOccurrence(func(occ *alarm.Occurrence) {
			namespace := fmt.Sprintf("team-%d", i%50)
			occ.Event.Namespace, occ.Event.Regarding.Namespace = namespace, namespace
			occ.Event.Regarding.Name = fmt.Sprintf("app-%d-x", i%20)
			if i%10 != 0 {
				occ.Event.Type, occ.Event.Reason = "Normal", "Pulled"
			}
		}))
	}
	return occurrences
}

// BenchmarkMatch finds and evaluates the candidates of one occurrence.
func BenchmarkMatch(b *testing.B) {
	occurrences, known := stream(), podContext()
	for _, n := range []int{10, 1000, 10_000} {
		ix := NewIndex(fleet(b, n))
		b.Run(fmt.Sprintf("alarms=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			i, matched := 0, 0
			for b.Loop() {
				for _, c := range candidatesOf(ix, occurrences[i%len(occurrences)], nil, nil) {
					if c.Match(b.Context(), known).Outcome == Matched {
						matched++
					}
				}
				i++
			}
			b.ReportMetric(float64(matched)/float64(i), "matches/op")
		})
	}
}

func BenchmarkNewIndex(b *testing.B) {
	alarms := fleet(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		NewIndex(alarms)
	}
}

func BenchmarkCompile(b *testing.B) {
	c, err := testCompiler()
	if err != nil {
		b.Fatal(err)
	}
	def := clusterAlarm(v1alpha1.EventMatch{Expression: `event.count > 3 && object.metadata.labels["app"] == "web"`})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Compile(def); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExpression(b *testing.B) {
	for name, text := range map[string]string{
		"event":   `event.count > 3`,
		"nested":  `event.regarding.name == "web-0"`,
		"several": `event.regarding.kind == "Pod" && event.note.contains("off") && object.metadata.labels.app == "web"`,
		"costly":  `object.metadata.annotations.all(k, object.metadata.annotations[k].contains("anna"))`,
	} {
		a := mustCompile(b, clusterAlarm(v1alpha1.EventMatch{Expression: text}))
		candidate, known := candidatesOf(NewIndex([]*Alarm{a}), podOccurrence(), nil, nil)[0], podContext()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := candidate.Match(b.Context(), known); got.Outcome != Matched {
					b.Fatalf("got %+v", got)
				}
			}
		})
	}
}

func BenchmarkRender(b *testing.B) {
	a := mustCompile(b, clusterAlarm(v1alpha1.EventMatch{}))
	occ, known := podOccurrence(), podContext()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Render(b.Context(), occ, known); err != nil {
			b.Fatal(err)
		}
	}
}
