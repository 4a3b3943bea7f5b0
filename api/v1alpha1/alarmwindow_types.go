package v1alpha1

// AlarmThreshold holds occurrences back until there are enough of them.
type AlarmThreshold struct {
	// count is how many occurrences it takes, each increase of an Event's count by
	// as much as it increased. The one that makes it enough is sent, and each after
	// it while there are still as many within the window. From 2 to 1000.
	// +required
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	Count int32 `json:"count"`

	// withinSeconds is how long the window is that slides with the occurrences.
	// From 1 to 3600, for as long as the API server holds Events by default.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	WithinSeconds int32 `json:"withinSeconds"`
}

// AlarmGroup says what is put into one message, and how often that is sent.
type AlarmGroup struct {
	// by is what the occurrences of a group have in common: regarding.kind,
	// regarding.namespace, regarding.name, reason, type, reportingController, or a
	// label or an annotation of the object, as object.labels[KEY] and
	// object.annotations[KEY].
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=340
	// +kubebuilder:validation:items:XValidation:rule="self in ['regarding.kind', 'regarding.namespace', 'regarding.name', 'reason', 'type', 'reportingController'] || self.matches('^object[.](labels|annotations)[[][A-Za-z0-9._/-]+[]]$')",message="there is no such key: group by regarding.kind, regarding.namespace, regarding.name, reason, type, reportingController, object.labels[KEY] or object.annotations[KEY]"
	By []string `json:"by"`

	// waitSeconds is how long a group's first message waits for more. From 0 to 600.
	// Default: 5.
	// +optional
	// +default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	WaitSeconds *int32 `json:"waitSeconds,omitempty"`

	// intervalSeconds is the least time between two messages of a group. From 30 to
	// 3600. Default: 300.
	// +optional
	// +default=300
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=3600
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`
}

// MuteWindow is a time that comes again. It is where every list that is given has
// an entry for the time. What is told by the clock is told by that of timeZone, so
// that a window is an hour shorter or longer where daylight saving begins or ends
// in it.
//
// +kubebuilder:validation:XValidation:rule="has(self.times) || has(self.weekdays) || has(self.daysOfMonth) || has(self.months) || has(self.years)",message="give at least one of times, weekdays, daysOfMonth, months, years; to stop the alarm altogether, set spec.suspend"
type MuteWindow struct {
	// timeZone by its name in the IANA database, for example Asia/Seoul. Default: UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9+_-]+)*$`
	TimeZone string `json:"timeZone,omitempty"`

	// times of the day. Default: all day.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Times []MuteTimes `json:"times,omitempty"`

	// weekdays. Default: all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Weekdays []MuteWeekdays `json:"weekdays,omitempty"`

	// daysOfMonth. Default: all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	DaysOfMonth []MuteDaysOfMonth `json:"daysOfMonth,omitempty"`

	// months. Default: all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=12
	Months []MuteMonths `json:"months,omitempty"`

	// years. Default: all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Years []MuteYears `json:"years,omitempty"`
}

// MuteTimes is a time of the day. If it ends before it starts, it goes on past
// midnight; all of it then belongs to the day on which it started.
//
// +kubebuilder:validation:XValidation:rule="self.start != self.end",message="start and end are the same; the whole day is 00:00 to 24:00"
type MuteTimes struct {
	// start is the first minute, for example "22:00".
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	// +kubebuilder:validation:MaxLength=5
	Start string `json:"start"`

	// end is the minute after the last one, for example "06:00"; "24:00" is the end
	// of the day.
	// +required
	// +kubebuilder:validation:Pattern=`^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`
	// +kubebuilder:validation:MaxLength=5
	End string `json:"end"`
}

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// MuteWeekdays are days of the week, start and end included: from Saturday to
// Monday is three of them.
type MuteWeekdays struct {
	// start is the first of them.
	// +required
	Start Weekday `json:"start"`
	// end is the last of them. Default: start.
	// +optional
	End Weekday `json:"end,omitempty"`
}

// MuteDaysOfMonth are days of the month, start and end included. Negative ones are
// counted from its end: -1 is the last day. Of days that a month does not have
// there are none in it.
//
// +kubebuilder:validation:XValidation:rule="self.start != 0 && (!has(self.end) || self.end != 0)",message="there is no day 0: the first is 1, the last -1"
// +kubebuilder:validation:XValidation:rule="!has(self.end) || self.start > 0 || self.end <= 0",message="a range that starts with a negative day must end with one"
// +kubebuilder:validation:XValidation:rule="!has(self.end) || self.start <= self.end || (self.start > 0 && self.end < 0 && self.start <= self.end + 32)",message="end is before start"
type MuteDaysOfMonth struct {
	// start is the first of them: 1 to 31, or -31 to -1.
	// +required
	// +kubebuilder:validation:Minimum=-31
	// +kubebuilder:validation:Maximum=31
	Start int32 `json:"start"`
	// end is the last of them. Default: start.
	// +optional
	// +kubebuilder:validation:Minimum=-31
	// +kubebuilder:validation:Maximum=31
	End int32 `json:"end,omitempty"`
}

// MuteMonths are months of the year, start and end included: from 12 to 2 is the
// winter.
type MuteMonths struct {
	// start is the first of them: 1 is January.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=12
	Start int32 `json:"start"`
	// end is the last of them. Default: start.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=12
	End int32 `json:"end,omitempty"`
}

// MuteYears are years, start and end included.
//
// +kubebuilder:validation:XValidation:rule="!has(self.end) || self.start <= self.end",message="end is before start"
type MuteYears struct {
	// start is the first of them.
	// +required
	// +kubebuilder:validation:Minimum=2000
	// +kubebuilder:validation:Maximum=9999
	Start int32 `json:"start"`
	// end is the last of them. Default: start.
	// +optional
	// +kubebuilder:validation:Minimum=2000
	// +kubebuilder:validation:Maximum=9999
	End int32 `json:"end,omitempty"`
}
