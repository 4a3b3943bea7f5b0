package objects

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Need is what alarms need of a resource.
type Need struct {
	// Cluster is true if a ClusterAlarm names the resource. Everywhere are the fields that
	// ClusterAlarms name.
	Cluster    bool
	Everywhere []fields.Shape
	// Namespaces are the fields that Alarms name, by namespace.
	Namespaces map[string][]fields.Shape
}

// Needs are the resources that active alarms name.
type Needs map[alarm.Resource]*Need

// Add adds the fields that an alarm needs of a resource.
func (n Needs) Add(r alarm.Resource, shape fields.Shape, by kube.Key) {
	need := n[r]
	if need == nil {
		need = &Need{Namespaces: map[string][]fields.Shape{}}
		n[r] = need
	}
	if by.Kind == alarm.KindClusterAlarm {
		need.Cluster, need.Everywhere = true, append(need.Everywhere, shape)
	} else {
		need.Namespaces[by.Namespace] = append(need.Namespaces[by.Namespace], shape)
	}
}

// maxResources limits the resources that are watched at once.
const maxResources = 64

// choice is a resource to watch.
type choice struct {
	resource alarm.Resource
	shapes   *shapes
}

// excluded are resources that are never watched, with the reason.
var excluded = map[string]string{
	"leases.coordination.k8s.io":      "Leases are renewed every few seconds",
	"endpointslices.discovery.k8s.io": "EndpointSlices change with every pod: use pods or services",
	"events":                          "Events are selected by match: use spec.match",
	"events.events.k8s.io":            "Events are selected by match: use spec.match",
}

// choose returns the resources to watch by stream, and a status for those that are not watched.
//
// At most maxResources are watched. Those of ClusterAlarms come first, by name. Then each
// namespace in turn gets its next one by name, until there is no space. A resource that is
// already chosen costs a namespace nothing. Shapes share what they can with those chosen before.
func choose(needs Needs, before map[string]choice) (chosen map[string]choice, refused map[alarm.Resource]Status) {
	refused = map[alarm.Resource]Status{}
	groups := map[string]*Need{}
	resources := map[string]alarm.Resource{}
	for _, r := range slices.SortedFunc(maps.Keys(needs), compareResources) {
		if reason, no := excluded[r.Stream()]; no {
			refused[r] = refuse(Excluded, r.Stream()+" cannot be watched for changes: "+reason)
			continue
		}
		join(groups, r.Stream(), needs[r])
		if _, known := resources[r.Stream()]; !known {
			resources[r.Stream()] = r
		}
	}
	chosen = map[string]choice{}
	for _, name := range order(groups) {
		if len(chosen) == maxResources {
			break
		}
		chosen[name] = choice{resources[name], newShapes(groups[name], before[name].shapes)}
	}
	for r := range needs {
		_, watched := chosen[r.Stream()]
		if _, no := refused[r]; !watched && !no {
			refused[r] = refuse(TooMany, tooMany)
		}
	}
	return chosen, refused
}

// join adds a need to its group.
func join(groups map[string]*Need, stream string, n *Need) {
	g := groups[stream]
	if g == nil {
		g = &Need{Namespaces: map[string][]fields.Shape{}}
		groups[stream] = g
	}
	g.Cluster = g.Cluster || n.Cluster
	g.Everywhere = append(g.Everywhere, n.Everywhere...)
	for namespace, named := range n.Namespaces {
		g.Namespaces[namespace] = append(g.Namespaces[namespace], named...)
	}
}

func compareResources(a, b alarm.Resource) int { return cmp.Compare(a.Stream(), b.Stream()) }

// order returns all streams in the order in which they are chosen.
func order(groups map[string]*Need) []string {
	o := &ordering{taken: map[string]bool{}}
	names := slices.Sorted(maps.Keys(groups))
	wanted := map[string][]string{} // by namespace
	for _, name := range names {
		if groups[name].Cluster {
			o.take(name)
		}
		for namespace := range groups[name].Namespaces {
			wanted[namespace] = append(wanted[namespace], name)
		}
	}
	for len(wanted) > 0 {
		for _, namespace := range slices.Sorted(maps.Keys(wanted)) {
			if wanted[namespace] = o.takeFirst(wanted[namespace]); len(wanted[namespace]) == 0 {
				delete(wanted, namespace)
			}
		}
	}
	for _, name := range names {
		o.take(name)
	}
	return o.names
}

// ordering is a list of different names.
type ordering struct {
	names []string
	taken map[string]bool
}

func (o *ordering) take(name string) {
	if !o.taken[name] {
		o.taken[name] = true
		o.names = append(o.names, name)
	}
}

// takeFirst takes the first name that is not taken yet, and returns the names after it.
func (o *ordering) takeFirst(names []string) []string {
	for i, name := range names {
		if !o.taken[name] {
			o.take(name)
			return names[i+1:]
		}
	}
	return nil
}
