package kube

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// TrimPod is the cache's transform for Pods. It keeps the fields that show whether a pod
// runs, and if not, why: its status, its owners and a part of its spec.
func TrimPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil // a tombstone
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, Finalizers: pod.Finalizers,
			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,

			Labels: pod.Labels, OwnerReferences: pod.OwnerReferences,
		},
		Spec: corev1.PodSpec{
			NodeName:       pod.Spec.NodeName,
			SchedulerName:  pod.Spec.SchedulerName,
			Tolerations:    pod.Spec.Tolerations,
			RestartPolicy:  pod.Spec.RestartPolicy,
			Overhead:       pod.Spec.Overhead,
			Resources:      pod.Spec.Resources,
			ResourceClaims: pod.Spec.ResourceClaims,
			InitContainers: trimContainers(pod.Spec.InitContainers),
			Containers:     trimContainers(pod.Spec.Containers),
			Volumes:        claimsOf(pod.Spec.Volumes),
			ReadinessGates: pod.Spec.ReadinessGates, SchedulingGates: pod.Spec.SchedulingGates,

			TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
		},
		Status: pod.Status,
	}, nil
}

// TrimApplied is the cache's transform for objects that controllers need almost
// completely. It drops managedFields and kubectl's last-applied-configuration annotation, and
// most of a large object.
func TrimApplied(o any) (any, error) {
	object, err := meta.Accessor(o)
	if err != nil {
		return o, nil //nolint:nilerr // a tombstone
	}
	// Do not write to an object that was trimmed before, because it may be in use.
	if object.GetManagedFields() != nil {
		object.SetManagedFields(nil)
	}
	if _, found := object.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; found { //nolint:staticcheck // deleting is a write, even of a missing key
		delete(object.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	if sized, ok := o.(interface{ Size() int }); ok && sized.Size() > maxKept {
		trimLarge(object)
	}
	return o, nil
}

// Limits for a large object in the cache. Tenants can give objects of any size the label that the
// cache selects. A child without its spec costs only a request: if a child differs from what
// controllers want, they read it again.
const (
	maxKept        = 16 << 10 // bytes
	maxKeptEntries = 16       // of labels and annotations
	maxKeptValue   = 256      // bytes
)

// trimLarge keeps what shows whose object it is, and its status.
func trimLarge(object metav1.Object) {
	object.SetLabels(trimEntries(object.GetLabels(), v1alpha1.Group+"/", "app.kubernetes.io/"))
	object.SetAnnotations(trimEntries(object.GetAnnotations(), v1alpha1.Group+"/", "deployment.kubernetes.io/"))
	object.SetFinalizers(nil)
	var owner []metav1.OwnerReference
	if controller := metav1.GetControllerOf(object); controller != nil {
		owner = append(owner, *controller)
	}
	object.SetOwnerReferences(owner)
	switch o := object.(type) {
	case *appsv1.Deployment:
		o.Spec.Template, o.Spec.Selector = corev1.PodTemplateSpec{}, nil
	case *appsv1.StatefulSet:
		o.Spec.Template, o.Spec.Selector, o.Spec.VolumeClaimTemplates = corev1.PodTemplateSpec{}, nil, nil
	case *appsv1.ReplicaSet:
		o.Spec.Template, o.Spec.Selector = corev1.PodTemplateSpec{}, nil
	case *batchv1.Job:
		o.Spec.Template, o.Spec.Selector, o.Spec.PodFailurePolicy = corev1.PodTemplateSpec{}, nil, nil
	case *corev1.Service:
		o.Spec = corev1.ServiceSpec{ClusterIP: o.Spec.ClusterIP}
	case *corev1.PersistentVolumeClaim:
		o.Spec.Selector = nil
	case *networkingv1.Ingress:
		o.Spec = networkingv1.IngressSpec{}
	case *policyv1.PodDisruptionBudget:
		o.Spec = policyv1.PodDisruptionBudgetSpec{}
	}
}

// trimEntries keeps some of the entries whose keys have one of the prefixes.
func trimEntries(all map[string]string, prefixes ...string) map[string]string {
	kept := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		hasPrefix := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		if hasPrefix && len(all[key]) <= maxKeptValue && len(kept) < maxKeptEntries {
			kept[key] = all[key]
		}
	}
	return kept
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	trimmed := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		trimmed[i] = corev1.Container{
			Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy,
			Env: trimEnv(c.Env), VolumeMounts: trimMounts(c.VolumeMounts),
			StartupProbe: trimProbe(c.StartupProbe), LivenessProbe: trimProbe(c.LivenessProbe), ReadinessProbe: trimProbe(c.ReadinessProbe),
		}
	}
	return trimmed
}

// trimProbe keeps the port that a probe asks. It is nil if the probe asks none.
func trimProbe(p *corev1.Probe) *corev1.Probe {
	switch {
	case p == nil:
	case p.HTTPGet != nil:
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: p.HTTPGet.Port}}}
	case p.TCPSocket != nil:
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: p.TCPSocket.Port}}}
	case p.GRPC != nil:
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: p.GRPC.Port}}}
	}
	return nil
}

// trimMounts keeps where volumes are mounted.
func trimMounts(mounts []corev1.VolumeMount) []corev1.VolumeMount {
	trimmed := make([]corev1.VolumeMount, len(mounts))
	for i, m := range mounts {
		trimmed[i] = corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath, SubPath: m.SubPath}
	}
	return trimmed
}

// maxArgs limits the kept arguments of a notebook, in bytes. Those of the operator are shorter.
const maxArgs = 256

// trimEnv keeps the arguments of a notebook, which contain the path of its server.
func trimEnv(variables []corev1.EnvVar) []corev1.EnvVar {
	for _, v := range variables {
		if v.Name == v1alpha1.VariableNotebookArgs && len(v.Value) <= maxArgs {
			return []corev1.EnvVar{{Name: v.Name, Value: v.Value}}
		}
	}
	return nil
}

func claimsOf(volumes []corev1.Volume) []corev1.Volume {
	var claims []corev1.Volume
	for i := range volumes {
		source := corev1.VolumeSource{PersistentVolumeClaim: volumes[i].PersistentVolumeClaim}
		if volumes[i].Ephemeral != nil {
			source.Ephemeral = &corev1.EphemeralVolumeSource{} // the name of its claim is derived from the volume
		}
		if source != (corev1.VolumeSource{}) {
			claims = append(claims, corev1.Volume{Name: volumes[i].Name, VolumeSource: source})
		}
	}
	return claims
}
