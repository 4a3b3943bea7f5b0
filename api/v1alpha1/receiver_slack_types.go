package v1alpha1

// SlackReceiver posts to a Slack channel.
type SlackReceiver struct {
	// webhookURLSecretRef names the incoming webhook's URL. Whoever creates or
	// changes the receiver must be allowed to get this Secret.
	// +required
	WebhookURLSecretRef SecretKeyReference `json:"webhookURLSecretRef"`
}

// ClusterSlackReceiver posts to a Slack channel.
type ClusterSlackReceiver struct {
	// webhookURLSecretRef names the incoming webhook's URL. Whoever creates or
	// changes the receiver must be allowed to get this Secret.
	// +required
	WebhookURLSecretRef ClusterSecretKeyReference `json:"webhookURLSecretRef"`
}

func (s *SlackReceiver) in(namespace string) *ClusterSlackReceiver {
	if s == nil {
		return nil
	}
	return &ClusterSlackReceiver{WebhookURLSecretRef: *s.WebhookURLSecretRef.in(namespace)}
}
