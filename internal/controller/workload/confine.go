package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// refused returns what a template must not contain, regardless of the Pod Security
// Standard. own are the labels of the pod. These fields would be ignored, would break the
// children, or would use permissions that the author lacks.
//
// An admission policy ensures that the author may create pods in the namespace. Secrets,
// claims and priorities are therefore allowed, as in any pod there. Service accounts are
// not: the policy demands the permission to create tokens for spec.serviceAccountName.
func refused(template *corev1.PodTemplateSpec, own map[string]string, at *field.Path) field.ErrorList {
	if errs := tooMany(&template.Spec, at.Child("spec")); len(errs) > 0 {
		return errs
	}
	if errs := directives(template, at); len(errs) > 0 {
		return errs
	}
	return slices.Concat(
		refusedMetadata(&template.ObjectMeta, own, at.Child("metadata")),
		refusedFields(&template.Spec, at.Child("spec")),
		refusedVolumes(template.Spec.Volumes, at.Child("spec", "volumes")),
		usedTwice(&template.Spec, at.Child("spec")),
		tinyAmountsOf(&template.Spec, at.Child("spec")),
	)
}

// Refusal returns the cause for an object whose pod template is refused.
func Refusal(object diagnosis.Object, errs field.ErrorList) diagnosis.Cause {
	cause := diagnosis.Cause{
		Reason: diagnosis.ReasonInvalidSpec, Object: object, Advice: "correct the field; what runs stays as it is", Count: 1,
	}
	fields := make([]string, len(errs))
	for i, err := range errs {
		fields[i] = err.Error()
	}
	if len(fields) > 1 {
		cause.Message, cause.Advice = fmt.Sprintf("%d fields are refused", len(fields)), "correct them; what runs stays as it is"
	}
	cause.SetItems(fields)
	return cause
}

// Limits of a template: the time to merge and check it grows with the square of its lists.
const (
	mostContainers = 64
	mostVolumes    = 256
	mostPorts      = 1000
	mostItems      = 1000 // of any list
)

func tooMany(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := len(spec.InitContainers) + len(spec.Containers) + len(spec.EphemeralContainers); n > mostContainers {
		errs = append(errs, field.Forbidden(at.Child("containers"), fmt.Sprintf("a pod may have %d containers, init containers among them, and this has %d: leave some out", mostContainers, n)))
	}
	if n := len(spec.Volumes); n > mostVolumes {
		errs = append(errs, field.Forbidden(at.Child("volumes"), fmt.Sprintf("a pod may have %d volumes, and this has %d: leave some out", mostVolumes, n)))
	}
	ports := 0
	for _, c := range places(spec, at) {
		ports += len(c.Ports)
	}
	if ports > mostPorts {
		errs = append(errs, field.Forbidden(at.Child("containers"), fmt.Sprintf("the containers of a pod may have %d ports together, and these have %d: leave some out", mostPorts, ports)))
	}
	return errs
}

// directives finds keys that a strategic merge would interpret, such as $patch in a map of
// labels. It also finds lists that are too long for one.
func directives(template *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	value, err := generic(template)
	if err != nil {
		return field.ErrorList{field.Invalid(at, nil, err.Error())}
	}
	return directivesIn(value, at)
}

// generic is decoded JSON.
func generic(object any) (any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var value any
	err = json.Unmarshal(data, &value)
	return value, err
}

func directivesIn(value any, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if strings.HasPrefix(key, "$") {
				errs = append(errs, field.Forbidden(at.Key(key), "a key must not begin with $: give it another name"))
				continue
			}
			errs = append(errs, directivesIn(value[key], at.Child(key))...)
		}
	case []any:
		if len(value) > mostItems {
			return field.ErrorList{field.Forbidden(at, fmt.Sprintf("a list may have %d items, and this has %d: leave some out", mostItems, len(value)))}
		}
		for i, child := range value {
			errs = append(errs, directivesIn(child, at.Index(i))...)
		}
	}
	return errs
}

func refusedMetadata(asked *metav1.ObjectMeta, own map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(asked.Labels)) {
		ours, taken := own[key]
		switch {
		case isOurs(key):
			errs = append(errs, field.Forbidden(at.Child("labels").Key(key), "labels of bongsu.io/ are the operator's: use another prefix"))
		case taken && asked.Labels[key] != ours:
			errs = append(errs, field.Forbidden(at.Child("labels").Key(key), fmt.Sprintf("it is set to %q: use another label", ours)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(asked.Annotations)) {
		if isOurs(key) {
			errs = append(errs, field.Forbidden(at.Child("annotations").Key(key), "annotations of bongsu.io/ are the operator's: use another prefix"))
		}
	}
	return append(errs, refusedIf(at, []rule{
		{"name", asked.Name != "", "it is named after its owner: leave it out"},
		{"generateName", asked.GenerateName != "", "it is named after its owner: leave it out"},
		{"namespace", asked.Namespace != "", "it is in its owner's namespace: leave it out"},
		{"finalizers", len(asked.Finalizers) > 0, "they would keep it from being replaced: leave them out"},
		{"ownerReferences", len(asked.OwnerReferences) > 0, "it has an owner: leave them out"},
	})...)
}

// isOurs reports whether the key of a label or annotation is in our domain.
func isOurs(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == v1alpha1.Group || strings.HasSuffix(domain, "."+v1alpha1.Group)
}

// rule refuses a field that breaks it.
type rule struct {
	field  string
	broken bool
	advice string
}

func refusedIf(at *field.Path, rules []rule) field.ErrorList {
	var errs field.ErrorList
	for _, r := range rules {
		if r.broken {
			errs = append(errs, field.Forbidden(at.Child(r.field), r.advice))
		}
	}
	return errs
}

func refusedFields(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	return refusedIf(at, []rule{
		{"nodeName", spec.NodeName != "", "the scheduler chooses the node: use nodeSelector or affinity"},
		{"serviceAccountName", spec.ServiceAccountName != "", "use the object's own spec.serviceAccountName"},
		{"serviceAccount", spec.DeprecatedServiceAccount != "", "use the object's own spec.serviceAccountName"},
		{"automountServiceAccountToken", spec.AutomountServiceAccountToken != nil, "a token is mounted if the object's own spec.serviceAccountName names another account than default: leave it out"},
		{"ephemeralContainers", len(spec.EphemeralContainers) > 0, "a template cannot have them: use kubectl debug"},
		{"hostname", spec.Hostname != "", "it is set to the pod's name: leave it out"},
		{"subdomain", spec.Subdomain != "", "it is set to the Service's name: leave it out"},
		{"os", spec.OS != nil && spec.OS.Name != corev1.Linux, "only linux is possible: leave it out"},
	})
}

// refusedOfLasting refuses fields that end a pod that must run until it is stopped.
func refusedOfLasting(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	return refusedIf(at, []rule{
		{"restartPolicy", spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyAlways, "only Always is possible: leave it out"},
		{"activeDeadlineSeconds", spec.ActiveDeadlineSeconds != nil, "the pod has no deadline: leave it out"},
	})
}

// refusedVolumes refuses volumes with a token of the service account.
func refusedVolumes(volumes []corev1.Volume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range volumes {
		projected := volumes[i].Projected
		if projected == nil {
			continue
		}
		for j, source := range projected.Sources {
			errs = append(errs, refusedIf(at.Index(i).Child("projected", "sources").Index(j), []rule{
				{"serviceAccountToken", source.ServiceAccountToken != nil, "use the object's own spec.serviceAccountName: the account's token is then mounted"},
				{"podCertificate", source.PodCertificate != nil, "it would identify the pod as its service account: leave it out"},
			})...)
		}
	}
	return errs
}

// leastBytes is the least amount of memory or storage that a container can be meant to have.
var leastBytes = resource.MustParse("1Mi")

// tinyAmounts finds amounts of memory and storage whose unit is probably wrong: 64m is less than a
// byte. The API server accepts them, and then the container cannot start.
func tinyAmounts(resources *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		find := func(list corev1.ResourceList, at *field.Path) {
			errs = append(errs, tinyAmount(list[name], at.Key(string(name)))...)
		}
		find(resources.Limits, at.Child("limits"))
		find(resources.Requests, at.Child("requests"))
	}
	return errs
}

func tinyAmount(amount resource.Quantity, at *field.Path) field.ErrorList {
	if amount.Sign() <= 0 || amount.Cmp(leastBytes) >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, amount.String(), "it is less than 1Mi: use a unit such as Mi or Gi, for example 512Mi")}
}

// tinyAmountsOf finds them in the containers and volumes of a pod.
func tinyAmountsOf(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Resources != nil {
		errs = tinyAmounts(spec.Resources, at.Child("resources"))
	}
	for _, c := range places(spec, at) {
		errs = append(errs, tinyAmounts(&c.Resources, c.at.Child("resources"))...)
	}
	for i, v := range spec.Volumes {
		at := at.Child("volumes").Index(i)
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
			errs = append(errs, tinyAmount(*v.EmptyDir.SizeLimit, at.Child("emptyDir", "sizeLimit"))...)
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			at := at.Child("ephemeral", "volumeClaimTemplate", "spec", "resources", "requests").Key(string(corev1.ResourceStorage))
			errs = append(errs, tinyAmount(v.Ephemeral.VolumeClaimTemplate.Spec.Resources.Requests[corev1.ResourceStorage], at)...)
		}
	}
	return errs
}

// usedTwice finds duplicate names. The merge and the API server need them to be unique.
func usedTwice(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	errs := duplicates(spec.Volumes, at.Child("volumes"), "name", func(v corev1.Volume) string { return v.Name })
	errs = append(errs, duplicates(spec.ImagePullSecrets, at.Child("imagePullSecrets"), "name", func(r corev1.LocalObjectReference) string { return r.Name })...)
	both := slices.Concat(spec.InitContainers, spec.Containers)
	names := duplicates(both, at, "name", func(c corev1.Container) string { return c.Name })
	if len(names) > 0 {
		return append(errs, field.Duplicate(at.Child("containers"), names[0].BadValue))
	}
	for _, c := range places(spec, at) {
		if c.Name == "" {
			errs = append(errs, field.Required(c.at.Child("name"), "name the container"))
		}
		errs = append(errs, duplicates(c.Env, c.at.Child("env"), "name", func(e corev1.EnvVar) string { return e.Name })...)
		errs = append(errs, duplicates(c.VolumeMounts, c.at.Child("volumeMounts"), "mountPath", func(m corev1.VolumeMount) string { return m.MountPath })...)
		errs = append(errs, duplicates(c.Ports, c.at.Child("ports"), "containerPort", portKey)...)
	}
	return errs
}

// place is a container and its path.
type place struct {
	*corev1.Container
	at *field.Path
}

// places lists a pod's containers, init containers first.
func places(spec *corev1.PodSpec, at *field.Path) []place {
	var all []place
	for i := range spec.InitContainers {
		all = append(all, place{&spec.InitContainers[i], at.Child("initContainers").Index(i)})
	}
	for i := range spec.Containers {
		all = append(all, place{&spec.Containers[i], at.Child("containers").Index(i)})
	}
	return all
}

func duplicates[T any](list []T, at *field.Path, key string, of func(T) string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, item := range list {
		if name := of(item); seen[name] {
			errs = append(errs, field.Duplicate(at.Index(i).Child(key), name))
		} else {
			seen[name] = true
		}
	}
	return errs
}
