package chart_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/chart"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

func render(t *testing.T, namespace string, settings ...string) chart.Manifests {
	t.Helper()
	values, err := chart.Values(nil, settings)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Render(namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// container returns the operator's container.
func container(t *testing.T, objects chart.Manifests) map[string]any {
	t.Helper()
	for _, o := range objects {
		containers, found, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if found {
			return containers[0].(map[string]any)
		}
	}
	t.Fatal("there is no container")
	return nil
}

// parse parses the container's arguments like the operator.
func parse(t *testing.T, objects chart.Manifests) (options.Options, *pflag.FlagSet) {
	t.Helper()
	args, _, _ := unstructured.NestedStringSlice(container(t, objects), "args")
	opts, flags := options.Default(), pflag.NewFlagSet("bongsu-operator", pflag.ContinueOnError)
	opts.AddFlags(flags)
	flags.ParseErrorsAllowlist.UnknownFlags = true // the flags of logging
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := opts.Validate(); err != nil {
		t.Fatal(err)
	}
	return opts, flags
}

func TestTheDefaultValuesMatchTheOperator(t *testing.T) {
	got, _ := parse(t, render(t, "bongsu-system"))
	want := options.Default()
	want.LeaderElect, want.MetricsAddress, want.HealthAddress = true, ":8080", ":8081"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the operator (-) and the chart (+):\n%s", diff)
	}
}

func TestEveryOptionHasAValue(t *testing.T) {
	got, flags := parse(t, render(t, "ops", "controllers={alarm}", `clusterName=prod\, east`, "alarms.deliveryMaxAge=2h",
		"alarms.allowedReceiverAddresses={10.20.0.0/16,fd00::/8}", "alarms.deniedReceiverAddresses={203.0.113.0/24,2600::/32}",
		"alarms.allowedReceiverHosts={hooks.slack.com,*.example.com,2600::1}", "alarms.smtpHelloName=bongsu.example.com", "alarms.outboxMaxSize=64Mi", "alarms.heartbeatInterval=5m",
		"jupyter.image=lab:1", "appService.image=cache:1", "protectedNamespaces={kube-system,payments}", "metrics.secure=false", "secretShare.defaultRule=false", "secretShare.namespaces={shop,vault}"))
	want := options.Options{
		Controllers: []string{"alarm"}, DataDir: "/var/lib/bongsu", LeaderElect: true, Namespace: "ops", ClusterName: "prod, east",
		MetricsAddress: ":8080", HealthAddress: ":8081", AllowedAddresses: []string{"10.20.0.0/16", "fd00::/8"},
		DeniedAddresses: []string{"203.0.113.0/24", "2600::/32"}, AllowedHosts: []string{"hooks.slack.com", "*.example.com", "2600::1"},
		DeliveryMaxAge: 2 * time.Hour, HeartbeatInterval: 5 * time.Minute, SMTPHelloName: "bongsu.example.com", JupyterImage: "lab:1", AppServiceImage: "cache:1",
		OutboxMaxBytes:      resource.QuantityValue{Quantity: resource.MustParse("64Mi")},
		ProtectedNamespaces: []string{"kube-system", "payments"}, ShareNamespaces: []string{"shop", "vault"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			t.Errorf("no value sets --%s", f.Name)
		}
	})
}

// The operator compares the installed policies with those that it expects.
func TestThePoliciesAreThoseThatTheOperatorExpects(t *testing.T) {
	for name, settings := range map[string][]string{
		"defaults":                {},
		"two protected":           {"protectedNamespaces={kube-system,payments}"},
		"no protected namespaces": {"protectedNamespaces=null"},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := render(t, "ops", settings...)
			opts, _ := parse(t, rendered)
			objects, err := config.Objects(feature.All())
			if err != nil {
				t.Fatal(err)
			}
			config.Confine(objects, opts.UserName(), opts.ProtectedNamespaces)
			if diff := cmp.Diff(specsOf(objects), specsOf(rendered)); diff != "" {
				t.Errorf("the operator (-) and the chart (+):\n%s", diff)
			}
		})
	}
}

// specsOf returns the specs of admission policies by name.
func specsOf(objects []*unstructured.Unstructured) map[string]any {
	specs := map[string]any{}
	for _, o := range objects {
		if o.GetKind() == "ValidatingAdmissionPolicy" {
			specs[o.GetName()] = o.Object["spec"]
		}
	}
	return specs
}

// A damaged outbox is kept beside a new one, and SQLite writes a log.
func TestTheVolumeIsThreeTimesTheOutbox(t *testing.T) {
	for _, o := range render(t, "bongsu-system") {
		volumes, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "volumes")
		for _, v := range volumes {
			limit, found, _ := unstructured.NestedString(v.(map[string]any), "emptyDir", "sizeLimit")
			if !found {
				continue
			}
			volume, outbox := resource.MustParse(limit), options.Default().OutboxMaxBytes
			if volume.Value() < 3*outbox.Value() {
				t.Errorf("the volume has %s for an outbox of %s", limit, outbox.String())
			}
			return
		}
	}
	t.Error("the chart has no volume with a limit")
}

func TestInvalidValuesAreRefusedByName(t *testing.T) {
	for name, tc := range map[string]struct {
		setting string
		want    []string
	}{
		"an unknown value":    {"replica=1", []string{"replica"}},
		"an unknown subvalue": {"image.name=x", []string{"/image", "name"}},
		"text for a number":   {"replicas=two", []string{"/replicas", "integer"}},
		"unknown controller":  {"controllers={alarms}", []string{"/controllers/0", "secretshare"}},
		"no controller":       {"controllers=", []string{"/controllers"}},
		"an extension alone":  {"controllers={alarm,appservice-exec}", []string{"controllers: appservice-exec needs appservice"}},
		"no alarms":           {"controllers={jupyter,alarm-secrets}", []string{"controllers: alarm-secrets needs alarm"}},
		"not a CIDR":          {"alarms.allowedReceiverAddresses={10.0.0.1}", []string{"/alarms/allowedReceiverAddresses/0"}},
		"not a denied CIDR":   {"alarms.deniedReceiverAddresses={10.0.0.1}", []string{"/alarms/deniedReceiverAddresses/0"}},
		"a URL for a host":    {"alarms.allowedReceiverHosts={https://a.example}", []string{"/alarms/allowedReceiverHosts/0"}},
		"not a namespace":     {"protectedNamespaces={a'b}", []string{"/protectedNamespaces/0"}},
		"too short a grace":   {"terminationGracePeriodSeconds=1", []string{"/terminationGracePeriodSeconds", "15"}},
		"half a digest":       {"image.digest=sha256:12", []string{"/image/digest"}},
		"not a quantity":      {"resources.limits.memory=lots", []string{"/resources/limits/memory"}},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := chart.Values(nil, []string{tc.setting})
			if err != nil {
				t.Fatal(err)
			}
			_, err = chart.Render("ops", values)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
		})
	}
}

func TestOnlyTheRolesOfEnabledFeaturesAreRendered(t *testing.T) {
	roles := func(objects chart.Manifests) []string {
		var names []string
		for _, o := range objects {
			if o.GroupVersionKind().Group == "rbac.authorization.k8s.io" {
				names = append(names, o.GetKind()+" "+o.GetName())
			}
		}
		return names
	}
	const everyChange = "alarms.changes.configMaps=true"
	all := roles(render(t, "ops", everyChange, "controllers={"+strings.Join(feature.Names(feature.All()), ",")+"}"))
	for _, f := range feature.All() {
		chosen := []feature.Feature{f}
		if needed, extends := f.Needs(); extends {
			chosen = append(chosen, needed)
		}
		want := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
			return slices.ContainsFunc(feature.All(), func(c feature.Feature) bool {
				ofChanges := c == feature.Alarm && strings.Contains(name, " bongsu-changes")
				ofShares := c == feature.SecretShare && strings.HasSuffix(name, " "+config.ShareSecretsRole)
				return !slices.Contains(chosen, c) && (ofChanges || ofShares || strings.HasSuffix(name, " bongsu-"+string(c)))
			})
		})
		if len(want) == len(all) {
			t.Fatalf("there are only roles of %s: %v", chosen, all)
		}
		if diff := cmp.Diff(want, roles(render(t, "ops", everyChange, "controllers={"+strings.Join(feature.Names(chosen), ",")+"}"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", chosen, diff)
		}
	}
}

func TestAValueChoosesWhatAlarmsOnChangesCanWatch(t *testing.T) {
	for name, tc := range map[string]struct{ settings, want []string }{
		"default":    {nil, []string{"bongsu-changes", "bongsu-changes-builtin"}},
		"nothing":    {[]string{"alarms.changes.builtin=false"}, []string{"bongsu-changes"}},
		"ConfigMaps": {[]string{"alarms.changes.configMaps=true"}, []string{"bongsu-changes", "bongsu-changes-builtin", "bongsu-changes-configmaps"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, o := range render(t, "ops", tc.settings...) {
				if o.GetKind() == "ClusterRole" && strings.HasPrefix(o.GetName(), "bongsu-changes") {
					got = append(got, o.GetName())
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSharedSecretsOfSomeNamespacesNeedNoClusterRoleBinding(t *testing.T) {
	var got []string
	for _, o := range render(t, "ops", "controllers={secretshare}", "secretShare.namespaces={shop,vault}") {
		if role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name"); role == config.ShareSecretsRole {
			got = append(got, o.GetKind()+" "+o.GetNamespace())
		}
	}
	if diff := cmp.Diff([]string{"RoleBinding shop", "RoleBinding vault"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoDefaultRoleRunsCommandsInPodsOrReachesThem(t *testing.T) {
	for _, o := range render(t, "ops") {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if o.GroupVersionKind().Group == "rbac.authorization.k8s.io" && (strings.Contains(string(text), "pods/exec") || strings.Contains(string(text), "pods/proxy")) {
			t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), text)
		}
	}
}

func TestRolesOfUsersAreAggregatedUnlessAValueForbidsIt(t *testing.T) {
	aggregated := func(objects chart.Manifests) (all []string) {
		for _, o := range objects {
			for label := range o.GetLabels() {
				if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") {
					all = append(all, o.GetName()+" "+label)
				}
			}
		}
		return all
	}
	want := []string{"bongsu-edit rbac.authorization.k8s.io/aggregate-to-edit", "bongsu-view rbac.authorization.k8s.io/aggregate-to-view"}
	if diff := cmp.Diff(want, aggregated(render(t, "ops"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := aggregated(render(t, "ops", "userRoles.aggregate=false")); len(got) > 0 {
		t.Errorf("still aggregated: %v", got)
	}
}

// networkPolicy returns the spec of the NetworkPolicy.
func networkPolicy(t *testing.T, objects chart.Manifests) map[string]any {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == "NetworkPolicy" {
			return o.Object["spec"].(map[string]any)
		}
	}
	t.Fatal("there is no NetworkPolicy")
	return nil
}

func TestTheNetworkPolicyKeepsThePortOfHealthForTheNode(t *testing.T) {
	rule := func(port int, from ...any) map[string]any {
		rule := map[string]any{"ports": []any{map[string]any{"port": float64(port), "protocol": "TCP"}}}
		if len(from) > 0 {
			rule["from"] = from
		}
		return rule
	}
	from := "networkPolicy.healthFrom[0].ipBlock.cidr=10.0.0.0/8"
	peer := map[string]any{"ipBlock": map[string]any{"cidr": "10.0.0.0/8"}}
	for name, tc := range map[string]struct {
		values []string
		want   any
	}{
		"by default":            {nil, []any{rule(8080)}},
		"with peers":            {[]string{from}, []any{rule(8081, peer), rule(8080)}},
		"without metrics":       {[]string{"metrics.enabled=false"}, nil},
		"peers without metrics": {[]string{from, "metrics.enabled=false"}, []any{rule(8081, peer)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := networkPolicy(t, render(t, "ops", tc.values...))
			if diff := cmp.Diff(tc.want, got["ingress"]); diff != "" || !slices.Contains(got["policyTypes"].([]any), any("Ingress")) {
				t.Errorf("%v (-want +got):\n%s", got["policyTypes"], diff)
			}
		})
	}
}

func TestTheNetworkPolicyRestrictsOutgoingConnectionsIfAValueAsksForIt(t *testing.T) {
	if got := networkPolicy(t, render(t, "ops")); got["egress"] != nil || len(got["policyTypes"].([]any)) != 1 {
		t.Errorf("without rules: %v", got)
	}
	got := networkPolicy(t, render(t, "ops", "networkPolicy.egress[0].ports[0].port=443"))
	want := []any{map[string]any{"ports": []any{map[string]any{"port": float64(443)}}}}
	if diff := cmp.Diff(want, got["egress"]); diff != "" || !slices.Contains(got["policyTypes"].([]any), any("Egress")) {
		t.Errorf("%v (-want +got):\n%s", got["policyTypes"], diff)
	}
}

func TestAllManifestsAreInTheNamespaceOfTheRelease(t *testing.T) {
	objects, err := chart.Everything("ops")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			continue // their field documentation may mention it
		}
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "bongsu-system") {
			t.Errorf("%s %s mentions bongsu-system", o.GetKind(), o.GetName())
		}
		if namespace := o.GetNamespace(); namespace != "" && namespace != "ops" {
			t.Errorf("%s %s is in %s", o.GetKind(), o.GetName(), namespace)
		}
	}
}
