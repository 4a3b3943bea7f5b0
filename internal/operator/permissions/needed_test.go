package permissions

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/feature"
)

func TestWhatIsNeededIsWhatTheGeneratedRolesHold(t *testing.T) {
	needed, err := Needed("elsewhere", feature.All())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Permission{
		{Role: "ClusterRole bongsu", Group: "events.k8s.io", Resource: "events", Verb: "create"},
		{Role: "ClusterRole bongsu-jupyter", Group: "bongsu.io", Resource: "jupyters", Subresource: "status", Verb: "update"},
		{Role: "Role bongsu-alarm", Namespace: "elsewhere", Resource: "configmaps", Verb: "update"},
		{Role: "Role bongsu", Namespace: "elsewhere", Group: "coordination.k8s.io", Resource: "leases", Verb: "update"},
	} {
		if !slices.Contains(needed, want) {
			t.Errorf("%+v is not needed", want)
		}
	}
}

func TestWhatWasNotChosenNeedsNoPermissions(t *testing.T) {
	for _, chosen := range feature.All() {
		needed, err := Needed("bongsu-system", []feature.Feature{chosen})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, r := range needed {
			_, name, _ := strings.Cut(r.Role, " ")
			got[name] = true
		}
		want := map[string]bool{"bongsu": true, "bongsu-" + string(chosen): true}
		if chosen == feature.SecretShare {
			want["bongsu-secretshare-secrets"] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("roles that %s alone needs:\n%s", chosen, diff)
		}
	}
}

func TestARoleIsNeededOnlyInSomeNamespaces(t *testing.T) {
	all := []Permission{{Role: "ClusterRole a", Resource: "pods", Verb: "get"}, {Role: "ClusterRole b", Resource: "secrets", Verb: "get"}}
	want := []Permission{all[0], {Role: "ClusterRole b", Namespace: "x", Resource: "secrets", Verb: "get"}, {Role: "ClusterRole b", Namespace: "y", Resource: "secrets", Verb: "get"}}
	if diff := cmp.Diff(want, OnlyIn([]string{"x", "y"}, "b", all)); diff != "" {
		t.Error(diff)
	}
}

func TestEveryVerbOfARuleIsARight(t *testing.T) {
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: bongsu}\nrules:\n- "
	like := Permission{Role: "ClusterRole bongsu"}
	of := func(group, resource, subresource, verb, name string) Permission {
		r := like
		r.Group, r.Resource, r.Subresource, r.Verb, r.Name = group, resource, subresource, verb, name
		return r
	}
	for name, tc := range map[string]struct {
		rule string
		want []Permission
	}{
		"groups, resources and verbs": {
			`{apiGroups: ["", apps], resources: [a, b], verbs: [get, list]}`,
			[]Permission{
				of("", "a", "", "get", ""), of("", "a", "", "list", ""), of("", "b", "", "get", ""), of("", "b", "", "list", ""),
				of("apps", "a", "", "get", ""), of("apps", "a", "", "list", ""), of("apps", "b", "", "get", ""), of("apps", "b", "", "list", ""),
			},
		},
		"a subresource": {
			`{apiGroups: [""], resources: [pods/exec], verbs: [create]}`,
			[]Permission{of("", "pods", "exec", "create", "")},
		},
		"names": {
			`{apiGroups: [""], resources: [secrets], resourceNames: [a, b], verbs: [get]}`,
			[]Permission{of("", "secrets", "", "get", "a"), of("", "secrets", "", "get", "b")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			manifests, err := config.Decode(strings.NewReader(role + tc.rule))
			if err != nil {
				t.Fatal(err)
			}
			got, err := permissionsIn(manifests, "bongsu", "bongsu-system")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARoleThatCannotBeCheckedIsAnError(t *testing.T) {
	for name, manifest := range map[string]string{
		"none":              "kind: ClusterRole\nmetadata: {name: other}\nrules:\n- {apiGroups: [''], resources: [pods], verbs: [get]}",
		"only a binding":    "kind: ClusterRoleBinding\nmetadata: {name: bongsu}",
		"not of this shape": "kind: ClusterRole\nmetadata: {name: bongsu}\nrules: 1",
		"URLs":              "kind: ClusterRole\nmetadata: {name: bongsu}\nrules:\n- {nonResourceURLs: [/metrics], verbs: [get]}",
	} {
		t.Run(name, func(t *testing.T) {
			manifests, err := config.Decode(strings.NewReader(manifest))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := permissionsIn(manifests, "bongsu", "bongsu-system"); err == nil {
				t.Errorf("no error, but %v", got)
			}
		})
	}
}

func TestWhatIsMissingIsSaidSoThatItCanBeAdded(t *testing.T) {
	everywhere, here := Permission{Role: "ClusterRole bongsu"}, Permission{Role: "Role bongsu", Namespace: "bongsu-system"}
	of := func(like Permission, group, resource, subresource, verb, name string) Permission {
		like.Group, like.Resource, like.Subresource, like.Verb, like.Name = group, resource, subresource, verb, name
		return like
	}
	got := describe([]Permission{
		of(everywhere, "", "pods", "exec", "create", ""),
		of(everywhere, "events.k8s.io", "events", "", "create", ""),
		of(everywhere, "", "secrets", "", "get", "x"),
		of(here, "", "configmaps", "", "update", ""),
		of(everywhere, "events.k8s.io", "events", "", "patch", ""),
	})
	want := []string{
		`cannot create pods/exec: add it to ClusterRole bongsu`,
		`cannot create, patch events in API group "events.k8s.io": add it to ClusterRole bongsu`,
		`cannot get secrets "x": add it to ClusterRole bongsu`,
		`cannot update configmaps: add it to Role bongsu in namespace bongsu-system`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
