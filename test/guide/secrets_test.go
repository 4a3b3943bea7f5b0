package guide

import (
	"strings"
	"testing"
)

func TestTheGuideToSecretsWorksAsWritten(t *testing.T) {
	hands, _ := follow(t, "../../docs/secrets.md")
	for _, text := range []string{
		"namespace shop: the namespace has no SecretShareGrant for this SecretShare",
		"bongsu.io/rule: SecretShare/data/orders-db",
		"PGPASSWORD:  13 bytes",
		"namespace legacy: Secret registry exists and is not a copy",
		"ClusterSecretShare/registry cannot copy Secret platform/registry here",
	} {
		hands.await("everything so far", text)
	}
	for _, secret := range []string{"correct-horse", "battery-staple"} {
		if strings.Contains(hands.output.String(), secret) {
			t.Errorf("%q was shown", secret)
		}
	}
}
