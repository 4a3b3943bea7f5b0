package v1alpha1

// ClusterSpec returns the spec in the form of a ClusterAlarmReceiver. The namespace of
// each Secret is that of the receiver.
func (r *AlarmReceiver) ClusterSpec() ClusterAlarmReceiverSpec {
	spec := ClusterAlarmReceiverSpec{AlarmReceiverSpec: *r.Spec.DeepCopy()}
	for _, ref := range spec.SecretReferences() {
		ref.Namespace = r.Namespace
	}
	return spec
}

// ClusterSpec returns the spec.
func (r *ClusterAlarmReceiver) ClusterSpec() ClusterAlarmReceiverSpec { return r.Spec }
