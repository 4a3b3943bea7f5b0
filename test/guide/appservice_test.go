package guide

import "testing"

func TestTheGuideToAppsWorksAsWritten(t *testing.T) {
	hands, _ := follow(t, "../../docs/appservice.md")
	for _, text := range []string{
		"orders-backup-", // the Job that stays
		`deployment.apps "stranded" deleted`,
	} {
		hands.await("everything so far", text)
	}
}
