package config_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/feature"
)

type schema = apiextensionsv1.JSONSchemaProps

// foreign are the fields whose types belong to Kubernetes.
var foreign = []string{
	"apiVersion", "kind", "metadata", "conditions", "template", "jobTemplate", "resources", "httpGet",
	"selector", "objectSelector", "namespaceSelector", "allowedNamespaces",
}

// eachField calls check for the fields of our own types in all CRDs.
func eachField(t *testing.T, check func(path, name string, field *schema)) {
	t.Helper()
	objects, err := config.Objects(feature.All())
	if err != nil {
		t.Fatal(err)
	}
	fields := 0
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &crd); err != nil {
			t.Fatal(err)
		}
		var walk func(path string, s *schema)
		walk = func(path string, s *schema) {
			for s.Items != nil {
				path, s = path+"[]", s.Items.Schema
			}
			for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
				field := s.Properties[name]
				if isForeign(path, name, &field) {
					continue
				}
				fields++
				check(path+"."+name, name, &field)
				walk(path+"."+name, &field)
			}
		}
		walk(crd.Spec.Names.Kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
	if fields < 400 {
		t.Errorf("only %d fields found", fields)
	}
}

// isForeign reports whether the type of a field belongs to Kubernetes. Those of the root are
// apiVersion, kind and metadata. A scalar field can have a name from the list too.
func isForeign(path, name string, field *schema) bool {
	isRoot := !strings.Contains(path, ".")
	return slices.Contains(foreign, name) && (isRoot || field.Type == "object" || name == "conditions")
}

func TestFieldDocsStartWithTheNameOfTheField(t *testing.T) {
	eachField(t, func(path, name string, field *schema) {
		first, _, _ := strings.Cut(field.Description, " ")
		if strings.TrimSuffix(first, ":") != name {
			t.Errorf("%s: its description starts with %q", path, first)
		}
	})
}

func TestEveryStringAndListHasALimit(t *testing.T) {
	isUnlimited := func(s *schema) bool {
		return s.Type == "string" && s.Format == "" && s.MaxLength == nil && len(s.Enum) == 0
	}
	eachField(t, func(path, _ string, field *schema) {
		if isUnlimited(field) {
			t.Errorf("%s: a string without maxLength", path)
		}
		if field.Type != "array" {
			return
		}
		if field.MaxItems == nil || field.XListType == nil {
			t.Errorf("%s: a list without maxItems or listType", path)
		}
		if isUnlimited(field.Items.Schema) {
			t.Errorf("%s: a list of strings without maxLength", path)
		}
	})
}

// conditional are fields whose default cannot be in the schema: a rule forbids the field for
// another type.
var conditional = []string{
	".healthCheck.maxRestartsPerHour", // only for remedy Restart
	".topologySpread[].minDomains",    // only for DoNotSchedule
	".server.readinessPath",           // only for type HTTP
	".storage.accessModes",            // only for a claim that the Jupyter creates
	".culling.openTerminalSeconds",    // only for activity KernelsAndTerminals
	".slack.apiURL",                   // only for bots
	".webhook.contentType",            // only with body
}

// valueIfUnset matches a sentence with the value of a field that is not set.
var valueIfUnset = regexp.MustCompile(`\bIf unset, (?:it is )?(\S+)(?: \([^)]+\))?\.( |$)`)

func TestDocumentedDefaultsAreInTheSchemaAndTheOtherWayAround(t *testing.T) {
	defaults := 0
	eachField(t, func(path, _ string, field *schema) {
		description := strings.Join(strings.Fields(field.Description), " ")
		_, documented, found := strings.Cut(description, "Default: ")
		if field.Default == nil {
			isConditional := slices.ContainsFunc(conditional, func(end string) bool { return strings.HasSuffix(path, end) })
			if isConditional != valueIfUnset.MatchString(description) {
				t.Errorf("%s: write a default into the schema, or into the list of this test: %s", path, description)
			}
			if found || strings.Contains(description, "Defaults to") {
				t.Errorf("%s: documents a default that is not in the schema: %s", path, description)
			}
			return
		}
		value := strings.Trim(string(field.Default.Raw), `"`)
		if value == "{}" {
			return // the fields within have the defaults
		}
		defaults++
		if strings.TrimSuffix(documented, ".") != value {
			t.Errorf("%s: its default is %s, documented is %q", path, value, documented)
		}
	})
	if defaults < 50 {
		t.Errorf("only %d defaults found", defaults)
	}
}
