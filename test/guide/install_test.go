package guide

import "testing"

func TestTheGuideToInstallingWorksAsWritten(t *testing.T) {
	hands, _ := follow(t, "../../docs/install.md")
	for _, text := range []string{
		"ready: 2 of 2",
		"removed ClusterRole bongsu-jupyter",
		"removed Deployment bongsu-system/bongsu",
		"would remove StatefulSet bongsu-system/bongsu",
		"removed ClusterRole bongsu-alarm",
	} {
		hands.await("everything so far", text)
	}
}
