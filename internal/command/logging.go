package command

import (
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// maxVerbosity is the highest level of the operator's own log lines. client-go logs its
// requests from level 6 and their bodies from level 8. Bodies can contain Secrets.
const maxVerbosity = 4

// Logging contains the flags of the operator's log.
type Logging struct {
	format    string
	verbosity int
}

// AddFlags adds --log-format and --verbose.
func (l *Logging) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.format, "log-format", "json", "`format` of the log: json or text")
	flags.CountVarP(&l.verbosity, "verbose", "v", "log more: -v decisions, -vvvv every loop")
}

// Args returns the flags as arguments of another command.
func (l *Logging) Args() []string {
	return []string{"--log-format=" + l.format, fmt.Sprintf("--verbose=%d", l.verbosity)}
}

// Validate checks the flags.
func (l *Logging) Validate() error {
	if l.format != "json" && l.format != "text" {
		return Usage(fmt.Errorf("--log-format is %q: use json or text", l.format))
	}
	return nil
}

// Logger returns a logger that writes to out. controller-runtime and client-go use it too.
func (l *Logging) Logger(out io.Writer) (logr.Logger, error) {
	if err := l.Validate(); err != nil {
		return logr.Logger{}, err
	}
	encoder := zap.JSONEncoder
	if l.format == "text" {
		encoder = zap.ConsoleEncoder
	}
	log := zap.New(
		zap.WriteTo(out),
		zap.Level(zapcore.Level(-min(l.verbosity, maxVerbosity))),
		zap.StacktraceLevel(zapcore.DPanicLevel),
		encoder(isoTime),
	)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return log, nil
}

// DiscardLogs makes controller-runtime and client-go silent, for a command that prints its errors
// itself. Without a logger, controller-runtime prints a stack trace after 30 seconds.
func DiscardLogs() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
}

func isoTime(c *zapcore.EncoderConfig) { c.EncodeTime = zapcore.ISO8601TimeEncoder }
