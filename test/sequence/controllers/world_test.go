package controllers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/process"
)

const (
	// patience is how long a change may take until it has all its effects.
	patience = 3 * time.Minute
	// quiet is how long a settled cluster is watched for writes.
	quiet = 3 * time.Second
	// polling is the interval between reads.
	polling = 250 * time.Millisecond
	// foreign is a finalizer of another controller.
	foreign = "example.com/hold"
	// setLabel selects the namespace that gets copies.
	setLabel = "set"
)

// world is a set of namespaces, with objects of users, and an operator.
type world struct {
	t       *testing.T
	cluster *cluster.Cluster
	home    site
	// operator is nil while none runs.
	operator *process.Process
	args     []string
	log      *cluster.Buffer

	// manifests are those of the slots: -1 for objects that do not exist. wrong, retained and
	// orphaned: this was ever so.
	manifests                 [7]int
	wrong, retained, orphaned [7]bool
	// secrets are the values of the sources. target: B has the label.
	secrets map[string]string
	target  bool
	// purged: a namespace was deleted and created again.
	purged bool
	held   []*unstructured.Unstructured
	// edited are the edits of children. versions counts the manifests of each slot.
	edited   []edited
	versions [8]int
	problems []string
	counts   *counts
}

// counts are sums over all sequences.
type counts struct{ applied, kills int }

// site is a pair of namespaces. A contains apps, notebooks and sources, and B gets copies.
type site struct{ a, b string }

// localize puts the names of a site into a text.
func (s site) localize(text string) string {
	for placeholder, name := range map[string]string{"A": s.a, "B": s.b, "CLUSTER": s.a, "SET": s.a} {
		for _, end := range []string{",", "]", "}"} {
			text = strings.ReplaceAll(text, " "+placeholder+end, " "+name+end)
			text = strings.ReplaceAll(text, "["+placeholder+end, "["+name+end)
		}
		if text == placeholder {
			return name
		}
	}
	return text
}

// generalize is the reverse of localize.
func (s site) generalize(text string) string {
	return strings.NewReplacer(s.a, "A", s.b, "B").Replace(text)
}

func newWorld(t *testing.T, c *cluster.Cluster, n int, counts *counts) *world {
	t.Helper()
	w := &world{
		t: t, cluster: c, home: site{fmt.Sprintf("home-%d-a", n), fmt.Sprintf("home-%d-b", n)}, log: &cluster.Buffer{},
		manifests: [7]int{-1, -1, -1, -1, -1, -1, -1}, secrets: map[string]string{}, target: true, counts: counts,
	}
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	w.must(c.WriteServiceAccountKubeconfig(t.Context(), "bongsu-system", "bongsu", kubeconfig))
	w.args = []string{
		"--kubeconfig", kubeconfig, "--data-dir", filepath.Join(dir, "data"),
		"--controllers", "appservice,appservice-exec,jupyter,secretshare",
	}
	w.found(w.home)
	w.setSource("first", "1")
	w.setSource("second", "1")
	w.start()
	return w
}

// must ends the test, because a part of it failed that has nothing to do with the operator.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) problem(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// found creates the namespaces of a site.
func (w *world) found(s site) {
	w.createNamespace(s.a, nil)
	w.createNamespace(s.b, map[string]string{setLabel: s.a})
}

// createNamespace creates a namespace and waits until pods can be created in it.
func (w *world) createNamespace(name string, labels map[string]string) {
	w.must(w.cluster.Client.Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	w.must(w.cluster.AwaitAccount(w.t.Context(), name))
}

// poll waits until a condition holds.
func (w *world) poll(holds wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(w.t.Context(), polling, patience, true, holds)
}

// start starts the operator if it does not run.
func (w *world) start() {
	if w.operator != nil {
		return
	}
	p, err := process.Start(w.log, w.args...)
	w.must(err)
	w.operator = p
}

// kill kills the operator if it runs.
func (w *world) kill() {
	if w.operator == nil {
		return
	}
	if !w.operator.Alive() {
		w.problem("exit: the operator exited by itself: %s", w.operator.Result())
	}
	w.operator.Kill()
	w.operator = nil
	w.counts.kills++
}

// object returns an object of a slot at a site.
func (s *slot) object(at site) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(s.kind))
	u.SetNamespace(at.localize(s.namespace))
	u.SetName(at.localize(s.name))
	return u
}

// create creates an object of a slot at a site.
func (w *world) create(at site, i, manifest int) error {
	s := &slots[i]
	o := s.object(at)
	return w.cluster.Client.Create(w.t.Context(),
		cluster.Manifest(w.t, s.kind, o.GetNamespace(), o.GetName(), at.localize(s.manifests[manifest].spec)))
}

// set gives an object a manifest. It creates the object if it does not exist.
func (w *world) set(i, manifest int) {
	manifest %= len(slots[i].manifests)
	now := slots[i].object(w.home)
	err := w.cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(now), now)
	switch {
	case apierrors.IsNotFound(err):
		err = w.create(w.home, i, manifest)
	case err == nil && now.GetDeletionTimestamp() == nil:
		err = w.replaceSpec(i, manifest)
	case err == nil:
		return
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return // a change that the API server refuses
	}
	w.must(err)
	w.note(i, manifest)
}

// note records the manifest of an object.
func (w *world) note(i, manifest int) {
	m := &slots[i].manifests[manifest]
	w.manifests[i] = manifest
	w.versions[i]++
	w.wrong[i] = w.wrong[i] || m.wrong
	w.retained[i] = w.retained[i] || m.retained
	w.noteShares()
	w.counts.applied++
}

// noteShares records that the operator can emit Warnings on rules and grants. Reasons are a
// missing source or grant, a retained copy, and a new namespace.
func (w *world) noteShares() {
	missing := len(w.secrets) < 2 || w.manifests[grant] != 0
	for i := range slots {
		if i >= share && (missing || w.retained[share] || w.retained[clusterShare] || w.purged) {
			w.wrong[i] = true
		}
	}
}

// replaceSpec replaces the spec of an object by that of a manifest.
func (w *world) replaceSpec(i, manifest int) error {
	return w.replaceWith(i, slots[i].manifests[manifest].spec)
}

// replaceWith replaces the spec of an object, as kubectl replace does.
func (w *world) replaceWith(i int, spec string) error {
	s := &slots[i]
	for {
		now := s.object(w.home)
		if err := w.cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
			return err
		}
		wanted := cluster.Manifest(w.t, s.kind, "", "", w.home.localize(spec))
		now.Object["spec"] = wanted.Object["spec"]
		err := w.cluster.Client.Update(w.t.Context(), now)
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// policies are the ways to delete an object.
var policies = []metav1.DeletionPropagation{
	metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan,
}

// remove deletes the object of a slot.
func (w *world) remove(i, policy int) {
	if w.manifests[i] < 0 {
		return
	}
	how, disowned := policies[policy%len(policies)], w.isDisowned(i)
	err := w.cluster.Client.Delete(w.t.Context(), slots[i].object(w.home), client.PropagationPolicy(how))
	if apierrors.IsForbidden(err) {
		return // the operator has not handled a change to Retain
	}
	w.must(client.IgnoreNotFound(err))
	w.orphaned[i] = w.orphaned[i] || how == metav1.DeletePropagationOrphan || disowned
	w.wrong[i] = w.wrong[i] || w.orphaned[i] || w.retained[i] // see cutOff
	w.manifests[i] = -1
	w.noteShares()
	w.counts.applied++
}

// recreate deletes an object, and creates it again as soon as the name is free.
func (w *world) recreate(i, manifest int) {
	w.remove(i, manifest)
	manifest %= len(slots[i].manifests)
	for range 20 {
		err := w.create(w.home, i, manifest)
		if err == nil {
			w.note(i, manifest)
			return
		}
		if !apierrors.IsAlreadyExists(err) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// setSource creates or changes a source.
func (w *world) setSource(name, value string) {
	secret := sourceOf(w.home, name, value)
	err := w.cluster.Client.Create(w.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = w.cluster.Client.Update(w.t.Context(), secret)
	}
	w.must(err)
	w.secrets[name] = value
	w.counts.applied++
}

func sourceOf(at site, name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.a, Name: name, Labels: map[string]string{"shared": "yes"}},
		Data:       map[string][]byte{"value": []byte(value)},
	}
}

// source creates, changes or deletes a source.
func (w *world) source(i, value int) {
	name := []string{"first", "second"}[i%2]
	if value%4 > 0 {
		w.setSource(name, fmt.Sprint(value))
		return
	}
	w.must(client.IgnoreNotFound(w.cluster.Client.Delete(w.t.Context(), sourceOf(w.home, name, ""))))
	delete(w.secrets, name)
	w.noteShares()
	w.counts.applied++
}

// label makes B a target or not.
func (w *world) label(target bool) {
	w.target = target
	w.must(w.setLabel(w.home, target))
	w.counts.applied++
}

func (w *world) setLabel(at site, target bool) error {
	value := "null"
	if target {
		value = `"` + at.a + `"`
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"`+setLabel+`": `+value+`}}}`))
	return w.cluster.Client.Patch(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at.b}}, patch)
}

// purge deletes a namespace, and creates it again when it is gone.
func (w *world) purge(isB bool) {
	name, labels := w.home.a, map[string]string(nil)
	if isB {
		name = w.home.b
	}
	if isB && w.target {
		labels = map[string]string{setLabel: w.home.a}
	}
	w.release()
	w.start()
	if !w.deleteNamespaces(name) {
		return
	}
	w.createNamespace(name, labels)
	w.purged = true
	for i := range slots {
		if w.home.localize(slots[i].namespace) == name {
			w.manifests[i], w.retained[i], w.orphaned[i] = -1, false, false
		}
	}
	if !isB {
		clear(w.secrets)
	}
	w.noteShares()
	w.counts.applied++
}

// deleteNamespaces deletes namespaces and reports whether they are gone in time.
func (w *world) deleteNamespaces(names ...string) bool {
	for _, name := range names {
		w.must(client.IgnoreNotFound(w.cluster.Client.Delete(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
	}
	for _, name := range names {
		var now corev1.Namespace
		err := w.poll(func(ctx context.Context) (bool, error) {
			err := w.cluster.Client.Get(ctx, client.ObjectKey{Name: name}, &now)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if errors.Is(err, context.DeadlineExceeded) {
			w.problem("terminating: namespace %s is not deleted: %v", w.home.generalize(name), now.Status.Conditions)
			return false
		}
		w.must(err)
	}
	return true
}

// hold adds a finalizer of another controller to a child.
func (w *world) hold(o *unstructured.Unstructured) {
	if o == nil || slices.Contains(o.GetFinalizers(), foreign) || o.GetDeletionTimestamp() != nil {
		return
	}
	o.SetFinalizers(append(o.GetFinalizers(), foreign))
	if err := w.cluster.Client.Update(w.t.Context(), o); err != nil {
		return // it has changed
	}
	w.held = append(w.held, o)
	w.counts.applied++
}

// release removes the finalizers of hold.
func (w *world) release() {
	for _, o := range w.held {
		w.must(w.poll(func(ctx context.Context) (bool, error) {
			err := w.cluster.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			if err != nil {
				return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
			}
			o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == foreign }))
			return w.cluster.Client.Update(ctx, o) == nil, nil
		}))
	}
	w.held = nil
}
