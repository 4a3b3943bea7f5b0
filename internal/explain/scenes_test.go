package explain

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	fakerest "k8s.io/client-go/rest/fake"
	"sigs.k8s.io/yaml"
)

// scene is a cluster in which the root of a problem is several references away from the explained object, or
// that has none.
type scene struct {
	// Target is the type and the name of the explained object.
	Target string `json:"target"`
	// Namespace is "shop" if it is left out, and empty for an object of the cluster.
	Namespace *string `json:"namespace"`
	// Root says what is wrong.
	Root string `json:"root"`
	// Says and SaysNot are regular expressions for the text of the explanation.
	Says    []string `json:"says"`
	SaysNot []string `json:"saysNot"`
	// Harmless means that there is no problem.
	Harmless bool   `json:"harmless"`
	Objects  string `json:"objects"`
	// Logs are the logs of containers, by POD/CONTAINER.
	Logs map[string]string `json:"logs"`
}

// readScenes returns the scenes in testdata, by name.
func readScenes(t *testing.T) map[string]scene {
	t.Helper()
	files, err := filepath.Glob("testdata/scenes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenes: %v", len(files), err)
	}
	scenes := map[string]scene{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var s scene
		if err := yaml.UnmarshalStrict(data, &s); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		scenes[strings.TrimSuffix(filepath.Base(f), ".yaml")] = s
	}
	return scenes
}

// cluster returns an Explainer of the scene.
func (s *scene) cluster(t *testing.T) *fakeExplainer {
	e := fakeCluster(t, s.Objects)
	e.logs = loggedPods{e.logs.Pods(""), s.Logs}
	return e
}

// loggedPods answers requests for logs with texts, by pod/container.
type loggedPods struct {
	corev1client.PodInterface
	logs map[string]string
}

func (l loggedPods) Pods(string) corev1client.PodInterface { return l }

func (l loggedPods) GetLogs(pod string, opts *corev1.PodLogOptions) *rest.Request {
	text, ok := l.logs[pod+"/"+opts.Container]
	code := http.StatusOK
	if !ok {
		code = http.StatusNotFound
	}
	c := &fakerest.RESTClient{
		Client: fakerest.CreateHTTPClient(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(text))}, nil
		}),
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		GroupVersion:         corev1.SchemeGroupVersion,
		VersionedAPIPath:     "/api/v1/namespaces/shop/pods/" + pod + "/log",
	}
	return c.Request()
}

func TestTheRootIsFoundSeveralReferencesAway(t *testing.T) {
	for name, s := range readScenes(t) {
		t.Run(name, func(t *testing.T) {
			e, namespace := s.cluster(t), "shop"
			if s.Namespace != nil {
				namespace = *s.Namespace
			}
			resource, object, _ := strings.Cut(s.Target, " ")
			x, err := e.Explain(t.Context(), schema.ParseGroupResource(resource), namespace, object)
			if err != nil {
				t.Fatal(err)
			}
			got := written(t, x)
			if s.Harmless != (x.Cause == nil) {
				t.Errorf("harmless: %t", s.Harmless)
			}
			for _, r := range s.Says {
				if !regexp.MustCompile("(?is)" + r).MatchString(got) {
					t.Errorf("it does not say %s", r)
				}
			}
			for _, r := range s.SaysNot {
				if regexp.MustCompile("(?is)" + r).MatchString(got) {
					t.Errorf("it says %s", r)
				}
			}
			if t.Failed() {
				t.Logf("the root: %s\n%s", s.Root, got)
			}
		})
	}
}
