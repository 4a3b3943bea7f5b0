package app

// Rights that no controller of its own asks for. Package rights checks these and all
// others when the operator starts.
//
// The feed reads all Events, and Nodes are cached; what else is read of the objects
// that Events regard stands in package enrich.
//
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
//
// The mirror, and the lease of leadership with the Events that election records.
//
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=configmaps,verbs=get;create;update
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=bongsu-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=bongsu-system,resources=events,verbs=create;patch
