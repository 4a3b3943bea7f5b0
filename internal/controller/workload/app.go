package workload

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

const (
	// appUser runs an app whose template names no user. An image may only have a name for
	// its user, which does not prove that the user is not root.
	appUser = 65532
	// appHistory is how many former ReplicaSets are kept, for inspection. To roll back,
	// change the AppService.
	appHistory = 2
)

// AppPod is the pod of an app: our pod with the author's template merged in, and with the
// image, ports and resources of the spec. Do not use it if there are errors. Each error
// names a field.
func AppPod(a *v1alpha1.AppService, defaultImage string) (corev1.PodTemplateSpec, field.ErrorList) {
	pod := baseAppPod(a, defaultImage)
	template := a.Spec.Template
	if errs := tinyAmounts(&a.Spec.Resources, resourcesPath); len(errs) > 0 {
		return pod, errs
	}
	if template != nil {
		errs := append(refused(template, pod.Labels, templatePath), refusedOfLasting(&template.Spec, templatePath.Child("spec"))...)
		if errs = append(errs, refusedNames(template, v1alpha1.AppContainer)...); len(errs) > 0 {
			return pod, errs
		}
	}
	pod, errs := confined(pod, template, templatePath, func(app *corev1.Container) { override(app, a.Spec.Image, &a.Spec.Resources) })
	errs = append(errs, unknownContainers(a, &pod.Spec)...)
	return pod, append(errs, unknownPort(a, &pod.Spec.Containers[0])...)
}

func baseAppPod(a *v1alpha1.AppService, image string) corev1.PodTemplateSpec {
	container := corev1.Container{Name: v1alpha1.AppContainer, Image: image}
	for _, port := range a.Spec.Ports {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort, Protocol: port.Protocol})
	}
	harden(&container)
	pod := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers:         []corev1.Container{container},
		RestartPolicy:      corev1.RestartPolicyAlways,
		EnableServiceLinks: new(false),
		SecurityContext:    restrictedUser(),
	}}
	runAs(&pod.Spec, a.Spec.ServiceAccountName)
	pod.Spec.TopologySpreadConstraints = topologySpread(a)
	pod.Labels = Labels(a)
	return pod
}

func restrictedUser() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(appUser)), RunAsGroup: new(int64(appUser)), FSGroup: new(int64(appUser)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// unknownContainers finds commands for containers that the pod does not have.
func unknownContainers(a *v1alpha1.AppService, pod *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	look := func(check *v1alpha1.ExecCheck, at *field.Path) {
		if check != nil && !hasContainer(pod, check.Container) {
			errs = append(errs, field.NotFound(at.Child("exec", "container"), check.Container))
		}
	}
	spec := field.NewPath("spec")
	if check := a.Spec.HealthCheck; check != nil {
		look(check.Exec, spec.Child("healthCheck"))
	}
	if backup := a.Spec.Backup; backup != nil {
		look(backup.Exec, spec.Child("backup"))
	}
	return errs
}

// unknownPort finds a health check of a port that the app's container does not name.
func unknownPort(a *v1alpha1.AppService, app *corev1.Container) field.ErrorList {
	check := a.Spec.HealthCheck
	if check == nil || check.HTTPGet == nil || check.HTTPGet.Port.Type == intstr.Int {
		return nil
	}
	for _, port := range app.Ports {
		if port.Name == check.HTTPGet.Port.StrVal {
			return nil
		}
	}
	return field.ErrorList{field.NotFound(field.NewPath("spec", "healthCheck", "httpGet", "port"), check.HTTPGet.Port.StrVal)}
}

func hasContainer(pod *corev1.PodSpec, name string) bool {
	for i := range pod.Containers {
		if pod.Containers[i].Name == name {
			return true
		}
	}
	return false
}

// AppDeployment is the Deployment of an app.
func AppDeployment(a *v1alpha1.AppService, pod corev1.PodTemplateSpec) *appsv1.Deployment {
	replicas := a.Spec.Size
	if a.Spec.Suspend {
		replicas = 0
	}
	return &appsv1.Deployment{
		ObjectMeta: appMeta(a),
		Spec: appsv1.DeploymentSpec{
			Replicas:             &replicas,
			RevisionHistoryLimit: new(int32(appHistory)),
			MinReadySeconds:      a.Spec.MinReadySeconds,
			Selector:             &metav1.LabelSelector{MatchLabels: Selector(a)},
			Strategy:             strategy(a, &pod.Spec),
			Template:             *pod.DeepCopy(),
		},
	}
}

// appMeta is the metadata of an app's Deployment and Service. Some children outlive the
// AppService, if only for its backup. They have no owner reference: a foreground deletion
// would delete them at once, whatever finalizers the AppService has.
func appMeta(a *v1alpha1.AppService) metav1.ObjectMeta {
	meta := childMeta(a, a.Name)
	if MayOutlive(a) {
		meta.OwnerReferences = nil
	}
	return meta
}

// MayOutlive reports whether children of an app can exist longer than the AppService. The
// operator removes them, not the garbage collector.
func MayOutlive(a *v1alpha1.AppService) bool {
	return a.Spec.Backup != nil || a.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain
}

// AppServiceType is the type of an app's Service: None if it has none.
func AppServiceType(a *v1alpha1.AppService) v1alpha1.ServiceType {
	switch {
	case a.Spec.Service.Type != "":
		return a.Spec.Service.Type
	case len(a.Spec.Ports) > 0:
		return v1alpha1.ServiceTypeClusterIP
	}
	return v1alpha1.ServiceTypeNone
}

// AppNetworkService is the Service of an app; nil if it has none.
func AppNetworkService(a *v1alpha1.AppService) *corev1.Service {
	kind := AppServiceType(a)
	if kind == v1alpha1.ServiceTypeNone {
		return nil
	}
	service := &corev1.Service{
		ObjectMeta: appMeta(a),
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: Selector(a)},
	}
	if kind == v1alpha1.ServiceTypeHeadless {
		service.Spec.ClusterIP = corev1.ClusterIPNone
	}
	for _, port := range a.Spec.Ports {
		number := port.ServicePort
		if number == 0 {
			number = port.ContainerPort
		}
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: port.Name, Protocol: port.Protocol, Port: number, TargetPort: intstr.FromInt32(port.ContainerPort),
		})
	}
	return service
}

// AppURL is the URL of an app in the cluster; empty without a Service.
func AppURL(a *v1alpha1.AppService) string {
	if AppServiceType(a) == v1alpha1.ServiceTypeNone {
		return ""
	}
	return fmt.Sprintf("%s.%s.svc", a.Name, a.Namespace)
}
