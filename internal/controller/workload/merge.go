package workload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// merge merges a template into our pod, whose first container is called main. The
// template's container with that name is merged with ours. Its other containers, init
// containers and volumes are added in their order. The rest of the spec is merged
// strategically, as by "kubectl patch".
//
// refused has accepted the template: no name is used twice, and no key is a directive.
func merge(base corev1.PodTemplateSpec, main string, template *corev1.PodTemplateSpec) (corev1.PodTemplateSpec, error) {
	pod, user := *base.DeepCopy(), template.DeepCopy()
	containers, volumes := pod.Spec.Containers, slices.Concat(pod.Spec.Volumes, user.Spec.Volumes)
	for _, container := range user.Spec.Containers {
		if container.Name != main {
			containers = append(containers, container)
			continue
		}
		if err := mergeContainer(&containers[0], &container); err != nil {
			return base, err
		}
	}
	inits := user.Spec.InitContainers
	user.Spec.Containers, user.Spec.InitContainers, user.Spec.Volumes = nil, nil, nil
	if err := patch(&pod.Spec, &user.Spec); err != nil {
		return base, err
	}
	pod.Spec.Containers, pod.Spec.InitContainers, pod.Spec.Volumes = containers, inits, volumes
	for _, list := range [][]corev1.Container{containers, inits} {
		for i := range list {
			harden(&list[i])
		}
	}
	pod.Labels, pod.Annotations = joined(user.Labels, pod.Labels), joined(user.Annotations, pod.Annotations)
	return pod, nil
}

// mergeContainer merges a container of the template into ours. Its lists are merged here,
// for two reasons. A strategic merge would put the user's variables before ours, to which
// they may refer. It also identifies a port only by its number, although a server may use
// TCP and UDP.
func mergeContainer(ours, theirs *corev1.Container) error {
	replaceHandlers(ours, theirs)
	env := mergeList(ours.Env, theirs.Env, func(e corev1.EnvVar) string { return e.Name })
	ports := mergeList(ours.Ports, theirs.Ports, portKey)
	mounts := mergeList(ours.VolumeMounts, theirs.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath })
	theirs.Env, theirs.Ports, theirs.VolumeMounts = nil, nil, nil
	if err := patch(ours, theirs); err != nil {
		return err
	}
	ours.Env, ours.Ports, ours.VolumeMounts = env, ports, mounts
	return nil
}

// mergeList replaces each of our items that has the same key, and adds the others at the
// end.
func mergeList[T any](ours, theirs []T, key func(T) string) []T {
	places := map[string]int{}
	for i, our := range ours {
		places[key(our)] = i
	}
	for _, their := range theirs {
		if i, ok := places[key(their)]; ok {
			ours[i] = their
		} else {
			ours = append(ours, their)
		}
	}
	return ours
}

// portKey is the key of a container's port in the API server.
func portKey(port corev1.ContainerPort) string {
	protocol := port.Protocol
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	return fmt.Sprintf("%d/%s", port.ContainerPort, protocol)
}

// replaceHandlers removes our handler of a probe if the template has one: a probe can only
// have one.
func replaceHandlers(ours, theirs *corev1.Container) {
	for _, probes := range [][2]*corev1.Probe{
		{ours.StartupProbe, theirs.StartupProbe}, {ours.ReadinessProbe, theirs.ReadinessProbe}, {ours.LivenessProbe, theirs.LivenessProbe},
	} {
		if our, their := probes[0], probes[1]; our != nil && their != nil && their.ProbeHandler != (corev1.ProbeHandler{}) {
			our.ProbeHandler = corev1.ProbeHandler{}
		}
	}
}

// patch merges the fields that are set in change into object.
func patch[T any](object, change *T) error {
	before, err := json.Marshal(object)
	if err != nil {
		return err
	}
	asked, err := json.Marshal(change)
	if err != nil {
		return err
	}
	var schema T
	after, err := strategicpatch.StrategicMergePatch(before, asked, schema)
	if err != nil {
		return err
	}
	var merged T
	if err := json.Unmarshal(after, &merged); err != nil {
		return err
	}
	*object = merged
	return nil
}

// joined contains both maps. The second wins.
func joined(one, other map[string]string) map[string]string {
	both := maps.Clone(one)
	if both == nil {
		return other
	}
	maps.Copy(both, other)
	return both
}
