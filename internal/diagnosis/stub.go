package diagnosis
import ("time"; "github.com/bongsu-io/bongsu/api/v1alpha1")
func Diagnose(w Workload) Diagnosis { return Diagnosis{} }
func Refusal(o Object, err error) (Cause, bool) { return Cause{}, false }
func Remember(last *v1alpha1.LastFailure, c *Cause, now time.Time) *v1alpha1.LastFailure { return last }
func (c *Cause) Steady(last *v1alpha1.LastFailure) Cause { return *c }
func (c *Cause) Identity() string { return "" }
