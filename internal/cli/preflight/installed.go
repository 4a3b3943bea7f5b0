package preflight

import (
	"fmt"
	"time"
)

// Objects judges what is installed of some kind against what this version brings.
func Objects(check string, missing, different []string) Finding {
	switch {
	case len(missing) > 0:
		return Finding{check, Fail, fmt.Sprintf("missing: %s; apply the manifests of this version", list(missing))}
	case len(different) > 0:
		return Finding{check, Fail, fmt.Sprintf("outdated or changed: %s; apply the manifests of this version", list(different))}
	default:
		return Finding{check, OK, "as this version brings them"}
	}
}

// Permissions reports which permissions the operator's account lacks, each such as
// "list pods".
func Permissions(account string, missing []string) Finding {
	const check = "operator's rights"
	if len(missing) > 0 {
		return Finding{check, Fail, fmt.Sprintf("%s may not %s: apply config/rbac of this version", account, list(missing))}
	}
	return Finding{check, OK, account + " has all that it needs"}
}

// Workload is what runs the operator: a Deployment or a StatefulSet.
type Workload struct {
	// Name is such as "Deployment bongsu".
	Name          string
	Wanted, Ready int32
}

// Running judges the operator's workload; nil is that there is none.
func Running(w *Workload) Finding {
	const check = "workload"
	switch {
	case w == nil:
		return Finding{check, Fail, "no Deployment or StatefulSet with the label app.kubernetes.io/name=bongsu: apply it, or start the operator"}
	case w.Wanted == 0:
		return Finding{check, Fail, w.Name + " is scaled to 0: scale it up"}
	case w.Ready == 0:
		return Finding{check, Fail, fmt.Sprintf("%s: none of %d replicas is ready; ask bongsu explain, and /readyz of a pod", w.Name, w.Wanted)}
	case w.Ready < w.Wanted:
		return Finding{check, Warn, fmt.Sprintf("%s: %d of %d replicas are ready; ask bongsu explain", w.Name, w.Ready, w.Wanted)}
	default:
		return Finding{check, OK, fmt.Sprintf("%s: %d of %d replicas are ready", w.Name, w.Ready, w.Wanted)}
	}
}

// Lease is who leads.
type Lease struct {
	Holder string
	// Age is how long ago it was renewed, by the API server's clock; Duration how long it
	// lasts.
	Age, Duration time.Duration
}

// Leader judges the lease; nil is that there is none.
func Leader(l *Lease) Finding {
	const check = "leader"
	switch {
	case l == nil:
		return Finding{check, Warn, "there is no lease: nothing has led yet, or the operator runs without --leader-elect, of which only one may run"}
	case l.Holder == "" || l.Age > l.Duration:
		return Finding{check, Fail, fmt.Sprintf("nobody leads since %v: look at the log of the operator's pods", l.Age.Round(time.Second))}
	default:
		return Finding{check, OK, fmt.Sprintf("%s leads, and renewed its lease %v ago", l.Holder, max(0, l.Age.Round(time.Second)))}
	}
}

// Receiver is how an AlarmReceiver or a ClusterAlarmReceiver fares, by its own status.
type Receiver struct {
	// Name is such as "AlarmReceiver shop/slack".
	Name              string
	Ready             bool
	Suspended, Looked bool
	Reason, Message   string
}

// Receivers judges each receiver that messages cannot be delivered to.
func Receivers(receivers []Receiver) []Finding {
	const check = "receivers"
	var found []Finding
	for _, r := range receivers {
		switch {
		case r.Suspended || r.Ready:
		case !r.Looked:
			found = append(found, Finding{check, Warn, r.Name + " was not looked at yet: is the operator running, with the capability alarm?"})
		default:
			found = append(found, Finding{check, Warn, fmt.Sprintf("%s is not Ready: %s: %s", r.Name, r.Reason, r.Message)})
		}
	}
	if len(found) == 0 {
		found = []Finding{{check, OK, fmt.Sprintf("%d, none of which fails", len(receivers))}}
	}
	return found
}
