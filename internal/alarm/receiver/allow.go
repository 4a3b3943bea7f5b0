package receiver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Allows reports whether the Alarms of a namespace with these labels may use the receiver.
// An invalid selector, which the receiver's status shows, allows none.
func Allows(receiver *v1alpha1.ClusterAlarmReceiver, namespace map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(receiver.Spec.AllowedNamespaces)
	return err == nil && selector.Matches(labels.Set(namespace))
}

// NotAllowed is the error for a ClusterAlarmReceiver that the Alarms of a namespace may not
// use.
func NotAllowed(receiver, namespace string) *ConfigError {
	return &ConfigError{
		Reason: v1alpha1.ReasonNotAllowed,
		Message: fmt.Sprintf("ClusterAlarmReceiver %s does not allow Alarms of namespace %s: "+
			"ask an administrator to select the namespace in its spec.allowedNamespaces, or use an AlarmReceiver",
			receiver, namespace),
	}
}
