package open

import (
	"context"
	"html"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// newTestSession returns a session whose client counts the reads and answers them with a
// function.
func newTestSession(out *strings.Builder, read func(n int, o client.Object) error) (s *session, reads *int) {
	reads = new(int)
	return &session{
		Config: Config{
			Namespace: "lab", Name: "nb", Address: net.IPv4(127, 0, 0, 1), PrintURL: true, Out: out,
			Status: func(line string) { out.WriteString(line + "\n") }, Clock: clock.RealClock{}, PodInterval: 10 * time.Second,
		},
		localPort: 8888,
		api: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
				*reads++
				return read(*reads, o)
			},
		}).Build(),
	}, reads
}

func TestThePageForTheBrowserLeadsToItsURL(t *testing.T) {
	g := NewWithT(t)
	var out strings.Builder
	s, _ := newTestSession(&out, nil)
	defer s.removePage()
	const target = "http://127.0.0.1:8888/team/?token=a+b%26c%22%3E%3Cscript%3E%27%2B%3B"
	path, err := s.writePage(target)
	g.Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	links := regexp.MustCompile(`(?:url=|href=")([^"]*)">`).FindAllStringSubmatch(string(content), -1)
	g.Expect(links).To(HaveLen(2))
	for _, link := range links {
		g.Expect(html.UnescapeString(link[1])).To(Equal(target))
	}
	s.removePage()

	path, err = s.writePage(`http://127.0.0.1:8888/"><script>`)
	g.Expect(err).NotTo(HaveOccurred())
	content, err = os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).NotTo(ContainSubstring("<script>"), "the URL is escaped")
}

func TestThePageForTheBrowserIsRemovedAfterFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var out strings.Builder
		s, _ := newTestSession(&out, nil)
		pages := make(chan string, 1)
		s.Browse = func(page string) error { pages <- page; return nil }
		s.handOver(t.Context(), "http://127.0.0.1:8888/?token=a")
		page := <-pages
		synctest.Wait()
		g.Expect(page).To(BeARegularFile())
		time.Sleep(pageLifetime)
		synctest.Wait()
		g.Expect(filepath.Dir(page)).NotTo(BeADirectory())
		g.Expect(out.String()).To(BeEmpty())
	})
}

func TestAnAddressIsAnnouncedWhenItChanges(t *testing.T) {
	var out strings.Builder
	s, _ := newTestSession(&out, nil)
	for _, to := range []struct{ prefix, token string }{{"/a", "old"}, {"/a", "old"}, {"/a", "new"}, {"/b", "new"}} {
		s.token = to.token
		s.connected(t.Context(), to.prefix)
	}
	NewWithT(t).Expect(out.String()).To(Equal(`jupyter lab/nb is at http://127.0.0.1:8888/a/ until you press Ctrl-C
http://127.0.0.1:8888/a/?token=old
connected to jupyter lab/nb again
http://127.0.0.1:8888/a/?token=new
jupyter lab/nb is at http://127.0.0.1:8888/b/ until you press Ctrl-C
http://127.0.0.1:8888/b/?token=new
`))
}

func TestThePodIsCheckedSeldom(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "nb-0", nil)
	for name, tc := range map[string]struct {
		last  error
		uid   types.UID
		cause string
	}{
		"replaced":  {uid: "b", cause: "the notebook's pod was replaced"},
		"deleted":   {last: apierrors.NewNotFound(corev1.Resource("pods"), "nb-0"), cause: "the notebook's pod was replaced"},
		"forbidden": {last: forbidden, cause: "check the notebook's pod: " + forbidden.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var out strings.Builder
				s, reads := newTestSession(&out, func(n int, o client.Object) error {
					o.SetUID("a")
					switch n {
					case 3:
						return apierrors.NewServiceUnavailable("busy")
					case 360:
						o.SetUID(tc.uid)
						return tc.last
					}
					return nil
				})
				start := time.Now()
				ctx, stop := context.WithCancelCause(t.Context())
				s.watchPod(ctx, client.ObjectKey{Name: "nb-0"}, "a", stop)
				g.Expect(time.Since(start)).To(Equal(time.Hour))
				g.Expect(*reads).To(Equal(360))
				g.Expect(context.Cause(ctx)).To(MatchError(tc.cause))
			})
		})
	}
}

func TestAReadOfThePodThatFailsIsNotItsAbsence(t *testing.T) {
	j := &v1alpha1.Jupyter{Spec: v1alpha1.JupyterSpec{Access: v1alpha1.JupyterAccess{Path: "/spec"}}}
	var out strings.Builder
	for name, tc := range map[string]struct {
		err  error
		fail bool
	}{
		"busy":      {apierrors.NewServiceUnavailable("busy"), true},
		"forbidden": {apierrors.NewForbidden(corev1.Resource("pods"), "nb-0", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, _ := newTestSession(&out, func(int, client.Object) error { return tc.err })
			server, err := s.server(t.Context(), j)
			if tc.fail {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(server).To(Equal(running{prefix: "/spec", port: 8888}))
		})
	}
}

func TestANotebookIsNotStartedWithoutPermission(t *testing.T) {
	g := NewWithT(t)
	var out strings.Builder
	s, _ := newTestSession(&out, func(_ int, o client.Object) error {
		o.(*v1alpha1.Jupyter).Spec.Suspend = true
		return nil
	})
	s.Resume = true
	s.api = interceptor.NewClient(s.api.(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return nil }, // allows nothing
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			t.Error("the notebook was started")
			return nil
		},
	})
	g.Expect(s.run(t.Context())).To(MatchError(ContainSubstring("you may not create pods/portforward in namespace lab")))
}
