package budget

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func created(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

func claimOf(namespace string, age int, bytes int64) Claim {
	return Claim{Namespace: namespace, CreatedAt: created(age), UID: fmt.Sprint(age), Bytes: bytes}
}

func TestOlderObjectsOfANamespaceComeFirst(t *testing.T) {
	b := New[string](10, 25)
	set := func(key string, c Claim, want Decision, changed ...string) {
		t.Helper()
		got, others := b.Set(key, c)
		if diff := cmp.Diff(changed, others, cmpopts.SortSlices(func(a, b string) bool { return a < b })); got != want || diff != "" {
			t.Errorf("%s: decision %d, want %d; changed: %s", key, got, want, diff)
		}
	}
	set("third", claimOf("a", 3, 6), Admitted)
	set("fourth", claimOf("a", 4, 5), OverNamespace)
	set("small", claimOf("a", 5, 4), Admitted)
	set("other", claimOf("b", 6, 10), Admitted)
	set("first", claimOf("a", 1, 5), Admitted, "third", "fourth", "small")
	for key, want := range map[string]Decision{
		"first": Admitted, "third": OverNamespace, "fourth": Admitted, "small": OverNamespace, "other": Admitted, "unknown": Admitted,
	} {
		if got := b.Decision(key); got != want {
			t.Errorf("%s: decision %d, want %d", key, got, want)
		}
	}
	if bytes, refused := b.Usage(); bytes != 20 || refused != 2 {
		t.Errorf("%d bytes, %d refused", bytes, refused)
	}
	set("first", claimOf("a", 1, 1), Admitted, "third", "fourth")
	if diff := cmp.Diff([]string{"fourth", "small"}, b.Delete("third"), cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Error(diff)
	}
}

// One tenant can have many namespaces.
func TestNamespacesThatUseMuchDoNotLockOutOthers(t *testing.T) {
	b := New[string](8, 64)
	for i := range 64 {
		key := fmt.Sprint("old-", i)
		b.Set(key, claimOf(fmt.Sprint("many-", i/8), i, 1))
	}
	if d, changed := b.Set("young", claimOf("other", 1000, 2)); d != Admitted || len(changed) != 2 {
		t.Errorf("decision %d; displaced: %q", d, changed)
	}
	// An old object that grows displaces objects of its own namespace.
	_, changed := b.Set("old-0", claimOf("many-0", 0, 8))
	for _, key := range changed {
		if b.Decision(key) != Admitted && b.claims[key].Namespace != "many-0" {
			t.Errorf("%s is displaced", key)
		}
	}
	if d := b.Decision("young"); d != Admitted {
		t.Errorf("decision %d", d)
	}
}

// The decisions do not depend on the order in which the objects are seen.
func TestDecisionsDependOnlyOnTheClaims(t *testing.T) {
	eachRandomChange(t, func(seed uint64, claims map[int]Claim, known map[int]Decision) {
		if diff := cmp.Diff(want(claims, 100, 250), known); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	})
}

func TestANamespaceWithinItsEqualPartOfTheTotalIsAdmitted(t *testing.T) {
	refused := 0
	eachRandomChange(t, func(seed uint64, claims map[int]Claim, known map[int]Decision) {
		use := map[string]int64{}
		for _, c := range claims {
			use[c.Namespace] += c.Bytes
		}
		for key, d := range known {
			if d != OverTotal {
				continue
			}
			refused++
			if namespace := claims[key].Namespace; use[namespace] <= 250/int64(len(use)) {
				t.Fatalf("seed %d: %d is refused, but %s claims %d bytes, and there are %d namespaces", seed, key, namespace, use[namespace], len(use))
			}
		}
	})
	if refused == 0 {
		t.Error("no claim was above the total")
	}
}

// eachRandomChange calls check after each of many changes, with the claims and with the
// decisions that were returned for them.
func eachRandomChange(t *testing.T, check func(seed uint64, claims map[int]Claim, known map[int]Decision)) {
	t.Helper()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		b, known := New[int](100, 250), map[int]Decision{}
		claims := map[int]Claim{}
		for range 100 {
			key := rng.IntN(20)
			var changed []int
			if rng.IntN(4) == 0 {
				changed = b.Delete(key)
				delete(claims, key)
				delete(known, key)
			} else {
				claims[key] = claimOf(fmt.Sprint(key%4), rng.IntN(10)*100+key, rng.Int64N(60))
				known[key], changed = b.Set(key, claims[key])
			}
			for _, other := range changed {
				known[other] = b.Decision(other)
			}
			check(seed, claims, known)
		}
	}
}

func want(claims map[int]Claim, namespaceLimit, totalLimit int64) map[int]Decision {
	var keys []int
	for key := range claims {
		keys = append(keys, key)
	}
	byAge := func(a, b int) int { return claims[a].CreatedAt.Compare(claims[b].CreatedAt) }
	slices.SortFunc(keys, byAge)
	used, sums, decisions := map[string]int64{}, map[int]int64{}, map[int]Decision{}
	var fitting []int
	for _, key := range keys {
		c := claims[key]
		if used[c.Namespace]+c.Bytes > namespaceLimit {
			decisions[key] = OverNamespace
			continue
		}
		used[c.Namespace] += c.Bytes
		sums[key] = used[c.Namespace]
		fitting = append(fitting, key)
	}
	slices.SortStableFunc(fitting, func(a, b int) int { return int(sums[a] - sums[b]) })
	total := int64(0)
	for _, key := range fitting {
		if total+claims[key].Bytes > totalLimit {
			decisions[key] = OverTotal
			continue
		}
		decisions[key] = Admitted
		total += claims[key].Bytes
	}
	return decisions
}
