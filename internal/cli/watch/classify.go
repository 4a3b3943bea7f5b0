package watch

import "strings"

// The ranks of differences: what is said first.
const (
	rankFirst = iota
	rankView
	rankOther
	rankMeta
	rankHidden
	rankBookkeeping // and what comes after it is told last, or never
	rankNever
	rankCount
)

// names are the places that have a name of their own, and those that hardly
// matter. The first pattern that matches counts; a * in a name is what the
// pattern's last * stood for.
var names = []struct {
	at   pattern
	rank int
	name string // the path, if empty
}{
	{parsePattern("status phase"), rankFirst, "phase"},
	{parsePattern("spec replicas"), rankFirst, "replicas"},
	{parsePattern("** containers * image"), rankFirst, "image *"},
	{parsePattern("** initContainers * image"), rankFirst, "image *"},
	{parsePattern("spec nodeName"), rankFirst, "node"},
	{parsePattern("spec unschedulable"), rankFirst, "unschedulable"},
	{parsePattern("spec suspend"), rankFirst, "suspend"},
	{parsePattern("status podIP"), rankOther, "IP"},
	{parsePattern("status replicas"), rankOther, "current replicas"},
	{parsePattern("status updatedReplicas"), rankOther, "updated replicas"},
	{parsePattern("metadata labels *"), rankMeta, "label *"},
	{parsePattern("metadata annotations *"), rankMeta, "annotation *"},
	{parsePattern("metadata resourceVersion"), rankNever, ""},
	{parsePattern("metadata generation"), rankBookkeeping, ""},
	{parsePattern("** observedGeneration"), rankBookkeeping, ""},
	{parsePattern("** lastTransitionTime"), rankBookkeeping, ""},
	{parsePattern("** lastUpdateTime"), rankBookkeeping, ""},
	{parsePattern("** lastHeartbeatTime"), rankBookkeeping, ""},
	{parsePattern("** lastProbeTime"), rankBookkeeping, ""},
	{parsePattern("status startTime"), rankBookkeeping, ""},
	{parsePattern("status hostIP"), rankBookkeeping, ""},
	{parsePattern("status hostIPs"), rankBookkeeping, ""},
	{parsePattern("status podIPs"), rankBookkeeping, ""},
}

// classify says how much it matters that a place has changed, and what it is
// called.
func classify(at path) (rank int, name string) {
	for _, n := range names {
		last, ok := n.at.match(at)
		if !ok {
			continue
		}
		if n.name == "" {
			return n.rank, at.String()
		}
		return n.rank, strings.ReplaceAll(n.name, one, last)
	}
	return rankOther, at.String()
}
