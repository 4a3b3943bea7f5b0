// Package workload builds the children of a Jupyter or an AppService, and restricts what
// its author may ask of the pod.
//
// The operator creates these objects with its own permissions, for an author who may have
// fewer. The template is merged into our pod, and the result must satisfy the Pod Security
// Standard "restricted" and the rules in confine.go. A field that could use permissions of
// the operator or of another service account is refused. The error names the field.
//
// The package is pure: it has no Kubernetes client, clock or randomness. The same object
// always has the same children, so that an unchanged object causes no writes.
package workload

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/spelling"
)

const (
	homeName         = "home"
	defaultMountPath = "/home/jovyan"
	// tokenVariable is the variable from which the server reads its token.
	tokenVariable = "JUPYTER_TOKEN" //nolint:gosec // the name of a variable, not a token
	// defaultServiceAccount exists in every namespace.
	defaultServiceAccount = "default"
	// NotebookStartup is how long a notebook's server may take to start before its
	// container is restarted.
	NotebookStartup = 5 * time.Minute
	startupPeriod   = 3 // in seconds
	// The user and group of the Jupyter project's images.
	notebookUser, notebookGroup = 1000, 100
)

// The paths of the template and of the resources of the main container.
var (
	templatePath  = field.NewPath("spec", "template")
	resourcesPath = field.NewPath("spec", "resources")
)

// NotebookPod is the pod of a notebook: our pod with the author's template merged in, and
// with the image and resources of the spec. Do not use it if there are errors. Each error
// names a field.
func NotebookPod(j *v1alpha1.Jupyter, defaultImage string) (corev1.PodTemplateSpec, field.ErrorList) {
	pod := basePod(j, defaultImage)
	if errs := tinyAmounts(&j.Spec.Resources, resourcesPath); len(errs) > 0 {
		return pod, errs
	}
	if template := j.Spec.Template; template != nil {
		if errs := append(refused(template, pod.Labels, templatePath), refusedOfNotebook(j, template)...); len(errs) > 0 {
			return pod, errs
		}
	}
	return confined(pod, j.Spec.Template, templatePath, func(notebook *corev1.Container) {
		override(notebook, j.Spec.Image, &j.Spec.Resources)
		overrideCommand(notebook, j.Spec.Server)
	})
}

// confined merges a template that refused has accepted into a pod. finish then changes the
// first container. The result satisfies the Pod Security Standard "restricted", or there
// are errors.
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

// refusedOfNotebook returns what the template of a notebook must not contain.
func refusedOfNotebook(j *v1alpha1.Jupyter, template *corev1.PodTemplateSpec) field.ErrorList {
	spec := templatePath.Child("spec")
	errs := refusedOfLasting(&template.Spec, spec)
	for i := range template.Spec.Volumes {
		if template.Spec.Volumes[i].Name == homeName {
			errs = append(errs, field.Forbidden(spec.Child("volumes").Index(i).Child("name"),
				`"home" is the volume of the notebook's files, which spec.storage describes: use another name`))
		}
	}
	errs = append(errs, refusedNames(template, v1alpha1.NotebookContainer)...)
	for i := range template.Spec.Containers {
		if container := &template.Spec.Containers[i]; container.Name == v1alpha1.NotebookContainer {
			errs = append(errs, refusedOfServer(j, container, spec.Child("containers").Index(i))...)
		}
	}
	return errs
}

// refusedNames refuses init containers with the name of the main container. It also refuses other
// containers without an image if the author probably means the main container.
func refusedNames(template *corev1.PodTemplateSpec, main string) field.ErrorList {
	var errs field.ErrorList
	for i := range template.Spec.Containers {
		if c := &template.Spec.Containers[i]; c.Name != main && c.Image == "" && spelling.IsSimilar(c.Name, main) {
			errs = append(errs, field.Required(templatePath.Child("spec", "containers").Index(i).Child("image"),
				fmt.Sprintf("container %q has none: did you mean %q?", c.Name, main)))
		}
	}
	for i := range template.Spec.InitContainers {
		if template.Spec.InitContainers[i].Name == main {
			errs = append(errs, field.Forbidden(templatePath.Child("spec", "initContainers").Index(i).Child("name"),
				"the "+main+" container has this name: use another"))
		}
	}
	return errs
}

// refusedOfServer returns what the notebook's container must not contain.
func refusedOfServer(j *v1alpha1.Jupyter, container *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range container.Env {
		switch name := container.Env[i].Name; {
		case !IsJupyter(j): // the variables mean nothing to it
		case name == tokenVariable:
			errs = append(errs, field.Forbidden(at.Child("env").Index(i), "the token comes from a Secret: name it in spec.auth.tokenSecretRef"))
		case name == v1alpha1.VariableNotebookArgs && j.Spec.Access.Path != "":
			errs = append(errs, field.Forbidden(at.Child("env").Index(i),
				"spec.access.path sets this variable: give the server other arguments in args, such as [start-notebook.py, --debug]"))
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

// override sets the fields of the spec, which win over the template.
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

// basePod is a notebook's pod without the template.
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

// runAs always sets the service account. The API server copies it to the deprecated field
// serviceAccount, and would restore it from there if it were left out later.
func runAs(pod *corev1.PodSpec, account string) {
	pod.ServiceAccountName = cmp.Or(account, defaultServiceAccount)
	pod.AutomountServiceAccountToken = new(pod.ServiceAccountName != defaultServiceAccount)
}

func notebookContainer(j *v1alpha1.Jupyter, image string) corev1.Container {
	container := corev1.Container{
		Name: v1alpha1.NotebookContainer, Image: image,
		Ports:          []corev1.ContainerPort{{Name: portName, ContainerPort: SpecPort(j), Protocol: corev1.ProtocolTCP}},
		Env:            serverVariables(j),
		VolumeMounts:   []corev1.VolumeMount{{Name: homeName, MountPath: mountPath(j)}},
		StartupProbe:   askAPI(j, startupPeriod, int32(NotebookStartup/time.Second)/startupPeriod),
		ReadinessProbe: askAPI(j, 10, 3),
	}
	harden(&container)
	return container
}

// askAPI requests the version of a Jupyter server, which needs no token, or the path that an
// HTTP server has for this.
func askAPI(j *v1alpha1.Jupyter, periodSeconds, failureThreshold int32) *corev1.Probe {
	path := j.Spec.Access.Path + "/api"
	if !IsJupyter(j) {
		path = cmp.Or(j.Spec.Server.ReadinessPath, "/")
	}
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(SpecPort(j)), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: periodSeconds, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: failureThreshold,
	}
}

// harden sets what "restricted" demands of each container and the template leaves out.
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

// NotebookClaim is the claim for the notebook's files; nil if it has none of its own. A
// retained claim has no owner reference.
func NotebookClaim(j *v1alpha1.Jupyter) *corev1.PersistentVolumeClaim {
	storage := j.Spec.Storage
	if storage == nil || storage.Size == nil || storage.ExistingClaim != "" {
		return nil
	}
	meta := childMeta(j, j.Name)
	if retained(storage) {
		meta.OwnerReferences = nil
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

// homeVolume is the volume for the notebook's files. Without storage, it lasts as long as
// the pod.
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

// tokenKey is the key of the token in our Secrets.
const tokenKey = "token"

// TokenRef names the Secret and the key with the token.
func TokenRef(j *v1alpha1.Jupyter) v1alpha1.TokenSecretReference {
	if ref := j.Spec.Auth.TokenSecretRef; ref != nil {
		return *ref
	}
	return v1alpha1.TokenSecretReference{Name: tokenName(j), Key: tokenKey}
}

// tokenName is the name of the Secret of NotebookToken.
func tokenName(j *v1alpha1.Jupyter) string { return j.Name + "-token" }

// NotebookToken is a Secret with a token for the Jupyter.
func NotebookToken(j *v1alpha1.Jupyter, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: childMeta(j, tokenName(j)),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{tokenKey: []byte(token)},
	}
}

// NotebookStatefulSet runs one pod. A changed template applies when the pod is recreated,
// which the controller decides (OnDelete).
func NotebookStatefulSet(j *v1alpha1.Jupyter, pod corev1.PodTemplateSpec) *appsv1.StatefulSet {
	replicas := int32(1)
	if j.Spec.Suspend {
		replicas = 0
	}
	return &appsv1.StatefulSet{
		ObjectMeta: childMeta(j, j.Name),
		Spec: appsv1.StatefulSetSpec{
			Replicas:            &replicas,
			ServiceName:         j.Name,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Selector:            &metav1.LabelSelector{MatchLabels: Selector(j)},
			Template:            *pod.DeepCopy(),
		},
	}
}

// NotebookPodName is the name of the pod of NotebookStatefulSet.
func NotebookPodName(j *v1alpha1.Jupyter) string { return j.Name + "-0" }

// Ports of a notebook.
const (
	// NotebookPort is the port of a Jupyter server in its pod.
	NotebookPort = 8888
	// ServicePort is the port of the Service.
	ServicePort = 80

	portName = "http"
)

// NotebookService makes a notebook reachable in the cluster.
func NotebookService(j *v1alpha1.Jupyter) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: childMeta(j, j.Name),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: Selector(j),
			Ports: []corev1.ServicePort{{
				Name: portName, Protocol: corev1.ProtocolTCP, Port: ServicePort, TargetPort: intstr.FromInt32(SpecPort(j)),
			}},
		},
	}
}
