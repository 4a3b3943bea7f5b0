package watch_test

import (
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/watch"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestPodsAreShownFromCreationToDeletion(t *testing.T) {
	c := cluster.Shared(t)
	ns := namespace(t, c)
	s := opened(t, request{config: c.RESTConfig(), typeName: "pods", namespace: ns})

	pod := newPod(ns, "kuard")
	create(t, c, pod)
	patch(t, c, pod, `{"metadata":{"labels":{"tier":"web"}}}`)
	patchStatus(t, c, pod, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	remove(t, c, pod)

	s.shows(
		added(ns, "kuard"),
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

	s.shows(added(ns, "a"), "DELETED "+ns+"/a", added(ns, "a"))
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

	all.shows(added(another, "a"), added(one, "a"))
	s.shows(added(one, "a"))
}

func TestExistingObjectsAreShownFirstUnlessOnlyChangesAreWanted(t *testing.T) {
	c := cluster.Shared(t)
	ns := namespace(t, c)
	for _, name := range []string{"c", "a", "b"} {
		create(t, c, newPod(ns, name))
	}
	s := opened(t, request{config: c.RESTConfig(), typeName: "pods", namespace: ns})
	only := opened(t, request{config: c.RESTConfig(), typeName: "pods", namespace: ns, onlyChanges: true})
	s.reports("cache synced: 3 pods in namespace " + ns + "; watching for changes")
	only.reports("cache synced: 3 pods")

	create(t, c, newPod(ns, "0"))

	s.shows(added(ns, "a"), added(ns, "b"), added(ns, "c"), added(ns, "0"))
	only.shows(added(ns, "0"))
}

func TestAfterADisconnectOnlyChangesAreShown(t *testing.T) {
	t.Parallel()
	for name, interlude := range map[string]func(*testing.T, *cluster.Cluster){
		"the watch is resumed": func(*testing.T, *cluster.Cluster) {},
		// A restarted server has lost its watch cache: the informer must list again.
		"the API server restarts": func(t *testing.T, c *cluster.Cluster) {
			if err := c.Restart(t.Context(), localcluster.APIServer); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t)
			createAccount(t, c, "default")
			config, network := throughNetwork(c.RESTConfig())
			pods := map[string]*corev1.Pod{}
			for _, name := range []string{"changed", "deleted", "recreated", "same"} {
				pods[name] = newPod("default", name)
				create(t, c, pods[name])
			}
			s := opened(t, request{config: config, typeName: "pods", namespace: "default", onlyChanges: true})

			network.stop()
			s.reports("connection lost")
			remove(t, c, pods["deleted"])
			remove(t, c, pods["recreated"])
			create(t, c, newPod("default", "recreated"))
			patch(t, c, pods["changed"], `{"metadata":{"labels":{"tier":"web"}}}`)
			create(t, c, newPod("default", "new"))
			interlude(t, c)
			network.start()
			s.reports("connected again")
			create(t, c, newPod("default", "last"))

			NewWithT(t).Eventually(s.lines).Should(ContainElement(added("default", "last")))
			// If the last one is found by a list, others may follow it.
			NewWithT(t).Eventually(s.lines).Should(ConsistOf(
				"MODIFIED default/changed: label tier <none> -> web",
				"DELETED default/deleted",
				"DELETED default/recreated",
				added("default", "recreated"),
				added("default", "new"),
				added("default", "last"),
			))
		})
	}
}

func TestTheEndOfTheContextIsNoError(t *testing.T) {
	c := cluster.Shared(t)
	s := opened(t, request{config: c.RESTConfig(), typeName: "pods"})
	if err := s.close(); err != nil {
		t.Error(err)
	}
	config, network := throughNetwork(c.RESTConfig())
	lost := opened(t, request{config: config, typeName: "pods"})
	network.stop()
	lost.reports("connection lost")
	if err := lost.close(); err != nil {
		t.Error(err)
	}
}

// errFull is the error of the writer full.
var errFull = errors.New("disk full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestAWriteErrorEndsTheWatch(t *testing.T) {
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

// createAccount creates the service account of pods. There is no controller manager that
// would do it.
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

func TestValuesOfSecretsAreNeverPrinted(t *testing.T) {
	const one, two, annotation = "hunter2-one", "hunter2-two", "hunter2-annotation"
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	var sessions []*session
	for _, printer := range []func(io.Writer) watch.Printer{
		func(out io.Writer) watch.Printer { return watch.TextPrinter{Out: out} },
		func(out io.Writer) watch.Printer { return watch.TextPrinter{Out: out, Diff: true} },
		func(out io.Writer) watch.Printer { return watch.JSONPrinter{Out: out} },
		func(out io.Writer) watch.Printer { return watch.JSONPrinter{Out: out, Diff: true} },
	} {
		sessions = append(sessions, opened(t, request{config: c.RESTConfig(), typeName: "secrets", namespace: ns, printer: printer}))
	}

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db", Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: `{"data":{"password":"` + one + `"}}`, "note": annotation,
		}},
		Data: map[string][]byte{"password": []byte(one), "former": []byte(one)},
	}
	create(t, c, secret)
	patch(t, c, secret, `{"stringData":{"password":"`+two+`","new":"`+two+`"},"data":{"former":null},"metadata":{"annotations":{"note":"`+annotation+`2"}}}`)
	remove(t, c, secret)

	sessions[0].shows(
		"ADDED "+ns+"/db",
		"MODIFIED "+ns+"/db: annotation note changed, data key former removed, data key new added, data key password changed",
		"DELETED "+ns+"/db",
	)
	for _, s := range sessions {
		NewWithT(t).Eventually(s.out.String).Should(ContainSubstring("DELETED"))
		NewWithT(t).Expect(s.out.String()).To(ContainSubstring("data key password"))
		for _, value := range []string{one, two, annotation} {
			for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
				if text := s.out.String() + s.status.String(); strings.Contains(text, form) {
					t.Errorf("%q is printed:\n%s", form, text)
				}
			}
		}
	}
}

func TestBookkeepingIsNeverPrinted(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	s := opened(t, request{config: c.RESTConfig(), typeName: "cm", namespace: ns, printer: func(out io.Writer) watch.Printer {
		return watch.JSONPrinter{Out: out, Diff: true}
	}})
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a", Annotations: map[string]string{
		corev1.LastAppliedConfigAnnotation: `{"data":"lately"}`,
	}}}
	create(t, c, settings)
	patch(t, c, settings, `{"data":{"k":"v"},"metadata":{"annotations":{"`+corev1.LastAppliedConfigAnnotation+`":"lately"}}}`)
	remove(t, c, settings)

	NewWithT(t).Eventually(s.out.String).Should(ContainSubstring("DELETED"))
	for _, text := range []string{"managedFields", "lately", corev1.LastAppliedConfigAnnotation} {
		if strings.Contains(s.out.String(), text) {
			t.Errorf("%q is printed:\n%s", text, &s.out)
		}
	}
}

func TestMissingPermissionsAreNamed(t *testing.T) {
	c := cluster.Shared(t)
	ns := namespace(t, c)
	for name, verbs := range map[string][]string{
		"none":           {"get"},
		"list alone":     {"list"},
		"in a namespace": nil,
	} {
		t.Run(name, func(t *testing.T) {
			user := c.User(t, ns, cluster.Rule("", "pods", append(verbs, "get")...))
			place := ns
			if verbs == nil {
				user, place = c.User(t, ns, cluster.Rule("", "pods", "list", "watch")), ""
			}
			err := open(t, request{config: user, typeName: "pods", namespace: place}).fails()
			for _, want := range []string{"you may not watch pods in", `"list" and "watch" on "pods"`, `cannot watch resource "pods"`} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

func TestListAndWatchPermissionsAreEnough(t *testing.T) {
	c := cluster.Shared(t)
	ns := namespace(t, c)
	user := c.User(t, ns, cluster.Rule("", "pods", "list", "watch"))
	s := opened(t, request{config: user, typeName: "pods", namespace: ns})
	create(t, c, newPod(ns, "a"))
	s.shows(added(ns, "a"))
}
