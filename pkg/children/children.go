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

// ConflictError says that an object of the name that is needed is somebody else's.
type ConflictError struct {
	Kind, Name string
	// Owner is what controls it, as KIND NAME; empty if nothing does.
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
	// Domain of the operator's annotations, for example "bongsu.io". DOMAIN/applied holds
	// a digest of what was last written, so that Children notices a field that is no longer
	// wanted. DOMAIN/owner-uid holds the UID of the owner of a child without an owner
	// reference, which therefore outlives its owner.
	Domain string
	// FieldOwner is the name in managedFields.
	FieldOwner client.FieldOwner
}

func (n Names) applied() string  { return n.Domain + "/applied" }
func (n Names) ownerUID() string { return n.Domain + "/owner-uid" }

// NewChildren returns Children. The client may read from caches that hold only objects
// with the operator's labels; live reads from the API server.
func New(c client.Client, live client.Reader, names Names) *Children {
	return &Children{client: c, live: live, names: names}
}

// Ensure makes a child what is wanted and reads what there is then into found. The
// first write is a Create; later ones are server-side applies for that UID, only when
// a field that we set is missing or differs, or is wanted no longer. It returns a
// *ConflictError if there is an object of that name that is not ours, and the errors
// of the API server as they are. A Secret keeps the values that it has.
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

// Make is Ensure for a child that was just seen not to be there.
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

// prepare returns a copy that bears the digest of what is wanted.
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

// create reads what is in the way, if anything is: it may be ours, newer than the
// cache or without its label.
func (c *Children) create(ctx context.Context, wanted, found client.Object) (bool, error) {
	made := wanted.DeepCopyObject().(client.Object)
	err := c.client.Create(ctx, made, c.names.FieldOwner)
	switch {
	case err == nil:
		return true, assign(found, made)
	case apierrors.IsAlreadyExists(err):
		return false, c.readAnew(ctx, client.ObjectKeyFromObject(wanted), found)
	}
	return false, err
}

// readAnew reads from the API server. A client leaves the fields that an answer does
// not speak of as they were, so it is given an empty object.
func (c *Children) readAnew(ctx context.Context, key client.ObjectKey, found client.Object) error {
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
	// Caches lag behind, so it may be another object by now, and they leave out who
	// manages what.
	if err := c.readAnew(ctx, client.ObjectKeyFromObject(found), found); err != nil {
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

// isDone tells whether there is nothing to put right. It returns a *ConflictError if
// what was found is not ours.
func (c *Children) isDone(wanted, found client.Object) (bool, error) {
	switch {
	case !c.names.IsOurs(wanted, found):
		return false, c.conflict(found)
	case !found.GetDeletionTimestamp().IsZero(): // it is made anew when it is gone
		return true, nil
	case hasValues(wanted, found):
		return true, nil
	}
	return isAsWanted(wanted, found)
}

// IsOurs reports whether an object belongs to the owner of what is wanted. One that
// outlived its owner, as its annotation says, is taken up by the next owner of that
// name: a claim, and what is wanted with that annotation itself.
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

// hasValues tells whether a Secret has a value for each key that is wanted. Ours are
// random: those that another made in the meantime are as good, and may be in use.
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

// NewConflict returns the error that an object of a kind is in the way.
func NewConflict(kind string, found client.Object) *ConflictError {
	conflict := &ConflictError{Kind: kind, Name: found.GetName()}
	if controller := metav1.GetControllerOf(found); controller != nil {
		conflict.Owner = controller.Kind + " " + controller.Name
	}
	return conflict
}

func isAsWanted(wanted, found client.Object) (bool, error) {
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

// withoutEmpty drops what a typed object says of itself although nobody set it.
func withoutEmpty(content map[string]any) map[string]any {
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	return content
}

// adoptFields has the API server count what we created with to what we apply: or a
// field that is wanted no longer would stay.
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
