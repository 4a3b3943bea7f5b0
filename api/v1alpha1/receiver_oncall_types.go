package v1alpha1

// PagerDutySeverity is a severity of PagerDuty's.
//
// +kubebuilder:validation:Enum=critical;error;warning;info
type PagerDutySeverity string

// PagerDutyService is where incidents of PagerDuty are made.
type PagerDutyService struct {
	// severity of all incidents. Default: warning if an Event is a Warning, else info.
	// +optional
	Severity PagerDutySeverity `json:"severity,omitempty"`

	// apiURL is where PagerDuty takes events. Default:
	// https://events.pagerduty.com/v2/enqueue; for accounts of its European region
	// https://events.eu.pagerduty.com/v2/enqueue.
	// +optional
	// +default="https://events.pagerduty.com/v2/enqueue"
	APIURL ServerURL `json:"apiURL,omitempty"`
}

// PagerDutyReceiver makes incidents of PagerDuty.
type PagerDutyReceiver struct {
	PagerDutyService `json:",inline"`

	// routingKeySecretRef names the key of an Events API v2 integration. Whoever
	// creates or changes the receiver must be allowed to get this Secret.
	// +required
	RoutingKeySecretRef SecretKeyReference `json:"routingKeySecretRef"`
}

// ClusterPagerDutyReceiver makes incidents of PagerDuty.
type ClusterPagerDutyReceiver struct {
	PagerDutyService `json:",inline"`

	// routingKeySecretRef names the key of an Events API v2 integration. Whoever
	// creates or changes the receiver must be allowed to get this Secret.
	// +required
	RoutingKeySecretRef ClusterSecretKeyReference `json:"routingKeySecretRef"`
}

func (p *PagerDutyReceiver) in(namespace string) *ClusterPagerDutyReceiver {
	if p == nil {
		return nil
	}
	return &ClusterPagerDutyReceiver{PagerDutyService: p.PagerDutyService, RoutingKeySecretRef: *p.RoutingKeySecretRef.in(namespace)}
}

// AlertmanagerReceiver makes alerts of an Alertmanager.
type AlertmanagerReceiver struct {
	HTTPServer `json:",inline"`

	// resolveAfterSeconds is how long after it was last seen an alert ends that is not
	// resolved before, in seconds, from 60 to 604800. Default: Alertmanager's own
	// resolve_timeout.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	ResolveAfterSeconds int32 `json:"resolveAfterSeconds,omitempty"`
}

// ClusterAlertmanagerReceiver makes alerts of an Alertmanager.
type ClusterAlertmanagerReceiver struct {
	ClusterHTTPServer `json:",inline"`

	// resolveAfterSeconds is how long after it was last seen an alert ends that is not
	// resolved before, in seconds, from 60 to 604800. Default: Alertmanager's own
	// resolve_timeout.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	ResolveAfterSeconds int32 `json:"resolveAfterSeconds,omitempty"`
}

func (a *AlertmanagerReceiver) in(namespace string) *ClusterAlertmanagerReceiver {
	if a == nil {
		return nil
	}
	return &ClusterAlertmanagerReceiver{ClusterHTTPServer: a.HTTPServer.in(namespace), ResolveAfterSeconds: a.ResolveAfterSeconds}
}
