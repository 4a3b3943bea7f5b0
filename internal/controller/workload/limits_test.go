package workload

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/feature"
)

type schema = apiextensionsv1.JSONSchemaProps

// The API server refuses a list that the operator would refuse.
func TestTheListsOfTemplatesHaveTheLimitsOfTheOperator(t *testing.T) {
	objects, err := config.Objects(feature.All())
	if err != nil {
		t.Fatal(err)
	}
	templates := 0
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			templates += checkLists(t, crd.Name, version.Schema.OpenAPIV3Schema, false)
		}
	}
	if templates != 3 {
		t.Errorf("%d pod templates, want those of Jupyter, AppService and its backup", templates)
	}
}

// checkLists compares the limits of the lists in a schema, and returns the number of templates.
func checkLists(t *testing.T, path string, s *schema, inTemplate bool) (templates int) {
	spec := s.Properties["spec"]
	if _, ok := spec.Properties["containers"]; ok && !inTemplate {
		inTemplate, templates = true, 1
	}
	for name, property := range s.Properties {
		at := path + "." + name
		if inTemplate && property.Type == "array" {
			most := map[string]int64{
				"containers": mostContainers, "initContainers": mostContainers, "ephemeralContainers": mostContainers,
				"volumes": mostVolumes, "ports": mostPorts, "env": mostItems,
			}[name]
			switch limit := property.MaxItems; {
			case limit == nil || *limit > mostItems: // Kubernetes has lower limits for some
				t.Errorf("%s: no maxItems of at most %d", at, mostItems)
			case most > 0 && *limit != most:
				t.Errorf("%s: maxItems is %d, want %d", at, *limit, most)
			}
		}
		templates += checkLists(t, at, &property, inTemplate)
	}
	if s.Items != nil {
		templates += checkLists(t, path+"[]", s.Items.Schema, inTemplate)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		templates += checkLists(t, path+"{}", s.AdditionalProperties.Schema, inTemplate)
	}
	return templates
}
