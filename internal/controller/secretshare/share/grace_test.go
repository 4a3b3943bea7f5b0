package share

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// begin is the time of the first plan in these tests.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// history makes plans of a rule one after the other.
type history struct {
	t      *testing.T
	last   *Plan
	copies []Copied
	exist  []string // sources that exist but are not selected
	err    error    // of reading them
}

func (h *history) plan(rule *Rule, seconds int, listed bool, names ...string) *Plan {
	h.t.Helper()
	p := newPlan(h.t, rule, "shop")
	var secrets []*corev1.Secret
	for _, name := range names {
		secrets = append(secrets, secretNamed(name))
	}
	p.reading(secrets...)
	err := p.SetGrace(Former{
		Plan: h.last, Listed: listed, Copies: slices.Values(h.copies),
		Exists: func(name string, _ types.UID) (bool, error) { return slices.Contains(h.exist, name), h.err },
	}, begin.Add(time.Duration(seconds)*time.Second))
	if !errors.Is(err, h.err) {
		h.t.Errorf("the error is %v", err)
	}
	h.last = p
	return p
}

func (h *history) expect(p *Plan, name string, stays bool, ends int) {
	h.t.Helper()
	if got := p.Keeps(types.NamespacedName{Namespace: "shop", Name: name}, copyOf(name)); got != stays {
		h.t.Errorf("the copy of %s stays: %t", name, got)
	}
	want := time.Time{}
	if ends > 0 {
		want = begin.Add(time.Duration(ends) * time.Second)
	}
	if got := p.GraceEnds(); !got.Equal(want) {
		h.t.Errorf("the grace ends at %v, want %v", got, want)
	}
}

// The grace time of the rules is 60 seconds.
func TestSetGrace(t *testing.T) {
	rule := newRule(t, v1alpha1.KindClusterSecretShare)
	both := []Copied{copyOf("a"), copyOf("b")}
	none := newRule(t, v1alpha1.KindClusterSecretShare, func(d *Definition) { d.Spec.SourceDeletionGraceSeconds = new(int32(0)) })
	for name, steps := range map[string]func(*history){
		"a source is deleted": func(h *history) {
			h.plan(rule, 0, true, "a", "b")
			p := h.plan(rule, 100, true, "a")
			h.expect(p, "b", true, 160)
			if got := p.Problem(); got.Reason != v1alpha1.ReasonSourceDeleted || !strings.Contains(got.Message, "before 2026-01-01T00:02:40Z, or the copies are deleted") {
				t.Errorf("%+v", got)
			}
			h.expect(h.plan(rule, 159, true, "a"), "b", true, 160)
			p = h.plan(rule, 160, true, "a")
			h.expect(p, "b", false, 0)
			if got := p.WhyRemoved(nil, types.NamespacedName{Namespace: "shop", Name: "b"}, copyOf("b")); !strings.Contains(got, "b does not exist") {
				t.Errorf("removed because %q", got)
			}
		},
		"and created again": func(h *history) {
			h.plan(rule, 0, true, "a", "b")
			h.plan(rule, 100, true, "a")
			p := h.plan(rule, 120, true, "a", "b")
			h.expect(p, "b", true, 160)
			if got := p.Problem(); got.Reason != "" {
				t.Errorf("%+v", got)
			}
		},
		"and deleted again": func(h *history) {
			h.copies = append(h.copies, copyOf("b#2"))
			h.plan(rule, 0, true, "a", "b")
			h.plan(rule, 100, true, "a")
			h.plan(rule, 110, true, "a", "b#2")
			h.expect(h.plan(rule, 120, true, "a"), "b", true, 180)
		},
		"another spec.source after the start": func(h *history) {
			h.copies = append(h.copies, copyOf("c"))
			h.expect(h.plan(rule, 0, true, "a", "b"), "c", true, 60)
			h.expect(h.plan(newRule(t, v1alpha1.KindClusterSecretShare, from("a", "b", "c")), 30, true, "a", "b"), "c", false, 0)
		},
		"without a copy": func(h *history) {
			h.copies = nil
			h.plan(rule, 0, true, "a", "b")
			h.expect(h.plan(rule, 100, true, "a"), "b", false, 0)
		},
		"a source that still exists": func(h *history) {
			h.exist = []string{"b"}
			h.plan(rule, 0, true, "a", "b")
			h.expect(h.plan(rule, 100, true, "a"), "b", false, 0)
		},
		"a source that cannot be read": func(h *history) {
			h.plan(rule, 0, true, "a", "b")
			h.err = errors.New("the API server is down")
			h.plan(rule, 100, true, "a")
		},
		"and is read later": func(h *history) {
			h.plan(rule, 0, true, "a", "b")
			h.err = errors.New("the API server is down")
			h.plan(rule, 100, true, "a")
			h.err = nil
			h.expect(h.plan(rule, 110, true, "a"), "b", true, 170)
		},
		"a rule without a grace": func(h *history) {
			h.plan(none, 0, true, "a", "b")
			h.expect(h.plan(none, 100, true, "a"), "b", false, 0)
		},
		"another spec.source": func(h *history) {
			h.plan(rule, 0, true, "a", "b")
			h.expect(h.plan(newRule(t, v1alpha1.KindClusterSecretShare, from("a")), 100, true, "a"), "b", false, 0)
		},
		"deleted before the start": func(h *history) {
			p := h.plan(rule, 0, true, "a")
			h.expect(p, "b", true, 60)
			if got := p.Awaited(); got != "; copies whose source was not found are deleted at 2026-01-01T00:01:00Z" {
				t.Errorf("%q", got)
			}
			h.expect(h.plan(rule, 60, true, "a"), "b", false, 0)
		},
		"before the copies are known": func(h *history) {
			h.expect(h.plan(rule, 0, false, "a"), "b", true, 0)
			h.expect(h.plan(rule, 30, true, "a"), "b", true, 90)
		},
	} {
		t.Run(name, func(t *testing.T) { steps(&history{t: t, copies: slices.Clone(both)}) })
	}
}

// The sources are "a", with the UID "1", and "b", with the UID "2".
func TestNextGrace(t *testing.T) {
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	read := map[string]string{"a": "1/1", "b": "2/1"}
	// seen is a sighting at 100 s in which b is gone, without a change of spec.source.
	seen := sighting{
		grace: time.Minute, listed: true, versions: map[string]string{"a": "1/1"}, gone: map[types.UID]string{"2": "b"},
		selects: func(string) bool { return true }, unfound: func() bool { return true },
	}
	with := func(change func(*sighting)) sighting { s := seen; change(&s); return s }
	gone := map[types.UID]deletedSource{"2": {"b", at(100)}}
	for name, tc := range map[string]struct {
		last, want grace
		seen       sighting
	}{
		"the first plan knows nothing of what was deleted before": {
			seen: with(func(s *sighting) { s.gone = nil }),
			want: grace{begun: at(100), read: seen.versions, settles: at(160)},
		},
		"a source is deleted long after the start": {
			last: grace{begun: at(0), read: read}, seen: seen,
			want: grace{begun: at(0), read: seen.versions, deleted: gone},
		},
		"copies without a source stay until the first grace is over": {
			last: grace{begun: at(50), read: read}, seen: seen,
			want: grace{begun: at(50), read: seen.versions, deleted: gone, settles: at(110)},
		},
		"no copy lacks a source": {
			last: grace{begun: at(50), read: read}, seen: with(func(s *sighting) { s.gone, s.unfound = nil, func() bool { return false } }),
			want: grace{begun: at(50), read: seen.versions},
		},
		"the sources are unknown": {
			last: grace{begun: at(50), read: read, deleted: map[types.UID]deletedSource{"3": {"c", at(60)}}},
			seen: with(func(s *sighting) { s.unknown, s.versions, s.gone = true, nil, nil }),
			want: grace{begun: at(50), read: read, deleted: map[types.UID]deletedSource{"3": {"c", at(60)}}},
		},
		"the sources were never known": {
			last: grace{begun: at(50)}, seen: with(func(s *sighting) { s.unknown, s.versions, s.gone = true, nil, nil }),
			want: grace{begun: at(100)},
		},
		"the copies are not known yet": {
			last: grace{begun: at(50), read: read}, seen: with(func(s *sighting) { s.listed, s.gone = false, nil }),
			want: grace{begun: at(50), read: seen.versions, unlisted: true},
		},
		"the copies are known now": {
			last: grace{begun: at(50), read: read, unlisted: true}, seen: with(func(s *sighting) { s.gone = nil }),
			want: grace{begun: at(100), read: seen.versions, settles: at(160)},
		},
		"spec.source is new": {
			last: grace{begun: at(50), read: read}, seen: with(func(s *sighting) { s.isNew, s.gone = true, nil }),
			want: grace{read: seen.versions},
		},
		"the rule has no grace": {
			last: grace{begun: at(50), read: read, deleted: gone}, seen: with(func(s *sighting) { s.grace, s.listed = 0, false }),
			want: grace{begun: at(50), read: seen.versions},
		},
		"the grace of an earlier source is over": {
			last: grace{begun: at(0), read: read, deleted: map[types.UID]deletedSource{"3": {"c", at(40)}, "4": {"d", at(41)}}}, seen: seen,
			want: grace{begun: at(0), read: seen.versions, deleted: map[types.UID]deletedSource{"4": {"d", at(41)}, "2": {"b", at(100)}}},
		},
		"an earlier source has the same name": {
			last: grace{begun: at(0), read: read, deleted: map[types.UID]deletedSource{"3": {"b", at(90)}}}, seen: seen,
			want: grace{begun: at(0), read: seen.versions, deleted: map[types.UID]deletedSource{"3": {"b", at(100)}, "2": {"b", at(100)}}},
		},
		"an earlier source is no longer selected": {
			last: grace{begun: at(0), read: read, deleted: map[types.UID]deletedSource{"3": {"c", at(90)}}},
			seen: with(func(s *sighting) { s.selects = func(name string) bool { return name != "c" } }),
			want: grace{begun: at(0), read: seen.versions, deleted: gone},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.last.next(tc.seen, at(100))
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(grace{}, deletedSource{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
