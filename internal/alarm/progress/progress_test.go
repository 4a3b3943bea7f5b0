package progress

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// occurrence is what waits for a receiver, or was sent to it.
type occurrence struct {
	receiver, key string
	position      uint64
	sent, listed  bool
}

// history returns random occurrences, and the offsets that describe them.
func history(random *rand.Rand, end uint64) (all []occurrence, offsets Offsets) {
	offsets = Offsets{Position: end, Waiting: Waiting{}}
	for position := uint64(1); position <= end; position++ {
		x := occurrence{
			receiver: fmt.Sprint("r", random.IntN(3)), key: fmt.Sprint(position), position: position,
			sent: random.IntN(4) > 0, listed: random.IntN(2) == 0,
		}
		all = append(all, x)
		switch {
		case x.sent:
		case x.listed:
			offsets.Waiting.Add(x.receiver, x.key, position)
		default:
			offsets.FallBehind(x.receiver, position)
		}
	}
	return all, offsets
}

// An occurrence that is not sent must never look sent. One that was sent looks so, unless its receiver is
// behind.
func TestNothingThatWaitsIsCovered(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		all, offsets := history(random, 1+random.Uint64N(30))
		for _, x := range all {
			covered := offsets.Covers(x.receiver, x.key, x.position)
			_, behind := offsets.Behind[x.receiver]
			if covered && !x.sent || !covered && x.sent && !behind {
				t.Fatalf("seed %d: %+v: covered %t by %+v", seed, x, covered, offsets)
			}
			if !covered && x.position <= offsets.Needed() {
				t.Fatalf("seed %d: %+v is not after %d, which is needed", seed, x, offsets.Needed())
			}
		}
		if after := offsets.Position + 1; offsets.Covers("r0", "new", after) {
			t.Fatalf("seed %d: a new occurrence is covered", seed)
		}
	}
}

// An outbox began with offsets of its own, and read up to a position. Another leader knows other offsets.
func TestWhatNeitherHasIsNotCovered(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 2))
		end := 1 + random.Uint64N(20)
		all, last := history(random, end)
		_, own := history(random, random.Uint64N(end+1))
		read := random.Uint64N(end + 1)
		sum := last.With(read, own)
		for _, x := range all {
			known := last.Covers(x.receiver, x.key, x.position) || own.Covers(x.receiver, x.key, x.position) || x.position <= read
			if sum.Covers(x.receiver, x.key, x.position) && !known {
				t.Fatalf("seed %d: %+v is lost\nlast %+v\nread up to %d after %+v\nsum %+v", seed, x, last, read, own, sum)
			}
		}
	}
}

// Each receiver of a name has its own progress.
func TestOffsetsBelongToOneReceiver(t *testing.T) {
	const team, former = "AlarmReceiver/shop/team@uid", "AlarmReceiver/shop/team@former"
	for name, tc := range map[string]struct {
		offsets Offsets
		want    bool
	}{
		"nothing is known":                {Offsets{Position: 20}, true},
		"the former one is behind":        {Offsets{Position: 20, Behind: map[string]uint64{former: 5}}, true},
		"it waited for the former one":    {Offsets{Position: 20, Waiting: Waiting{former: {"key": 10}}}, true},
		"the former one is ahead":         {Offsets{Position: 5, Behind: map[string]uint64{former: 20}}, false},
		"the receiver is behind":          {Offsets{Position: 20, Behind: map[string]uint64{team: 5}}, false},
		"the receiver is ahead":           {Offsets{Position: 5, Behind: map[string]uint64{team: 20}}, true},
		"it waits for the receiver":       {Offsets{Position: 20, Waiting: Waiting{team: {"key": 10}}}, false},
		"another occurrence waits for it": {Offsets{Position: 20, Waiting: Waiting{team: {"other": 10}}}, true},
	} {
		if got := tc.offsets.Covers(team, "key", 10); got != tc.want {
			t.Errorf("%s: covered %v, want %v", name, got, tc.want)
		}
	}
}

// What waited at a reset has no known position, so the offset of a receiver that lacks something says
// nothing about it.
func TestWhatWaitedAtAResetIsCoveredOnlyIfTheReceiverHasEverything(t *testing.T) {
	for name, tc := range map[string]struct {
		offsets Offsets
		want    bool
	}{
		"the receiver has everything": {Offsets{Position: 9, Reset: true}, true},
		"it is behind":                {Offsets{Position: 9, Behind: map[string]uint64{"r": 7}, Reset: true}, false},
		"something waits for it":      {Offsets{Position: 9, Waiting: Waiting{"r": {"x": 8}}, Reset: true}, false},
		"another receiver is behind":  {Offsets{Position: 9, Behind: map[string]uint64{"other": 7}, Reset: true}, true},
		"the history began otherwise": {Offsets{Position: 9, Behind: map[string]uint64{"r": 7}}, true},
	} {
		if got := tc.offsets.CoversSurely("r", "key", alarm.ResetPosition); got != tc.want {
			t.Errorf("%s: covered %v, want %v", name, got, tc.want)
		}
		if !tc.offsets.CoversSurely("r", "key", alarm.ResetPosition+1) {
			t.Errorf("%s: a later one is not covered", name)
		}
	}
}

func TestAPositionPassesTheOffsetsOfAllReceivers(t *testing.T) {
	offsets := Offsets{Position: 5, Behind: map[string]uint64{"ahead": 8, "behind": 2}}
	for position, want := range map[uint64]bool{5: false, 7: false, 8: true} {
		if offsets.PassedBy(position) != want {
			t.Errorf("passed by %d: %t", position, !want)
		}
	}
}

func TestOffsetsAreEqualIfNoFieldDiffers(t *testing.T) {
	with := func(change func(*Offsets)) Offsets {
		o := Offsets{Position: 5, Behind: map[string]uint64{"r": 1}, Waiting: Waiting{"r": {"k": 4}}}
		change(&o)
		return o
	}
	if !with(func(*Offsets) {}).Equal(with(func(*Offsets) {})) || !(Offsets{}).Equal(Offsets{Waiting: Waiting{}}) {
		t.Error("equal offsets differ")
	}
	for name, change := range map[string]func(*Offsets){
		"position": func(o *Offsets) { o.Position++ },
		"behind":   func(o *Offsets) { o.Behind = nil },
		"waiting":  func(o *Offsets) { o.Waiting = Waiting{"r": {"k": 5}} },
		"reset":    func(o *Offsets) { o.Reset = true },
	} {
		if with(change).Equal(with(func(*Offsets) {})) {
			t.Errorf("another %s is not noticed", name)
		}
	}
}

func TestSelectedOccurrencesKeepTheirReceivers(t *testing.T) {
	all := Waiting{"a": {"1": 1, "2": 2}, "b": {"3": 3}}
	got := all.Select(func(_, _ string, position uint64) bool { return position > 1 })
	if diff := cmp.Diff(Waiting{"a": {"2": 2}, "b": {"3": 3}}, got); diff != "" {
		t.Error(diff)
	}
	if none := all.Select(func(string, string, uint64) bool { return false }); none != nil {
		t.Errorf("got %v", none)
	}
}
