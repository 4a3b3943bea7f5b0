package match

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Acknowledgement is an entry of spec.acknowledgements.
type Acknowledgement struct {
	// Group is the key of the group. Token identifies the entry, and is not 0.
	Group string
	Token int64
	// Until is the latest time at which the group can have begun.
	Until time.Time
	// By is who acknowledged the group, At is when, and Comment can be empty.
	By, Comment string
	At          time.Time
	// Announced: the status says that it was in force before.
	Announced bool
}

// AcknowledgementToken returns the token of an acknowledgement. It is not 0.
func AcknowledgementToken(a *v1alpha1.AlarmAcknowledgement) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %d %q", a.Group, a.Since.Unix(), a.By, a.Time.Unix(), a.Comment))
	return int64(binary.BigEndian.Uint64(sum[:])>>1) | 1
}

// compileAcknowledgements returns the acknowledgements by group. If the disk is lost, a replay
// can know of a group only its later occurrences. The status says up to when the
// acknowledged group is known to have occurred.
func compileAcknowledgements(specs []v1alpha1.AlarmAcknowledgement, open []v1alpha1.AlarmOpenGroup) map[string]*Acknowledgement {
	all := make(map[string]*Acknowledgement, len(specs))
	for i := range specs {
		s := &specs[i]
		a := &Acknowledgement{Group: s.Group, Token: AcknowledgementToken(s), Until: s.Since.Time, By: s.By, At: s.Time.Time, Comment: s.Comment}
		for j := range open {
			g := &open[j]
			if g.Key != s.Group || g.AcknowledgedBy != s.By || g.AcknowledgedTime == nil || !g.AcknowledgedTime.Equal(&s.Time) {
				continue
			}
			a.Announced = true
			if g.LastTime.After(a.Until) {
				a.Until = g.LastTime.Time
			}
		}
		all[s.Group] = a
	}
	return all
}
