package v1alpha1

// ClusterSpec returns the spec in the form of a ClusterAlarmReceiver. The namespace of
// each Secret is that of the receiver.
func (r *AlarmReceiver) ClusterSpec() ClusterAlarmReceiverSpec {
	return ClusterAlarmReceiverSpec{
		TimeoutSeconds: r.Spec.TimeoutSeconds,

		Slack:        r.Spec.Slack.in(r.Namespace),
		Teams:        r.Spec.Teams.in(r.Namespace),
		Discord:      r.Spec.Discord.in(r.Namespace),
		Telegram:     r.Spec.Telegram.in(r.Namespace),
		PagerDuty:    r.Spec.PagerDuty.in(r.Namespace),
		Alertmanager: r.Spec.Alertmanager.in(r.Namespace),
		Email:        r.Spec.Email.in(r.Namespace),
		Webhook:      r.Spec.Webhook.in(r.Namespace),
		Log:          r.Spec.Log,
	}
}

// ClusterSpec returns the spec.
func (r *ClusterAlarmReceiver) ClusterSpec() ClusterAlarmReceiverSpec { return r.Spec }
