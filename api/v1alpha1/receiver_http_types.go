package v1alpha1

// ServerURL is the address of an HTTP server.
//
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && size(url(self).getHostname()) > 0",message="must be an absolute http or https URL, for example https://alarms.example.com/bongsu"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[a-z]+://[^/?#]*@')",message="must not hold a user or password; put the URL in a Secret and name it in urlSecretRef"
// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="must not have a fragment: remove # and what follows"
type ServerURL string

// HTTPServer is a server of the user's own, and how to speak to it.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.urlSecretRef)",message="exactly one of url and urlSecretRef must be set"
type HTTPServer struct {
	// url of the server, http or https, without user or fragment.
	// +optional
	URL ServerURL `json:"url,omitempty"`

	// urlSecretRef names the URL in a Secret. Whoever creates or changes the
	// receiver must be allowed to get this Secret.
	// +optional
	URLSecretRef *SecretURLReference `json:"urlSecretRef,omitempty"`

	// headersSecretRef names a Secret of which each entry is sent as a header,
	// for example Authorization. Whoever creates or changes the receiver must be
	// allowed to get this Secret.
	// +optional
	HeadersSecretRef *SecretReference `json:"headersSecretRef,omitempty"`

	// caSecretRef names the certificates of the authorities, in PEM, that may sign
	// the server's certificate, for example the key ca.crt of a Secret of
	// cert-manager's. Whoever creates or changes the receiver must be allowed to get
	// this Secret. Default: the authorities that the operator's image trusts.
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`
}

// ClusterHTTPServer is a server of the user's own, and how to speak to it.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.urlSecretRef)",message="exactly one of url and urlSecretRef must be set"
type ClusterHTTPServer struct {
	// url of the server, http or https, without user or fragment.
	// +optional
	URL ServerURL `json:"url,omitempty"`

	// urlSecretRef names the URL in a Secret. Whoever creates or changes the
	// receiver must be allowed to get this Secret.
	// +optional
	URLSecretRef *ClusterSecretURLReference `json:"urlSecretRef,omitempty"`

	// headersSecretRef names a Secret of which each entry is sent as a header,
	// for example Authorization. Whoever creates or changes the receiver must be
	// allowed to get this Secret.
	// +optional
	HeadersSecretRef *ClusterSecretReference `json:"headersSecretRef,omitempty"`

	// caSecretRef names the certificates of the authorities, in PEM, that may sign
	// the server's certificate, for example the key ca.crt of a Secret of
	// cert-manager's. Whoever creates or changes the receiver must be allowed to get
	// this Secret. Default: the authorities that the operator's image trusts.
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
