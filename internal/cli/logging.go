package cli

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

// maxVerbosity is the last level of ours. From 6 on client-go logs its requests,
// from 8 on with their bodies: the Secrets that the operator reads are among them.
const maxVerbosity = 4

// logging is how the operator logs.
type logging struct {
	format    string
	verbosity int
}

func (l *logging) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.format, "log-format", "json", "`format` of the log: json or text")
	flags.CountVarP(&l.verbosity, "verbose", "v", "log more: -v decisions, -vvvv every loop")
}

// logger makes the logger, and lets the libraries use it too.
func (l *logging) logger(out io.Writer) (logr.Logger, error) {
	opts := []zap.Opts{
		zap.WriteTo(out),
		zap.Level(zapcore.Level(-min(l.verbosity, maxVerbosity))),
		zap.StacktraceLevel(zapcore.DPanicLevel),
	}
	switch l.format {
	case "json":
		opts = append(opts, zap.JSONEncoder(isoTime))
	case "text":
		opts = append(opts, zap.ConsoleEncoder(isoTime))
	default:
		return logr.Logger{}, usage(fmt.Errorf("--log-format is %q; it must be json or text", l.format))
	}
	log := zap.New(opts...)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return log, nil
}

func isoTime(c *zapcore.EncoderConfig) { c.EncodeTime = zapcore.ISO8601TimeEncoder }
