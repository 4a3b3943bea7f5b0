package v1alpha1

// ServerType is what a notebook's container serves.
//
// +kubebuilder:validation:Enum=Jupyter;HTTP
type ServerType string

// Values of ServerType.
const (
	// ServerTypeJupyter: a Jupyter server, which takes the token of the notebook.
	ServerTypeJupyter ServerType = "Jupyter"
	// ServerTypeHTTP: another HTTP server. It authenticates its users itself.
	ServerTypeHTTP ServerType = "HTTP"
)

// JupyterServer describes the server in the notebook container.
//
// +kubebuilder:validation:XValidation:rule="has(self.type) && self.type == 'HTTP' ? has(self.port) : !has(self.port) && !has(self.readinessPath) && !has(self.activityPath)",message="port is required for type HTTP, and port, readinessPath and activityPath are for type HTTP only: set type and port, or remove these fields"
type JupyterServer struct {
	// type of the server: Jupyter or HTTP. An HTTP server gets no token: it must
	// authenticate its users itself. Default: Jupyter.
	// +optional
	// +default="Jupyter"
	Type ServerType `json:"type,omitempty"`

	// port on which the server listens, from 1 to 65,535. It is required for type HTTP. A
	// server of type Jupyter listens on port 8888.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// command of the notebook container, at most 64 items of at most 1,024 characters. If
	// unset, the entry point of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Command []string `json:"command,omitempty"`

	// args of the notebook container, at most 64 items of at most 1,024 characters. If
	// unset, those of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Args []string `json:"args,omitempty"`

	// readinessPath is the path at which an HTTP server answers when it is ready, without
	// credentials, at most 256 characters. If unset, it is /.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/[-._~A-Za-z0-9/]*$`
	ReadinessPath string `json:"readinessPath,omitempty"`

	// activityPath is the path at which an HTTP server reports its last use in JSON, without
	// credentials, at most 256 characters. The answer has the field last_activity, a time in
	// RFC 3339, or lastHeartbeat, in milliseconds since 1970. Culling requires it. If unset,
	// the use is unknown.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/[-._~A-Za-z0-9/]*$`
	ActivityPath string `json:"activityPath,omitempty"`
}

// AccessType determines how users reach a notebook from outside the cluster.
//
// +kubebuilder:validation:Enum=None;Ingress
type AccessType string

// Values of AccessType.
const (
	// AccessTypeNone: only through its Service, for example with `kubectl port-forward`.
	AccessTypeNone AccessType = "None"
	// AccessTypeIngress: through an Ingress.
	AccessTypeIngress AccessType = "Ingress"
)

// JupyterAccess determines how users reach a notebook.
//
// +kubebuilder:validation:XValidation:rule="has(self.type) && self.type == 'Ingress' ? has(self.host) : !has(self.host) && !has(self.ingressClassName) && !has(self.tlsSecretName) && !has(self.annotations)",message="host is required for type Ingress, and host, ingressClassName, tlsSecretName and annotations are for type Ingress only: set type and host, or remove these fields"
type JupyterAccess struct {
	// type of access from outside the cluster: None or Ingress. For Ingress, you must be
	// allowed to create Ingresses. Default: None.
	// +optional
	// +default="None"
	Type AccessType `json:"type,omitempty"`

	// host is the DNS name of the notebook, at most 253 characters. It is required for type
	// Ingress.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Host string `json:"host,omitempty"`

	// ingressClassName of the Ingress, at most 253 characters. If unset, the cluster's
	// default class is used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	IngressClassName *string `json:"ingressClassName,omitempty"`

	// tlsSecretName is the name of a Secret of type kubernetes.io/tls with the certificate
	// of the host. You must be allowed to get this Secret. If unset, TLS is not used. At
	// most 253 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	TLSSecretName string `json:"tlsSecretName,omitempty"`

	// path is the prefix of all paths of the server, such as /lab/ana, at most 200
	// characters. The server gets it as its base_url, in the variable NOTEBOOK_ARGS, which
	// the Jupyter project's images read. Notebooks with the same host can have different
	// paths. If unset, there is no prefix.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9][-._A-Za-z0-9]*)+$`
	Path string `json:"path,omitempty"`

	// annotations of the Ingress, at most 16. Only annotations for limits, timeouts, entry
	// points, TLS and certificates are allowed: see docs/jupyter.md, which also lists their
	// values. Values have at most 256 characters. If unset, the Ingress has none.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['nginx.ingress.kubernetes.io/proxy-body-size', 'nginx.ingress.kubernetes.io/proxy-read-timeout', 'nginx.ingress.kubernetes.io/proxy-send-timeout', 'nginx.ingress.kubernetes.io/proxy-buffering', 'nginx.ingress.kubernetes.io/proxy-request-buffering', 'nginx.ingress.kubernetes.io/ssl-redirect', 'nginx.ingress.kubernetes.io/force-ssl-redirect', 'nginx.ingress.kubernetes.io/whitelist-source-range', 'traefik.ingress.kubernetes.io/router.entrypoints', 'traefik.ingress.kubernetes.io/router.tls', 'cert-manager.io/issuer', 'cert-manager.io/cluster-issuer'])",message="an annotation is not one of those that spec.access may set: remove it, or annotate the Ingress itself"
	// +kubebuilder:validation:XValidation:rule="['nginx.ingress.kubernetes.io/proxy-body-size'].all(k, !(k in self) || self[k].matches('^[0-9]{1,9}[kKmMgG]?$'))",message="proxy-body-size must be a number of bytes of at most 9 digits, or one with k, m or g: write for example 1g"
	// +kubebuilder:validation:XValidation:rule="['nginx.ingress.kubernetes.io/proxy-read-timeout', 'nginx.ingress.kubernetes.io/proxy-send-timeout'].all(k, !(k in self) || self[k].matches('^[0-9]{1,9}$'))",message="proxy-read-timeout and proxy-send-timeout must be a number of seconds of at most 9 digits: write for example 3600"
	// +kubebuilder:validation:XValidation:rule="['nginx.ingress.kubernetes.io/proxy-buffering', 'nginx.ingress.kubernetes.io/proxy-request-buffering'].all(k, !(k in self) || self[k].matches('^(on|off)$'))",message="proxy-buffering and proxy-request-buffering must be on or off"
	// +kubebuilder:validation:XValidation:rule="['nginx.ingress.kubernetes.io/ssl-redirect', 'nginx.ingress.kubernetes.io/force-ssl-redirect', 'traefik.ingress.kubernetes.io/router.tls'].all(k, !(k in self) || self[k].matches('^(true|false)$'))",message="ssl-redirect, force-ssl-redirect and router.tls must be true or false"
	// +kubebuilder:validation:XValidation:rule="['nginx.ingress.kubernetes.io/whitelist-source-range'].all(k, !(k in self) || self[k].matches('^[0-9A-Fa-f.:]+(/[0-9]{1,3})?(, ?[0-9A-Fa-f.:]+(/[0-9]{1,3})?)*$'))",message="whitelist-source-range must be a list of IP addresses or CIDRs, separated by commas: write for example 10.0.0.0/8,192.0.2.1"
	// +kubebuilder:validation:XValidation:rule="['traefik.ingress.kubernetes.io/router.entrypoints'].all(k, !(k in self) || self[k].matches('^[-A-Za-z0-9_]+(, ?[-A-Za-z0-9_]+)*$'))",message="router.entrypoints must be a list of names, separated by commas: write for example web,websecure"
	// +kubebuilder:validation:XValidation:rule="['cert-manager.io/issuer', 'cert-manager.io/cluster-issuer'].all(k, !(k in self) || self[k].matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'))",message="issuer and cluster-issuer must be the name of an issuer, in lower case"
	Annotations map[string]IngressAnnotation `json:"annotations,omitempty"`
}

// IngressAnnotation is the value of an annotation of the Ingress. Each key has a rule of its
// own, at the field annotations.
//
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9 ._,:/]*$`
type IngressAnnotation string
