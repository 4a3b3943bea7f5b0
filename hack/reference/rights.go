package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/operator/feature"
)

// rightsPage returns the page of the rights that the generated roles hold. Each of sets
// is ROLE=FOLDER, one of the folders whose markers make that role.
func rightsPage(sets []string) func(*bytes.Buffer) error {
	return func(w *bytes.Buffer) error {
		fmt.Fprint(w, "# Rights reference\n\nWhat the operator may do, and what for. "+
			"The roles are in [config/rbac](../../config/rbac); what they mean for a cluster is in [security](../security.md).\n\n")
		for _, role := range append([]string{"common"}, feature.Names(feature.All())...) {
			grants, err := grantsOf(role, sets)
			if err != nil {
				return err
			}
			if err := writeRole(w, role, grants); err != nil {
				return fmt.Errorf("role %s: %w", role, err)
			}
		}
		return noneForgotten(sets)
	}
}

// noneForgotten makes sure that all markers are in the roles.
func noneForgotten(sets []string) error {
	grants, err := grantsIn("internal")
	if err != nil {
		return err
	}
	for _, g := range grants {
		if !slices.ContainsFunc(sets, func(set string) bool {
			_, folder, _ := strings.Cut(set, "=")
			return strings.HasPrefix(filepath.ToSlash(g.file), folder+"/")
		}) {
			return fmt.Errorf("%s: its markers are in no role: name its package in RBAC_... of the Makefile", g.file)
		}
	}
	return nil
}

func grantsOf(role string, sets []string) ([]grant, error) {
	var grants []grant
	for _, set := range sets {
		name, folder, _ := strings.Cut(set, "=")
		if name != role {
			continue
		}
		found, err := grantsIn(folder)
		if err != nil {
			return nil, err
		}
		grants = append(grants, found...)
	}
	return grants, nil
}

func writeRole(w *bytes.Buffer, role string, grants []grant) error {
	if err := sameAsGenerated(role, grants); err != nil {
		return err
	}
	fmt.Fprintf(w, "## %s\n\n%s\n\n| API group | resources | verbs | where | what for |\n|---|---|---|---|---|\n",
		title(role), describeRole(role))
	for _, g := range grants {
		where := "everywhere"
		if g.namespace != "" {
			where = "`" + g.namespace + "`"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n",
			codes(g.groups), codes(g.resources), strings.Join(g.verbs, ", "), where, escape(g.reason))
	}
	fmt.Fprintln(w)
	return nil
}

func title(role string) string {
	if role == "common" {
		return "In any case"
	}
	return "With `" + role + "`"
}

func describeRole(role string) string {
	name := "bongsu"
	if role != "common" {
		name = config.RoleOf(feature.Feature(role))
	}
	return fmt.Sprintf("Roles `%s`: [role-%s.yaml](../../config/rbac/role-%s.yaml).", name, role, role)
}

func codes(words []string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		if word == "" {
			word = "core"
		}
		quoted = append(quoted, code(word))
	}
	return strings.Join(quoted, ", ")
}

// sameAsGenerated makes sure that the page tells of the roles that there are: a package
// with markers may have been forgotten in one of the lists of the Makefile.
func sameAsGenerated(role string, grants []grant) error {
	told := map[string]bool{}
	for _, g := range grants {
		g.each(func(right string) { told[right] = true })
	}
	held, err := generatedRights(role)
	if err != nil {
		return err
	}
	for right := range held {
		if !told[right] {
			return fmt.Errorf("no marker asks for %s, which the generated role holds", right)
		}
	}
	for right := range told {
		if !held[right] {
			return fmt.Errorf("the generated role does not hold %s, which a marker asks for", right)
		}
	}
	return nil
}

func generatedRights(role string) (map[string]bool, error) {
	objects, err := config.RBAC(feature.All())
	if err != nil {
		return nil, err
	}
	name := config.Roles(nil)[0]
	if role != "common" {
		name = config.RoleOf(feature.Feature(role))
	}
	held := map[string]bool{}
	for _, o := range objects {
		if o.GetName() != name || !slices.Contains([]string{"Role", "ClusterRole"}, o.GetKind()) {
			continue
		}
		var typed rbacv1.Role // in which a ClusterRole's rules are the same
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed); err != nil {
			return nil, err
		}
		for _, rule := range typed.Rules {
			grant{groups: rule.APIGroups, resources: rule.Resources, verbs: rule.Verbs, namespace: o.GetNamespace()}.each(func(right string) { held[right] = true })
		}
	}
	return held, nil
}
