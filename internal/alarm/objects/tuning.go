package objects

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// batchTime is how long a change waits for others, and positionTime how long a position without
	// changes is not committed.
	batchTime    = 200 * time.Millisecond
	positionTime = 10 * time.Second
	// linger is how long fields and watches are kept that no alarm needs any more. collectTime is the
	// least time between two changes of the watches.
	linger      = time.Minute
	collectTime = time.Second
	// reviewTime is the time between two reviews of the resources in spec.readObjects.
	reviewTime = 10 * time.Second
	// missingTime is how long the absence of a resource in the API server is trusted.
	missingTime = time.Minute
)

// forbiddenBackoff is the backoff while the API server refuses the permission.
var forbiddenBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 55 * time.Second}
