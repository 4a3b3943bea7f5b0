package preflight_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/cli/preflight"
)

func TestEachFindingSaysHowBadItIsAndWhatToDo(t *testing.T) {
	many := []string{"f", "e", "d", "c", "b", "a"}
	lease := func(holder string, age time.Duration) *preflight.Lease {
		return &preflight.Lease{Holder: holder, Age: age, Duration: 10 * time.Second}
	}
	for name, tc := range map[string]struct {
		got   preflight.Finding
		level preflight.Level
		says  string
	}{
		"the version that is tested":    {preflight.Server("v1.37.2"), preflight.OK, "v1.37.2"},
		"a provider's version":          {preflight.Server("v1.31.4-gke.100"), preflight.OK, "1.30 or later"},
		"the first version":             {preflight.Server("v1.30.0"), preflight.OK, ""},
		"an old version":                {preflight.Server("v1.29.9"), preflight.Fail, "upgrade to 1.30"},
		"no version":                    {preflight.Server("main"), preflight.Warn, "could not be found out"},
		"all APIs":                      {preflight.APIs(nil), preflight.OK, ""},
		"an API is missing":             {preflight.APIs([]string{"events.k8s.io/v1"}), preflight.Fail, "events.k8s.io/v1: not served"},
		"clocks that agree":             {preflight.Skew(-2 * time.Second), preflight.OK, ""},
		"a clock ahead":                 {preflight.Skew(11 * time.Second), preflight.Warn, "11s apart"},
		"a clock behind":                {preflight.Skew(-time.Minute), preflight.Warn, "1m0s apart"},
		"may install":                   {preflight.Caller(nil, false), preflight.OK, ""},
		"may not install":               {preflight.Caller([]string{"create clusterroles"}, false), preflight.Fail, "administrator"},
		"may not upgrade":               {preflight.Caller([]string{"patch clusterroles"}, true), preflight.Warn, "could not upgrade"},
		"nothing is installed":          {preflight.Installed(false, "x"), preflight.OK, "nothing is installed"},
		"no namespace":                  {preflight.Namespace("x", nil), preflight.Fail, "no namespace x"},
		"restricted":                    {preflight.Namespace("x", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}), preflight.OK, ""},
		"privileged":                    {preflight.Namespace("x", map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}), preflight.Warn, "label it"},
		"nothing enforced":              {preflight.Namespace("x", map[string]string{}), preflight.Warn, "label it"},
		"objects as they should be":     {preflight.Objects("x", nil, nil), preflight.OK, ""},
		"objects that differ":           {preflight.Objects("x", nil, []string{"b", "a"}), preflight.Fail, "outdated or changed: a, b;"},
		"objects that are not there":    {preflight.Objects("x", many, []string{"z"}), preflight.Fail, "missing: a, b, c, d, e and 1 more;"},
		"all rights":                    {preflight.Permissions("me", nil), preflight.OK, "me"},
		"a right that is missing":       {preflight.Permissions("me", []string{"list pods"}), preflight.Fail, "me may not list pods"},
		"no workload":                   {preflight.Running(nil), preflight.Fail, "apply it"},
		"scaled to nothing":             {preflight.Running(&preflight.Workload{Name: "Deployment x"}), preflight.Fail, "scale it up"},
		"no replica":                    {preflight.Running(&preflight.Workload{Name: "Deployment x", Wanted: 2}), preflight.Fail, "none of 2"},
		"a replica too few":             {preflight.Running(&preflight.Workload{Name: "Deployment x", Wanted: 2, Ready: 1}), preflight.Warn, "1 of 2"},
		"all replicas":                  {preflight.Running(&preflight.Workload{Name: "Deployment x", Wanted: 2, Ready: 2}), preflight.OK, "2 of 2"},
		"no lease":                      {preflight.Leader(nil), preflight.Warn, "--leader-elect"},
		"a leader":                      {preflight.Leader(lease("a", 9*time.Second)), preflight.OK, "a leads"},
		"a leader whose clock is ahead": {preflight.Leader(lease("a", -time.Second)), preflight.OK, "0s ago"},
		"a leader that is gone":         {preflight.Leader(lease("a", 11*time.Second)), preflight.Fail, "nobody leads since 11s"},
		"a lease that was given back":   {preflight.Leader(lease("", time.Second)), preflight.Fail, "nobody leads"},
		"no answer":                     {preflight.Unknown("x", errors.New("no")), preflight.Warn, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.got.Level != tc.level || !strings.Contains(tc.got.Message, tc.says) || tc.got.Check == "" {
				t.Errorf("got %+v, want %s with %q", tc.got, tc.level, tc.says)
			}
		})
	}
}

func TestReceiversThatFailAreNamedOneByOne(t *testing.T) {
	found := preflight.Receivers([]preflight.Receiver{
		{Name: "a", Ready: true, Looked: true},
		{Name: "b", Suspended: true, Looked: true, Reason: "Suspended"},
		{Name: "c", Looked: true, Reason: "SecretNotFound", Message: "it is gone"},
		{Name: "d"},
	})
	if len(found) != 2 || found[0].Message != "c is not Ready: SecretNotFound: it is gone" || !strings.HasPrefix(found[1].Message, "d was not looked at") {
		t.Errorf("got %+v", found)
	}
	if preflight.Failed(found) != 0 {
		t.Error("a receiver of a tenant's makes the installation unfit")
	}
	if well := preflight.Receivers(nil); len(well) != 1 || well[0].Level != preflight.OK {
		t.Errorf("without receivers: %+v", well)
	}
}
