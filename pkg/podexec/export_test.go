package podexec

import "time"

// MaxOutput is how much of a command's output is kept.
const MaxOutput = maxOutput

// SetPatience bounds how long a Run waits for what nothing ends.
func (r *Runner) SetPatience(d time.Duration) { r.patience = d }
