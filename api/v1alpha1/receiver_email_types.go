package v1alpha1

// MailTLS determines how the connection to a mail server is encrypted.
//
// +kubebuilder:validation:Enum=StartTLS;Implicit;None
type MailTLS string

const (
	// MailStartTLS encrypts the connection after the greeting. If the server does not
	// offer this, nothing is sent.
	MailStartTLS MailTLS = "StartTLS"
	// MailImplicitTLS encrypts the connection from the beginning.
	MailImplicitTLS MailTLS = "Implicit"
	// MailNoTLS does not encrypt the connection.
	MailNoTLS MailTLS = "None"
)

// MailAddress is an email address without a display name, at most 254 characters.
//
// +kubebuilder:validation:MaxLength=254
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`
type MailAddress string

// EmailReceiver sends emails.
//
// +kubebuilder:validation:XValidation:rule="!has(self.credentialsSecretRef) || self.tls != 'None'",message="credentialsSecretRef needs encryption: set tls to StartTLS or Implicit"
type EmailReceiver struct {
	// host is the name or IP address of the mail server, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9.:-]+$`
	Host string `json:"host"`

	// port of the mail server, from 1 to 65535. If unset, 587 for tls StartTLS, 465 for
	// Implicit, and 25 for None.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// tls determines how the connection is encrypted: StartTLS, Implicit or None. Default:
	// StartTLS.
	// +optional
	// +default="StartTLS"
	TLS MailTLS `json:"tls,omitempty"`

	// from is the address of the sender.
	// +required
	From MailAddress `json:"from"`

	// to are the addresses of the recipients, from 1 to 20.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	To []MailAddress `json:"to"`

	// credentialsSecretRef names a Secret with the keys username and password. You must be
	// allowed to get this Secret. If unset, the operator does not log in.
	// +optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`

	// caSecretRef names the Secret and the key that contain the trusted CA certificates in
	// PEM. You must be allowed to get this Secret. If unset, the operator trusts the CAs
	// in its image.
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`
}
