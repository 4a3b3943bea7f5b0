package diagnosis

import (
	"fmt"
	"regexp"
	"strings"
)

// classMissing matches what the rules say about a class that a spec names.
var classMissing = regexp.MustCompile(`: (StorageClass|PriorityClass|RuntimeClass) "[^"]+" does not exist$`)

// mostClasses is how many classes a message names.
const mostClasses = 10

// NameClasses names the classes that exist in the advice about one that does not. Most users cannot
// list them. list returns the names of a kind, StorageClass, PriorityClass or RuntimeClass. If it
// returns an error, the advice stays as it is.
func (d *Diagnosis) NameClasses(list func(kind string) ([]string, error)) {
	if d.Cause != nil {
		d.Cause.nameClasses(list)
	}
	for i := range d.Others {
		d.Others[i].nameClasses(list)
	}
}

func (c *Cause) nameClasses(list func(kind string) ([]string, error)) {
	m := classMissing.FindStringSubmatch(c.Message)
	if m == nil {
		return
	}
	names, err := list(m[1])
	switch {
	case err != nil:
	case len(names) == 0:
		c.Advice = "the cluster has none; ask the cluster's administrator for one"
	case len(names) > mostClasses:
		c.Advice = fmt.Sprintf("use one of %s and %d more", strings.Join(names[:mostClasses], ", "), len(names)-mostClasses)
	default:
		c.Advice = "use one of " + strings.Join(names, ", ")
	}
}
