package match

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// second returns a time, in seconds after a fixed one.
func second(s int64) time.Time { return time.Unix(1_800_000_000+s, 0) }

func TestAThresholdCountsOccurrencesWithinItsWindow(t *testing.T) {
	threshold := Threshold{Count: 3, Within: time.Minute}
	for name, tc := range map[string]struct {
		add  []bucket // seconds, and the increase of the count
		want []bool
	}{
		"single occurrences":       {[]bucket{{0, 1}, {1, 1}, {2, 1}}, []bool{false, false, true}},
		"an increase of several":   {[]bucket{{0, 1}, {1, 2}}, []bool{false, true}},
		"one large increase":       {[]bucket{{0, 30}}, []bool{true}},
		"all in one second":        {[]bucket{{0, 1}, {0, 1}, {0, 1}}, []bool{false, false, true}},
		"just within":              {[]bucket{{0, 1}, {30, 1}, {60, 1}}, []bool{false, false, true}},
		"just not within":          {[]bucket{{0, 1}, {30, 1}, {61, 1}}, []bool{false, false, false}},
		"the window slides":        {[]bucket{{0, 1}, {30, 1}, {61, 1}, {90, 1}}, []bool{false, false, false, true}},
		"a large increase expires": {[]bucket{{0, 3}, {60, 1}, {61, 1}}, []bool{true, true, false}},
		"late, but within":         {[]bucket{{10, 1}, {60, 1}, {5, 1}}, []bool{false, false, true}},
		"too late":                 {[]bucket{{60, 2}, {100, 1}, {39, 3}, {161, 1}}, []bool{false, true, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var b SlidingWindow
			var got []bool
			for _, m := range tc.add {
				var reached bool
				b, reached = threshold.Add(b, second(m.at), m.n)
				got = append(got, reached)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A SlidingWindow drops what it does not need, and is encoded each time. It must decide
// like one that keeps everything.
func TestSlidingWindowKeepsEverythingThatCounts(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		threshold := Threshold{Count: 2 + random.Int64N(9), Within: time.Duration(1+random.IntN(60)) * time.Second}
		var all []bucket
		var b SlidingWindow
		now := int64(0)
		for range 200 {
			now += random.Int64N(10)
			m := bucket{now - random.Int64N(3), 1 + random.Int64N(3)}
			all = append(all, m)
			var reached bool
			b, reached = threshold.Add(b, second(m.at), m.n)
			if want := enough(all, threshold); reached != want {
				t.Fatalf("seed %d, %+v: got %t after %v", seed, threshold, reached, all)
			}
			if int64(len(b.buckets)) > threshold.Count {
				t.Fatalf("seed %d: %d buckets are kept for a count of %d", seed, len(b.buckets), threshold.Count)
			}
			b = throughEncoding(t, b)
		}
	}
}

// enough counts the occurrences in the window that ends with the newest one.
func enough(all []bucket, threshold Threshold) bool {
	newest := slices.MaxFunc(all, func(a, b bucket) int { return int(a.at - b.at) }).at
	var sum int64
	for _, m := range all {
		if m.at >= newest-int64(threshold.Within/time.Second) {
			sum += m.n
		}
	}
	return sum >= threshold.Count
}

func throughEncoding(t *testing.T, b SlidingWindow) (restored SlidingWindow) {
	t.Helper()
	data, err := b.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := restored.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	return restored
}

func TestInvalidSlidingWindowIsRefused(t *testing.T) {
	for _, data := range [][]byte{{0x80}, {0x02}, {0x02, 0x80}} {
		if err := new(SlidingWindow).UnmarshalBinary(data); err == nil {
			t.Errorf("%x was read", data)
		}
	}
}

func TestAddDoesNotChangeItsArgument(t *testing.T) {
	threshold := Threshold{Count: 5, Within: time.Minute}
	before, _ := threshold.Add(SlidingWindow{}, second(0), 1)
	before, _ = threshold.Add(before, second(10), 1)
	copied := slices.Clone(before.buckets)
	threshold.Add(before, second(5), 1)
	threshold.Add(before, second(10), 1)
	if diff := cmp.Diff(copied, before.buckets, cmp.AllowUnexported(bucket{})); diff != "" {
		t.Error(diff)
	}
}
