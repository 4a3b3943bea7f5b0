package workload

import (
	"cmp"
	"maps"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

const (
	homeName         = "home"
	defaultMountPath = "/home/jovyan"
	// tokenVariable is where the server reads what a visitor must show.
	tokenVariable = "JUPYTER_TOKEN" //nolint:gosec // the name of a variable, not a token
	// defaultServiceAccount is the one that every namespace has.
	defaultServiceAccount = "default"
	// NotebookStartup is how long a notebook's server may take to start, before its
	// container is started once more.
	NotebookStartup = 5 * time.Minute
	startupPeriod   = 3 // in seconds
	// The user and group of the Jupyter project's images.
	notebookUser, notebookGroup = 1000, 100
)

// templatePath is where the user's template is.
var templatePath = field.NewPath("spec", "template")

// NotebookPod is the pod of a notebook: ours, with the author's template merged in,
// and the image and resources of the spec in the notebook's container. It is not to
// be used if there are errors; each names the field that it is about.
func NotebookPod(j *v1alpha1.Jupyter, defaultImage string) (corev1.PodTemplateSpec, field.ErrorList) {
	pod := basePod(j, defaultImage)
	if template := j.Spec.Template; template != nil {
		if errs := append(refused(template, pod.Labels, templatePath), refusedOfNotebook(j, template)...); len(errs) > 0 {
			return pod, errs
		}
	}
	return confined(pod, j.Spec.Template, templatePath, func(notebook *corev1.Container) { override(notebook, j.Spec.Image, &j.Spec.Resources) })
}

// confined is a pod with a template merged in that has passed refused, and then with
// what finish makes of its first container: a pod that keeps to the Pod Security
// Standard "restricted", or the errors.
func confined(
	pod corev1.PodTemplateSpec, template *corev1.PodTemplateSpec, at *field.Path, finish func(*corev1.Container),
) (corev1.PodTemplateSpec, field.ErrorList) {
	if template != nil {
		merged, err := merge(pod, pod.Spec.Containers[0].Name, template)
		if err != nil {
			return pod, field.ErrorList{field.Invalid(at, nil, err.Error())}
		}
		pod = merged
	}
	finish(&pod.Spec.Containers[0])
	return pod, restricted(&pod, template, at)
}

// refusedOfNotebook is what the template of a notebook may not ask for.
func refusedOfNotebook(j *v1alpha1.Jupyter, template *corev1.PodTemplateSpec) field.ErrorList {
	spec := templatePath.Child("spec")
	errs := refusedOfLasting(&template.Spec, spec)
	for i := range template.Spec.Volumes {
		if template.Spec.Volumes[i].Name == homeName {
			errs = append(errs, field.Forbidden(spec.Child("volumes").Index(i).Child("name"),
				`"home" is the volume of the notebook's files, which spec.storage describes: use another name`))
		}
	}
	errs = append(errs, refusedInits(template, v1alpha1.NotebookContainer)...)
	for i := range template.Spec.Containers {
		if container := &template.Spec.Containers[i]; container.Name == v1alpha1.NotebookContainer {
			errs = append(errs, refusedOfServer(j, container, spec.Child("containers").Index(i))...)
		}
	}
	return errs
}

// refusedInits refuses init containers that have the name of the main container.
func refusedInits(template *corev1.PodTemplateSpec, main string) field.ErrorList {
	var errs field.ErrorList
	for i := range template.Spec.InitContainers {
		if template.Spec.InitContainers[i].Name == main {
			errs = append(errs, field.Forbidden(templatePath.Child("spec", "initContainers").Index(i).Child("name"),
				"the "+main+" container has this name: use another"))
		}
	}
	return errs
}

// refusedOfServer is what the template may not ask of the notebook's container.
func refusedOfServer(j *v1alpha1.Jupyter, container *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range container.Env {
		if container.Env[i].Name == tokenVariable {
			errs = append(errs, field.Forbidden(at.Child("env").Index(i), "the token comes from a Secret: name it in spec.auth.tokenSecretRef"))
		}
	}
	if j.Spec.Storage == nil {
		return errs
	}
	for i := range container.VolumeMounts {
		if path.Clean(container.VolumeMounts[i].MountPath) == path.Clean(mountPath(j)) {
			errs = append(errs, field.Forbidden(at.Child("volumeMounts").Index(i).Child("mountPath"),
				"the notebook's files are there: mount at another path, or change spec.storage.mountPath"))
		}
	}
	return errs
}

// override has the spec's own fields win over the template's.
func override(container *corev1.Container, image string, resources *corev1.ResourceRequirements) {
	if image != "" {
		container.Image = image
	}
	container.Resources.Limits = overlay(container.Resources.Limits, resources.Limits)
	container.Resources.Requests = overlay(container.Resources.Requests, resources.Requests)
	if len(resources.Claims) > 0 {
		container.Resources.Claims = append([]corev1.ResourceClaim(nil), resources.Claims...)
	}
}

func overlay(below, above corev1.ResourceList) corev1.ResourceList {
	if len(above) == 0 {
		return below
	}
	both := maps.Clone(below)
	if both == nil {
		both = corev1.ResourceList{}
	}
	for name, quantity := range above {
		both[name] = quantity.DeepCopy()
	}
	return both
}

// basePod is a notebook's pod without the author's template.
func basePod(j *v1alpha1.Jupyter, image string) corev1.PodTemplateSpec {
	pod := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers:    []corev1.Container{notebookContainer(j, image)},
		Volumes:       []corev1.Volume{homeVolume(j)},
		RestartPolicy: corev1.RestartPolicyAlways,
		// A Service called jupyter would set JUPYTER_PORT, which the server reads.
		EnableServiceLinks: new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(notebookUser)), RunAsGroup: new(int64(notebookGroup)),
			FSGroup: new(int64(notebookGroup)), FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}}
	runAs(&pod.Spec, j.Spec.ServiceAccountName)
	pod.Labels = Labels(j)
	return pod
}

// runAs names a pod's account, always. The API server copies it to the deprecated
// serviceAccount, and would take it from there again if it were left out later.
func runAs(pod *corev1.PodSpec, account string) {
	pod.ServiceAccountName = cmp.Or(account, defaultServiceAccount)
	pod.AutomountServiceAccountToken = new(pod.ServiceAccountName != defaultServiceAccount)
}

func notebookContainer(j *v1alpha1.Jupyter, image string) corev1.Container {
	token := TokenRef(j)
	container := corev1.Container{
		Name: v1alpha1.NotebookContainer, Image: image,
		Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: NotebookPort, Protocol: corev1.ProtocolTCP}},
		Env: []corev1.EnvVar{{
			Name: tokenVariable,
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: token.Name}, Key: token.Key,
			}},
		}},
		VolumeMounts:   []corev1.VolumeMount{{Name: homeName, MountPath: mountPath(j)}},
		StartupProbe:   askAPI(startupPeriod, int32(NotebookStartup/time.Second)/startupPeriod),
		ReadinessProbe: askAPI(10, 3),
	}
	harden(&container)
	return container
}

// askAPI asks the server for its version, which it tells without a token.
func askAPI(periodSeconds, failureThreshold int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/api", Port: intstr.FromInt32(NotebookPort), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: periodSeconds, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: failureThreshold,
	}
}

// harden fills in what "restricted" demands of each container, where nothing is said.
func harden(container *corev1.Container) {
	if container.SecurityContext == nil {
		container.SecurityContext = &corev1.SecurityContext{}
	}
	security := container.SecurityContext
	if security.AllowPrivilegeEscalation == nil {
		security.AllowPrivilegeEscalation = new(false)
	}
	if security.Capabilities == nil {
		security.Capabilities = &corev1.Capabilities{}
	}
	if len(security.Capabilities.Drop) == 0 {
		security.Capabilities.Drop = []corev1.Capability{"ALL"}
	}
}
