package enrich_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// foreignFact is in what a tenant may not know, ownFact in what the tenant wrote.
const foreignFact, ownFact = "foreign-fact", "own-fact"

// podOf returns the spec of a pod that mounts claim data, refers to the Secret and the ServiceAccount of a name, and runs on node-0.
func podOf(name string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName: "node-0", RestartPolicy: corev1.RestartPolicyNever,
		Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}},
		},
		Containers: []corev1.Container{{Name: "app", Image: "a", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}}},
	}
}

// kinds are the kinds of the objects that the test creates.
var kinds = []string{"Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Service", "PersistentVolumeClaim"}

// newObject returns an object of a kind with its API version. Its spec selects pods with the labels, and refers to a name.
func newObject(kind string, meta metav1.ObjectMeta, selects map[string]string, refersTo string) (client.Object, string) {
	selector := &metav1.LabelSelector{MatchLabels: selects}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selects}, Spec: podOf(refersTo)}
	if kind != "Job" {
		template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	switch kind {
	case "Pod":
		return &corev1.Pod{ObjectMeta: meta, Spec: podOf(refersTo)}, "v1"
	case "Deployment":
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}, "apps/v1"
	case "ReplicaSet":
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}, "apps/v1"
	case "StatefulSet":
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template, ServiceName: strings.ReplaceAll(refersTo, ".", "-")}}, "apps/v1"
	case "DaemonSet":
		return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, "apps/v1"
	case "Job":
		manual := true
		return &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{ManualSelector: &manual, Selector: selector, Template: template}}, "batch/v1"
	case "Service":
		return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: selects, Ports: []corev1.ServicePort{{Port: 80}}}}, "v1"
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: refersTo,
	}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return claim, "v1"
}

// victims creates an object of each kind in the namespace of a fixture, with foreignFact in its metadata and in the status of its pods.
func victims(t *testing.T, s *fixture) map[string]client.Object {
	t.Helper()
	all := map[string]client.Object{}
	for _, kind := range kinds {
		labels := map[string]string{"app": "victim-" + strings.ToLower(kind), "fact": foreignFact}
		o, version := newObject(kind, metav1.ObjectMeta{
			Namespace: s.namespace, Name: "victim", Labels: labels, Annotations: map[string]string{"fact": foreignFact},
		}, map[string]string{"app": labels["app"]}, foreignFact)
		s.create(t, o)
		all[kind] = o
		pod, isPod := o.(*corev1.Pod)
		if !isPod {
			pod = &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "victim-" + strings.ToLower(kind), Labels: labels, OwnerReferences: []metav1.OwnerReference{ownerOf(version, kind, o)}},
				Spec:       podOf(foreignFact),
			}
			s.create(t, pod)
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `secret "` + foreignFact + `" not found`},
		}}}
		if err := s.cluster.Client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func ownerOf(version, kind string, o client.Object) metav1.OwnerReference {
	controller := true
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: &controller}
}

// one returns a random element.
func one[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// A tenant writes objects and Events. A cause may contain only facts of the tenant's namespace, and of the nodes of
// its pods.
func TestHostileEventsRevealNothingOfOtherNamespaces(t *testing.T) {
	s, own := newFixture(t, nil), newFixture(t, nil)
	for _, f := range []*fixture{s, own} {
		f.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "default"}})
	}
	theirs := victims(t, s)
	version := func(kind string) string {
		_, version := newObject(kind, metav1.ObjectMeta{}, nil, "")
		return version
	}
	for _, kind := range kinds { // the facts can be found
		v := theirs[kind]
		e := event(s.namespace, alarm.Reference{APIVersion: version(kind), Kind: kind, Namespace: s.namespace, Name: v.GetName(), UID: string(v.GetUID())})
		e.Type, e.Reason = "Warning", "Failed"
		if got := s.Context(t.Context(), e); !strings.Contains(fmt.Sprint(got), foreignFact) {
			t.Errorf("the namespace of the %s does not get its facts: %+v", kind, got)
		}
	}
	reasons := []string{"FailedAttachVolume", "FailedMount", "FailedScheduling", "BackOff", "Failed", "FailedCreate", "Unhealthy", "FailedBinding", "ProvisioningFailed", "Preempted"}
	texts := []string{
		`Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) %s`,
		`MountVolume.SetUp failed for volume "v" : secret "%s" not found`,
		`persistentvolumeclaim "%s" not found`, `failed calling webhook "%s": no endpoints available for service "%[1]s"`,
		`pods "x" is forbidden: exceeded quota: %s, requested: pods=1, used: pods=1, limited: pods=1`,
		`Preempted by pod %s on node node-0`, `Error creating: pods "%s" is forbidden: error looking up service account %[1]s: serviceaccount "default" not found`,
	}
	names := []string{
		"victim", "victim-deployment", s.namespace + "/victim", "../" + s.namespace + "/pods/victim", "victim, mine", "victim." + s.namespace,
		"victim%00", "victim\n" + s.namespace, "victim." + s.namespace + ".svc",
	}
	const seeds = 200
	inputs := map[string]bool{}
	honest := 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 0))
		kind, other := one(r, kinds...), one(r, kinds...)
		v := theirs[other]
		selects := map[string]string{"app": one(r, "victim-"+strings.ToLower(other), "mine")}
		meta := metav1.ObjectMeta{
			Namespace: own.namespace, Name: fmt.Sprintf("%s-%d", one(r, "mine", "victim", s.namespace+".victim"), seed),
			Labels:      map[string]string{"app": selects["app"], "fact": ownFact, "pod-template-hash": one(r, "x", "victim"), "kubernetes.io/metadata.name": s.namespace},
			Annotations: map[string]string{"namespace": s.namespace},
		}
		if kind != "Pod" { // which may not refer to Secrets with it
			meta.Annotations[corev1.MirrorPodAnnotationKey] = string(v.GetUID())
		}
		if r.IntN(3) > 0 { // the owner is in another namespace
			meta.OwnerReferences = []metav1.OwnerReference{ownerOf(version(other), other, v)}
		}
		if kind == "Service" || kind == "StatefulSet" { // whose names have no dots
			meta.Name = strings.ReplaceAll(meta.Name, ".", "-")
		}
		mine, apiVersion := newObject(kind, meta, selects, one(r, "victim", "data", s.namespace+"."+"victim"))
		own.create(t, mine)
		e := event(own.namespace, alarm.Reference{APIVersion: apiVersion, Kind: kind, Namespace: own.namespace, Name: mine.GetName(), UID: string(mine.GetUID())})
		e.Type, e.Reason = one(r, "Warning", "Warning", "Normal"), one(r, reasons...)
		e.Note = fmt.Sprintf(one(r, texts...), one(r, append(names, string(v.GetUID()))...))
		e.Regarding.FieldPath = one(r, "", "spec.containers{app}", "spec.containers{"+s.namespace+"}")
		isHonest := true
		if r.IntN(2) == 0 { // the Event regards something else than it says
			isHonest = false
			switch r.IntN(5) {
			case 0:
				e.Regarding.UID = string(v.GetUID())
			case 1:
				e.Regarding.Name = v.GetName()
			case 2:
				e.Regarding.Namespace = s.namespace
			case 3:
				e.Regarding = alarm.Reference{APIVersion: version(other), Kind: other, Namespace: s.namespace, Name: v.GetName(), UID: string(v.GetUID())}
			case 4:
				e.Regarding = alarm.Reference{APIVersion: version(other), Kind: other, Namespace: own.namespace, Name: "../" + s.namespace + "/" + v.GetName()}
			}
		}
		inputs[fmt.Sprintf("%s %s %v %+v", kind, other, meta, *e)] = true
		got := own.Context(t.Context(), e)
		text := fmt.Sprint(got)
		if strings.Contains(text, foreignFact) {
			t.Fatalf("seed %d: %s %+v: %+v", seed, kind, *e, got)
		}
		if isHonest {
			honest++
			if !got.Resolved || !strings.Contains(text, ownFact) {
				t.Errorf("seed %d: the tenant does not get the facts of its own %s: %+v", seed, kind, got)
			}
		}
	}
	if len(inputs) < seeds || honest < seeds/4 {
		t.Errorf("%d inputs differ, %d are honest", len(inputs), honest)
	}
}
