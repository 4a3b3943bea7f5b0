package operator

// Permissions of every replica. When the operator starts, package permissions checks these
// and those of the chosen features.
//
// One replica leads at a time. It holds a lease, and the others wait for it. Through another
// lease, a leader that cannot commit asks for a standby that can.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=bongsu-system,resources=leases,verbs=get;create;update
//
// The operator works for tenants only while its admission policies are in force.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,verbs=list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicybindings,verbs=list;watch
//
// A record of the policies shows after a start whether one was missing.
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=configmaps,verbs=get;create;update
//
// /metrics is served only to users who can get it.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// Leader election emits an Event that names the leader.
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=events,verbs=create;patch
