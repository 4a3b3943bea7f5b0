// Package operations runs random sequences of operations on a system under test. A sequence
// that fails is printed after as many operations as possible were removed from it. Pass it as
// -sequence.ops to run it again.
package operations

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	seeds    = flag.Int("sequence.seeds", 5, "number of random sequences; 0 is no limit")
	seed     = flag.Uint64("sequence.seed", 0, "seed of the first sequence")
	duration = flag.Duration("sequence.for", time.Minute, "begin no sequence after this time; 0 is no limit")
	shrinks  = flag.Duration("sequence.shrink", time.Minute, "make a sequence that fails shorter for this time")
	given    = flag.String("sequence.ops", "", "run this sequence of operations only")
)

// Operation is one step of a sequence. The meaning of A and B depends on the kind. Random
// ones are less than 24.
type Operation struct {
	Kind string
	A, B int
}

// String returns what Parse reads.
func (o Operation) String() string { return fmt.Sprintf("%s(%d,%d)", o.Kind, o.A, o.B) }

// Kind is a kind of operation on a world of type W.
type Kind[W any] struct {
	// Weight is how often it is chosen.
	Weight int
	Apply  func(w W, o Operation)
}

// Kinds are the kinds of operations by name.
type Kinds[W any] map[string]Kind[W]

// Random returns the random sequence of a seed. It has least to most operations.
func (k Kinds[W]) Random(seed uint64, least, most int) []Operation {
	r := rand.New(rand.NewPCG(seed, 2))
	var names []string
	for name, kind := range k {
		names = append(names, slices.Repeat([]string{name}, kind.Weight)...)
	}
	slices.Sort(names)
	sequence := make([]Operation, least+r.IntN(most-least+1))
	for i := range sequence {
		sequence[i] = Operation{names[r.IntN(len(names))], r.IntN(24), r.IntN(24)}
	}
	return sequence
}

// Parse returns the sequence of a text, in which A and B are optional.
func (k Kinds[W]) Parse(t *testing.T, text string) []Operation {
	t.Helper()
	var sequence []Operation
	for field := range strings.FieldsSeq(text) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(field, ")"), "(")
		first, second, _ := strings.Cut(rest, ",")
		o := Operation{Kind: name}
		for number, text := range map[*int]string{&o.A: first, &o.B: second} {
			n, err := strconv.Atoi(text)
			if err != nil && text != "" {
				t.Fatalf("%s: %v", field, err)
			}
			*number = n
		}
		if k[name].Apply == nil {
			t.Fatalf("unknown operation %q", name)
		}
		sequence = append(sequence, o)
	}
	return sequence
}

func format(sequence []Operation) string {
	var text []string
	for _, o := range sequence {
		text = append(text, o.String())
	}
	return strings.Join(text, " ")
}

// Run runs a sequence and returns what is wrong. The kind of a problem is its text up to the
// first colon.
type Run func(t *testing.T, sequence []Operation) (problems []string)

func classOf(problem string) string {
	class, _, _ := strings.Cut(problem, ":")
	return class
}

// maxFailures is the number of sequences that fail before the test ends.
const maxFailures = 3

// Test runs random sequences of least to most operations, or the one of -sequence.ops. It
// returns how many passed. It prints a sequence whose run ends the test, for example by t.Fatal.
func Test[W any](t *testing.T, kinds Kinds[W], least, most int, run Run) (passed int) {
	t.Helper()
	if *given != "" {
		if problems := run(t, kinds.Parse(t, *given)); len(problems) > 0 {
			t.Errorf("%s", strings.Join(problems, "\n"))
		}
		return 1
	}
	begin, failed := time.Now(), 0
	var running string
	defer func() {
		if running != "" {
			t.Log("the test ended in " + running)
		}
	}()
	for next := *seed; (passed+failed < *seeds || *seeds <= 0) && failed < maxFailures; next++ {
		if *duration > 0 && time.Since(begin) > *duration {
			break
		}
		sequence := kinds.Random(next, least, most)
		running = fmt.Sprintf("seed %d\n-sequence.ops='%s'", next, format(sequence))
		problems := run(t, sequence)
		running = ""
		if len(problems) == 0 {
			passed++
			continue
		}
		t.Logf("seed %d fails: %s\n-sequence.ops='%s'", next, strings.Join(problems, "\n"), format(sequence))
		shorter, left := shrink(t, run, sequence, problems)
		t.Errorf("seed %d: %s\n-sequence.ops='%s'\nshorter: %s\n-sequence.ops='%s'", next,
			strings.Join(problems, "\n"), format(sequence), strings.Join(left, "\n"), format(shorter))
		failed++
	}
	return passed
}

// shrink removes operations from a sequence, as long as it fails with a problem of the same
// kind. It returns the rest and its problems.
func shrink(t *testing.T, run Run, sequence []Operation, problems []string) ([]Operation, []string) {
	t.Helper()
	class, begin := classOf(problems[0]), time.Now()
	for size := (len(sequence) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(sequence) && time.Since(begin) < *shrinks; {
			shorter := slices.Concat(sequence[:from], sequence[min(from+size, len(sequence)):])
			found := slices.DeleteFunc(run(t, shorter), func(problem string) bool { return classOf(problem) != class })
			if len(found) > 0 {
				sequence, problems = shorter, found
			} else {
				from += size
			}
		}
	}
	return sequence, problems
}
