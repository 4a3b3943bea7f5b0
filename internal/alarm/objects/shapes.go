package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// shapes are the fields that are kept of the objects of a resource. The fields that an Alarm names
// are kept of the objects of its namespace only. It is immutable.
type shapes struct {
	// everywhere keeps what ClusterAlarms name. It is nil if none names the resource.
	everywhere *fields.Filter
	// namespaces keep what ClusterAlarms and the Alarms of a namespace name. If ClusterAlarms name
	// the resource, it contains only the namespaces whose Alarms name further fields.
	namespaces map[string]*fields.Filter
	// id identifies the shapes.
	id string
}

// nothing keeps only what identifies and selects an object.
var nothing = fields.NewFilter(fields.Shape{})

// newShapes uses the filters of former shapes again, which can be nil. The filters of namespaces
// share what ClusterAlarms name, because each namespace would otherwise need memory for that.
// Namespaces with the same fields share one filter.
func newShapes(n *Need, before *shapes) *shapes {
	s, base, filters := &shapes{namespaces: map[string]*fields.Filter{}}, nothing, map[string]*fields.Filter{}
	if before == nil {
		before = &shapes{}
	}
	hash := sha256.New()
	if n.Cluster {
		s.everywhere = fields.NewFilter(fields.Union(n.Everywhere...))
		if before.everywhere != nil && before.everywhere.String() == s.everywhere.String() {
			s.everywhere = before.everywhere
		}
		base = s.everywhere
		hash.Write([]byte("\x00" + base.String()))
	}
	if before.everywhere == s.everywhere {
		for _, f := range before.namespaces {
			filters[f.Added()] = f
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(n.Namespaces)) {
		missing := base.Missing(n.Namespaces[namespace]...)
		text := missing.String()
		if text == "" && n.Cluster {
			continue
		}
		if filters[text] == nil {
			filters[text] = base.With(missing)
		}
		s.namespaces[namespace] = filters[text]
		hash.Write([]byte("\x00" + namespace + "\n" + text))
	}
	s.id = hex.EncodeToString(hash.Sum(nil)[:16])
	return s
}

// of returns what is kept of the objects of a namespace. It is nil if no alarm needs them.
func (s *shapes) of(namespace string) *fields.Filter {
	if f := s.namespaces[namespace]; f != nil {
		return f
	}
	return s.everywhere
}

// onlyMetadata reports whether all fields are below metadata.
func (s *shapes) onlyMetadata() bool {
	for _, f := range s.namespaces {
		if !f.OnlyMetadata() {
			return false
		}
	}
	return s.everywhere == nil || s.everywhere.OnlyMetadata()
}

// covers reports whether the fields that an alarm names are kept. It returns false if s is nil.
func (s *shapes) covers(by kube.Key, named fields.Shape) bool {
	if s == nil {
		return false
	}
	f := s.everywhere
	if by.Kind != alarm.KindClusterAlarm {
		f = s.of(by.Namespace)
	}
	return f != nil && f.Covers(named)
}

// keepsAll reports whether other shapes need no more than these.
func (s *shapes) keepsAll(other *shapes) bool {
	if other.everywhere != nil && (s.everywhere == nil || !s.everywhere.CoversAdded(other.everywhere)) {
		return false
	}
	for namespace, f := range other.namespaces {
		if kept := s.of(namespace); kept == nil || !kept.CoversAdded(f) {
			return false
		}
	}
	return true
}
