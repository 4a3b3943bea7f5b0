package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// In a crash loop, a pod is ready for a moment after each restart.
func TestAPodThatIsReadyAfterACrashRunsFineOnlyIfItStaysReady(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web}
spec:
  nodeName: node-1
  containers: [{name: web, image: web}]
status:
  phase: Running
  conditions: [{type: Ready, status: "True"}]
  containerStatuses:
  - name: web
    image: web
    imageID: web
    ready: true
    restartCount: %d
    state: {running: {startedAt: %q}}
    lastState: {terminated: {exitCode: 3, reason: Error, startedAt: %q, finishedAt: %q}}
`
	ago := func(d time.Duration) string { return testNow.Add(-d).UTC().Format(time.RFC3339) }
	for name, tc := range map[string]struct {
		restarts int
		ready    time.Duration
		state    State
		reason   string
	}{
		"a crash loop":               {5, 20 * time.Second, Failing, "CrashLoopBackOff"},
		"a crash loop that is over":  {5, 11 * time.Minute, Running, ""},
		"the first crash":            {1, 5 * time.Second, Failing, "Error"},
		"the first crash, long past": {1, time.Minute, Running, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := fakeCluster(t, fmt.Sprintf(pod, tc.restarts, ago(tc.ready), ago(tc.ready+40*time.Second), ago(tc.ready+30*time.Second)))
			x, err := e.Explain(t.Context(), schema.GroupResource{Resource: "pods"}, "shop", "web")
			if err != nil {
				t.Fatal(err)
			}
			var reason string
			if x.Cause != nil {
				reason = x.Cause.Reason
				if !strings.Contains(x.Cause.Message, "exit code 3") {
					t.Errorf("the cause says %q", x.Cause.Message)
				}
			}
			if x.State != tc.state || reason != tc.reason {
				t.Errorf("it is %s with reason %q, want %s with %q", x.State, reason, tc.state, tc.reason)
			}
		})
	}
}
