// Package children creates and updates the objects that another object consists of.
package children

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// ConflictError reports that an object with the child's name belongs to another owner.
type ConflictError struct {
	Kind, Name string
	// Owner is the object's controller, as KIND NAME; empty if it has none.
	Owner string
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("there is a %s %s that is not ours", e.Kind, e.Name)
	}
	return fmt.Sprintf("there is a %s %s that belongs to %s", e.Kind, e.Name, e.Owner)
}

// Children creates and updates the objects that another object consists of. It never
// changes an object that belongs to something else.
type Children struct {
	client client.Client
	live   client.Reader
	names  Names
}

// Names are how an operator marks its children.
type Names struct {
	// Domain of the operator's annotations, for example "bongsu.io". DOMAIN/applied is a
	// digest of the last write. It shows when a field is no longer wanted. DOMAIN/owner-uid
	// is the UID of the owner of a child without an owner reference. Such a child outlives
	// its owner.
	Domain string
	// FieldOwner is the name in managedFields.
	FieldOwner client.FieldOwner
}

func (n Names) applied() string  { return n.Domain + "/applied" }
func (n Names) ownerUID() string { return n.Domain + "/owner-uid" }

// New returns Children. The client may read from caches that contain only objects with
// the operator's labels. live reads from the API server.
func New(c client.Client, live client.Reader, names Names) *Children {
	return &Children{client: c, live: live, names: names}
}

// Ensure creates or updates a child, and reads it into found. The first write is a
// Create. Later writes are server-side applies for its UID, if a field that we set is
// missing, differs, or is no longer wanted. A Secret keeps its values. Ensure returns a
// *ConflictError if another owner has an object with that name. Errors of the API server
// are returned unchanged.
func (c *Children) Ensure(ctx context.Context, wanted, found client.Object) error {
	err := c.client.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	if apierrors.IsNotFound(err) {
		return c.Make(ctx, wanted, found)
	}
	if err != nil {
		return err
	}
	if wanted, err = c.prepare(wanted); err != nil {
		return err
	}
	return c.repair(ctx, wanted, found)
}

// Make is Ensure for a child that did not exist a moment ago.
func (c *Children) Make(ctx context.Context, wanted, found client.Object) error {
	wanted, err := c.prepare(wanted)
	if err != nil {
		return err
	}
	if created, err := c.create(ctx, wanted, found); err != nil || created {
		return err
	}
	return c.repair(ctx, wanted, found)
}

// prepare returns a copy with the digest of the wanted child.
func (c *Children) prepare(wanted client.Object) (client.Object, error) {
	digest, err := digestOf(wanted)
	if err != nil {
		return nil, err
	}
	wanted = wanted.DeepCopyObject().(client.Object)
	annotations := maps.Clone(wanted.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[c.names.applied()] = digest
	wanted.SetAnnotations(annotations)
	return wanted, nil
}

func digestOf(o client.Object) (string, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// create reports whether it created the child. If an object has its name, it reads that
// into found: it may be ours, newer than the cache, or without our label.
func (c *Children) create(ctx context.Context, wanted, found client.Object) (bool, error) {
	made := wanted.DeepCopyObject().(client.Object)
	err := c.client.Create(ctx, made, c.names.FieldOwner)
	switch {
	case err == nil:
		return true, assign(found, made)
	case apierrors.IsAlreadyExists(err):
		return false, c.readLive(ctx, client.ObjectKeyFromObject(wanted), found)
	}
	return false, err
}

// readLive reads from the API server into an empty object, because a client keeps the
// fields that an answer lacks.
func (c *Children) readLive(ctx context.Context, key client.ObjectKey, found client.Object) error {
	now := reflect.New(reflect.TypeOf(found).Elem()).Interface().(client.Object)
	if err := c.live.Get(ctx, key, now); err != nil {
		return err
	}
	return assign(found, now)
}

func assign(to, from client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, to)
}

func (c *Children) repair(ctx context.Context, wanted, found client.Object) error {
	if done, err := c.isDone(wanted, found); done || err != nil {
		return err
	}
	// The cache may be outdated, and it has no managedFields.
	if err := c.readLive(ctx, client.ObjectKeyFromObject(found), found); err != nil {
		return err
	}
	if done, err := c.isDone(wanted, found); done || err != nil {
		return err
	}
	if err := c.adoptFields(ctx, found); err != nil {
		return err
	}
	return c.apply(ctx, wanted, found)
}

// isDone reports whether the child needs no write. It returns a *ConflictError if the
// object is not ours.
func (c *Children) isDone(wanted, found client.Object) (bool, error) {
	switch {
	case !c.names.IsOurs(wanted, found):
		return false, c.conflict(found)
	case !found.GetDeletionTimestamp().IsZero(): // it is recreated when it is gone
		return true, nil
	case hasValues(wanted, found):
		return true, nil
	}
	return matches(wanted, found)
}

// IsOurs reports whether an object belongs to the owner of the wanted child. Claims, and
// children with the annotation for it, can outlive their owner. They belong to the next
// owner with the same name.
func (n Names) IsOurs(wanted, found client.Object) bool {
	if controller := metav1.GetControllerOf(found); controller != nil {
		return controller.UID == n.uidOfOwner(wanted)
	}
	if !n.mayOutlive(wanted) || found.GetAnnotations()[n.ownerUID()] == "" {
		return false
	}
	for key, value := range wanted.GetLabels() {
		if found.GetLabels()[key] != value {
			return false
		}
	}
	return true
}

func (n Names) mayOutlive(wanted client.Object) bool {
	_, isClaim := wanted.(*corev1.PersistentVolumeClaim)
	return isClaim || wanted.GetAnnotations()[n.ownerUID()] != ""
}

// hasValues reports whether a Secret has a value for each wanted key. Our values are
// random: existing ones are as good, and may be in use.
func hasValues(wanted, found client.Object) bool {
	secret, ok := found.(*corev1.Secret)
	if !ok {
		return false
	}
	for key := range wanted.(*corev1.Secret).Data {
		if len(secret.Data[key]) == 0 {
			return false
		}
	}
	return true
}

func (n Names) uidOfOwner(child client.Object) types.UID {
	if controller := metav1.GetControllerOf(child); controller != nil {
		return controller.UID
	}
	return types.UID(child.GetAnnotations()[n.ownerUID()])
}

func (c *Children) conflict(found client.Object) error {
	gvk, err := apiutil.GVKForObject(found, c.client.Scheme())
	if err != nil {
		return err
	}
	return NewConflict(gvk.Kind, found)
}

// NewConflict returns the error for an object of a kind that has a child's name.
func NewConflict(kind string, found client.Object) *ConflictError {
	conflict := &ConflictError{Kind: kind, Name: found.GetName()}
	if controller := metav1.GetControllerOf(found); controller != nil {
		conflict.Owner = controller.Kind + " " + controller.Name
	}
	return conflict
}

func matches(wanted, found client.Object) (bool, error) {
	a, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return false, err
	}
	b, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found)
	if err != nil {
		return false, err
	}
	return Contains(b, withoutEmpty(a)), nil
}

// withoutEmpty removes fields that a typed object contains although they are not set.
func withoutEmpty(content map[string]any) map[string]any {
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	return content
}

// adoptFields moves the fields of our Create to our server-side apply. Otherwise the API
// server would keep a field that is no longer wanted.
func (c *Children) adoptFields(ctx context.Context, found client.Object) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(found, sets.New(string(c.names.FieldOwner)), string(c.names.FieldOwner))
	if err != nil || patch == nil {
		return err
	}
	return c.client.Patch(ctx, found, client.RawPatch(types.JSONPatchType, patch))
}

func (c *Children) apply(ctx context.Context, wanted, found client.Object) error {
	gvk, err := apiutil.GVKForObject(wanted, c.client.Scheme())
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return err
	}
	applied := &unstructured.Unstructured{Object: withoutEmpty(content)}
	applied.SetGroupVersionKind(gvk)
	applied.SetUID(found.GetUID())
	err = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), c.names.FieldOwner, client.ForceOwnership)
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, found)
}
