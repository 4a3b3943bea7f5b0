// Package open connects the user's browser to a notebook. It forwards a local port to the
// notebook's pod, and opens the browser with the notebook's token.
//
// It uses the permissions of the user. The token appears only in what the user asks for: in
// the browser, and in the output if Config.PrintURL is set. It appears in no message or error.
package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Resource is the type of objects that can be opened.
var Resource = schema.GroupResource{Group: v1alpha1.Group, Resource: "jupyters"}

// requestTimeout limits a single request to the API server, except those that forward.
const requestTimeout = 30 * time.Second

// Config of Run. All fields are required, except those with a default.
type Config struct {
	REST            *rest.Config
	Namespace, Name string
	// Resume starts a suspended notebook. Default: report an error.
	Resume bool
	// Address is the local IP address to listen on, Port the local port. Port 0 is a free
	// port.
	Address net.IP
	Port    uint16
	// Browse opens a file in a browser. Default: no browser is opened.
	Browse func(path string) error
	// PrintURL writes the URL with the token to Out, and again when it changes.
	PrintURL bool
	Out      io.Writer
	// Status receives lines about the progress. They are plain text.
	Status func(line string)
	Clock  clock.WithTicker
	// PodInterval is the time between two checks whether the pod was replaced. Default: 10 s.
	PodInterval time.Duration
}

// Run forwards the port until ctx ends. It returns nil in that case. It connects again when
// the notebook's pod is replaced. It returns an error if the notebook does not start or is
// suspended.
func Run(ctx context.Context, config Config) error {
	requests := rest.CopyConfig(config.REST)
	requests.Timeout = requestTimeout
	api, err := kube.NewClient(requests)
	if err != nil {
		return err
	}
	config.PodInterval = cmp.Or(config.PodInterval, 10*time.Second)
	s := &session{Config: config, requests: requests, api: api, localPort: config.Port}
	err = s.run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// session is one call of Run.
type session struct {
	Config
	// requests is the configuration with a time limit.
	requests *rest.Config
	api      client.Client
	// localPort is the port in use, or 0 before the first connection.
	localPort uint16
	// token of the notebook. It is empty if the server takes no token.
	token string
	// address is the one announced, and printed is the URL on Out.
	address, printed string
	// pages is the directory of the page for the browser.
	pages string

	mu       sync.Mutex
	lastLine string
}

func (s *session) run(ctx context.Context) error {
	defer s.removePage()
	if err := s.checkPermissions(ctx); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	j, err := s.awaitReady(ctx, s.cause)
	if err != nil {
		return err
	}
	if s.token, err = s.readToken(ctx, j); err != nil {
		return err
	}
	return s.forward(ctx)
}

// say reports a line of progress, unless it repeats the line before.
func (s *session) say(format string, args ...any) {
	line := plaintext.Line(fmt.Sprintf(format, args...))
	s.mu.Lock()
	defer s.mu.Unlock()
	if line != s.lastLine {
		s.lastLine = line
		s.Status(line)
	}
}

func (s *session) String() string { return "jupyter " + s.Namespace + "/" + s.Name }

func (s *session) key() client.ObjectKey {
	return client.ObjectKey{Namespace: s.Namespace, Name: s.Name}
}

func (s *session) pod(j *v1alpha1.Jupyter) client.ObjectKey {
	return client.ObjectKey{Namespace: s.Namespace, Name: workload.NotebookPodName(j)}
}

// read reads the notebook. It fails if the notebook is being deleted.
func (s *session) read(ctx context.Context) (*v1alpha1.Jupyter, error) {
	j := &v1alpha1.Jupyter{}
	if err := s.api.Get(ctx, s.key(), j); err != nil {
		return nil, err
	}
	if j.DeletionTimestamp != nil {
		return nil, errDeleted
	}
	return j, nil
}

var errDeleted = errors.New("the notebook is being deleted")

// start resumes a suspended notebook if the user asks for that.
func (s *session) start(ctx context.Context) error {
	j, err := s.read(ctx)
	if err != nil || !j.Spec.Suspend {
		return err
	}
	if !s.Resume {
		return s.suspended(j)
	}
	s.say("%s is suspended; starting it", s)
	before := j.DeepCopy()
	j.Spec.Suspend = false
	if err := s.api.Patch(ctx, j, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("resume %s: %w", s, err)
	}
	return nil
}

func (s *session) suspended(j *v1alpha1.Jupyter) error {
	why := ""
	switch {
	case j.Annotations[v1alpha1.AnnotationCulledAt] == "":
	case j.Annotations[v1alpha1.AnnotationCulledReason] == v1alpha1.ReasonCulledFailing:
		why = " because it failed for too long"
	default:
		why = " because it was idle"
	}
	return fmt.Errorf("%s is suspended%s: add --resume to start it", s, why)
}

// checkPermissions returns an error if the user lacks a permission, before a long wait. If the
// server does not answer the question, the later request reports the problem.
func (s *session) checkPermissions(ctx context.Context) error {
	j, err := s.read(ctx)
	if err != nil {
		return err
	}
	type need struct {
		authorizationv1.ResourceAttributes
		purpose string
	}
	needs := []need{
		{authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "portforward", Name: s.pod(j).Name}, "to connect to the notebook"},
	}
	if workload.IsJupyter(j) {
		needs = append(needs, need{authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Name: workload.TokenRef(j).Name}, "to read the notebook's token"})
	}
	for _, need := range needs {
		need.Namespace = s.Namespace
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &need.ResourceAttributes},
		}
		if s.api.Create(ctx, review) == nil && !review.Status.Allowed {
			what := need.Resource
			if need.Subresource != "" {
				what += "/" + need.Subresource
			}
			return fmt.Errorf("you may not %s %s in namespace %s, which you need %s: ask for this permission, which the role edit contains",
				need.Verb, what, s.Namespace, need.purpose)
		}
	}
	return nil
}

// polling is the interval between two reads of the notebook while it starts.
const polling = time.Second

// awaitReady waits until the notebook is ready. stalled returns the error for a notebook that
// does not start by itself, or nil to continue.
func (s *session) awaitReady(ctx context.Context, stalled func(context.Context, *v1alpha1.Jupyter) error) (*v1alpha1.Jupyter, error) {
	for {
		j, err := s.read(ctx)
		switch {
		case err != nil && !isTemporary(err):
			return nil, err
		case err != nil:
			s.say("cannot read %s; trying again: %v", s, err)
		case j.Spec.Suspend:
			return nil, s.suspended(j)
		case isTrue(j, v1alpha1.ConditionReady):
			return j, nil
		case isTrue(j, v1alpha1.ConditionStalled):
			if err := stalled(ctx, j); err != nil {
				return nil, err
			}
			fallthrough
		default:
			s.say("waiting for %s: %s", s, progress(j))
		}
		if err := s.sleep(ctx, polling); err != nil {
			return nil, err
		}
	}
}

// isTemporary reports whether a read may succeed later.
func isTemporary(err error) bool {
	return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) &&
		!meta.IsNoMatchError(err) && !errors.Is(err, errDeleted) && !errors.Is(err, context.Canceled)
}

func (s *session) sleep(ctx context.Context, d time.Duration) error {
	timer := s.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// current returns a condition about the current spec, or nil.
func current(j *v1alpha1.Jupyter, name string) *metav1.Condition {
	c := meta.FindStatusCondition(j.Status.Conditions, name)
	if c == nil || c.ObservedGeneration != j.Generation {
		return nil
	}
	return c
}

func isTrue(j *v1alpha1.Jupyter, name string) bool {
	c := current(j, name)
	return c != nil && c.Status == metav1.ConditionTrue
}

// progress says why the notebook is not ready yet.
func progress(j *v1alpha1.Jupyter) string {
	ready := current(j, v1alpha1.ConditionReady)
	if ready == nil {
		return "the operator has not processed it yet: if this lasts, check that the operator is running"
	}
	return ready.Message
}

// cause returns why the notebook does not start, with the same diagnosis as `bongsu explain`.
func (s *session) cause(ctx context.Context, j *v1alpha1.Jupyter) error {
	why := current(j, v1alpha1.ConditionStalled).Message
	explainer, err := explain.New(s.requests, s.Clock)
	if err == nil {
		if x, err := explainer.Explain(ctx, Resource, s.Namespace, s.Name); err == nil && x.Cause != nil {
			why = x.Cause.Message
			if x.Cause.Advice != "" {
				why += ": " + x.Cause.Advice
			}
		}
	}
	return fmt.Errorf("%s does not start: %s (details: bongsu explain jupyter/%s -n %s)", s, plaintext.Line(why), s.Name, s.Namespace)
}

// proceed ignores that the notebook does not start: it ran before, and may recover.
func proceed(context.Context, *v1alpha1.Jupyter) error { return nil }

// readToken returns the token of the notebook. It is empty if the server takes no token.
func (s *session) readToken(ctx context.Context, j *v1alpha1.Jupyter) (string, error) {
	if !workload.IsJupyter(j) { // other servers ask their users for a password
		return "", nil
	}
	ref := workload.TokenRef(j)
	var secret corev1.Secret
	if err := s.api.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: ref.Name}, &secret); err != nil {
		return "", fmt.Errorf("read the notebook's token: %w", err)
	}
	if len(secret.Data[ref.Key]) == 0 {
		return "", fmt.Errorf("secret %s/%s has no token under key %s: put a token there", s.Namespace, ref.Name, ref.Key)
	}
	return string(secret.Data[ref.Key]), nil
}

// connected announces the address of the notebook, unless it is known. It opens the browser
// at the first connection.
func (s *session) connected(ctx context.Context, prefix string) {
	target := url.URL{Scheme: "http", Host: net.JoinHostPort(reachable(s.Address), strconv.Itoa(int(s.localPort))), Path: prefix + "/"}
	first := s.address == ""
	if s.address == target.String() {
		s.say("connected to %s again", s)
	} else {
		s.address = target.String()
		s.say("%s is at %s until you press Ctrl-C", s, s.address)
	}
	if first && !s.Address.IsLoopback() {
		s.say("warning: other machines can reach this address, and their requests are not encrypted")
	}
	if s.token != "" {
		target.RawQuery = url.Values{"token": {s.token}}.Encode()
	}
	if s.PrintURL && s.printed != target.String() {
		s.printed = target.String()
		_, _ = fmt.Fprintln(s.Out, s.printed) // the reader may have ended
	}
	if first && s.Browse != nil {
		s.handOver(ctx, target.String())
	}
}

// reachable returns an address at which this machine reaches a listener.
func reachable(ip net.IP) string {
	switch {
	case !ip.IsUnspecified():
		return ip.String()
	case ip.To4() != nil:
		return "127.0.0.1"
	}
	return net.IPv6loopback.String()
}
