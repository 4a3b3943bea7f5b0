package fitness_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/fitness"
)

func TestEachFindingSaysHowBadItIsAndWhatToDo(t *testing.T) {
	many := []string{"f", "e", "d", "c", "b", "a"}
	lease := func(holder string, age time.Duration) *fitness.Lease {
		return &fitness.Lease{Holder: holder, Age: age, Duration: 10 * time.Second}
	}
	for name, tc := range map[string]struct {
		got   fitness.Finding
		level fitness.Level
		says  string
	}{
		"the version that is tested":    {fitness.Server("v1.37.2"), fitness.OK, "v1.37.2"},
		"a provider's version":          {fitness.Server("v1.31.4-gke.100"), fitness.OK, "1.30 or later"},
		"the first version":             {fitness.Server("v1.30.0"), fitness.OK, ""},
		"an old version":                {fitness.Server("v1.29.9"), fitness.Fail, "upgrade to 1.30"},
		"no version":                    {fitness.Server("main"), fitness.Warn, "could not be found out"},
		"all APIs":                      {fitness.APIs(nil), fitness.OK, ""},
		"an API is missing":             {fitness.APIs([]string{"events.k8s.io/v1"}), fitness.Fail, "events.k8s.io/v1: not served"},
		"clocks that agree":             {fitness.Skew(-2 * time.Second), fitness.OK, ""},
		"a clock ahead":                 {fitness.Skew(11 * time.Second), fitness.Warn, "11s apart"},
		"a clock behind":                {fitness.Skew(-time.Minute), fitness.Warn, "1m0s apart"},
		"may install":                   {fitness.Caller(nil, false), fitness.OK, ""},
		"may not install":               {fitness.Caller([]string{"create clusterroles"}, false), fitness.Fail, "administrator"},
		"may not upgrade":               {fitness.Caller([]string{"patch clusterroles"}, true), fitness.Warn, "could not upgrade"},
		"nothing is installed":          {fitness.Installed(false, "x"), fitness.OK, "nothing is installed"},
		"no namespace":                  {fitness.Namespace("x", nil), fitness.Fail, "no namespace x"},
		"restricted":                    {fitness.Namespace("x", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}), fitness.OK, ""},
		"privileged":                    {fitness.Namespace("x", map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}), fitness.Warn, "label it"},
		"nothing enforced":              {fitness.Namespace("x", map[string]string{}), fitness.Warn, "label it"},
		"objects as they should be":     {fitness.Objects("x", nil, nil), fitness.OK, ""},
		"objects that differ":           {fitness.Objects("x", nil, []string{"b", "a"}), fitness.Fail, "outdated or changed: a, b;"},
		"objects that are not there":    {fitness.Objects("x", many, []string{"z"}), fitness.Fail, "missing: a, b, c, d, e and 1 more;"},
		"all rights":                    {fitness.Rights("me", nil), fitness.OK, "me"},
		"a right that is missing":       {fitness.Rights("me", []string{"list pods"}), fitness.Fail, "me may not list pods"},
		"no workload":                   {fitness.Running(nil), fitness.Fail, "apply it"},
		"scaled to nothing":             {fitness.Running(&fitness.Workload{Name: "Deployment x"}), fitness.Fail, "scale it up"},
		"no replica":                    {fitness.Running(&fitness.Workload{Name: "Deployment x", Wanted: 2}), fitness.Fail, "none of 2"},
		"a replica too few":             {fitness.Running(&fitness.Workload{Name: "Deployment x", Wanted: 2, Ready: 1}), fitness.Warn, "1 of 2"},
		"all replicas":                  {fitness.Running(&fitness.Workload{Name: "Deployment x", Wanted: 2, Ready: 2}), fitness.OK, "2 of 2"},
		"no lease":                      {fitness.Leader(nil), fitness.Warn, "--leader-elect"},
		"a leader":                      {fitness.Leader(lease("a", 9*time.Second)), fitness.OK, "a leads"},
		"a leader whose clock is ahead": {fitness.Leader(lease("a", -time.Second)), fitness.OK, "0s ago"},
		"a leader that is gone":         {fitness.Leader(lease("a", 11*time.Second)), fitness.Fail, "nobody leads since 11s"},
		"a lease that was given back":   {fitness.Leader(lease("", time.Second)), fitness.Fail, "nobody leads"},
		"no answer":                     {fitness.Unknown("x", errors.New("no")), fitness.Warn, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.got.Level != tc.level || !strings.Contains(tc.got.Message, tc.says) || tc.got.Check == "" {
				t.Errorf("got %+v, want %s with %q", tc.got, tc.level, tc.says)
			}
		})
	}
}

func TestReceiversThatFailAreNamedOneByOne(t *testing.T) {
	found := fitness.Receivers([]fitness.Receiver{
		{Name: "a", Ready: true, Looked: true},
		{Name: "b", Suspended: true, Looked: true, Reason: "Suspended"},
		{Name: "c", Looked: true, Reason: "SecretNotFound", Message: "it is gone"},
		{Name: "d"},
	})
	if len(found) != 2 || found[0].Message != "c is not Ready: SecretNotFound: it is gone" || !strings.HasPrefix(found[1].Message, "d was not looked at") {
		t.Errorf("got %+v", found)
	}
	if fitness.Failed(found) != 0 {
		t.Error("a receiver of a tenant's makes the installation unfit")
	}
	if well := fitness.Receivers(nil); len(well) != 1 || well[0].Level != fitness.OK {
		t.Errorf("without receivers: %+v", well)
	}
}
