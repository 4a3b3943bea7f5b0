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

	// clientCertSecretRef names a Secret with the keys tls.crt and tls.key. They contain a
	// certificate in PEM and its private key. The operator shows it to the receiver's server if
	// that asks for one, and to no token server or proxy. You must be allowed to get this
	// Secret. If unset, the operator shows none.
	// +optional
	ClientCertSecretRef *SecretReference `json:"clientCertSecretRef,omitempty"`

	// oauth2 requests access tokens and sends them with each request. If unset, the operator
	// sends none.
	// +optional
	OAuth2 *OAuth2 `json:"oauth2,omitempty"`
}

// OAuth2Authentication determines how a client sends its credentials to the token server.
//
// +kubebuilder:validation:Enum=Basic;Body
type OAuth2Authentication string

const (
	// OAuth2Basic sends them in the header Authorization.
	OAuth2Basic OAuth2Authentication = "Basic"
	// OAuth2Body sends them in the body.
	OAuth2Body OAuth2Authentication = "Body"
)

// OAuth2 requests access tokens with the credentials of a client.
type OAuth2 struct {
	// tokenURL is the URL of the token server: https, at most 2,048 characters.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.startsWith('https://')",message="a token is a secret: use https"
	TokenURL ServerURL `json:"tokenURL"`

	// clientID is the ID of the client, at most 256 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ClientID string `json:"clientID"`

	// scopes are those that the client requests, at most 16, each of at most 256 characters. If
	// unset, the token server decides.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^[\x21\x23-\x5B\x5D-\x7E]+$`
	Scopes []string `json:"scopes,omitempty"`

	// audience is the parameter of this name, which some token servers need, at most 2,048
	// characters. If unset, the operator does not send it.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Audience string `json:"audience,omitempty"`

	// authentication determines how the client sends its credentials: Basic, in the header
	// Authorization, or Body. Default: Basic.
	// +optional
	// +default="Basic"
	Authentication OAuth2Authentication `json:"authentication,omitempty"`

	// clientSecretRef names the Secret and the key that contain the client's secret. You must
	// be allowed to get this Secret.
	// +required
	ClientSecretRef SecretKeyReference `json:"clientSecretRef"`
}
