package controller

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bongsu-io/bongsu/pkg/localcluster"

	cachev1alpha1 "github.com/bongsu-io/bongsu/samples/memcached-operator/api/v1alpha1"
	// +kubebuilder:scaffold:imports
)

var (
	cfg       *rest.Config
	k8sClient client.Client
)

// TestMain runs the tests on a real control plane. Its nodes and pods are simulated.
func TestMain(m *testing.M) {
	log.SetLogger(zap.New(zap.UseDevMode(true)))
	RegisterFailHandler(func(message string, _ ...int) { panic(message) })
	cluster := localcluster.Config{Components: localcluster.Everything(), Nodes: 1, UnsafeNoFsync: true}
	localcluster.Main(m, cluster, func(c *localcluster.Cluster) (err error) {
		err = cachev1alpha1.AddToScheme(scheme.Scheme)
		Expect(err).NotTo(HaveOccurred())

		// +kubebuilder:scaffold:scheme

		cfg = c.RESTConfig()
		_, err = envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{
			Paths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfPathMissing: true,
		})
		Expect(err).NotTo(HaveOccurred())
		k8sClient, err = client.New(cfg, client.Options{Scheme: scheme.Scheme})
		return err
	})
}

// startManager runs a controller until the test ends, or until stop is called.
func startManager(t *testing.T, setUp func(ctrl.Manager) error) (stop func()) {
	t.Helper()
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := setUp(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// warnings returns the reasons of the Warning Events of an object.
func warnings(t *testing.T, object client.Object) func() ([]string, error) {
	return reasons(t, object, corev1.EventTypeWarning)
}

// reasons returns the reasons of the Events of an object with a type.
func reasons(t *testing.T, object client.Object, eventType string) func() ([]string, error) {
	return func() (reasons []string, err error) {
		list := &eventsv1.EventList{}
		err = k8sClient.List(t.Context(), list, client.InNamespace(object.GetNamespace()))
		for _, e := range list.Items {
			if e.Regarding.UID == object.GetUID() && e.Type == eventType {
				reasons = append(reasons, e.Reason)
			}
		}
		return reasons, err
	}
}
