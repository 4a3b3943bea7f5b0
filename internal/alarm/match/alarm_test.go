package match

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
)

func TestMatchFields(t *testing.T) {
	for name, tc := range map[string]struct {
		match v1alpha1.EventMatch
		want  Outcome
	}{
		"an empty entry":                {match: v1alpha1.EventMatch{}, want: Matched},
		"kind":                          {match: v1alpha1.EventMatch{Kinds: []string{"Node", "Pod"}}, want: Matched},
		"another kind":                  {match: v1alpha1.EventMatch{Kinds: []string{"Node"}}},
		"reason":                        {match: v1alpha1.EventMatch{Reasons: []string{"Failed", "BackOff"}}, want: Matched},
		"reason is verbatim":            {match: v1alpha1.EventMatch{Reasons: []string{"backoff", "Back*"}}},
		"reason given twice":            {match: v1alpha1.EventMatch{Reasons: []string{"BackOff", "BackOff"}}, want: Matched},
		"any reason except":             {match: v1alpha1.EventMatch{Reasons: []string{"!Pulled", "!backoff"}}, want: Matched},
		"an excepted reason":            {match: v1alpha1.EventMatch{Reasons: []string{"!Pulled", "!BackOff"}}},
		"a reason that is excepted too": {match: v1alpha1.EventMatch{Reasons: []string{"BackOff", "!BackOff"}}},
		"type":                          {match: v1alpha1.EventMatch{Types: []v1alpha1.EventType{"Warning"}}, want: Matched},
		"another type":                  {match: v1alpha1.EventMatch{Types: []v1alpha1.EventType{"Normal"}}},
		"name":                          {match: v1alpha1.EventMatch{Names: []string{"db-?", "web-?"}}, want: Matched},
		"another name":                  {match: v1alpha1.EventMatch{Names: []string{"web", "db-*"}}},
		"note":                          {match: v1alpha1.EventMatch{Note: "Back-off*web-0"}, want: Matched},
		"note must match as a whole":    {match: v1alpha1.EventMatch{Note: "restarting"}},
		"all fields must match":         {match: v1alpha1.EventMatch{Kinds: []string{"Pod"}, Reasons: []string{"Failed"}}},
		"reason fits but kind does not": {match: v1alpha1.EventMatch{Kinds: []string{"Node"}, Reasons: []string{"BackOff"}}},
		"labels":                        {match: v1alpha1.EventMatch{ObjectSelector: labelSelector("app", "web")}, want: Matched},
		"other labels":                  {match: v1alpha1.EventMatch{ObjectSelector: labelSelector("app", "db")}},
		"empty selector":                {match: v1alpha1.EventMatch{ObjectSelector: &metav1.LabelSelector{}}, want: Matched},
		"expression":                    {match: v1alpha1.EventMatch{Expression: `event.count > 10 && object.metadata.labels.tier == "front"`}, want: Matched},
		"expression is false":           {match: v1alpha1.EventMatch{Expression: `cluster.nodes > 3`}},
		"selector fits, expression not": {match: v1alpha1.EventMatch{ObjectSelector: labelSelector("app", "web"), Expression: `false`}},
		"expression fits, selector not": {match: v1alpha1.EventMatch{ObjectSelector: labelSelector("app", "db"), Expression: `true`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := outcome(t, clusterAlarm(tc.match), podOccurrence(), podContext())
			if got.Outcome != tc.want || got.Err != nil {
				t.Errorf("got %+v, want outcome %v", got, tc.want)
			}
		})
	}
}

func TestAnyEntryMatchesAndAnAlarmIsACandidateOnce(t *testing.T) {
	def := clusterAlarm(
		v1alpha1.EventMatch{Reasons: []string{"Failed"}},
		v1alpha1.EventMatch{Reasons: []string{"BackOff"}, Expression: `false`},
		v1alpha1.EventMatch{Kinds: []string{"Pod"}},
		v1alpha1.EventMatch{},
	)
	if got := outcome(t, def, podOccurrence(), podContext()); got.Outcome != Matched {
		t.Errorf("got %+v, want Matched", got)
	}
}

func TestOccurrencesBeforeTheAlarmDoNotMatch(t *testing.T) {
	for name, tc := range map[string]struct {
		createdAt, resumedAt time.Time
		want                 Outcome
	}{
		"created before":             {createdAt: lastSeen.Add(-time.Second), want: Matched},
		"created in the same second": {createdAt: lastSeen, want: Matched},
		"created after":              {createdAt: lastSeen.Add(time.Second), want: NotMatched},
		"resumed before":             {createdAt: lastSeen.Add(-time.Hour), resumedAt: lastSeen, want: Matched},
		"resumed after":              {createdAt: lastSeen.Add(-time.Hour), resumedAt: lastSeen.Add(time.Second), want: NotMatched},
	} {
		t.Run(name, func(t *testing.T) {
			def := clusterAlarm(v1alpha1.EventMatch{})
			def.CreatedAt, def.ResumedAt = tc.createdAt, tc.resumedAt
			if got := outcome(t, def, podOccurrence(), podContext()); got.Outcome != tc.want {
				t.Errorf("got %+v, want %v", got, tc.want)
			}
		})
	}
}

func TestASuspendedAlarmMatchesNothing(t *testing.T) {
	def := clusterAlarm(v1alpha1.EventMatch{})
	def.Spec.Suspend = true
	if got := outcome(t, def, podOccurrence(), podContext()); got.Outcome != NotMatched {
		t.Errorf("got %+v, want NotMatched", got)
	}
}

func TestScope(t *testing.T) {
	inShop := podOccurrence()
	claimsShop := podOccurrence(func(occ *alarm.Occurrence) { occ.Event.Namespace = "attacker" })
	storedInShop := podOccurrence(func(occ *alarm.Occurrence) { occ.Event.Regarding.Namespace = "victim" })
	storedInShopOfNode := nodeOccurrence()
	storedInShopOfNode.Event.Namespace = "shop"
	everything := v1alpha1.EventMatch{}
	selecting := func(key, value string) Definition {
		def := clusterAlarm(everything)
		def.NamespaceSelector = labelSelector(key, value)
		return def
	}
	selectingAny := clusterAlarm(everything)
	selectingAny.NamespaceSelector = &metav1.LabelSelector{}

	for name, tc := range map[string]struct {
		def  Definition
		occ  *alarm.Occurrence
		want Outcome
	}{
		"Alarm sees its own namespace":                          {namespacedAlarm("shop", everything), inShop, Matched},
		"Alarm does not see another namespace":                  {namespacedAlarm("other", everything), inShop, NotMatched},
		"Alarm does not see an Event stored elsewhere":          {namespacedAlarm("shop", everything), claimsShop, NotMatched},
		"Alarm does not see an object elsewhere":                {namespacedAlarm("victim", everything), storedInShop, NotMatched},
		"Alarm does not see a foreign object of its Events":     {namespacedAlarm("shop", everything), storedInShop, NotMatched},
		"Alarm of default does not see Nodes":                   {namespacedAlarm("default", everything), nodeOccurrence(), NotMatched},
		"Alarm does not see a Node's Event in its namespace":    {namespacedAlarm("shop", everything), storedInShopOfNode, NotMatched},
		"Alarm without a namespace sees nothing":                {namespacedAlarm("", everything), nodeOccurrence(), NotMatched},
		"ClusterAlarm sees Pods":                                {clusterAlarm(everything), inShop, Matched},
		"ClusterAlarm sees Nodes":                               {clusterAlarm(everything), nodeOccurrence(), Matched},
		"ClusterAlarm sees Events whose namespaces disagree":    {clusterAlarm(everything), claimsShop, Matched},
		"namespaceSelector selects":                             {selecting("team", "shop"), inShop, Matched},
		"namespaceSelector does not select":                     {selecting("team", "other"), inShop, NotMatched},
		"namespaceSelector leaves Nodes out":                    {selectingAny, nodeOccurrence(), NotMatched},
		"namespaceSelector trusts only Events of the namespace": {selecting("team", "shop"), claimsShop, NotMatched},
		"namespaceSelector leaves unknown namespaces out": {selectingAny, podOccurrence(func(occ *alarm.Occurrence) {
			occ.Event.Namespace, occ.Event.Regarding.Namespace = "gone", "gone"
		}), NotMatched},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcome(t, tc.def, tc.occ, podContext()); got.Outcome != tc.want {
				t.Errorf("got %+v, want %v", got, tc.want)
			}
		})
	}
}

func TestOutcomeIfTheObjectIsGone(t *testing.T) {
	gone := &alarm.Context{Object: alarm.Object{Kind: "Pod", Metadata: alarm.ObjectMeta{Namespace: "shop", Name: "web-0"}}}
	for name, tc := range map[string]struct {
		match []v1alpha1.EventMatch
		want  Outcome
	}{
		"selector":                            {[]v1alpha1.EventMatch{{ObjectSelector: labelSelector("app", "web")}}, Unresolved},
		"empty selector":                      {[]v1alpha1.EventMatch{{ObjectSelector: &metav1.LabelSelector{}}}, Unresolved},
		"label in an expression":              {[]v1alpha1.EventMatch{{Expression: `object.metadata.labels.app == "web"`}}, Unresolved},
		"has() of a label":                    {[]v1alpha1.EventMatch{{Expression: `!has(object.metadata.labels.app)`}}, Matched},
		"creation time":                       {[]v1alpha1.EventMatch{{Expression: `event.lastSeen - object.metadata.creationTimestamp < duration("10m")`}}, NotMatched},
		"name":                                {[]v1alpha1.EventMatch{{Expression: `object.metadata.name == "web-0"`}}, Matched},
		"no object needed":                    {[]v1alpha1.EventMatch{{Kinds: []string{"Pod"}}}, Matched},
		"another entry matches":               {[]v1alpha1.EventMatch{{ObjectSelector: labelSelector("app", "web")}, {}}, Matched},
		"the Event does not match":            {[]v1alpha1.EventMatch{{Kinds: []string{"Node"}, ObjectSelector: labelSelector("app", "web")}}, NotMatched},
		"a failure without use of the object": {[]v1alpha1.EventMatch{{Expression: `1 / (event.count - 12) == 1`}}, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcome(t, clusterAlarm(tc.match...), podOccurrence(), gone); got.Outcome != tc.want {
				t.Errorf("got %+v, want %v", got, tc.want)
			}
		})
	}
}

func TestFailureIsReportedAndOtherEntriesStillMatch(t *testing.T) {
	failing := v1alpha1.EventMatch{Expression: `object.metadata.labels["missing"] == "x"`}
	for name, tc := range map[string]struct {
		match []v1alpha1.EventMatch
		want  Outcome
	}{
		"alone":                  {[]v1alpha1.EventMatch{failing}, Failed},
		"before one that fits":   {[]v1alpha1.EventMatch{failing, {}}, Matched},
		"before one that is not": {[]v1alpha1.EventMatch{failing, {Expression: "false"}}, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			got := outcome(t, clusterAlarm(tc.match...), podOccurrence(), podContext())
			if got.Outcome != tc.want {
				t.Errorf("got %v, want %v", got.Outcome, tc.want)
			}
			if want := "spec.match[0].expression: no such key: missing"; got.Err == nil || got.Err.Error() != want {
				t.Errorf("got error %v, want %s", got.Err, want)
			}
		})
	}
}

func TestCostIsLimitedWhileRunning(t *testing.T) {
	known := podContext()
	for i := range 100_000 { // far more labels than any object has
		known.Object.Metadata.Labels[strings.Repeat("x", i%50)+time.Unix(int64(i), 0).String()] = "y"
	}
	match := v1alpha1.EventMatch{Expression: `object.metadata.labels.all(k, k != "z")`}
	got := outcome(t, clusterAlarm(match), podOccurrence(), known)
	if got.Outcome != Failed || got.Err == nil {
		t.Errorf("got %+v, want Failed because of the cost limit", got)
	}
}

func TestCancelledContextIsAFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	known := podContext()
	for i := range 1000 {
		known.Object.Metadata.Labels[time.Unix(int64(i), 0).String()] = "y"
	}
	a := mustCompile(t, clusterAlarm(v1alpha1.EventMatch{Expression: `object.metadata.labels.all(k, k != "z")`}))
	got := candidatesOf(NewIndex([]*Alarm{a}), podOccurrence(), nil, nil)[0].Match(ctx, known)
	if got.Outcome != Failed || !errors.Is(got.Err, context.Canceled) {
		t.Errorf("got %+v, want Failed because of the context", got)
	}
}

// An alarm waits only for data that its result depends on.
func TestOutcomeIfDataIsUnread(t *testing.T) {
	const busy, starting alarm.Unread = "the object is unread", "the Nodes are unread"
	object := &alarm.Context{ObjectUnread: busy, Cluster: alarm.Cluster{Name: "prod", Nodes: 3}}
	nodes := podContext()
	nodes.Cluster.Nodes, nodes.NodesUnread = 0, starting
	selector := v1alpha1.EventMatch{ObjectSelector: labelSelector("app", "web")}
	for name, tc := range map[string]struct {
		known *alarm.Context
		match []v1alpha1.EventMatch
		want  Result
	}{
		"selector":                         {object, []v1alpha1.EventMatch{selector}, Result{Outcome: Undecided, Unread: busy}},
		"expression over the object":       {object, []v1alpha1.EventMatch{{Expression: `!has(object.metadata.labels.app)`}}, Result{Outcome: Undecided, Unread: busy}},
		"expression over Nodes":            {object, []v1alpha1.EventMatch{{Expression: `cluster.nodes > 2`}}, Result{Outcome: Matched}},
		"event only":                       {object, []v1alpha1.EventMatch{{Expression: `event.count > 1`}}, Result{Outcome: Matched}},
		"another entry matches":            {object, []v1alpha1.EventMatch{selector, {}}, Result{Outcome: Matched}},
		"another entry does not match":     {object, []v1alpha1.EventMatch{{Expression: `event.count < 1`}, selector}, Result{Outcome: Undecided, Unread: busy}},
		"another entry fails":              {object, []v1alpha1.EventMatch{{Expression: `1 / (event.count - 12) == 1`}, selector}, Result{Outcome: Undecided, Unread: busy}},
		"the entry cannot match":           {object, []v1alpha1.EventMatch{{Kinds: []string{"Node"}, ObjectSelector: labelSelector("app", "web")}}, Result{Outcome: NotMatched}},
		"Nodes, expression over Nodes":     {nodes, []v1alpha1.EventMatch{{Expression: `cluster.nodes > 2`}}, Result{Outcome: Undecided, Unread: starting}},
		"Nodes, in a list":                 {nodes, []v1alpha1.EventMatch{{Expression: `[cluster][0].nodes > 2`}}, Result{Outcome: Undecided, Unread: starting}},
		"Nodes, expression over a name":    {nodes, []v1alpha1.EventMatch{{Expression: `cluster.name == "prod"`}}, Result{Outcome: Matched}},
		"Nodes, expression over an object": {nodes, []v1alpha1.EventMatch{{Expression: `object.metadata.labels.app == "web"`}}, Result{Outcome: Matched}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcome(t, clusterAlarm(tc.match...), podOccurrence(), tc.known); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestGroupsByLabelsWaitForTheObject(t *testing.T) {
	unread := &alarm.Context{ObjectUnread: "not now"}
	for key, want := range map[string]Outcome{"object.labels[team]": Undecided, "object.annotations[team]": Undecided, "regarding.name": Matched} {
		if got := outcome(t, groupedBy("reason", key), podOccurrence(), unread); got.Outcome != want {
			t.Errorf("grouped by %s: %+v, want %v", key, got, want)
		}
	}
}

func TestANamespaceSelectorWaitsForTheNamespace(t *testing.T) {
	inSlow := podOccurrence(func(occ *alarm.Occurrence) { occ.Event.Namespace, occ.Event.Regarding.Namespace = "slow", "slow" })
	selecting := clusterAlarm(v1alpha1.EventMatch{})
	selecting.NamespaceSelector = labelSelector("team", "shop")
	if got := outcome(t, selecting, inSlow, podContext()); got.Outcome != Undecided || got.Unread == "" {
		t.Errorf("with a selector: %+v", got)
	}
	if got := outcome(t, clusterAlarm(v1alpha1.EventMatch{}), inSlow, podContext()); got.Outcome != Matched {
		t.Errorf("without a selector: %+v", got)
	}
}
