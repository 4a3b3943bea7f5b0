package match

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
)

// fill repeats a part of an expression up to the maximum size.
func fill(begin, part, separator, end string, size int) string {
	text := begin + part
	for len(text)+len(separator)+len(part)+len(end) <= size {
		text += separator + part
	}
	return text + end
}

// costly are expressions and templates that need much memory for their size, or are slow
// to compile.
func costly() map[string]*v1alpha1.ClusterAlarm {
	all := map[string]*v1alpha1.ClusterAlarm{}
	for name, text := range map[string]string{
		"ordinary":         `event.regarding.kind == "Pod" && event.note.contains("off") && object.metadata.labels.app == "web"`,
		"comparisons":      fill("", "event.count==1", "||", "", 2048),
		"additions":        fill("", "event.count", "+", "==1", 700),
		"a list":           fill("1 in [", "1", ",", "]", 2048),
		"a list of fields": fill("event.count in [", "event.count", ",", "]", 2048),
		"a list of lists":  fill("size([", "[1]", ",", "])==1", 2048),
		"a map":            fill("1 in {", "1:1", ",", "}", 2048),
		"exists":           fill("", "[].exists(x,x)", "||", "", 2048),
		"all":              fill("", "[1].all(x,x==1)", "&&", "", 2048),
		"map":              fill("", "[1].map(x,x)==[1]", "||", "", 2048),
		"filter":           fill("", "[1].filter(x,true)==[1]", "||", "", 2048),
		"exists_one":       fill("", "[].exists_one(x,x)", "||", "", 2048),
		"negations":        strings.Repeat("!", 200) + "true",
		"constants":        fill("", "true", "||", "", 2048),
		"conditions":       fill("", "true?true", ":", ":true", 400),
		"has":              fill("", "has(event.note)", "||", "", 2048),
		"functions":        fill("", `event.note.startsWith("")`, "||", "", 2048),
		"patterns":         fill("", `event.note.matches(".*")`, "||", "", 500),
		"a long pattern":   `event.note.matches("` + strings.Repeat("(.?)", 20) + `")`,
		"format":           fill("", `"%s".format([1])==""`, "||", "", 600),
		"hidden by quotes": fill(`'"'!=""||`, "[].exists(x,x)", "||", `||""!='"'`, 2048),
		"hidden by a raw":  fill(`r"\"!=''||`, "[].exists(x,x)", "||", `||""!=""`, 2048),
	} {
		a := &v1alpha1.ClusterAlarm{}
		for range 2 {
			a.Spec.Match = append(a.Spec.Match, v1alpha1.EventMatch{Expression: text})
		}
		all[name] = a
	}
	for name, part := range map[string]string{
		"counts in a message": "${event.count}", "constants in a message": "${1}",
		"names in a message": "${event.regarding.name}", "loops in a message": "${[1].map(x,x)}",
	} {
		a := &v1alpha1.ClusterAlarm{}
		a.Spec.Message = v1alpha1.AlarmMessage{Title: strings.Repeat(part, 40), Text: strings.Repeat(part, 50)}
		all[name] = a
	}
	lists := &v1alpha1.ClusterAlarm{}
	for range 16 {
		names := strings.Split(fill("", strings.Repeat("x", 60), ",", "", 32*61-1), ",")
		lists.Spec.Match = append(lists.Spec.Match, v1alpha1.EventMatch{
			Kinds: names, Reasons: names, Names: names, ObjectSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpIn, Values: names}},
			},
		})
	}
	all["lists of names"] = lists
	mutes := &v1alpha1.ClusterAlarm{}
	for day := range int32(16) {
		mutes.Spec.Mute = append(mutes.Spec.Mute, v1alpha1.MuteWindow{
			TimeZone: "America/New_York", DaysOfMonth: []v1alpha1.MuteDaysOfMonth{{Start: day + 1}},
		})
	}
	all["mutes"] = mutes
	all["short paths"] = onManyFields(func(i, j int) string {
		return fmt.Sprintf("a%d.b%d", i, j) + strings.Repeat(".c", 30)
	}, "")
	all["long names"] = onManyFields(func(i, j int) string {
		return fmt.Sprintf("a%d.b%d", i, j) + "." + strings.Repeat("c", 240)
	}, "")
	all["deep fields in expressions"] = onManyFields(nil, fill("", "object[b]"+strings.Repeat(".c", 28)+"==1", "||", "", 1500))
	all["fields in expressions"] = onManyFields(nil, fill("", "object.a[b].c==1", "||", "", 2048))
	return all
}

// onManyFields returns an alarm with as many changes and fields as possible. Each [b] of the
// expression becomes another name.
func onManyFields(field func(i, j int) string, expression string) *v1alpha1.ClusterAlarm {
	a := &v1alpha1.ClusterAlarm{}
	for i := range 16 {
		c := v1alpha1.ChangeMatch{Resource: v1alpha1.ChangeResource{Resource: "pods"}, Expression: expression}
		for j := range 16 {
			if field != nil {
				c.Fields = append(c.Fields, field(i, j))
			}
		}
		for j := 0; strings.Contains(c.Expression, "[b]"); j++ {
			c.Expression = strings.Replace(c.Expression, "[b]", fmt.Sprintf(".b%d_%d", i, j), 1)
		}
		a.Spec.Changes = append(a.Spec.Changes, c)
	}
	return a
}

// heldBy returns the memory of the compiled alarm, in bytes, and the time to compile it.
func heldBy(t testing.TB, object Object) (int64, time.Duration) {
	t.Helper()
	def := NewDefinition("ClusterAlarm", object, nil)
	mustCompile(t, def) // whatever is shared
	before, begin := heap(), time.Now()
	a := mustCompile(t, def)
	took := time.Since(begin)
	var kept []*fields.Filter // with which objects are read
	for _, named := range a.Needs() {
		kept = append(kept, fields.NewFilter(named))
	}
	held := heap() - before
	runtime.KeepAlive(a)
	runtime.KeepAlive(kept)
	return held, took
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestTheEstimateIsAtLeastTheMemory(t *testing.T) {
	for name, object := range costly() {
		t.Run(name, func(t *testing.T) {
			held, _ := heldBy(t, object)
			if estimated := EstimateMemory(object); estimated < held {
				t.Errorf("the estimate is %d bytes, and the alarm holds %d", estimated, held)
			}
		})
	}
}

func TestAnOrdinaryAlarmIsNotOverestimated(t *testing.T) {
	object := costly()["ordinary"]
	if held, estimated := first(heldBy(t, object)), EstimateMemory(object); estimated > 3*held {
		t.Errorf("the estimate is %d bytes, and the alarm holds %d", estimated, held)
	}
}

func first(held int64, _ time.Duration) int64 { return held }

// BenchmarkEstimate prints how the estimate of costly alarms compares with their memory and
// with the time to compile them.
func BenchmarkEstimate(b *testing.B) {
	for name, object := range costly() {
		b.Run(name, func(b *testing.B) {
			var held int64
			var took time.Duration
			for b.Loop() {
				held, took = heldBy(b, object)
			}
			estimated := float64(EstimateMemory(object))
			b.ReportMetric(float64(held), "B-held")
			b.ReportMetric(estimated, "B-estimated")
			b.ReportMetric(float64(took.Nanoseconds())/estimated, "ns/B-estimated")
			b.ReportMetric(0, "ns/op")
		})
	}
}
