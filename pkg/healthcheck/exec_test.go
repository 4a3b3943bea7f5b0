package healthcheck_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

var command = healthcheck.Check{
	Namespace: "team", Pod: "web-0", PodUID: "uid", Timeout: 2 * time.Second,
	Exec: &healthcheck.Exec{Container: "app", Command: []string{"check", "--password", secret}},
}

func TestOutcomesOfACommand(t *testing.T) {
	for what, tc := range map[string]struct {
		result podexec.Result
		err    error
		want   string
	}{
		"well":             {podexec.Result{}, nil, "Passed"},
		"well, with words": {podexec.Result{Output: "warning: slow\n"}, nil, "Passed"},
		"not well":         {podexec.Result{ExitCode: 3}, nil, "Failed exit code 3"},
		"with words":       {podexec.Result{ExitCode: 1, Output: "\n \x1b[1mno connection\x00\r\nat line 7\n"}, nil, "Failed exit code 1: [1mno connection"},
		"with many": {podexec.Result{ExitCode: 1, Output: strings.Repeat("봉수 ", 2000), Dropped: 1e9}, nil,
			"Failed exit code 1: " + strings.Repeat("봉수 ", 70) + "봉수…"},
		"not in time":    {podexec.Result{ExitCode: 137}, podexec.ErrDeadline, "Failed the command did not end within 2 s"},
		"not at all":     {podexec.Result{}, fmt.Errorf("%w: %w", podexec.ErrLeaked, context.DeadlineExceeded), "Leaked the command did not end in time and could not be ended; no other is run until it has"},
		"forbidden":      {podexec.Result{}, fmt.Errorf("%w: by a webhook", podexec.ErrForbidden), "Forbidden the operator may not create pods/exec here"},
		"no answer":      {podexec.Result{}, context.DeadlineExceeded, "Unreachable the command could not be run in time"},
		"something else": {podexec.Result{ExitCode: 1}, errors.New("no such\ncontainer"), "Unreachable the command could not be run: no such container"},
	} {
		t.Run(what, func(t *testing.T) {
			c := checker(t, "http://unused.invalid", commands(func(ctx context.Context, target podexec.Target, argv []string, limit time.Duration) (podexec.Result, error) {
				if diff := cmp.Diff(podexec.Target{Namespace: "team", Pod: "web-0", Container: "app", UID: "uid"}, target); diff != "" {
					t.Error(diff)
				}
				deadline, _ := ctx.Deadline()
				if len(argv) != 3 || limit != 2*time.Second || time.Until(deadline) <= limit {
					t.Errorf("ran %q for %s until %s", argv, limit, deadline)
				}
				return tc.result, tc.err
			}), nil)
			got := run(t, c, command)
			expect(t, tc.want, got)
		})
	}
}

func TestACheckThatDoesNotEndIsReported(t *testing.T) {
	c := checker(t, "http://unused.invalid", nil, nil)
	expect(t, "Leaked the command did not end in time and could not be ended; no other is run until it has", c.Overdue(command))
	expect(t, "Unreachable the check does not end", c.Overdue(get("/")))
	expect(t, "Unreachable the check is empty", run(t, c, healthcheck.Check{}))
}
