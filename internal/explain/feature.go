package explain

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/feature"
)

// notProcessed says what to do if the operator has not written the status of an object. The cause
// can be that the operator runs without the feature of the kind. The user may not be allowed to
// find that out.
func (q *inquiry) notProcessed() string {
	needed := featureOf(q.resource.Resource)
	chosen := q.features()
	if chosen == nil || slices.Contains(chosen, needed) {
		return fmt.Sprintf("the operator has not processed it yet: check that the operator is running, with the feature %s", needed)
	}
	return fmt.Sprintf("the operator runs without the feature %s, and ignores it: ask an administrator to install again with the same values and --set 'controllers={%s}'",
		needed, strings.Join(append(feature.Names(chosen), string(needed)), ","))
}

// featureOf returns the feature that processes the objects of a resource.
func featureOf(resource string) feature.Feature {
	switch resource {
	case "jupyters":
		return feature.Jupyter
	case "appservices":
		return feature.AppService
	case "secretshares", "clustersecretshares", "secretsharegrants":
		return feature.SecretShare
	}
	return feature.Alarm
}

// features returns the features of the operator, if its pods are those of one workload that the
// user may read. An overview does not read it for each object.
func (q *inquiry) features() []feature.Feature {
	if q.logs == nil {
		return nil
	}
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	ours := client.MatchingLabels{"app.kubernetes.io/name": "bongsu", "app.kubernetes.io/part-of": "bongsu"}
	if q.objects.List(q.ctx, &deployments, ours) != nil || q.objects.List(q.ctx, &sets, ours) != nil {
		return nil
	}
	var pods []*corev1.PodSpec
	for i := range deployments.Items {
		pods = append(pods, &deployments.Items[i].Spec.Template.Spec)
	}
	for i := range sets.Items {
		pods = append(pods, &sets.Items[i].Spec.Template.Spec)
	}
	if len(pods) != 1 {
		return nil
	}
	chosen, err := feature.OfPod(pods[0])
	if err != nil {
		return nil
	}
	return chosen
}
