package children

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

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

// ConflictError means that an object with the required name belongs to another owner.
type ConflictError struct {
	Kind, Name string
	// Owner is the controller of the object, as KIND NAME, or empty if there is none.
	Owner string
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("there is a %s %s that is not ours", e.Kind, e.Name)
	}
	return fmt.Sprintf("there is a %s %s that belongs to %s", e.Kind, e.Name, e.Owner)
}

// Children creates and updates the child objects of an owner. It never changes an object
// that belongs to another owner.
type Children struct {
	client client.Client
	live   client.Reader
	names  Names
}

// Names are the names by which an operator marks its children.
type Names struct {
	// Domain of the operator's annotations, for example "example.com". DOMAIN/applied is
	// a digest of the last written state, which shows that a field was removed from it.
	// DOMAIN/owner-uid is the UID of the owner of a child. It decides if the child has no
	// owner reference, for example because it outlives its owner.
	Domain string
	// FieldOwner is the name in managedFields.
	FieldOwner client.FieldOwner
}

// Applied is the key of the annotation with the digest. If you write to a child without [Children],
// set it to "" as FieldOwner. Otherwise, the write counts as an edit by another client.
func (n Names) Applied() string  { return n.Domain + "/applied" }
func (n Names) ownerUID() string { return n.Domain + "/owner-uid" }

// New returns Children. The client may use a cache that contains only objects with the
// operator's labels. live must read from the API server.
func New(c client.Client, live client.Reader, names Names) *Children {
	return &Children{client: c, live: live, names: names}
}

// Ensure creates or updates a child and stores the present object in found. It updates
// only if a field of wanted is missing or different in found, or was removed from wanted.
// Updates are server-side applies for the UID of found. A Secret that was made for the
// owner keeps its values. Ensure returns a *ConflictError if an object of that name belongs
// to another owner. Other errors come from the API server unchanged.
func (c *Children) Ensure(ctx context.Context, wanted, found client.Object, all ...Option) error {
	err := c.client.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	if apierrors.IsNotFound(err) {
		return c.Make(ctx, wanted, found)
	}
	if err != nil {
		return err
	}
	var o options
	for _, option := range all {
		option(&o)
	}
	return c.update(ctx, wanted, found, o)
}

// Option changes what Ensure does.
type Option func(*options)

// options of one update.
type options struct {
	beforeRevert func(context.Context, client.Object) error
}

// BeforeRevert calls f before Ensure reverts what another client changed in a child. f receives the
// child as it is in the API server. If f returns an error, the child is not changed.
func BeforeRevert(f func(ctx context.Context, edited client.Object) error) Option {
	return func(o *options) { o.beforeRevert = f }
}

// Update is Ensure for a child that the caller has just read from the API server.
func (c *Children) Update(ctx context.Context, wanted, found client.Object) error {
	return c.update(ctx, wanted, found, options{})
}

func (c *Children) update(ctx context.Context, wanted, found client.Object, o options) error {
	wanted, err := c.prepare(wanted)
	if err != nil {
		return err
	}
	return c.repair(ctx, wanted, found, o)
}

// Make is Ensure for a child that the caller knows to be missing.
func (c *Children) Make(ctx context.Context, wanted, found client.Object) error {
	wanted, err := c.prepare(wanted)
	if err != nil {
		return err
	}
	if created, err := c.create(ctx, wanted, found); err != nil || created {
		return err
	}
	return c.repair(ctx, wanted, found, options{})
}

// prepare returns a copy of wanted with the annotation of its digest.
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
	annotations[c.names.Applied()] = digest
	wanted.SetAnnotations(annotations)
	return wanted, nil
}

// digestOf ignores the values of a Secret, which can be random.
func digestOf(o client.Object) (string, error) {
	if secret, isSecret := o.(*corev1.Secret); isSecret {
		o = withValues(secret, nil)
	}
	text, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// create reads the existing object if there is one. It may be a child that the cache does
// not contain yet, or one without the label of the cache.
func (c *Children) create(ctx context.Context, wanted, found client.Object) (bool, error) {
	made := wanted.DeepCopyObject().(client.Object)
	err := c.client.Create(ctx, made, c.names.FieldOwner)
	switch {
	case err == nil:
		return true, assign(found, made)
	case apierrors.IsAlreadyExists(err):
		return false, c.reread(ctx, client.ObjectKeyFromObject(wanted), found)
	}
	return false, err
}

// reread reads from the API server into an empty object, because clients do not reset
// the fields that a response omits.
func (c *Children) reread(ctx context.Context, key client.ObjectKey, found client.Object) error {
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

func (c *Children) repair(ctx context.Context, wanted, found client.Object, o options) error {
	if done, err := c.isDone(wanted, found); done || err != nil {
		return err
	}
	// The cache may be stale and contain another object of that name, and it omits
	// managedFields.
	if err := c.reread(ctx, client.ObjectKeyFromObject(found), found); err != nil {
		return err
	}
	if done, err := c.isDone(wanted, found); done || err != nil {
		return err
	}
	if o.beforeRevert != nil && c.names.isEdited(wanted, found) {
		if err := o.beforeRevert(ctx, found); err != nil {
			return err
		}
	}
	if err := c.adoptFields(ctx, found); err != nil {
		return err
	}
	return c.apply(ctx, wanted, found)
}

// isEdited reports whether another client changed found, which differs from wanted. If only wanted
// changed, found has another digest, which the operator wrote. `kubectl rollout undo` also writes
// another digest, that of an earlier template.
func (n Names) isEdited(wanted, found client.Object) bool {
	key := n.Applied()
	return found.GetAnnotations()[key] == wanted.GetAnnotations()[key] || !n.ownsAnnotation(found, key)
}

// ownsAnnotation reports whether the operator wrote the value of an annotation.
func (n Names) ownsAnnotation(found client.Object, key string) bool {
	return slices.ContainsFunc(found.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		var fields struct {
			Metadata struct {
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if entry.Manager != string(n.FieldOwner) || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			return false
		}
		_, owns := fields.Metadata.Annotations["f:"+key]
		return owns
	})
}

// isDone reports whether found needs no update. It returns a *ConflictError if found
// belongs to another owner.
func (c *Children) isDone(wanted, found client.Object) (bool, error) {
	switch {
	case !c.names.IsOurs(wanted, found):
		return false, c.conflict(found)
	case !found.GetDeletionTimestamp().IsZero(): // it is recreated after its deletion
		return true, nil
	}
	return isAsWanted(c.names.keepValues(wanted, found), found)
}

// IsOurs reports whether found belongs to the owner of wanted. Its controller decides, or
// else its owner-uid annotation, whatever its labels are. A child with the annotation that
// outlived its owner belongs to the next owner of that name, which its labels contain.
// This applies to claims, and to other kinds if wanted has the annotation.
func (n Names) IsOurs(wanted, found client.Object) bool {
	owner := n.uidOfOwner(wanted)
	if controller := metav1.GetControllerOf(found); controller != nil {
		return controller.UID == owner
	}
	switch former := found.GetAnnotations()[n.ownerUID()]; {
	case former == "" || !n.mayOutlive(wanted):
		return false
	case types.UID(former) == owner:
		return true
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

// IsMadeFor reports whether found was made for the owner of wanted. A child that IsOurs can
// also be of a former owner, or of a tenant who gave it the marks of one.
func (n Names) IsMadeFor(wanted, found client.Object) bool {
	return n.uidOfOwner(found) == n.uidOfOwner(wanted)
}

// keepValues returns a wanted Secret with the values that the existing one has. Any value
// counts, because generated values differ and may be in use. A Secret that was not made for
// the owner gets new values, because others know its own. Other kinds stay as they are.
func (n Names) keepValues(wanted, found client.Object) client.Object {
	existing, isSecret := found.(*corev1.Secret)
	if !isSecret || !n.IsMadeFor(wanted, found) {
		return wanted
	}
	values := maps.Clone(wanted.(*corev1.Secret).Data)
	for key := range values {
		if value := existing.Data[key]; len(value) > 0 {
			values[key] = value
		}
	}
	return withValues(wanted.(*corev1.Secret), values)
}

func withValues(secret *corev1.Secret, values map[string][]byte) *corev1.Secret {
	secret = secret.DeepCopy()
	secret.Data = values
	return secret
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

// NewConflict returns the error for an existing object of another owner.
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

// withoutEmpty removes fields that typed objects contain without a value.
func withoutEmpty(content map[string]any) map[string]any {
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	return content
}

// adoptFields transfers the ownership of created fields to server-side apply. Otherwise
// fields that are no longer wanted would stay.
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
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.names.keepValues(wanted, found))
	if err != nil {
		return err
	}
	applied := &unstructured.Unstructured{Object: withoutEmpty(content)}
	applied.SetGroupVersionKind(gvk)
	applied.SetUID(found.GetUID())
	if _, isSecret := found.(*corev1.Secret); isSecret { // a newer value is not replaced
		applied.SetResourceVersion(found.GetResourceVersion())
	}
	spec, version := runtime.DeepCopyJSONValue(applied.Object["spec"]), found.GetResourceVersion()
	apply := func() error {
		return c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), c.names.FieldOwner, client.ForceOwnership)
	}
	err = apply()
	if _, isClaim := wanted.(*corev1.PersistentVolumeClaim); apierrors.IsInvalid(err) && spec != nil && !isClaim {
		if err := c.replaceSpec(ctx, found, spec, version); err != nil {
			return err
		}
		applied.SetResourceVersion(found.GetResourceVersion()) // another edit is then a conflict
		err = apply()                                          // a policy can also refuse the metadata as invalid
	}
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, found)
}

// replaceSpec replaces the whole spec. An apply keeps the list entries and the members of
// unions that other managers added. With these, an object can be invalid: two ports of the
// same name, a variable with two sources, a volume of two types. A Service keeps the
// addresses that the API server assigned.
func (c *Children) replaceSpec(ctx context.Context, found client.Object, spec any, version string) error {
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/uid", "value": found.GetUID()},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": version},
		{"op": "replace", "path": "/spec", "value": spec},
	})
	if err != nil {
		return err
	}
	return c.client.Patch(ctx, found, client.RawPatch(types.JSONPatchType, patch), c.names.FieldOwner)
}
