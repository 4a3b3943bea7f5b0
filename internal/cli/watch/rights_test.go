package watch_test

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMissingRightsAreNamed(t *testing.T) {
	c := cluster.Shared(t)
	ns := namespace(t, c)
	for name, verbs := range map[string][]string{
		"none":             {"get"},
		"list alone":       {"list"},
		"of another place": nil,
	} {
		t.Run(name, func(t *testing.T) {
			user := c.User(t, ns, cluster.Rule("", "pods", append(verbs, "get")...))
			place := ns
			if verbs == nil {
				user, place = c.User(t, ns, cluster.Rule("", "pods", "list", "watch")), ""
			}
			err := open(t, request{config: user, typeName: "pods", namespace: place}).fails()
			for _, want := range []string{"you may not watch pods in", `"list" and "watch" on "pods"`, `cannot watch resource "pods"`} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

func TestTheRightsThatAreAskedForAreEnough(t *testing.T) {
	c := cluster.Shared(t)
	ns := namespace(t, c)
	user := c.User(t, ns, cluster.Rule("", "pods", "list", "watch"))
	s := opened(t, request{config: user, typeName: "pods", namespace: ns})
	create(t, c, newPod(ns, "a"))
	s.shows("ADDED " + ns + "/a")
}
