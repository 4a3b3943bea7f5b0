package notify

import (
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// IsWarning says whether any of the message's Events is a Warning.
func IsWarning(m *alarm.Message) bool {
	return slices.ContainsFunc(m.Events, func(e alarm.MessageEvent) bool { return e.Type == "Warning" })
}

// Origin is "Alarm shop/crashes", "ClusterAlarm nodes", or nothing for a digest of
// several alarms.
func Origin(id alarm.ID) string {
	switch {
	case id.Name == "":
		return ""
	case id.Namespace == "":
		return id.Kind + " " + id.Name
	default:
		return id.Kind + " " + id.Namespace + "/" + id.Name
	}
}
