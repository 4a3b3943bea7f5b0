package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AlarmThreshold suppresses occurrences until there are enough of them in a time window.
type AlarmThreshold struct {
	// count is the number of occurrences within the window that the threshold requires. If
	// an Event's count increases by 3, this counts as 3 occurrences. The occurrence that
	// reaches the threshold is sent. Each later one is sent too, as long as the window
	// contains enough of them. From 2 to 1,000.
	// +required
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	Count int32 `json:"count"`

	// withinSeconds is the length of the sliding window in seconds. From 1 to 3,600, which
	// is how long an API server keeps Events by default.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	WithinSeconds int32 `json:"withinSeconds"`
}

// AlarmGroup determines which occurrences are sent as one message, and how often.
type AlarmGroup struct {
	// by lists what the occurrences of a group have in common: regarding.kind,
	// regarding.namespace, regarding.name, reason, type, reportingController, object.owner,
	// object.labels[KEY] or object.annotations[KEY]. object.owner is the workload that the object
	// belongs to, for example the Deployment of a Pod, with its namespace. An object that lacks the
	// label or the annotation is a group of its own. If by is unset or empty, all occurrences are one group.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=340
	// +kubebuilder:validation:items:XValidation:rule="self in ['regarding.kind', 'regarding.namespace', 'regarding.name', 'reason', 'type', 'reportingController', 'object.owner'] || self.matches('^object[.](labels|annotations)[[][A-Za-z0-9._/-]+[]]$')",message="unknown key: group by regarding.kind, regarding.namespace, regarding.name, reason, type, reportingController, object.owner, object.labels[KEY] or object.annotations[KEY]"
	By []string `json:"by,omitempty"`

	// waitSeconds is how many seconds the first message of a group waits for further
	// occurrences. From 0 to 600. Default: 5.
	// +optional
	// +default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	WaitSeconds *int32 `json:"waitSeconds,omitempty"`

	// intervalSeconds is the shortest time between two messages of a group, in seconds. A
	// message that resolves the group does not wait. From 30 to 3,600. Default: 300.
	// +optional
	// +default=300
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=3600
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`
}

// AlarmResolve says when the problem of a group has ended: when one of the conditions that
// are set is true.
//
// +kubebuilder:validation:XValidation:rule="has(self.match) || has(self.quietSeconds) || has(self.openSeconds)",message="no condition: set match, quietSeconds or openSeconds"
type AlarmResolve struct {
	// match selects the Events that resolve their group. An Event resolves the open group
	// whose values of group.by it has. It is not counted, and no threshold or mute applies to
	// it. Without such a group, it is ignored. An Event that spec.match selects too only
	// resolves. If unset, the reasons NodeReady and Recovered resolve.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Match []EventMatch `json:"match,omitempty"`

	// quietSeconds is the time without an occurrence after which a group is resolved, in
	// seconds. A message that waits for group.intervalSeconds is sent before. From 30 to 3,600.
	// If unset, time resolves no group.
	// +optional
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=3600
	QuietSeconds *int32 `json:"quietSeconds,omitempty"`

	// openSeconds is how long a group stays open after its last occurrence, for an Event that
	// resolves it. From 3,600 to 86,400. The default is 3,600. It is 86,400 for groups about one
	// Node, if the alarm lists the reason NodeReady and has no match here. With quietSeconds, it
	// has no effect.
	// +optional
	// +kubebuilder:validation:Minimum=3600
	// +kubebuilder:validation:Maximum=86400
	OpenSeconds *int32 `json:"openSeconds,omitempty"`
}

// AlarmAcknowledgement says that a user handles an open group. The group sends no further
// messages until it is resolved.
type AlarmAcknowledgement struct {
	// group is the key of the group in status.openGroups.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{32}$`
	// +kubebuilder:validation:MaxLength=32
	Group string `json:"group"`

	// since is the since of the group in status.openGroups. A group with the same key that
	// begins later is not acknowledged.
	// +required
	// +kubebuilder:validation:XValidation:rule="self >= timestamp('1000-01-01T00:00:00Z') && self < timestamp('3000-01-01T00:00:00Z')",message="not a time between the years 1000 and 3000: write for example 2026-11-20T19:00:00Z"
	Since metav1.Time `json:"since"`

	// by is the user name of the user who adds or changes this entry. The admission policy
	// rejects another name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	By string `json:"by"`

	// time is when the user acknowledged the group, by the user's clock.
	// +required
	// +kubebuilder:validation:XValidation:rule="self >= timestamp('1000-01-01T00:00:00Z') && self < timestamp('3000-01-01T00:00:00Z')",message="not a time between the years 1000 and 3000: write for example 2026-11-20T19:00:00Z"
	Time metav1.Time `json:"time"`

	// comment is shown with the acknowledgement.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Comment string `json:"comment,omitempty"`
}

// AlarmOpenGroup is a group that has occurred and is not resolved.
type AlarmOpenGroup struct {
	// key identifies the group among all groups of all alarms. A group that begins again has
	// the same key.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Key string `json:"key"`

	// name contains the values of spec.group.by, with a slash between them. It is cut at 100
	// bytes. It is empty for the group that contains the occurrences beyond the limit of groups.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	Name string `json:"name,omitempty"`

	// since is when the group began. If it began at different times for several receivers,
	// this is the last of them.
	// +required
	Since metav1.Time `json:"since"`

	// lastTime is the time of the last occurrence.
	// +required
	LastTime metav1.Time `json:"lastTime"`

	// occurrences is the number of occurrences since the group began.
	// +required
	Occurrences int64 `json:"occurrences"`

	// acknowledgedBy is the user who acknowledged the group. It is set only while the
	// acknowledgement is in force.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	AcknowledgedBy string `json:"acknowledgedBy,omitempty"`

	// acknowledgedTime is the time of the acknowledgement in force.
	// +optional
	AcknowledgedTime *metav1.Time `json:"acknowledgedTime,omitempty"`
}

// MaxAcknowledgements is the maximum length of spec.acknowledgements and status.openGroups.
const MaxAcknowledgements = 32

// MuteWindow is a recurring time. A point in time is within the window if every list that
// is set has an entry for it. The lists use the local time of timeZone. A window is an
// hour shorter or longer when daylight saving begins or ends within it.
//
// +kubebuilder:validation:XValidation:rule="has(self.times) || has(self.weekdays) || has(self.daysOfMonth) || has(self.months) || has(self.years)",message="a window without a time: set at least one of times, weekdays, daysOfMonth, months and years, or set spec.suspend to stop the alarm"
type MuteWindow struct {
	// timeZone is a name from the IANA time zone database, for example Asia/Seoul.
	// Default: UTC.
	// +optional
	// +default="UTC"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9+_-]+)*$`
	TimeZone string `json:"timeZone,omitempty"`

	// times of the day. If unset, the whole day.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Times []MuteTimes `json:"times,omitempty"`

	// weekdays are ranges of days of the week. If unset, all days.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Weekdays []MuteWeekdays `json:"weekdays,omitempty"`

	// daysOfMonth are ranges of days of the month. If unset, all days.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	DaysOfMonth []MuteDaysOfMonth `json:"daysOfMonth,omitempty"`

	// months are ranges of months. If unset, all months.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=12
	Months []MuteMonths `json:"months,omitempty"`

	// years are ranges of years. If unset, all years.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Years []MuteYears `json:"years,omitempty"`
}

// MuteTimes is a range of times of the day. If end is before start, the range continues
// past midnight. It then belongs to the day when it started.
//
// +kubebuilder:validation:XValidation:rule="self.start != self.end",message="start and end are the same: for the whole day, write 00:00 to 24:00"
type MuteTimes struct {
	// start is the first minute as HH:MM, for example "22:00".
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	// +kubebuilder:validation:MaxLength=5
	Start string `json:"start"`

	// end is the first minute after the range as HH:MM, for example "06:00". "24:00" is the
	// end of the day.
	// +required
	// +kubebuilder:validation:Pattern=`^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`
	// +kubebuilder:validation:MaxLength=5
	End string `json:"end"`
}

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// MuteWeekdays is a range of days of the week. It includes start and end: Saturday to
// Monday are three days.
type MuteWeekdays struct {
	// start is the first day.
	// +required
	Start Weekday `json:"start"`
	// end is the last day. If unset, it is the same as start.
	// +optional
	End Weekday `json:"end,omitempty"`
}

// MuteDaysOfMonth is a range of days of the month. It includes start and end. Negative
// numbers count from the end of the month: -1 is the last day. Days that a month does not
// have are ignored.
//
// +kubebuilder:validation:XValidation:rule="self.start != 0 && (!has(self.end) || self.end != 0)",message="there is no day 0: the first day is 1, the last day is -1"
// +kubebuilder:validation:XValidation:rule="!has(self.end) || self.start > 0 || self.end <= 0",message="start is negative, but end is not: count both from the end of the month"
// +kubebuilder:validation:XValidation:rule="!has(self.end) || self.start <= self.end || (self.start > 0 && self.end < 0 && self.start <= self.end + 32)",message="end is before start: swap them"
type MuteDaysOfMonth struct {
	// start is the first day: 1 to 31, or -31 to -1.
	// +required
	// +kubebuilder:validation:Minimum=-31
	// +kubebuilder:validation:Maximum=31
	Start int32 `json:"start"`
	// end is the last day: 1 to 31, or -31 to -1. If unset, it is the same as start.
	// +optional
	// +kubebuilder:validation:Minimum=-31
	// +kubebuilder:validation:Maximum=31
	End int32 `json:"end,omitempty"`
}

// MuteMonths is a range of months. It includes start and end, and can cross the end of the
// year: 12 to 2 are December, January and February.
type MuteMonths struct {
	// start is the first month: 1 is January.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=12
	Start int32 `json:"start"`
	// end is the last month: 1 is January. If unset, it is the same as start.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=12
	End int32 `json:"end,omitempty"`
}

// MuteYears is a range of years. It includes start and end.
//
// +kubebuilder:validation:XValidation:rule="!has(self.end) || self.start <= self.end",message="end is before start: swap them"
type MuteYears struct {
	// start is the first year: 2000 to 9999.
	// +required
	// +kubebuilder:validation:Minimum=2000
	// +kubebuilder:validation:Maximum=9999
	Start int32 `json:"start"`
	// end is the last year: 2000 to 9999. If unset, it is the same as start.
	// +optional
	// +kubebuilder:validation:Minimum=2000
	// +kubebuilder:validation:Maximum=9999
	End int32 `json:"end,omitempty"`
}
