package e2e

import "testing"

// shareSecrets shares a Secret in the way of docs/secrets.md.
func (w *world) shareSecrets(t *testing.T) {
	w.kubectl(t, "create", "namespace", "secretsync")
	w.kubectl(t, "create", "secret", "generic", "supersecret", "-n", "secretsync", "--from-literal=ziwon=awesome", "--type=bongsu.io/secretsync")
	w.await(t, "secret/supersecret", "shop", "{.data.ziwon}", "YXdlc29tZQ==")
	w.kubectl(t, "delete", "secret", "supersecret", "-n", "shop")
	w.await(t, "secret/supersecret", "shop", "{.data.ziwon}", "YXdlc29tZQ==")
	w.await(t, "clustersecretshare/secretsync", "", condition("Ready"), "True")
}
