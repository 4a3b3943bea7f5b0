package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// The schema of a Quantity, as controller-gen writes it and as trim changes it.
const (
	pattern   = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`
	quantity  = `{anyOf: [{type: integer}, {type: string}], pattern: '` + pattern + `', x-kubernetes-int-or-string: true}`
	bounded   = `{anyOf: [{type: integer}, {type: string}], pattern: '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$', maxLength: 64, x-kubernetes-int-or-string: true}`
	explained = `{anyOf: [{type: integer}, {type: string}], maxLength: 64, x-kubernetes-int-or-string: true,
		x-kubernetes-validations: [{rule: "!string(self).matches('[eE].{4}') && isQuantity(string(self))", message: "not a quantity: write for example 8Gi or 8G, or 500m for a half"}]}`
)

func TestTrim(t *testing.T) {
	for name, tc := range map[string]struct{ schema, want string }{
		"a schema without a template is not changed": {
			`{description: kept, properties: {spec: {description: kept, properties: {image: {type: string, description: kept}}}}}`,
			`{description: kept, properties: {spec: {description: kept, properties: {image: {type: string, description: kept}}}}}`,
		},
		"a schema with containers and without metadata is not a template": {
			`{properties: {spec: {required: [containers], properties: {containers: {description: kept}}}}}`,
			`{properties: {spec: {required: [containers], properties: {containers: {description: kept}}}}}`,
		},
		"containers become optional, and only the description of the template stays": {
			`{description: kept, properties: {template: {description: kept, properties: {
				metadata: {description: gone, type: object},
				spec: {description: gone, required: [containers], properties: {containers: {description: gone, type: array, items: {
					description: gone, required: [name], properties: {name: {type: string, description: gone}}}}}}}}}}`,
			`{description: kept, properties: {template: {description: kept, properties: {
				metadata: {type: object},
				spec: {properties: {containers: {type: array, nullable: true, maxItems: 64, items: {required: [name], properties: {name: {type: string}}}}}}}}}}`,
		},
		"other required properties stay required": {
			`{properties: {metadata: {}, spec: {required: [os, containers], properties: {containers: {}}}}}`,
			`{properties: {metadata: {}, spec: {required: [os], properties: {containers: {nullable: true}}}}}`,
		},
		"a property with the name description stays": {
			`{properties: {metadata: {}, spec: {properties: {containers: {}, description: {type: string, description: gone}}}}}`,
			`{properties: {metadata: {}, spec: {properties: {containers: {nullable: true}, description: {type: string}}}}}`,
		},
		"the values of maps are trimmed": {
			`{properties: {metadata: {}, spec: {properties: {containers: {}, nodeSelector: {description: gone, additionalProperties: {type: string, description: gone}}}}}}`,
			`{properties: {metadata: {}, spec: {properties: {containers: {nullable: true}, nodeSelector: {additionalProperties: {type: string}}}}}}`,
		},
		"large numbers keep their form": {
			`{properties: {metadata: {}, spec: {properties: {containers: {maxItems: 2592000}}}}}`,
			`{properties: {metadata: {}, spec: {properties: {containers: {maxItems: 2592000, nullable: true}}}}}`,
		},
		"the lists of a template are limited": {
			`{properties: {metadata: {}, spec: {properties: {containers: {items: {properties: {env: {items: {}}, few: {maxItems: 3, items: {}}}}}, volumes: {items: {}},
				initContainers: {items: {}}, ephemeralContainers: {items: {}}, overhead: {additionalProperties: {properties: {values: {items: {}}}}}}}}}`,
			`{properties: {metadata: {}, spec: {properties: {containers: {nullable: true, maxItems: 64, items: {properties: {env: {maxItems: 1000, items: {}}, few: {maxItems: 3, items: {}}}}}, volumes: {maxItems: 256, items: {}},
				initContainers: {maxItems: 64, items: {}}, ephemeralContainers: {maxItems: 64, items: {}}, overhead: {additionalProperties: {properties: {values: {maxItems: 1000, items: {}}}}}}}}}`,
		},
		"the lists outside of a template stay as they are": {
			`{properties: {containers: {items: {}}, spec: {properties: {volumes: {items: {}}}}}}`,
			`{properties: {containers: {items: {}}, spec: {properties: {volumes: {items: {}}}}}}`,
		},
		"a quantity outside of a template gets a rule instead of a pattern": {
			`{properties: {limits: {additionalProperties: ` + quantity + `}, size: ` + quantity + `, name: {type: string, pattern: ^a}}}`,
			`{properties: {limits: {maxProperties: 7, additionalProperties: ` + explained + `}, size: ` + explained + `, name: {type: string, pattern: ^a}}}`,
		},
		"a rule of its own stays alone": {
			`{properties: {size: {x-kubernetes-int-or-string: true, pattern: '` + pattern + `', x-kubernetes-validations: [{rule: "!string(self).matches('[eE].{4}') && isQuantity(string(self)) && true"}]}}}`,
			`{properties: {size: {x-kubernetes-int-or-string: true, maxLength: 64, x-kubernetes-validations: [{rule: "!string(self).matches('[eE].{4}') && isQuantity(string(self)) && true"}]}}}`,
		},
		"a port is a number of 32 bits, in a template too": {
			`{properties: {port: {x-kubernetes-int-or-string: true}, template: {properties: {metadata: {}, spec: {properties: {containers: {nullable: true, items: {x-kubernetes-int-or-string: true}}}}}}}}`,
			`{properties: {port: {minimum: -2147483648, maximum: 2147483647, x-kubernetes-int-or-string: true}, template: {properties: {metadata: {}, spec: {properties: {containers: {nullable: true, maxItems: 64,
				items: {minimum: -2147483648, maximum: 2147483647, x-kubernetes-int-or-string: true}}}}}}}}`,
		},
		"a quantity in a template keeps a pattern": {
			`{properties: {metadata: {}, spec: {properties: {containers: {nullable: true}, overhead: {additionalProperties: ` + quantity + `}}}}}`,
			`{properties: {metadata: {}, spec: {properties: {containers: {nullable: true}, overhead: {additionalProperties: ` + bounded + `}}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := []byte(`{spec: {versions: [{schema: {openAPIV3Schema: ` + tc.schema + `}}]}}`)
			after, err := trim(before)
			if err != nil {
				t.Fatal(err)
			}
			want := parsed(t, `{spec: {versions: [{schema: {openAPIV3Schema: `+tc.want+`}}]}}`)
			if diff := cmp.Diff(want, parsed(t, string(after))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, err := trim(after)
			if err != nil || string(again) != string(after) {
				t.Errorf("a second trim changes it (%v):\n%s", err, cmp.Diff(string(after), string(again)))
			}
		})
	}
}

func TestReferencesToSecretsGetTheirNamespace(t *testing.T) {
	for kind, want := range map[string]string{
		"AlarmReceiver":        `{required: [name], properties: {name: {}}}`,
		"ClusterAlarmReceiver": `{required: [name, namespace], properties: {name: {}, namespace: {}}}`,
		"Jupyter":              `{required: [name], properties: {name: {}, namespace: {}}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			crd := func(reference string) string {
				return `{spec: {names: {kind: ` + kind + `}, versions: [{properties: {tokenSecretRef: ` + reference + `}}]}}`
			}
			trimmed := []byte(crd(`{required: [name], properties: {name: {}, namespace: {}}}`))
			for range 2 {
				var err error
				if trimmed, err = trim(trimmed); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(parsed(t, crd(want)), parsed(t, string(trimmed))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestARuleAboutANameDeclaresIt(t *testing.T) {
	crd := func(metadata, rule string) string {
		return `{schema: {properties: {metadata: ` + metadata + `, spec: {}}, x-kubernetes-validations: [` + rule + `]}}`
	}
	const plain, declared = "{type: object}", "{type: object, properties: {name: {type: string}}}"
	for rule, want := range map[string]string{"{fieldPath: .metadata.name, rule: a}": declared, "{fieldPath: .spec, rule: a}": plain, "{rule: a}": plain} {
		got, err := trim([]byte(crd(plain, rule)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(parsed(t, crd(want, rule)), parsed(t, string(got))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rule, diff)
		}
	}
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestOnlyFilesWithATemplateAreWritten(t *testing.T) {
	dir := t.TempDir()
	const plain, template = "a: b # stays\n", "properties: {metadata: {}, spec: {properties: {containers: {}}}}\n"
	for name, content := range map[string]string{"plain.yaml": plain, "template.yaml": template, "notes.txt": template} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run([]string{dir}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"plain.yaml": plain, "notes.txt": template,
		"template.yaml": "---\nproperties:\n  metadata: {}\n  spec:\n    properties:\n      containers:\n        nullable: true\n",
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestErrorsNameTheProblem(t *testing.T) {
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "a.yaml"), []byte("a: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no directory":             {nil, "usage: trimcrd DIRECTORY"},
		"a directory without CRDs": {[]string{t.TempDir()}, "no CRD in "},
		"a file that is not YAML":  {[]string{broken}, "a.yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(tc.args); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
