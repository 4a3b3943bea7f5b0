package watch_test

import (
	"errors"
	"io"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/watch"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestPodsThatComeChangeAndGo(t *testing.T) {
	c := cluster.Shared(t)
	ns := namespace(t, c)
	s := opened(t, request{config: c.RESTConfig(), typeName: "pods", namespace: ns})

	pod := newPod(ns, "kuard")
	create(t, c, pod)
	patch(t, c, pod, `{"metadata":{"labels":{"tier":"web"}}}`)
	patchStatus(t, c, pod, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	remove(t, c, pod)

	s.shows(
		"ADDED "+ns+"/kuard",
		"MODIFIED "+ns+"/kuard: label tier <none> -> web",
		"MODIFIED "+ns+"/kuard: phase Pending -> Running, Ready <none> -> True",
		"MODIFIED "+ns+"/kuard: deletion requested",
		"DELETED "+ns+"/kuard",
	)
}

func TestObjectsOfACustomType(t *testing.T) {
	c := cluster.Shared(t)
	ns := namespace(t, c)
	s := opened(t, request{config: c.RESTConfig(), typeName: "alarms.bongsu.io", namespace: ns})

	alarm := cluster.Manifest(t, "Alarm", ns, "crashes", `{match: [{reasons: [BackOff]}], receivers: [{name: ops}]}`)
	create(t, c, alarm)
	patch(t, c, alarm, `{"spec":{"suspend":true}}`)
	remove(t, c, alarm)

	s.shows("ADDED "+ns+"/crashes", "MODIFIED "+ns+"/crashes: suspend false -> true", "DELETED "+ns+"/crashes")
}

func TestObjectsWithoutANamespace(t *testing.T) {
	c := cluster.Shared(t)
	s := opened(t, request{config: c.RESTConfig(), typeName: "no", selector: "test=bare"})

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"test": "bare"}}}
	create(t, c, node)
	patch(t, c, node, `{"spec":{"unschedulable":true}}`)
	remove(t, c, node)

	s.shows("ADDED node-1", "MODIFIED node-1: unschedulable <none> -> true", "DELETED node-1")
}

func TestAnObjectThatLeavesTheSelectorIsDeleted(t *testing.T) {
	c := cluster.Shared(t)
	ns := namespace(t, c)
	s := opened(t, request{config: c.RESTConfig(), typeName: "pods", namespace: ns, selector: "app=web"})

	pod := newPod(ns, "a")
	create(t, c, pod)
	for _, app := range []string{"web", "db", "web"} {
		patch(t, c, pod, `{"metadata":{"labels":{"app":"`+app+`"}}}`)
	}

	s.shows("ADDED "+ns+"/a", "DELETED "+ns+"/a", "ADDED "+ns+"/a")
}

func TestOnlyTheNamespaceIsWatched(t *testing.T) {
	c := cluster.Shared(t)
	one, another := namespace(t, c), namespace(t, c)
	s := opened(t, request{config: c.RESTConfig(), typeName: "pods", namespace: one})
	all := opened(t, request{config: c.RESTConfig(), typeName: "pods", selector: "test=namespaces"})

	for _, ns := range []string{another, one} {
		pod := newPod(ns, "a")
		pod.Labels = map[string]string{"test": "namespaces"}
		create(t, c, pod)
	}

	all.shows("ADDED "+another+"/a", "ADDED "+one+"/a")
	s.shows("ADDED " + one + "/a")
}

func TestWhatExistsIsShownFirstUnlessOnlyChangesAreWanted(t *testing.T) {
	c := cluster.Shared(t)
	ns := namespace(t, c)
	for _, name := range []string{"c", "a", "b"} {
		create(t, c, newPod(ns, name))
	}
	s := opened(t, request{config: c.RESTConfig(), typeName: "pods", namespace: ns})
	only := opened(t, request{config: c.RESTConfig(), typeName: "pods", namespace: ns, onlyChanges: true})
	s.tells("cache synced: 3 pods in namespace " + ns + "; watching for changes")
	only.tells("cache synced: 3 pods")

	create(t, c, newPod(ns, "0"))

	s.shows("ADDED "+ns+"/a", "ADDED "+ns+"/b", "ADDED "+ns+"/c", "ADDED "+ns+"/0")
	only.shows("ADDED " + ns + "/0")
}

func TestADisconnectTellsWhatHasChangedAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, interlude := range map[string]func(*testing.T, *cluster.Cluster){
		"the watch goes on where it was": func(*testing.T, *cluster.Cluster) {},
		// Which has the server forget what happened: the watch has to list again.
		"the API server starts anew": func(t *testing.T, c *cluster.Cluster) {
			if err := c.Restart(t.Context(), localcluster.APIServer); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t)
			createAccount(t, c, "default")
			config, cable := connect(t, c.RESTConfig())
			pods := map[string]*corev1.Pod{}
			for _, name := range []string{"changed", "deleted", "recreated", "same"} {
				pods[name] = newPod("default", name)
				create(t, c, pods[name])
			}
			s := opened(t, request{config: config, typeName: "pods", namespace: "default", onlyChanges: true})

			cable.cut()
			s.tells("connection lost")
			remove(t, c, pods["deleted"])
			remove(t, c, pods["recreated"])
			create(t, c, newPod("default", "recreated"))
			patch(t, c, pods["changed"], `{"metadata":{"labels":{"tier":"web"}}}`)
			create(t, c, newPod("default", "new"))
			interlude(t, c)
			cable.mend()
			s.tells("connected again")
			create(t, c, newPod("default", "last"))

			NewWithT(t).Eventually(s.lines).Should(ContainElement("ADDED default/last"))
			// A list that tells of it may tell of others after it.
			NewWithT(t).Eventually(s.lines).Should(ConsistOf(
				"MODIFIED default/changed: label tier <none> -> web",
				"DELETED default/deleted",
				"DELETED default/recreated",
				"ADDED default/recreated",
				"ADDED default/new",
				"ADDED default/last",
			))
		})
	}
}

func TestTheEndOfTheContextIsNoFailure(t *testing.T) {
	c := cluster.Shared(t)
	s := opened(t, request{config: c.RESTConfig(), typeName: "pods"})
	if err := s.close(); err != nil {
		t.Error(err)
	}
	config, cable := connect(t, c.RESTConfig())
	lost := opened(t, request{config: config, typeName: "pods"})
	cable.cut()
	lost.tells("connection lost")
	if err := lost.close(); err != nil {
		t.Error(err)
	}
}

// errFull is the failure of what can not be written to.
var errFull = errors.New("disk full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWhatCanNotBePrintedEndsTheWatch(t *testing.T) {
	c := cluster.Shared(t)
	s := open(t, request{config: c.RESTConfig(), typeName: "namespaces", printer: func(io.Writer) watch.Printer {
		return watch.TextPrinter{Out: full{}}
	}})
	if err := s.fails(); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}

// namespace returns a new namespace in which pods can be created.
func namespace(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	name := c.Namespace(t, nil)
	createAccount(t, c, name)
	return name
}

// createAccount creates what pods run as. In a whole cluster, a controller does.
func createAccount(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
}

func newPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}}},
	}
}

func create(t *testing.T, c *cluster.Cluster, o client.Object) {
	t.Helper()
	must(t, c.Client.Create(t.Context(), o))
}

func patch(t *testing.T, c *cluster.Cluster, o client.Object, merge string) {
	t.Helper()
	must(t, c.Client.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(merge))))
}

func patchStatus(t *testing.T, c *cluster.Cluster, o client.Object, merge string) {
	t.Helper()
	must(t, c.Client.Status().Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(merge))))
}

func remove(t *testing.T, c *cluster.Cluster, o client.Object) {
	t.Helper()
	must(t, c.Client.Delete(t.Context(), o, client.GracePeriodSeconds(0)))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
