package scaffold

import (
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"
	"github.com/spf13/pflag"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	"sigs.k8s.io/kubebuilder/v4/pkg/config/store/yaml"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
)

var (
	domainName  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
	groupName   = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	apiVersion  = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
	kindName    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	projectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	imageName   = regexp.MustCompile(`^[a-z0-9]+[-A-Za-z0-9._:/@]*$`)
)

// maxKind is the limit of the API server for the name of a kind.
const maxKind = 63

// importNames are names of imports in the templates that groups and versions can have too.
var importNames = map[string]bool{"appsv1": true, "batchv1": true, "corev1": true, "eventsv1": true, "metav1": true}

// value returns the value of a flag, or nothing if the command has no such flag.
func value(flags *pflag.FlagSet, name string) string {
	if f := flags.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// checkInit returns a mistake in the flags of init, or a directory that is not empty.
func checkInit(dir string, entries []fs.DirEntry, flags *pflag.FlagSet) error {
	for _, e := range entries {
		if e.Name() != ".git" {
			return fmt.Errorf("the directory is not empty, it contains %s: run init in a new directory", e.Name())
		}
	}
	if domain := value(flags, "domain"); !domainName.MatchString(domain) {
		return fmt.Errorf("invalid domain %q: use a DNS name such as example.com", domain)
	}
	if value(flags, "repo") == "" {
		return errors.New("no repo: set --repo to the path of a Go module, such as github.com/me/cache-operator")
	}
	if license := value(flags, "license"); license != "" && license != "apache2" && license != "none" {
		return fmt.Errorf("unknown license %q: use apache2 or none", license)
	}
	if strings.Contains(value(flags, "owner"), "*/") {
		return errors.New("invalid owner: it cannot contain */, which ends the comment with the copyright")
	}
	if repo := value(flags, "repo"); module.CheckPath(repo) != nil {
		return fmt.Errorf("invalid repo %q: use the path of a Go module, such as github.com/me/cache-operator", repo)
	}
	name := value(flags, "project-name")
	if name == "" {
		name = strings.ToLower(filepath.Base(dir))
	}
	if !projectName.MatchString(name) {
		return fmt.Errorf("invalid project name %q: set --project-name, for example to cache-operator. The default is the name of the directory", name)
	}
	_, err := checkout(value(flags, "toolkit"))
	return err
}

// checkEdit returns an error without flags. kubebuilder would then disable several groups.
func checkEdit(flags *pflag.FlagSet) error {
	if !flags.Changed("multigroup") {
		return errors.New("nothing to edit: set --multigroup or --multigroup=false")
	}
	return nil
}

// checkout returns whether toolkit names the directory of a checkout of Bongsu, and not a version.
func checkout(toolkit string) (bool, error) {
	if toolkit == "" {
		return false, errors.New("no version of the toolkit: set --toolkit, for example to main")
	}
	if !filepath.IsAbs(toolkit) && !strings.HasPrefix(toolkit, ".") {
		return false, nil
	}
	mod, err := os.ReadFile(filepath.Join(toolkit, "go.mod"))
	if err != nil || modfile.ModulePath(mod) != toolkitModule {
		return false, fmt.Errorf("%s is not a checkout of %s: check --toolkit", toolkit, toolkitModule)
	}
	return true, nil
}

// loadProject returns the configuration of the project in the working directory.
func loadProject() (config.Config, error) {
	store := yaml.New(machinery.Filesystem{FS: afero.NewOsFs()})
	err := store.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the directory contains no file PROJECT: change to the directory of a project, or run bongsu-sdk init")
	}
	return store.Config(), err
}

const mainPath = "cmd/main.go"

// insertMarkers are the lines at which kubebuilder inserts code. Without them, it inserts nothing.
var insertMarkers = map[string][]string{
	mainPath:                            {"imports", "scheme", "builder"},
	"config/crd/kustomization.yaml":     {"crdkustomizeresource"},
	"config/samples/kustomization.yaml": {"manifestskustomizesamples"},
}

// checkMarkers returns which lines a file lacks. Without types, only the main file changes.
func checkMarkers(types bool) error {
	for _, path := range slices.Sorted(maps.Keys(insertMarkers)) {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || path != mainPath && !types {
			continue // kubebuilder creates it
		}
		var missing []string
		for _, value := range insertMarkers[path] {
			marker := machinery.NewMarkerFor(path, value)
			if !slices.ContainsFunc(strings.Split(string(content), "\n"), marker.EqualsLine) {
				missing = append(missing, marker.String())
			}
		}
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("%s lacks lines at which the command inserts code: add them where a new project has them:\n%s", path, strings.Join(missing, "\n"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkKind returns why a project cannot get a kind, another version of it, or its controller.
func checkKind(project config.Config, flags *pflag.FlagSet) error {
	gvk := resource.GVK{Group: value(flags, "group"), Domain: project.GetDomain(), Version: value(flags, "version"), Kind: value(flags, "kind")}
	c := &apiCommand{config: project, resource: &resource.Resource{GVK: gvk}}
	var paths []machinery.Builder
	if value(flags, "resource") == "true" {
		if err := checkTypes(project, gvk); err != nil {
			return err
		}
		paths = c.types()
	}
	if value(flags, "controller") == "true" {
		paths = append(paths, c.controller()...)
	}
	for _, p := range paths {
		if _, err := os.Stat(p.GetPath()); err == nil {
			return fmt.Errorf("%s exists: set --resource=false or --controller=false to create only the other part, or choose another kind or version", p.GetPath())
		}
	}
	return nil
}

// checkTypes returns why a project cannot get the types of a kind, or of another version of it.
func checkTypes(project config.Config, gvk resource.GVK) error {
	resources, err := project.GetResources()
	if err != nil {
		return err
	}
	if !project.IsMultiGroup() && len(resources) > 0 && !project.HasGroup(gvk.Group) {
		return fmt.Errorf("the project has another group than %s: to allow several groups, run bongsu-sdk edit --multigroup", gvk.Group)
	}
	unmarked, marked := "", false // types of other versions
	for _, r := range resources {
		switch {
		case r.Group != gvk.Group || r.Kind != gvk.Kind || !r.HasAPI():
		case r.Version == gvk.Version && !r.HasController():
			return fmt.Errorf("the project has the types of %s/%s %s: to create a controller, set --resource=false", r.Group, r.Version, r.Kind)
		case r.Version == gvk.Version:
			return fmt.Errorf("the project has %s/%s %s: choose another kind or version", r.Group, r.Version, r.Kind)
		default:
			types := filepath.Join(strings.TrimPrefix(r.Path, project.GetRepository()+"/"), strings.ToLower(r.Kind)+"_types.go")
			if content, err := os.ReadFile(types); err != nil || strings.Contains(string(content), "+kubebuilder:storageversion") {
				marked = true
			} else {
				unmarked = types
			}
		}
	}
	if unmarked != "" && !marked {
		return fmt.Errorf("one version of %s must be stored: add // +kubebuilder:storageversion to the type in %s, and run the command again", gvk.Kind, unmarked)
	}
	return nil
}

// checkAPI returns a mistake in the flags of create api.
func checkAPI(flags *pflag.FlagSet) error {
	for _, required := range []struct{ name, example string }{{"group", "cache"}, {"version", "v1alpha1"}, {"kind", "Memcached"}} {
		if value(flags, required.name) == "" {
			return fmt.Errorf("no %[1]s: set --%[1]s, for example to %[2]s", required.name, required.example)
		}
	}
	if group := value(flags, "group"); !groupName.MatchString(group) {
		return fmt.Errorf("invalid group %q: use lower-case letters, digits and hyphens, for example cache", group)
	}
	if version := value(flags, "version"); !apiVersion.MatchString(version) {
		return fmt.Errorf("invalid version %q: use a version such as v1alpha1, v1beta1 or v1", version)
	}
	if kind := value(flags, "kind"); len(kind) > maxKind {
		return fmt.Errorf("the kind %s has %d characters: use at most %d", kind, len(kind), maxKind)
	}
	if kind := value(flags, "kind"); !kindName.MatchString(kind) {
		return fmt.Errorf("invalid kind %q: use a capital letter, then letters and digits, for example Memcached", kind)
	}
	if kind := value(flags, "kind"); token.IsKeyword(strings.ToLower(kind)) {
		return fmt.Errorf("%q is a keyword of Go: choose another kind than %s", strings.ToLower(kind), kind)
	}
	if plural := value(flags, "plural"); plural != "" && !groupName.MatchString(plural) {
		return fmt.Errorf("invalid plural %q: use lower-case letters, digits and hyphens, for example memcacheds", plural)
	}
	return checkParts(flags)
}

// checkParts returns a mistake in the flags that choose what create api creates.
func checkParts(flags *pflag.FlagSet) error {
	switch types, controller := value(flags, "resource") == "true", value(flags, "controller") == "true"; {
	case types && controller:
		return checkPods(flags)
	case !types && !controller:
		return errors.New("nothing to create: omit --resource=false or --controller=false")
	}
	for _, name := range podFlags {
		if flags.Changed(name) {
			return fmt.Errorf("--%s is for types with a controller: omit it, or omit --resource=false and --controller=false", name)
		}
	}
	return nil // kubebuilder's own code is used
}

// podFlags are the flags of create api that need types and a controller.
var podFlags = []string{"image", "port", "probe", "backup"}

// checkPods returns a mistake in the flags of a kind whose controller runs pods.
func checkPods(flags *pflag.FlagSet) error {
	if name := value(flags, "group") + value(flags, "version"); importNames[name] {
		return fmt.Errorf("the controller imports another package as %s: use another group or version", name)
	}
	if value(flags, "namespaced") != "true" {
		return errors.New("the controller creates a Deployment in the namespace of its object: omit --namespaced=false, or set --controller=false")
	}
	if image := value(flags, "image"); !imageName.MatchString(image) {
		return fmt.Errorf("invalid image %q: use a name such as memcached:1.6", image)
	}
	port, err := strconv.Atoi(value(flags, "port"))
	if err != nil || port < 0 || port > 65535 {
		return fmt.Errorf("invalid port %s: use a number from 1 to 65535", value(flags, "port"))
	}
	switch probe := value(flags, "probe"); {
	case probe != "" && probe != "exec" && probe != "http":
		return fmt.Errorf("unknown probe %q: use exec or http", probe)
	case probe == "http" && port == 0:
		return errors.New("an HTTP probe needs a port: set --port")
	}
	return nil
}
