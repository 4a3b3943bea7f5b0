package workload

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// evaluator is Kubernetes' own, with its newest version of the standard.
var evaluator = sync.OnceValue(func() policy.Evaluator {
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic("the checks of pod-security-admission contradict each other: " + err.Error())
	}
	return e
})

// violations are those of the Pod Security Standard "restricted". Its exceptions for user
// namespaces and other systems than Linux do not apply: an API server that does not know
// these fields drops them.
func violations(pod *corev1.PodTemplateSpec) []policy.CheckResult {
	spec := pod.Spec
	spec.HostUsers, spec.OS = nil, nil
	results := evaluator().EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &spec)
	return slices.DeleteFunc(results, func(r policy.CheckResult) bool { return r.Allowed })
}

// restricted returns the fields of the template with which a merged pod violates the Pod
// Security Standard "restricted". The checks of the standard name containers, not fields.
// Each field is therefore checked alone, in a pod that is otherwise valid.
func restricted(pod, template *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := severalSources(pod, template, at)
	whole := violations(pod)
	if len(whole) == 0 {
		return errs
	}
	for _, p := range parts(pod, template, at) {
		alone := validPod(p.container)
		p.put(alone)
		for _, v := range violations(alone) {
			errs = append(errs, field.Forbidden(p.at, fmt.Sprintf("the Pod Security Standard \"restricted\" forbids %s: %s", reason(v), p.advice)))
		}
	}
	if len(errs) == 0 { // a field that we do not know of
		for _, v := range whole {
			errs = append(errs, field.Forbidden(at.Child("spec"), fmt.Sprintf("the Pod Security Standard \"restricted\" forbids %s: leave it out", reason(v))))
		}
	}
	return errs
}

func reason(v policy.CheckResult) string {
	if v.ForbiddenDetail == "" {
		return v.ForbiddenReason
	}
	return v.ForbiddenReason + " (" + v.ForbiddenDetail + ")"
}

// severalSources refuses a volume with two types: the standard accepts it if one of them
// is allowed.
func severalSources(pod, template *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range pod.Spec.Volumes {
		volume, sources := &pod.Spec.Volumes[i], 0
		for _, source := range reflect.ValueOf(volume.VolumeSource).Fields() {
			if !source.IsZero() {
				sources++
			}
		}
		if sources > 1 {
			errs = append(errs, field.Forbidden(volumePath(template, volume.Name, at), "a volume has one type: leave the others out"))
		}
	}
	return errs
}

// validPod satisfies the standard. It has a container with that name.
func validPod(container string) *corev1.PodTemplateSpec {
	c := corev1.Container{Name: container}
	harden(&c)
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{c},
	}}
}

// part is one field of a pod.
type part struct {
	at *field.Path
	// container is the name of its container, if it has one.
	container string
	advice    string
	// put sets the field in another pod.
	put func(into *corev1.PodTemplateSpec)
}

// parts are the fields that the standard covers.
func parts(pod, template *corev1.PodTemplateSpec, at *field.Path) []part {
	list := slices.Concat(annotationParts(pod, at), podParts(&pod.Spec, at.Child("spec")))
	for i := range pod.Spec.Volumes {
		volume := pod.Spec.Volumes[i]
		list = append(list, part{
			at: volumePath(template, volume.Name, at), advice: "use one of the types configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected and secret",
			put: func(into *corev1.PodTemplateSpec) { into.Spec.Volumes = []corev1.Volume{volume} },
		})
	}
	byName := containerPlaces(template, at)
	for _, c := range places(&pod.Spec, at.Child("spec")) {
		asked, ok := byName[c.Name]
		if !ok {
			asked = place{&corev1.Container{}, at.Child("spec", "containers").Key(c.Name)}
		}
		list = slices.Concat(list, securityParts(c.Container, asked.at.Child("securityContext")), portParts(c.Container, asked), handlerParts(c.Container, asked.at))
	}
	return list
}

// volumePath is the path of a volume in the template.
func volumePath(template *corev1.PodTemplateSpec, name string, at *field.Path) *field.Path {
	list := at.Child("spec", "volumes")
	if template != nil {
		if i := slices.IndexFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }); i >= 0 {
			return list.Index(i)
		}
	}
	return list.Key(name)
}

// containerPlaces are the containers of the template, by name.
func containerPlaces(template *corev1.PodTemplateSpec, at *field.Path) map[string]place {
	byName := map[string]place{}
	if template != nil {
		for _, c := range places(&template.Spec, at.Child("spec")) {
			byName[c.Name] = c
		}
	}
	return byName
}

func annotationParts(pod *corev1.PodTemplateSpec, at *field.Path) []part {
	var list []part
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		list = append(list, part{
			at: at.Child("metadata", "annotations").Key(key), advice: "leave it out",
			put: func(into *corev1.PodTemplateSpec) { into.Annotations = map[string]string{key: pod.Annotations[key]} },
		})
	}
	return list
}

func podParts(spec *corev1.PodSpec, at *field.Path) []part {
	list := []part{
		{at: at.Child("hostNetwork"), advice: "leave it out", put: func(into *corev1.PodTemplateSpec) { into.Spec.HostNetwork = spec.HostNetwork }},
		{at: at.Child("hostPID"), advice: "leave it out", put: func(into *corev1.PodTemplateSpec) { into.Spec.HostPID = spec.HostPID }},
		{at: at.Child("hostIPC"), advice: "leave it out", put: func(into *corev1.PodTemplateSpec) { into.Spec.HostIPC = spec.HostIPC }},
	}
	security := spec.SecurityContext
	if security == nil {
		return list
	}
	at = at.Child("securityContext")
	add := func(where *field.Path, advice string, put func(into *corev1.PodSecurityContext)) {
		list = append(list, part{at: where, advice: advice, put: func(into *corev1.PodTemplateSpec) { put(into.Spec.SecurityContext) }})
	}
	add(at.Child("appArmorProfile", "type"), adviceProfile, func(into *corev1.PodSecurityContext) { into.AppArmorProfile = security.AppArmorProfile })
	add(at.Child("runAsNonRoot"), "set it to true, or leave it out", func(into *corev1.PodSecurityContext) { into.RunAsNonRoot = security.RunAsNonRoot })
	add(at.Child("runAsUser"), "set it to another user than 0, or leave it out", func(into *corev1.PodSecurityContext) { into.RunAsUser = security.RunAsUser })
	add(at.Child("seLinuxOptions"), adviceSELinux, func(into *corev1.PodSecurityContext) { into.SELinuxOptions = security.SELinuxOptions })
	add(at.Child("seccompProfile", "type"), adviceProfile, func(into *corev1.PodSecurityContext) { into.SeccompProfile = security.SeccompProfile })
	add(at.Child("windowsOptions", "hostProcess"), "leave it out", func(into *corev1.PodSecurityContext) { into.WindowsOptions = security.WindowsOptions })
	for i, sysctl := range security.Sysctls {
		add(at.Child("sysctls").Index(i), "leave it out", func(into *corev1.PodSecurityContext) { into.Sysctls = []corev1.Sysctl{sysctl} })
	}
	return list
}

// Advice for fields of pods and containers.
const (
	adviceProfile = "set it to RuntimeDefault or Localhost, or leave it out"
	adviceSELinux = "leave out user and role, and set type to container_t or leave it out"
)

func securityParts(c *corev1.Container, at *field.Path) []part {
	security := c.SecurityContext
	if security == nil {
		return nil
	}
	var list []part
	add := func(where *field.Path, advice string, put func(into *corev1.SecurityContext)) {
		list = append(list, part{
			at: where, container: c.Name, advice: advice,
			put: func(into *corev1.PodTemplateSpec) { put(into.Spec.Containers[0].SecurityContext) },
		})
	}
	add(at.Child("allowPrivilegeEscalation"), "set it to false, or leave it out", func(into *corev1.SecurityContext) { into.AllowPrivilegeEscalation = security.AllowPrivilegeEscalation })
	add(at.Child("appArmorProfile", "type"), adviceProfile, func(into *corev1.SecurityContext) { into.AppArmorProfile = security.AppArmorProfile })
	add(at.Child("privileged"), "leave it out", func(into *corev1.SecurityContext) { into.Privileged = security.Privileged })
	add(at.Child("procMount"), "leave it out", func(into *corev1.SecurityContext) { into.ProcMount = security.ProcMount })
	add(at.Child("runAsNonRoot"), "set it to true, or leave it out", func(into *corev1.SecurityContext) { into.RunAsNonRoot = security.RunAsNonRoot })
	add(at.Child("runAsUser"), "set it to another user than 0, or leave it out", func(into *corev1.SecurityContext) { into.RunAsUser = security.RunAsUser })
	add(at.Child("seLinuxOptions"), adviceSELinux, func(into *corev1.SecurityContext) { into.SELinuxOptions = security.SELinuxOptions })
	add(at.Child("seccompProfile", "type"), adviceProfile, func(into *corev1.SecurityContext) { into.SeccompProfile = security.SeccompProfile })
	add(at.Child("windowsOptions", "hostProcess"), "leave it out", func(into *corev1.SecurityContext) { into.WindowsOptions = security.WindowsOptions })
	if capabilities := security.Capabilities; capabilities != nil {
		add(at.Child("capabilities", "add"), "add none but NET_BIND_SERVICE", func(into *corev1.SecurityContext) { into.Capabilities.Add = capabilities.Add })
		add(at.Child("capabilities", "drop"), "drop ALL, or leave it out", func(into *corev1.SecurityContext) { into.Capabilities.Drop = capabilities.Drop })
	}
	return list
}

// portParts are the ports of the template.
func portParts(c *corev1.Container, asked place) []part {
	var list []part
	for i, port := range asked.Ports {
		list = append(list, part{
			at: asked.at.Child("ports").Index(i).Child("hostPort"), container: c.Name, advice: "leave it out: a Service reaches the pod",
			put: func(into *corev1.PodTemplateSpec) { into.Spec.Containers[0].Ports = []corev1.ContainerPort{port} },
		})
	}
	return list
}

// handlerParts are fields that can make the kubelet connect to a host that the author
// chooses.
func handlerParts(c *corev1.Container, at *field.Path) []part {
	var list []part
	add := func(name string, put func(into *corev1.Container)) {
		list = append(list, part{
			at: at.Child(name), container: c.Name, advice: "leave out host: it is the pod's own then",
			put: func(into *corev1.PodTemplateSpec) { put(&into.Spec.Containers[0]) },
		})
	}
	add("livenessProbe", func(into *corev1.Container) { into.LivenessProbe = c.LivenessProbe })
	add("readinessProbe", func(into *corev1.Container) { into.ReadinessProbe = c.ReadinessProbe })
	add("startupProbe", func(into *corev1.Container) { into.StartupProbe = c.StartupProbe })
	if lifecycle := c.Lifecycle; lifecycle != nil {
		at = at.Child("lifecycle")
		add("postStart", func(into *corev1.Container) { into.Lifecycle = &corev1.Lifecycle{PostStart: lifecycle.PostStart} })
		add("preStop", func(into *corev1.Container) { into.Lifecycle = &corev1.Lifecycle{PreStop: lifecycle.PreStop} })
	}
	return list
}
