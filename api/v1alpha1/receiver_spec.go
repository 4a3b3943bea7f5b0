package v1alpha1

// ClusterSpec returns the spec in the form of a ClusterAlarmReceiver, with the
// receiver's own namespace as that of each Secret.
func (r *AlarmReceiver) ClusterSpec() ClusterAlarmReceiverSpec {
	return ClusterAlarmReceiverSpec{
		Slack:   r.Spec.Slack.in(r.Namespace),
		Webhook: r.Spec.Webhook.in(r.Namespace),
		Log:     r.Spec.Log,
	}
}

// ClusterSpec returns the spec.
func (r *ClusterAlarmReceiver) ClusterSpec() ClusterAlarmReceiverSpec { return r.Spec }
