package samples_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config/samples"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// The API server takes each sample, and what is made of it.
func TestEachSampleNotebookIsAllowed(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	objects, err := samples.Jupyters()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	for _, o := range objects {
		t.Run(o.GetName(), func(t *testing.T) {
			g := NewWithT(t)
			o.SetNamespace(namespace)
			g.Expect(strict.Create(t.Context(), o, client.DryRunAll)).To(Succeed())
			j := &v1alpha1.Jupyter{}
			g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, j)).To(Succeed())
			pod, refused := workload.NotebookPod(j, "default")
			g.Expect(refused).To(BeEmpty())

			children := []client.Object{workload.NotebookStatefulSet(j, pod), workload.NotebookService(j), workload.NotebookToken(j, "token")}
			if claim := workload.NotebookClaim(j); claim != nil {
				children = append(children, claim)
			}
			if ingress := workload.NotebookIngress(j); ingress != nil {
				children = append(children, ingress)
			}
			for _, child := range children {
				g.Expect(c.Client.Create(t.Context(), child, client.DryRunAll)).To(Succeed())
			}
		})
	}
}
