package options_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/bongsu-io/bongsu/internal/operator/options"
)

func TestTheCommandLineGoesBeforeTheFileAndTheFileBeforeTheDefaults(t *testing.T) {
	with := func(change func(*options.Options)) options.Options {
		o := options.Default()
		change(&o)
		return o
	}
	for name, tc := range map[string]struct {
		args []string
		file string
		want options.Options
	}{
		"neither": {want: options.Default()},
		"command line": {
			args: []string{"--leader-elect", "--metrics-bind-address=:8080", "--health-probe-bind-address=:8081"},
			want: with(func(o *options.Options) {
				o.LeaderElect, o.MetricsAddress, o.HealthAddress = true, ":8080", ":8081"
			}),
		},
		"file": {
			file: "data-dir: /data\nleader-elect: true\ndelivery-max-age: 2h\nnamespace: ops\n" +
				"allowed-receiver-addresses: [10.0.0.0/8, 192.168.0.0/16]\n",
			want: with(func(o *options.Options) {
				o.DataDir, o.LeaderElect, o.DeliveryMaxAge, o.Namespace = "/data", true, 2*time.Hour, "ops"
				o.AllowedAddresses = []string{"10.0.0.0/8", "192.168.0.0/16"}
			}),
		},
		"limits of receivers": {
			args: []string{"--denied-receiver-addresses=203.0.113.0/24", "--allowed-receiver-hosts=hooks.slack.com,*.Example.com,203.0.113.7,2600::1"},
			file: "denied-receiver-addresses: [198.51.100.0/24]\n",
			want: with(func(o *options.Options) {
				o.DeniedAddresses = []string{"203.0.113.0/24"}
				o.AllowedHosts = []string{"hooks.slack.com", "*.Example.com", "203.0.113.7", "2600::1"}
			}),
		},
		"both": {
			args: []string{"--cluster-name=seoul", "--allowed-receiver-addresses=10.1.0.0/16"},
			file: "cluster-name: busan\ndata-dir: /data\nallowed-receiver-addresses: 10.2.0.0/16\n",
			want: with(func(o *options.Options) {
				o.ClusterName, o.DataDir = "seoul", "/data"
				o.AllowedAddresses = []string{"10.1.0.0/16"}
			}),
		},
		"the command line says what is the default": {
			args: []string{"--namespace=bongsu-system"},
			file: "namespace: ops\n",
			want: options.Default(),
		},
		"controllers": {
			args: []string{"--controllers=jupyter", "--controllers=alarm"},
			want: with(func(o *options.Options) { o.Controllers = []string{"jupyter", "alarm"} }),
		},
		"controllers in the file": {
			file: "controllers: [secretshare]\n",
			want: with(func(o *options.Options) { o.Controllers = []string{"secretshare"} }),
		},
		"a key without a value": {file: "cluster-name:\nnamespace: # later\n", want: options.Default()},
		"empty file":            {file: "# nothing yet\n", want: options.Default()},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, tc.args, tc.file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		file string
		want []string
	}{
		"unknown option in the file":  {file: "datadir: /data\n", want: []string{`"datadir"`, "bongsu.yaml"}},
		"wrong type in the file":      {file: "leader-elect: sometimes\n", want: []string{`"leader-elect"`}},
		"number for a duration":       {file: "delivery-max-age: 24\n", want: []string{`"delivery-max-age"`}},
		"map for a list":              {file: "allowed-receiver-addresses: {a: b}\n", want: []string{"--allowed-receiver-addresses"}},
		"the same option twice":       {file: "namespace: a\nnamespace: b\n", want: []string{"namespace", "bongsu.yaml"}},
		"file of something else":      {file: "- data-dir\n", want: []string{"bongsu.yaml"}},
		"no data directory":           {args: []string{"--data-dir="}, want: []string{"--data-dir"}},
		"no namespace":                {args: []string{"--namespace="}, want: []string{"--namespace"}},
		"a controller that is not":    {args: []string{"--controllers=alarm,alarms"}, want: []string{"--controllers", `"alarms"`}},
		"no controller":               {args: []string{"--controllers="}, want: []string{"--controllers", "secretshare"}},
		"given up at once":            {args: []string{"--delivery-max-age=59s"}, want: []string{"--delivery-max-age", "59s", "1m"}},
		"address instead of a range":  {args: []string{"--allowed-receiver-addresses=10.0.0.1"}, want: []string{"--allowed-receiver-addresses", "10.0.0.1"}},
		"denied address, not range":   {args: []string{"--denied-receiver-addresses=10.0.0.1"}, want: []string{"--denied-receiver-addresses", "10.0.0.1"}},
		"a URL for a host":            {args: []string{"--allowed-receiver-hosts=https://a.example"}, want: []string{"--allowed-receiver-hosts", "https://a.example"}},
		"a host with a port":          {args: []string{"--allowed-receiver-hosts=a.example:443"}, want: []string{"--allowed-receiver-hosts", "a.example:443"}},
		"a star within a host":        {args: []string{"--allowed-receiver-hosts=a.*.example"}, want: []string{"--allowed-receiver-hosts", "a.*.example"}},
		"all limits of receivers":     {args: []string{"--allowed-receiver-addresses=x", "--denied-receiver-addresses=y", "--allowed-receiver-hosts=*"}, want: []string{`"x"`, `"y"`, `"*"`}},
		"address for a host name":     {args: []string{"--smtp-hello-name=[10.0.0.1]"}, want: []string{"--smtp-hello-name", "[10.0.0.1]"}},
		"a heart that races":          {args: []string{"--heartbeat-interval=29s"}, want: []string{"--heartbeat-interval", "29s", "from 30s to 30m0s"}},
		"a heart that stops":          {args: []string{"--heartbeat-interval=31m"}, want: []string{"--heartbeat-interval", "31m0s"}},
		"several things at once":      {args: []string{"--data-dir=", "--delivery-max-age=0"}, want: []string{"--data-dir", "--delivery-max-age"}},
		"two wrong lines in the file": {file: "a: 1\nb: 2\n", want: []string{`"a"`, `"b"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, tc.args, tc.file)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %s", err, want)
				}
			}
		})
	}
}

func TestAFileThatIsNotThereIsAnError(t *testing.T) {
	err := options.ReadFile(filepath.Join(t.TempDir(), "none.yaml"), pflag.NewFlagSet("bongsu", pflag.ContinueOnError))
	if err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

// parse does what the command does with its arguments and a file.
func parse(t *testing.T, args []string, file string) (options.Options, error) {
	t.Helper()
	opts := options.Default()
	flags := pflag.NewFlagSet("bongsu", pflag.ContinueOnError)
	opts.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if file != "" {
		path := filepath.Join(t.TempDir(), "bongsu.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := options.ReadFile(path, flags); err != nil {
			return opts, err
		}
	}
	return opts, opts.Validate()
}
