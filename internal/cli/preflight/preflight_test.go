package preflight_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/cli/preflight"
)

func TestEachResultHasItsLevelAndMessage(t *testing.T) {
	many := []string{"f", "e", "d", "c", "b", "a"}
	lease := func(holder string, age time.Duration) *preflight.Lease {
		return &preflight.Lease{Holder: holder, Age: age, Duration: 10 * time.Second}
	}
	for name, tc := range map[string]struct {
		got   preflight.Result
		level preflight.Level
		says  string
	}{
		"the version that is tested":    {preflight.Server("v1.37.2"), preflight.OK, "v1.37.2"},
		"a provider's version":          {preflight.Server("v1.31.4-gke.100"), preflight.OK, "1.30 or later"},
		"the first version":             {preflight.Server("v1.30.0"), preflight.OK, ""},
		"an old version":                {preflight.Server("v1.29.9"), preflight.Fail, "upgrade to 1.30"},
		"no version":                    {preflight.Server("main"), preflight.Warn, "could not be checked"},
		"all APIs":                      {preflight.APIs(nil), preflight.OK, ""},
		"an API is missing":             {preflight.APIs([]string{"events.k8s.io/v1"}), preflight.Fail, "not served: events.k8s.io/v1"},
		"clocks that agree":             {preflight.Skew(-2 * time.Second), preflight.OK, ""},
		"a clock ahead":                 {preflight.Skew(11 * time.Second), preflight.Warn, "11s apart"},
		"a clock behind":                {preflight.Skew(-time.Minute), preflight.Warn, "1m0s apart"},
		"may install":                   {preflight.Caller(nil, false), preflight.OK, ""},
		"may not install":               {preflight.Caller([]string{"create clusterroles"}, false), preflight.Fail, "administrator"},
		"may not upgrade":               {preflight.Caller([]string{"patch clusterroles"}, true), preflight.Warn, "you cannot upgrade"},
		"nothing is installed":          {preflight.Installed(false, "x"), preflight.OK, "nothing is installed"},
		"no namespace":                  {preflight.Namespace("x", nil), preflight.Fail, "namespace x does not exist"},
		"restricted":                    {preflight.Namespace("x", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}), preflight.OK, ""},
		"privileged":                    {preflight.Namespace("x", map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}), preflight.Warn, "label it"},
		"nothing enforced":              {preflight.Namespace("x", map[string]string{}), preflight.Warn, "label it"},
		"objects of this version":       {preflight.Objects("x", nil, nil), preflight.OK, ""},
		"objects that differ":           {preflight.Objects("x", nil, []string{"b", "a"}), preflight.Fail, "outdated or changed: a, b;"},
		"missing objects":               {preflight.Objects("x", many, []string{"z"}), preflight.Fail, "missing: a, b, c, d, e and 1 more;"},
		"all permissions":               {preflight.Permissions("me", nil), preflight.OK, "me"},
		"a missing permission":          {preflight.Permissions("me", []string{"list pods"}), preflight.Fail, "me may not list pods"},
		"nothing surplus":               {preflight.Surplus("me", nil, nil), preflight.OK, "me has none"},
		"a surplus binding":             {preflight.Surplus("me", []preflight.Grant{{Binding: "RoleBinding a/b", Permissions: []string{"get pods", "create pods/exec"}}}, many), preflight.Warn, "by RoleBinding a/b (create pods/exec, get pods): delete"},
		"a surplus role":                {preflight.Surplus("me", nil, []string{"ClusterRole x"}), preflight.Warn, "not chosen: ClusterRole x; delete"},
		"no workload":                   {preflight.Running(nil), preflight.Fail, "apply its manifest"},
		"scaled to nothing":             {preflight.Running(&preflight.Workload{Name: "Deployment x"}), preflight.Fail, "scale it up"},
		"no replica":                    {preflight.Running(&preflight.Workload{Name: "Deployment x", Wanted: 2}), preflight.Fail, "none of 2"},
		"a replica too few":             {preflight.Running(&preflight.Workload{Name: "Deployment x", Wanted: 2, Ready: 1}), preflight.Warn, "1 of 2"},
		"all replicas":                  {preflight.Running(&preflight.Workload{Name: "Deployment x", Wanted: 2, Ready: 2}), preflight.OK, "2 of 2"},
		"no lease":                      {preflight.Leader(nil), preflight.Warn, "--leader-elect"},
		"a leader":                      {preflight.Leader(lease("a", 9*time.Second)), preflight.OK, "a leads"},
		"a leader whose clock is ahead": {preflight.Leader(lease("a", -time.Second)), preflight.OK, "0s ago"},
		"an expired lease":              {preflight.Leader(lease("a", 11*time.Second)), preflight.Fail, "no replica has led for 11s"},
		"a released lease":              {preflight.Leader(lease("", time.Second)), preflight.Fail, "no replica has led"},
		"no answer":                     {preflight.Unknown("x", errors.New("no")), preflight.Warn, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.got.Level != tc.level || !strings.Contains(tc.got.Message, tc.says) || tc.got.Check == "" {
				t.Errorf("got %+v, want %s with %q", tc.got, tc.level, tc.says)
			}
		})
	}
}

func TestEachFailingReceiverIsNamed(t *testing.T) {
	results := preflight.Receivers([]preflight.Receiver{
		{Name: "a", Ready: true, Processed: true},
		{Name: "b", Suspended: true, Processed: true, Reason: "Suspended"},
		{Name: "c", Processed: true, Reason: "SecretNotFound", Message: "it does not exist"},
		{Name: "d"},
	})
	if len(results) != 2 || results[0].Message != "c is not Ready: SecretNotFound: it does not exist" || !strings.HasPrefix(results[1].Message, "d has not been processed") {
		t.Errorf("got %+v", results)
	}
	if preflight.Failed(results) != 0 {
		t.Error("a tenant's receiver makes the check of the installation fail")
	}
	if none := preflight.Receivers(nil); len(none) != 1 || none[0].Level != preflight.OK {
		t.Errorf("without receivers: %+v", none)
	}
}
