package objects

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// ofTeam and ofOther are Alarms.
var (
	ofTeam  = kube.Key{Kind: alarm.KindAlarm, Namespace: "team", Name: "it"}
	ofOther = kube.Key{Kind: alarm.KindAlarm, Namespace: "other", Name: "it"}
)

// kept returns what is stored of an object, as JSON.
func (s *scene) kept(name string) string {
	s.t.Helper()
	s.mu.Lock()
	uid := s.at(s.position)[name]["metadata"].(map[string]any)["uid"].(string)
	s.mu.Unlock()
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	base, ok := s.store.baselines["deployments.apps"][uid]
	if !ok {
		s.t.Errorf("nothing is stored of %s", name)
	}
	if len(base.Data) == 0 {
		return ""
	}
	content, err := fields.Decode(base.Data)
	if err != nil {
		s.t.Fatal(err)
	}
	return valueOf(content)
}

func valueOf(content map[string]any) string {
	spec, _ := content["spec"].(map[string]any)
	var names []string
	for _, name := range []string{"big", "value"} {
		if spec[name] != nil {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func TestWhatAnAlarmNamesIsKeptInItsNamespaceOnly(t *testing.T) {
	inScene(t, func(s *scene) {
		for _, name := range []string{"web", "other.web"} {
			s.set(name, map[string]any{"value": 2, "big": strings.Repeat("x", 1000)})
		}
		needs := Needs{}
		needs.Add(deployments, shape(t, "spec.big"), ofOther)
		s.source.SetNeeds(needs)
		settle()
		settle()
		if got := s.kept("web"); got != "" {
			t.Errorf("%s is kept of an object that no alarm needs", got)
		}
		if got := s.kept("other.web"); got != "big" {
			t.Errorf("%q is kept, want big", got)
		}
		needs.Add(deployments, shape(t, "spec.value"), everywhere)
		s.source.SetNeeds(needs)
		settle()
		if team, other := s.kept("web"), s.kept("other.web"); team != "value" || other != "big,value" {
			t.Errorf("kept are %q and %q, want value, and big,value", team, other)
		}
	})
}

func TestChangesInNamespacesWithoutAlarmsAreNotReported(t *testing.T) {
	inScene(t, func(s *scene) {
		s.value("other.web", 1)
		s.needs = Needs{}
		s.needs.Add(deployments, shape(t, "spec.value"), ofOther)
		s.source.SetNeeds(s.needs)
		settle()
		settle()
		before := len(s.store.texts())
		batches := s.store.commits()
		for i := range 20 {
			s.value("web", 10+i)
			time.Sleep(time.Second)
		}
		if got := s.store.commits() - batches; got > 3 {
			t.Errorf("%d batches for objects that no alarm needs", got)
		}
		s.value("new", 1)
		s.delete("db")
		s.value("other.web", 2)
		settle()
		if got := strings.Join(s.store.texts()[before:], ", "); got != "Update other.web 1 -> 2" {
			t.Errorf("changes %q", got)
		}
		// An object that was not needed so far is no new one, and its changes count from now.
		before++
		s.needs.Add(deployments, shape(t, "spec.value"), ofTeam)
		s.source.SetNeeds(s.needs)
		settle()
		s.value("web", 50)
		s.delete("new")
		settle()
		if got := strings.Join(s.store.texts()[before:], ", "); got != "Update web 29 -> 50, Delete new 1" {
			t.Errorf("changes %q", got)
		}
	})
}

func TestFieldsThatNoAlarmNeedsAreNotKept(t *testing.T) {
	inScene(t, func(s *scene) {
		s.set("web", map[string]any{"value": 1, "big": "x"})
		further := need(t, deployments, "spec.value")
		further.Add(deployments, shape(t, "spec.big"), ofTeam)
		s.source.SetNeeds(further)
		settle()
		if got := s.kept("web"); got != "big,value" {
			t.Errorf("kept is %q, want big,value", got)
		}
		s.source.SetNeeds(s.needs)
		settle()
		if got := s.kept("web"); got != "value" {
			t.Errorf("kept is %q, want value", got)
		}
	})
}

// A tenant who changes an Alarm all the time, or deletes and creates it, causes few lists.
func TestTenantsWhoChangeTheirNeedsCauseFewLists(t *testing.T) {
	value := need(t, deployments, "spec.value")
	displacing := Needs{} // they leave no place for a watch that no alarm needs
	for i := range maxResources {
		displacing.Add(alarm.Resource{Group: "apps", Resource: fmt.Sprintf("r%02d", i)}, shape(t, "spec"), ofTeam)
	}
	for name, needs := range map[string][2]Needs{
		"other fields": {need(t, deployments, "spec.value", "spec.big"), need(t, deployments, "spec.value", "spec.more")},
		"more fields":  {need(t, deployments, "spec.value", "spec.big"), value},
		"resource":     {{}, value},
		"64 resources": {displacing, value},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				const pages, pageTime, flips = 3, 2 * time.Second, 600
				s.with(func() { s.pageTime = pageTime })
				began := time.Now()
				for i := range flips {
					s.source.SetNeeds(needs[i%2])
					time.Sleep(2 * time.Second)
				}
				var listing time.Duration
				s.with(func() { listing = s.listing })
				if most := time.Since(began)/10 + 2*pages*pageTime; listing > most || listing == 0 && name == "other fields" {
					t.Errorf("lists took %s, want at most %s", listing, most)
				}
				s.source.SetNeeds(s.needs)
				settle()
				s.value("web", 2)
				s.wants("Update web 1 -> 2")
			})
		})
	}
}

func TestPausesAreBounded(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	s := &Source{clock: clk, pauses: map[string]time.Time{}}
	for i := range maxPauses + 5 {
		s.listed(fmt.Sprintf("r%04d", i), time.Duration(i+1)*time.Second)
	}
	if _, kept := s.pauses["r0004"]; kept || len(s.pauses) != maxPauses {
		t.Errorf("%d pauses, the shortest ones too: %t", len(s.pauses), kept)
	}
	longest := fmt.Sprintf("r%04d", maxPauses+4)
	if got, want := s.pauseEnd(longest).Sub(clk.Now()), listShare*(maxPauses+5)*time.Second; got != want {
		t.Errorf("a pause of %s, want %s", got, want)
	}
	clk.Step(24 * time.Hour)
	s.listed("new", time.Second)
	if len(s.pauses) != 1 {
		t.Errorf("%d pauses, want those that have ended removed", len(s.pauses))
	}
}

// The wait for a full outbox loads no API server. It must not delay the next list.
func TestAListThatWaitsForTheOutboxDelaysNoOther(t *testing.T) {
	inScene(t, func(s *scene) {
		s.stop()
		for _, name := range []string{"web", "db", "a", "b", "c"} {
			s.set(name, map[string]any{"value": 1, "big": "x"})
		}
		var full atomic.Bool
		s.source, s.stop = run(s.t, s.api, s.store, func(ctx context.Context, b Batch) error {
			if full.Load() && len(b.Put) > 0 {
				return file.ErrFull
			}
			return s.store.commit(ctx, b)
		}, s.needs)
		settle()
		full.Store(true)
		s.with(func() { s.beforePage = func(url.Values) { time.Sleep(time.Second) } })
		s.source.SetNeeds(need(t, deployments, "spec.value", "spec.big"))
		time.Sleep(time.Hour)
		full.Store(false)
		settle()
		s.source.SetNeeds(need(t, deployments, "spec.value", "spec.more"))
		time.Sleep(2 * time.Minute)
		if !s.source.Status(deployments, everywhere, shape(t, "spec.more")).Synced {
			s.t.Error("the next list is delayed by the wait for the outbox")
		}
	})
}

// Before all objects are read with the fields of an alarm, its changes can be missed.
func TestAnAlarmIsSyncedWhenItsFieldsAreRead(t *testing.T) {
	inScene(t, func(s *scene) {
		wants := func(by kube.Key, path string, want bool) {
			t.Helper()
			synctest.Wait()
			if got := s.source.Status(deployments, by, shape(t, path)).Synced; got != want {
				t.Errorf("synced for %s of %s is %t, want %t", path, by.Kind, got, want)
			}
		}
		wants(everywhere, "spec.value", true)
		wants(ofTeam, "spec.value", true)
		wants(everywhere, "spec.big", false)
		needs := need(t, deployments, "spec.value")
		needs.Add(deployments, shape(t, "spec.big"), ofTeam)
		release := make(chan struct{})
		s.with(func() { s.beforePage = func(url.Values) { <-release } })
		s.source.SetNeeds(needs)
		time.Sleep(5 * time.Second)
		wants(ofTeam, "spec.big", false)
		close(release)
		settle()
		wants(ofTeam, "spec.big", true)
		wants(ofOther, "spec.big", false)
		wants(everywhere, "spec.big", false)
	})
}

// Otherwise, each Alarm that a tenant creates enqueues those of all others.
func TestNewFieldsConcernOnlyTheirAlarms(t *testing.T) {
	inScene(t, func(s *scene) {
		value, big := shape(t, "spec.value"), shape(t, "spec.big")
		var concerned []string
		s.source.Notify(func(concerns Concerns) {
			for _, a := range []struct {
				by    kube.Key
				named fields.Shape
			}{{everywhere, value}, {ofTeam, value}, {ofTeam, big}, {ofOther, big}} {
				if concerns(deployments, a.by, a.named) {
					concerned = append(concerned, a.by.Namespace+" "+a.named.String())
				}
				if concerns(alarm.Resource{Resource: "pods"}, a.by, a.named) {
					t.Error("alarms of another resource are concerned")
				}
			}
		})
		needs := need(t, deployments, "spec.value")
		needs.Add(deployments, big, ofTeam)
		s.source.SetNeeds(needs)
		settle()
		if got := strings.Join(concerned, ", "); got != "team spec.big" {
			t.Errorf("concerned are %q", got)
		}
	})
}
