package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// explainCommand is a command in a text, with its type, name and namespace.
var explainCommand = regexp.MustCompile(`bongsu explain ([a-z0-9.-]+)/([a-z0-9.-]*[a-z0-9])(?: -n ([a-z0-9-]+))?`)

// reader follows the commands on the pages of a scene.
type reader struct {
	e       *fakeExplainer
	objects []client.Object
	// pages are the explanations by object.
	pages map[string]*Explanation
}

// find returns the object that a command names, or nil. The type is a kind in lower case, or has its group too.
func (r *reader) find(kind, namespace, name string) client.Object {
	kind, group, _ := strings.Cut(kind, ".")
	i := slices.IndexFunc(r.objects, func(o client.Object) bool {
		gvk, err := r.e.client.GroupVersionKindFor(o)
		return err == nil && strings.ToLower(gvk.Kind) == kind && (group == "" || gvk.Group == group) &&
			o.GetName() == name && (o.GetNamespace() == "" || o.GetNamespace() == namespace)
	})
	if i < 0 {
		return nil
	}
	return r.objects[i]
}

// page explains an object. It returns nil if its type cannot be explained.
func (r *reader) page(t *testing.T, o client.Object) *Explanation {
	t.Helper()
	gvk, err := r.e.client.GroupVersionKindFor(o)
	if err != nil {
		t.Fatal(err)
	}
	resource, ok := resourceOf(r.e, gvk)
	if !ok {
		return nil
	}
	key := fmt.Sprintf("%s/%s/%s", gvk, o.GetNamespace(), o.GetName())
	if r.pages[key] == nil {
		x, err := r.e.Explain(t.Context(), resource, o.GetNamespace(), o.GetName())
		if err != nil {
			t.Fatal(err)
		}
		r.pages[key] = x
	}
	return r.pages[key]
}

// commandsOn returns the commands in all texts of a page.
func commandsOn(x *Explanation) [][]string {
	texts := []string{x.Summary}
	causes := x.Others
	if x.Cause != nil {
		causes = append([]Cause{*x.Cause}, causes...)
	}
	for i := range causes {
		texts = append(texts, causes[i].Message, causes[i].Advice)
		texts = append(texts, causes[i].Items...)
	}
	for _, c := range x.Conditions {
		texts = append(texts, c.Message)
	}
	return explainCommand.FindAllStringSubmatch(strings.Join(texts, "\n"), -1)
}

// follow runs the commands on the page of an object, and those on the pages that they print. It returns what is
// wrong with one of them, or "". way are the pages before it.
func (r *reader) follow(t *testing.T, x *Explanation, way []*Explanation) string {
	t.Helper()
	way = append(slices.Clone(way), x)
	for _, m := range commandsOn(x) {
		namespace := m[3]
		if namespace == "" {
			namespace = x.Namespace
		}
		o := r.find(m[1], namespace, m[2])
		if o == nil {
			return m[0] + ": there is no such object"
		}
		next := r.page(t, o)
		switch {
		case next == nil:
			return m[0] + ": its type cannot be explained"
		case slices.Contains(way, next):
			return m[0] + ": leads back"
		case next.Cause == nil && next.State != Stopped && next.LateAfter == nil:
			return m[0] + ": its page names no problem: " + next.Summary
		}
		if wrong := r.follow(t, next, way); wrong != "" {
			return m[0] + ", and then " + wrong
		}
	}
	return ""
}

// referring returns clusters in which pages name commands.
func referring() map[string]string {
	const (
		kind = "ValidatingWebhookConfiguration"
		pods = "selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}"
	)
	all := map[string]string{"a webhook of a stopped Deployment": webhooksOf(kind, "") + webService + "\n---\n" + stoppedWeb}
	for owner, objects := range map[string]string{
		"a Deployment": ownerOfPods("apps/v1", "Deployment", "replicas: 1, "+pods, ""), "a StatefulSet": ownerOfPods("apps/v1", "StatefulSet", "replicas: 1, "+pods, ""),
		"a ReplicaSet": ownerOfPods("apps/v1", "ReplicaSet", "replicas: 1, "+pods, ""), "a Job": ownerOfPods("batch/v1", "Job", pods, ""),
		"a DaemonSet": ownerOfPods("apps/v1", "DaemonSet", pods, "desiredNumberScheduled: 2"),
	} {
		for age, created := range map[string]string{"new": before(time.Minute), "old": before(48 * time.Hour)} {
			objects := shopNamespace + webService + strings.Replace(objects, "{name: w,", `{name: w, uid: w, creationTimestamp: "`+created+`",`, 1)
			all[owner+" without pods, "+age] = objects
			all["a webhook of "+owner+" without pods, "+age] = webhooksOf(kind, "") + objects
		}
	}
	return all
}

// A command in an overview leads to a page with a problem. A command on a page leads to that of another object with a
// problem, and never back.
func TestCommandsOnAPageLeadOn(t *testing.T) {
	commands, all := map[string]bool{}, allScenes(t)
	for name, objects := range referring() {
		all[name] = scene{Objects: objects}
	}
	for name, s := range all {
		e := s.cluster(t)
		r := &reader{e: e, objects: parse(t, e.client.Scheme(), s.Objects), pages: map[string]*Explanation{}}
		overview := written(t, overviewOf(t, e, ""))
		for _, m := range explainCommand.FindAllStringSubmatch(overview, -1) {
			commands[m[0]] = true
			if o := r.find(m[1], m[3], m[2]); o == nil || r.page(t, o).Cause == nil && r.page(t, o).State != Waiting {
				t.Errorf("%s: %s: its page names no problem\n%s", name, m[0], overview)
			}
		}
		for _, o := range r.objects {
			x := r.page(t, o)
			if x == nil {
				continue
			}
			if wrong := r.follow(t, x, nil); wrong != "" {
				t.Errorf("%s: %s %s: %s\n%s", name, x.Kind, x.Name, wrong, written(t, x))
			}
		}
	}
	if len(commands) == 0 {
		t.Error("there is no command")
	}
}
