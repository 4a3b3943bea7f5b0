package match

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Limits of a Route.
const (
	// MaxRouteReceivers is the number of receivers that a label can choose.
	MaxRouteReceivers = 100
	// MaxChosen is the number of receivers that one value can choose.
	MaxChosen = 16
)

// Route is how a ClusterAlarm chooses receivers by a label: spec.receiversFrom. It is immutable
// and safe for concurrent use.
type Route struct {
	// Label is the key of the label. Default is the key of the receiver of messages for which
	// the label chooses none.
	Label, Default string

	keys     []string
	byValue  map[string][]string
	byObject map[string][]string
}

// NewRoute returns a Route without receivers.
func NewRoute(label, byDefault string) *Route {
	return &Route{Label: label, Default: byDefault, keys: []string{byDefault}, byValue: map[string][]string{}, byObject: map[string][]string{}}
}

// Add lets values of the label choose a receiver. objects: those of the object's own label do so,
// too. Add is for the time before the Route is used. It reports whether the limits allow it.
func (r *Route) Add(key string, values []string, objects bool) bool {
	if len(r.keys) > MaxRouteReceivers { // one of them is the default
		return false
	}
	for _, value := range values {
		if len(r.byValue[value]) == MaxChosen {
			return false
		}
	}
	if !slices.Contains(r.keys, key) {
		r.keys = append(r.keys, key)
	}
	for _, value := range values {
		r.byValue[value] = append(r.byValue[value], key)
		if objects {
			r.byObject[value] = append(r.byObject[value], key)
		}
	}
	return true
}

// Version differs between Routes that choose differently. It is empty for nil.
func (r *Route) Version() string {
	if r == nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Append(nil, *r))
	return hex.EncodeToString(sum[:])
}

// Keys returns the keys of all receivers that can be chosen, with the default. Do not modify it.
func (r *Route) Keys() []string { return r.keys }

// UsesObjects reports whether the label of an object can choose a receiver.
func (r *Route) UsesObjects() bool { return len(r.byObject) > 0 }

// ByObject returns the receivers that the label of an object chooses, by its value.
func (r *Route) ByObject(value string) []string { return r.byObject[value] }

// ByNamespace returns the receivers that the label of a namespace chooses, by its value.
func (r *Route) ByNamespace(value string) []string { return r.byValue[value] }

// NoReceiverError reports that a namespace has a value of the label that chooses no receiver.
type NoReceiverError struct {
	Namespace, Label, Value string
}

// Error returns one sentence that says what to do.
func (e *NoReceiverError) Error() string {
	return fmt.Sprintf("namespace %s has the label %s=%s, which chooses no receiver: "+
		"correct the label, or add the value to spec.chosenBy of a ClusterAlarmReceiver. The default receiver gets the messages", e.Namespace, e.Label, plaintext.CutRunes(e.Value, message.MaxFieldLength))
}
