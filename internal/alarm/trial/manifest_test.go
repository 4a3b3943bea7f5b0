package trial

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	header     = "apiVersion: bongsu.io/v1alpha1\nkind: Alarm\nmetadata: {name: crashes, namespace: shop}\n"
	ofReceiver = "apiVersion: bongsu.io/v1alpha1\nkind: AlarmReceiver\nmetadata: {name: ops}\nspec: {log: {}}\n"
	good       = header + "spec: {match: [{reasons: [BackOff]}], receivers: [{name: ops}]}\n"
)

func TestAFileMayHoldSeveralAlarmsAndOtherThings(t *testing.T) {
	text := "# a comment\n---\n" + good + "---\n# nothing\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n" +
		strings.ReplaceAll(strings.ReplaceAll(good, "kind: Alarm", "kind: ClusterAlarm"), ", namespace: shop", "") +
		"---\n" + ofReceiver + "---\n" +
		"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(good), "\n", "\n  ") + "\n  status: {matched: 7, delivered: 7}\n"
	file, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range file.Alarms {
		got = append(got, m.Kind+" "+m.Object.GetName()+" "+m.Object.AlarmSpec().Match[0].Reasons[0])
	}
	if diff := cmp.Diff([]string{"Alarm crashes BackOff", "ClusterAlarm crashes BackOff", "Alarm crashes BackOff"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Namespace shop"}, file.Others); diff != "" {
		t.Error(diff)
	}
	if len(file.Receivers) != 1 || file.Receivers[0].Kind != "AlarmReceiver" || file.Receivers[0].Object.ClusterSpec().Log == nil {
		t.Errorf("receivers %+v", file.Receivers)
	}
}

func TestAnInvalidFileIsRefusedWithTheNameOfTheField(t *testing.T) {
	for name, tc := range map[string]struct{ file, says string }{
		"a field that there is not": {strings.Replace(good, "match:", "macth:", 1), `document 1: Alarm crashes: unknown field "spec.macth"`},
		"one within a list":         {strings.Replace(good, "reasons", "reason", 1), `unknown field "spec.match[0].reason"`},
		"a field of another kind":   {strings.Replace(good, "spec: {", "spec: {namespaceSelector: {}, ", 1), `unknown field "spec.namespaceSelector"`},
		"the same field twice":      {good + "spec: {}\n", `key "spec" already set`},
		"one of a receiver":         {good + "---\n" + strings.Replace(ofReceiver, "log", "lgo", 1), `document 2: AlarmReceiver ops: unknown field "spec.lgo"`},
		"a text for a list":         {strings.Replace(good, "[BackOff]", "BackOff", 1), "document 1: Alarm crashes: spec.match[0].reasons is a text: write a list"},
		"a number for a text":       {strings.Replace(good, "[BackOff]", "[A, 5]", 1), "spec.match[0].reasons[1] is a number: write a text, in quotes if it looks like something else"},
		"a list for an object":      {strings.Replace(good, "spec: {", "spec: {group: [], ", 1), "spec.group is a list: write an object"},
		"an object for a list":      {strings.Replace(good, "receivers: [{name: ops}]", "receivers: {name: ops}", 1), "spec.receivers is an object: write a list"},
		"a text for a number":       {strings.Replace(good, "spec: {", "spec: {threshold: {count: many, withinSeconds: 60}, ", 1), "spec.threshold.count is a text: write a whole number"},
		"a fraction":                {strings.Replace(good, "spec: {", "spec: {threshold: {count: 1.5, withinSeconds: 60}, ", 1), "spec.threshold.count is a number: write a whole number"},
		"a text for a truth":        {strings.Replace(good, "spec: {", "spec: {suspend: 'no', ", 1), "spec.suspend is a text: write true or false"},
		"a number for a time":       {strings.Replace(good, "spec: {", "spec: {muteUntil: 5, ", 1), "a time is a number: write a text"},
		"a label that is a number":  {strings.Replace(good, "namespace: shop", "namespace: shop, labels: {a: 1}", 1), "metadata.labels.a is a number: write a text"},
		"a number in a Secret":      {good + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: 5}\n", "document 2: Secret s: stringData.key is a number: write a text"},
		"no YAML":                   {header + "spec: [\n", "document 1: "},
		"no name":                   {strings.Replace(good, "name: crashes, ", "", 1), "give it a metadata.name"},
		"no kind":                   {"spec: {}\n", "it has no kind"},
		"another version":           {strings.Replace(good, "v1alpha1", "v1", 1), `there is no apiVersion "bongsu.io/v1"; write bongsu.io/v1alpha1`},
		"no alarm":                  {"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", "there is no Alarm and no ClusterAlarm in it"},
		"nothing":                   {"", "there is no Alarm and no ClusterAlarm in it"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(strings.NewReader(tc.file)); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v", err)
			}
		})
	}
	two := strings.Replace(good, "match:", "macth:", 1) + "---\n" + strings.Replace(good, "receivers:", "receiver:", 1)
	if _, err := Read(strings.NewReader(two)); err == nil || strings.Count(err.Error(), "unknown field") != 2 {
		t.Errorf("not every problem is reported: %v", err)
	}
}
