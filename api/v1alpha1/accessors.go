package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AlarmSpec returns the fields that Alarm and ClusterAlarm share.
func (a *Alarm) AlarmSpec() *AlarmSpec { return &a.Spec.AlarmSpec }

// AlarmSpec returns the fields that Alarm and ClusterAlarm share.
func (a *ClusterAlarm) AlarmSpec() *AlarmSpec { return &a.Spec.AlarmSpec }

// AlarmStatus returns the status. Changes of it change the object.
func (a *Alarm) AlarmStatus() *AlarmStatus { return &a.Status }

// AlarmStatus returns the status. Changes of it change the object.
func (a *ClusterAlarm) AlarmStatus() *AlarmStatus { return &a.Status }

// AlarmStatus returns the status. Changes of it change the object.
func (r *AlarmReceiver) AlarmStatus() *AlarmStatus { return &r.Status }

// AlarmStatus returns the status. Changes of it change the object.
func (r *ClusterAlarmReceiver) AlarmStatus() *AlarmStatus { return &r.Status }

// NamespaceGlobs returns nil: an Alarm selects Events of its own namespace.
func (a *Alarm) NamespaceGlobs() []string { return nil }

// NamespaceGlobs returns spec.namespaces.
func (a *ClusterAlarm) NamespaceGlobs() []string { return a.Spec.Namespaces }

// NamespaceSelector returns nil: an Alarm selects Events of its own namespace.
func (a *Alarm) NamespaceSelector() *metav1.LabelSelector { return nil }

// NamespaceSelector returns spec.namespaceSelector.
func (a *ClusterAlarm) NamespaceSelector() *metav1.LabelSelector { return a.Spec.NamespaceSelector }

// ReceiverReferences returns spec.receivers.
func (a *Alarm) ReceiverReferences() []ReceiverReference { return a.Spec.Receivers }

// ReceiverReferences returns spec.receivers in the form of an Alarm.
func (a *ClusterAlarm) ReceiverReferences() []ReceiverReference {
	refs := make([]ReceiverReference, len(a.Spec.Receivers))
	for i, r := range a.Spec.Receivers {
		refs[i] = ReceiverReference(r)
	}
	return refs
}

// ReceiverChoice returns nil: only a ClusterAlarm chooses receivers by a label.
func (a *Alarm) ReceiverChoice() *ReceiversFrom { return nil }

// ReceiverChoice returns spec.receiversFrom.
func (a *ClusterAlarm) ReceiverChoice() *ReceiversFrom { return a.Spec.ReceiversFrom }

// CopySpec returns the fields that SecretShare and ClusterSecretShare share.
func (s *SecretShare) CopySpec() *SecretCopySpec { return &s.Spec.SecretCopySpec }

// CopySpec returns the fields that SecretShare and ClusterSecretShare share.
func (s *ClusterSecretShare) CopySpec() *SecretCopySpec { return &s.Spec.SecretCopySpec }

// ClusterSource returns spec.source with the namespace of the SecretShare.
func (s *SecretShare) ClusterSource() ClusterSecretSource {
	return ClusterSecretSource{Namespace: s.Namespace, SecretSource: s.Spec.Source}
}

// ClusterSource returns spec.source.
func (s *ClusterSecretShare) ClusterSource() ClusterSecretSource { return s.Spec.Source }

// ShareStatus returns the status. Changes of it change the object.
func (s *SecretShare) ShareStatus() *SecretShareStatus { return &s.Status }

// ShareStatus returns the status. Changes of it change the object.
func (s *ClusterSecretShare) ShareStatus() *SecretShareStatus { return &s.Status }

// The schema's defaults, for a JupyterSpec that was not read from an API server.
const (
	defaultProgressDeadline = 10 * time.Minute
	defaultSchedulingGrace  = time.Minute
)

// ProgressDeadline returns how long a start can take.
func (s *JupyterSpec) ProgressDeadline() time.Duration {
	return seconds(s.ProgressDeadlineSeconds, defaultProgressDeadline)
}

// SchedulingGracePeriod returns how long a pod can wait for a node.
func (s *JupyterSpec) SchedulingGracePeriod() time.Duration {
	return seconds(s.SchedulingGracePeriodSeconds, defaultSchedulingGrace)
}

func seconds(given *int32, otherwise time.Duration) time.Duration {
	if given == nil {
		return otherwise
	}
	return time.Duration(*given) * time.Second
}
