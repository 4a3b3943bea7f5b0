package v1alpha1

// MailTLS is how a connection to a mail server is encrypted.
//
// +kubebuilder:validation:Enum=StartTLS;Implicit;None
type MailTLS string

const (
	// MailStartTLS encrypts after the greeting, and sends nothing if the server does
	// not offer it.
	MailStartTLS MailTLS = "StartTLS"
	// MailImplicitTLS encrypts from the beginning.
	MailImplicitTLS MailTLS = "Implicit"
	// MailNoTLS does not encrypt.
	MailNoTLS MailTLS = "None"
)

// MailAddress is an e-mail address without a name.
//
// +kubebuilder:validation:MaxLength=254
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`
type MailAddress string

// MailServer is a mail server, and who writes to whom through it.
type MailServer struct {
	// host of the mail server: a name or an IP address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9.:-]+$`
	Host string `json:"host"`

	// port of the mail server. Default: 587 with StartTLS, 465 with Implicit, 25
	// without TLS.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// tls is StartTLS, Implicit or None. Default: StartTLS.
	// +optional
	// +default="StartTLS"
	TLS MailTLS `json:"tls,omitempty"`

	// from is the sender's address.
	// +required
	From MailAddress `json:"from"`

	// to are the addresses that each message goes to, at most 20.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	To []MailAddress `json:"to"`
}

// EmailReceiver sends e-mail.
//
// +kubebuilder:validation:XValidation:rule="!has(self.credentialsSecretRef) || self.tls != 'None'",message="credentialsSecretRef needs tls: a password is not sent without encryption"
type EmailReceiver struct {
	MailServer `json:",inline"`

	// credentialsSecretRef names a Secret with the keys username and password, with
	// which to log in. Whoever creates or changes the receiver must be allowed to get
	// this Secret. Default: no login.
	// +optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`

	// caSecretRef names the certificates of the authorities, in PEM, that may sign
	// the server's certificate. Whoever creates or changes the receiver must be
	// allowed to get this Secret. Default: the authorities that the operator's image
	// trusts.
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`
}

// ClusterEmailReceiver sends e-mail.
//
// +kubebuilder:validation:XValidation:rule="!has(self.credentialsSecretRef) || self.tls != 'None'",message="credentialsSecretRef needs tls: a password is not sent without encryption"
type ClusterEmailReceiver struct {
	MailServer `json:",inline"`

	// credentialsSecretRef names a Secret with the keys username and password, with
	// which to log in. Whoever creates or changes the receiver must be allowed to get
	// this Secret. Default: no login.
	// +optional
	CredentialsSecretRef *ClusterSecretReference `json:"credentialsSecretRef,omitempty"`

	// caSecretRef names the certificates of the authorities, in PEM, that may sign
	// the server's certificate. Whoever creates or changes the receiver must be
	// allowed to get this Secret. Default: the authorities that the operator's image
	// trusts.
	// +optional
	CASecretRef *ClusterSecretKeyReference `json:"caSecretRef,omitempty"`
}

func (e *EmailReceiver) in(namespace string) *ClusterEmailReceiver {
	if e == nil {
		return nil
	}
	return &ClusterEmailReceiver{
		MailServer:           e.MailServer,
		CredentialsSecretRef: e.CredentialsSecretRef.in(namespace),
		CASecretRef:          e.CASecretRef.in(namespace),
	}
}
