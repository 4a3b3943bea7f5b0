package operator_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

var (
	described  = regexp.MustCompile(`fqName: "(bongsu_[^"]+)"`)
	documented = regexp.MustCompile("(?m)^\\| `(bongsu_[^`]+)` \\|")
)

func TestEveryMetricIsDocumented(t *testing.T) {
	o := cluster.Shared(t).StartOperator(t)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		o.Metrics.Describe(descriptions)
	}()
	var want []string
	for d := range descriptions {
		if name := described.FindStringSubmatch(d.String()); name != nil {
			want = append(want, name[1])
		}
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range documented.FindAllSubmatch(page, -1) {
		got = append(got, string(name[1]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-) and docs/operations.md (+):\n%s", diff)
	}
}

func TestMetricsNeedATokenThatCanGetThem(t *testing.T) {
	c, address := cluster.Shared(t), freeAddress(t)
	c.StartOperator(t, func(o *options.Options) { o.MetricsAddress = address })
	g := NewWithT(t)
	token := func(name string) string {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		g.Expect(c.Client.Create(t.Context(), account)).To(Succeed())
		request := &authenticationv1.TokenRequest{}
		g.Expect(c.Client.SubResource("token").Create(t.Context(), account, request)).To(Succeed())
		return request.Status.Token
	}
	allowed, tenant := token("prometheus"), token("tenant")
	g.Expect(c.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bongsu-metrics"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "prometheus"}},
	})).To(Succeed())

	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	scrape := func(token string) func() string {
		return func() string {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			request.Header.Set("Authorization", "Bearer "+token)
			response, err := insecure.Do(request)
			if err != nil {
				return err.Error()
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			g.Expect(err).NotTo(HaveOccurred())
			return response.Status + "\n" + string(body)
		}
	}
	g.Eventually(scrape("")).Should(HavePrefix("401 "))
	g.Expect(scrape("other")()).To(HavePrefix("401 "))
	g.Expect(scrape(tenant)()).To(HavePrefix("403 "))
	g.Eventually(scrape(allowed)).WithTimeout(2 * time.Minute).Should(And(HavePrefix("200 "), ContainSubstring("controller_runtime_")))
}
