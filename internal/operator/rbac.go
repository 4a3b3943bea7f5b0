package operator

// Permissions of every replica. When the operator starts, package permissions checks these
// and those of the chosen features.
//
// One replica leads at a time. It holds this lease, and the others wait for it.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=bongsu-system,resources=leases,verbs=get;create;update
//
// Leader election emits an Event that names the leader.
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=events,verbs=create;patch
