package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
)

// operatorAccount is the ServiceAccount of the operator.
const operatorAccount = "bongsu"

// checkResources reports the resources that the alarm names, and that the operator cannot watch or
// read for it.
func (t *test) checkResources(ctx context.Context, a *Alarm, report *AlarmReport) {
	spec := a.Object.AlarmSpec()
	for i := range spec.Changes {
		t.checkResource(ctx, a, fmt.Sprintf("spec.changes[%d].resource", i), &spec.Changes[i].Resource, objects.Served.Status, report, "list", "watch")
	}
	for i := range spec.States {
		t.checkResource(ctx, a, fmt.Sprintf("spec.states[%d].resource", i), &spec.States[i].Resource, objects.Served.Status, report, "list", "watch")
	}
	for i := range spec.ReadObjects {
		t.checkResource(ctx, a, fmt.Sprintf("spec.readObjects[%d]", i), &spec.ReadObjects[i], objects.Served.ReadStatus, report, "get")
	}
}

func (t *test) checkResource(ctx context.Context, a *Alarm, field string, named *v1alpha1.ChangeResource, statusOf func(objects.Served, alarm.Resource) objects.Status, report *AlarmReport, verbs ...string) {
	if !t.served.IsKnown() {
		return // a note says so
	}
	resource := match.ResourceOf(named)
	switch status := statusOf(t.served, resource); {
	case status.Reason == objects.Unavailable:
		report.Notes = append(report.Notes, field+": "+status.Message)
	case status.Reason != "":
		report.Problems = append(report.Problems, field+": "+status.Message)
	case !status.Namespaced && a.Kind == alarm.KindAlarm:
		report.Problems = append(report.Problems, field+": "+objects.NamespacedMessage(resource))
	case !t.operatorMay(ctx, resource, verbs):
		report.Problems = append(report.Problems, field+": "+objects.ForbiddenMessage(resource, verbs...))
	}
}

// operatorMay reports whether the operator may use verbs on a resource. It returns true too if
// there is no operator, or if the user may not ask.
func (t *test) operatorMay(ctx context.Context, resource alarm.Resource, verbs []string) bool {
	if err := t.Client.Get(ctx, client.ObjectKey{Namespace: t.OperatorNamespace, Name: operatorAccount}, metadataOf("ServiceAccount")); err != nil {
		return true
	}
	for _, verb := range verbs {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + t.OperatorNamespace + ":" + operatorAccount,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + t.OperatorNamespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: resource.Group, Resource: resource.Resource, Verb: verb,
			},
		}}
		if err := t.Client.Create(ctx, review); err == nil && !review.Status.Allowed {
			return false
		}
	}
	return true
}

// checkFields notes the fields of spec.changes in which no object has a value. They can be
// misspelt.
func (t *test) checkFields(ctx context.Context, a *Alarm, report *AlarmReport) {
	changes := a.Object.AlarmSpec().Changes
	for i := range changes {
		c := &changes[i]
		if updates := len(c.Operations) == 0 || slices.Contains(c.Operations, v1alpha1.ChangeUpdate); !updates {
			continue
		}
		missing, resource, n := slices.Clone(c.Fields), match.ResourceOf(&c.Resource), 0
		_, err := t.eachObject(ctx, a.ID().Namespace, resource, func(object map[string]any) {
			n++
			missing = slices.DeleteFunc(missing, func(text string) bool { return hasValue(object, text) })
		})
		field := fmt.Sprintf("spec.changes[%d]", i)
		switch {
		case err != nil:
			report.addUnlisted(field, resource, err)
		case n > 0 && len(missing) > 0:
			report.Notes = append(report.Notes, fmt.Sprintf("%s.fields: no object of %s has a value in %s (%s read): check the spelling",
				field, resource.Stream(), strings.Join(missing, ", "), count(n, "object")))
		}
	}
}

// hasValue reports whether an object has a value in a field of spec.changes.
func hasValue(object map[string]any, field string) bool {
	path, err := fields.Parse(field)
	found, _ := fields.Differences(nil, object, []fields.Path{path}, 1)
	return err != nil || len(found) > 0
}
