package scaffold

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// progressStep is the number of packages after which a build prints a line.
const progressStep = 50

// goBuild runs `go build`, with variables added to the environment. It prints to out how many packages
// were compiled. Other output is shown only if the build fails.
func goBuild(ctx context.Context, out io.Writer, environment []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-v"}, args...)...)
	cmd.Env = append(cmd.Environ(), environment...)
	p := &progress{out: out}
	cmd.Stdout, cmd.Stderr = p, p
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, strings.Join(p.messages, "\n"))
	}
	return nil
}

// progress reads what `go build -v` writes: the packages that it compiles, and messages. Other than
// paths of packages, messages contain blanks.
type progress struct {
	out      io.Writer
	rest     []byte // of a line
	count    int
	messages []string
}

// Write implements io.Writer.
func (p *progress) Write(output []byte) (int, error) {
	p.rest = append(p.rest, output...)
	for {
		line, rest, found := bytes.Cut(p.rest, []byte("\n"))
		if !found {
			return len(output), nil
		}
		p.rest = rest
		if err := p.add(string(line)); err != nil {
			return 0, err
		}
	}
}

func (p *progress) add(line string) (err error) {
	if strings.ContainsAny(line, " \t") {
		p.messages = append(p.messages, line)
		return nil
	}
	switch p.count++; {
	case p.count == progressStep:
		_, err = fmt.Fprintf(p.out, "  compiled %d packages, which takes minutes the first time\n", p.count)
	case p.count%progressStep == 0:
		_, err = fmt.Fprintf(p.out, "  compiled %d packages\n", p.count)
	}
	return err
}
