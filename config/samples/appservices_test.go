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
func TestEachSampleAppIsAllowed(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	objects, err := samples.AppServices()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(objects).NotTo(BeEmpty())
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	for _, o := range objects {
		t.Run(o.GetName(), func(t *testing.T) {
			g := NewWithT(t)
			o.SetNamespace(namespace)
			g.Expect(strict.Create(t.Context(), o, client.DryRunAll)).To(Succeed())
			a := &v1alpha1.AppService{}
			g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, a)).To(Succeed())
			pod, refused := workload.AppPod(a, "default")
			g.Expect(refused).To(BeEmpty())

			children := []client.Object{workload.AppDeployment(a, pod)}
			if service := workload.AppNetworkService(a); service != nil {
				children = append(children, service)
			}
			if a.Spec.Backup != nil && a.Spec.Backup.JobTemplate != nil {
				job, refused := workload.BackupJob(a)
				g.Expect(refused).To(BeEmpty())
				children = append(children, job)
			}
			for _, child := range children {
				g.Expect(c.Client.Create(t.Context(), child, client.DryRunAll)).To(Succeed())
			}
		})
	}
}
