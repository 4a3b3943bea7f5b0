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

// WebhookMethod is the method of a webhook's requests.
//
// +kubebuilder:validation:Enum=POST;PUT;PATCH
type WebhookMethod string

// HTTPHeader is a header of a webhook's requests.
type HTTPHeader struct {
	// name of the header, at most 128 characters. Headers of the connection, and those that
	// the operator sets, are not allowed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9-]+$`
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['connection', 'content-encoding', 'content-length', 'expect', 'host', 'idempotency-key', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'user-agent', 'x-idempotency-key']) && !['proxy-', 'ce-', 'webhook-'].exists(p, self.lowerAscii().startsWith(p))",message="the operator or the connection sets this header: remove it"
	// +kubebuilder:validation:XValidation:rule="self.lowerAscii() != 'content-type'",message="the header Content-Type depends on the body: set contentType"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['authorization', 'cookie'])",message="the value of this header is a secret: put it into the Secret of headersSecretRef"
	Name string `json:"name"`

	// value of the header, at most 1,024 characters in one line. Everyone who can read the
	// receiver can read it: put secrets into headersSecretRef.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[\x21-\x7E]([\x20-\x7E]*[\x21-\x7E])?$`
	Value string `json:"value"`
}

// WebhookRequest determines the requests to a webhook.
type WebhookRequest struct {
	// method of the requests: POST, PUT or PATCH. Default: POST.
	// +optional
	// +default="POST"
	Method WebhookMethod `json:"method,omitempty"`

	// headers of each request, at most 16, in addition to those of headersSecretRef.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Headers []HTTPHeader `json:"headers,omitempty"`

	// body is the template of the requests' body, at most 16,384 characters. It can contain
	// ${...} with CEL expressions over message, whose fields docs/webhook.schema.json
	// describes. If the contentType is JSON, values within quotes are escaped, others become
	// JSON values, and the body is always valid JSON. A rendered body has at most 64 KiB. If
	// unset, the body is the message.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Body string `json:"body,omitempty"`

	// contentType is the Content-Type of a body of one's own: a type of JSON or text/plain,
	// at most 128 characters. If unset, application/json.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(application/([a-z0-9.-]+[+])?json|text/plain)(; charset=utf-8)?$`
	ContentType string `json:"contentType,omitempty"`

	// format of the requests: JSON, CloudEvents (1.0, structured mode) or CloudEventsBinary
	// (1.0, binary mode). Default: JSON.
	// +optional
	// +default="JSON"
	Format WebhookFormat `json:"format,omitempty"`

	// batch sends several CloudEvents with one request, in batched mode: each body is a JSON
	// array of at least one CloudEvent. It needs the format CloudEvents. If unset, each
	// request contains one.
	// +optional
	Batch *WebhookBatch `json:"batch,omitempty"`

	// expectedAnswer is what the answer must contain in addition to a status of 2xx. If
	// unset, the status is enough.
	// +optional
	ExpectedAnswer *ExpectedAnswer `json:"expectedAnswer,omitempty"`
}

// WebhookBatch determines how many messages a request to a webhook contains.
type WebhookBatch struct {
	// maxMessages is the maximum number of messages in a request, from 2 to 500. The bodies of
	// several messages have at most 128 KiB together. The server must answer a request of so
	// many within timeoutSeconds. Default: 100.
	// +optional
	// +default=100
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=500
	MaxMessages int32 `json:"maxMessages,omitempty"`
}

// ExpectedAnswer is a field of the JSON that a server answers, and its value. Some servers
// answer 200 and report the failure in the body.
type ExpectedAnswer struct {
	// field of the JSON object, at most 128 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Field string `json:"field"`

	// value of the field: a text, a number, true or false. At most 128 characters.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Value string `json:"value"`
}

// WebhookReceiver posts JSON to an HTTP server.
//
// +kubebuilder:validation:XValidation:rule="!has(self.body) || self.format == 'JSON'",message="a CloudEvent has its own body: remove body, or set format to JSON"
// +kubebuilder:validation:XValidation:rule="has(self.body) || !has(self.contentType)",message="contentType is for a body of your own: set it together with body only"
// +kubebuilder:validation:XValidation:rule="!has(self.batch) || !has(self.body)",message="a batch contains CloudEvents, which have their own body: remove batch or body"
// +kubebuilder:validation:XValidation:rule="!has(self.batch) || has(self.body) || self.format == 'CloudEvents'",message="a batch contains CloudEvents in structured mode: set format to CloudEvents, or remove batch"
type WebhookReceiver struct {
	HTTPServer     `json:",inline"`
	WebhookRequest `json:",inline"`

	// signingKeySecretRef names the Secret and the key that contain a signing key of 24 to
	// 64 bytes in base64. Requests are signed according to Standard Webhooks 1.0. You must
	// be allowed to get this Secret. If unset, requests are not signed.
	// +optional
	SigningKeySecretRef *SecretKeyReference `json:"signingKeySecretRef,omitempty"`
}
