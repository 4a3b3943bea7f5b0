package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AlarmSpec returns what the alarm has in common with a ClusterAlarm.
func (a *Alarm) AlarmSpec() *AlarmSpec { return &a.Spec.AlarmSpec }

// AlarmSpec returns what the alarm has in common with an Alarm.
func (a *ClusterAlarm) AlarmSpec() *AlarmSpec { return &a.Spec.AlarmSpec }

// AlarmStatus returns the status, to be read and changed.
func (a *Alarm) AlarmStatus() *AlarmStatus { return &a.Status }

// AlarmStatus returns the status, to be read and changed.
func (a *ClusterAlarm) AlarmStatus() *AlarmStatus { return &a.Status }

// AlarmStatus returns the status, to be read and changed.
func (r *AlarmReceiver) AlarmStatus() *AlarmStatus { return &r.Status }

// AlarmStatus returns the status, to be read and changed.
func (r *ClusterAlarmReceiver) AlarmStatus() *AlarmStatus { return &r.Status }

// NamespaceSelector is nil: an Alarm sees its own namespace.
func (a *Alarm) NamespaceSelector() *metav1.LabelSelector { return nil }

// NamespaceSelector returns spec.namespaceSelector.
func (a *ClusterAlarm) NamespaceSelector() *metav1.LabelSelector { return a.Spec.NamespaceSelector }

// ReceiverReferences returns spec.receivers.
func (a *Alarm) ReceiverReferences() []ReceiverReference { return a.Spec.Receivers }

// ReceiverReferences returns spec.receivers in the form that an Alarm has.
func (a *ClusterAlarm) ReceiverReferences() []ReceiverReference {
	refs := make([]ReceiverReference, len(a.Spec.Receivers))
	for i, r := range a.Spec.Receivers {
		refs[i] = ReceiverReference(r)
	}
	return refs
}

// CopySpec returns what the copies are to be.
func (s *SecretShare) CopySpec() *SecretCopySpec { return &s.Spec.SecretCopySpec }

// CopySpec returns what the copies are to be.
func (s *ClusterSecretShare) CopySpec() *SecretCopySpec { return &s.Spec.SecretCopySpec }

// ClusterSource returns spec.source with the rule's own namespace.
func (s *SecretShare) ClusterSource() ClusterSecretSource {
	return ClusterSecretSource{Namespace: s.Namespace, SecretSource: s.Spec.Source}
}

// ClusterSource returns spec.source.
func (s *ClusterSecretShare) ClusterSource() ClusterSecretSource { return s.Spec.Source }

// ShareStatus returns the status, to be read and changed.
func (s *SecretShare) ShareStatus() *SecretShareStatus { return &s.Status }

// ShareStatus returns the status, to be read and changed.
func (s *ClusterSecretShare) ShareStatus() *SecretShareStatus { return &s.Status }

// Defaults of JupyterSpec, for one that was not written through an API server.
const (
	defaultProgressDeadline = 10 * time.Minute
	defaultSchedulingGrace  = time.Minute
)

// ProgressDeadline is how long a start may take.
func (s *JupyterSpec) ProgressDeadline() time.Duration {
	return seconds(s.ProgressDeadlineSeconds, defaultProgressDeadline)
}

// SchedulingGracePeriod is how long a pod may wait for a node.
func (s *JupyterSpec) SchedulingGracePeriod() time.Duration {
	return seconds(s.SchedulingGracePeriodSeconds, defaultSchedulingGrace)
}

func seconds(given *int32, otherwise time.Duration) time.Duration {
	if given == nil {
		return otherwise
	}
	return time.Duration(*given) * time.Second
}
