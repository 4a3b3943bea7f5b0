package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Lookup reads what only the messages about some causes need, in the namespace of the workload.
type Lookup interface {
	// Classes returns the names of the classes of a kind: StorageClass, PriorityClass or RuntimeClass.
	Classes(kind string) ([]string, error)
	Quotas() ([]corev1.ResourceQuota, error)
	LimitRanges() ([]corev1.LimitRange, error)
	// Pods returns all pods of the namespace, also those of others.
	Pods() ([]corev1.Pod, error)
	// Claims returns all claims of the namespace, also those of others.
	Claims() ([]corev1.PersistentVolumeClaim, error)
}

// Complete adds what users could look up themselves, if they may. For a class that does not exist,
// this is which ones do. For an exceeded quota, it is the present usage, and the
// pods or claims that use most.
// A LimitRange is named. If a read fails, a message stays as it is.
func (d *Diagnosis) Complete(l Lookup) {
	if d.Cause != nil {
		d.Cause.complete(l)
	}
	for i := range d.Others {
		d.Others[i].complete(l)
	}
}

func (c *Cause) complete(l Lookup) {
	switch {
	case c.Quota != nil:
		c.completeQuota(l)
	case classKinds[c.Means] != "":
		c.nameClasses(l)
	case c.Means == MeansLimitRange:
		c.nameLimitRange(l)
	case limitExceeded.MatchString(c.Message):
		c.nameDefaultLimit(l)
	default:
		return
	}
	c.sanitize()
}

// classKinds are the kinds of classes that a spec names.
var classKinds = map[Meaning]string{MeansMissingStorageClass: "StorageClass", MeansMissingPriorityClass: "PriorityClass", MeansMissingRuntimeClass: "RuntimeClass"}

// mostClasses is how many classes a message names.
const mostClasses = 10

// nameClasses names the classes that exist. Most users cannot list them.
func (c *Cause) nameClasses(l Lookup) {
	kind := classKinds[c.Means]
	names, err := l.Classes(kind)
	if kind == "PriorityClass" {
		names = slices.DeleteFunc(names, isSystem)
	}
	switch {
	case err != nil:
	case len(names) == 0 && kind == "PriorityClass":
		c.Advice = "omit priorityClassName, or ask the cluster's administrator for a class"
	case len(names) == 0:
		c.Advice = "the cluster has none; ask the cluster's administrator for one"
	case len(names) > mostClasses:
		c.Advice = fmt.Sprintf("use one of %s and %d more", strings.Join(names[:mostClasses], ", "), len(names)-mostClasses)
	default:
		c.Advice = "use one of " + strings.Join(names, ", ")
	}
}

// isSystem reports whether a PriorityClass is for components of the cluster. Their pods displace all
// others: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/.
func isSystem(class string) bool { return strings.HasPrefix(class, "system-") }

// someLimitRange is how a message names a LimitRange until it is known which one it is.
const someLimitRange = "a LimitRange of the namespace forbids it: "

// What the admission plugin LimitRanger says first: plugin/pkg/admission/limitranger/admission.go.
var (
	limitOfRange = compile(someLimitRange + `(maximum|minimum) (\S+) usage per (\w+) is ([^\s,]+?)[,.]`)
	ratioOfRange = compile(someLimitRange + `(\S+) (max limit to request ratio) per (\w+) is ([^\s,]+),`)
)

// nameLimitRange names the LimitRange that has the limit of the message.
func (c *Cause) nameLimitRange(l Lookup) {
	limit, resourceName, kind, amount := "", "", "", ""
	if m := limitOfRange.FindStringSubmatch(c.Message); m != nil {
		limit, resourceName, kind, amount = m[1], m[2], m[3], m[4]
	} else if m := ratioOfRange.FindStringSubmatch(c.Message); m != nil {
		limit, resourceName, kind, amount = m[2], m[1], m[3], m[4]
	}
	name := limitRangeWith(l, func(i *corev1.LimitRangeItem) bool {
		amounts := map[string]corev1.ResourceList{"maximum": i.Max, "minimum": i.Min, "max limit to request ratio": i.MaxLimitRequestRatio}[limit]
		return string(i.Type) == kind && has(amounts, resourceName, amount)
	})
	if name != "" {
		c.Message = strings.Replace(c.Message, someLimitRange, "LimitRange "+quote(name)+" of the namespace forbids it: ", 1)
	}
}

// limitExceeded matches the API server's error about a request above the limit:
// pkg/apis/core/validation/validation.go.
var limitExceeded = compile(`must be less than or equal to (\S+) limit of ([^\s,;\]]+)`)

// nameDefaultLimit names the LimitRange that sets the limit of the message, if the spec has none. Users
// do not find that limit in what they wrote.
func (c *Cause) nameDefaultLimit(l Lookup) {
	m := limitExceeded.FindStringSubmatch(c.Message)
	name := limitRangeWith(l, func(i *corev1.LimitRangeItem) bool {
		return i.Type == corev1.LimitTypeContainer && has(i.Default, m[1], m[2])
	})
	if name != "" {
		c.Message += "; this is the limit that LimitRange " + quote(name) + " sets if a container has none"
		c.Advice = "set a limit of " + m[1] + ", or request less"
	}
}

// has reports whether the list has this amount of a resource. The amount is as the API server writes it.
func has(list corev1.ResourceList, name, amount string) bool {
	q, ok := list[corev1.ResourceName(name)]
	return ok && q.String() == amount
}

// limitRangeWith returns the name of the first LimitRange with such an item, or "".
func limitRangeWith(l Lookup, is func(*corev1.LimitRangeItem) bool) string {
	ranges, err := l.LimitRanges()
	if err != nil {
		return ""
	}
	slices.SortFunc(ranges, func(a, b corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	for i := range ranges {
		for j := range ranges[i].Spec.Limits {
			if is(&ranges[i].Spec.Limits[j]) {
				return line(ranges[i].Name, maxName)
			}
		}
	}
	return ""
}
