package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const notebookManifests = `
{apiVersion: v1, kind: Namespace, metadata: {name: lab}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: lab}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: e2e
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: %q}
---
apiVersion: bongsu.io/v1alpha1
kind: Jupyter
metadata: {name: research, namespace: lab}
spec:
  image: %q
  storage: {size: 1Gi, storageClassName: e2e}
  culling: {idleTimeoutSeconds: 60, warningSeconds: 20, periodSeconds: 10}
  template:
    spec:
      terminationGracePeriodSeconds: 5
      containers: [{name: notebook, imagePullPolicy: Never}]
`

// startNotebook makes a notebook, asks its server as its user would, and leaves a file
// behind. From then on nobody uses it.
func (w *world) startNotebook(t *testing.T) {
	volume, err := w.worker.MakeVolume("lab")
	if err != nil {
		t.Fatal(err)
	}
	w.apply(t, fmt.Sprintf(notebookManifests, volume, notebookImage))
	w.await(t, "jupyter/research", "lab", condition("Ready"), "True")

	g := NewWithT(t)
	token := w.token(t)
	g.Eventually(func() int { status, _ := w.ask(t, http.MethodGet, "/api/status", token, ""); return status }).Should(Equal(http.StatusOK))
	status, _ := w.ask(t, http.MethodGet, "/api/status", "not-"+token, "")
	g.Expect(status).To(Equal(http.StatusForbidden))
	status, body := w.ask(t, http.MethodPut, "/api/contents/kept.txt", token, `{"type": "file", "format": "text", "content": "as it was"}`)
	g.Expect(status).To(Equal(http.StatusCreated), body)
}

// cullNotebook waits until the notebook is stopped, and starts it again.
func (w *world) cullNotebook(t *testing.T) {
	w.await(t, "jupyter/research", "lab", "{.spec.suspend}", "true")
	w.await(t, "pods", "lab", "{.items[*].metadata.name}", "")
	w.kubectl(t, "patch", "jupyter", "research", "-n", "lab", "--type=merge", "-p", `{"spec":{"suspend":false}}`)
	w.await(t, "jupyter/research", "lab", condition("Ready"), "True")
	g := NewWithT(t)
	g.Eventually(func() string {
		_, body := w.ask(t, http.MethodGet, "/api/contents/kept.txt", w.token(t), "")
		return body
	}).Should(ContainSubstring("as it was"))
}

// token is that of the Secret which was made for the notebook.
func (w *world) token(t *testing.T) string {
	t.Helper()
	token, err := base64.StdEncoding.DecodeString(w.get(t, "secret/research-token", "lab", "{.data.token}"))
	if err != nil || len(token) == 0 {
		t.Fatalf("the notebook's token cannot be read: %v", err)
	}
	return string(token)
}

// ask asks the server at the address of its Service, by kube-proxy. No answer is 0.
func (w *world) ask(t *testing.T, method, path, token, body string) (status int, answer string) {
	t.Helper()
	service := w.get(t, "service/research", "lab", "{.spec.clusterIP}")
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+service+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "token "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}
