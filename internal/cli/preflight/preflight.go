// Package preflight evaluates whether a cluster can run Bongsu and whether an installation
// is healthy. Each result has one sentence, which says what to do about a problem. The
// package sends no requests: its caller reads the cluster.
package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// Level is the severity of a result.
type Level string

// The levels.
const (
	// OK: there is nothing to do.
	OK Level = "ok"
	// Warn: there may be a problem, or the check was not possible.
	Warn Level = "warn"
	// Fail: Bongsu does not work, or cannot be installed.
	Fail Level = "fail"
)

// Result is the result of one check.
type Result struct {
	// Check is the name of the check, for example "admission policies".
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Message describes the result. Unless Level is OK, it says what to do.
	Message string `json:"message"`
}

// Failed returns the number of failures.
func Failed(results []Result) (n int) {
	for _, r := range results {
		if r.Level == Fail {
			n++
		}
	}
	return n
}

// Unknown returns the result of a check that was not possible.
func Unknown(check string, err error) Result {
	return Result{check, Warn, fmt.Sprintf("could not be checked: %v", err)}
}

// maxNamed limits the number of names in a message.
const maxNamed = 5

// list joins the sorted names, and counts those above maxNamed.
func list(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

const (
	// oldest is the first version of Kubernetes with ValidatingAdmissionPolicy v1:
	// https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/.
	oldest = "1.30"
	// Tested is the version that the tests run.
	Tested = "1.37"
	// maxSkew is the largest clock difference that is accepted.
	maxSkew = 10 * time.Second
)

// Server checks the API server's version, such as "v1.37.2".
func Server(git string) Result {
	const check = "API server"
	v, err := version.ParseGeneric(git)
	switch {
	case err != nil:
		return Unknown(check, err)
	case v.LessThan(version.MustParseGeneric(oldest)):
		return Result{check, Fail, fmt.Sprintf("%s lacks ValidatingAdmissionPolicy v1, which checks the permissions of users: upgrade to %s or later", git, oldest)}
	default:
		return Result{check, OK, fmt.Sprintf("%s (%s or later is needed; tested with %s)", git, oldest, Tested)}
	}
}

// APIs reports the required APIs that the server does not serve.
func APIs(missing []string) Result {
	const check = "required APIs"
	if len(missing) > 0 {
		return Result{check, Fail, fmt.Sprintf("not served: %s; enable them on the API server (--runtime-config)", list(missing))}
	}
	return Result{check, OK, "all are served"}
}

// Skew checks how far the API server's clock is ahead of the caller's. A clock that is
// behind has a negative value.
func Skew(ahead time.Duration) Result {
	const check = "clock"
	if ahead.Abs() > maxSkew {
		return Result{check, Warn, fmt.Sprintf("the API server's clock and this machine's are %v apart: synchronize both, so that times in messages and statuses are correct", ahead.Abs().Round(time.Second))}
	}
	return Result{check, OK, "the API server's clock agrees with this machine's"}
}

// Caller reports the permissions that the caller lacks to install or upgrade, each in the
// form "create clusterroles".
func Caller(missing []string, installed bool) Result {
	const check = "your permissions"
	switch {
	case len(missing) == 0:
		return Result{check, OK, "you may install and upgrade"}
	case installed:
		return Result{check, Warn, fmt.Sprintf("you cannot upgrade, because you may not %s: ask a cluster administrator to upgrade", list(missing))}
	default:
		return Result{check, Fail, fmt.Sprintf("you may not %s: ask a cluster administrator to install", list(missing))}
	}
}

// Installed reports whether Bongsu is installed.
func Installed(installed bool, namespace string) Result {
	const check = "installation"
	if installed {
		return Result{check, OK, "in namespace " + namespace}
	}
	return Result{check, OK, "nothing is installed yet, so only the requirements of an installation were checked"}
}

// Namespace checks the labels of the operator's namespace. They are nil if the namespace
// does not exist.
func Namespace(name string, labels map[string]string) Result {
	const check = "Pod Security"
	level := labels["pod-security.kubernetes.io/enforce"]
	switch {
	case labels == nil:
		return Result{check, Fail, fmt.Sprintf("namespace %s does not exist: run bongsu install with your values again", name)}
	case level == "restricted":
		return Result{check, OK, fmt.Sprintf("namespace %s enforces restricted", name)}
	case level == "":
		return Result{check, Warn, fmt.Sprintf("namespace %s enforces nothing: label it pod-security.kubernetes.io/enforce=restricted", name)}
	default:
		return Result{check, Warn, fmt.Sprintf("namespace %s enforces %s: label it pod-security.kubernetes.io/enforce=restricted", name, strings.ToLower(level))}
	}
}

// Objects reports objects that are missing, or differ from the manifests of this version.
func Objects(check string, missing, different []string) Result {
	switch {
	case len(missing) > 0:
		return Result{check, Fail, fmt.Sprintf("missing: %s; install this version again, with your values", list(missing))}
	case len(different) > 0:
		return Result{check, Fail, fmt.Sprintf("outdated or changed: %s; install this version again, with your values", list(different))}
	default:
		return Result{check, OK, "equal to the manifests of this version"}
	}
}

// Permissions reports the permissions that the operator's service account lacks, each in
// the form "list pods".
func Permissions(account string, missing []string) Result {
	const check = "operator permissions"
	if len(missing) > 0 {
		return Result{check, Fail, fmt.Sprintf("%s may not %s: install this version again, with your values", account, list(missing))}
	}
	return Result{check, OK, account + " has all permissions that it needs"}
}

// Grant is a binding of a role to the operator's service account.
type Grant struct {
	// Binding has the form "ClusterRoleBinding bongsu-appservice-exec".
	Binding string
	// Permissions are in the form "create pods/exec".
	Permissions []string
}

// Surplus reports permissions of the operator's service account that its features do not need,
// and unused roles, each in the form "ClusterRole bongsu-appservice-exec".
func Surplus(account string, grants []Grant, unusedRoles []string) Result {
	const check = "surplus permissions"
	var bindings []string
	for _, g := range grants {
		bindings = append(bindings, fmt.Sprintf("%s (%s)", g.Binding, list(g.Permissions)))
	}
	switch {
	case len(bindings) > 0:
		return Result{check, Warn, fmt.Sprintf("ServiceAccount %s has permissions that it does not need, by %s: delete each of these bindings with kubectl, or choose the feature that needs it",
			account, list(bindings))}
	case len(unusedRoles) > 0:
		return Result{check, Warn, fmt.Sprintf("roles of features that are not chosen: %s; delete them with kubectl", list(unusedRoles))}
	default:
		return Result{check, OK, fmt.Sprintf("ServiceAccount %s has none", account)}
	}
}

// Workload is the Deployment or StatefulSet that runs the operator.
type Workload struct {
	// Name has the form "Deployment bongsu".
	Name          string
	Wanted, Ready int32
}

// Running checks the replicas of the operator's workload, which is nil if there is none.
func Running(w *Workload) Result {
	const check = "workload"
	switch {
	case w == nil:
		return Result{check, Fail, "there is no Deployment or StatefulSet with the label app.kubernetes.io/name=bongsu: apply its manifest"}
	case w.Wanted == 0:
		return Result{check, Fail, w.Name + " is scaled to 0: scale it up"}
	case w.Ready == 0:
		return Result{check, Fail, fmt.Sprintf("%s: none of %d replicas is ready; run bongsu explain, and read /readyz of a pod", w.Name, w.Wanted)}
	case w.Ready < w.Wanted:
		return Result{check, Warn, fmt.Sprintf("%s: %d of %d replicas are ready; run bongsu explain", w.Name, w.Ready, w.Wanted)}
	default:
		return Result{check, OK, fmt.Sprintf("%s: %d of %d replicas are ready", w.Name, w.Ready, w.Wanted)}
	}
}

// Local is the result of Running and Leader in a cluster of `bongsu local`.
func Local() Result {
	return Result{"workload", OK, "the operator runs with bongsu local, not in a pod"}
}

// Lease is the lease of the leading replica.
type Lease struct {
	Holder string
	// Age is the time since the last renewal by the API server's clock. Duration is how
	// long a renewal is valid.
	Age, Duration time.Duration
}

// Leader checks the lease, which is nil if there is none.
func Leader(l *Lease) Result {
	const check = "leader"
	switch {
	case l == nil:
		return Result{check, Warn, "there is no lease: either no replica has led yet, or the operator runs without --leader-elect; then run only one replica"}
	case l.Holder == "" || l.Age > l.Duration:
		return Result{check, Fail, fmt.Sprintf("no replica has led for %v: check the log of the operator's pods", l.Age.Round(time.Second))}
	default:
		return Result{check, OK, fmt.Sprintf("%s leads, and renewed its lease %v ago", l.Holder, max(0, l.Age.Round(time.Second)))}
	}
}

// Receiver is the status of an AlarmReceiver or a ClusterAlarmReceiver.
type Receiver struct {
	// Name has the form "AlarmReceiver shop/slack".
	Name      string
	Ready     bool
	Suspended bool
	// Processed is true once the operator has set the condition Ready.
	Processed       bool
	Reason, Message string
}

// Receivers returns a warning for each receiver that is neither Ready nor suspended.
func Receivers(receivers []Receiver) []Result {
	const check = "receivers"
	var results []Result
	for _, r := range receivers {
		switch {
		case r.Suspended || r.Ready:
		case !r.Processed:
			results = append(results, Result{check, Warn, r.Name + " has not been processed yet: check that the operator runs with the feature alarm"})
		default:
			results = append(results, Result{check, Warn, fmt.Sprintf("%s is not Ready: %s: %s", r.Name, r.Reason, r.Message)})
		}
	}
	if len(results) == 0 {
		results = []Result{{check, OK, fmt.Sprintf("%d receivers, none fails", len(receivers))}}
	}
	return results
}
