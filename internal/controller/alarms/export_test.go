package alarms

// ResumedAt gives tests access to resumedAt.
var ResumedAt = resumedAt
