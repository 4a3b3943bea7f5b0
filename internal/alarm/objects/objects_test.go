package objects

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// scene is an API server, a store, and a source that can be restarted.
type scene struct {
	t *testing.T
	*api
	store  *store
	source *Source
	needs  Needs
	stop   func()
}

// inScene runs a test with a source that has read the first objects: web=1 and db=1, and others
// that fill several pages.
func inScene(t *testing.T, test func(s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, api: newAPI(), store: newStore(), needs: need(t, deployments, "spec.value")}
		for _, name := range []string{"web", "db", "a", "b", "c"} {
			s.value(name, 1)
		}
		s.start()
		defer func() { s.stop() }()
		settle()
		test(s)
	})
}

func (s *scene) start() {
	s.source, s.stop = run(s.t, s.api, s.store, s.store.commit, s.needs)
}

func (s *scene) value(name string, value int) { s.set(name, map[string]any{"value": value}) }

// wants compares the changes so far.
func (s *scene) wants(want ...string) {
	s.t.Helper()
	settle()
	if diff := cmp.Diff(want, s.store.texts()); diff != "" {
		s.t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// Each case changes objects. The source starts with web=1 and db=1.
func TestEachChangeIsReportedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(s *scene)
		want []string
	}{
		"nothing for existing objects": {do: func(*scene) {}},
		"an update": {
			do:   func(s *scene) { s.value("web", 2) },
			want: []string{"Update web 1 -> 2"},
		},
		"two updates at once": {
			do:   func(s *scene) { s.value("web", 2); s.value("web", 3) },
			want: []string{"Update web 1 -> 2", "Update web 2 -> 3"},
		},
		"a creation and a deletion": {
			do:   func(s *scene) { s.value("new", 1); settle(); s.delete("new"); s.delete("db") },
			want: []string{"Create new 1", "Delete new 1", "Delete db 1"},
		},
		"an object that is created again": {
			do:   func(s *scene) { s.delete("web"); s.value("web", 1) },
			want: []string{"Delete web 1", "Create web 1"},
		},
		"nothing for a field that no alarm names": {
			do: func(s *scene) { s.touch("web"); settle(); s.touch("web") },
		},
		"nothing for a new connection": {
			do: func(s *scene) { s.disconnect(); settle(); s.disconnect() },
		},
		"changes during a disconnection": {
			do: func(s *scene) {
				s.disconnect()
				s.value("web", 2)
				s.value("web", 3)
			},
			want: []string{"Update web 1 -> 2", "Update web 2 -> 3"},
		},
		"nothing for a restart": {
			do: func(s *scene) { s.stop(); s.start() },
		},
		"changes while no operator runs": {
			do: func(s *scene) {
				s.stop()
				s.value("web", 2)
				s.touch("web")
				s.value("web", 3)
				s.delete("db")
				s.start()
			},
			want: []string{"Update web 1 -> 2", "Update web 2 -> 3", "Delete db 1"},
		},
		"one change for all that an expired position contained": {
			do: func(s *scene) {
				s.stop()
				s.value("web", 2)
				s.value("web", 3)
				s.touch("a")
				s.delete("db")
				s.value("new", 7)
				s.compact()
				s.start()
			},
			want: []string{"Create new 7", "Update web 1 -> 3", "Delete db 1"},
		},
		"nothing for a list without a difference": {
			do: func(s *scene) {
				s.stop()
				s.value("web", 2)
				s.value("web", 1)
				s.compact()
				s.start()
			},
		},
		"a deletion and a creation during a gap": {
			do: func(s *scene) {
				s.stop()
				s.delete("web")
				s.value("web", 5)
				s.compact()
				s.start()
			},
			want: []string{"Create web 5", "Delete web 1"},
		},
		"a change while the handler fails": {
			do: func(s *scene) {
				s.store.with(func() { s.store.fail = errors.New("disk") })
				s.value("web", 2)
				settle()
				s.value("web", 3)
				s.store.with(func() { s.store.fail = nil })
			},
			want: []string{"Update web 1 -> 2", "Update web 2 -> 3"},
		},
		"a change whose commit failed before a restart": {
			do: func(s *scene) {
				s.store.with(func() { s.store.fail = errors.New("disk") })
				s.value("web", 2)
				settle()
				s.stop()
				s.store.with(func() { s.store.fail = nil })
				s.start()
			},
			want: []string{"Update web 1 -> 2"},
		},
		"an etcd that is restored from an older copy": {
			do: func(s *scene) {
				s.value("web", 2)
				settle()
				s.with(func() { // before the update
					last := len(s.history) - 1
					s.history, s.position = s.history[:last], s.history[last].position-1
				})
				s.disconnect()
				settle()
				s.value("web", 9)
			},
			want: []string{"Update web 1 -> 2", "Update web 2 -> 1", "Update web 1 -> 9"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				tc.do(s)
				s.wants(tc.want...)
			})
		})
	}
}

func TestAChangeDescribesItsObject(t *testing.T) {
	inScene(t, func(s *scene) {
		at := time.Now().UTC().Truncate(time.Second)
		s.value("web", 2)
		settle()
		got := s.store.changes[0]
		want := alarm.Event{
			Namespace: "team", Name: "web", UID: "00000001-5bd1-4e3a-9c64-0123456789ab", Type: "Normal", Reason: "Updated", Action: "Update",
			Count: 1, FirstSeen: at, LastSeen: at, ReportingController: "kubectl",
			Regarding: alarm.Reference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "team", Name: "web", UID: "00000001-5bd1-4e3a-9c64-0123456789ab"},
		}
		if diff := cmp.Diff(want, got.Event); diff != "" {
			t.Errorf("Event (-want +got):\n%s", diff)
		}
		if got.Increase != 1 || got.Position != s.position || !got.ObservedAt.Equal(at) {
			t.Errorf("increase %d, position %d, observed at %v; want 1, %d, %v", got.Increase, got.Position, got.ObservedAt, s.position, at)
		}
		c := got.Change
		if c.Resource != (alarm.Resource{Group: "apps", Version: "v1", Resource: "deployments"}) || c.Manager != "kubectl" {
			t.Errorf("resource %+v, manager %q", c.Resource, c.Manager)
		}
		if !c.Known("spec.value") || c.Known("spec.other") {
			t.Error("known are other fields than spec.value")
		}
	})
}

// A tenant can write managedFields.
func TestTheTimeOfAChangeIsLimited(t *testing.T) {
	for name, written := range map[string]string{"too early": "1999-01-01T00:00:00Z", "too late": "2999-01-01T00:00:00Z", "malformed": "soon"} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				before := s.store.stream().Time
				s.changeAt("web", written, func(object map[string]any) { object["spec"] = map[string]any{"value": 2} })
				settle()
				if at := s.store.changes[0].ObservedAt; at.Before(before) || at.After(time.Now()) {
					t.Errorf("observed at %v, want between %v and now", at, before)
				}
			})
		})
	}
}

// managedFields does not name who removed a field.
func TestAChangeOfAnUnknownWriterHasTheTimeAtWhichItIsNoticed(t *testing.T) {
	inScene(t, func(s *scene) {
		time.Sleep(30 * time.Second)
		s.changeAt("web", time.Now().UTC().Add(-20*time.Second).Format(time.RFC3339), func(object map[string]any) { object["spec"] = map[string]any{} })
		now := time.Now().Truncate(time.Second)
		settle()
		if got := s.store.changes[0]; got.Change.Manager != "" || got.ObservedAt.Before(now) {
			t.Errorf("by %q, observed at %v, want no manager, and %v or later", got.Change.Manager, got.ObservedAt, now)
		}
	})
}

func TestAChangeByTheSubresourceScaleHasItsManager(t *testing.T) {
	for name, tc := range map[string]struct {
		needs []string
		value int
		other string
		want  string
	}{
		"of its field":                   {[]string{"spec.value", "spec.other"}, 2, "x", "hpa"},
		"of another field":               {[]string{"spec.value", "spec.other"}, 1, "y", "kubectl"},
		"of a field that no alarm names": {[]string{"spec.other"}, 2, "y", "kubectl"},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				s.set("web", map[string]any{"value": 1, "other": "x"})
				s.stop()
				s.needs = need(t, deployments, tc.needs...)
				s.start()
				settle()
				s.managers = []any{map[string]any{"manager": "hpa", "subresource": "scale", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:value": map[string]any{}}}}}
				s.set("web", map[string]any{"value": tc.value, "other": tc.other})
				settle()
				if got := s.store.changes[len(s.store.changes)-1].Change; got.Operation != alarm.Update || got.Manager != tc.want {
					t.Errorf("got %s by %q, want an update by %q", got.Operation, got.Manager, tc.want)
				}
			})
		})
	}
}

func TestANewFieldIsNotAChange(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			inScene(t, func(s *scene) {
				s.set("web", map[string]any{"value": 1, "other": "x"})
				settle()
				s.needs = need(t, deployments, "spec.value", "spec.other")
				if restart {
					s.stop()
					s.set("web", map[string]any{"value": 2, "other": "y"})
					s.start()
				} else {
					s.source.SetNeeds(s.needs)
				}
				settle()
				if restart {
					s.wants("Update web 1 -> 2")
					if c := s.store.changes[0].Change; c.Known("spec.other") || !c.Known("spec.value") {
						t.Error("the new field counts as known, or the old one does not")
					}
				} else {
					s.wants()
				}
				before := len(s.store.texts())
				s.set("web", map[string]any{"value": 2 * before, "other": "z"})
				settle()
				if got := len(s.store.texts()); got != before+1 {
					t.Fatalf("%d changes, want %d", got, before+1)
				}
				if !s.store.changes[before].Change.Known("spec.other") {
					t.Error("the field is not known after the list")
				}
			})
		})
	}
}

func TestAnotherVersionIsANewBaseline(t *testing.T) {
	inScene(t, func(s *scene) {
		s.value("web", 2)
		settle()
		s.with(func() {
			s.resource.Version = "v2"
			for _, h := range s.history {
				h.object["spec"] = map[string]any{"value": "two"}
			}
		})
		s.disconnect()
		settle()
		settle()
		if got := s.store.stream(); got.Version != "v2" || !got.Complete {
			t.Errorf("stream %+v, want version v2", got)
		}
		if !s.store.lost("is no longer served") {
			t.Error("it is not reported that changes can be lost")
		}
		s.value("web", 3)
		s.wants("Update web 1 -> 2", "Update web two -> 3")
		if got := s.store.changes[1].Event.Regarding.APIVersion; got != "apps/v2" {
			t.Errorf("apiVersion %q", got)
		}
	})
}

// Another replica takes over with an empty disk, and knows the position only.
func TestAnEmptyDiskBeginsAtThePosition(t *testing.T) {
	for name, compacted := range map[string]bool{"kept": false, "compacted": true} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				s.value("web", 2)
				settle()
				s.stop()
				known := s.store.stream()
				s.value("web", 3)
				s.delete("db")
				if compacted {
					s.compact()
				}
				s.store = newStore()
				s.store.streams[known.Name] = outbox.Stream{Name: known.Name, Version: known.Version, Position: known.Position, Time: known.Time}
				s.start()
				settle()
				s.value("web", 4)
				settle()
				if lost := s.store.lost("can be lost"); lost != compacted {
					t.Errorf("lost is %t, want %t", lost, compacted)
				}
				if compacted {
					s.wants("Update web 3 -> 4")
				} else {
					s.wants("Update web 2 -> 3", "Delete db 1", "Update web 3 -> 4")
				}
			})
		})
	}
}

// A former state that cannot be read concerns one object. The changes of all others go on.
func TestAFormerStateThatCannotBeReadStopsNoOtherObject(t *testing.T) {
	for name, spoil := range map[string]func(*outbox.Baseline){
		"data":  func(b *outbox.Baseline) { b.Data = []byte("garbage") },
		"shape": func(b *outbox.Baseline) { b.Shape = "a b" },
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				settle()
				s.store.mu.Lock()
				for _, baselines := range s.store.baselines {
					for uid, b := range baselines {
						if strings.HasPrefix(uid, "00000001") { // web
							spoil(&b)
							baselines[uid] = b
						}
					}
				}
				s.store.mu.Unlock()
				s.value("web", 2)
				s.value("db", 5)
				settle()
				s.wants("Update db 1 -> 5")
				s.value("web", 3)
				s.wants("Update db 1 -> 5", "Update web 2 -> 3")
			})
		})
	}
}

// etcd is restored after a takeover: the offsets of the former history cover no later change.
func TestDeliveredOffsetsEndWithTheirHistory(t *testing.T) {
	inScene(t, func(s *scene) {
		s.value("web", 2)
		settle()
		s.stop()
		row := s.store.stream()
		row.Position, row.Complete, row.Delivered = row.Position+1000, false, progress.Offsets{Position: row.Position + 2000}
		s.store = newStore()
		s.store.streams[row.Name] = row
		s.start()
		settle()
		s.value("web", 3)
		settle()
		if got := s.store.stream(); got.Delivered.Position != 0 {
			t.Errorf("stream %+v, want no delivered offsets of another history", got)
		}
		s.wants("Update web 2 -> 3")
	})
}

// A crash during the first list must leave nothing that counts as complete.
func TestAnInterruptedBaselineBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, api: newAPI(), store: newStore(), needs: need(t, deployments, "spec.value")}
		for i := range maxChanges + 10 {
			s.value(fmt.Sprintf("o%04d", i), 1)
		}
		killed := make(chan struct{})
		kill := sync.OnceFunc(func() { close(killed) })
		_, stop := run(t, s.api, s.store, func(ctx context.Context, b Batch) error {
			if len(s.store.batches) == 1 {
				kill()
				return errors.New("killed")
			}
			return s.store.commit(ctx, b)
		}, s.needs)
		<-killed
		stop()
		if got := s.store.stream(); got.Complete || got.Position != 0 || len(s.store.baselines[got.Name]) == 0 {
			t.Fatalf("stream %+v with %d baselines, want an incomplete one", got, len(s.store.baselines[got.Name]))
		}
		s.delete("o0001")
		s.value("o0002", 2)
		s.start()
		defer func() { s.stop() }()
		s.wants()
		if got := s.store.stream(); !got.Complete || len(s.store.baselines[got.Name]) != maxChanges+9 {
			t.Errorf("stream %+v with %d baselines", got, len(s.store.baselines[got.Name]))
		}
	})
}

// A list whose position expires goes on at a newer one. Its pages show different times.
func TestAListWhosePositionExpiresIsListedAgain(t *testing.T) {
	inScene(t, func(s *scene) {
		s.stop()
		s.value("a", 2)
		s.compact()
		once := true
		s.beforePage = func(query url.Values) {
			if once && query.Get("continue") != "" {
				once = false
				s.value("a", 3)   // its page was read
				s.value("web", 2) // its page comes
				s.value("web", 3)
				s.compact()
			}
		}
		s.start()
		s.wants("Update a 1 -> 2", "Update web 1 -> 3", "Update a 2 -> 3")
	})
}

// A list of other fields fails after its first page. Then, the former fields are needed again.
func TestAnInterruptedListOfOtherFieldsIsRepeated(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			inScene(t, func(s *scene) {
				s.with(func() {
					s.beforePage = func(query url.Values) {
						if query.Get("continue") != "" {
							s.with(func() { s.forbidden = true })
						}
					}
				})
				s.source.SetNeeds(need(t, deployments, "spec.other"))
				time.Sleep(time.Minute)
				s.with(func() {
					if !s.forbidden {
						t.Error("no list was interrupted")
					}
				})
				if restart {
					s.stop()
				}
				s.with(func() { s.beforePage, s.forbidden = nil, false })
				if restart {
					s.start()
				}
				s.source.SetNeeds(s.needs)
				time.Sleep(15 * time.Minute) // its waits after failures are over
				names := []string{"a", "b", "c", "db", "web"}
				var want []string
				for _, name := range names {
					s.value(name, 7)
					want = append(want, "Update "+name+" 1 -> 7")
				}
				s.wants(want...)
			})
		})
	}
}

func TestASilentWatchIsReplaced(t *testing.T) {
	inScene(t, func(s *scene) {
		s.with(func() { s.muted = s.watches + 1 })
		s.disconnect()
		time.Sleep(5 * time.Second)
		s.value("web", 2)
		s.wants()
		time.Sleep(time.Minute)
		s.wants("Update web 1 -> 2")
		if s.lists != 1 {
			t.Errorf("%d lists, want the watch to resume", s.lists)
		}
	})
}

func TestStatusOfAResource(t *testing.T) {
	for name, tc := range map[string]struct {
		resource alarm.Resource
		spoil    func(a *api)
		repair   func(a *api)
		reason   string
		message  string
	}{
		"served": {resource: deployments},
		"misspelt": {
			resource: alarm.Resource{Group: "apps", Resource: "deployment"},
			reason:   KindNotFound, message: "did you mean deployments?",
		},
		"of another group": {
			resource: alarm.Resource{Resource: "deployments"},
			reason:   KindNotFound, message: `did you mean deployments in apiGroup "apps"?`,
		},
		"of another version": {
			resource: alarm.Resource{Group: "apps", Version: "v1beta1", Resource: "deployments"},
			reason:   KindNotFound, message: "did you mean deployments in version v1?",
		},
		"not installed yet": {
			resource: deployments,
			spoil:    func(a *api) { a.missing = true }, repair: func(a *api) { a.missing = false },
			reason: KindNotFound, message: "install its CustomResourceDefinition",
		},
		"not discovered": {
			resource: deployments,
			spoil:    func(a *api) { a.broken = true }, repair: func(a *api) { a.broken = false },
			reason: Unavailable, message: "the operator retries",
		},
		"of an aggregated API that is down": {
			resource: alarm.Resource{Group: "down.example.com", Resource: "widgets"},
			reason:   Unavailable, message: `in group "down.example.com": check its APIService`,
		},
		"forbidden": {
			resource: deployments,
			spoil:    func(a *api) { a.forbidden = true }, repair: func(a *api) { a.forbidden = false },
			reason: Forbidden, message: `apiGroups: ["apps"], resources: ["deployments"], verbs: [list, watch]`,
		},
		"excluded": {
			resource: alarm.Resource{Group: "events.k8s.io", Resource: "events"},
			reason:   Excluded, message: "use spec.match",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{t: t, api: newAPI(), store: newStore(), needs: need(t, tc.resource, "spec.value")}
				s.value("web", 1)
				if tc.spoil != nil {
					s.with(func() { tc.spoil(s.api) })
				}
				s.start()
				defer func() { s.stop() }()
				settle()
				got := s.source.Status(tc.resource, everywhere, fields.Shape{})
				if got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
					t.Errorf("status %+v, want %s: ...%s...", got, tc.reason, tc.message)
				}
				if tc.repair == nil && tc.reason != "" {
					return
				}
				notified := false
				s.source.Notify(func(Concerns) { notified = true })
				if tc.repair != nil {
					s.with(func() { tc.repair(s.api) })
				}
				settle()
				want := Status{Synced: true, Served: alarm.Served{Version: "v1", Kind: "Deployment", Namespaced: true}}
				if got := s.source.Status(tc.resource, everywhere, fields.Shape{}); got != want {
					t.Errorf("status %+v, want %+v", got, want)
				}
				if notified != (tc.repair != nil) {
					t.Errorf("notified: %t", notified)
				}
			})
		})
	}
}

// An aggregated API that does not answer delays a discovery. The watches of known resources go on.
func TestAnAggregatedAPIThatHangsStopsNoOtherResource(t *testing.T) {
	inScene(t, func(s *scene) {
		s.hang = make(chan struct{})
		s.needs.Add(alarm.Resource{Group: "down.example.com", Resource: "widgets"}, shape(t, "spec"), everywhere)
		s.source.SetNeeds(s.needs)
		time.Sleep(5 * time.Second)
		s.disconnect()
		s.value("web", 2)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := strings.Join(s.store.texts(), ", "); got != "Update web 1 -> 2" {
			t.Errorf("changes %q while a discovery hangs", got)
		}
		close(s.hang)
	})
}

func TestAResourceThatNoAlarmNeedsIsForgotten(t *testing.T) {
	inScene(t, func(s *scene) {
		s.source.SetNeeds(Needs{})
		settle()
		if len(s.store.streams) != 0 {
			t.Errorf("streams %v, want none", s.store.streams)
		}
		watches := s.watches
		s.disconnect()
		settle()
		if s.watches != watches {
			t.Error("the resource is still watched")
		}
		s.source.SetNeeds(s.needs)
		settle()
		s.value("web", 2)
		s.wants("Update web 1 -> 2")
	})
}

func TestValuesOfSecretsAreNeverRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := alarm.Resource{Resource: "secrets"}
		s := &scene{t: t, api: newAPI(), store: newStore(), needs: need(t, secrets, ".")}
		s.resource, s.kind = alarm.Resource{Version: "v1", Resource: "secrets"}, "Secret"
		write := func(value string) {
			s.change("token", func(object map[string]any) { object["data"] = map[string]any{"token": value} })
		}
		write("c2VjcmV0")
		s.start()
		defer func() { s.stop() }()
		settle()
		write("b3RoZXI=")
		s.change("token", func(object map[string]any) { object["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"} })
		settle()
		if len(s.store.changes) != 1 {
			t.Fatalf("%d changes, want that of the label", len(s.store.changes))
		}
		for _, c := range s.store.changes {
			if c.Change.Object["data"] != nil {
				t.Errorf("the change contains data: %v", c.Change.Object)
			}
		}
		for _, b := range s.store.baselines["secrets"] {
			if content, err := fields.Decode(b.Data); err != nil || content["data"] != nil {
				t.Errorf("the baseline contains data: %v, %v", content, err)
			}
		}
		for _, accept := range s.accepted {
			if !strings.Contains(accept, "PartialObjectMetadata") || strings.Contains(accept, ",") {
				t.Errorf("whole Secrets are accepted: %s", accept)
			}
		}
	})
}

func TestAPositionIsCommittedWithoutChanges(t *testing.T) {
	inScene(t, func(s *scene) {
		batches := s.store.commits()
		for range 50 {
			s.touch("web")
			time.Sleep(100 * time.Millisecond)
		}
		settle()
		if got := s.store.stream().Position; got != s.position {
			t.Errorf("position %d, want %d", got, s.position)
		}
		if got := s.store.commits() - batches; got > 10 {
			t.Errorf("%d batches for updates that no alarm needs", got)
		}
	})
}

func TestTheBaselineWithoutSpaceIsNotReported(t *testing.T) {
	inScene(t, func(s *scene) {
		s.stop()
		name := s.store.stream().Name
		s.store.with(func() {
			row := s.store.streams[name]
			row.Omitted = []string{"team"}
			s.store.streams[name] = row
			for uid, b := range s.store.baselines[name] {
				switch b.Data = nil; uid {
				case "00000001-5bd1-4e3a-9c64-0123456789ab": // web has a row only
					s.store.baselines[name][uid] = b
				default:
					delete(s.store.baselines[name], uid)
				}
			}
		})
		s.value("web", 2)
		s.start()
		settle()
		s.value("web", 3)
		s.value("new", 1)
		s.wants("Update web 2 -> 3", "Create new 1")
	})
}
