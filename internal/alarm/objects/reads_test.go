package objects

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// readScene is a scene whose API server answers reviews of access.
type readScene struct {
	*scene
	// denied are refused, by the name of the resource. reviews are those that were asked for.
	denied  map[string]bool
	reviews []string
	// starting: the API server refuses all requests, because it does not know the roles yet.
	starting bool
}

// inReadScene runs a test with a source that reads no resource yet.
func inReadScene(t *testing.T, test func(s *readScene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &readScene{scene: &scene{t: t, api: newAPI(), store: newStore(), needs: Needs{}}, denied: map[string]bool{}}
		s.api.answer = s.review
		s.start()
		defer func() { s.stop() }()
		settle()
		test(s)
	})
}

func (s *readScene) review(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
		return false
	}
	var review authorizationv1.SelfSubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		s.t.Error(err)
	}
	of := review.Spec.ResourceAttributes
	if of.Verb != "get" || of.Namespace != "" {
		s.t.Errorf("the source asks whether it can %s %s in namespace %q", of.Verb, of.Resource, of.Namespace)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starting {
		reply(w, http.StatusForbidden, &apierrors.NewForbidden(schema.GroupResource{}, "", nil).ErrStatus)
		return true
	}
	s.reviews = append(s.reviews, of.Resource)
	review.Status.Allowed = !s.denied[of.Resource]
	review.Kind, review.APIVersion = "SelfSubjectAccessReview", "authorization.k8s.io/v1"
	reply(w, http.StatusCreated, &review)
	return true
}

// reads makes alarms name these resources.
func (s *readScene) reads(resources ...alarm.Resource) {
	needs := Needs{}
	for _, r := range resources {
		needs.Add(r, fields.Shape{}, everywhere)
	}
	s.source.SetReads(needs)
	synctest.Wait()
}

func (s *readScene) wantReason(want, when string) {
	s.t.Helper()
	if got := s.source.ReadStatus(deployments); got.Reason != want || got.Synced != (want == "") {
		s.t.Errorf("%s: status %+v, want the reason %q", when, got, want)
	}
}

func TestAResourceOfReadObjectsIsReadIfTheOperatorCanGetIt(t *testing.T) {
	served := alarm.Served{Version: "v1", Kind: "Deployment", Namespaced: true}
	for name, tc := range map[string]struct {
		resource        alarm.Resource
		spoil           func(s *readScene)
		reason, message string
		served          alarm.Served
		unknown         bool
	}{
		"allowed": {resource: deployments, served: served},
		"denied": {
			resource: deployments, spoil: func(s *readScene) { s.denied["deployments"] = true },
			reason: Forbidden, message: `the operator is not allowed to get deployments.apps: create a ClusterRole with the label bongsu.io/aggregate-to-alarms: "true". Its rule is apiGroups: ["apps"], resources: ["deployments"], verbs: [get]`,
		},
		"misspelt": {resource: alarm.Resource{Group: "apps", Resource: "deployment"}, reason: KindNotFound, message: "did you mean deployments?"},
		"secrets":  {resource: alarm.Resource{Resource: "secrets"}, reason: Excluded, message: "secrets cannot be read for Events"},
		"of an aggregated API that is down": {
			resource: alarm.Resource{Group: "down.example.com", Resource: "widgets"},
			reason:   Unavailable, message: "check its APIService", unknown: true,
		},
		"not discovered": {resource: deployments, spoil: func(s *readScene) { s.broken = true }, reason: Unavailable, message: "the operator retries", unknown: true},
		"of an API server that does not know the roles yet": {
			resource: deployments, spoil: func(s *readScene) { s.starting = true }, reason: Unavailable, message: "the operator retries", unknown: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inReadScene(t, func(s *readScene) {
				if got, unread := s.source.Lookup(tc.resource); got != (alarm.Served{}) || unread == "" {
					t.Errorf("before the review: %+v, %q", got, unread)
				}
				if tc.spoil != nil {
					s.source.catalog.expire()
					s.with(func() { tc.spoil(s) })
				}
				s.reads(tc.resource)
				got := s.source.ReadStatus(tc.resource)
				if got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) || got.Synced != (tc.reason == "") {
					t.Errorf("status %+v, want %s: ...%s...", got, tc.reason, tc.message)
				}
				if got, unread := s.source.Lookup(tc.resource); got != tc.served || tc.unknown != (unread != "") {
					t.Errorf("lookup: %+v, %q", got, unread)
				}
			})
		})
	}
}

func TestAChangedRoleIsNoticedWithinAMinute(t *testing.T) {
	inReadScene(t, func(s *readScene) {
		s.denied["deployments"] = true
		s.reads(deployments)
		s.wantReason(Forbidden, "without the role")
		notified := 0
		s.source.Notify(func(concerns Concerns) {
			if concerns(deployments, everywhere, fields.Shape{}) {
				notified++
			}
		})
		s.with(func() { delete(s.denied, "deployments") })
		time.Sleep(time.Minute)
		s.wantReason("", "with the role")
		s.with(func() { s.denied["deployments"] = true })
		time.Sleep(time.Minute)
		s.wantReason(Forbidden, "after it was removed")
		if notified != 2 {
			t.Errorf("%d notifications of two changes", notified)
		}
		s.with(func() { s.missing = true })
		s.source.catalog.expire()
		time.Sleep(time.Minute)
		s.wantReason(KindNotFound, "without its CustomResourceDefinition")
		s.reads()
		if got := s.source.ReadStatus(deployments); got != (Status{}) {
			t.Errorf("no alarm names it any more: %+v", got)
		}
	})
}

// An API server that restarts refuses everything for a moment.
func TestAResourceIsReadFurtherIfTheReviewFails(t *testing.T) {
	inReadScene(t, func(s *readScene) {
		s.reads(deployments)
		s.with(func() { s.starting = true })
		time.Sleep(time.Minute)
		if got, unread := s.source.Lookup(deployments); got.Kind != "Deployment" || unread != "" {
			t.Errorf("%+v, %q", got, unread)
		}
		if got := s.source.ReadStatus(deployments); got.Reason != Unavailable || !strings.Contains(got.Message, "cannot be read from the API server (Forbidden)") {
			t.Errorf("status %+v", got)
		}
		s.with(func() { s.starting = false })
		time.Sleep(time.Minute)
		s.wantReason("", "when it has the roles")
	})
}

// Tenants change their alarms as often as they like.
func TestAResourceIsReviewedAtOnceAndThenAtIntervals(t *testing.T) {
	inReadScene(t, func(s *readScene) {
		for i := range 100 {
			s.reads(deployments, alarm.Resource{Group: "apps", Resource: fmt.Sprint("none", i)})
			time.Sleep(100 * time.Millisecond)
			s.source.Lookup(deployments)
		}
		count := func() (n int) {
			s.with(func() { n = len(s.reviews) })
			return n
		}
		if n := count(); n > 2 {
			t.Errorf("%d reviews in ten seconds", n)
		}
		time.Sleep(5 * time.Minute)
		if n := count(); n < 25 || n > 35 {
			t.Errorf("%d reviews in five minutes", n)
		}
	})
}

func TestEachNamespaceGetsAResourceOfReadObjects(t *testing.T) {
	inReadScene(t, func(s *readScene) {
		needs := Needs{}
		for i := range 100 {
			needs.Add(alarm.Resource{Group: "apps", Resource: fmt.Sprintf("a%02d", i)}, fields.Shape{}, kube.Key{Kind: alarm.KindAlarm, Namespace: "greedy", Name: "it"})
		}
		needs.Add(deployments, fields.Shape{}, kube.Key{Kind: alarm.KindAlarm, Namespace: "modest", Name: "it"})
		s.source.SetReads(needs)
		synctest.Wait()
		s.wantReason("", "beside 100 resources of another namespace")
		var refused []string
		for r := range needs {
			if got := s.source.ReadStatus(r); got.Reason == TooMany {
				refused = append(refused, r.Resource)
			}
		}
		if slices.Sort(refused); len(refused) != 37 || refused[0] != "a63" {
			t.Errorf("refused are %v", refused)
		}
		s.reads(alarm.Resource{Group: "apps", Resource: "a99"}, deployments)
		if got := s.source.ReadStatus(alarm.Resource{Group: "apps", Resource: "a99"}); got.Reason != KindNotFound {
			t.Errorf("with enough places: %+v", got)
		}
	})
}

// A version of a CustomResourceDefinition can be removed. This is no answer about an object.
func TestAnObjectIsReadInAnotherVersionSoonAfterItsOwnIsRemoved(t *testing.T) {
	inReadScene(t, func(s *readScene) {
		s.reads(deployments)
		s.with(func() {
			s.resource.Version = "v2"
			s.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasPrefix(r.URL.Path, "/apis/apps/v1/") {
					http.NotFound(w, r)
					return true
				}
				return s.review(w, r)
			}
		})
		v1 := deployments
		v1.Version = "v1"
		_, err := s.source.Get(s.t.Context(), v1, "shop", "web")
		if _, isAnswer := err.(apierrors.APIStatus); err == nil || isAnswer {
			t.Errorf("a version that is not served: %v", err)
		}
		time.Sleep(time.Minute)
		if got, _ := s.source.Lookup(deployments); got.Version != "v2" {
			t.Errorf("served as %+v, want v2", got)
		}
	})
}
