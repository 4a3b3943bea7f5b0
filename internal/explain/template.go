package explain

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// template is a pod template.
type template struct {
	// owner is its kind and name.
	owner  string
	labels labels.Set
	// idle says why the owner needs no pod now. It is empty if it needs one.
	idle string
}

// reference returns the owner, which creates the pods.
func (t *template) reference(namespace string) *reference {
	kind, name, _ := strings.Cut(t.owner, " ")
	group := appsv1.GroupName
	if kind == "Job" || kind == "CronJob" {
		group = batchv1.GroupName
	}
	return &reference{kind: schema.GroupKind{Group: group, Kind: kind}, namespace: namespace, name: name}
}

// templateOf returns the template whose pods a selector selects, or nil. It prefers one
// whose owner needs pods. It returns false if it could not read all templates.
func (q *inquiry) templateOf(selector labels.Selector) (found *template, all bool) {
	all = true
	for _, l := range []struct {
		what string
		list client.ObjectList
	}{
		{"deployments.apps", &appsv1.DeploymentList{}},
		{"statefulsets.apps", &appsv1.StatefulSetList{}},
		{"daemonsets.apps", &appsv1.DaemonSetList{}},
		{"replicasets.apps", &appsv1.ReplicaSetList{}},
		{"cronjobs.batch", &batchv1.CronJobList{}},
		{"jobs.batch", &batchv1.JobList{}},
	} {
		read := q.list(l.what, l.list, func() {
			_ = meta.EachListItem(l.list, func(o runtime.Object) error { // it fails only if the function fails
				t := newTemplate(o)
				if t != nil && selector.Matches(t.labels) && (found == nil || found.idle != "" && t.idle == "") {
					found = t
				}
				return nil
			})
		}, client.InNamespace(q.namespace))
		all = all && read
	}
	return found, all
}

// newTemplate returns the template of an object, or nil. It leaves out ReplicaSets of
// Deployments, which can have an earlier template.
func newTemplate(o runtime.Object) *template {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &template{"Deployment " + o.Name, o.Spec.Template.Labels, scaledToZero(o.Spec.Replicas)}
	case *appsv1.StatefulSet:
		return &template{"StatefulSet " + o.Name, o.Spec.Template.Labels, scaledToZero(o.Spec.Replicas)}
	case *appsv1.DaemonSet:
		t := &template{"DaemonSet " + o.Name, o.Spec.Template.Labels, ""}
		if o.Status.DesiredNumberScheduled == 0 && o.Status.ObservedGeneration >= o.Generation {
			t.idle = "matches no node"
		}
		return t
	case *appsv1.ReplicaSet:
		if owner := metav1.GetControllerOfNoCopy(o); owner == nil || owner.Kind != "Deployment" {
			return &template{"ReplicaSet " + o.Name, o.Spec.Template.Labels, scaledToZero(o.Spec.Replicas)}
		}
	case *batchv1.Job:
		return &template{"Job " + o.Name, o.Spec.Template.Labels, idleJob(o)}
	case *batchv1.CronJob:
		return &template{"CronJob " + o.Name, o.Spec.JobTemplate.Spec.Template.Labels, "runs no pod now"}
	}
	return nil
}

func scaledToZero(n *int32) string {
	if replicas(n) == 0 {
		return "is scaled to 0"
	}
	return ""
}

func idleJob(j *batchv1.Job) string {
	switch {
	case jobCondition(j, batchv1.JobComplete) != nil || jobCondition(j, batchv1.JobFailed) != nil:
		return "has ended"
	case j.Spec.Suspend != nil && *j.Spec.Suspend:
		return "is suspended"
	}
	return ""
}
