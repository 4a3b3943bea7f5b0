package v1alpha1

// ChatReceiver posts to a channel through an incoming webhook.
type ChatReceiver struct {
	// webhookURLSecretRef names the Secret and the key that contain the webhook's URL. You
	// must be allowed to get this Secret.
	// +required
	WebhookURLSecretRef SecretURLReference `json:"webhookURLSecretRef"`
}

// TelegramReceiver posts to a Telegram chat as a bot.
type TelegramReceiver struct {
	// chatID is the number of the chat, which is negative for a group, or the @name of a
	// public channel or group. At most 33 characters.
	// +required
	// +kubebuilder:validation:MaxLength=33
	// +kubebuilder:validation:Pattern=`^(-?[0-9]{1,19}|@[A-Za-z0-9_]{4,32})$`
	ChatID string `json:"chatID"`

	// threadID is the number of a topic in the chat. If unset, messages have no topic.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ThreadID int64 `json:"threadID,omitempty"`

	// apiURL is the URL of the Bot API. Default: https://api.telegram.org.
	// +optional
	// +default="https://api.telegram.org"
	APIURL ServerURL `json:"apiURL,omitempty"`

	// tokenSecretRef names the Secret and the key that contain the bot's token. You must be
	// allowed to get this Secret.
	// +required
	TokenSecretRef SecretKeyReference `json:"tokenSecretRef"`
}
