package podexec

import "sync"

// maxOutput is how much of a command's output is kept, in bytes.
const maxOutput = 8 << 10

// output keeps the beginning of what is written and counts the rest. It is never
// full: a command that is not read from would block. A stream's goroutines may write
// to it when the stream is said to be over.
type output struct {
	mu      sync.Mutex
	kept    []byte
	dropped int64
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := min(maxOutput-len(o.kept), len(p))
	o.kept = append(o.kept, p[:room]...)
	o.dropped += int64(len(p) - room)
	return len(p), nil
}

func (o *output) read() (kept string, dropped int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept), o.dropped
}
