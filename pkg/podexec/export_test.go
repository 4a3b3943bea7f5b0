package podexec

import "time"

// MaxOutput is the limit of a command's stored output, in bytes.
const MaxOutput = maxOutput

// SetMaxWait changes how long Run waits for a command that nothing ends.
func (r *Runner) SetMaxWait(d time.Duration) { r.maxWait = d }
