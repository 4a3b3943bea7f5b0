package alarm

// ResumedAt gives tests access to resumedAt.
var ResumedAt = resumedAt
