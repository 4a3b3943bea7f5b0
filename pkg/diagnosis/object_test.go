package diagnosis

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The messages are those of kubernetes/pkg/controller/podautoscaler 1.37 (horizontal.go,
// replica_calculator.go, metrics/client.go), and of the API server's errors in them.
func TestAnAutoscalerThatDoesNotScaleNamesTheCause(t *testing.T) {
	const unable = "the HPA was unable to compute the replica count: failed to get cpu utilization: "
	for name, tc := range map[string]struct {
		condition       autoscalingv2.HorizontalPodAutoscalerConditionType
		reason, message string
		want            string
	}{
		"no request":                 {"ScalingActive", "FailedGetResourceMetric", unable + "missing request for cpu in container app of Pod web-1", `container "app" of pod "web-1" has no request for cpu, so that its utilization is unknown: set resources.requests.cpu of the container in the pod template`},
		"no request for the pod":     {"ScalingActive", "FailedGetResourceMetric", unable + "missing pod-level request for memory in Pod web-1", `pod "web-1" has no request for memory for the whole pod, so that its utilization is unknown: set spec.resources.requests.memory in the pod template`},
		"no container":               {"ScalingActive", "FailedGetContainerResourceMetric", unable + "container proxy not found in Pod web-1", `a metric names container "proxy", which pod "web-1" does not have: correct spec.metrics`},
		"no metrics server":          {"ScalingActive", "FailedGetResourceMetric", unable + "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)", "the cluster does not serve the API metrics.k8s.io, so that the use of CPU and memory is unknown: ask the cluster's administrator to install metrics-server"},
		"the metrics server is down": {"ScalingActive", "FailedGetResourceMetric", unable + "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server is currently unable to handle the request (get pods.metrics.k8s.io)", "the server of the resource metrics API does not answer: wait; if the problem persists, ask the cluster's administrator to check metrics-server or the metrics adapter"},
		"no metrics yet":             {"ScalingActive", "FailedGetResourceMetric", unable + "unable to get metrics for resource cpu: no metrics returned from resource metrics API", "the resource metrics API has no metrics of the pods: wait if the pods have just started; otherwise check the metrics server"},
		"no ready pods":              {"ScalingActive", "FailedGetResourceMetric", unable + "did not receive metrics for targeted pods (pods might be unready)", "there are no metrics of ready pods: wait if the pods have just started; otherwise find out why they are not ready"},
		"no adapter":                 {"ScalingActive", "FailedGetPodsMetric", "the HPA was unable to compute the replica count: unable to get metric requests: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered", "the cluster does not serve the API custom.metrics.k8s.io: ask the cluster's administrator to install an adapter for custom metrics, or use other metrics"},
		"no such metric":             {"ScalingActive", "FailedGetPodsMetric", "the HPA was unable to compute the replica count: unable to get metric requests: unable to fetch metrics from custom metrics API: the server could not find the metric requests for pods", `the custom metrics API has no metric "requests": correct the name of the metric, or the rules of the metrics adapter`},
		"no target":                  {"AbleToScale", "FailedGetScale", `the HPA controller was unable to get the target's current scale: deployments.apps "web" not found`, `deployments.apps "web", which scaleTargetRef names, does not exist: correct spec.scaleTargetRef, or create the object`},
		"no such kind":               {"AbleToScale", "FailedGetScale", `the HPA controller was unable to get the target's current scale: no matches for kind "Deploy" in group "apps"`, `the cluster has no kind "Deploy" in "apps", which scaleTargetRef names: correct apiVersion and kind in spec.scaleTargetRef`},
		"two for one target":         {"ScalingActive", "AmbiguousSelector", "pods by selector app=web are controlled by more than one HPA (e.g. [shop/a shop/b])", "pods by selector app=web are controlled by more than one HPA (e.g. [shop/a shop/b]): change scaleTargetRef, or delete all but one of them"},
		"an unknown message":         {"ScalingActive", "FailedGetObjectMetric", "the HPA was unable to compute the replica count: the frobnicator is out", `the frobnicator is out: check spec.metrics, and Deployment "web"`},
	} {
		t.Run(name, func(t *testing.T) {
			h := &autoscalingv2.HorizontalPodAutoscaler{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}},
				Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
					{Type: tc.condition, Status: corev1.ConditionFalse, Reason: tc.reason, Message: tc.message},
					{Type: autoscalingv2.ScalingLimited, Status: corev1.ConditionFalse, Reason: "DesiredWithinRange"},
				}},
			}
			got := FromAutoscaler(h)
			if len(got) != 1 || got[0].Sentence() != tc.want || got[0].Reason != tc.reason || got[0].Object != (Object{Kind: "HorizontalPodAutoscaler", Name: "web"}) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestAnAutoscalerThatIsDisabledHasNoCause(t *testing.T) {
	h := &autoscalingv2.HorizontalPodAutoscaler{Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
		{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: "ScalingDisabled"},
		{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue, Reason: "SucceededGetScale"},
	}}}
	if got := FromAutoscaler(h); len(got) > 0 {
		t.Errorf("got %+v", got)
	}
}

func TestAWarningThatContainsTheCauseIsExplained(t *testing.T) {
	for name, tc := range map[string]struct {
		eventType    string
		kind, reason string
		note         string
		want         string
	}{
		"quota": {"Warning", "ReplicaSet", "FailedCreate", `Error creating: pods "web-x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4`,
			`the pod cannot be created: ResourceQuota "team" is exceeded: pods: requested 1, used 4 of 4: delete or scale down a workload, or ask for a larger quota`},
		"Job of a CronJob": {"Warning", "CronJob", "FailedCreate", `Error creating job: jobs.batch "web-29" is forbidden: exceeded quota: team, requested: count/jobs.batch=1, used: count/jobs.batch=4, limited: count/jobs.batch=4`,
			`the Job cannot be created: ResourceQuota "team" is exceeded: count/jobs.batch: requested 1, used 4 of 4: delete jobs.batch that you do not need, or ask for a larger quota`},
		"claim": {"Warning", "PersistentVolumeClaim", "ProvisioningFailed", `storageclass.storage.k8s.io "fast" not found`,
			`no volume can be provisioned for claim "web": StorageClass "fast" does not exist: use another one, or ask the cluster's administrator which ones exist`},
		"autoscaler": {"Warning", "HorizontalPodAutoscaler", "FailedGetResourceMetric", "failed to get cpu utilization: missing request for cpu in container app of Pod web-1",
			`container "app" of pod "web-1" has no request for cpu, so that its utilization is unknown: set resources.requests.cpu of the container in the pod template`},
		"autoscaler without target": {"Warning", "HorizontalPodAutoscaler", "FailedGetScale", `deployments.apps "web" not found`,
			`deployments.apps "web", which scaleTargetRef names, does not exist: correct spec.scaleTargetRef, or create the object`},
		"autoscaler, unknown text": {"Warning", "HorizontalPodAutoscaler", "FailedGetScale", "the frobnicator is out", ""},
		"deadline": {"Warning", "Job", "DeadlineExceeded", "Job was active longer than specified deadline",
			"the Job ran longer than its activeDeadlineSeconds: raise activeDeadlineSeconds, or reduce the work of the Job"},
		"failed Job":     {"Warning", "Job", "BackoffLimitExceeded", "Job has reached the specified backoff limit", ""},
		"Normal":         {"Normal", "ReplicaSet", "FailedCreate", "Error creating: ", ""},
		"unknown reason": {"Warning", "Deployment", "SelectingAll", "This deployment is selecting all pods.", ""},
		"other creators": {"Warning", "Service", "FailedCreate", "Error creating: no address", ""},
		"claim that cannot grow": {"Warning", "PersistentVolumeClaim", "VolumeResizeFailed", `resize volume "pvc-1" by resizer "ebs.csi.aws.com" failed: rpc error: code = Unauthenticated desc = the session has ended`,
			`claim "web" cannot be resized: the storage driver's credentials are not accepted: ask the cluster's administrator to correct them`},
		"pod that does not end": {"Warning", "Pod", "FailedKillPod", `error killing pod: failed to "KillPodSandbox" for "0c98df45-982b-4a22-a977-7dac36a014c7" with KillPodSandboxError: "rpc error: code = DeadlineExceeded desc = context deadline exceeded"`,
			"the node cannot end the pod: context deadline exceeded: wait; if the problem persists, ask the cluster's administrator"},
		"volume of a pod that cannot grow": {"Warning", "Pod", "VolumeResizeFailed", `NodeExpandVolume.NodeExpandVolume failed for volume "pvc-1" : Expander.NodeExpand failed to expand the volume : rpc error: code = Internal desc = resize requested for 11, but after resizing volume size was 10`,
			`volume "pvc-1" of the pod cannot be resized: resize requested for 11, but after resizing volume size was 10: wait; if the problem persists, ask the cluster's administrator`},
	} {
		t.Run(name, func(t *testing.T) {
			cause := FromEvent(Event{Type: tc.eventType, Reason: tc.reason, Note: tc.note, Regarding: Object{Kind: tc.kind, Name: "web"}, UID: "u"})
			got := ""
			if cause != nil {
				got = cause.Sentence()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNewEventKnowsTheFirstAndTheLastOccurrenceOfEachRecorder(t *testing.T) {
	created := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	first, later := created.Add(-time.Minute), created.Add(time.Minute)
	for what, tc := range map[string]struct {
		event               eventsv1.Event
		firstSeen, lastSeen time.Time
		count               int64
	}{
		"a new one":     {eventsv1.Event{EventTime: metav1.NewMicroTime(later)}, later, later, 1},
		"a series":      {eventsv1.Event{EventTime: metav1.NewMicroTime(created), Series: &eventsv1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(later)}}, created, later, 3},
		"an older kind": {eventsv1.Event{DeprecatedFirstTimestamp: metav1.NewTime(first), DeprecatedLastTimestamp: metav1.NewTime(later), DeprecatedCount: 2}, first, later, 2},
		"no times":      {eventsv1.Event{}, created, created, 1},
	} {
		e := tc.event
		e.CreationTimestamp = metav1.NewTime(created)
		e.Type, e.Reason, e.Note = "Warning", "Unhealthy", "text"
		e.Regarding = corev1.ObjectReference{Kind: "Pod", Name: "nb-0", UID: "uid", FieldPath: "spec.containers{app}"}
		want := Event{
			Type: "Warning", Reason: "Unhealthy", Note: "text", Regarding: Object{Kind: "Pod", Name: "nb-0"}, UID: "uid",
			FieldPath: "spec.containers{app}", FirstSeen: tc.firstSeen, LastSeen: tc.lastSeen, Count: tc.count,
		}
		if diff := cmp.Diff(want, NewEvent(&e)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}
