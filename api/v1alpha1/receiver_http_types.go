package v1alpha1

// ServerURL is an http or https URL, at most 2,048 characters.
//
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && size(url(self).getHostname()) > 0",message="not an absolute http or https URL: write for example https://alarms.example.com/bongsu"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[a-z]+://[^/?#]*@')",message="contains a user or password: put the URL into a Secret and name it in urlSecretRef"
// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="contains a fragment: remove # and the text after it"
type ServerURL string

// HTTPServer is an HTTP server and the Secrets for requests to it.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.urlSecretRef)",message="set exactly one of url and urlSecretRef"
type HTTPServer struct {
	// url of the server: http or https, without a user, a password or a fragment.
	// +optional
	URL ServerURL `json:"url,omitempty"`

	// urlSecretRef names the Secret and the key that contain the URL. You must be allowed
	// to get this Secret.
	// +optional
	URLSecretRef *SecretURLReference `json:"urlSecretRef,omitempty"`

	// headersSecretRef names a Secret whose entries are sent as HTTP headers, for example
	// Authorization. You must be allowed to get this Secret. If unset, no headers are
	// added.
	// +optional
	HeadersSecretRef *SecretReference `json:"headersSecretRef,omitempty"`

	// caSecretRef names the Secret and the key that contain the trusted CA certificates in
	// PEM, for example the key ca.crt of a cert-manager Secret. You must be allowed to get
	// this Secret. If unset, the operator trusts the CAs in its image.
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`
}

// ClusterHTTPServer is an HTTP server and the Secrets for requests to it.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.urlSecretRef)",message="set exactly one of url and urlSecretRef"
type ClusterHTTPServer struct {
	// url of the server: http or https, without a user, a password or a fragment.
	// +optional
	URL ServerURL `json:"url,omitempty"`

	// urlSecretRef names the Secret and the key that contain the URL. You must be allowed
	// to get this Secret.
	// +optional
	URLSecretRef *ClusterSecretURLReference `json:"urlSecretRef,omitempty"`

	// headersSecretRef names a Secret whose entries are sent as HTTP headers, for example
	// Authorization. You must be allowed to get this Secret. If unset, no headers are
	// added.
	// +optional
	HeadersSecretRef *ClusterSecretReference `json:"headersSecretRef,omitempty"`

	// caSecretRef names the Secret and the key that contain the trusted CA certificates in
	// PEM, for example the key ca.crt of a cert-manager Secret. You must be allowed to get
	// this Secret. If unset, the operator trusts the CAs in its image.
	// +optional
	CASecretRef *ClusterSecretKeyReference `json:"caSecretRef,omitempty"`
}

func (s *HTTPServer) in(namespace string) ClusterHTTPServer {
	return ClusterHTTPServer{
		URL:              s.URL,
		URLSecretRef:     s.URLSecretRef.in(namespace),
		HeadersSecretRef: s.HeadersSecretRef.in(namespace),
		CASecretRef:      s.CASecretRef.in(namespace),
	}
}
