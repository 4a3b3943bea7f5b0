package v1alpha1

// ChatReceiver posts to a channel through a webhook of the chat.
type ChatReceiver struct {
	// webhookURLSecretRef names the webhook's URL. Whoever creates or changes the
	// receiver must be allowed to get this Secret.
	// +required
	WebhookURLSecretRef SecretURLReference `json:"webhookURLSecretRef"`
}

// ClusterChatReceiver posts to a channel through a webhook of the chat.
type ClusterChatReceiver struct {
	// webhookURLSecretRef names the webhook's URL. Whoever creates or changes the
	// receiver must be allowed to get this Secret.
	// +required
	WebhookURLSecretRef ClusterSecretURLReference `json:"webhookURLSecretRef"`
}

func (c *ChatReceiver) in(namespace string) *ClusterChatReceiver {
	if c == nil {
		return nil
	}
	return &ClusterChatReceiver{WebhookURLSecretRef: *c.WebhookURLSecretRef.in(namespace)}
}

// TelegramChat is a chat of Telegram.
type TelegramChat struct {
	// chatID is the chat's number, negative for a group, or the @name of a public
	// channel or group.
	// +required
	// +kubebuilder:validation:MaxLength=33
	// +kubebuilder:validation:Pattern=`^(-?[0-9]{1,19}|@[A-Za-z0-9_]{4,32})$`
	ChatID string `json:"chatID"`

	// threadID is the number of a topic of the chat. Default: none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ThreadID int64 `json:"threadID,omitempty"`

	// apiURL is where the Bot API is served. Default: https://api.telegram.org.
	// +optional
	// +default="https://api.telegram.org"
	APIURL ServerURL `json:"apiURL,omitempty"`
}

// TelegramReceiver has a bot send to a chat of Telegram.
type TelegramReceiver struct {
	TelegramChat `json:",inline"`

	// tokenSecretRef names the bot's token. Whoever creates or changes the receiver
	// must be allowed to get this Secret.
	// +required
	TokenSecretRef SecretKeyReference `json:"tokenSecretRef"`
}

// ClusterTelegramReceiver has a bot send to a chat of Telegram.
type ClusterTelegramReceiver struct {
	TelegramChat `json:",inline"`

	// tokenSecretRef names the bot's token. Whoever creates or changes the receiver
	// must be allowed to get this Secret.
	// +required
	TokenSecretRef ClusterSecretKeyReference `json:"tokenSecretRef"`
}

func (t *TelegramReceiver) in(namespace string) *ClusterTelegramReceiver {
	if t == nil {
		return nil
	}
	return &ClusterTelegramReceiver{TelegramChat: t.TelegramChat, TokenSecretRef: *t.TokenSecretRef.in(namespace)}
}
