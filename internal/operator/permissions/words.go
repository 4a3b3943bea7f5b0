package permissions

import (
	"fmt"
	"strings"
)

// describe returns a sentence for each role and resource. It says which permissions are
// missing and what to do.
func describe(missing []Permission) []string {
	var resources []Permission
	verbs := map[Permission][]string{}
	for _, r := range missing {
		resource := r
		resource.Verb = ""
		if verbs[resource] == nil {
			resources = append(resources, resource)
		}
		verbs[resource] = append(verbs[resource], r.Verb)
	}
	sentences := make([]string, len(resources))
	for i, r := range resources {
		sentences[i] = fmt.Sprintf("cannot %s %s: add it to %s", strings.Join(verbs[r], ", "), r.object(), r.whose())
	}
	return sentences
}

// object returns the object of the verb, in the form of the API server's messages.
func (r Permission) object() string {
	object := r.path()
	if r.Name != "" {
		object += fmt.Sprintf(" %q", r.Name)
	}
	if r.Group != "" {
		object += fmt.Sprintf(" in API group %q", r.Group)
	}
	return object
}

// whose returns the role and its namespace.
func (r Permission) whose() string {
	if r.Namespace == "" {
		return r.Role
	}
	return r.Role + " in namespace " + r.Namespace
}
