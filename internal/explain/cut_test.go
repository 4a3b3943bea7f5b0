package explain

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// The same objects would be read by the next attempt, so that it would be cut, too.
func TestACauseThatLeadsToManyObjectsSaysThatItWasNotChecked(t *testing.T) {
	pod := func(name string) string {
		return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: shop, uid: %[1]s, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {nodeName: a, containers: [{name: app, image: app}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}
status: {phase: Running, containerStatuses: [{name: app, image: app, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: "2026-03-01T07:00:00Z"}}}], conditions: [{type: Ready, status: "True"}]}`, name)
	}
	const text = "not checked any further, because it leads to more than 10 objects"
	for holders, want := range map[int]bool{1: false, 3 * maxRootRequests: true} {
		objects := pod("new") + "\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop}\nstatus: {phase: Bound}"
		cause := &diagnosis.Cause{Reason: diagnosis.ReasonFailedAttachVolume, Message: "it is used", Advice: "stop them"}
		for i := range holders {
			name := fmt.Sprint("old-", i)
			objects += pod(name)
			cause.Blames = append(cause.Blames, diagnosis.Object{Kind: kindPod, Name: name})
		}
		e := fakeCluster(t, objects)
		p, w, _ := e.causeOf(t, client.ObjectKey{Namespace: "shop", Name: "new"})
		roots, live := e.roots(t, "shop")
		for range 3 {
			cause.Root = nil
			roots.Complete(t.Context(), p, w, cause)
			if got := cause.Root != nil && strings.HasSuffix(cause.Root.Message, text); got != want {
				t.Errorf("%d pods: %s", holders, cause.Sentence())
			}
		}
		if cause.Root != nil && cause.Root.Advice != "stop them" {
			t.Errorf("the advice is %q", cause.Root.Advice)
		}
		if live.requests > maxRootRequests {
			t.Errorf("%d pods: %d requests", holders, live.requests)
		}
	}
}
