package controller

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/pkg/probe"

	cachev1alpha1 "github.com/bongsu-io/bongsu/samples/memcached-operator/api/v1alpha1"
)

// memcachedApp is the value of the label app.kubernetes.io/name.
const memcachedApp = "memcached"

// memcachedOwner is the annotation of a Deployment with the UID of its object.
const memcachedOwner = "cache.example.com/owner-uid"

// The scripts run in the image of memcached, with bash.
var (
	//go:embed probe.sh
	probeScript string
	//go:embed backup.sh
	backupScript string
)

// memcachedProbe checks each pod. It is unhealthy after three failures in a row.
var memcachedProbe = probe.Spec{Probe: corev1.Probe{
	ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"bash", "-c", probeScript, "probe.sh", "127.0.0.1/11211"}}},
	PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 3,
}}

func memcachedLabels(app, instance string) map[string]string {
	return map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/instance": instance}
}

// deployment returns the Deployment that an object must have. It has no owner reference: with one, a
// foreground deletion of the object would delete the pods before the backup.
func (r *MemcachedReconciler) deployment(object *cachev1alpha1.Memcached) *appsv1.Deployment {
	labels := memcachedLabels(memcachedApp, object.Name)
	memory := int64(object.Spec.MemoryMegabytes)
	limit := resource.NewQuantity((memory*5/4+32)<<20, resource.BinarySI) // connections need memory too
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace, Name: object.Name, Labels: labels,
			Annotations: map[string]string{memcachedOwner: string(object.UID)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: object.Spec.Size,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:      "memcached",
					Image:     object.Spec.Image,
					Command:   []string{"memcached", "-m", strconv.FormatInt(memory, 10)},
					Ports:     []corev1.ContainerPort{{ContainerPort: 11211}},
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: *limit}},
				}}},
			},
		},
	}
	return deployment
}

// podsOf returns the pods of the Deployment. A pod without a controller is not one of them.
func (r *MemcachedReconciler) podsOf(ctx context.Context, object *cachev1alpha1.Memcached) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	labels := client.MatchingLabels(memcachedLabels(memcachedApp, object.Name))
	if err := r.List(ctx, list, client.InNamespace(object.Namespace), labels); err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if metav1.GetControllerOf(&list.Items[i]) != nil {
			pods = append(pods, &list.Items[i])
		}
	}
	return pods, nil
}

// ownerOf enqueues the object of a Deployment or of a pod.
func (r *MemcachedReconciler) ownerOf(_ context.Context, child client.Object) []reconcile.Request {
	if child.GetLabels()["app.kubernetes.io/name"] != memcachedApp {
		return nil
	}
	name := types.NamespacedName{Namespace: child.GetNamespace(), Name: child.GetLabels()["app.kubernetes.io/instance"]}
	return []reconcile.Request{{NamespacedName: name}}
}

// backUp runs a Job before an object is deleted. The name of the Job is always the same, so there is
// one backup even if the operator is killed. A Job that fails is replaced in the next attempt.
func (r *MemcachedReconciler) backUp(ctx context.Context, object *cachev1alpha1.Memcached) error {
	if object.Spec.BackupClaim == "" {
		return nil
	}
	pods, err := r.podsOf(ctx, object)
	if err != nil {
		return err
	}
	var servers []string
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" {
			servers = append(servers, pod.Status.PodIP+"/11211")
		}
	}
	command := append([]string{"bash", "-c", backupScript, "backup.sh", fmt.Sprintf("/backup/%s-%s", object.Name, object.UID)}, servers...)
	mounts := []corev1.VolumeMount{{Name: "claim", MountPath: "/backup"}}
	claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: object.Spec.BackupClaim}
	labels := memcachedLabels(memcachedApp+"-backup", object.Name)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: "backup-" + string(object.UID), Labels: labels},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				RestartPolicy:   corev1.RestartPolicyNever,
				SecurityContext: &corev1.PodSecurityContext{FSGroup: new(int64(11211))}, // the user of the image
				Containers:      []corev1.Container{{Name: "backup", Image: object.Spec.Image, Command: command, VolumeMounts: mounts}},
				Volumes:         []corev1.Volume{{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}}},
			},
		}, BackoffLimit: new(int32(0)), ActiveDeadlineSeconds: new(int64(3600)), TTLSecondsAfterFinished: new(int32(86400))},
	}
	return r.backup.RunJob(ctx, r.live, job, object.Status.Backup.Attempts, func() error {
		if len(servers) == 0 {
			return errors.New("no memcached server runs, so no items can be saved")
		}
		return nil
	})
}

// cleanUp deletes the Deployment after the backup.
func (r *MemcachedReconciler) cleanUp(ctx context.Context, object *cachev1alpha1.Memcached) error {
	deployment := &appsv1.Deployment{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(object), deployment); err != nil {
		return client.IgnoreNotFound(err)
	}
	if deployment.Annotations[memcachedOwner] != string(object.UID) {
		return nil // it belongs to another owner
	}
	return client.IgnoreNotFound(r.Delete(ctx, deployment, client.Preconditions{UID: &deployment.UID}))
}
