package watch_test

import (
	"encoding/base64"
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/cli/watch"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestValuesOfSecretsAreNeverPrinted(t *testing.T) {
	const one, two, annotation = "hunter2-one", "hunter2-two", "hunter2-annotation"
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	var screens []*screen
	for _, printer := range []func(io.Writer) watch.Printer{
		func(out io.Writer) watch.Printer { return watch.TextPrinter{Out: out} },
		func(out io.Writer) watch.Printer { return watch.TextPrinter{Out: out, Diff: true} },
		func(out io.Writer) watch.Printer { return watch.JSONPrinter{Out: out} },
		func(out io.Writer) watch.Printer { return watch.JSONPrinter{Out: out, Diff: true} },
	} {
		screens = append(screens, opened(t, request{config: c.RESTConfig(), typeName: "secrets", namespace: ns, printer: printer}))
	}

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db", Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: `{"data":{"password":"` + one + `"}}`, "note": annotation,
		}},
		Data: map[string][]byte{"password": []byte(one), "former": []byte(one)},
	}
	create(t, c, secret)
	patch(t, c, secret, `{"stringData":{"password":"`+two+`","new":"`+two+`"},"data":{"former":null},"metadata":{"annotations":{"note":"`+annotation+`2"}}}`)
	remove(t, c, secret)

	screens[0].shows(
		"ADDED "+ns+"/db",
		"MODIFIED "+ns+"/db: annotation note changed, data key former removed, data key new added, data key password changed",
		"DELETED "+ns+"/db",
	)
	for _, s := range screens {
		NewWithT(t).Eventually(s.out.String).Should(ContainSubstring("DELETED"))
		NewWithT(t).Expect(s.out.String()).To(ContainSubstring("data key password"))
		for _, value := range []string{one, two, annotation} {
			for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
				if text := s.out.String() + s.told.String(); strings.Contains(text, form) {
					t.Errorf("%q is printed:\n%s", form, text)
				}
			}
		}
	}
}

func TestBookkeepingIsNeverPrinted(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	s := opened(t, request{config: c.RESTConfig(), typeName: "cm", namespace: ns, printer: func(out io.Writer) watch.Printer {
		return watch.JSONPrinter{Out: out, Diff: true}
	}})
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a", Annotations: map[string]string{
		corev1.LastAppliedConfigAnnotation: `{"data":"lately"}`,
	}}}
	create(t, c, settings)
	patch(t, c, settings, `{"data":{"k":"v"},"metadata":{"annotations":{"`+corev1.LastAppliedConfigAnnotation+`":"lately"}}}`)
	remove(t, c, settings)

	NewWithT(t).Eventually(s.out.String).Should(ContainSubstring("DELETED"))
	for _, text := range []string{"managedFields", "lately", corev1.LastAppliedConfigAnnotation} {
		if strings.Contains(s.out.String(), text) {
			t.Errorf("%q is printed:\n%s", text, &s.out)
		}
	}
}
