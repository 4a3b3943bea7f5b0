package operator_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/operator"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/operator/permissions"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestTheInstalledRolesGrantAllNeededPermissions(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	before := len(reviews(t, c))
	health := freeAddress(t)
	o := c.StartOperator(t, func(o *options.Options) { o.HealthAddress = health })
	g.Eventually(func() string { return get(t, health, "/readyz") }).Should(Equal("ok"))
	g.Expect(get(t, health, "/readyz/permissions")).To(Equal("ok"))
	g.Expect(missing(t, o.Metrics)).To(BeEmpty())

	needed, err := permissions.Needed("bongsu-system", feature.All())
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() int { return len(reviews(t, c)) - before }).Should(Equal(len(needed)))
	t.Logf("%d permissions", len(needed))
}

func TestAMissingPermissionIsReportedUntilItIsGranted(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	grant := withhold(t, c, "bongsu", "events.k8s.io", "events", "create")
	health := freeAddress(t)
	o := c.StartOperator(t, func(o *options.Options) { o.HealthAddress = health })
	const want = `cannot create events in API group "events.k8s.io": add it to ClusterRole bongsu`
	g.Eventually(func() string { return get(t, health, "/readyz/permissions") }).Should(Equal("internal server error: " + want))
	g.Expect(get(t, health, "/readyz")).To(ContainSubstring("[-]permissions failed"))
	g.Expect(get(t, health, "/healthz")).To(Equal("ok"), "it is alive")
	g.Expect(strings.Count(o.Log.String(), want)).To(Equal(1))
	g.Expect(missing(t, o.Metrics)).To(Equal([]string{"events.k8s.io events create"}))

	grant()
	g.Eventually(func() string { return get(t, health, "/readyz") }).Should(Equal("ok"))
	g.Expect(missing(t, o.Metrics)).To(BeEmpty())
}

// While a cache cannot be filled, the manager starts only servers. A cache can be filled
// with either permission, because a watch can begin with the existing objects.
func TestMissingPermissionsToReadAreReportedWhileACacheIsEmpty(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	grant := withhold(t, c, "bongsu-alarm", "bongsu.io", "clusteralarms", "list", "watch")
	opts := options.Default()
	opts.DataDir, opts.HealthAddress = t.TempDir(), freeAddress(t)
	operator, err := operator.New(t.Context(), operator.Config{
		REST: c.OperatorConfig(t), Options: opts, Out: io.Discard, Log: logr.Discard(), Metrics: prometheus.NewRegistry(),
	})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- operator.Start(ctx) }()
	g.Eventually(func() string { return get(t, opts.HealthAddress, "/readyz/permissions") }).
		Should(ContainSubstring(`cannot list, watch clusteralarms in API group "bongsu.io": add it to ClusterRole bongsu-alarm`))
	grant()
	g.Eventually(func() string { return get(t, opts.HealthAddress, "/readyz/permissions") }).Should(Equal("ok"))
	g.Expect(operator.AtWork(ctx)).To(Succeed())
	stop()
	g.Eventually(ended).Should(Receive(BeNil()))
}

// withhold removes permissions from a role of the operator, as if the role were that of an
// earlier version. It restores them when grant is called or the test ends.
func withhold(t *testing.T, c *cluster.Cluster, name, group, resource string, verbs ...string) (grant func()) {
	t.Helper()
	g := NewWithT(t)
	role := &rbacv1.ClusterRole{}
	g.Expect(c.Client.Get(t.Context(), client.ObjectKey{Name: name}, role)).To(Succeed())
	whole := role.DeepCopy().Rules
	for i, rule := range whole {
		if slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) {
			role.Rules[i].Resources = slices.DeleteFunc(role.Rules[i].Resources, func(r string) bool { return r == resource })
			role.Rules = append(role.Rules, cluster.Rule(group, resource,
				slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return slices.Contains(verbs, v) })...))
		}
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Resources) == 0 || len(r.Verbs) == 0 })
	g.Expect(c.Client.Update(t.Context(), role)).To(Succeed())
	grant = func() {
		t.Helper()
		role.Rules = whole
		g.Expect(c.Client.Update(context.Background(), role)).To(Succeed())
		awaitAllowed(g, c, group, resource, verbs[0], true)
	}
	t.Cleanup(grant)
	awaitAllowed(g, c, group, resource, verbs[0], false)
	return grant
}

// awaitAllowed waits until the API server uses the changed role.
func awaitAllowed(g *WithT, c *cluster.Cluster, group, resource, verb string, allowed bool) {
	review := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               audit.Operator,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Verb: verb},
	}}
	g.Eventually(func() (bool, error) {
		answer := review.DeepCopy()
		err := c.Client.Create(context.Background(), answer)
		return answer.Status.Allowed, err
	}).Should(Equal(allowed))
}

// reviews returns the operator's requests for its own permissions.
func reviews(t *testing.T, c *cluster.Cluster) []audit.Request {
	t.Helper()
	return slices.DeleteFunc(audit.Requests(t, c.AuditLog(), audit.Operator), func(r audit.Request) bool {
		return r.Resource != "selfsubjectaccessreviews"
	})
}

// missing returns group, resource and verb of each series of the metric.
func missing(t *testing.T, registry *prometheus.Registry) (series []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "bongsu_permissions_missing" {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			series = append(series, strings.Join(labels, " "))
		}
	}
	return series
}

// freeAddress returns an address on which no process listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// get returns the body of the response, or the error.
func get(t *testing.T, address, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(body))
}
