package diagnosis

import (
	"errors"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refusal reads the API server's error for an object that was to be created or
// changed. It returns false for what is not the object's fault or passes by itself:
// conflicts (also with an object that exists already, which is for the caller to
// judge), time-outs, an overloaded or failing server, a namespace that is being
// deleted.
func FromAPIError(object Object, err error) (Cause, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || isTransient(err, status.Status()) {
		return Cause{}, false
	}
	s := status.Status()
	v := newView(Workload{})
	what := object.Kind + " " + quote(object.Name) + " is refused"
	cause := v.rejection(object, what, stripNoise(s.Message))
	if fields := invalidFields(s); fields != "" && cause.Reason == ReasonFailedCreate {
		cause.Reason, cause.Advice = ReasonInvalidSpec, "correct the field"
		cause.Message = what + ": " + fields
	}
	cause.sanitize()
	return cause, true
}

func isTransient(err error, s metav1.Status) bool {
	const firstServerError = 500
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsTimeout(err) || apierrors.IsUnauthorized(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||
		s.Code == 0 || s.Code >= firstServerError || s.Code == http.StatusRequestTimeout
}

// invalidFields names the fields that the API server finds fault with.
func invalidFields(s metav1.Status) string {
	if s.Reason != metav1.StatusReasonInvalid || s.Details == nil {
		return ""
	}
	var fields []string
	for _, c := range s.Details.Causes {
		if c.Field != "" {
			fields = append(fields, c.Field+": "+c.Message)
		}
	}
	return excerpt(line(strings.Join(fields, "; "), maxRead))
}
