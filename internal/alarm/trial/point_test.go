package trial

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// alarmOf is a manifest with an expression and a title.
func alarmOf(t *testing.T, expression, title string) []Manifest {
	t.Helper()
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
	}
	text := "apiVersion: bongsu.io/v1alpha1\nkind: ClusterAlarm\nmetadata: {name: a}\nspec:\n  match: [{expression: " +
		quote(expression) + "}]\n  message: {title: " + quote(title) + "}\n  receivers: [{name: ops}]\n"
	file, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return file.Alarms
}

func TestTheCaretIsUnderWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct{ expression, title, want string }{
		"one line": {
			expression: `event.reson == "BackOff"`,
			want:       "    event.reson == \"BackOff\"\n         ^",
		},
		"the second of three lines": {
			expression: "event.count > 1 &&\n  evnt.reason == \"x\" &&\n  true",
			want:       "      evnt.reason == \"x\" &&\n      ^",
		},
		"behind wide characters and ones that are drawn upon others": {
			expression: "event.reason == \"파드 e\u0301 👍\" && nothing",
			want:       "    event.reason == \"파드 e\u0301 👍\" && nothing\n                                   ^",
		},
		"behind a tab": {
			expression: "event.count > 1 &&\n\tnothing",
			want:       "    \tnothing\n    \t^",
		},
		"in a message, shown whole": {
			expression: "true", title: "파드 ${object.nam} joined",
			want: "    파드 ${object.nam} joined\n                 ^",
		},
		"of another type": {
			expression: "event.count",
			want:       "    event.count\n    ^",
		},
		"at the end": {
			expression: "event.count >",
			want:       "    event.count >\n                 ^",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(alarmOf(t, tc.expression, tc.title+"x"))
			if err == nil {
				t.Fatal("it was compiled")
			}
			if tc.title != "" {
				tc.want = strings.Replace(tc.want, "joined", "joinedx", 1)
			}
			_, shown, _ := strings.Cut(err.Error(), "\n")
			if diff := cmp.Diff(tc.want, shown); diff != "" {
				t.Errorf("%s: %s", err, diff)
			}
		})
	}
}

func TestALineCannotMoveTheCursor(t *testing.T) {
	_, err := Compile(alarmOf(t, "nothing // \u202e \u0085", ""))
	if err == nil || strings.ContainsAny(err.Error(), "\u202e\u0085") {
		t.Errorf("got %q", err)
	}
}

func FuzzPoint(f *testing.F) {
	f.Add("event.reson\n\t파 == 1")
	f.Fuzz(func(t *testing.T, expression string) {
		manifests := []Manifest{}
		for _, m := range alarmOfFuzz() {
			m.Object.AlarmSpec().Match[0].Expression = expression
			manifests = append(manifests, m)
		}
		if _, err := Compile(manifests); err != nil && strings.ContainsAny(err.Error(), "\x1b\u202e") {
			t.Errorf("it moves the cursor: %q", err)
		}
	})
}

func alarmOfFuzz() []Manifest {
	file, _ := Read(strings.NewReader(`{"apiVersion":"bongsu.io/v1alpha1","kind":"ClusterAlarm","metadata":{"name":"a"},"spec":{"match":[{}],"receivers":[{"name":"ops"}]}}`))
	return file.Alarms
}

func TestANamespaceIsReadOnceByConcurrentMatches(t *testing.T) {
	var reads atomic.Int32
	client := interceptor.NewClient(fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{"team": "shop"},
	}}).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads.Add(1)
			return c.Get(ctx, key, o, opts...)
		},
	})
	r := newClusterReader(client)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if labels, exists, unread := r.Labels("shop"); labels["team"] != "shop" || !exists || unread != "" {
				t.Errorf("got %v, %v, %q, want the labels of the namespace", labels, exists, unread)
			}
		})
	}
	all.Wait()
	if reads.Load() != 1 {
		t.Errorf("read %d times, want once", reads.Load())
	}
}
