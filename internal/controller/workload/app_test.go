package workload

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

func app(change func(*v1alpha1.AppService)) *v1alpha1.AppService {
	a := &v1alpha1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "of-web"},
		Spec:       v1alpha1.AppServiceSpec{Size: 3},
	}
	if change != nil {
		change(a)
	}
	return a
}

func saving() *v1alpha1.Backup {
	job := &batchv1.JobTemplateSpec{}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "save", Image: "save"}}
	return &v1alpha1.Backup{JobTemplate: job, DeadlineSeconds: 60}
}

func TestAnAppIsADeploymentOfRestrictedPods(t *testing.T) {
	g := NewWithT(t)
	a := app(func(a *v1alpha1.AppService) { a.Spec.MinReadySeconds = 5 })
	pod, errs := AppPod(a, "default-image")
	g.Expect(errs).To(BeEmpty())
	g.Expect(violations(&pod)).To(BeEmpty())
	g.Expect(pod.Spec.Containers).To(ConsistOf(And(HaveField("Name", "app"), HaveField("Image", "default-image"))))
	g.Expect(pod.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
	d := AppDeployment(a, pod)
	g.Expect(d.Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
	g.Expect(d.Spec.MinReadySeconds).To(BeEquivalentTo(5))
	g.Expect(d.Spec.Selector.MatchLabels).To(Equal(map[string]string{v1alpha1.LabelAppService: "web"}))
	g.Expect(metav1.IsControlledBy(d, a)).To(BeTrue())
	a.Spec.Suspend = true
	g.Expect(AppDeployment(a, pod).Spec.Replicas).To(HaveValue(BeEquivalentTo(0)))
}

func TestFieldsThatAnAppMayNotSet(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.AppService)
		want   string
	}{
		"bytes of memory": {func(a *v1alpha1.AppService) {
			a.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64m")}
		}, "spec.resources.limits[memory]"},
		"a misspelt container": {func(a *v1alpha1.AppService) {
			a.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "appp"}}}}
		}, "spec.template.spec.containers[0].image"},
		"the host's network": {func(a *v1alpha1.AppService) {
			a.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}}
		}, "spec.template.spec.hostNetwork"},
		"another account": {func(a *v1alpha1.AppService) {
			a.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "theirs"}}
		}, "spec.template.spec.serviceAccountName"},
		"to end": {func(a *v1alpha1.AppService) {
			a.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}}
		}, "spec.template.spec.restartPolicy"},
		"our name for a label": {func(a *v1alpha1.AppService) {
			a.Spec.Template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelAppService: "other"}}}
		}, "spec.template.metadata.labels[bongsu.io/appservice]"},
		"an init container called app": {func(a *v1alpha1.AppService) {
			a.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "app", Image: "a"}}}}
		}, "spec.template.spec.initContainers[0].name"},
		"a check in no container": {func(a *v1alpha1.AppService) {
			a.Spec.HealthCheck = &v1alpha1.HealthCheck{Exec: &v1alpha1.ExecCheck{Command: []string{"a"}, Container: "nope"}}
		}, "spec.healthCheck.exec.container"},
		"a backup in no container": {func(a *v1alpha1.AppService) {
			a.Spec.Backup = &v1alpha1.Backup{Exec: &v1alpha1.ExecCheck{Command: []string{"a"}, Container: "nope"}}
		}, "spec.backup.exec.container"},
		"a check of no port": {func(a *v1alpha1.AppService) {
			a.Spec.HealthCheck = &v1alpha1.HealthCheck{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}}
		}, "spec.healthCheck.httpGet.port"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, errs := AppPod(app(tc.change), "default-image")
			g.Expect(errs).To(HaveLen(1))
			g.Expect(errs[0].Field).To(Equal(tc.want))
		})
	}
}

func TestFieldsThatABackupMayNotSet(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*batchv1.JobTemplateSpec)
		want   string
	}{
		"the host's files": {func(j *batchv1.JobTemplateSpec) {
			j.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, "spec.backup.jobTemplate.spec.template.spec.volumes[0]"},
		"a node":             {func(j *batchv1.JobTemplateSpec) { j.Spec.Template.Spec.NodeName = "n" }, "spec.backup.jobTemplate.spec.template.spec.nodeName"},
		"never to end":       {func(j *batchv1.JobTemplateSpec) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways }, "spec.backup.jobTemplate.spec.template.spec.restartPolicy"},
		"nothing":            {func(j *batchv1.JobTemplateSpec) { j.Spec.Template.Spec.Containers = nil }, "spec.backup.jobTemplate.spec.template.spec.containers"},
		"never to begin":     {func(j *batchv1.JobTemplateSpec) { j.Spec.Suspend = new(true) }, "spec.backup.jobTemplate.spec.suspend"},
		"to be gone at once": {func(j *batchv1.JobTemplateSpec) { j.Spec.TTLSecondsAfterFinished = new(int32(0)) }, "spec.backup.jobTemplate.spec.ttlSecondsAfterFinished"},
		"another's pods":     {func(j *batchv1.JobTemplateSpec) { j.Spec.ManualSelector = new(true) }, "spec.backup.jobTemplate.spec.manualSelector"},
		"a name":             {func(j *batchv1.JobTemplateSpec) { j.Name = "n" }, "spec.backup.jobTemplate.metadata.name"},
		"a mark of ours":     {func(j *batchv1.JobTemplateSpec) { j.Annotations = map[string]string{"bongsu.io/owner-uid": "u"} }, "spec.backup.jobTemplate.metadata.annotations[bongsu.io/owner-uid]"},
		"the app's own label": {func(j *batchv1.JobTemplateSpec) {
			j.Spec.Template.Labels = map[string]string{v1alpha1.LabelAppService: "web"}
		}, "spec.backup.jobTemplate.spec.template.metadata.labels[bongsu.io/appservice]"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a := app(func(a *v1alpha1.AppService) { a.Spec.Backup = saving() })
			tc.change(a.Spec.Backup.JobTemplate)
			_, errs := BackupJob(a)
			g.Expect(errs).To(HaveLen(1))
			g.Expect(errs[0].Field).To(Equal(tc.want))
		})
	}
}

func TestABackupOutlivesItsAppAndIsNoneOfItsPods(t *testing.T) {
	g := NewWithT(t)
	a := app(func(a *v1alpha1.AppService) { a.Spec.Backup = saving() })
	job, errs := BackupJob(a)
	g.Expect(errs).To(BeEmpty())
	g.Expect(job.OwnerReferences).To(BeEmpty())
	g.Expect(job.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationOwnerUID, "of-web"))
	g.Expect(job.Spec.ActiveDeadlineSeconds).To(HaveValue(BeEquivalentTo(60)))
	g.Expect(job.Spec.Template.Labels).NotTo(HaveKey(v1alpha1.LabelAppService))
	g.Expect(violations(&job.Spec.Template)).To(BeEmpty())
	pod, _ := AppPod(a, "i")
	g.Expect(AppDeployment(a, pod).OwnerReferences).To(BeEmpty(), "a deletion in the foreground would remove it before its backup")
	a.Name = strings.Repeat("a", 52)
	g.Expect(len(BackupJobName(a))).To(BeNumerically("<=", 63))
	name := BackupJobName(a)
	a.UID = "of-another"
	g.Expect(BackupJobName(a)).NotTo(Equal(name))
}

func TestServicesOfAnApp(t *testing.T) {
	g := NewWithT(t)
	a := app(nil)
	g.Expect(AppNetworkService(a)).To(BeNil())
	a.Spec.Ports = []v1alpha1.AppServicePort{{Name: "http", ContainerPort: 8080, ServicePort: 80}, {Name: "admin", ContainerPort: 9090}}
	s := AppNetworkService(a)
	g.Expect(s.Spec.Ports).To(ConsistOf(
		And(HaveField("Name", "http"), HaveField("Port", BeEquivalentTo(80)), HaveField("TargetPort.IntVal", BeEquivalentTo(8080))),
		And(HaveField("Name", "admin"), HaveField("Port", BeEquivalentTo(9090)), HaveField("TargetPort.IntVal", BeEquivalentTo(9090))),
	))
	g.Expect(s.Spec.ClusterIP).To(BeEmpty())
	a.Spec.Service.Type = v1alpha1.ServiceTypeHeadless
	g.Expect(AppNetworkService(a).Spec.ClusterIP).To(Equal(corev1.ClusterIPNone))
	a.Spec.Service.Type = v1alpha1.ServiceTypeNone
	g.Expect(AppNetworkService(a)).To(BeNil())
}
