package explain

import (
	"fmt"
	"testing"
)

// autoscalerWith returns a HorizontalPodAutoscaler with a condition.
func autoscalerWith(condition, status, reason, message string) string {
	return fmt.Sprintf(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
status: {currentReplicas: 3, desiredReplicas: 3, conditions: [{type: %s, status: %q, reason: %s, message: %q}]}`, condition, status, reason, message)
}

func TestAnAutoscalerIsExplainedByItsConditions(t *testing.T) {
	checkExplained(t, "horizontalpodautoscalers.autoscaling", "web", map[string]tc{
		"it works": {objects: autoscalerWith("ScalingActive", "True", "ValidMetricFound", ""),
			want: "HorizontalPodAutoscaler shop/web shows no problem: Deployment web has 3 pods; the limits are 2 and 5"},
		"its maximum": {objects: autoscalerWith("ScalingLimited", "True", "TooManyReplicas", "the desired replica count is more than the maximum replica count"),
			want: "HorizontalPodAutoscaler shop/web shows no problem: Deployment web has 3 pods; the limits are 2 and 5; its metrics ask for more: raise spec.maxReplicas to allow it"},
		"its target is scaled to 0": {objects: autoscalerWith("ScalingActive", "False", "ScalingDisabled", "scaling is disabled since the replica count of the target is zero"),
			want: "HorizontalPodAutoscaler shop/web is inactive: Deployment web is scaled to 0, which disables autoscaling"},
		"its target has no scale": {objects: autoscalerWith("AbleToScale", "False", "FailedGetScale",
			"the HPA controller was unable to get the target's current scale: the server could not find the requested resource"), want: `
HorizontalPodAutoscaler shop/web has a problem: the number of pods of Deployment web is unknown

Cause: FailedGetScale in HorizontalPodAutoscaler web
  the target cannot be scaled: its kind has no scale
  Advice: let the autoscaler scale a Deployment, a StatefulSet, or another kind that can be scaled`},
		"no request": {objects: autoscalerWith("ScalingActive", "False", "FailedGetResourceMetric",
			"the HPA was unable to compute the replica count: failed to get cpu utilization: missing request for cpu in container app of Pod web-1"), want: `
HorizontalPodAutoscaler shop/web has a problem: Deployment web has 3 pods; the limits are 2 and 5

Cause: FailedGetResourceMetric in HorizontalPodAutoscaler web
  container "app" of pod "web-1" has no request for cpu, so that its utilization is unknown
  Advice: set resources.requests.cpu of the container in the pod template`},
	})
}

func budget(spec, status string) string {
	return "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: shop}\nspec: {selector: {matchLabels: {app: web}}, " + spec + "}\nstatus: {" + status + "}"
}

func TestADisruptionBudgetNamesWhatBlocksADrain(t *testing.T) {
	checkExplained(t, "poddisruptionbudgets.policy", "web", map[string]tc{
		"nothing": {objects: budget("minAvailable: 1", "expectedPods: 2, currentHealthy: 2, desiredHealthy: 1, disruptionsAllowed: 1"),
			want: "PodDisruptionBudget shop/web shows no problem: 1 pod may be evicted now; 2 of 2 pods healthy, and 1 must be"},
		"no pods": {objects: budget("minAvailable: 1", "expectedPods: 0, currentHealthy: 0, desiredHealthy: 1, disruptionsAllowed: 0"),
			want: "PodDisruptionBudget shop/web shows no problem: its selector selects no pods, so that it protects none"},
		"minAvailable": {objects: budget("minAvailable: 1", "expectedPods: 1, currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0"), want: `
PodDisruptionBudget shop/web has a problem: 0 pods may be evicted now; 1 of 1 pod healthy, and 1 must be

Cause: InsufficientPods in PodDisruptionBudget web
  it allows no eviction while it covers 1 pod, so that a drain of their nodes does not end: minAvailable is 1, and 1 healthy pod must stay
  Advice: run more pods, or change the budget so that one pod may be unavailable`},
		"maxUnavailable": {objects: budget("maxUnavailable: 0%", "expectedPods: 3, currentHealthy: 3, desiredHealthy: 3, disruptionsAllowed: 0"), want: `
PodDisruptionBudget shop/web has a problem: 0 pods may be evicted now; 3 of 3 pods healthy, and 3 must be

Cause: InsufficientPods in PodDisruptionBudget web
  it allows no eviction while it covers 3 pods, so that a drain of their nodes does not end: maxUnavailable is 0%, and 3 healthy pods must stay
  Advice: run more pods, or change the budget so that one pod may be unavailable`},
		"a pod that crashes": {objects: budget("minAvailable: 1", "expectedPods: 2, currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0") + "\n---\n" + crashedPod, want: `
PodDisruptionBudget shop/web has a problem: no pod may be evicted now; 1 of 2 pods healthy, and 1 must stay

Cause: OOMKilled in Pod web-1, container app, exit code 137
  container "app" was killed because it used more memory than its limit of 64Mi
  Advice: raise resources.limits.memory, or reduce its memory use

The end of the log of Pod web-1, container app:
  | fake logs`},
		"an unknown pod": {objects: budget("minAvailable: 1", "expectedPods: 2, currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0"), want: `
PodDisruptionBudget shop/web has a problem: no pod may be evicted now; 1 of 2 pods healthy, and 1 must stay

Cause: InsufficientPods in PodDisruptionBudget web
  1 of 2 pods healthy, and a drain waits until 2 are
  Advice: find out why the other pods are not ready; with unhealthyPodEvictionPolicy AlwaysAllow, a drain can evict these pods`},
		"a failed sync": {
			objects: budget("maxUnavailable: 1", `expectedPods: 0, currentHealthy: 0, desiredHealthy: 0, disruptionsAllowed: 0, conditions: [{type: DisruptionAllowed, status: "False", reason: SyncFailed, lastTransitionTime: "2026-03-01T08:00:00Z", message: 'found no controllers for pod "web-1"'}]`),
			want: `
PodDisruptionBudget shop/web has a problem: 0 pods may be evicted now; 0 of 0 pods healthy, and 0 must be

Cause: SyncFailed in PodDisruptionBudget web
  found no controllers for pod "web-1"
  Advice: correct spec.selector, or the pods that it selects; until then, no pod can be evicted`},
	})
}

func TestAStrictDisruptionBudgetIsNoProblemOfAnOverview(t *testing.T) {
	const namespace = "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}"
	strict := budget("maxUnavailable: 0", "expectedPods: 1, currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0")
	o := overviewOf(t, fakeCluster(t, strict+"\n---\n"+readyPod+namespace), "shop")
	if len(o.Problems) > 0 || o.Checked != 2 {
		t.Errorf("got %+v", o)
	}
}
