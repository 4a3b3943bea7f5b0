package permissions

import (
	"fmt"
	"strings"
)

// describe says what is missing and what to do, in a sentence for each resource of
// each role.
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

// object is what the verb is about, in the words of the API server's own refusals.
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

// whose is the role, and where that is.
func (r Permission) whose() string {
	if r.Namespace == "" {
		return r.Role
	}
	return r.Role + " in namespace " + r.Namespace
}
