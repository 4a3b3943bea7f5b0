package v1alpha1

// SlackMention names who is notified of a message: the ID of a user or of a user group, or
// here, channel or everyone.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^([UWS][A-Z0-9]{2,}|here|channel|everyone)$`
type SlackMention string

// SlackChannelFrom takes the channel of a message from a label of the namespace that the
// message is about.
type SlackChannelFrom struct {
	// namespaceLabel is the key of the label. Its value is the name of a channel without #,
	// or the ID of a channel. Everyone who may update a namespace can change the label. At
	// most 317 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	NamespaceLabel string `json:"namespaceLabel"`

	// allowed are globs for the values that may be used. "*" matches any text, "?" one
	// character. Messages with another value, or without the label, go to spec.slack.channel.
	// So do messages for a channel that Slack refuses. At most 32, of 80 characters each.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=80
	Allowed []string `json:"allowed"`
}

// SlackReceiver posts to a Slack channel through an incoming webhook or as a bot.
// A bot edits the message of a group and replies in its thread.
//
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) || !has(self.channelFrom)",message="channelFrom is for bots: set it together with tokenSecretRef only"
// +kubebuilder:validation:XValidation:rule="has(self.webhookURLSecretRef) != has(self.tokenSecretRef)",message="set exactly one of webhookURLSecretRef and tokenSecretRef"
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) == has(self.channel)",message="a bot needs a channel, and a webhook has its own: set channel together with tokenSecretRef only"
// +kubebuilder:validation:XValidation:rule="has(self.tokenSecretRef) || !has(self.apiURL)",message="apiURL is for bots: set it together with tokenSecretRef only"
type SlackReceiver struct {
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

	// mentions are the users and user groups that each message notifies, by their IDs. Slack
	// shows these in the profiles: U0123456789 or W0123456789 for a user, S0123456789 for a
	// user group. here, channel and everyone notify members of the channel. Replies in
	// threads, and messages that resolve a group, notify no one. If unset, messages mention
	// no one. At most 10.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	Mentions []SlackMention `json:"mentions,omitempty"`

	// channelFrom takes the channel of a message from a label of its namespace. Messages about
	// objects without a namespace go to channel, and so do those of a ClusterAlarm whose group
	// does not contain regarding.namespace. An AlarmReceiver cannot have it. If unset, all
	// messages go to channel.
	// +optional
	ChannelFrom *SlackChannelFrom `json:"channelFrom,omitempty"`

	// webhookURLSecretRef names the Secret and the key that contain the URL of an incoming
	// webhook. You must be allowed to get this Secret.
	// +optional
	WebhookURLSecretRef *SecretURLReference `json:"webhookURLSecretRef,omitempty"`

	// tokenSecretRef names the Secret and the key that contain the token of a bot. The bot
	// needs the scope chat:write. You must be allowed to get this Secret.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`
}
