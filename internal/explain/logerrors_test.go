package explain

import (
	"fmt"
	"strings"
	"testing"
)

// servingPod runs, and is ready.
const servingPod = shopNamespace + `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: p, labels: {app: web}, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {nodeName: node-1, serviceAccountName: web, restartPolicy: Always, containers: [{name: app}]}
status:
  phase: Running
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-03-01T07:00:10Z"}]
  containerStatuses: [{name: app, image: a, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: "2026-03-01T07:00:05Z"}}}]
`

const databaseService = `---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop, uid: s}
spec: {clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9], selector: {app: db}, ports: [{port: 5432}]}
`

// logging returns a cluster in which the container of a pod has a log.
func logging(t *testing.T, objects, pod, log string) *fakeExplainer {
	return (&scene{Objects: objects, Logs: map[string]string{pod: log}}).cluster(t)
}

func TestWhatRunsShowsTheErrorsInItsLog(t *testing.T) {
	fine := strings.Repeat("INFO request served, 0 errors\n", 30)
	for name, tc := range map[string]struct {
		log  string
		want []string
	}{
		"none":                   {log: fine},
		"once":                   {log: fine + "ERROR cannot parse the order 17\n" + fine, want: []string{"1 of the last 61 lines", "| ERROR cannot parse the order 17"}},
		"often, but differently": {log: strings.Repeat("ERROR cannot parse the order 17\nERROR cannot parse the order 18\n", 200) + "ERROR the disk is slow", want: []string{"401 of the last 401 lines", "| ERROR cannot parse the order 17\n  | ERROR the disk is slow\n"}},
		"in JSON":                {log: `{"level":"info","msg":"error rate is 0"}` + "\n" + `{"level":"error","msg":"no such table"}` + "\n", want: []string{"1 of the last 2 lines", "no such table"}},
		"a Service that exists":  {log: "could not connect to db: Connection refused\n", want: []string{"1 of the last 1 line "}},
	} {
		x := logging(t, servingPod, "web/app", tc.log).explains(t, "pods", "web")
		text := written(t, x)
		if x.State != Running || x.Cause != nil || (x.Log != nil) != (tc.want != nil) || strings.Contains(text, "its log has errors") != (tc.want != nil) {
			t.Errorf("%s:\n%s", name, text)
		}
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: it does not say %q:\n%s", name, want, text)
			}
		}
	}
}

func TestErrorsOfWhatRunsAreACauseIfTheyLeadToAProblem(t *testing.T) {
	const policy = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: no-egress, namespace: shop}
spec: {podSelector: {}, policyTypes: [Egress]}
`
	const dbPod = `---
apiVersion: v1
kind: Pod
metadata: {name: db-0, namespace: shop, uid: d, labels: {app: db}, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {nodeName: node-1, containers: [{name: app}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
`
	for name, tc := range map[string]struct{ objects, log, want string }{
		"a Service without pods":        {servingPod + databaseService, "ERROR connection to db failed\nwget: can't connect to remote host (10.96.0.9): Connection refused\nERROR: no order was read\n", `Service "db", which it cannot reach by its log, has a problem`},
		"a policy forbids DNS":          {servingPod + databaseService + dbPod + policy, "NameResolutionError: Failed to resolve 'db'\n", `NetworkPolicy "no-egress" allows the pod no connection to port 53`},
		"a Role lacks a rule":           {servingPod, `Error from server (Forbidden): pods is forbidden: User "system:serviceaccount:shop:web" cannot list resource "pods" in API group "" in the namespace "shop"` + "\nERROR: nothing to do\n", `ServiceAccount "web" of namespace "shop"`},
		"a Service that does not exist": {servingPod, "GET /orders failed: lookup db on 10.96.0.10:53: no such host\n", `cannot resolve "db", and namespace "shop" has no Service of this name`},
		"a Service of a URL":            {servingPod + databaseService, `{"level":"error","msg":"not saved","err":{"message":"connect ECONNREFUSED http://db.shop:5432"}}` + "\n", `Service "db", which it cannot reach by its log, has a problem`},
		"a port that no pod declares":   {servingPod + databaseService + strings.Replace(dbPod, "{name: app}", "{name: app, ports: [{containerPort: 6432}]}", 1), "connect to 10.96.0.9:5432: connection refused\n", "it forwards to port 5432, and its pods declare 6432"},
		"a port that one declares":      {servingPod + databaseService + strings.Replace(dbPod, "{name: app}", "{name: app, ports: [{containerPort: 5432}]}", 1), "connect to 10.96.0.9:5432: connection refused\n", ""},
		"a name outside of the cluster": {servingPod, "lookup db.example.org on 10.96.0.10:53: no such host\n", ""},
		"DNS does not answer":           {servingPod, "lookup db on 10.96.0.10:53: i/o timeout\n", ""},
		"an error of yesterday":         {servingPod + databaseService, "2026-02-28T08:59:00.123456789Z could not connect to db: Connection refused\n", ""},
		"an error of this minute":       {servingPod + databaseService, "2026-03-01T08:59:00.123456789Z could not connect to db: Connection refused\n", `Service "db"`},
		"an error that is over":         {servingPod + databaseService, "could not connect to db: Connection refused\n" + strings.Repeat("INFO served\n", 20), ""},
		"a Service that has pods":       {servingPod + databaseService + dbPod, "could not connect to db: Connection refused\n", ""},
		"the end of a long log":         {servingPod + databaseService, "could not connect to db: Connection refused\n" + strings.Repeat("x", maxRunningBytes), ""},
		"the log cannot be read":        {servingPod + databaseService, "", ""},
		"a host that is no object":      {servingPod, "could not connect to example.org: Connection refused\n", ""},
	} {
		c := logging(t, tc.objects, "web/app", tc.log)
		x := c.explains(t, "pods", "web")
		if (x.Cause != nil) != (tc.want != "") || x.Cause != nil && (x.State != Failing || x.Cause.Reason != reasonErrorsInLog && len(x.Chain) == 0 || !strings.Contains(x.Cause.Message, tc.want)) {
			t.Errorf("%s:\n%s", name, written(t, x))
		}
	}
}

func TestAControllerThatReportsErrorsAboutAnObject(t *testing.T) {
	widget := func(status string) string {
		return shopNamespace + `
apiVersion: example.com/v1
kind: Widget
metadata: {name: blue, namespace: shop, uid: w, creationTimestamp: "2026-03-01T08:40:00Z"}
` + status + `
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: widget-operator, namespace: widgets, uid: o}
spec: {selector: {matchLabels: {app: op}}, template: {metadata: {labels: {app: op}}, spec: {containers: [{name: manager}]}}}
status: {replicas: 1, readyReplicas: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: widget-operator-1, namespace: widgets, uid: p, labels: {app: op}}
spec: {containers: [{name: manager}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
`
	}
	const about = `2026-03-01T08:50:00Z ERROR reconcile failed widget=%s: the license does not cover it` + "\n"
	long := `{"level":"error","msg":"Reconciler error","Widget":{"name":"%s"},"error":"the license does not cover it","stacktrace":"` + strings.Repeat("at main.go ", 50) + `"}` + "\n"
	for name, tc := range map[string]struct {
		status, object string
		want           bool
	}{
		"it has no status":     {"", "blue", true},
		"it is pending":        {"status: {phase: Pending}", "blue", true},
		"it is ready":          {`status: {conditions: [{type: Ready, status: "True"}]}`, "blue", false},
		"about another object": {"", "blue-2", false},
	} {
		for _, line := range []string{about, long} {
			x := logging(t, widget(tc.status), "widget-operator-1/manager", fmt.Sprintf(line, tc.object)).explains(t, "widgets.example.com", "blue")
			if found := x.Cause != nil && strings.Contains(x.Cause.Message, `Deployment "widget-operator" of namespace "widgets", which should process it, reports: `) && strings.Contains(x.Cause.Message, "license"); found != tc.want {
				t.Errorf("%s:\n%s", name, written(t, x))
			}
		}
	}
}

func TestADeploymentThatIsNotScaledSaysWhy(t *testing.T) {
	const objects = shopNamespace + `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 1}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, uid: r, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scale-web, namespace: shop, uid: h}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
status: {currentReplicas: 1, desiredReplicas: 0, conditions: [{type: ScalingActive, status: "False", reason: FailedGetResourceMetric,
  message: "the HPA was unable to compute the replica count: failed to get cpu utilization: missing request for cpu in container app of Pod web-1-a"}]}
`
	for target, want := range map[string]bool{"name: web}}": true, "name: other}}": false} {
		x := fakeCluster(t, strings.Replace(objects, "kind: Deployment, name: web}}\nstatus: {current", "kind: Deployment, "+target+"\nstatus: {current", 1)).explains(t, "deployments.apps", "web")
		if text := written(t, x); x.State != Running || x.Cause != nil || strings.Contains(text, "HorizontalPodAutoscaler scale-web") != want {
			t.Errorf("%s:\n%s", target, text)
		}
	}
}
