package alarm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Values of ID.Kind. The kind decides the scope: a ClusterAlarm may see every
// Event, an Alarm those of its own namespace.
const (
	KindAlarm        = "Alarm"
	KindClusterAlarm = "ClusterAlarm"
)

// ID names an alarm.
type ID struct {
	// Kind is Alarm or ClusterAlarm.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GroupValue is one of the things that the occurrences of a group have in common.
type GroupValue struct {
	// Key is an entry of spec.group.by, for example regarding.name.
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Key is the idempotency key of what an alarm sends a receiver about an
// occurrence: 32 hexadecimal digits. It depends only on what another leader that
// reads the same Event again sees too.
func Key(receiver, alarmUID string, occ *Occurrence) string {
	identity := fmt.Sprintf("%q %q %q %d", receiver, alarmUID, occ.Event.UID, occ.Event.Count)
	return shortHash(identity)
}

// GroupKey names those occurrences of an alarm that have the values in common; all
// of the alarm's, if there are none: 32 hexadecimal digits.
func GroupKey(alarmUID string, by ...GroupValue) string {
	return shortHash(fmt.Sprintf("%q %q", alarmUID, by))
}

func shortHash(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:16])
}
