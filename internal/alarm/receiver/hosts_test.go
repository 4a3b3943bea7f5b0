package receiver_test

import (
	"errors"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
)

func TestAnAlarmReceiverOfAHostThatIsNotAllowedIsNotReady(t *testing.T) {
	sinks := receiver.NewSinks(dialguard.Config{Hosts: []string{"a.example", "mail.example"}}, io.Discard, clock.RealClock{})
	webhook := func(url string) v1alpha1.AlarmReceiverSpec {
		return v1alpha1.AlarmReceiverSpec{Webhook: &v1alpha1.WebhookReceiver{HTTPServer: v1alpha1.HTTPServer{URL: v1alpha1.ServerURL(url)}}}
	}
	mail := func(host string) v1alpha1.AlarmReceiverSpec {
		return v1alpha1.AlarmReceiverSpec{Email: &v1alpha1.EmailReceiver{
			Host: host, From: "a@a.example", To: []v1alpha1.MailAddress{"b@a.example"},
		}}
	}
	for name, tc := range map[string]struct {
		spec v1alpha1.AlarmReceiverSpec
		want bool
	}{
		"allowed":                {webhook("https://A.example:8443/x"), true},
		"another host":           {webhook("https://b.example/"), false},
		"an address":             {webhook("https://8.8.8.8/"), false},
		"allowed mail server":    {mail("mail.example"), true},
		"another mail server":    {mail("b.example"), false},
		"a user name for a host": {webhook("https://a.example@b.example/"), false},
	} {
		t.Run(name, func(t *testing.T) {
			object := &v1alpha1.AlarmReceiver{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "it"}, Spec: tc.spec}
			_, err := receiver.Build(t.Context(), nil, sinks, kube.Key{Kind: v1alpha1.KindAlarmReceiver, Namespace: "shop", Name: "it"}, object)
			if invalid, refused := errors.AsType[*receiver.ConfigError](err); refused == tc.want || refused && invalid.Reason != v1alpha1.ReasonAddressNotAllowed {
				t.Errorf("got %v, want allowed %t", err, tc.want)
			}
		})
	}
	cluster := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: "it"}, Spec: v1alpha1.ClusterAlarmReceiverSpec{AlarmReceiverSpec: webhook("https://b.example/")}}
	if _, err := receiver.Build(t.Context(), nil, sinks, kube.Key{Kind: v1alpha1.KindClusterAlarmReceiver, Name: "it"}, cluster); err != nil {
		t.Errorf("a ClusterAlarmReceiver: %v", err)
	}
}
