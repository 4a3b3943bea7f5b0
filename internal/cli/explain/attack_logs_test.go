package explain

import (
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	fakerest "k8s.io/client-go/rest/fake"
)

// loggedPods answers requests for logs with texts, by pod/container.
type loggedPods struct {
	corev1client.PodInterface
	logs map[string]string
}

func fakeLogs(logs map[string]string) corev1client.PodsGetter {
	return loggedPods{kubefake.NewClientset().CoreV1().Pods("shop"), logs}
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
