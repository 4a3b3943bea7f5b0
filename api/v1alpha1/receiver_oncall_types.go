package v1alpha1

// PagerDutySeverity is the severity of a PagerDuty incident.
//
// +kubebuilder:validation:Enum=critical;error;warning;info
type PagerDutySeverity string

// PagerDutyReceiver triggers and resolves PagerDuty incidents.
type PagerDutyReceiver struct {
	// severity of all incidents: critical, error, warning or info. If unset, warning for
	// Events of type Warning, and info for others.
	// +optional
	Severity PagerDutySeverity `json:"severity,omitempty"`

	// apiURL is the URL of the Events API. In the European service region, set it to
	// https://events.eu.pagerduty.com/v2/enqueue. Default:
	// https://events.pagerduty.com/v2/enqueue.
	// +optional
	// +default="https://events.pagerduty.com/v2/enqueue"
	APIURL ServerURL `json:"apiURL,omitempty"`

	// routingKeySecretRef names the Secret and the key that contain the integration key of
	// an Events API v2 integration. You must be allowed to get this Secret.
	// +required
	RoutingKeySecretRef SecretKeyReference `json:"routingKeySecretRef"`
}

// AlertmanagerReceiver sends alerts to an Alertmanager.
type AlertmanagerReceiver struct {
	HTTPServer `json:",inline"`

	// resolveAfterSeconds is the time after which an alert ends, in seconds, unless it is
	// resolved or sent again before. From 60 to 604,800. The alert of an open group is sent
	// again in time, and the default for it is 300. For others, Alertmanager's
	// resolve_timeout applies if it is unset.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	ResolveAfterSeconds int32 `json:"resolveAfterSeconds,omitempty"`
}
