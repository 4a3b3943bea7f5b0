package appservice_test

import (
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestTheAPIServerRefusesAWrongAppServiceAndNamesTheField(t *testing.T) {
	c := cluster.Shared(t)
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	const (
		oneCheck  = "set exactly one of exec and httpGet"
		amount    = "must be a number from 0 to 1000, or a percentage from 0% to 100%"
		oneBackup = "set exactly one of exec and jobTemplate"
		get       = "httpGet: {port: 80}"
	)
	job := "backup: {jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: b}]}}}}, "
	// list is a list of n items, whose %d is the number of the item.
	list := func(n int, item string) string {
		var text strings.Builder
		for i := range n {
			text.WriteString(strings.ReplaceAll(item, "%d", strconv.Itoa(i)) + ",")
		}
		return "[" + text.String() + "]"
	}
	container := func(field string) string {
		return "size: 1\ntemplate: {spec: {containers: [{name: a, " + field + "}]}}"
	}
	for name, tc := range map[string]struct{ spec, want string }{
		"65 containers":                   {"size: 1\ntemplate: {spec: {containers: " + list(65, "{name: a%d}") + "}}", "spec.template.spec.containers: Too many: 65: must have at most 64 items"},
		"65 init containers":              {"size: 1\ntemplate: {spec: {initContainers: " + list(65, "{name: a%d}") + "}}", "spec.template.spec.initContainers: Too many: 65: must have at most 64 items"},
		"65 containers of a job's pod":    {"size: 1\nbackup: {jobTemplate: {spec: {template: {spec: {containers: " + list(65, "{name: a%d}") + "}}}}}", "spec.template.spec.containers: Too many: 65: must have at most 64 items"},
		"257 volumes":                     {"size: 1\ntemplate: {spec: {volumes: " + list(257, "{name: a%d, emptyDir: {}}") + "}}", "spec.template.spec.volumes: Too many: 257: must have at most 256 items"},
		"1001 ports of a container":       {container("ports: " + list(1001, "{containerPort: %d}")), "spec.template.spec.containers[0].ports: Too many: 1001: must have at most 1000 items"},
		"1001 variables":                  {container("env: " + list(1001, "{name: A%d}")), "spec.template.spec.containers[0].env: Too many: 1001: must have at most 1000 items"},
		"1001 arguments":                  {container("args: " + list(1001, "a%d")), "spec.template.spec.containers[0].args: Too many: 1001: must have at most 1000 items"},
		"no size":                         {"image: a", "spec.size: Required value"},
		"less than none":                  {"size: -1", "spec.size: Invalid value"},
		"too many":                        {"size: 1001", "spec.size: Invalid value"},
		"an unknown field":                {"size: 1\nreplicas: 2", `unknown field "spec.replicas"`},
		"an empty image":                  {"size: 1\nimage: ''", "spec.image: Invalid value"},
		"a service account in capitals":   {"size: 1\nserviceAccountName: Me", "spec.serviceAccountName: Invalid value"},
		"a port of no number":             {"size: 1\nports: [{name: http, containerPort: 0}]", "spec.ports[0].containerPort: Invalid value"},
		"a checked port beyond 32 bits":   {"size: 1\nhealthCheck: {httpGet: {port: 99999999999}}", "spec.healthCheck.httpGet.port: Invalid value"},
		"a surge beyond 32 bits":          {"size: 1\nstrategy: {rollingUpdate: {maxSurge: 99999999999}}", "spec.strategy.rollingUpdate.maxSurge: Invalid value"},
		"a port in capitals":              {"size: 1\nports: [{name: HTTP, containerPort: 80}]", "spec.ports[0].name: Invalid value"},
		"a port twice":                    {"size: 1\nports: [{name: a, containerPort: 80}, {name: a, containerPort: 81}]", "spec.ports[1]: Duplicate value"},
		"an unknown protocol":             {"size: 1\nports: [{name: a, containerPort: 80, protocol: QUIC}]", "spec.ports[0].protocol: Unsupported value"},
		"an unknown service":              {"size: 1\nservice: {type: LoadBalancer}", "spec.service.type: Unsupported value"},
		"a check of nothing":              {"size: 1\nhealthCheck: {}", oneCheck},
		"a check of both":                 {"size: 1\nhealthCheck: {exec: {command: [a]}, " + get + "}", oneCheck},
		"a command of nothing":            {"size: 1\nhealthCheck: {exec: {command: []}}", "spec.healthCheck.exec.command: Invalid value"},
		"a host":                          {"size: 1\nhealthCheck: {httpGet: {port: 80, host: example.org}}", "httpGet.host is not supported"},
		"a transport of a command":        {"size: 1\nhealthCheck: {exec: {command: [a]}, transport: APIServer}", "transport is for httpGet"},
		"an unknown transport":            {"size: 1\nhealthCheck: {transport: Tunnel, " + get + "}", "spec.healthCheck.transport: Unsupported value"},
		"checked without a pause":         {"size: 1\nhealthCheck: {periodSeconds: 0, " + get + "}", "spec.healthCheck.periodSeconds: Invalid value"},
		"longer than its period":          {"size: 1\nhealthCheck: {periodSeconds: 5, timeoutSeconds: 6, " + get + "}", "timeoutSeconds (1 if unset) must not be more than periodSeconds (10 if unset): lower timeoutSeconds, or raise periodSeconds"},
		"no failures":                     {"size: 1\nhealthCheck: {failureThreshold: 0, " + get + "}", "spec.healthCheck.failureThreshold: Invalid value"},
		"no successes":                    {"size: 1\nhealthCheck: {successThreshold: 0, " + get + "}", "spec.healthCheck.successThreshold: Invalid value"},
		"an unknown remedy":               {"size: 1\nhealthCheck: {remedy: Pray, " + get + "}", "spec.healthCheck.remedy: Unsupported value"},
		"a limit of no remedy":            {"size: 1\nhealthCheck: {maxRestartsPerHour: 1, " + get + "}", "maxRestartsPerHour is for remedy Restart"},
		"a restart a minute":              {"size: 1\nhealthCheck: {remedy: Restart, maxRestartsPerHour: 61, " + get + "}", "spec.healthCheck.maxRestartsPerHour: Invalid value"},
		"a backup of nothing":             {"size: 1\nbackup: {}", oneBackup},
		"a backup of both":                {"size: 1\n" + job + "exec: {command: [a]}}", oneBackup},
		"a backup of no time":             {"size: 1\n" + job + "deadlineSeconds: 0}", "spec.backup.deadlineSeconds: Invalid value"},
		"an unknown answer to a failure":  {"size: 1\n" + job + "onFailure: Ignore}", "spec.backup.onFailure: Unsupported value"},
		"an unknown deletion policy":      {"size: 1\ndeletionPolicy: Keep", "spec.deletionPolicy: Unsupported value"},
		"an unknown strategy":             {"size: 1\nstrategy: {type: OnDelete}", "spec.strategy.type: Unsupported value"},
		"limits of Recreate":              {"size: 1\nstrategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}", "rollingUpdate is for type RollingUpdate only"},
		"an update that cannot move":      {"size: 1\nstrategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}", "maxUnavailable and maxSurge must not both be 0"},
		"a negative surge":                {"size: 1\nstrategy: {rollingUpdate: {maxSurge: -1}}", amount},
		"a surge of no number":            {"size: 1\nstrategy: {rollingUpdate: {maxSurge: 25}}\ndisruptionBudget: {maxUnavailable: half}", amount},
		"a surge beyond all numbers":      {"size: 1\nstrategy: {rollingUpdate: {maxSurge: 99999999999}}", amount},
		"more than all missing":           {"size: 1\nstrategy: {rollingUpdate: {maxUnavailable: 101%}}", amount},
		"spread over nothing":             {"size: 1\ntopologySpread: [{maxSkew: 1}]", "spec.topologySpread[0].topologyKey: Required value"},
		"spread over no label":            {"size: 1\ntopologySpread: [{topologyKey: 'a b'}]", "spec.topologySpread[0].topologyKey: Invalid value"},
		"spread twice":                    {"size: 1\ntopologySpread: [{topologyKey: a}, {topologyKey: a, whenUnsatisfiable: DoNotSchedule}]", "spec.topologySpread[1]: Duplicate value"},
		"spread without a difference":     {"size: 1\ntopologySpread: [{topologyKey: a, maxSkew: 0}]", "spec.topologySpread[0].maxSkew: Invalid value"},
		"spread in an unknown way":        {"size: 1\ntopologySpread: [{topologyKey: a, whenUnsatisfiable: Never}]", "spec.topologySpread[0].whenUnsatisfiable: Unsupported value"},
		"groups that are only a wish":     {"size: 1\ntopologySpread: [{topologyKey: a, minDomains: 2}]", "minDomains is for whenUnsatisfiable DoNotSchedule only"},
		"spread in two places":            {"size: 1\ntopologySpread: [{topologyKey: a}]\ntemplate: {spec: {topologySpreadConstraints: [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}}", "must not both be set"},
		"a budget of nothing":             {"size: 1\ndisruptionBudget: {}", "set exactly one of minAvailable and maxUnavailable"},
		"a budget of both":                {"size: 1\ndisruptionBudget: {minAvailable: 1, maxUnavailable: 1}", "set exactly one of minAvailable and maxUnavailable"},
		"a budget beyond all numbers":     {"size: 1\ndisruptionBudget: {minAvailable: 1e30}", "spec.disruptionBudget.minAvailable"},
		"an unknown field of a job's pod": {"size: 1\nbackup: {jobTemplate: {spec: {template: {spec: {nodePool: a}}}}}", `unknown field "spec.backup.jobTemplate.spec.template.spec.nodePool"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := strict.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindAppService, metav1.NamespaceDefault, "wrong", tc.spec), client.DryRunAll)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestTheAPIServerRefusesANameThatChildrenCannotHave(t *testing.T) {
	c := cluster.Shared(t)
	for name, ok := range map[string]bool{
		"a": true, "web-1": true, strings.Repeat("a", 52): true,
		strings.Repeat("a", 53): false, "web.mine": false, "1web": false,
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Client.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindAppService, metav1.NamespaceDefault, name, "size: 1"), client.DryRunAll)
			if ok {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("metadata.name: Invalid value"), ContainSubstring("must be a DNS label of at most 52 characters"))))
			}
		})
	}
}
