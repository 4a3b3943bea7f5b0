package diagnosis

import (
	"hash/fnv"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// samples returns texts that match the expression. Each alternative is in one of them.
func samples(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCharClass:
		return []string{string(re.Rune[0])}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			all = append(all, samples(sub)...)
		}
		return all
	case syntax.OpCapture, syntax.OpPlus:
		return samples(re.Sub[0])
	case syntax.OpQuest:
		return append(samples(re.Sub[0]), "")
	case syntax.OpConcat:
		all := []string{""}
		for _, sub := range re.Sub {
			next := samples(sub)
			joined := make([]string, max(len(all), len(next)))
			for i := range joined {
				joined[i] = all[min(i, len(all)-1)] + next[min(i, len(next)-1)]
			}
			all = joined
		}
		return all
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return []string{"x"}
	default:
		return []string{""}
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// hostile are the words of a hostile name, and what is put into a path in quotes.
type hostile struct{ name, path string }

// hostileNames are names that contain the keywords of every rule.
var hostileNames = sync.OnceValue(func() []hostile {
	var paths, words []string
	for _, r := range allRules() {
		parsed, err := syntax.Parse(r.text.String(), syntax.Perl)
		if err != nil {
			panic(err)
		}
		for _, s := range samples(parsed) {
			s = rpcError.ReplaceAllString(s, "")
			paths = append(paths, strings.Join(strings.FieldsFunc(s, func(r rune) bool {
				return r > '~' || r <= ' ' || strings.ContainsRune("\"'\\{}[]/`", r)
			}), " "))
			words = append(words, strings.Fields(notInNames.ReplaceAllString(strings.ToLower(s), " "))...)
		}
	}
	words = slices.DeleteFunc(words, func(word string) bool { return len(word) < len("403") })
	names, paths := group(words, "-"), group(paths, " ")
	var all []hostile
	for _, name := range names {
		all = append(all, hostile{name, paths[0]})
	}
	for _, path := range paths[1:] {
		all = append(all, hostile{names[0], path})
	}
	return all
})

// group joins distinct texts.
func group(texts []string, by string) []string {
	const most = 80 // bytes
	slices.Sort(texts)
	joined := []string{"x"}
	for _, s := range slices.Compact(texts) {
		if last := &joined[len(joined)-1]; len(*last)+len(s) < most {
			*last += by + s
		} else {
			joined = append(joined, "x"+by+s)
		}
	}
	return joined
}

// namesIn matches the names in the texts of the tests. The first alternative matches what
// components write themselves and looks like a name.
var namesIn = regexp.MustCompile(`(\bi/o\b|metadata\.labels|fork/exec|/sbin/mount|username/password|affinity/selector|\d+/\d+ nodes|Insufficient \S+|mount\.nfs|set in config\.json|postIpamFailure "[^"]*"|"kube-root-ca\.crt"|/proc/sys\b|"message": "[^"]*"|"error":"(?:[^"\\]|\\.)*"|[a-z.]+k8s\.io\b|/sys/fs/cgroup\b|` +
	`taint \{(?:node\.|karpenter|ToBeDel|Deletion|startup|node-role|aws-node-term|cloud\.google\.com/imp|eks\.amazonaws|[^}]*agent-not-ready)[^}]*\}|requested: .*|\S+=\d+\S*|Error: "rpc.*|` +
	`plugin "VolumeBinding"|uid:\S+|reason:\w+|message:\w+|objectType:\w+|objectName:\w+|new:\w+|dial tcp [0-9.:]+|time="[^"]*" level=\w+ msg="(?:[^"\\]|\\.)*"|\{"\w+": \{"code": \d+|RawError: .*)|` +
	`\\?"[^"\\]*\\?"|'[a-z][^' ]*'|` + "`[^`]+`" + `|\S*[/@]\S*|\b[a-z0-9-]+(?:[.:][a-zA-Z0-9-]+)+|taint \{[^}]+\}|` +
	`\b(?:lookup|reading manifest|CSINode|driver name|in namespace|getting secret|getting snapshot|by Name|for quota:|config key:|find key|find user|PriorityClass with name|source snapshot) [a-z][a-z0-9-]*\b|` +
	`volumes=\[[a-z]+\]|user \([a-z]+\)|\bContainer [a-z][a-z0-9-]* failed\b`)

var (
	wordsIn    = regexp.MustCompile(`[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*`)
	keepInName = regexp.MustCompile(`^(?:https?|sha256|taint|lookup|reading|manifest|CSINode|driver|source|in|for|by|Name|getting|snapshot|secret|quota|config|key|find|PriorityClass|with|name|volume|volumes|attachment|user|namespace|Container|failed|LabelSelector|MatchLabels|map|string|scaledobject|keda|sh|metric|svc|\d+[GM]i|[0-9a-f]{8}|[0-9a-f]{4}|[0-9a-f]{12})$`)
	notLetters = regexp.MustCompile(`[^A-Za-z|]+`)
	uuidIn     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-`)
)

// inPath marks that a path in quotes was replaced.
const inPath = "/"

// nameWord is a word of a name in a text of a component, from its first byte to before its last. A
// fixed one is replaced by the same text each time, and one that is in a path in quotes by a path.
type nameWord struct {
	from, to int
	fixed    string
	isPath   bool
}

// nameWords are the words to replace in each text that was renamed.
var nameWords sync.Map // by text

// nameWordsOf returns the words that belong to names in a text of a component.
func nameWordsOf(text string) []nameWord {
	const status = "403"
	if found, ok := nameWords.Load(text); ok {
		return found.([]nameWord)
	}
	var found []nameWord
	for _, at := range namesIn.FindAllStringSubmatchIndex(text, -1) {
		if at[2] >= 0 && at[2] < at[3] {
			continue
		}
		name := text[at[0]:at[1]]
		quoted := strings.Trim(name, `\"`)
		isPath := quoted != name && strings.HasPrefix(quoted, "/") && !strings.HasPrefix(name, "/")
		for _, w := range wordsIn.FindAllStringIndex(name, -1) {
			word, next := name[w[0]:w[1]], nameWord{from: at[0] + w[0], to: at[0] + w[1], isPath: isPath}
			switch {
			case keepInName.MatchString(word), uuidIn.MatchString(word):
				continue
			case strings.Contains(name, "sha256:"+word):
				next.fixed = status + "0a" + status
			case len(word) > 1 && strings.Trim(word, "0123456789") == "":
				next.fixed = status
			}
			found = append(found, next)
		}
	}
	nameWords.Store(text, found)
	return found
}

// rename replaces the names in a text of a component by a hostile one, as far as their syntax
// allows. It adds the names that it replaces to old.
func rename(text string, h hostile, old map[string]bool) string {
	var b strings.Builder
	end := 0
	for _, w := range nameWordsOf(text) {
		with := w.fixed
		if with == "" {
			old[text[w.from:w.to]] = true
			with = h.name
			if w.isPath {
				with = h.path
			}
		}
		if w.isPath {
			old[inPath] = true
		}
		b.WriteString(text[end:w.from])
		b.WriteString(with)
		end = w.to
	}
	return b.String() + text[end:]
}

// someHostileNames returns about n of the hostile names, which depend on the name of the test. Tests
// with other names use the others.
func someHostileNames(t *testing.T, n int) []hostile {
	t.Helper()
	all := hostileNames()
	every := max(1, len(all)/n)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(t.Name())) // never fails
	var some []hostile
	for i := int(hash.Sum32()) % every; i < len(all); i += every {
		some = append(some, all[i])
	}
	return some
}

// checkRenamed checks that the cause of a text does not depend on the names in it. cause returns
// the cause after each text has been changed.
func checkRenamed(t *testing.T, names []hostile, cause func(change func(string) string) *Cause) {
	t.Helper()
	want := cause(func(s string) string { return s })
	if want == nil {
		return
	}
	old := map[string]bool{}
	for _, h := range names {
		if h.name == hostileNames()[0].name && len(old) > 0 && !old[inPath] {
			return // the remaining ones differ only in their paths
		}
		changed := ""
		got := cause(func(s string) string {
			s = rename(s, h, old)
			changed += s + "\n"
			return s
		})
		if len(old) == 0 {
			return
		}
		if got == nil {
			t.Errorf("no cause: %s", changed)
			return
		}
		if a, b := gist(want, h, old), gist(got, h, old); want.Reason != got.Reason || want.Transient != got.Transient || want.Object.Kind != got.Object.Kind || !sameWords(a, b, got) {
			t.Errorf("the cause changes with the names:\n%s\nwant %s\ngot  %s\n%s\n%s", changed, want.Sentence(), got.Sentence(), a, b)
			return
		}
	}
}

// gist returns the sorted words of a cause without names.
func gist(c *Cause, h hostile, old map[string]bool) []string {
	const most = 80 // a longer name moves the end of a quotation
	text := strings.ReplaceAll(strings.ReplaceAll(c.Message, h.path, " "), h.name, " ")
	text, _, _ = strings.Cut(text, "…") // in the middle of a name or a path
	for _, name := range []string{h.name, h.path} {
		for n := len(name); n > 0; n-- {
			if rest, ok := strings.CutSuffix(text, name[:n]); ok {
				text = rest
				break
			}
		}
	}
	var words []string
	for _, word := range wordsIn.FindAllString(text, -1) {
		if letters := notLetters.ReplaceAllString(word, ""); letters != "" && !old[word] {
			words = append(words, letters)
		}
	}
	return words[:min(len(words), most)]
}

// sameWords compares the words of causes, in any order. Those of a message that is cut are fewer.
func sameWords(want, got []string, c *Cause) bool {
	cut := strings.Contains(c.Message, "…")
	slices.Sort(want)
	slices.Sort(got)
	if !cut {
		return slices.Equal(want, got)
	}
	missing := slices.DeleteFunc(slices.Clone(got), func(word string) bool { return slices.Contains(want, word) })
	return len(missing) <= 1 // the last word is cut
}

// withTexts returns a copy of the workload whose texts of components are changed.
func withTexts(w Workload, change func(string) string) Workload {
	w.Events = slices.Clone(w.Events)
	for i := range w.Events {
		w.Events[i].Note = change(w.Events[i].Note)
	}
	w.Pods = slices.Clone(w.Pods)
	for i, p := range w.Pods {
		if p == nil {
			continue
		}
		p = p.DeepCopy()
		w.Pods[i] = p
		p.Status.Message = change(p.Status.Message)
		for j := range p.Status.Conditions {
			p.Status.Conditions[j].Message = change(p.Status.Conditions[j].Message)
		}
		for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for j := range statuses {
				if waits := statuses[j].State.Waiting; waits != nil {
					waits.Message = change(waits.Message)
				}
				if last := statuses[j].LastTerminationState.Terminated; last != nil {
					last.Message = change(last.Message)
				}
			}
		}
	}
	return w
}

// withTexts returns a copy of the state whose texts of components are changed.
func (s *state) withTexts(change func(string) string) *state {
	changed := *s
	for _, x := range []**text{&changed.Waiting, &changed.Failed, &changed.Pod, &changed.Container, &changed.Deleted, &changed.Claim, &changed.Resize, &changed.ResizeError, &changed.Event, &changed.Kill} {
		if *x != nil {
			y := **x
			y.Message, y.Note = change(y.Message), change(y.Note)
			*x = &y
		}
	}
	if s.Ended != nil {
		last := *s.Ended
		last.Message = change(last.Message)
		changed.Ended = &last
	}
	changed.Unscheduled, changed.Create = change(s.Unscheduled), change(s.Create)
	changed.Object = withNames(s.Object, change)
	return &changed
}

// withNames returns a copy of an object whose name, the name of its target, and the texts of its conditions are changed.
func withNames(object map[string]any, change func(string) string) map[string]any {
	if object == nil {
		return nil
	}
	u := unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
	for _, field := range [][]string{{"metadata", "name"}, {"spec", "scaleTargetRef", "name"}} {
		if name, found, _ := unstructured.NestedString(u.Object, field...); found {
			_ = unstructured.SetNestedField(u.Object, strings.Trim(change(strconv.Quote(name)), `"`), field...) // its parents are objects
		}
	}
	conditions, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	all, _ := conditions.([]any)
	for _, c := range all {
		if c := c.(map[string]any); c["message"] != nil {
			c["message"] = change(c["message"].(string))
		}
	}
	return u.Object
}
