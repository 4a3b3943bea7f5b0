package localcluster

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// ChildError says that a component ended though nobody had asked it to.
type ChildError struct {
	Component Component
	// Status is how it ended, such as "exit status 1" or "signal: killed".
	Status string
	// LogFile is its log, LogTail the last lines of it.
	LogFile, LogTail string
}

func (e *ChildError) Error() string {
	return fmt.Sprintf("%s ended unasked (%s); the last of its log, %s:\n%s",
		e.Component, e.Status, e.LogFile, e.LogTail)
}

func (p *process) failure() error {
	file := p.dir.log(p.component)
	return &ChildError{
		Component: p.component,
		Status:    p.cmd.ProcessState.String(),
		LogFile:   file,
		LogTail:   tail(file),
	}
}

// A tail is what a terminal shows at a glance, however long its lines.
const (
	tailBytes = 4096
	tailLines = 15
)

func tail(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = f.Seek(-tailBytes, io.SeekEnd)
	}
	data, _ := io.ReadAll(f)
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
