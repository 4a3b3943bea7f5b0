// Package children creates and updates the objects that a custom resource consists of, and
// finds out whether they belong to it. It writes only if something differs:
//
//	c := children.New(mgr.GetClient(), mgr.GetAPIReader(), children.Names{
//		Domain: "example.com", FieldOwner: "app-controller",
//	})
//	wanted := service(app) // with a controller reference to app
//	var found corev1.Service
//	err := c.Ensure(ctx, wanted, &found)
//	if conflict, ok := errors.AsType[*children.ConflictError](err); ok {
//		// Report that a Service of that name belongs to conflict.Owner.
//	}
//
// The operator needs get, create and patch on the kinds of the children. wanted must have a
// controller reference, or the annotation DOMAIN/owner-uid if the child outlives its
// owner; see [Names].
//
// The package never deletes objects. It does not change the values of an existing Secret.
package children
