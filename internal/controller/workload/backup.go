package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

const (
	// jobKept is how long a finished Job is kept for its logs, in seconds.
	jobKept = 24 * 60 * 60
	// jobKeptAtLeast is the minimum, so that the operator sees the result.
	jobKeptAtLeast = 5 * 60
	// maxLabel is the limit of a label's value. The name of a Job becomes one.
	maxLabel = 63
)

var jobPath = field.NewPath("spec", "backup", "jobTemplate")

// BackupJobName is the name of an AppService's backup. It contains a digest of the UID:
// one object has one backup, and another object with the same name has another.
func BackupJobName(a *v1alpha1.AppService) string {
	sum := sha256.Sum256([]byte(a.UID))
	suffix := "-backup-" + hex.EncodeToString(sum[:4])
	return a.Name[:min(len(a.Name), maxLabel-len(suffix))] + suffix
}

// BackupJob is the Job that backs up an app. Its pod has the same restrictions as the
// app's. Do not use it if there are errors. It has no owner reference, because it runs
// while the AppService is deleted. Its pods are not pods of the app.
func BackupJob(a *v1alpha1.AppService) (*batchv1.Job, field.ErrorList) {
	asked := a.Spec.Backup.JobTemplate
	if errs := refusedOfJob(asked, jobPath); len(errs) > 0 {
		return nil, errs
	}
	pod, errs := backupPod(a, &asked.Spec.Template, jobPath.Child("spec", "template"))
	if len(errs) > 0 {
		return nil, errs
	}
	job := &batchv1.Job{ObjectMeta: childMeta(a, BackupJobName(a)), Spec: *asked.Spec.DeepCopy()}
	job.OwnerReferences = nil
	job.Labels = joined(asked.Labels, job.Labels)
	job.Annotations = joined(asked.Annotations, job.Annotations)
	job.Spec.Template = pod
	deadline := int64(a.Spec.Backup.DeadlineSeconds)
	if own := job.Spec.ActiveDeadlineSeconds; own == nil || *own > deadline {
		job.Spec.ActiveDeadlineSeconds = &deadline
	}
	if job.Spec.TTLSecondsAfterFinished == nil {
		job.Spec.TTLSecondsAfterFinished = new(int32(jobKept))
	}
	return job, nil
}

// backupPod is the pod of a backup. It must name an image: the app's own rarely contains
// the tools.
func backupPod(a *v1alpha1.AppService, template *corev1.PodTemplateSpec, at *field.Path) (corev1.PodTemplateSpec, field.ErrorList) {
	base := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, EnableServiceLinks: new(false), SecurityContext: restrictedUser(),
	}}
	runAs(&base.Spec, a.Spec.ServiceAccountName)
	base.Labels = maps.Clone(Labels(a))
	delete(base.Labels, v1alpha1.LabelAppService) // the app's Service selects by it
	if len(template.Spec.Containers) == 0 {
		return base, field.ErrorList{field.Required(at.Child("spec", "containers"), "name the container that backs the app up")}
	}
	if errs := append(refused(template, base.Labels, at), refusedIf(at.Child("spec"), []rule{
		{"restartPolicy", template.Spec.RestartPolicy == corev1.RestartPolicyAlways, "a Job's pod ends: use Never or OnFailure"},
	})...); len(errs) > 0 {
		return base, errs
	}
	base.Spec.Containers = []corev1.Container{{Name: template.Spec.Containers[0].Name}}
	return confined(base, template, at, func(*corev1.Container) {})
}

// refusedOfJob refuses fields that would prevent a Job from running once, or the operator
// from seeing its end.
func refusedOfJob(asked *batchv1.JobTemplateSpec, at *field.Path) field.ErrorList {
	spec := &asked.Spec
	ttl := spec.TTLSecondsAfterFinished
	errs := refusedIf(at.Child("spec"), []rule{
		{"suspend", spec.Suspend != nil && *spec.Suspend, "it would never run: leave it out"},
		{"selector", spec.Selector != nil, "the Job finds its pods itself: leave it out"},
		{"manualSelector", spec.ManualSelector != nil, "the Job finds its pods itself: leave it out"},
		{"managedBy", spec.ManagedBy != nil, "Kubernetes' own controller runs it: leave it out"},
		{"ttlSecondsAfterFinished", ttl != nil && *ttl < jobKeptAtLeast, "the Job would be gone before it is seen how it ended: at least 300"},
	})
	return append(errs, refusedMetadata(&asked.ObjectMeta, nil, at.Child("metadata"))...)
}
