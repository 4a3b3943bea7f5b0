package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Audience says who looks at the demo.
type Audience struct {
	// Leaves says that nobody stays: the demo is a test.
	Leaves bool
	// Kubectl and Kubeconfig are the paths to try things with.
	Kubectl, Kubeconfig string
}

// errLeft means that the demo was told to stop before it had an outcome.
var errLeft = errors.New("stopped before every kind of alarm was seen")

// Show runs the demo. Who stays is then told what to try, and may until the
// context ends.
func Show(ctx context.Context, cluster Cluster, config Config, audience Audience) error {
	err := Run(ctx, cluster, config)
	if audience.Leaves {
		if ctx.Err() != nil {
			return errLeft
		}
		return err
	}
	missing, ok := errors.AsType[*MissingError](err)
	if err != nil && !ok {
		return err
	}
	if ok {
		_, _ = fmt.Fprintf(config.Out, "\n==> Not every alarm arrived: %v\n", missing)
	}
	_, _ = io.WriteString(config.Out, Suggest(audience))
	<-ctx.Done()
	return nil
}

// commands are what is worth trying, as arguments of kubectl.
var commands = []struct{ arguments, effect string }{
	{"get clusteralarms,alarms -A", "which alarms there are, and what each has done"},
	{"scale deployment web -n shop --replicas=5", "containers start"},
	{"annotate node spot-2 bongsu.io/simulate-", "the node recovers"},
	{"delete pod payments -n shop", "no more crashes"},
	{`patch clusteralarm container-created --type=merge -p '{"spec":{"suspend":true}}'`, "no longer told"},
	{"patch clusteralarm crash --type=json -p '" + misspelt + "'", "a mistake..."},
	{"describe clusteralarm crash", "...is explained where it was made"},
}

// misspelt is an expression that does not compile.
const misspelt = `[{"op":"add","path":"/spec/match/0/expression","value":"event.cuont > 3"}]`

// Suggest returns what is worth trying, as lines for a shell.
func Suggest(a Audience) string {
	var b strings.Builder
	b.WriteString("\n==> All of this keeps running until you press Ctrl-C. In another terminal, try:\n\n")
	fmt.Fprintf(&b, "    export KUBECONFIG=%s\n", a.Kubeconfig)
	kubectl := fromHere(a.Kubectl)
	for _, c := range commands {
		fmt.Fprintf(&b, "    %s %s   # %s\n", kubectl, c.arguments, c.effect)
	}
	b.WriteString("\n")
	return b.String()
}

// fromHere shortens a path if it lies below the working directory.
func fromHere(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(short, "..") {
		return short
	}
	return path
}
