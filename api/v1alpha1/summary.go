package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// State is the state of an object in one word.
//
// +kubebuilder:validation:Enum=Ready;Degraded;Starting;Updating;Copying;Waiting;Failing;Stopping;Suspended;Culled;Deleting
type State string

// States. Each kind has some of them.
const (
	// StateReady: the object works as its spec requires.
	StateReady State = "Ready"
	// StateDegraded: the object works, but not completely.
	StateDegraded State = "Degraded"
	// StateStarting: a notebook or app is starting.
	StateStarting State = "Starting"
	// StateUpdating: enough pods of an app are available. Others are being replaced, created
	// or removed.
	StateUpdating State = "Updating"
	// StateCopying: copies of Secrets are being written or removed.
	StateCopying State = "Copying"
	// StateWaiting: no Secret to share exists yet.
	StateWaiting State = "Waiting"
	// StateFailing: the object does not work. The reason says why.
	StateFailing State = "Failing"
	// StateStopping: a notebook or app is suspended, and its pods are being removed.
	StateStopping State = "Stopping"
	// StateSuspended: spec.suspend is true.
	StateSuspended State = "Suspended"
	// StateCulled: a notebook was stopped because it was idle, or failed for too long.
	StateCulled State = "Culled"
	// StateDeleting: the object is being deleted.
	StateDeleting State = "Deleting"
)

// Summary is the part of a status that every kind has.
type Summary struct {
	// state of the object in one word: Ready, Degraded, Starting, Updating, Copying,
	// Waiting, Failing, Stopping, Suspended, Culled, or Deleting.
	// +optional
	State State `json:"state,omitempty"`

	// reason for the state: the reason of one of the conditions. It is empty if the state
	// needs no reason.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// failingSince is when the object began to fail. It stays while the cause changes and
	// while the object recovers. It is absent if the object does not fail.
	// +optional
	FailingSince *metav1.Time `json:"failingSince,omitempty"`
}

// CommonStatus points to the fields of a status that every kind has.
//
// +kubebuilder:object:generate=false
type CommonStatus struct {
	ObservedGeneration *int64
	Conditions         *[]metav1.Condition
	Summary            *Summary
}

func (s *AlarmStatus) common() CommonStatus {
	return CommonStatus{&s.ObservedGeneration, &s.Conditions, &s.Summary}
}

func (s *SecretShareStatus) common() CommonStatus {
	return CommonStatus{&s.ObservedGeneration, &s.Conditions, &s.Summary}
}

// CommonStatus returns the fields of the status that every kind has.
func (a *Alarm) CommonStatus() CommonStatus { return a.Status.common() }

// CommonStatus returns the fields of the status that every kind has.
func (a *ClusterAlarm) CommonStatus() CommonStatus { return a.Status.common() }

// CommonStatus returns the fields of the status that every kind has.
func (r *AlarmReceiver) CommonStatus() CommonStatus { return r.Status.common() }

// CommonStatus returns the fields of the status that every kind has.
func (r *ClusterAlarmReceiver) CommonStatus() CommonStatus { return r.Status.common() }

// CommonStatus returns the fields of the status that every kind has.
func (s *SecretShare) CommonStatus() CommonStatus { return s.Status.common() }

// CommonStatus returns the fields of the status that every kind has.
func (s *ClusterSecretShare) CommonStatus() CommonStatus { return s.Status.common() }

// CommonStatus returns the fields of the status that every kind has.
func (g *SecretShareGrant) CommonStatus() CommonStatus {
	return CommonStatus{&g.Status.ObservedGeneration, &g.Status.Conditions, &g.Status.Summary}
}

// CommonStatus returns the fields of the status that every kind has.
func (j *Jupyter) CommonStatus() CommonStatus {
	return CommonStatus{&j.Status.ObservedGeneration, &j.Status.Conditions, &j.Status.Summary}
}

// CommonStatus returns the fields of the status that every kind has.
func (a *AppService) CommonStatus() CommonStatus {
	return CommonStatus{&a.Status.ObservedGeneration, &a.Status.Conditions, &a.Status.Summary}
}
