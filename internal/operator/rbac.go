package operator

// Rights of every replica, whatever it was chosen for. Package rights checks these and
// those of the chosen capabilities when the operator starts.
//
// One replica leads at a time: it holds this lease, and the others wait for it.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=bongsu-system,resources=leases,verbs=get;create;update
//
// Leader election tells in an Event who leads.
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=events,verbs=create;patch
