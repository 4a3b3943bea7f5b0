package receiver_test

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// secrets is a client.Reader whose Secrets all have the same values, whatever their
// namespace.
type secrets struct {
	client.Reader

	url string
	// data replaces the values if it is set.
	data map[string][]byte
}

func (s secrets) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if s.data != nil {
		o.(*corev1.Secret).Data = s.data
		return nil
	}
	o.(*corev1.Secret).Data = map[string][]byte{
		"url": []byte(cmp.Or(s.url, "https://hooks.example.com/1")), "slack": []byte("xoxb-1"), "telegram": []byte("1:a"),
		"pagerDuty": []byte(strings.Repeat("a", 32)),
	}
	return nil
}

// sinks have a spec for each receiver type. NS becomes the namespace of a
// ClusterAlarmReceiver's Secret.
var sinks = map[string]string{
	"slack":        "slack: {webhookURLSecretRef: {NSname: s, key: url}}",
	"slack bot":    "slack: {channel: C1, tokenSecretRef: {NSname: s, key: slack}}",
	"teams":        "teams: {webhookURLSecretRef: {NSname: s, key: url}}",
	"discord":      "discord: {webhookURLSecretRef: {NSname: s, key: url}}",
	"googleChat":   "googleChat: {webhookURLSecretRef: {NSname: s, key: url}}",
	"mattermost":   "mattermost: {webhookURLSecretRef: {NSname: s, key: url}}",
	"telegram":     "telegram: {chatID: '1', apiURL: 'https://t.example.com', tokenSecretRef: {NSname: s, key: telegram}}",
	"pagerDuty":    "pagerDuty: {apiURL: 'https://p.example.com', routingKeySecretRef: {NSname: s, key: pagerDuty}}",
	"alertmanager": "alertmanager: {url: 'https://a.example.com'}",
	"email":        "email: {host: mail.example.com, tls: None, from: a@example.com, to: [ops@example.com]}",
	"webhook":      "webhook: {url: 'https://w.example.com'}",
	"log":          "log: {}",
}

func build(t *testing.T, namespace, name, spec string) notify.Receiver {
	t.Helper()
	return buildFrom(t, secrets{}, namespace, name, spec)
}

func buildFrom(t *testing.T, from secrets, namespace, name, spec string) notify.Receiver {
	t.Helper()
	built, err := tryBuild(t, from, namespace, name, spec)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// buildError returns the error of building an AlarmReceiver.
func buildError(t *testing.T, from secrets, spec string) error {
	t.Helper()
	_, err := tryBuild(t, from, "shop", "ops", spec)
	return err
}

func tryBuild(t *testing.T, from secrets, namespace, name, spec string) (notify.Receiver, error) {
	t.Helper()
	key, object := parse(t, namespace, name, spec)
	all := receiver.NewSinks(dialguard.Config{}, io.Discard, clock.RealClock{})
	return receiver.Build(t.Context(), from, all, key, object)
}

func parse(t *testing.T, namespace, name, spec string) (kube.Key, receiver.Object) {
	t.Helper()
	var object receiver.Object = &v1alpha1.AlarmReceiver{}
	key, inCluster := kube.Key{Kind: "AlarmReceiver", Namespace: namespace, Name: name}, ""
	if namespace == "" {
		object, key.Kind, inCluster = &v1alpha1.ClusterAlarmReceiver{}, "ClusterAlarmReceiver", "namespace: team, "
	}
	if err := yaml.UnmarshalStrict([]byte("spec: {"+strings.ReplaceAll(spec, "NS", inCluster)+"}"), object); err != nil {
		t.Fatal(err)
	}
	object.SetNamespace(namespace)
	return key, object
}

// keys returns the keys of the limits. A limit without a key belongs to the receiver.
func keys(r notify.Receiver) map[string]bool {
	all := map[string]bool{}
	for _, limit := range r.Limits {
		if key := limit.Key; limit.Every > 0 {
			if key == "" {
				key = r.Key
			}
			all[key] = true
		}
	}
	return all
}

func TestReceiversOfDifferentNamespacesShareNoLimit(t *testing.T) {
	for name, spec := range sinks {
		t.Run(name, func(t *testing.T) {
			users := map[string]string{}
			for _, namespace := range []string{"shop", "attacker", ""} {
				for key := range keys(build(t, namespace, "ops", spec)) {
					if other, shared := users[key]; shared {
						t.Errorf("namespaces %q and %q share the limit %q", other, namespace, key)
					}
					users[key] = namespace
				}
			}
		})
	}
}

func TestReceiversOfANamespaceShareTheLimitsOfTheVendorAndTheNamespace(t *testing.T) {
	for name, spec := range sinks {
		t.Run(name, func(t *testing.T) {
			first, second := build(t, "shop", "a", spec), build(t, "shop", "b", spec)
			shared, want := 0, 2
			for key := range keys(first) {
				if keys(second)[key] {
					shared++
				}
			}
			switch name {
			case "email", "pagerDuty", "alertmanager", "webhook", "log":
				want = 1 // that of the namespace
			case "slack bot":
				want = 3 // also that of the workspace
			}
			if shared != want {
				t.Errorf("they share %d of the limits %v, want %d", shared, keys(first), want)
			}
			last := first.Limits[len(first.Limits)-1]
			if want := (notify.Limit{Key: "shop", Every: 100 * time.Millisecond, Burst: 100}); last != want {
				t.Errorf("the limit of the namespace is %+v", last)
			}
			if first.Namespace != "shop" {
				t.Errorf("its requests count for %q", first.Namespace)
			}
		})
	}
}

// Slack limits a bot in its workspace.
func TestSlackBotsShareTheLimitOfTheirWorkspaceInAllChannels(t *testing.T) {
	shared := func(other string) int {
		n := 0
		for key := range keys(build(t, "", "a", sinks["slack bot"])) {
			if keys(buildFrom(t, secrets{data: map[string][]byte{"slack": []byte(other)}}, "", "b", strings.Replace(sinks["slack bot"], "C1", "C2", 1)))[key] {
				n++
			}
		}
		return n
	}
	if got := shared("xoxb-1"); got != 1 {
		t.Errorf("channels of one bot share %d limits, want 1", got)
	}
	if got := shared("xoxb-2"); got != 0 {
		t.Errorf("channels of two bots share %d limits", got)
	}
}

func TestAdministratorsReceiversHaveOnlyTheLimitsOfVendors(t *testing.T) {
	for name, spec := range sinks {
		t.Run(name, func(t *testing.T) {
			built, want := build(t, "", "ops", spec), 1
			switch name {
			case "pagerDuty", "alertmanager", "webhook", "log":
				want = 0
			case "slack bot":
				want = 2
			}
			if got := len(keys(built)); got != want || built.Namespace != "" {
				t.Errorf("limits %+v in namespace %q, want %d", built.Limits, built.Namespace, want)
			}
			if built.ResolvesAlone != (want == 0) {
				t.Errorf("resolutions are sent alone: %v", built.ResolvesAlone)
			}
		})
	}
}

func TestRepeatsIsTrueForEveryRepeater(t *testing.T) {
	for name, spec := range sinks {
		for _, namespace := range []string{"", "shop"} {
			_, want := build(t, namespace, "ops", spec).Notifier.(notify.Repeater)
			if _, object := parse(t, namespace, "ops", spec); receiver.Repeats(object) != want {
				t.Errorf("%s in the namespace %q: got %t", name, namespace, !want)
			}
		}
	}
}

func TestBothKindsOfReceiversCanHaveBatches(t *testing.T) {
	for _, namespace := range []string{"", "shop"} {
		built := build(t, namespace, "hook", "webhook: {url: 'https://a.example.com', format: CloudEvents, batch: {maxMessages: 25}}")
		batcher, ok := built.Notifier.(notify.Batcher)
		if !ok || batcher.MaxBatch() != 25 {
			t.Errorf("a receiver of the namespace %q has no batches", namespace)
		}
		if limited := len(built.Limits) > 0; limited != (namespace != "") {
			t.Errorf("a receiver of the namespace %q has the limits %v", namespace, built.Limits)
		}
	}
}

func TestEveryTypeOfReceiverIsInTheTable(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.AlarmReceiverSpec]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if _, ok := sinks[name]; !ok && field.Type.Kind() == reflect.Pointer && field.Type.Elem().Kind() == reflect.Struct {
			t.Errorf("no sample of %s", name)
		}
	}
}

// A server that never answers. The default of ten seconds is longer than the test waits.
func TestTimeoutSecondsLimitsTheAnswerOfEveryType(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client is gone
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, as a mail server
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	_, port, err := net.SplitHostPort(silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range sinks {
		if name == "log" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec = regexp.MustCompile(`https://[a-z].example.com`).ReplaceAllString(spec, server.URL)
			spec = strings.Replace(spec, "channel:", "apiURL: '"+server.URL+"', channel:", 1)
			spec = strings.Replace(spec, "mail.example.com", "127.0.0.1, port: "+port, 1)
			built := buildFrom(t, secrets{url: server.URL}, "", "ops", spec+", timeoutSeconds: 1")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			body, err := built.Notifier.Render(message.Message{Title: "a", Count: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := built.Notifier.Send(ctx, "key", body); err == nil || !strings.Contains(err.Error(), "did not answer in time") || ctx.Err() != nil {
				t.Errorf("got %v, %v", err, ctx.Err())
			}
		})
	}
}
