package v1alpha1

// SlackChannel is a channel that a bot posts to.
type SlackChannel struct {
	// channel is the ID of the channel, which Slack shows in its details, or its name
	// after #. The bot must be in it. Only with tokenSecretRef.
	// +optional
	// +kubebuilder:validation:MaxLength=81
	// +kubebuilder:validation:Pattern=`^([CDG][A-Z0-9]{2,}|#[^\s#]{1,80})$`
	Channel string `json:"channel,omitempty"`

	// apiURL is where Slack's Web API is served. Only with tokenSecretRef. Default:
	// https://slack.com/api.
	// +optional
	APIURL ServerURL `json:"apiURL,omitempty"`
}

// SlackReceiver posts to a Slack channel: through an incoming webhook, or as a bot,
// which keeps the messages of a group together.
//
// +kubebuilder:validation:XValidation:rule="has(self.webhookURLSecretRef) != has(self.tokenSecretRef)",message="exactly one of webhookURLSecretRef and tokenSecretRef must be set"
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) == has(self.channel)",message="channel must be set with tokenSecretRef, and with it alone"
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) || !has(self.apiURL)",message="apiURL can be set with tokenSecretRef alone"
type SlackReceiver struct {
	SlackChannel `json:",inline"`

	// webhookURLSecretRef names the incoming webhook's URL. Whoever creates or
	// changes the receiver must be allowed to get this Secret.
	// +optional
	WebhookURLSecretRef *SecretURLReference `json:"webhookURLSecretRef,omitempty"`

	// tokenSecretRef names the token of a bot with the scope chat:write. Whoever
	// creates or changes the receiver must be allowed to get this Secret.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`
}

// ClusterSlackReceiver posts to a Slack channel: through an incoming webhook, or as a
// bot, which keeps the messages of a group together.
//
// +kubebuilder:validation:XValidation:rule="has(self.webhookURLSecretRef) != has(self.tokenSecretRef)",message="exactly one of webhookURLSecretRef and tokenSecretRef must be set"
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) == has(self.channel)",message="channel must be set with tokenSecretRef, and with it alone"
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) || !has(self.apiURL)",message="apiURL can be set with tokenSecretRef alone"
type ClusterSlackReceiver struct {
	SlackChannel `json:",inline"`

	// webhookURLSecretRef names the incoming webhook's URL. Whoever creates or
	// changes the receiver must be allowed to get this Secret.
	// +optional
	WebhookURLSecretRef *ClusterSecretURLReference `json:"webhookURLSecretRef,omitempty"`

	// tokenSecretRef names the token of a bot with the scope chat:write. Whoever
	// creates or changes the receiver must be allowed to get this Secret.
	// +optional
	TokenSecretRef *ClusterSecretKeyReference `json:"tokenSecretRef,omitempty"`
}

func (s *SlackReceiver) in(namespace string) *ClusterSlackReceiver {
	if s == nil {
		return nil
	}
	return &ClusterSlackReceiver{
		SlackChannel:        s.SlackChannel,
		WebhookURLSecretRef: s.WebhookURLSecretRef.in(namespace),
		TokenSecretRef:      s.TokenSecretRef.in(namespace),
	}
}
