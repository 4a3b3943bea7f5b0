package culling

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Messages read the same for as long as nothing changes: each new one is a write.
const (
	messageNotProbed  = "the notebook is asked whether it is used when it runs and has spec.culling"
	messageResponding = "the notebook says whether it is used"
	messageUnknown    = "the notebook does not say whether it is used, so it is not culled; see ServerResponding"
	messageBusy       = "nobody used the notebook for long, but a kernel is at work; it is not culled while it is"
)

// maxMessage is the limit of status.lastProbe.message.
const maxMessage = 512

func notProbed() Condition {
	return Condition{metav1.ConditionUnknown, v1alpha1.ReasonNotProbed, messageNotProbed}
}

func messageActive(s Settings) string {
	return fmt.Sprintf("the notebook was started or used within the last %s", s.untilIdle())
}

func noActivity(used, cullTime time.Time) string {
	return fmt.Sprintf("nobody has used the notebook since %s; it is stopped at %s unless somebody does; its claim stays",
		stamp(used), stamp(cullTime))
}

func failing(failure string) string {
	return "the notebook does not say whether it is used: " + plaintext.Cut(failure, maxMessage)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
