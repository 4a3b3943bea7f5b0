package kube

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func secretMeta(name, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, ResourceVersion: version,
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "the value", "bongsu.io/rule-uid": "ours"},
	}}
}

func TestSecretWatchReportsOnlyReferencedSecrets(t *testing.T) {
	var reported []string
	w := NewSecretWatch(func(user Key) { reported = append(reported, user.Name) })
	w.Watch(Key{Name: "receiver"}, types.NamespacedName{Namespace: "shop", Name: "slack"})
	store := storeOf(t, "", newFirstLists([]string{""}), w)

	steps := []struct {
		name string
		do   func() error
		want []string
	}{
		{"another Secret is created", func() error { return store.Add(secretMeta("other", "1")) }, nil},
		{"created", func() error { return store.Add(secretMeta("slack", "1")) }, []string{"receiver"}},
		{"updated without a change", func() error { return store.Update(secretMeta("slack", "1")) }, nil},
		{"updated", func() error { return store.Update(secretMeta("slack", "2")) }, []string{"receiver"}},
		{"a list without a change", func() error { return store.Replace([]any{secretMeta("slack", "2")}, "9") }, nil},
		{"a list without it", func() error { return store.Replace(nil, "10") }, []string{"receiver"}},
		{"deleted again", func() error { return store.Delete(secretMeta("slack", "2")) }, nil},
	}
	for _, step := range steps {
		reported = nil
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, reported); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
}

func TestSecretWatchReportsTheDeletionOfASecretThatIsOlderThanItsReference(t *testing.T) {
	reported := 0
	w := NewSecretWatch(func(Key) { reported++ })
	store := storeOf(t, "", newFirstLists([]string{""}), w)
	if err := store.Add(secretMeta("slack", "1")); err != nil {
		t.Fatal(err)
	}
	w.Watch(Key{Name: "receiver"}, types.NamespacedName{Namespace: "shop", Name: "slack"})
	if err := store.Delete(secretMeta("slack", "1")); err != nil {
		t.Fatal(err)
	}
	if reported != 1 {
		t.Errorf("reported %d times, want once", reported)
	}
}

func TestAVersionThatTheOnlyUserKnowsIsNoChange(t *testing.T) {
	name := types.NamespacedName{Namespace: "shop", Name: "token"}
	for scenario, tc := range map[string]struct {
		users []string
		known string
		want  int
	}{
		"the only user has created it":     {[]string{"ana"}, "1", 0},
		"it has changed since":             {[]string{"ana"}, "0", 1},
		"another user waits for it":        {[]string{"ana", "ben"}, "1", 2},
		"it is known after it was changed": {[]string{"ana"}, "", 1},
	} {
		t.Run(scenario, func(t *testing.T) {
			reported := 0
			w := NewSecretWatch(func(Key) { reported++ })
			for _, user := range tc.users {
				w.Watch(Key{Name: user}, name)
			}
			if tc.known != "" {
				w.Known(name, tc.known)
			}
			store := storeOf(t, "", newFirstLists([]string{""}), w)
			if err := store.Add(secretMeta("token", "1")); err != nil {
				t.Fatal(err)
			}
			if w.Known(name, "0") || !w.Known(name, "1") {
				t.Error("a version is known that is not the last one observed")
			}
			if err := store.Update(secretMeta("token", "1")); err != nil {
				t.Fatal(err)
			}
			if reported != tc.want {
				t.Errorf("reported %d times, want %d", reported, tc.want)
			}
		})
	}
}

func TestSecretStreamDropsForeignAnnotations(t *testing.T) {
	got, err := reflectorStore{}.Transformer()(secretMeta("slack", "3"))
	if err != nil {
		t.Fatal(err)
	}
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "slack", ResourceVersion: "3", Annotations: map[string]string{"bongsu.io/rule-uid": "ours"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSecretWatchForgetsUnreferencedSecrets(t *testing.T) {
	reported := 0
	w := NewSecretWatch(func(Key) { reported++ })
	store := storeOf(t, "", newFirstLists([]string{""}), w)
	slack, hook := types.NamespacedName{Namespace: "shop", Name: "slack"}, types.NamespacedName{Namespace: "shop", Name: "hook"}
	w.Watch(Key{Name: "one"}, slack)
	w.Watch(Key{Name: "another"}, slack, slack)
	w.Watch(Key{Name: "another"}, hook)
	if err := store.Add(secretMeta("slack", "1")); err != nil || reported != 1 {
		t.Errorf("reported %d times, %v, of a Secret that is still referenced", reported, err)
	}
	w.Watch(Key{Name: "one"})
	if err := store.Update(secretMeta("slack", "2")); err != nil || reported != 1 {
		t.Errorf("reported %d times, %v, of a Secret that is no longer referenced", reported, err)
	}
	w.Watch(Key{Name: "another"})
	if len(w.watched)+len(w.users) != 0 {
		t.Errorf("still stored: %v, %v", w.watched, w.users)
	}
}

func TestAUserOfASecretCanNameItTwice(t *testing.T) {
	w := NewSecretWatch(func(Key) {})
	user, hook := Key{Name: "receiver"}, types.NamespacedName{Namespace: "shop", Name: "hook"}
	w.Watch(user, hook, hook)
	w.Watch(user)
	if len(w.watched)+len(w.users) != 0 {
		t.Errorf("still stored: %v, %v", w.watched, w.users)
	}
}

func storeOf(t *testing.T, namespace string, first *firstLists, h SecretHandler) reflectorStore {
	return reflectorStore{t.Context(), namespace, first, []SecretHandler{h}}
}

// existing is a handler that asks which of some Secrets exist.
type existing struct {
	SecretHandler
	asks  []string
	lists [][]string
}

func (*existing) OnUpdate(context.Context, SecretMeta) {}

func (*existing) OnDelete(context.Context, types.NamespacedName) {}

func (e *existing) OnList(_ context.Context, exists func(types.NamespacedName) bool) {
	found := []string{}
	for _, name := range e.asks {
		namespace, name, _ := strings.Cut(name, "/")
		if exists(types.NamespacedName{Namespace: namespace, Name: name}) {
			found = append(found, namespace+"/"+name)
		}
	}
	e.lists = append(e.lists, found)
}

// A handler removes what does not exist, so that it must not receive the list of only some namespaces.
func TestTheFirstListsOfAllNamespacesAreOneList(t *testing.T) {
	h := &existing{asks: []string{"shop/listed", "shop/later", "shop/gone", "vault/ca", "secret/unread", "elsewhere/x"}}
	first := newFirstLists([]string{"shop", "vault", "secret"})
	shop, vault, secret := storeOf(t, "shop", first, h), storeOf(t, "vault", first, h), storeOf(t, "secret", first, h)
	in := func(namespace, name string) *metav1.PartialObjectMetadata {
		m := secretMeta(name, "1")
		m.Namespace = namespace
		return m
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(shop.Replace([]any{in("shop", "listed"), in("shop", "gone")}, "1"))
	do(shop.Add(in("shop", "later")))
	do(shop.Delete(in("shop", "gone")))
	secret.unreadable()
	secret.unreadable()
	if len(h.lists) > 0 {
		t.Fatalf("a list without all namespaces: %v", h.lists)
	}
	do(vault.Replace([]any{in("vault", "ca")}, "2"))
	do(shop.Replace([]any{in("shop", "later")}, "3"))
	do(secret.Replace(nil, "4"))
	want := [][]string{
		{"shop/listed", "shop/later", "vault/ca", "secret/unread"}, // nothing is known of an unreadable namespace
		{"shop/later", "vault/ca", "secret/unread", "elsewhere/x"}, // a list of shop
		{"shop/listed", "shop/later", "shop/gone", "vault/ca", "elsewhere/x"},
	}
	if diff := cmp.Diff(want, h.lists); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
