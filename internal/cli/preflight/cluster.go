package preflight

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

const (
	// oldest is the first version of Kubernetes with ValidatingAdmissionPolicy v1:
	// https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/.
	oldest = "1.30"
	// Tested is the version that the tests run.
	Tested = "1.37"
	// maxSkew is how far clocks may be apart before times mislead whoever compares them.
	maxSkew = 10 * time.Second
)

// Server judges the API server's version, such as "v1.37.2".
func Server(git string) Finding {
	const check = "API server"
	v, err := version.ParseGeneric(git)
	switch {
	case err != nil:
		return Unknown(check, err)
	case v.LessThan(version.MustParseGeneric(oldest)):
		return Finding{check, Fail, fmt.Sprintf("%s lacks ValidatingAdmissionPolicy v1, by which users' rights are checked: upgrade to %s or later", git, oldest)}
	default:
		return Finding{check, OK, fmt.Sprintf("%s (%s or later is needed; tested with %s)", git, oldest, Tested)}
	}
}

// APIs judges which of the API groups that are needed the server does not serve.
func APIs(missing []string) Finding {
	const check = "required APIs"
	if len(missing) > 0 {
		return Finding{check, Fail, fmt.Sprintf("%s: not served; enable them on the API server (--runtime-config)", list(missing))}
	}
	return Finding{check, OK, "all are served"}
}

// Skew judges how far the clock of the API server is ahead of the caller's.
func Skew(ahead time.Duration) Finding {
	const check = "clock"
	if ahead.Abs() > maxSkew {
		return Finding{check, Warn, fmt.Sprintf("the API server's clock and this machine's are %v apart: synchronise both, or times in messages and statuses mislead", ahead.Abs().Round(time.Second))}
	}
	return Finding{check, OK, "the API server's clock agrees with this machine's"}
}

// Caller judges which rights to install or upgrade the caller lacks, each such as
// "create clusterroles".
func Caller(missing []string, installed bool) Finding {
	const check = "your rights"
	switch {
	case len(missing) == 0:
		return Finding{check, OK, "you may install and upgrade"}
	case installed:
		return Finding{check, Warn, fmt.Sprintf("you could not upgrade: you may not %s", list(missing))}
	default:
		return Finding{check, Fail, fmt.Sprintf("you may not %s: have a cluster administrator install", list(missing))}
	}
}

// Installed says whether there is anything of an installation.
func Installed(there bool, namespace string) Finding {
	const check = "installation"
	if there {
		return Finding{check, OK, "in namespace " + namespace}
	}
	return Finding{check, OK, "nothing is installed yet, so only what an installation needs was looked at"}
}

// Namespace judges the labels of the operator's namespace; nil is that there is none.
func Namespace(name string, labels map[string]string) Finding {
	const check = "Pod Security"
	level := labels["pod-security.kubernetes.io/enforce"]
	switch {
	case labels == nil:
		return Finding{check, Fail, fmt.Sprintf("there is no namespace %s: apply config/rbac", name)}
	case level == "restricted":
		return Finding{check, OK, fmt.Sprintf("namespace %s enforces restricted", name)}
	case level == "":
		return Finding{check, Warn, fmt.Sprintf("namespace %s enforces nothing: label it pod-security.kubernetes.io/enforce=restricted", name)}
	default:
		return Finding{check, Warn, fmt.Sprintf("namespace %s enforces %s: label it pod-security.kubernetes.io/enforce=restricted", name, strings.ToLower(level))}
	}
}
