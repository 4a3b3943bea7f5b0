// Package ack acknowledges open groups of an alarm, and ends such acknowledgements.
package ack

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// UserName returns the name that the API server knows the user by.
func UserName(ctx context.Context, c client.Client) (string, error) {
	var review authenticationv1.SelfSubjectReview
	if err := c.Create(ctx, &review); err != nil {
		return "", fmt.Errorf("ask the API server for your user name: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// Selection says which groups the user means: all, or those that Group names. If it is zero, it
// selects the only candidate.
type Selection struct {
	// Group is a key, the beginning of a key, or a name.
	Group string
	All   bool
}

// minPrefix is the shortest beginning of a key that names a group.
const minPrefix = 6

var groupKey = regexp.MustCompile(`^[0-9a-f]{32}$`)

// choose returns the selected groups. what describes the candidates.
func (s Selection) choose(candidates []v1alpha1.AlarmOpenGroup, what string) ([]v1alpha1.AlarmOpenGroup, error) {
	if s.All {
		return candidates, nil
	}
	if s.Group == "" {
		if len(candidates) == 1 {
			return candidates, nil
		}
		if len(candidates) == 0 {
			return nil, fmt.Errorf("no group is %s", what)
		}
		return nil, fmt.Errorf("%d groups are %s: use --group with one of %s, or --all", len(candidates), what, names(candidates))
	}
	var chosen []v1alpha1.AlarmOpenGroup
	for _, g := range candidates {
		if g.Key == s.Group || g.Name == s.Group || len(s.Group) >= minPrefix && strings.HasPrefix(g.Key, s.Group) {
			chosen = append(chosen, g)
		}
	}
	switch len(chosen) {
	case 0:
		return nil, errNotFound
	case 1:
		return chosen, nil
	default:
		return nil, fmt.Errorf("%q names %d groups: use --group with one of the keys %s", s.Group, len(chosen), keys(chosen))
	}
}

// errNotFound means that no group has the name.
var errNotFound = errors.New("no such group")

// ErrNotListed means that the status of the alarm lists no open group that the user can mean. It can be
// some seconds older than a message.
var ErrNotListed = errors.New("the status of the alarm, which can be some seconds older than a message")

// keys returns the keys of groups, each with the time at which the group began.
func keys(groups []v1alpha1.AlarmOpenGroup) string {
	var all []string
	for i := range groups {
		all = append(all, fmt.Sprintf("%s (since %s)", groups[i].Key, groups[i].Since.UTC().Format(time.RFC3339)))
	}
	return strings.Join(all, ", ")
}

func names(groups []v1alpha1.AlarmOpenGroup) string {
	const most = 5
	var all []string
	for i := range groups {
		if i == most {
			return strings.Join(all, ", ") + ", and others"
		}
		all = append(all, Name(&groups[i]))
	}
	return strings.Join(all, ", ")
}

// Name returns what users call a group.
func Name(g *v1alpha1.AlarmOpenGroup) string {
	if g.Name == "" {
		return g.Key
	}
	return g.Name
}

// Add acknowledges the selected groups as a user. It returns those that were not acknowledged
// before. A group that the status does not list can be selected by its key. Acknowledgements
// of groups that have ended are removed.
func Add(spec *v1alpha1.AlarmSpec, status *v1alpha1.AlarmStatus, s Selection, user, comment string, now time.Time) ([]v1alpha1.AlarmOpenGroup, error) {
	if spec.Group == nil && len(spec.States) == 0 {
		return nil, errors.New("the alarm has no groups: set spec.group")
	}
	removeEnded(spec, status)
	candidates := slices.DeleteFunc(slices.Clone(status.OpenGroups), func(g v1alpha1.AlarmOpenGroup) bool {
		return s.Group == "" && acknowledged(spec, &g)
	})
	if len(candidates) == 0 && s.Group == "" && (!s.All || len(status.OpenGroups) == 0) {
		return nil, fmt.Errorf("no group is open and not acknowledged in %w: try again when a problem was reported", ErrNotListed)
	}
	chosen, err := s.choose(candidates, "open and not acknowledged")
	if errors.Is(err, errNotFound) {
		if !groupKey.MatchString(s.Group) || status.OpenGroupCount <= int64(len(status.OpenGroups)) {
			return nil, fmt.Errorf("no open group is named %q in %w: list them with \"bongsu alarm groups\"", s.Group, ErrNotListed)
		}
		chosen, err = []v1alpha1.AlarmOpenGroup{{Key: s.Group, Since: metav1.NewTime(now)}}, nil
	}
	if err != nil {
		return nil, err
	}
	chosen = slices.DeleteFunc(slices.Clone(chosen), func(g v1alpha1.AlarmOpenGroup) bool { return acknowledged(spec, &g) })
	for i := range chosen {
		g := &chosen[i]
		spec.Acknowledgements = slices.DeleteFunc(spec.Acknowledgements, func(a v1alpha1.AlarmAcknowledgement) bool { return a.Group == g.Key })
		spec.Acknowledgements = append(spec.Acknowledgements, v1alpha1.AlarmAcknowledgement{
			Group: g.Key, Since: g.Since, By: user, Time: metav1.NewTime(now.Truncate(time.Second)), Comment: comment,
		})
	}
	if n := len(spec.Acknowledgements); n > v1alpha1.MaxAcknowledgements {
		return nil, fmt.Errorf("%d groups would be acknowledged, and at most %d can be: mute the alarm instead", n, v1alpha1.MaxAcknowledgements)
	}
	return chosen, nil
}

// acknowledged reports whether an acknowledgement applies to an open group.
func acknowledged(spec *v1alpha1.AlarmSpec, g *v1alpha1.AlarmOpenGroup) bool {
	return slices.ContainsFunc(spec.Acknowledgements, func(a v1alpha1.AlarmAcknowledgement) bool {
		return a.Group == g.Key && (!g.Since.After(a.Since.Time) || g.AcknowledgedBy == a.By && g.AcknowledgedTime.Equal(&a.Time))
	})
}

// removeEnded removes the acknowledgements of groups that have ended. If the status does not list
// all open groups, it keeps those of groups that are not listed.
func removeEnded(spec *v1alpha1.AlarmSpec, status *v1alpha1.AlarmStatus) {
	complete := status.OpenGroupCount <= int64(len(status.OpenGroups))
	spec.Acknowledgements = slices.DeleteFunc(slices.Clone(spec.Acknowledgements), func(a v1alpha1.AlarmAcknowledgement) bool {
		i := slices.IndexFunc(status.OpenGroups, func(g v1alpha1.AlarmOpenGroup) bool { return g.Key == a.Group })
		return i < 0 && complete || i >= 0 && !acknowledged(spec, &status.OpenGroups[i])
	})
}

// Remove ends acknowledgements of the selected groups, and returns these groups.
func Remove(spec *v1alpha1.AlarmSpec, status *v1alpha1.AlarmStatus, s Selection) ([]v1alpha1.AlarmOpenGroup, error) {
	removeEnded(spec, status)
	var candidates []v1alpha1.AlarmOpenGroup
	for i := range spec.Acknowledgements {
		a := &spec.Acknowledgements[i]
		g := v1alpha1.AlarmOpenGroup{Key: a.Group, Since: a.Since}
		if j := slices.IndexFunc(status.OpenGroups, func(g v1alpha1.AlarmOpenGroup) bool { return g.Key == a.Group }); j >= 0 {
			g.Name = status.OpenGroups[j].Name
		}
		candidates = append(candidates, g)
	}
	chosen, err := s.choose(candidates, "acknowledged")
	if errors.Is(err, errNotFound) {
		return nil, fmt.Errorf("no acknowledged group is named %q: list them with \"bongsu alarm groups\"", s.Group)
	}
	spec.Acknowledgements = slices.DeleteFunc(spec.Acknowledgements, func(a v1alpha1.AlarmAcknowledgement) bool {
		return slices.ContainsFunc(chosen, func(g v1alpha1.AlarmOpenGroup) bool { return g.Key == a.Group })
	})
	return chosen, err
}
