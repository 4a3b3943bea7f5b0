package chaos

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// unit is repeated to form the secret. Two units fit on a line of 16 bytes in a hex dump, and
// the base64 of the secret always contains that of three units.
const unit = "zq7x"

var secret = strings.Repeat(unit, 12)

// traces are forms of the secret that are searched in texts.
var traces = []string{
	strings.Repeat(unit, 2),
	base64.StdEncoding.EncodeToString([]byte(strings.Repeat(unit, 3))),
	strings.Repeat(fmt.Sprintf("% x ", unit), 2),
}

// failing are receivers that fail in different ways: by the answer of their server, or by
// their URL.
var failing = map[string]struct {
	answer sink.Behaviour
	url    func(string) string
}{
	"accepted":    {answer: sink.Accept()},
	"rejected":    {answer: sink.Status(400, secret)},
	"denied":      {answer: sink.Status(401, secret)},
	"gone":        {answer: sink.Status(410, secret)},
	"too-large":   {answer: sink.Status(413, secret)},
	"limited":     {answer: sink.TooManyUntil(secret)},
	"broken":      {answer: sink.Status(500, secret)},
	"redirecting": {answer: sink.Redirect(307, "http://"+unit+"."+unit+unit+".example/"+secret)},
	"resetting":   {answer: sink.Reset()},
	"hanging":     {answer: sink.Hang()},
	"no-tls":      {url: func(u string) string { return strings.Replace(u, "http:", "https:", 1) }},
	"no-host":     {url: func(string) string { return "http://" + secret + ".invalid/" + secret }},
	"no-port":     {url: func(string) string { return "http://127.0.0.1:0/" + secret }},
	"no-url":      {url: func(string) string { return "http://[" + secret }},
	"userinfo":    {url: func(string) string { return "http://user:" + secret + "@127.0.0.1/" }},
	"no-header":   {answer: sink.Accept()}, // see secretReceivers
}

func TestSecretValuesAppearNowhereEvenInVerboseLogs(t *testing.T) {
	s := newFixture(t, cluster.Shared(t))
	for name, f := range failing {
		r := newReceiver(t, name)
		if f.answer != nil {
			r.Always(f.answer)
		}
		url := r.URL() + "/" + secret
		if f.url != nil {
			url = f.url(url)
		}
		s.secretReceivers(name, url)
	}
	s.secretShares()
	address := freeAddress(t)
	m := newManager(s, "--verbose=10", "--metrics-bind-address", address, "--metrics-secure=false")
	m.startReady()
	s.burst(3)
	if err := progress.UntilNoneIsLeft(patience, func() int { return len(s.unhandled()) }); err != nil {
		t.Fatalf("receivers without a delivery or a failure: %v: %v", s.unhandled(), err)
	}
	if err := progress.UntilNoneIsLeft(patience, func() int { return len(s.unsynced()) }); err != nil {
		t.Fatalf("rules without the expected reason: %v: %v", s.unsynced(), err)
	}

	texts := map[string]string{"copies": s.copies(), "log": m.log.String(), "metrics": get(t, "http://"+address+"/metrics")}
	for _, list := range []client.ObjectList{
		&eventsv1.EventList{}, &v1alpha1.AlarmList{}, &v1alpha1.AlarmReceiverList{},
		&v1alpha1.ClusterAlarmList{}, &v1alpha1.ClusterAlarmReceiverList{}, &corev1.ConfigMapList{},
		&v1alpha1.SecretShareList{}, &v1alpha1.ClusterSecretShareList{},
	} {
		texts[fmt.Sprintf("%T", list)] = s.list(list)
	}
	for where, text := range texts {
		t.Logf("%s: %d bytes", where, len(text))
		if len(text) == 0 {
			t.Errorf("%s is empty, want some text", where)
		}
		for _, trace := range traces {
			if at := strings.Index(text, trace); at >= 0 {
				t.Errorf("%s contains the secret: ...%s...", where, text[max(0, at-300):min(len(text), at+60)])
			}
		}
	}
}

// secretReceivers creates receivers of both kinds with a secret URL, and alarms that use
// them.
func (s *fixture) secretReceivers(name, url string) {
	s.t.Helper()
	header := secret
	if name == "no-header" {
		header = secret + "\n" + secret
	}
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: name}
	s.create(&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"url": []byte(url)}})
	headers := metav1.ObjectMeta{Namespace: s.namespace, Name: name + "-headers"}
	s.create(&corev1.Secret{ObjectMeta: headers, Data: map[string][]byte{"Authorization": []byte(header)}})
	clusterMeta := metav1.ObjectMeta{Name: s.namespace + "-" + name}
	s.create(&v1alpha1.ClusterAlarmReceiver{ObjectMeta: clusterMeta, Spec: clusterSpec(v1alpha1.AlarmReceiverSpec{
		Webhook: &v1alpha1.WebhookReceiver{HTTPServer: v1alpha1.HTTPServer{
			URLSecretRef:     &v1alpha1.SecretURLReference{SecretReference: v1alpha1.SecretReference{Namespace: s.namespace, Name: name}, Key: "url"},
			HeadersSecretRef: &v1alpha1.SecretReference{Namespace: s.namespace, Name: headers.Name},
		}},
	})})
	s.create(&v1alpha1.AlarmReceiver{ObjectMeta: meta, Spec: v1alpha1.AlarmReceiverSpec{
		Slack: &v1alpha1.SlackReceiver{WebhookURLSecretRef: &v1alpha1.SecretURLReference{SecretReference: v1alpha1.SecretReference{Name: name}, Key: "url"}},
	}})
	spec := v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Reasons: []string{reason}}}}
	s.create(&v1alpha1.ClusterAlarm{ObjectMeta: clusterMeta, Spec: v1alpha1.ClusterAlarmSpec{
		AlarmSpec: spec, Receivers: []v1alpha1.ClusterReceiverReference{{Name: clusterMeta.Name}},
	}})
	s.create(&v1alpha1.Alarm{ObjectMeta: meta, Spec: v1alpha1.NamespacedAlarmSpec{
		AlarmSpec: spec, Receivers: []v1alpha1.ReceiverReference{{Name: name}},
	}})
}

// unhandled returns the receivers that neither failed nor accepted anything yet.
func (s *fixture) unhandled() []string {
	s.t.Helper()
	var clusterWide v1alpha1.ClusterAlarmReceiverList
	var namespaced v1alpha1.AlarmReceiverList
	if err := s.Client.List(s.t.Context(), &clusterWide); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Client.List(s.t.Context(), &namespaced); err != nil {
		s.t.Fatal(err)
	}
	var open []string
	check := func(name string, status v1alpha1.AlarmStatus) {
		if meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionReady) || status.Delivered+status.Dropped > 0 {
			return
		}
		open = append(open, name)
	}
	for _, r := range clusterWide.Items {
		check(r.Name, r.Status)
	}
	for _, r := range namespaced.Items {
		check(r.Name, r.Status)
	}
	return open
}

// list returns all objects of a kind as JSON.
func (s *fixture) list(list client.ObjectList) string {
	s.t.Helper()
	if err := s.Client.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	text, err := json.Marshal(list)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// freeAddress returns an address that stays free: its port is outside of the range of the
// kernel's automatic ports.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sharing are rules that share the secret, with different problems. kind is the type of the
// Secret, more an addition to the rule, and target prepares the target namespace. want is the
// reason in the rule's status.
var sharing = map[string]struct {
	kind   corev1.SecretType
	more   string
	target func(s *fixture, namespace string)
	want   string
}{
	"copied":    {more: `copyAnnotations: ["*"]`, want: v1alpha1.ReasonReady},
	"blocked":   {target: (*fixture).foreign, want: v1alpha1.ReasonConflict},
	"quoted":    {target: refuser("'it holds ' + string(object.data.value)"), want: v1alpha1.ReasonCopyFailed},
	"untyped":   {kind: corev1.SecretTypeDockerConfigJson, more: "keys: [{from: value, to: .dockerconfigjson}]", want: v1alpha1.ReasonCopyFailed},
	"keyless":   {more: "keys: [{from: none}]", want: v1alpha1.ReasonKeyNotFound},
	"no-target": {more: "suspend: true", want: v1alpha1.ReasonSuspended},
}

// secretShares creates the rules, each with its own target namespace.
func (s *fixture) secretShares() {
	s.t.Helper()
	for name, share := range sharing {
		target := s.Namespace(s.t, map[string]string{"gets": name})
		if share.target != nil {
			share.target(s, target)
		}
		s.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Annotations: map[string]string{
				corev1.LastAppliedConfigAnnotation: `{"stringData":{"value":"` + secret + `"}}`,
			}},
			Type: share.kind, Data: map[string][]byte{"value": []byte(secret), corev1.DockerConfigJsonKey: []byte(`{"` + secret + `":{}}`)},
		})
		spec := fmt.Sprintf("source: {namespace: %s, names: [%s]}\ntargets: {namespaceSelector: {matchLabels: {gets: %[2]s}}}\n%s",
			s.namespace, name, share.more)
		s.create(cluster.Manifest(s.t, v1alpha1.KindClusterSecretShare, "", name, spec))
		s.create(cluster.Manifest(s.t, v1alpha1.KindSecretShare, s.namespace, name,
			strings.Replace(spec, "namespace: "+s.namespace+", ", "", 1)))
	}
}

// foreign creates a Secret that is not a copy in a target namespace.
func (s *fixture) foreign(namespace string) {
	s.t.Helper()
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "blocked", Annotations: map[string]string{"note": secret}},
		Data:       map[string][]byte{"value": []byte(secret)},
	})
}

// refuser returns a function that makes a namespace refuse Secrets with this message.
func refuser(message string) func(*fixture, string) {
	return func(s *fixture, namespace string) {
		s.t.Helper()
		s.Deny(s.t, namespace, "secrets", message, admissionv1.Create, admissionv1.Update)
		s.expectQuoted(namespace)
	}
}

// expectQuoted fails unless the refusal quotes the Secret.
func (s *fixture) expectQuoted(namespace string) {
	s.t.Helper()
	err := s.Client.Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}, Data: map[string][]byte{"value": []byte(secret)},
	}, client.DryRunAll)
	if err == nil {
		s.t.Fatal("a Secret was created, want a refusal")
	}
	for _, trace := range traces {
		if strings.Contains(err.Error(), trace) {
			return
		}
	}
	s.t.Fatalf("the policy does not quote the secret: %v", err)
}

// unsynced returns the rules that do not have the expected reason yet.
func (s *fixture) unsynced() []string {
	s.t.Helper()
	var open []string
	for name, share := range sharing {
		var rule v1alpha1.ClusterSecretShare
		if err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: name}, &rule); err != nil {
			s.t.Fatal(err)
		}
		if reason := cluster.Reason(&rule); reason != share.want {
			open = append(open, fmt.Sprintf("%s: %s", name, reason))
		}
	}
	return open
}

// copies returns the metadata of all copies.
func (s *fixture) copies() string {
	s.t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	var all strings.Builder
	if err := s.Client.List(s.t.Context(), list, client.HasLabels{"bongsu.io/rule-uid"}); err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		fmt.Fprintln(&all, list.Items[i].ObjectMeta)
	}
	return all.String()
}
