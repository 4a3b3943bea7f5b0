package receiver_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
)

var reference = regexp.MustCompile(`^Secret[A-Za-z]*Reference$`)

// nameSecrets sets each field of a spec that names a Secret, and returns their paths. The name
// of each Secret is the path of its field, and its namespace is "elsewhere".
func nameSecrets(t *testing.T, v reflect.Value, path string) []string {
	t.Helper()
	if v.Kind() == reflect.Pointer && strings.HasPrefix(v.Type().Elem().PkgPath(), "github.com/bongsu-io/") {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if reference.MatchString(v.Type().Name()) {
		v.FieldByName("Name").SetString(path)
		v.FieldByName("Namespace").SetString("elsewhere")
		return []string{path}
	}
	if v.Kind() != reflect.Struct {
		if strings.HasSuffix(path, "Ref") {
			t.Errorf("%s is of the type %s, which this test does not know", path, v.Type())
		}
		return nil
	}
	var paths []string
	for i := range v.NumField() {
		field := path
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name != "" {
			field += "." + name
		}
		paths = append(paths, nameSecrets(t, v.Field(i), field)...)
	}
	return paths
}

var (
	checkedField = regexp.MustCompile(`\{'field': '([^']+)', 'namespace': (.+), 'name': string\(object\.(.+)\.name\.orValue\(''\)\)\}`)
	checkedIndex = regexp.MustCompile(`size\(variables\.secrets\) <= \d+ \|\| variables\.reader\.namespace\(variables\.secrets\[(\d+)\]`)
)

// A receiver makes the operator read Secrets for its author. The policies must check every
// field that names one, and the operator must watch it.
func TestThePoliciesCheckEveryFieldThatNamesASecret(t *testing.T) {
	own, cluster := &v1alpha1.AlarmReceiver{}, &v1alpha1.ClusterAlarmReceiver{}
	own.Namespace = "shop"
	for name, tc := range map[string]struct {
		object    receiver.Object
		spec      reflect.Value
		namespace func(path string) string
		read      string // the namespace in which the Secrets are read
	}{
		"alarmreceivers": {own, reflect.ValueOf(&own.Spec).Elem(), func(string) string { return "request.namespace" }, "shop"},
		"clusteralarmreceivers": {cluster, reflect.ValueOf(&cluster.Spec).Elem(), func(path string) string {
			return "string(object." + path + ".namespace.orValue(''))"
		}, "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			fields := nameSecrets(t, tc.spec, "spec")
			slices.Sort(fields)
			policy, err := os.ReadFile("../../../config/admission/" + name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			var checked []string
			for _, match := range checkedField.FindAllStringSubmatch(string(policy), -1) {
				path := strings.ReplaceAll(match[1], ".", ".?")
				if match[3] != path || match[2] != tc.namespace(path) {
					t.Errorf("for %s, the policy checks %s in %s", match[1], match[3], match[2])
				}
				checked = append(checked, match[1])
			}
			slices.Sort(checked)
			if diff := cmp.Diff(fields, checked); diff != "" {
				t.Errorf("fields of the type (-) and of the policy (+):\n%s", diff)
			}

			ofType := map[string]int{}
			for _, field := range fields {
				ofType[strings.Split(field, ".")[1]]++
			}
			for receiverType, n := range ofType {
				if checks := len(checkedIndex.FindAllString(string(policy), -1)); n > checks {
					t.Errorf("%s can name %d Secrets, and the policy checks %d", receiverType, n, checks)
				}
			}

			var watched []string
			for _, secret := range receiver.SecretsOf(tc.object) {
				if secret.Namespace != tc.read {
					t.Errorf("%s is read in the namespace %q", secret.Name, secret.Namespace)
				}
				watched = append(watched, secret.Name)
			}
			slices.Sort(watched)
			if diff := cmp.Diff(fields, watched); diff != "" {
				t.Errorf("fields of the type (-) and Secrets that are watched (+):\n%s", diff)
			}
		})
	}
}
