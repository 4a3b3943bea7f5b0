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
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	"sigs.k8s.io/kubebuilder/v4/pkg/config/store/yaml"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
)

var (
	domainName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
	groupName  = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	apiVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
	kindName   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	imageName  = regexp.MustCompile(`^[a-z0-9]+[-A-Za-z0-9._:/@]*$`)
)

// importNames are names of imports in the templates that groups and versions can have too.
var importNames = map[string]bool{"appsv1": true, "batchv1": true, "corev1": true, "eventsv1": true, "metav1": true}

// checkInit returns a mistake in the flags of init, or a directory that is not empty.
func checkInit(entries []fs.DirEntry, flag func(name string) string) error {
	for _, e := range entries {
		if e.Name() != ".git" {
			return fmt.Errorf("the directory is not empty, it contains %s: run init in a new directory", e.Name())
		}
	}
	if domain := flag("domain"); !domainName.MatchString(domain) {
		return fmt.Errorf("invalid domain %q: use a DNS name such as example.com", domain)
	}
	if repo := flag("repo"); module.CheckPath(repo) != nil {
		return fmt.Errorf("invalid repo %q: use the path of a Go module, such as github.com/me/cache-operator", repo)
	}
	_, err := checkout(flag("toolkit"))
	return err
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

// markers are the lines at which kubebuilder inserts code. Without them, it inserts nothing.
var markers = map[string][]string{
	mainPath:                            {"imports", "scheme", "builder"},
	"config/crd/kustomization.yaml":     {"crdkustomizeresource"},
	"config/samples/kustomization.yaml": {"manifestskustomizesamples"},
}

// checkMarkers returns which lines a file lacks. Without types, only the main file changes.
func checkMarkers(types bool) error {
	for _, path := range slices.Sorted(maps.Keys(markers)) {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || path != mainPath && !types {
			continue // kubebuilder creates it
		}
		var missing []string
		for _, value := range markers[path] {
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

// checkKind returns why a project cannot get a kind, or another version of it.
func checkKind(project config.Config, flag func(name string) string) error {
	resources, err := project.GetResources()
	if err != nil || flag("resource") != "true" {
		return err
	}
	for _, r := range resources {
		if r.Group != flag("group") || r.Kind != flag("kind") || r.Version == flag("version") || !r.HasAPI() {
			continue
		}
		types := filepath.Join(strings.TrimPrefix(r.Path, project.GetRepository()+"/"), strings.ToLower(r.Kind)+"_types.go")
		if content, err := os.ReadFile(types); err == nil && !strings.Contains(string(content), "+kubebuilder:storageversion") {
			return fmt.Errorf("one version of %s must be stored: add // +kubebuilder:storageversion to the type in %s, and run the command again", r.Kind, types)
		}
	}
	return nil
}

// checkAPI returns a mistake in the flags of create api.
func checkAPI(flag func(name string) string) error {
	if group := flag("group"); !groupName.MatchString(group) {
		return fmt.Errorf("invalid group %q: use lower-case letters, digits and hyphens, for example cache", group)
	}
	if version := flag("version"); !apiVersion.MatchString(version) {
		return fmt.Errorf("invalid version %q: use a version such as v1alpha1, v1beta1 or v1", version)
	}
	if name := flag("group") + flag("version"); importNames[name] {
		return fmt.Errorf("the controller imports another package as %s: use another group or version", name)
	}
	if kind := flag("kind"); !kindName.MatchString(kind) {
		return fmt.Errorf("invalid kind %q: use a capital letter, then letters and digits, for example Memcached", kind)
	}
	if kind := flag("kind"); token.IsKeyword(strings.ToLower(kind)) {
		return fmt.Errorf("%q is a keyword of Go: choose another kind than %s", strings.ToLower(kind), kind)
	}
	if flag("resource") != "true" || flag("controller") != "true" {
		return nil // kubebuilder's own code is used
	}
	if flag("namespaced") != "true" {
		return errors.New("the controller creates a Deployment in the namespace of its object: omit --namespaced=false, or set --controller=false")
	}
	if image := flag("image"); !imageName.MatchString(image) {
		return fmt.Errorf("invalid image %q: use a name such as memcached:1.6", image)
	}
	port, err := strconv.Atoi(flag("port"))
	if err != nil || port < 0 || port > 65535 {
		return fmt.Errorf("invalid port %s: use a number from 1 to 65535", flag("port"))
	}
	switch probe := flag("probe"); {
	case probe != "" && probe != "exec" && probe != "http":
		return fmt.Errorf("unknown probe %q: use exec or http", probe)
	case probe == "http" && port == 0:
		return errors.New("an HTTP probe needs a port: set --port")
	}
	return nil
}
