package v1alpha1

// SlackChannel is a channel that a Slack bot posts to.
type SlackChannel struct {
	// channel is the ID of the channel, which Slack shows in its details, or # and its
	// name. The bot must be a member. Set it with tokenSecretRef only. At most 81
	// characters.
	// +optional
	// +kubebuilder:validation:MaxLength=81
	// +kubebuilder:validation:Pattern=`^([CDG][A-Z0-9]{2,}|#[^\s#]{1,80})$`
	Channel string `json:"channel,omitempty"`

	// apiURL is the URL of Slack's Web API. Set it with tokenSecretRef only. If unset, it
	// is https://slack.com/api.
	// +optional
	APIURL ServerURL `json:"apiURL,omitempty"`
}

// SlackReceiver posts to a Slack channel through an incoming webhook or as a bot. A bot
// edits the message of a group and replies in its thread.
//
// +kubebuilder:validation:XValidation:rule="has(self.webhookURLSecretRef) != has(self.tokenSecretRef)",message="set exactly one of webhookURLSecretRef and tokenSecretRef"
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) == has(self.channel)",message="a bot needs a channel, and a webhook has its own: set channel together with tokenSecretRef only"
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) || !has(self.apiURL)",message="apiURL is for bots: set it together with tokenSecretRef only"
type SlackReceiver struct {
	SlackChannel `json:",inline"`

	// webhookURLSecretRef names the Secret and the key that contain the URL of an incoming
	// webhook. You must be allowed to get this Secret.
	// +optional
	WebhookURLSecretRef *SecretURLReference `json:"webhookURLSecretRef,omitempty"`

	// tokenSecretRef names the Secret and the key that contain the token of a bot. The bot
	// needs the scope chat:write. You must be allowed to get this Secret.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`
}

// ClusterSlackReceiver posts to a Slack channel through an incoming webhook or as a bot.
// A bot edits the message of a group and replies in its thread.
//
// +kubebuilder:validation:XValidation:rule="has(self.webhookURLSecretRef) != has(self.tokenSecretRef)",message="set exactly one of webhookURLSecretRef and tokenSecretRef"
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) == has(self.channel)",message="a bot needs a channel, and a webhook has its own: set channel together with tokenSecretRef only"
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) || !has(self.apiURL)",message="apiURL is for bots: set it together with tokenSecretRef only"
type ClusterSlackReceiver struct {
	SlackChannel `json:",inline"`

	// webhookURLSecretRef names the Secret and the key that contain the URL of an incoming
	// webhook. You must be allowed to get this Secret.
	// +optional
	WebhookURLSecretRef *ClusterSecretURLReference `json:"webhookURLSecretRef,omitempty"`

	// tokenSecretRef names the Secret and the key that contain the token of a bot. The bot
	// needs the scope chat:write. You must be allowed to get this Secret.
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
