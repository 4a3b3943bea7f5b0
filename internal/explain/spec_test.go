package explain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestAFieldNamesATypeOfItsGroup(t *testing.T) {
	kinds := []metav1.APIResource{{Kind: "FlinkDeployment"}, {Kind: "Broker"}, {Kind: "MariaDB"}, {Kind: "Keycloak"}, {Kind: "MultiKueueCluster"}}
	for field, want := range map[string]string{
		"deploymentName": "FlinkDeployment", "broker": "Broker", "mariaDbRef": "MariaDB", "keycloakCRName": "Keycloak", "clusters": "MultiKueueCluster",
		"name": "", "ref": "", "s": "", "replicas": "", "deploymentStrategy": "", "kafkaBroker": "",
	} {
		if got := kindOfField(field, kinds); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}

func TestATextNamesObjectsWithTheirType(t *testing.T) {
	named := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	for _, c := range []struct {
		text, kind string
		want       []types.NamespacedName
	}{
		{`Cluster "a" is not ready`, "Cluster", []types.NamespacedName{named("", "a")}},
		{"Cluster/a and Cluster data/b.", "Cluster", []types.NamespacedName{named("", "a"), named("data", "b")}},
		{"inactive AdmissionCheck(s): [mk].", "AdmissionCheck", []types.NamespacedName{named("", "mk")}},
		{"Cluster operator machine-config is degraded", "ClusterOperator", []types.NamespacedName{named("", "machine-config")}},
		{"the cluster operator machine-config is degraded", "ClusterOperator", []types.NamespacedName{named("", "machine-config")}},
		{"KeyRing security/settlement is not ready", "KeyRing", []types.NamespacedName{named("security", "settlement")}},
		{"Deployment 1/2 replicas", "Deployment", nil},
		{"Deployment is not ready", "Deployment", nil},
		{`FlinkCluster "a"`, "Cluster", nil},
	} {
		if diff := cmp.Diff(c.want, namesAfter(c.text, c.kind)); diff != "" {
			t.Errorf("%s: %s", c.text, diff)
		}
	}
	if diff := cmp.Diff([]types.NamespacedName{named("monitoring", "main")}, namesBefore("Errors: - monitoring/main: grafana instance is not ready", "Grafana")); diff != "" {
		t.Error(diff)
	}
}

func TestMakersAreFoundByTheNamesOfWhatTheyMake(t *testing.T) {
	made := func(kind string, content map[string]any) *maker {
		for _, m := range makers {
			if m.kind.Kind == kind && m.makes(&unstructured.Unstructured{Object: content}, "db-app-reader") {
				return &m
			}
		}
		return nil
	}
	object := func(name string, spec map[string]any) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": name}, "spec": spec}
	}
	for _, c := range []struct {
		kind    string
		content map[string]any
		makes   bool
	}{
		{"MongoDBCommunity", object("db", nil), true},
		{"MongoDBCommunity", object("d", nil), false},
		{"Connection", object("x", map[string]any{"secretName": "db-app-reader"}), true},
		{"Connection", object("db-app-reader", map[string]any{"secretName": "other"}), false},
		{"SopsSecret", object("x", map[string]any{"secretTemplates": []any{map[string]any{"name": "db-app-reader"}}}), true},
		{"SopsSecret", object("db-app-reader", map[string]any{"secretTemplates": []any{map[string]any{"name": "a"}}}), false},
		{"ObjectBucketClaim", object("db-app-reader", nil), true},
	} {
		if got := made(c.kind, c.content) != nil; got != c.makes {
			t.Errorf("%s %v: %t, want %t", c.kind, c.content, got, c.makes)
		}
	}
}

func TestAStatusOfAnyNameCanSayThatSomethingFailed(t *testing.T) {
	for _, c := range []struct {
		status map[string]any
		want   string
	}{
		{map[string]any{"lastOperationStatus": "Failed", "message": "login refused"}, "its lastOperationStatus is Failed: login refused"},
		{map[string]any{"syncStatus": "Failed", "lastSyncError": "too many"}, "its syncStatus is Failed: too many"},
		{map[string]any{"message": "Decryption error"}, "its status says: Decryption error"},
		{map[string]any{"message": "Healthy"}, ""},
		{map[string]any{"note": "Failed"}, ""},
		{map[string]any{"resultStatus": "0 failed"}, ""},
	} {
		if _, got := badStatus(&unstructured.Unstructured{Object: map[string]any{"status": c.status}}, false); got != c.want {
			t.Errorf("%v: %q, want %q", c.status, got, c.want)
		}
	}
}

// An object of the cluster does not say in which namespace it looks. A policy names what it will create, and some references
// are optional.
func TestOnlyAReferenceThatMustExistIsMissing(t *testing.T) {
	const other = "\n---\napiVersion: example.com/v1\nkind: Part\nmetadata: {name: elsewhere, namespace: platform, uid: u2}\n"
	for name, c := range map[string]struct {
		kind, namespace, spec string
		missing               bool
	}{
		"with its namespace":            {"Widget", "shop", "partRef: {apiVersion: example.com/v1, kind: Part, name: gone}", true},
		"parameters":                    {"Widget", "shop", "parameters: {apiGroup: example.com, kind: Part, name: gone}", true},
		"of the cluster, no namespace":  {"ClusterWidget", "", "partRef: {apiVersion: example.com/v1, kind: Part, name: elsewhere}", false},
		"optional":                      {"Widget", "shop", "partRef: {apiVersion: example.com/v1, kind: Part, name: gone, optional: true}", false},
		"what it creates":               {"Widget", "shop", "generate: {apiVersion: example.com/v1, kind: Part, name: gone}", false},
		"without the group of the type": {"Widget", "shop", "partRef: {kind: Part, name: gone}", false},
	} {
		t.Run(name, func(t *testing.T) {
			object := "apiVersion: example.com/v1\nkind: " + c.kind + "\nmetadata: {name: w, uid: u1, namespace: \"" + c.namespace + "\"}\nspec:\n  " + c.spec +
				"\nstatus: {conditions: [{type: Ready, status: \"False\", reason: NotReady, message: its part is not ready}]}\n"
			e := fakeCluster(t, object+other)
			x, err := e.Explain(t.Context(), schema.GroupResource{Group: "example.com", Resource: strings.ToLower(c.kind) + "s"}, c.namespace, "w")
			if err != nil {
				t.Fatal(err)
			}
			if got := x.Cause != nil && strings.Contains(x.Cause.Message, "does not exist"); got != c.missing {
				t.Errorf("missing: %t, want %t: %s", got, c.missing, x.Cause.Message)
			}
		})
	}
}
