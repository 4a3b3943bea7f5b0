package explain_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/explain"
)

// The old pod runs until the new one is ready, and the new one waits for its volume.
func TestARolloutThatWaitsForTheVolumeOfAnOldPodNamesTheStrategy(t *testing.T) {
	p := newNamespace(t)
	a := p.appService("{size: 1, strategy: {rollingUpdate: {maxSurge: 1}}}")
	p.status(a, appUnready("PodsNotReady", "1 of 1 pods are ready"))
	p.status(a, `{"status": {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 1}}`)
	set := p.appDeployment(a, nil)
	p.status(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "web"}}, `{"status": {"replicas": 2, "updatedReplicas": 1}}`)
	p.appPod("web-1-b", set, `{"status": {"phase": "Pending", "containerStatuses": [
		{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]}}`)
	p.event("Pod", "web-1-b", "", "FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) web-0-a`)
	x := p.explain(p.user(viewPermissions()...), app, "web")
	checkCause(t, x, "FailedAttachVolume", explain.Object{Kind: "Pod", Name: "web-1-b"}, "pods on another node use it: web-0-a")
	checkText(t, x, "1 of 1 pod ready; the rollout has not ended: 1 pod updated, 1 old", "Advice: set spec.strategy to {type: Recreate}, so that old pods end before new ones are created")
}
