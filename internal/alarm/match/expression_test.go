package match

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

func TestExpressionsReadStructs(t *testing.T) {
	for expression, want := range map[string]Outcome{
		`event.regarding.name == "web-0"`:                                 Matched,
		`event.firstSeen < event.lastSeen`:                                Matched,
		`event.firstSeen.getHours() == 9`:                                 Matched,
		`object.metadata.labels.app == "web"`:                             Matched,
		`object.metadata.labels["app"] == "web"`:                          Matched,
		`"app" in object.metadata.labels`:                                 Matched,
		`has(object.metadata.labels.app)`:                                 Matched,
		`has(object.metadata.labels.nope)`:                                NotMatched,
		`object.cause == "" && !has(object.cause)`:                        Matched,
		`has(object.node.zone)`:                                           NotMatched,
		`has(object.metadata.name)`:                                       Matched,
		`object.node.capacity.size() == 0`:                                Matched,
		`event.regarding == event.regarding`:                              Matched,
		`event == event && object.node == object.node`:                    Matched,
		`[event.regarding].exists(r, r.kind == "Pod")`:                    Matched,
		`(event.count > 1 ? event.regarding : event.regarding).uid != ""`: Matched,
		`object.metadata.labels["none"] == "web-0"`:                       Failed,
	} {
		t.Run(expression, func(t *testing.T) {
			got := outcome(t, clusterAlarm(v1alpha1.EventMatch{Expression: expression}), podOccurrence(), podContext())
			if got.Outcome != want {
				t.Errorf("got %+v, want %v", got, want)
			}
		})
	}
}

const guide = "../../../docs/expressions.md"

// fenced matches the code blocks of the guide: their language and their text.
var fenced = regexp.MustCompile("(?ms)^```(cel|template)\n(.*?)\n```$")

func readGuide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestGuideExamplesCompileAndRun(t *testing.T) {
	known := podContext()
	known.Object.Metadata.Annotations["example.com/x"] = "page"
	var conditions, templates int
	for _, block := range fenced.FindAllStringSubmatch(readGuide(t), -1) {
		kind, text := block[1], block[2]
		if kind == "template" {
			templates++
			if _, err := render(t, v1alpha1.AlarmMessage{Text: text}, podOccurrence(), known); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		conditions++
		if got := outcome(t, clusterAlarm(v1alpha1.EventMatch{Expression: text}), podOccurrence(), known); got.Err != nil {
			t.Errorf("%s: %v", text, got.Err)
		}
	}
	if conditions == 0 || templates == 0 {
		t.Errorf("found %d conditions and %d templates", conditions, templates)
	}
}

func TestGuideDocumentsEveryField(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| (?:string|int|timestamp|map of string to string) \\|")
	documented := map[string]bool{}
	for _, cells := range row.FindAllStringSubmatch(readGuide(t), -1) {
		var parent string
		for name := range strings.SplitSeq(cells[1], ", ") {
			name = strings.Trim(name, "`")
			if strings.HasPrefix(name, ".") {
				name = parent + name
			}
			parent = name[:strings.LastIndexByte(name, '.')]
			documented[name] = true
			if _, err := render(t, v1alpha1.AlarmMessage{Text: "${" + name + "}"}, podOccurrence(), podContext()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, name := range leaves(t) {
		if !documented[name] {
			t.Errorf("%s does not document %s", guide, name)
		}
	}
}

// leaves returns the paths of all fields that are not objects.
func leaves(t *testing.T) []string {
	c, err := testCompiler()
	if err != nil {
		t.Fatal(err)
	}
	provider, ok := c.env.CELTypeProvider().(*structs)
	if !ok {
		t.Fatalf("the type provider is %T", c.env.CELTypeProvider())
	}
	var paths []string
	var walk func(path, typeName string)
	walk = func(path, typeName string) {
		for name, f := range provider.byName[typeName].fields {
			if _, ok := provider.byName[f.Type.TypeName()]; ok {
				walk(path+"."+name, f.Type.TypeName())
				continue
			}
			paths = append(paths, path+"."+name)
		}
	}
	walk(varEvent, "Event")
	walk(varObject, "Object")
	walk(varCluster, "Cluster")
	return paths
}
