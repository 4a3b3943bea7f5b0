package explain

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// webhooksOf returns a configuration whose webhook calls Service web.
func webhooksOf(kind, fields string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: %s
metadata: {name: policy}
webhooks:
- name: check.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: shop, name: web, port: 80}%s}
---
`, kind, fields)
}

// caBundle returns a certificate that ends at a time, as the API server stores it.
func caBundle(t *testing.T, end time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestAWebhookThatCannotAnswerIsAProblem(t *testing.T) {
	const (
		kind    = "ValidatingWebhookConfiguration"
		problem = kind + " policy has a problem: it has 1 webhook\n\nCause: "
		refuses = "; the API server refuses requests that it must check\n  Advice: "
		works   = webService + "\n---\n" + readyPod
	)
	bundle := func(end time.Time) string { return ", caBundle: " + caBundle(t, end) }
	cases := map[string]tc{
		"it works":       {objects: webhooksOf(kind, "") + works, want: kind + " policy shows no problem: it has 1 webhook"},
		"it calls a URL": {objects: strings.Replace(webhooksOf(kind, ""), "service: {namespace: shop, name: web, port: 80}", "url: https://example.com", 1), want: kind + " policy shows no problem: it has 1 webhook"},
		"its Service is gone": {objects: webhooksOf(kind, ""), want: problem + `ServiceNotFound in Service web
  Service "web" in namespace "shop", which webhook "check.example.com" calls, does not exist` + refuses + "install the webhook again, or delete its configuration"},
		"its requests are admitted": {objects: strings.Replace(webhooksOf(kind, ""), "sideEffects", "failurePolicy: Ignore\n  sideEffects", 1), want: problem + `ServiceNotFound in Service web
  Service "web" in namespace "shop", which webhook "check.example.com" calls, does not exist; the API server admits requests that it does not check
  Advice: install the webhook again, or delete its configuration`},
		"its Service has another port": {objects: webhooksOf(kind, "") + strings.Replace(works, "port: 80", "port: 443", 1), want: problem + `ServicePortNotFound in Service web
  Service "web" in namespace "shop", which webhook "check.example.com" calls, has no port 80; it has 443` + refuses + "correct the port of the webhook, or add the port to the Service"},
		"its pods are not ready": {objects: webhooksOf(kind, "") + webService + "\n---\n" + crashedPod, want: problem + `OOMKilled in Pod web-1, container app, exit code 137
  Service "web" in namespace "shop", which webhook "check.example.com" calls, has no pod that answers: 0 of 1 pod ready; the API server refuses requests that it must check: Service "web" has a problem: container "app" was killed because it used more memory than its limit of 64Mi
  Advice: raise resources.limits.memory, or reduce its memory use
  By way of: Service shop/web

The end of the log of Pod web-1, container app:
  | fake logs`},
		"its port has no target": {objects: webhooksOf(kind, "") + strings.Replace(webService, "targetPort: 80}", "targetPort: https}", 1) + "\n---\n" + readyPod, want: problem + `TargetPortNotFound in Service web
  Service "web" in namespace "shop", which webhook "check.example.com" calls, has no pod that answers: port 80 has the targetPort "https", but no container of its pods has a TCP port of that name; they have web` + refuses + `correct targetPort, or the name of the container's port
  By way of: Service shop/web`},
		"its pods are stopped": {objects: webhooksOf(kind, "") + webService + "\n---\n" + stoppedWeb, want: problem + `NoEndpoints in Service web
  Service "web" in namespace "shop", which webhook "check.example.com" calls, has no pod that answers: Deployment web, whose pods it selects, is scaled to 0` + refuses + "start the pods of the Service, or ask the cluster's administrator to delete the configuration of the webhook"},
		"only another port of its Service has no target": {
			objects: webhooksOf(kind, "") + strings.Replace(webService, "targetPort: 80}", "targetPort: 80}, {name: metrics, port: 9090, protocol: TCP, targetPort: metrics}", 1) + "\n---\n" + readyPod,
			want:    kind + " policy shows no problem: it has 1 webhook",
		},
		"one of two must answer": {objects: strings.Replace(webhooksOf(kind, ""), "- name: check.example.com", `- name: first.example.com
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: shop, name: web, port: 80}}
- name: check.example.com`, 1), want: strings.Replace(problem, "1 webhook", "2 webhooks", 1) + `ServiceNotFound in Service web
  Service "web" in namespace "shop", which webhook "check.example.com" calls, does not exist` + refuses + `install the webhook again, or delete its configuration

Also: ServiceNotFound in Service web
  Service "web" in namespace "shop", which webhook "first.example.com" calls, does not exist; the API server admits requests that it does not check
  Advice: install the webhook again, or delete its configuration`},
		"its certificate is valid": {objects: webhooksOf(kind, bundle(testNow.AddDate(0, 0, 1))) + works, want: kind + " policy shows no problem: it has 1 webhook"},
		"its certificate has expired": {objects: webhooksOf(kind, bundle(testNow.AddDate(0, 0, -1))) + works, want: problem + `CertificateExpired in Service web
  the certificate in caBundle of webhook "check.example.com" expired on 2026-02-28` + refuses + "renew the certificates of the webhook, for example with its installer or cert-manager"},
		"its Service may not be read": {objects: webhooksOf(kind, ""), forbidden: []string{"Service"}, want: kind + ` policy shows no problem: it has 1 webhook

could not read services: you may not get them`},
	}
	checkExplained(t, "validatingwebhookconfigurations.admissionregistration.k8s.io", "policy", cases)
}

func TestTheOverviewShowsWebhooksThatCannotAnswer(t *testing.T) {
	const shop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}"
	e := fakeCluster(t, webhooksOf("MutatingWebhookConfiguration", "")+strings.Replace(webhooksOf("ValidatingWebhookConfiguration", ""), "name: policy", "name: other", 1)+shop)
	want := []string{"ServiceNotFound: MutatingWebhookConfiguration/policy ValidatingWebhookConfiguration/other"}
	if diff := cmp.Diff(want, linesOfOverview(overviewOf(t, e, ""))); diff != "" {
		t.Errorf("all namespaces (-want +got)\n%s", diff)
	}
	if lines := linesOfOverview(overviewOf(t, e, "shop")); len(lines) > 0 {
		t.Errorf("one namespace: %v", lines)
	}
}
