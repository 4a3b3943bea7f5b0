package v1alpha1

// WebhookFormat is the format of the requests to a webhook.
//
// +kubebuilder:validation:Enum=JSON;CloudEvents;CloudEventsBinary
type WebhookFormat string

const (
	// WebhookJSON: the body is the message, as docs/webhook.schema.json describes it.
	WebhookJSON WebhookFormat = "JSON"
	// WebhookCloudEvents: the body is a CloudEvent 1.0 in structured mode, and its data is
	// the message.
	WebhookCloudEvents WebhookFormat = "CloudEvents"
	// WebhookCloudEventsBinary: a CloudEvent 1.0 in binary mode. The body is the message,
	// and the attributes are HTTP headers.
	WebhookCloudEventsBinary WebhookFormat = "CloudEventsBinary"
)

// WebhookReceiver posts JSON to an HTTP server.
type WebhookReceiver struct {
	HTTPServer `json:",inline"`

	// format of the requests: JSON, CloudEvents (1.0, structured mode) or CloudEventsBinary
	// (1.0, binary mode). Default: JSON.
	// +optional
	// +default="JSON"
	Format WebhookFormat `json:"format,omitempty"`

	// signingKeySecretRef names the Secret and the key that contain a signing key of 24 to
	// 64 bytes in base64. Requests are signed according to Standard Webhooks 1.0. You must
	// be allowed to get this Secret. If unset, requests are not signed.
	// +optional
	SigningKeySecretRef *SecretKeyReference `json:"signingKeySecretRef,omitempty"`
}

// ClusterWebhookReceiver posts JSON to an HTTP server.
type ClusterWebhookReceiver struct {
	ClusterHTTPServer `json:",inline"`

	// format of the requests: JSON, CloudEvents (1.0, structured mode) or CloudEventsBinary
	// (1.0, binary mode). Default: JSON.
	// +optional
	// +default="JSON"
	Format WebhookFormat `json:"format,omitempty"`

	// signingKeySecretRef names the Secret and the key that contain a signing key of 24 to
	// 64 bytes in base64. Requests are signed according to Standard Webhooks 1.0. You must
	// be allowed to get this Secret. If unset, requests are not signed.
	// +optional
	SigningKeySecretRef *ClusterSecretKeyReference `json:"signingKeySecretRef,omitempty"`
}

func (w *WebhookReceiver) in(namespace string) *ClusterWebhookReceiver {
	if w == nil {
		return nil
	}
	return &ClusterWebhookReceiver{
		ClusterHTTPServer:   w.HTTPServer.in(namespace),
		Format:              w.Format,
		SigningKeySecretRef: w.SigningKeySecretRef.in(namespace),
	}
}
