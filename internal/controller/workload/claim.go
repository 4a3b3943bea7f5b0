package workload

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// NotebookClaim is the claim of a notebook's files, or nil if it has none of its
// own. One that is retained is nobody's child: it bears the Jupyter's UID as an
// annotation, so that it is known whose it was.
func NotebookClaim(j *v1alpha1.Jupyter) *corev1.PersistentVolumeClaim {
	storage := j.Spec.Storage
	if storage == nil || storage.Size == nil || storage.ExistingClaim != "" {
		return nil
	}
	meta := childMeta(j, j.Name)
	if retained(storage) {
		meta.OwnerReferences = nil
		meta.Annotations = map[string]string{v1alpha1.AnnotationOwnerUID: string(j.UID)}
	}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	if len(storage.AccessModes) > 0 {
		modes = append([]corev1.PersistentVolumeAccessMode(nil), storage.AccessModes...)
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: storage.Size.DeepCopy()},
			},
		},
	}
	if storage.StorageClassName != nil {
		claim.Spec.StorageClassName = new(*storage.StorageClassName)
	}
	return claim
}

func retained(storage *v1alpha1.JupyterStorage) bool {
	policy := storage.RetentionPolicy
	return policy == nil || policy.WhenDeleted != v1alpha1.WhenDeletedDelete
}

// homeVolume is the volume of the notebook's files: without storage, they last as
// long as the pod does.
func homeVolume(j *v1alpha1.Jupyter) corev1.Volume {
	volume := corev1.Volume{Name: homeName}
	switch storage := j.Spec.Storage; {
	case storage == nil:
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case storage.ExistingClaim != "":
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: storage.ExistingClaim}
	default:
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: j.Name}
	}
	return volume
}

func mountPath(j *v1alpha1.Jupyter) string {
	if j.Spec.Storage == nil || j.Spec.Storage.MountPath == "" {
		return defaultMountPath
	}
	return j.Spec.Storage.MountPath
}
