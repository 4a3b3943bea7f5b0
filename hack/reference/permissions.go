package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/feature"
)

// permissionsPage returns the page of the permissions in the generated roles. Each of sets is
// ROLE=DIRECTORY: the RBAC markers in the directory belong to the role.
func permissionsPage(sets []string) func(*bytes.Buffer) error {
	return func(w *bytes.Buffer) error {
		fmt.Fprint(w, "# Permissions reference\n\nThis page lists the permissions of the operator, with a reason for each. "+
			"The roles are in [config/rbac](../../config/rbac). For their consequences, see [security](../security.md).\n\n")
		for _, role := range append([]string{"common"}, feature.Names(feature.All())...) {
			grants, err := grantsOf(role, sets)
			if err != nil {
				return err
			}
			if err := writeRole(w, role, grants); err != nil {
				return fmt.Errorf("role %s: %w", role, err)
			}
		}
		if err := writeChanges(w); err != nil {
			return err
		}
		return checkAllMarkersUsed(sets)
	}
}

// checkAllMarkersUsed returns an error if a package has markers that belong to no role.
func checkAllMarkersUsed(sets []string) error {
	check := func(dir string, entry fs.DirEntry, err error) error {
		isSet := slices.ContainsFunc(sets, func(set string) bool { return strings.HasSuffix(set, "="+filepath.ToSlash(dir)) })
		if err != nil || isSet || !entry.IsDir() {
			return err
		}
		grants, err := grantsIn(dir)
		if len(grants) > 0 {
			return fmt.Errorf("%s: its RBAC markers belong to no role: add the directory to a variable RBAC_... in the Makefile", dir)
		}
		return err
	}
	return errors.Join(filepath.WalkDir("internal", check), filepath.WalkDir("pkg", check))
}

func grantsOf(role string, sets []string) ([]grant, error) {
	var grants []grant
	for _, set := range sets {
		name, dir, _ := strings.Cut(set, "=")
		if name != role {
			continue
		}
		found, err := grantsIn(dir)
		if err != nil {
			return nil, err
		}
		grants = append(grants, found...)
	}
	return grants, nil
}

func writeRole(w *bytes.Buffer, role string, grants []grant) error {
	if err := compareWithGenerated(role, grants); err != nil {
		return err
	}
	fmt.Fprintf(w, "## %s\n\n%s\n\n| API group | resources | verbs | namespaces | reason |\n|---|---|---|---|---|\n",
		title(role), describeRole(role))
	for _, g := range grants {
		where := "all"
		if g.namespace != "" {
			where = "`" + g.namespace + "`"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n",
			codes(g.groups), codes(g.resources), strings.Join(g.verbs, ", "), where, escape(g.reason))
	}
	fmt.Fprintln(w)
	return nil
}

// writeChanges describes the roles with the resources that alarms can watch.
func writeChanges(w *bytes.Buffer) error {
	fmt.Fprintf(w, "## With `alarm`, for changes and states of objects\n\n"+
		"Role `%s`: [changes.yaml](../../config/rbac/changes.yaml). It consists of the rules of all ClusterRoles with the label `bongsu.io/aggregate-to-alarms: \"true\"`. "+
		"The operator watches a resource only while an alarm names it. But its token can list all of these at any time.\n\n"+
		"| role | value | API group | resources | verbs | namespaces |\n|---|---|---|---|---|---|\n", config.ChangesRole)
	objects, err := config.RBAC([]feature.Feature{feature.Alarm})
	if err != nil {
		return err
	}
	for i, name := range config.ChangesRoles() {
		value := []string{"`alarms.changes.builtin`, on by default", "`alarms.changes.configMaps`, off by default"}[i]
		for _, o := range objects {
			if o.GetName() != name {
				continue
			}
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				return err
			}
			for _, rule := range role.Rules {
				fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s | all |\n", name, value, codes(rule.APIGroups), codes(rule.Resources), strings.Join(rule.Verbs, ", "))
			}
		}
	}
	fmt.Fprintln(w)
	return nil
}

func title(role string) string {
	if role == "common" {
		return "Always"
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

// compareWithGenerated returns an error if the markers of a role and its generated role
// differ, for example because a package is missing in the Makefile.
func compareWithGenerated(role string, grants []grant) error {
	documented := map[string]bool{}
	for _, g := range grants {
		g.each(func(permission string) { documented[permission] = true })
	}
	generated, err := generatedPermissions(role)
	if err != nil {
		return err
	}
	for permission := range generated {
		if !documented[permission] {
			return fmt.Errorf("no marker requests %s, which the generated role contains", permission)
		}
	}
	for permission := range documented {
		if !generated[permission] {
			return fmt.Errorf("the generated role does not contain %s, which a marker requests", permission)
		}
	}
	return nil
}

// generatedPermissions returns the permissions of the generated role in config/rbac.
func generatedPermissions(role string) (map[string]bool, error) {
	objects, err := config.RBAC(feature.All())
	if err != nil {
		return nil, err
	}
	names := config.Roles(nil)
	if role != "common" {
		names = config.Roles([]feature.Feature{feature.Feature(role)})[1:]
	}
	found := map[string]bool{}
	for _, o := range objects {
		if !slices.Contains(names, o.GetName()) || !slices.Contains([]string{"Role", "ClusterRole"}, o.GetKind()) {
			continue
		}
		var typed rbacv1.Role // a ClusterRole has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed); err != nil {
			return nil, err
		}
		for _, rule := range typed.Rules {
			grant{groups: rule.APIGroups, resources: rule.Resources, verbs: rule.Verbs, namespace: o.GetNamespace()}.each(func(permission string) { found[permission] = true })
		}
	}
	return found, nil
}

const rbacMarker = "+kubebuilder:rbac:"

// grant is an RBAC marker with the reason in the comment above it.
type grant struct {
	groups, resources, verbs []string
	namespace, reason        string
}

// grantsIn returns the markers in the Go files of a directory.
func grantsIn(dir string) ([]grant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var grants []grant
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, comment := range file.Comments {
			found, err := grantsInComment(comment)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			grants = append(grants, found...)
		}
	}
	return grants, nil
}

// grantsInComment returns the markers of a comment. The reason of a marker is the text above
// it. Several markers can share a reason. An empty line ends it.
func grantsInComment(comment *ast.CommentGroup) ([]grant, error) {
	var grants []grant
	var reason []string
	for _, line := range comment.List {
		text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
		marker, isMarker := strings.CutPrefix(text, rbacMarker)
		switch {
		case text == "":
			reason = nil
		case !isMarker:
			reason = append(reason, text)
		case len(reason) == 0:
			return nil, fmt.Errorf("%s has no reason: write one in the comment above it", text)
		default:
			grants = append(grants, parseGrant(marker, strings.Join(reason, " ")))
		}
	}
	return grants, nil
}

func parseGrant(marker, reason string) grant {
	g := grant{reason: reason}
	for setting := range strings.SplitSeq(marker, ",") {
		key, value, _ := strings.Cut(setting, "=")
		values := strings.Split(strings.Trim(value, `"`), ";")
		switch key {
		case "groups":
			g.groups = values
		case "resources":
			g.resources = values
		case "verbs":
			g.verbs = values
		case "namespace":
			g.namespace = value
		}
	}
	return g
}

// each calls use for each permission of the grant.
func (g grant) each(use func(string)) {
	for _, group := range g.groups {
		for _, resource := range g.resources {
			for _, verb := range g.verbs {
				use(strings.Join([]string{verb, resource, group, g.namespace}, " "))
			}
		}
	}
}
