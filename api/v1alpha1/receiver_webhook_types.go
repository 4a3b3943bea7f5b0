package v1alpha1

// WebhookFormat is what a webhook is posted.
//
// +kubebuilder:validation:Enum=JSON;CloudEvents;CloudEventsBinary
type WebhookFormat string

const (
	// WebhookJSON is the message alone, as docs/webhook.schema.json describes it.
	WebhookJSON WebhookFormat = "JSON"
	// WebhookCloudEvents is a CloudEvent 1.0 in structured mode: one JSON object, of
	// which the message is the data.
	WebhookCloudEvents WebhookFormat = "CloudEvents"
	// WebhookCloudEventsBinary is a CloudEvent 1.0 in binary mode: the message is the
	// body, and the attributes are headers.
	WebhookCloudEventsBinary WebhookFormat = "CloudEventsBinary"
)

// WebhookReceiver posts JSON to an HTTP server.
type WebhookReceiver struct {
	HTTPServer `json:",inline"`

	// format is JSON, CloudEvents (1.0, structured mode) or CloudEventsBinary (binary
	// mode). Default: JSON.
	// +optional
	// +default="JSON"
	Format WebhookFormat `json:"format,omitempty"`

	// signingKeySecretRef names a key of 24 to 64 bytes, in base64, with which each
	// request is signed by the rules of Standard Webhooks 1.0. Whoever creates or
	// changes the receiver must be allowed to get this Secret. Default: no signature.
	// +optional
	SigningKeySecretRef *SecretKeyReference `json:"signingKeySecretRef,omitempty"`
}

// ClusterWebhookReceiver posts JSON to an HTTP server.
type ClusterWebhookReceiver struct {
	ClusterHTTPServer `json:",inline"`

	// format is JSON, CloudEvents (1.0, structured mode) or CloudEventsBinary (binary
	// mode). Default: JSON.
	// +optional
	// +default="JSON"
	Format WebhookFormat `json:"format,omitempty"`

	// signingKeySecretRef names a key of 24 to 64 bytes, in base64, with which each
	// request is signed by the rules of Standard Webhooks 1.0. Whoever creates or
	// changes the receiver must be allowed to get this Secret. Default: no signature.
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
